// Package userlist joins user names to the one string that a metric can carry, and takes it apart again.
//
// The list is sorted and has a comma between two names. A byte of a name that would be misread there is written as a
// percent sign and two hexadecimal digits, as in a URL (RFC 3986, section 2.1): the comma as %2C, the percent sign as
// %25, control characters, and bytes that are no UTF-8. So a list can be split at its commas by whoever knows no
// escapes, and a name such as DOMAIN\alice stays as it is.
package userlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const digits = "0123456789ABCDEF"

// Join gives the list of names, each once. An empty name is none; without names the list is empty.
func Join(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	sorted = slices.Compact(sorted)
	size := len(sorted)
	for _, name := range sorted {
		size += len(name)
	}
	b := make([]byte, 0, size)
	for _, name := range sorted {
		if name == "" {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = appendName(b, name)
	}
	return string(b)
}

func appendName(b []byte, name string) []byte {
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == ',' || r == '%' || unicode.IsControl(r) || r == utf8.RuneError && n == 1 {
			for _, c := range []byte(name[:n]) {
				b = append(b, '%', digits[c>>4], digits[c&15])
			}
		} else {
			b = append(b, name[:n]...)
		}
		name = name[n:]
	}
	return b
}

// Split gives the names of a list, in its order. An error names what Join does not write.
func Split(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names := make([]string, 0, strings.Count(list, ",")+1)
	for part := range strings.SplitSeq(list, ",") {
		name, err := unescape(part)
		if err != nil {
			return nil, fmt.Errorf("user list: name %q: %w", part, err)
		}
		names = append(names, name)
	}
	return names, nil
}

func unescape(part string) (string, error) {
	if part == "" {
		return "", errors.New("is empty")
	}
	head, rest, found := strings.Cut(part, "%")
	if !found {
		return part, nil
	}
	b := []byte(head)
	for found {
		if len(rest) < 2 {
			return "", errors.New("two hexadecimal digits must follow a percent sign")
		}
		c, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			return "", errors.New("two hexadecimal digits must follow a percent sign")
		}
		b = append(b, byte(c))
		head, rest, found = strings.Cut(rest[2:], "%")
		b = append(b, head...)
	}
	return string(b), nil
}
