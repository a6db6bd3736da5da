package execd

import (
	"strings"
	"testing"

	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/stretchr/testify/require"
)

// all gives the lines of a text that is pushed in pieces of the given size.
func all(text string, size int) []string {
	s := splitter{limit: longestLine}
	var lines []string
	for len(text) > 0 {
		n := min(size, len(text))
		s.push([]byte(text[:n]))
		text = text[n:]
		for line := s.next(); line != nil; line = s.next() {
			lines = append(lines, string(line))
		}
	}
	return lines
}

func TestSplitter(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"a b=1", nil},
		{"a b=1\n", []string{"a b=1"}},
		{"a b=1\nc d=2\ne", []string{"a b=1", "c d=2"}},
		{"\n \n\t\r\na b=1\n\n", []string{"a b=1"}},
		{"# a \"comment\n  # b=\"\na b=1\n", []string{"a b=1"}},
		{"a b=1 # no comment\n", []string{"a b=1 # no comment"}},
		{"a s=\"x\ny\" 1\nb c=1\n", []string{"a s=\"x\ny\" 1", "b c=1"}},
		{"a s=\"x\\\"\n\\\\\",t=\"\n\n\" 1\nb c=1\n", []string{"a s=\"x\\\"\n\\\\\",t=\"\n\n\" 1", "b c=1"}},
		// Quotes in names, tags and keys are bytes like others.
		{"a\",t=\" s\"=1,\"=2\nb c=1\n", []string{"a\",t=\" s\"=1,\"=2", "b c=1"}},
		{"a\\ b=\",c\\=d=\"x\\ \" s=1\nb c=1\n", []string{"a\\ b=\",c\\=d=\"x\\ \" s=1", "b c=1"}},
		{"a s\\=\"=1\nb c=1\n", []string{"a s\\=\"=1", "b c=1"}},
		{"a s=\"x\"\"\nb c=1\n", []string{"a s=\"x\"\"", "b c=1"}},
		{"  a s=\"\n\"\nb c=1\n", []string{"  a s=\"\n\"", "b c=1"}},
		{"a b=1\r\nb c=1\r\n", []string{"a b=1\r", "b c=1\r"}},
	} {
		for _, size := range []int{1, 2, 3, 7, 1000} {
			require.Equal(t, test.want, all(test.text, size), "%q in pieces of %d", test.text, size)
		}
	}
}

func TestSplitterRetry(t *testing.T) {
	s := splitter{limit: 100}
	s.push([]byte("\na s=\"x 1\nb c=1\nd e=\"y\" 2\nf g=3\n"))
	require.Equal(t, "a s=\"x 1\nb c=1\nd e=\"y\" 2", string(s.next()))
	dropped, ok := s.retry()
	require.True(t, ok)
	require.Equal(t, "a s=\"x 1", string(dropped))
	require.Equal(t, "b c=1", string(s.next()))
	_, ok = s.retry()
	require.False(t, ok, "one physical line")
	require.Equal(t, "d e=\"y\" 2", string(s.next()))
	require.Equal(t, "f g=3", string(s.next()))
	require.Nil(t, s.next())
}

func TestSplitterGivesUp(t *testing.T) {
	s := splitter{limit: 10}
	s.push([]byte("a s=\"x"))
	require.Nil(t, s.next())
	require.False(t, s.open())
	s.push([]byte("\nb c=1\nd"))
	require.Nil(t, s.next())
	require.True(t, s.open())
	require.True(t, s.tooLong())
	require.Equal(t, "a s=\"x", string(s.giveUp()))
	require.Equal(t, "b c=1", string(s.next()))
	require.Nil(t, s.next())
	require.False(t, s.tooLong())
	require.Equal(t, "d", string(s.rest()))

	s.push([]byte(strings.Repeat("x", 10)))
	require.Nil(t, s.next())
	require.True(t, s.tooLong())
	require.Equal(t, "d"+strings.Repeat("x", 10), string(s.giveUp()))
	s.push([]byte(strings.Repeat("y\"", 10)))
	require.Nil(t, s.next())
	require.True(t, s.tooLong())
	require.Nil(t, s.giveUp(), "more of the same line")
	require.Empty(t, s.rest())
	s.push([]byte("z\nb c=2\n"))
	require.Equal(t, "b c=2", string(s.next()))
}

func TestSplitterGivesMemoryBack(t *testing.T) {
	s := splitter{limit: longestLine}
	s.push([]byte("a s=\"" + strings.Repeat("x", 4*keepBuffer) + "\"\n"))
	require.Len(t, s.next(), 4*keepBuffer+len("a s=\"\""))
	s.push([]byte("a b=1\n"))
	require.Equal(t, "a b=1", string(s.next()))
	require.Less(t, cap(s.buf), keepBuffer)
}

// passedOver tells whether the first physical line of the text is blank or a comment.
func passedOver(text string) bool {
	line, _, ended := strings.Cut(text, "\n")
	line = strings.TrimLeft(line, " \t\v\f\r")
	return ended && (line == "" || line[0] == '#')
}

// FuzzSplitter: how the text comes in pieces does not matter, nothing is lost but blank lines and comments, and what
// Telegraf's own parser takes for one metric is one line.
func FuzzSplitter(f *testing.F) {
	f.Add("a b=1\nc,d=e f=\"g\nh\" 1\n", 3)
	f.Add("# \"\n\n a\\ ,b=\\\" c=\"\\\\\\\"\n\"\r\n", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := all(text, len(text)+1)
		require.Equal(t, whole, all(text, 1+max(size, -size)%64&63))

		rest := text
		for _, line := range whole {
			for passedOver(rest) {
				_, rest, _ = strings.Cut(rest, "\n")
			}
			require.True(t, strings.HasPrefix(rest, line+"\n"), "%q is not next in %q", line, rest)
			rest = rest[len(line)+1:]
		}

		var parser influx.Parser
		require.NoError(t, parser.Init())
		if metrics, err := parser.Parse([]byte(text + "\n")); err == nil {
			require.Len(t, all(text+"\n", 1000), len(metrics))
		}
	})
}
