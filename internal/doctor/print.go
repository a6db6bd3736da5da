package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteText writes a report for a person: a line for each finding, and below it the remedy. What it quotes of files and
// tools cannot harm a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	counts := map[Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		fmt.Fprintf(&b, "%-8s %-10s %s\n", f.Level, f.Topic, printable(f.Text))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%-19s %s\n", "", "$ "+printable(f.Remedy))
		}
	}
	fmt.Fprintf(&b, "%d OK, %d to look at, %d wrong\n", counts[OK], counts[Warning], counts[Error])
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes a report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// printable gives a text in one line without anything that a terminal obeys.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
