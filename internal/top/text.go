package top

import (
	"fmt"
	"math"
	"strings"
)

// plain gives a text so that no terminal obeys it: what is not printable ASCII becomes \xHH, as Lustre and lustre_jobs write
// it. Job ids are anybody's text.
func plain(s string) string {
	clean := true
	for i := range len(s) {
		clean = clean && s[i] >= ' ' && s[i] <= '~'
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02X`, c)
		}
	}
	return b.String()
}

// fit gives a printable text in exactly so many columns. What is cut ends in a +.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if len(s) > width {
		return s[:width-1] + "+"
	}
	return s + strings.Repeat(" ", width-len(s))
}

// short writes a number in at most five columns: 0, 999, 1.23k, 12.3M, 123G ... in powers of 1,000.
func short(v float64) string {
	if math.IsNaN(v) || v < 0 {
		return "?"
	}
	if v == 0 {
		return "0"
	}
	if v < 9.995 {
		return fmt.Sprintf("%.2f", v)
	}
	if v < 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	for _, unit := range "kMGTPE" {
		v /= 1000
		switch {
		case v < 9.995:
			return fmt.Sprintf("%.2f%c", v, unit)
		case v < 99.95:
			return fmt.Sprintf("%.1f%c", v, unit)
		case v < 999.5:
			return fmt.Sprintf("%.0f%c", v, unit)
		}
	}
	return "many"
}
