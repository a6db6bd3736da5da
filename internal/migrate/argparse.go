package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// option is one of a program that reads its command line with Python's argparse
// (https://docs.python.org/3/library/argparse.html).
type option struct {
	name  string   // The long one, by which it is known here.
	short []string // Such as -s, and -vv.
	takes bool     // It has a value.
}

// given is an option that a command line has.
type given struct{ name, value string }

// parseArgs reads a command line as argparse does: long options may be cut short as long as they are clear, or have their
// value behind an =; short ones may stand in one word, with the last one's value.
func parseArgs(args []string, known []option) ([]given, error) {
	var all []given
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" || !strings.HasPrefix(word, "-") || word == "-" {
			return nil, fmt.Errorf("%q is not known", word)
		}
		for word != "" {
			o, value, hasValue, rest, err := find(word, known)
			if err != nil {
				return nil, err
			}
			word = rest
			if o.takes && !hasValue {
				if len(args) == 0 || looksLikeOption(args[0]) {
					return nil, fmt.Errorf("%s has no value", o.name)
				}
				value, args = args[0], args[1:]
			}
			if !o.takes && hasValue {
				return nil, fmt.Errorf("%s takes no value", o.name)
			}
			all = append(all, given{o.name, value})
		}
	}
	return all, nil
}

// looksLikeOption tells whether argparse takes a word for an option rather than for a value.
func looksLikeOption(word string) bool {
	return len(word) > 1 && word[0] == '-' && !strings.Contains(word, " ") && !regexp.MustCompile(`^-\d+$|^-\d*\.\d+$`).MatchString(word)
}

// find finds the option that a word begins with. rest are the short options that follow in it.
func find(word string, known []option) (o option, value string, hasValue bool, rest string, err error) {
	head, value, hasValue := strings.Cut(word, "=")
	for _, o := range known {
		if head == o.name || slices.Contains(o.short, head) {
			return o, value, hasValue, "", nil
		}
	}
	if strings.HasPrefix(word, "--") {
		var fits []option
		for _, o := range known {
			if strings.HasPrefix(o.name, head) {
				fits = append(fits, o)
			}
		}
		if len(fits) == 1 {
			return fits[0], value, hasValue, "", nil
		}
		if len(fits) > 1 {
			return o, "", false, "", fmt.Errorf("option %s may be %s or %s", head, fits[0].name, fits[1].name)
		}
		return o, "", false, "", fmt.Errorf("option %s is not known", head)
	}
	for _, o := range known {
		if len(word) < 3 || !slices.Contains(o.short, word[:2]) {
			continue
		}
		if o.takes {
			return o, word[2:], true, "", nil
		}
		return o, "", false, "-" + word[2:], nil
	}
	return o, "", false, "", fmt.Errorf("option %s is not known", head)
}
