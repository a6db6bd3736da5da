package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

func TestParsePoint(t *testing.T) {
	p, err := parsePoint(`lustre_jobstats,fs=l,job=a\ b\,c\=d,kind=ost,target=l-OST0000 read_bytes=4096i,epochs=2i 1795262904316122138`)
	require.NoError(t, err)
	require.Equal(t, point{measurement: lustre, target: "l-OST0000", job: "a b,c=d", fields: map[string]int64{"read_bytes": 4096, "epochs": 2}}, p)

	for line, message := range map[string]string{
		"lustre_jobstats,target=t":       `line "lustre_jobstats,target=t": 1 parts, not 3`,
		"lustre_jobstats,target n=1i 1":  `line "lustre_jobstats,target n=1i 1": tag "target"`,
		"lustre_jobstats,target=t n=x 1": `line "lustre_jobstats,target=t n=x 1": field "n": strconv.ParseInt: parsing "x": invalid syntax`,
	} {
		_, err := parsePoint(line)
		require.EqualError(t, err, message)
	}
}

func TestParseEntries(t *testing.T) {
	entries, err := parseEntries(`job_stats:
- job_id:          "a:b"
  snapshot_time:   1724140459.176791282 secs.nsecs
  start_time:      1724140450.100000000 secs.nsecs
  read_bytes:      { samples:           2, unit: bytes, min:     2048, max:    32768, sum:            34816, sumsq:         1077936128 }
  write_bytes:     { samples:           0, unit: bytes }
- job_id:          12345
  snapshot_time:   1724140459
  write_bytes:     { samples:           1, unit: bytes, min:16777216, max:16777216, sum:        16777216 }
`)
	require.NoError(t, err)
	require.Equal(t, map[string]entry{
		"a:b":   {snapshot: 1724140459176791282, read: 34816},
		"12345": {snapshot: 1724140459000000000, written: 16777216},
	}, entries)

	_, err = parseEntries("job_stats:\n- job_id: 1\n  read_bytes: { samples: 1, sum: x }\n")
	require.EqualError(t, err, `job "1": strconv.ParseInt: parsing "x": invalid syntax`)
}

// FuzzParseEntries holds the table's reading of job_stats to what it promises: a text in pieces says what the whole says.
func FuzzParseEntries(f *testing.F) {
	f.Add("- job_id: a\n  snapshot_time: 1.5\n  read_bytes: { sum: 3 }\n", "- job_id: b\n  write_bytes: { sum: 4, }\n")
	f.Add("", "\n- job_id:\n- job_id:")
	f.Fuzz(func(t *testing.T, first, second string) {
		one, errOne := parseEntries(first + "\n")
		two, errTwo := parseEntries("\n" + second)
		both, err := parseEntries(first + "\n\n" + second)
		if strings.HasPrefix(second, "- job_id:") && errOne == nil && errTwo == nil && err == nil {
			require.LessOrEqual(t, max(len(one), len(two)), len(both))
			require.GreaterOrEqual(t, len(one)+len(two), len(both))
			for job, e := range two {
				require.Equal(t, e, both[job])
			}
		}
	})
}

func TestMeasurement(t *testing.T) {
	require.Equal(t, "a b,c", measurement(`a\ b\,c,host=x n=1i 1`))
	require.Equal(t, "mem", measurement("mem n=1i 1"))
}

func TestTableCountsOtherPoints(t *testing.T) {
	table := newTable(t.TempDir())
	for _, name := range []string{"mem", "cpu", "mem", "slurm_load_self"} {
		table.add(point{measurement: name}, time.Now())
	}
	var out bytes.Buffer
	table.printOthers(&out)
	require.Equal(t, "Points of other measurements: cpu 1 mem 2 slurm_load_self 1\n", out.String())
	for i := range 20 {
		table.others[fmt.Sprintf("measurement_%02d", i)] = 1000
	}
	out.Reset()
	table.printOthers(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Greater(t, len(lines), 4)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), 98)
	}
}

func TestGrouped(t *testing.T) {
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 31981644: "31,981,644", 9223372036854775807: "9,223,372,036,854,775,807"} {
		require.Equal(t, text, grouped(n))
	}
}

func TestPrintable(t *testing.T) {
	require.Equal(t, "bash.1000", printable("bash.1000"))
	require.Equal(t, `"\x1b[2J"`, printable("\x1b[2J"))
}

// A point is shown beside the reading that it is from, not beside a later one.
func TestTablePairsPointsWithReadings(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "proc/fs/lustre/obdfilter/l-OST0000")
	require.NoError(t, os.MkdirAll(folder, 0o750))
	says := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "job_stats"), []byte("job_stats:\n"+text), 0o600))
	}
	table := newTable(root)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	point := func(snapshot, bytes int64) point {
		return point{measurement: lustre, target: "l-OST0000", job: "1", fields: map[string]int64{"snapshot": snapshot, "epochs": 2, "read_bytes": bytes, "write_bytes": 0}}
	}
	last := func() string {
		var out bytes.Buffer
		table.print(&out, now)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return strings.Join(strings.Fields(lines[len(lines)-1]), " ")
	}

	says("- job_id: 1\n  snapshot_time: 1.0\n  read_bytes: { sum: 1000 }\n")
	require.NoError(t, table.look())
	says("- job_id: 1\n  snapshot_time: 2.0\n  read_bytes: { sum: 2000 }\n")
	require.NoError(t, table.look())
	table.add(point(1e9, 5000), now)
	require.Equal(t, "l-OST0000 1 2 1,000 5,000 0 0", last())
	table.add(point(2e9, 6000), now)
	require.Equal(t, "l-OST0000 1 2 2,000 6,000 0 0", last())
	says("")
	require.NoError(t, table.look())
	require.Equal(t, "l-OST0000 1 2 gone 6,000 gone 0", last())
	now = now.Add(quietFor + time.Second)
	require.Empty(t, last())
}

// What the README promises: within a minute a counter begins again from zero, and its total does not.
func TestDemoShowsRestartWithinAMinute(t *testing.T) {
	_, err := stock.Telegraf(t.Context(), t.Output()) // Not within the minute.
	require.NoError(t, err)
	var out bytes.Buffer
	d := demo{every: 5 * time.Second, programs: harness.Build(t, "./cmd/...")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, d.run(ctx, &out))
	require.True(t, anyAhead(t, out.String()), out.String())
}

// anyAhead tells whether a row's total is more than what Lustre says at the same time.
func anyAhead(t *testing.T, tables string) bool {
	for line := range strings.Lines(tables) {
		columns := strings.Fields(line)
		if len(columns) != 7 || !strings.Contains(columns[0], "-OST") || columns[3] == "gone" {
			continue
		}
		says, err := strconv.Atoi(strings.ReplaceAll(columns[3], ",", ""))
		require.NoError(t, err, line)
		total, err := strconv.Atoi(strings.ReplaceAll(columns[4], ",", ""))
		require.NoError(t, err, line)
		require.GreaterOrEqual(t, total, says, line)
		if total > says {
			return true
		}
	}
	return false
}
