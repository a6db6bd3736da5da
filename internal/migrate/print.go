package migrate

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteText writes the account of a migration: a line for each setting, and what is left to do.
func (r *Result) WriteText(w io.Writer) error {
	width := 0
	heads := make([]string, len(r.Settings))
	for i, s := range r.Settings {
		heads[i] = printable(s.From)
		if s.Value != "" {
			heads[i] += " = " + printable(s.Value)
		}
		width = max(width, min(len(heads[i]), 60))
	}
	var b strings.Builder
	for i, s := range r.Settings {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", s.Verdict, width, heads[i], printable(s.Now))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "to do:   %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable gives a text in one line without anything that a terminal obeys.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
