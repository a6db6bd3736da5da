package jobstats

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestDisplayJobID(t *testing.T) {
	for id, want := range map[string]string{
		"12345":          "12345",
		"12345_10":       "12345_10",
		"a b":            "a b",
		"":               "",
		"_other":         `\x5Fother`,
		"a\nb":           `a\x0Ab`,
		`a\x0Ab`:         `a\x5Cx0Ab`,
		"\xff":           `\xFF`,
		"é":              "é",
		"a\u200bb":       `a\xE2\x80\x8Bb`,
		"a=b,c d":        "a=b,c d",
		"trailing\\":     `trailing\x5C`,
		"\x1b[2J":        `\x1B[2J`,
		"\xef\xbf\xbd":   "\uFFFD",
		"job\x00\x7fend": `job\x00\x7Fend`,
	} {
		require.Equal(t, want, DisplayJobID(id), "%q", id)
	}
}

func FuzzDisplayJobID(f *testing.F) {
	f.Add("12345", "a\\x41")
	f.Add("\xff", `\xFF`)
	f.Fuzz(func(t *testing.T, a, b string) {
		shown := DisplayJobID(a)
		if !utf8.ValidString(shown) {
			t.Fatalf("%q is shown as %q", a, shown)
		}
		if a != b && shown == DisplayJobID(b) {
			t.Fatalf("%q and %q are both shown as %q", a, b, shown)
		}
	})
}

func TestJobIDPatterns(t *testing.T) {
	for _, tt := range []struct {
		patterns []string
		sumRest  bool
		id       string
		want     Labels
		summed   bool
	}{
		{[]string{"%j"}, false, "12345", Labels{Job: "12345"}, false},
		{[]string{"%j"}, true, "cp.1000", Labels{Job: "cp.1000"}, false},
		{[]string{"%e.%u", "%j"}, false, "cp.1000", Labels{Exe: "cp", UID: "1000"}, false},
		{[]string{"%e.%u", "%j"}, false, "12345", Labels{Job: "12345"}, false},
		{[]string{"%e.%u"}, false, "my.prog.1000", Labels{Exe: "my.prog", UID: "1000"}, false},
		{[]string{"%e.%u"}, false, "12345", Labels{Job: "12345"}, false},
		{[]string{"%e.%u"}, true, "12345", Labels{Job: "_other"}, true},
		{[]string{"%e.%u"}, true, "_overflow", Labels{Job: "_other"}, true},
		{[]string{"%j:%u:%g:%H"}, false, "77:1:2:n01", Labels{Job: "77", UID: "1", GID: "2", Client: "n01"}, false},
		{[]string{"%e.%u.%p"}, false, "bash.0.4711", Labels{Exe: "bash", UID: "0"}, true},
		{[]string{"%j@%h"}, false, "a@b@n1.site.org", Labels{Job: "a@b", Client: "n1.site.org"}, false},
		{[]string{"100%%%u"}, false, "100%7", Labels{UID: "7"}, false},
		{[]string{"%e.%u"}, false, "a\nb.7", Labels{Exe: `a\x0Ab`, UID: "7"}, false},
	} {
		p, err := ParseJobIDPatterns(tt.patterns, tt.sumRest)
		require.NoError(t, err)
		got, summed := p.Labels(tt.id)
		require.Equal(t, tt.want, got, "%q of %q", tt.patterns, tt.id)
		require.Equal(t, tt.summed, summed, "%q of %q", tt.patterns, tt.id)
	}
}

func TestJobIDPatternErrors(t *testing.T) {
	for want, patterns := range map[string][]string{
		"no pattern": nil,
		`pattern "%x": unknown code %x (known: %j %u %g %e %h %H %p)`: {"%x"},
		`pattern "%j%": ends with a %`:                                {"%j%"},
		`pattern "%j %j": %j stands twice`:                            {"%j %j"},
		`pattern "job": has no code that becomes a tag`:               {"%j", "job"},
		`pattern "%p": has no code that becomes a tag`:                {"%p"},
	} {
		_, err := ParseJobIDPatterns(patterns, false)
		require.EqualError(t, err, want)
	}
}

// The parts of an id are parts of it, whatever the pattern; and a pattern is refused or works.
func FuzzJobIDPatterns(f *testing.F) {
	f.Add("%e.%u", "cp.1000")
	f.Add("%j:%u:%g", "1:2:3")
	f.Add("100%%%p.%H", "100%1.n1")
	f.Fuzz(func(t *testing.T, pattern, id string) {
		p, err := ParseJobIDPatterns([]string{pattern}, false)
		if err != nil {
			return
		}
		labels, _ := p.Labels(id)
		whole := DisplayJobID(id)
		for _, part := range []string{labels.Job, labels.UID, labels.GID, labels.Exe, labels.Client} {
			if !utf8.ValidString(part) || len(part) > 4*len(id) {
				t.Fatalf("pattern %q makes %q of %q", pattern, part, whole)
			}
		}
		if again, _ := p.Labels(id); again != labels {
			t.Fatalf("pattern %q makes %v and then %v of %q", pattern, labels, again, whole)
		}
	})
}
