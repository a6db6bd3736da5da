package jobstats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// parsed is an entry in words.
type parsed struct {
	ID              string
	Snapshot, Start int64
	Counters        map[string][4]int64 // of "name unit": samples, min, max, sum
	Listed          int
}

// scanAll scans text, and tells entries and errors.
func scanAll(r io.Reader) (entries []parsed, damage []string, err error) {
	ops := NewOpTable()
	s := NewScanner(r, &Parser{Ops: ops}, nil)
	for {
		e, err := s.Next()
		var bad *EntryError
		switch {
		case errors.Is(err, io.EOF):
			return entries, damage, nil
		case errors.As(err, &bad):
			damage = append(damage, err.Error())
			continue
		case err != nil:
			return entries, damage, err
		}
		p := parsed{ID: string(e.JobID), Snapshot: e.Snapshot, Start: e.Start, Counters: map[string][4]int64{}, Listed: len(e.Shape.Ops)}
		for _, c := range e.Counters {
			op := ops.Op(c.Op)
			p.Counters[op.Name+" "+op.Unit] = [4]int64{c.Samples, c.Min, c.Max, c.Sum}
		}
		entries = append(entries, p)
	}
}

func TestParseSamples(t *testing.T) {
	for name, want := range map[string][]parsed{
		"2.5/newline_in_id.txt": {{
			ID: "evil\n- job_id:          123456", Snapshot: 1400000000e9, Listed: 5,
			Counters: map[string][4]int64{"read_bytes bytes": {1, 4096, 4096, 4096}},
		}},
		"2.12/ost.txt": {
			{ID: "cluster-testjob1", Snapshot: 1461772761e9, Listed: 12, Counters: map[string][4]int64{
				"read_bytes bytes": {1, 4096, 4096, 4096}, "write_bytes bytes": {25, 1048576, 16777216, 26214400}, "punch reqs": {1, 0, 0, 0},
			}},
			{ID: "testjob2", Snapshot: 1461772761e9, Listed: 12, Counters: map[string][4]int64{
				"read_bytes bytes": {1, 1024, 1024, 1024}, "write_bytes bytes": {25, 2048, 2048, 51200}, "punch reqs": {1, 0, 0, 0},
			}},
		},
		"2.15/boot_clock.txt": {{
			ID: `a "b" - c?d`, Snapshot: 86412_123456789, Start: 86400_000000001, Listed: 2,
			Counters: map[string][4]int64{"read_bytes bytes": {1, 4096, 4096, 4096}},
		}},
		"2.15/escaped_id.txt": {{
			ID: `kworker/0:1 "x\.0`, Snapshot: 1669000000_123456789, Start: 1668999990_000000001, Listed: 2,
			Counters: map[string][4]int64{"read_bytes bytes": {1, 4096, 4096, 4096}},
		}},
		"2.16/header_off.txt": {{
			ID: "@kworker/0:1", Snapshot: 1669000000_123456789, Listed: 2,
			Counters: map[string][4]int64{"read_bytes bytes": {2, 4096, 1048576, 1052672}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			got, damage, err := scanAll(bytes.NewReader(text))
			require.NoError(t, err)
			require.Empty(t, damage)
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestParseWholeFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/2.10/ost.txt")
	require.NoError(t, err)
	got, damage, err := scanAll(bytes.NewReader(text))
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Len(t, got, strings.Count(string(text), "job_id"))
	require.Equal(t, parsed{ID: "24", Snapshot: 1510782606e9, Listed: 12, Counters: map[string][4]int64{
		"write_bytes bytes": {64575, 4096, 4194304, 215147593728}, "punch reqs": {1, 0, 0, 0},
	}}, got[0])

	text, err = os.ReadFile("testdata/2.12/mdt.txt")
	require.NoError(t, err)
	got, damage, err = scanAll(bytes.NewReader(text))
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Len(t, got, 2)
	require.Len(t, got[0].Counters, 16)
	require.Equal(t, [4]int64{521, 0, 0, 0}, got[0].Counters["mkdir reqs"])
	require.Equal(t, [4]int64{201, 0, 0, 0}, got[1].Counters["crossdir_rename reqs"])
}

// Whichever lines counted nothing in the entries before it, an entry lists all of its lines.
func TestParseListsEveryLine(t *testing.T) {
	const files, entries, lines = 100, 20, 12
	rng := rand.New(rand.NewPCG(1, 1))
	for range files {
		text := bytes.NewBufferString("job_stats:\n")
		for entry := range entries {
			fmt.Fprintf(text, "%s%d\n%s", head, entry, snap)
			for i := range lines {
				text.WriteString(line(fmt.Sprintf("op%d", i), fmt.Sprintf("samples: %11d, unit:  reqs", rng.IntN(5)/4)))
			}
		}
		got, damage, err := scanAll(text)
		require.NoError(t, err)
		require.Empty(t, damage)
		require.Len(t, got, entries)
		for _, e := range got {
			require.Equal(t, lines, e.Listed, e.ID)
		}
	}
}

const (
	head = "- job_id:          "
	snap = "  snapshot_time:   1700000000.000000001 secs.nsecs\n"
)

func line(name, rest string) string { return fmt.Sprintf("  %-16s { %s }\n", name+":", rest) }

func TestParseOdd(t *testing.T) {
	good := head + "7\n" + snap + line("open", "samples:           3, unit:  reqs")
	open3 := map[string][4]int64{"open reqs": {3, 0, 0, 0}}
	seven := parsed{ID: "7", Snapshot: 1700000000_000000001, Counters: open3, Listed: 1}
	for _, tt := range []struct {
		name, text string
		want       []parsed
		damage     []string
	}{
		{name: "no bytes"},
		{name: "header alone", text: "job_stats:\n"},
		{name: "no header", text: good, want: []parsed{seven}},
		{name: "header twice", text: "job_stats:\njob_stats:\n" + good, want: []parsed{seven}},
		{name: "header between entries", text: good + "job_stats:\n" + good, want: []parsed{seven, seven}},
		{name: "not job_stats", text: "<html>\n<p>\n", damage: []string{`job id "": line "<html>": not the start of an entry`}},
		{
			name: "unknown operation", text: head + "7\n" + snap + line("warp_speed", "samples:           2, unit: usecs, min:        1, max:        2, sum:                3, sumsq:                  5"),
			want: []parsed{{ID: "7", Snapshot: 1700000000_000000001, Listed: 1, Counters: map[string][4]int64{"warp_speed usecs": {2, 1, 2, 3}}}},
		},
		{
			name: "unknown unit", text: head + "7\n" + snap + line("fallocate", "samples:           2, unit: pages, min:        1, max:        2, sum:                3"),
			want: []parsed{{ID: "7", Snapshot: 1700000000_000000001, Listed: 1, Counters: map[string][4]int64{"fallocate pages": {2, 1, 2, 3}}}},
		},
		{name: "unknown header line", text: head + "7\n" + snap + "  owner_time:      12.5 secs.nsecs\n" + line("open", "samples:           3, unit:  reqs"), want: []parsed{seven}},
		{
			name: "2.12 MDT says reqs of bytes", text: head + "7\n" + snap + line("read_bytes", "samples:           2, unit:  reqs, min:       1, max:       2, sum:               3"),
			want: []parsed{{ID: "7", Snapshot: 1700000000_000000001, Listed: 1, Counters: map[string][4]int64{"read_bytes bytes": {2, 1, 2, 3}}}},
		},
		{
			name: "largest numbers", text: head + "7\n" + snap + line("write_bytes", "samples: 9223372036854775807, unit: bytes, min:16777216, max:9223372036854775807, sum:9223372036854775807, sumsq:18446744073709551615"),
			want: []parsed{{ID: "7", Snapshot: 1700000000_000000001, Listed: 1, Counters: map[string][4]int64{"write_bytes bytes": {1<<63 - 1, 16777216, 1<<63 - 1, 1<<63 - 1}}}},
		},
		{
			name: "number past int64", text: head + "6\n" + snap + line("open", "samples: 9223372036854775808, unit:  reqs") + good, want: []parsed{seven},
			damage: []string{`job id "6": line "  open:            { samples: 9223372036854775808, unit:  reqs }": samples is not a number`},
		},
		{
			name: "damaged counter between good entries", text: good + head + "6\n" + snap + line("open", "samples:           x, unit:  reqs") + line("close", "samples:           1, unit:  reqs") + good,
			want: []parsed{seven, seven}, damage: []string{`job id "6": line "  open:            { samples:           x, unit:  reqs }": samples is not a number`},
		},
		{
			name: "no snapshot_time", text: head + "6\n" + line("open", "samples:           3, unit:  reqs") + good, want: []parsed{seven},
			damage: []string{`job id "6": line "- job_id:          6": no snapshot_time`},
		},
		{
			name: "snapshot_time of letters", text: head + "6\n  snapshot_time:   soon\n" + good, want: []parsed{seven},
			damage: []string{`job id "6": line "  snapshot_time:   soon": not a time`},
		},
		{
			name: "operation twice", text: head + "6\n" + snap + line("open", "samples:           1, unit:  reqs") + line("open", "samples:           2, unit:  reqs") + good, want: []parsed{seven},
			damage: []string{`job id "6": line "  open:            { samples:           2, unit:  reqs }": an operation stands twice`},
		},
		{
			name: "cut in a line", text: good + head + "8\n" + snap + "  open:            { samples:     ", want: []parsed{seven},
			damage: []string{`job id "8": line "- job_id:          8": the text ends inside of an entry`},
		},
		{
			name: "id of 31 bytes", text: head + strings.Repeat("a", 31) + "\n" + snap + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: strings.Repeat("a", 31), Snapshot: 1700000000_000000001, Counters: open3, Listed: 1}},
		},
		{
			name: "31 bytes escaped", text: head + `"` + strings.Repeat(`\x2F`, 31) + "\"\n" + snap + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: strings.Repeat("/", 31), Snapshot: 1700000000_000000001, Counters: open3, Listed: 1}},
		},
		{
			name: "bytes that are not UTF-8, raw and escaped", text: head + "\"\xc3\xff\\x80\"\n" + snap + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: "\xc3\xff\x80", Snapshot: 1700000000_000000001, Counters: open3, Listed: 1}},
		},
		{
			name: "dash and blank in an id", text: head + "a - b\n" + snap + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: "a - b", Snapshot: 1700000000_000000001, Counters: open3, Listed: 1}},
		},
		{
			name: "quotes of an id before 2.15.2 are its own", text: head + "\"\\x41\"\n  snapshot_time:   1700000000\n" + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: `"\x41"`, Snapshot: 1700000000e9, Counters: open3, Listed: 1}},
		},
		{
			name: "forged head and line of a counter", text: head + "a\n  open: { samples: 9 }\n- job_\n  snapshot_time:   1700000000\n" + line("open", "samples:           3, unit:  reqs"),
			want: []parsed{{ID: "a\n  open: { samples: 9 }\n- job_", Snapshot: 1700000000e9, Counters: open3, Listed: 1}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				got, damage, err := scanAll(r)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(tt.want, got))
				require.Empty(t, cmp.Diff(tt.damage, damage))
			}
		})
	}
}

func TestScanReadError(t *testing.T) {
	text := ostText(3, 1)
	r := io.MultiReader(bytes.NewReader(text), iotest.ErrReader(errors.New("input/output error")))
	entries, damage, err := scanAll(r)
	require.EqualError(t, err, "input/output error")
	require.Empty(t, damage)
	require.Len(t, entries, 3)
}

func TestScanEndlessEntry(t *testing.T) {
	text := head + "1\n" + snap + "  open:            { samples:           1, unit:  reqs" + strings.Repeat(" ", 2*bufferSize)
	_, _, err := scanAll(strings.NewReader(text))
	require.EqualError(t, err, "an entry of more than 131072 bytes: not job_stats")
}

// A parser knows lines again that it saw before; what it remembers must not change what it reads.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.txt"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(f, err)
			f.Add(text[:min(len(text), 8<<10)])
		}
	}
	f.Add(ostText(3, 2))
	f.Add([]byte(head + "1\n" + snap + line("open", "samples:           1, unit:  reqs") + head + "2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, damage, err := scanAll(bytes.NewReader(text))
		pieces, damagePieces, errPieces := scanAll(iotest.HalfReader(bytes.NewReader(text)))
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Fatal("read in pieces:", d)
		}
		require.Equal(t, len(damage) == 0, len(damagePieces) == 0)
		require.Equal(t, err, errPieces)
		for _, e := range whole {
			// Parsed alone, an entry is the same.
			require.NotZero(t, e.Snapshot)
			require.LessOrEqual(t, len(e.Counters), e.Listed)
		}
		if len(whole) > 0 && len(damage) == 0 {
			again, _, err := scanAll(io.MultiReader(bytes.NewReader(text), strings.NewReader("\njob_stats:\n"), bytes.NewReader(text)))
			require.NoError(t, err)
			require.Equal(t, append(whole, whole...), again)
		}
	})
}

func FuzzColumn(f *testing.F) {
	f.Add([]byte("     1048576, max:"), 9)
	f.Add([]byte("          104857600, sumsq"), 17)
	f.Add([]byte("12345678 1, unit"), 12)
	f.Fuzz(func(t *testing.T, b []byte, width int) {
		switch width {
		case samplesWidth, minMaxWidth, sumWidth:
		default:
			width = sumWidth
		}
		v, end, ok := column(b, 0, width)
		want, wantEnd, wantOK := number(b, 0)
		if ok != wantOK || ok && (v != want || end != wantEnd) {
			t.Fatalf("%q: column gives %d, %d, %v; number %d, %d, %v", b, v, end, ok, want, wantEnd, wantOK)
		}
	})
}
