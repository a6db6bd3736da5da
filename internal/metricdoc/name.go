package metricdoc

import "strings"

// isPlain tells whether a name is of small letters, digits and underscores, and begins with a letter.
func isPlain(name string) bool {
	return isPart(name) && name[0] >= 'a' && name[0] <= 'z'
}

// isPart tells whether text can be part of a name.
func isPart(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return text != ""
}

// cutPlaceholder gives what stands before and behind the word of capital letters in a name, such as "" and "_usecs" of
// NAME_usecs.
func cutPlaceholder(name string) (before, after string, ok bool) {
	isCapital := func(r rune) bool { return r >= 'A' && r <= 'Z' }
	start := strings.IndexFunc(name, isCapital)
	if start < 0 {
		return "", "", false
	}
	before, after = name[:start], strings.TrimLeftFunc(name[start:], isCapital)
	return before, after, true
}

// isName tells whether a tag or a field can be documented under a name.
func isName(name string) bool {
	before, after, ok := cutPlaceholder(name)
	if !ok {
		return isPlain(name)
	}
	return (before == "" || isPlain(before) && strings.HasSuffix(before, "_")) &&
		(after == "" || isPart(after) && strings.HasPrefix(after, "_"))
}

// fit tells how well a documented name fits one that a point has: 0 is not at all.
func fit(documented, name string) int {
	before, after, ok := cutPlaceholder(documented)
	switch {
	case !ok && documented == name:
		return len(name) + 2
	case !ok || len(name) <= len(before)+len(after) || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after):
		return 0
	case !isPart(name[len(before) : len(name)-len(after)]):
		return 0
	}
	return len(before) + len(after) + 1
}
