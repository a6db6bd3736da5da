// Package option checks what the options of plugins say, in the same words in all of them.
package option

import (
	"fmt"
	"slices"
)

// Require gives the error of an option that does not keep to a rule, such as "must be more than 0s". cmp.Or gives the first
// of several.
func Require(name string, ok bool, rule string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("option %s: %s", name, rule)
}

// Choice checks an option that is one of some values.
func Choice(name, value string, choices ...string) error {
	return Require(name, slices.Contains(choices, value), fmt.Sprintf("%q is none of %q", value, choices))
}

// Choices checks an option that is a list of values, each once, of those that are known; at least one.
func Choices(name string, values, known []string) error {
	if len(values) == 0 {
		return fmt.Errorf("option %s: empty", name)
	}
	for i, value := range values {
		if !slices.Contains(known, value) {
			return fmt.Errorf("option %s: %q is none of %q", name, value, known)
		}
		if slices.Contains(values[:i], value) {
			return fmt.Errorf("option %s: %q is there twice", name, value)
		}
	}
	return nil
}
