package slurm

import (
	"bytes"
	"fmt"
	"strings"
)

// scontrolRows calls parse with each row of what scontrol -o printed. A row begins with first, such as "NodeName=", and
// holds second, such as " CPUTot=". Other lines belong to the row before: administrators' comments may have line breaks,
// and stand behind all that is read here. none is the line that scontrol prints where it has no rows.
func scontrolRows(text []byte, first, second, none string, parse func(row []byte) error) error {
	if len(text) == 0 || strings.TrimSpace(string(text[:min(len(text), len(none)+2)])) == none {
		return nil
	}
	if text[len(text)-1] != '\n' {
		return fmt.Errorf("the text is cut off: %s", quoted(text[bytes.LastIndexByte(text, '\n')+1:]))
	}
	count := 0
	for line := range bytes.Lines(text) {
		row := line[:len(line)-1]
		isRow := bytes.HasPrefix(row, []byte(first))
		if count > 0 && (!isRow || !bytes.Contains(row, []byte(second))) {
			continue
		}
		count++
		if !isRow {
			return fmt.Errorf("row %d: no %s%s", count, first, quoted(row))
		}
		if err := parse(row); err != nil {
			return fmt.Errorf("row %d: %w", count, err)
		}
	}
	return nil
}

// nextPair takes the next Key=value off a row. Words without = are passed over: they are the rest of a value with blanks.
// The key is nil at the end of the row.
func nextPair(row []byte) (key, value, rest []byte) {
	for len(row) > 0 {
		word := row
		if i := bytes.IndexByte(row, ' '); i >= 0 {
			word, row = row[:i], row[i+1:]
		} else {
			row = nil
		}
		if eq := bytes.IndexByte(word, '='); eq > 0 {
			return word[:eq], word[eq+1:], row
		}
	}
	return nil, nil, nil
}

// listOf splits a value at its commas. It is nil where there is none.
func listOf(value []byte) []string {
	if isNothing(value) {
		return nil
	}
	return strings.Split(string(value), ",")
}

// textOf gives a value, and "" where Slurm says that there is none.
func textOf(value []byte) string {
	if isNothing(value) {
		return ""
	}
	return string(value)
}
