package slurm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-11-21T09:13:34": 1795252414, "1970-01-01T00:00:01": 1, "2000-02-29T23:59:59": 951868799,
		"2106-02-07T06:28:14": 4294967294, "2023-12-31T23:59:59": 1704067199, "2100-03-01T00:00:00": 4107542400,
		"N/A": 0, "None": 0, "NONE": 0, "Unknown": 0, "": 0, "(null)": 0,
	} {
		got, err := parseTime([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"2026-11-21 09:13:34", "2026-13-21T09:13:34", "2026-00-21T09:13:34", "2026-02-29T09:13:34", "2026-11-31T09:13:34", "2026-12-32T09:13:34",
		"2026-11-00T09:13:34", "2026-11-21T24:00:00", "2026-11-21T09:60:34", "2026-11-21T09:13:60", "1969-12-31T23:59:59",
		"2026-11-21T09:13:3x", "09:13:34", "21 Nov 09:13", "x026-11-21T09:13:34", "1795252414",
	} {
		_, err := parseTime([]byte(text))
		require.EqualError(t, err, quoted([]byte(text))+" is no time")
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]int64{
		"2-00:00:00": 172800, "1-02:03:04": 93784, "10:00:00": 36000, "10:00": 600, "0:00": 0, "1-02": 93600,
		"1-02:03": 93780, "UNLIMITED": Unlimited, "INFINITE": Unlimited, "NOT_SET": Unknown, "INVALID": Unknown,
		"Partition_Limit": Unknown, "N/A": Unknown, "NONE": Unknown, "": Unknown, "365-00:00:00": 31536000,
	} {
		got, err := parseDuration([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"10", "-1", "1-", "1-2:3:4:5", "1:2:3:4", ":10", "10:", "1:-1", "1-2-3", "ten", "99999999999999-0"} {
		_, err := parseDuration([]byte(text))
		require.EqualError(t, err, quoted([]byte(text))+" is no time span")
	}
}

// The standard library must agree on what is a time, and which.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2026-11-21T09:13:34", "2024-02-29T00:00:00", "1900-01-01T00:00:00", "2026-11-21T09:13:60", "N/A"} {
		f.Add(seed)
	}
	const form = "2006-01-02T15:04:05"
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime([]byte(text))
		want, wantErr := time.Parse(form, text)
		switch {
		case len(text) != len(form): // the library takes fractions and leaves out zeros
			require.Zero(t, got)
		case wantErr != nil || want.Unix() < 0:
			require.Error(t, err)
		default:
			require.NoError(t, err)
			require.Equal(t, want.Unix(), got)
		}
	})
}
