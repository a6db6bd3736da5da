package command

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestFirstLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	for in, want := range map[string]string{
		"":                        "",
		"\n \r\n\t\n":             "",
		"one":                     "one",
		"\n\n  one  \r\ntwo\n":    "one",
		"a\rb":                    `a\rb`,
		"a\x00b\x7f\u0085\u2028c": `a\x00b\x7f\u0085\u2028c`,
		"\xff\xfe":                `\xff\xfe`,
		"\ufffd":                  "\ufffd",
		`C:\n "quoted"`:           `C:\n "quoted"`,
		long:                      long,
		long + "y":                long + "...",
		long[1:] + "é":            long[1:] + "...",
		long[2:] + "é":            long[2:] + "é",
		long[3:] + "\x1b[0m":      long[3:] + "...",
	} {
		require.Equal(t, want, firstLine([]byte(in)), "%q", in)
	}
}

func FuzzFirstLine(f *testing.F) {
	f.Add([]byte("\n\x1b[1mslurm_load_jobs error\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		line := firstLine(b)
		require.True(t, utf8.ValidString(line))
		require.LessOrEqual(t, len(line), maxLine+len("..."))
		for _, r := range line {
			require.True(t, unicode.IsPrint(r), "%q", r)
		}
		if line == "" {
			require.Empty(t, strings.TrimSpace(string(b)))
		}
	})
}
