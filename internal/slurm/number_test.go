package slurm

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "64": 64, "3000": 3000, "2K": 2048, "1.50K": 1536, "3M": 3 << 20, "1P": 1 << 50,
		"9223372036854775806": math.MaxInt64 - 1,
	} {
		got, err := parseCount([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                    `"" is no number`,
		"N/A":                 `"N/A" is no number`,
		"-1":                  `"-1" is no number`,
		"1.":                  `"1." is no number`,
		"1.5.5":               `"1.5.5" is no number`,
		"1.0000000001K":       `"1.0000000001K" is no number`,
		"1k":                  `"1k" is no number`,
		"1KB":                 `"1KB" is no number`,
		"9223372036854775808": `"9223372036854775808" is no number`,
		"8E":                  `"8E" is too large`,
		"1Z":                  `"1Z" is too large`,
	} {
		_, err := parseCount([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"1000M": 1000 << 20, "62.50G": 64000 << 20, "250G": 250 << 30, "3000000M": 3000000 << 20, "1.95T": 2144047674163,
		"512": 512 << 20, "4K": 4096, "0": 0,
	} {
		got, err := parseMemory([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseInt(t *testing.T) {
	got, err := parseInt([]byte("4294967294"))
	require.NoError(t, err)
	require.Equal(t, int64(4294967294), got)
	for text, want := range map[string]string{
		"":                    `"" is no number`,
		"2K":                  `"2K" is no number`,
		"9223372036854775808": `"9223372036854775808" is no number`,
	} {
		_, err := parseInt([]byte(text))
		require.EqualError(t, err, want)
	}
}

func TestQuoted(t *testing.T) {
	require.Equal(t, `"a\n\x00|é"`, quoted([]byte("a\n\x00|é")))
	require.Equal(t, `"`+strings.Repeat("x", 80)+`"...`, quoted([]byte(strings.Repeat("x", 81))))
}

func TestNames(t *testing.T) {
	n := names{}
	first := n.of([]byte("alice"))
	require.Equal(t, "alice", first)
	require.Empty(t, n.of(nil))
	key := []byte("alice")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = n.of(key) }))
	require.Equal(t, "bob", names(nil).of([]byte("bob")))
}

// A number with a unit is, to the nearest, that many times the unit.
func FuzzParseUnits(f *testing.F) {
	for _, seed := range []string{"62.50G", "1000M", "4", "1.999999999K", "0.5Z", "18446744073709551616", "7E"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCount([]byte(text))
		if err != nil {
			return
		}
		number := strings.TrimRight(text, units)
		require.LessOrEqual(t, len(text)-len(number), 1)
		want, err := strconv.ParseFloat(number, 64)
		require.NoError(t, err)
		if len(number) < len(text) {
			want *= math.Pow(1024, float64(1+strings.IndexByte(units, text[len(number)])))
		}
		require.InDelta(t, want, float64(got), 0.5+want*1e-9)
	})
}
