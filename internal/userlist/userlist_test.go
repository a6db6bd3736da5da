package userlist

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoin(t *testing.T) {
	for _, test := range []struct {
		names []string
		list  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"alice"}, "alice"},
		{[]string{"carol", "alice", "bob", "alice", ""}, "alice,bob,carol"},
		{[]string{"smith, jane", "smith"}, "smith,smith%2C jane"},
		{[]string{`HPC\alice`, "bob@example.org"}, `HPC\alice,bob@example.org`},
		{[]string{"100%", "%2C"}, "%252C,100%25"},
		{[]string{"a\nb", "\x00", "\x7f", "\u0085"}, "%00,a%0Ab,%7F,%C2%85"},
		{[]string{"josé", "jos\xe9"}, "josé,jos%E9"},
		{[]string{"\ufffd"}, "\ufffd"},
	} {
		t.Run(test.list, func(t *testing.T) {
			before := slices.Clone(test.names)
			require.Equal(t, test.list, Join(test.names))
			require.Equal(t, before, test.names, "the names that were handed in stay in order")
		})
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		list  string
		names []string
	}{
		{"", nil},
		{"alice", []string{"alice"}},
		{"alice,bob", []string{"alice", "bob"}},
		{"a%2Cb,%2525", []string{"a,b", "%25"}},
		{"jos%e9,%C3%A9", []string{"jos\xe9", "é"}},
	} {
		t.Run(test.list, func(t *testing.T) {
			names, err := Split(test.list)
			require.NoError(t, err)
			require.Equal(t, test.names, names)
		})
	}
}

func TestSplitRefuses(t *testing.T) {
	for list, want := range map[string]string{
		",":       `user list: name "": is empty`,
		"a,,b":    `user list: name "": is empty`,
		"a,":      `user list: name "": is empty`,
		"a,b%":    `user list: name "b%": two hexadecimal digits must follow a percent sign`,
		"b%2":     `user list: name "b%2": two hexadecimal digits must follow a percent sign`,
		"b%2,Ca":  `user list: name "b%2": two hexadecimal digits must follow a percent sign`,
		"%+1":     `user list: name "%+1": two hexadecimal digits must follow a percent sign`,
		"x%25%GG": `user list: name "x%25%GG": two hexadecimal digits must follow a percent sign`,
	} {
		t.Run(list, func(t *testing.T) {
			_, err := Split(list)
			require.EqualError(t, err, want)
		})
	}
}

// FuzzJoin takes each line of its input as a name.
func FuzzJoin(f *testing.F) {
	for _, seed := range []string{"", "alice\nbob", "b\na\nb", "a,b\n%\n%2C", "jos\xe9\n\ufffd\n\r\x00", "\xff\n\xc3", `HPC\a`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names := strings.Split(text, "\n")
		want := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(name string) bool { return name == "" })
		got, err := Split(Join(names))
		require.NoError(t, err)
		require.Equal(t, append([]string(nil), want...), got)
	})
}

// FuzzSplit requires that what can be split at all is the same names however often it is joined and split again.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "alice,bob", "%2c,%25", "b,a,b", ",", "%", "%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		names, err := Split(list)
		if err != nil {
			require.Nil(t, names)
			return
		}
		joined := Join(names)
		again, err := Split(joined)
		require.NoError(t, err)
		require.Equal(t, joined, Join(again))
		require.ElementsMatch(t, slices.Compact(slices.Sorted(slices.Values(names))), again)
	})
}

func BenchmarkJoin(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("user%04d", 7*i%1000)
	}
	b.SetBytes(int64(len(Join(names))))
	b.ReportAllocs()
	for b.Loop() {
		Join(names)
	}
}
