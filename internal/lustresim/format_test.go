package lustresim

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	second = int64(time.Second)
	t0     = 1_700_000_000 * second
)

func eraOf(t *testing.T, name string) Era {
	t.Helper()
	e, err := EraNamed(name)
	require.NoError(t, err)
	return e
}

// operate does an operation where the era has it.
func operate(t *testing.T, target *Target, now int64, id, op string, values ...uint64) {
	t.Helper()
	if _, ok := target.opIndex[op]; !ok {
		return
	}
	for _, v := range values {
		require.NoError(t, target.Op(now, id, op, v))
	}
}

// The files of testdata/eras were printed by the kernel's own format strings
// under another printf.
func TestTextOfEveryEra(t *testing.T) {
	const odd = "a \"b\":/\xe9\n"
	for _, era := range Eras() {
		t.Run(era.Name, func(t *testing.T) {
			read, write := "read_bytes", "write_bytes"
			if era.Name == "2.5" {
				read, write = "read", "write"
			}
			ost := NewTarget("lustre", OST, 10, era, 600*time.Second, t0)
			require.Equal(t, "lustre-OST000a", ost.Name())
			operate(t, ost, t0+1, "4242", write, 4096, 16777216, 4097)
			operate(t, ost, t0+1, "4242", "setattr", 3, 3)
			if era.Name != "2.5" {
				operate(t, ost, t0+1, "4242", "write", 7, 123456789)
			}
			operate(t, ost, t0+61*second+second/2, "4242", read, 1)
			operate(t, ost, t0+90*second, odd, read, 3000000000)
			requireFile(t, "eras/"+era.Name+"_ost.txt", ost.Text())

			mdt := NewTarget("lustre", MDT, 0, era, 600*time.Second, t0)
			require.Equal(t, "lustre-MDT0000", mdt.Name())
			operate(t, mdt, t0+1, "4242", "open", 5, 11)
			operate(t, mdt, t0+1, "4242", "crossdir_rename", 40)
			operate(t, mdt, t0+1, "4242", "rename", 40)
			operate(t, mdt, t0+1, "4242", "read_bytes", 100)
			mdt.hash["4242"].latest = mdt.clock(t0 + 61*second + second/2)
			operate(t, mdt, t0+90*second, odd, "close", 1)
			requireFile(t, "eras/"+era.Name+"_mdt.txt", mdt.Text())
		})
	}
}

func requireFile(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// fields of a line of the samples: name, samples, min, max, sum, sumsq, hist.
var sampleLine = regexp.MustCompile(`^  (\w+): +\{ samples: +(\d+), unit: +\w+(?:, min: *(\d+), max: *(\d+), sum: *(\d+))?` +
	`(?:, sumsq: *(\d+))?(?:, hist: \{ (.*) \})? \}$`)

// Files from the field, or written by hand from the source, come out byte for
// byte when an entry has their numbers.
func TestTextEqualsSamples(t *testing.T) {
	tests := []struct {
		file, era string
		kind      Kind
		times     [][2]int64 // snapshot and start of each entry on the wall clock
		ids       []string
		someOps   bool // the file was shortened to some counters
	}{
		{file: "hpe_2.10_OST0000", era: "2.10", kind: OST, ids: []string{"24", "26", "28"},
			times: [][2]int64{{1510782606e9, 0}, {1510782606e9, 0}, {1510782606e9, 0}}},
		{file: "hpe_2.10_idle", era: "2.10", kind: OST},
		{file: "telegraf_2.12_OST0001", era: "2.12", kind: OST, ids: []string{"cluster-testjob1", "testjob2"},
			times: [][2]int64{{1461772761e9, 0}, {1461772761e9, 0}}},
		// It has no data on MDT.
		{file: "telegraf_2.12_MDT", era: "2.10", kind: MDT, ids: []string{"cluster-testjob1", "testjob2"},
			times: [][2]int64{{1461772761e9, 0}, {1461772761e9, 0}}},
		{file: "synth_2.5_OST", era: "2.5", kind: OST, ids: []string{"evil\n- job_id:          123456"},
			times: [][2]int64{{1400000000e9, 0}}},
		{file: "synth_2.15.0_OST", era: "2.15.0", kind: OST, ids: []string{"a \"b\" - c\nd"}, someOps: true,
			times: [][2]int64{{86412123456789, 86400000000001}}},
		{file: "synth_2.15.2_OST", era: "2.15.2", kind: OST, ids: []string{"kworker/0:1 \"x\\.0"}, someOps: true,
			times: [][2]int64{{1669000000123456789, 1668999990000000001}}},
		{file: "synth_2.16_OST", era: "2.16-noheader", kind: OST, ids: []string{"@kworker/0:1"}, someOps: true,
			times: [][2]int64{{1669000000123456789, 0}}},
		{file: "synth_2.17_idle", era: "2.17", kind: OST},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", "samples", tt.file+".txt"))
			require.NoError(t, err)
			era := eraOf(t, tt.era)
			if tt.someOps {
				era.ost = era.ost[:2] // read_bytes and write_bytes
			}
			target := NewTarget("lustre", tt.kind, 0, era, 600*time.Second, t0)
			for _, id := range tt.ids {
				target.newEntry(id, 0)
			}
			fillFromSample(t, target, want)
			for i, at := range tt.times {
				target.list[i].latest, target.list[i].born = at[0], at[1]
			}
			require.Equal(t, string(want), string(target.Text()))
		})
	}
}

// fillFromSample gives the entries, in order, the numbers of a sample.
func fillFromSample(t *testing.T, target *Target, sample []byte) {
	t.Helper()
	at := 0
	for text := range bytes.Lines(sample) {
		m := sampleLine.FindStringSubmatch(strings.TrimSuffix(string(text), "\n"))
		if m == nil {
			continue
		}
		e := target.list[at/len(target.ops)]
		i := at % len(target.ops)
		require.Equal(t, target.ops[i].Name, m[1], "counter %d", at)
		number := func(field int) uint64 {
			n, err := strconv.ParseUint("0"+m[field], 10, 64)
			require.NoError(t, err)
			return n
		}
		e.counters[i] = counter{count: number(2), min: number(3), max: number(4), sum: number(5), sumsq: number(6)}
		if m[7] != "" {
			require.Equal(t, "4K: 1, 1M: 1", m[7], "the only histogram in the samples")
			e.hist[target.histIndex(i)][12], e.hist[target.histIndex(i)][20] = 1, 1
		}
		at++
	}
	require.Equal(t, len(target.list)*len(target.ops), at, "counters in the sample")
}

func TestIDs(t *testing.T) {
	tests := []struct{ id, raw, printable, escaped, escapedV2 string }{
		{"123", "123", "123", "123", "123"},
		{"bash.1000", "bash.1000", "bash.1000", "bash.1000", "bash.1000"},
		{"a-b_c@d", "a-b_c@d", "a-b_c@d", "a-b_c@d", "a-b_c@d"},
		{"@x", "@x", "@x", "@x", `"@x"`},
		{"a:b", "a:b", "a:b", `"a\x3Ab"`, `"a:b"`},
		{"a/b", "a/b", "a/b", `"a\x2Fb"`, "a/b"},
		{"a b", "a b", "a b", `"a\x20b"`, `"a\x20b"`},
		{"a\nb\x7f", "a\nb\x7f", "a?b?", `"a\x0Ab\x7F"`, `"a\x0Ab\x7F"`},
		{`"`, `"`, `"`, `"\x22"`, `"\x22"`},
		{"\x80\x9f\xa0\xbf", "\x80\x9f\xa0\xbf", "??\xa0\xbf", `"\x80\x9F\xA0\xBF"`, `"\x80\x9F\xA0\xBF"`},
		{"\xc0\xd7\xf7\xff", "\xc0\xd7\xf7\xff", "\xc0\xd7\xf7\xff", "\"\xc0\\xD7\\xF7\xff\"", "\"\xc0\\xD7\\xF7\xff\""},
	}
	for _, tt := range tests {
		for style, want := range map[idStyle]string{
			idRaw: tt.raw, idPrintable: tt.printable, idEscaped: tt.escaped, idEscapedV2: tt.escapedV2,
		} {
			require.Equal(t, want, string(appendID(nil, style, tt.id)), "%q in style %d", tt.id, style)
		}
	}
}

func TestVisible(t *testing.T) {
	require.Equal(t, "a\nb", eraOf(t, "2.5").Visible("a\nb"))
	require.Equal(t, "a?b", eraOf(t, "2.12").Visible("a\nb"))
	require.Equal(t, "a?b", eraOf(t, "2.15.0").Visible("a\nb"))
	require.Equal(t, "a\nb", eraOf(t, "2.15.2").Visible("a\nb"))
}

func TestTimes(t *testing.T) {
	tests := []struct {
		ns   int64
		want string
	}{
		{0, "x0.000000000 secs.nsecs\n"},
		{1, "x0.000000001 secs.nsecs\n"},
		{1724140459176791282, "x1724140459.176791282 secs.nsecs\n"},
		// A clock that stepped back: the kernel prints a negative time_t with %llu.
		{-1, "x18446744073709551615.999999999 secs.nsecs\n"},
		{-second, "x18446744073709551615.000000000 secs.nsecs\n"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, string(appendTime(nil, "x", tt.ns)), "%d", tt.ns)
	}
}

func TestHistogramBuckets(t *testing.T) {
	for value, want := range map[uint64]int{
		0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 4096: 12, 4097: 13, 1 << 20: 20, 1<<31 + 1: 31, 1 << 40: 31,
	} {
		require.Equal(t, want, bucket(value), "%d", value)
	}
	var h histogram
	h[0], h[9], h[10], h[19], h[20], h[30], h[31] = 1, 2, 3, 4, 5, 6, 7
	require.Equal(t, ", hist: { 1: 1, 512: 2, 1K: 3, 512K: 4, 1M: 5, 1G: 6, 2G: 7 }", string(appendHist(nil, &h)))
}

func TestEraNamed(t *testing.T) {
	for name, want := range map[string]string{"2.8": "2.10", "2.15": "2.15.6", "2.16": "2.16"} {
		require.Equal(t, want, eraOf(t, name).Name)
	}
	_, err := EraNamed("3.0")
	require.EqualError(t, err, `unknown era "3.0": want one of 2.5, 2.7, 2.10, 2.12, 2.14, 2.15.0, 2.15.2, 2.15.6, 2.16, 2.16-noheader, 2.17`)
}

func TestHasStartTime(t *testing.T) {
	var with []string
	for _, e := range Eras() {
		if e.HasStartTime() {
			with = append(with, e.Name)
		}
	}
	require.Equal(t, []string{"2.15.0", "2.15.2", "2.15.6", "2.16", "2.17"}, with)
}
