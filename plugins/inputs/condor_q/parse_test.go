package condor_q

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// read gives all ads as maps of what is known: int64, float64, bool or string.
func read(r io.Reader, names ...string) ([]map[string]any, error) {
	attributes := newAttributes(names...)
	var ads []map[string]any
	err := parseAds(r, attributes, func(a *ad) error {
		known := make(map[string]any)
		for i, name := range names {
			if v, ok := a.boolean(i); ok {
				known[name] = v
			} else if v, ok := a.integer(i); ok {
				known[name] = v
			} else if v, ok := a.float(i); ok {
				known[name] = v
			} else if a.is(i, text) {
				known[name] = a.text(i)
			}
		}
		ads = append(ads, known)
		return nil
	})
	return ads, err
}

func TestParseAds(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []map[string]any
	}{
		{"no output", "", nil},
		{"no job", "[\n]\n", nil},
		{"an empty ad", "[{}]", []map[string]any{{}}},
		{"two", "[\n{\n  \"A\": 1,\n  \"Z\": \"x\"\n}\n,\n{\n  \"A\": 2\n}\n]\n", []map[string]any{{"A": int64(1)}, {"A": int64(2)}}},
		{"a name in other letters", `[{"a": 7}]`, []map[string]any{{"A": int64(7)}}},
		{"in other orders", `[{"A": 1, "B": 2}, {"B": 3, "A": 4}, {"B": 5}, {"A": 6, "x": 0, "b": 7}]`,
			[]map[string]any{{"A": int64(1), "B": int64(2)}, {"A": int64(4), "B": int64(3)}, {"B": int64(5)}, {"A": int64(6), "B": int64(7)}}},
		{"twice", `[{"A": 7, "a": 8}]`, []map[string]any{{"A": int64(8)}}},
		{"real", `[{"A": 13.0, "B": 1.5}]`, []map[string]any{{"A": int64(13), "B": 1.5}}},
		{"largest", `[{"A": 9223372036854775807, "B": -9223372036854775808}]`, []map[string]any{{"A": int64(math.MaxInt64), "B": int64(math.MinInt64)}}},
		{"larger", `[{"A": 9223372036854775808, "B": 1.5E+300}]`, []map[string]any{{"A": 9223372036854775808.0, "B": 1.5e300}}},
		{"no number that there is", `[{"A": 1E+999, "B": -}]`, []map[string]any{{}}},
		{"booleans", `[{"A": true, "B": false}]`, []map[string]any{{"A": true, "B": false}}},
		{"undefined", `[{"A": null}]`, []map[string]any{{}}},
		{"an expression", `[{"A": "\/Expr(ifthenelse(x,\"y\",1))\/", "B": "/Expr(1)/"}]`, []map[string]any{{"B": "/Expr(1)/"}}},
		{"a list", `[{"A": [1, "]", {"A": 3, "q": "}\""}], "B": {"A": []}}]`, []map[string]any{{}}},
		{"escapes", `[{"A": "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00", "B": "\ud83dx\ud83d\u0041"}]`,
			[]map[string]any{{"A": "\"\\/\b\f\n\r\té😀", "B": "\uFFFDx\uFFFDA"}}},
		{"no UTF-8", "[{\"A\": \"\xff\xfe latin \xe9\", \"B\": \"n\xe9\"}]", []map[string]any{{"A": "\uFFFD latin \uFFFD", "B": "n\uFFFD"}}},
		{"a line break as it is", "[{\"A\": \"two\nlines\"}]", []map[string]any{{"A": "two\nlines"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ads, err := read(strings.NewReader(test.text), "A", "B")
			require.NoError(t, err)
			require.Equal(t, test.want, ads)
		})
	}
}

func TestParseAdsErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"All queues are empty", `'A' where a list begins`},
		{"[", "ad 1: unexpected EOF"},
		{`[{"A": 1}, {"A": 1`, `ad 2: unexpected EOF`},
		{`[{"A": 1}, {"A": "x`, `ad 2: unexpected EOF`},
		{`[{"A": 1} {`, `ad 2: '{' where a comma or ']' belongs`},
		{`[{"A": 1}]]`, `']' behind the list`},
		{`[{"A": 1}][]`, `'[' behind the list`},
		{`[{"A" 1}]`, `ad 1: attribute "A": '1' where ':' belongs`},
		{`[{A: 1}]`, `ad 1: 'A' where '"' belongs`},
		{`[{"A": undefined}]`, `ad 1: attribute "A": "undefined" is no value`},
		{`[{"A": }]`, `ad 1: attribute "A": "" is no value`},
		{`[{"A": "\x"}]`, `ad 1: attribute "A": "\\x" is no escape`},
		{`[{"A": "\u12x4"}]`, `ad 1: attribute "A": "\\u12x4" is no escape`},
		{`[{"` + strings.Repeat("n", 1000) + `": x}]`, `ad 1: attribute "` + strings.Repeat("n", 80) + `": "x" is no value`},
		{`["x"]`, `ad 1: '"' where '{' belongs`},
	} {
		t.Run(test.want, func(t *testing.T) {
			_, err := read(strings.NewReader(test.text), "A")
			require.EqualError(t, err, test.want)
		})
	}
}

func TestParseAdsEndsWithTheReaderAndTheTaker(t *testing.T) {
	broken := errors.New("broken")
	_, err := read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(`[{"A": 1}]`))), "A")
	require.EqualError(t, err, "ad 1: timeout")
	err = parseAds(strings.NewReader(`[{"A": 1}, x`), newAttributes("A"), func(*ad) error { return broken })
	require.ErrorIs(t, err, broken)
}

// FuzzParseAds: how the text is cut into pieces changes nothing, and a text that is cut off is never taken for the whole.
func FuzzParseAds(f *testing.F) {
	for _, seed := range []string{
		"", "[\n]\n", `[{"A": 1, "B": "x"}, {"a": [1, {"B": "}"}]}]`, `[{"A": "\/Expr(x)\/", "B": "\ud83d\ude00\ud83d"}]`,
		"[{\"A\": \"\xff\", \"B\": 1.0E+3}]", `[{"A": 123456789012345678901234567890, "B": -0.5}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		ads, err := read(bytes.NewReader(content), "A", "B")
		pieces, piecesErr := read(iotest.OneByteReader(bytes.NewReader(content)), "A", "B")
		require.Equal(t, ads, pieces)
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(piecesErr))
		trimmed := bytes.Trim(content, " \n\r\t")
		if err != nil || len(trimmed) < 2 {
			return
		}
		for _, part := range []int{1, len(trimmed) / 2, len(trimmed) - 1} {
			_, err := read(bytes.NewReader(trimmed[:part]), "A", "B")
			require.Error(t, err)
		}
	})
}

// FuzzParseAdsAsJSON: what encoding/json writes we read as encoding/json does.
func FuzzParseAdsAsJSON(f *testing.F) {
	f.Add("text", "other", int64(1), 2.5, true, []byte("\x00"))
	f.Add("\"\\\u2028\xff😀", "", int64(math.MinInt64), -1e300, false, []byte("]}"))
	f.Fuzz(func(t *testing.T, s, key string, n int64, x float64, b bool, nested []byte) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Skip("JSON has no such number")
		}
		object := map[string]any{"S": s, "N": n, "X": x, "T": b, "none": nil, "list": []any{key, map[string]any{key: string(nested)}}}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(object)), func(ours string) bool { return strings.EqualFold(ours, key) }) {
			object[key] = nested
		}
		content, err := json.Marshal([]any{object, object})
		require.NoError(t, err)
		var theirs []struct{ S string }
		require.NoError(t, json.Unmarshal(content, &theirs))

		columns := newAttributes("S", "N", "X", "T", "none", "list")
		ads := 0
		require.NoError(t, parseAds(bytes.NewReader(content), columns, func(a *ad) error {
			ads++
			gotN, okN := a.integer(1)
			gotX, okX := a.float(2)
			gotT, okT := a.boolean(3)
			require.True(t, okN && okX && okT)
			require.Equal(t, []any{strings.ToValidUTF8(theirs[0].S, "\uFFFD"), n, x, b}, []any{a.text(0), gotN, gotX, gotT})
			require.Equal(t, unknown, a.values[4].kind)
			require.Equal(t, unknown, a.values[5].kind)
			return nil
		}))
		require.Equal(t, 2, ads)
	})
}

// manyJobs is what condor_q prints of so many jobs, with all attributes that the plugin may ask for.
func manyJobs(n int) []byte {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{
  "AcctGroup": "group_physics.alice",
  "ClusterId": %d,
  "CpusProvisioned": 1,
  "EnteredCurrentStatus": 1795272931,
  "GlobalJobId": "head.pool.test#%d.%d#1795272931",
  "GPUsProvisioned": 0,
  "JobBatchName": "many jobs",
  "JobCurrentStartDate": 1795272931,
  "JobStatus": %d,
  "JobUniverse": 5,
  "MemoryProvisioned": 128,
  "Owner": "user%d",
  "ProcId": %d,
  "QDate": 1795272931,
  "RemoteWallClockTime": 12.0,
  "RequestCpus": 1,
  "RequestMemory": 128,
  "ServerTime": 1795272990,
  "User": "user%d@pool.test"
}
`, i/100, i/100, i%100, 1+i%2, i%50, i%100, i%50)
	}
	b.WriteString("]\n")
	return b.Bytes()
}

// repeated reads as the rest, and then as a text again and again.
type repeated struct {
	text  []byte
	times int
	rest  []byte
}

func (r *repeated) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.times == 0 {
			return 0, io.EOF
		}
		r.times--
		r.rest = r.text
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// 48 MB of ads, each with all that HTCondor has of a job, are read without being kept.
func TestParseAdsKeepsNothing(t *testing.T) {
	content := manyJobs(100)
	ads := content[2 : len(content)-2]
	ads = bytes.ReplaceAll(ads, []byte("\"User\":"), []byte("\"Requirements\": \"\\/Expr("+strings.Repeat("(TARGET.Disk >= RequestDisk) && ", 50)+")\\/\",\n  \"User\":"))
	source := &repeated{text: append(ads, ",\n"...), times: 48<<20/len(ads) + 1, rest: []byte("[")}
	columns := newJobColumns(jobCounts | jobUsers | jobHolds)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	jobs := 0
	err := parseAds(io.MultiReader(source, strings.NewReader(`{"ClusterId": 7}]`)), columns.attributes, func(a *ad) error {
		columns.read(a)
		jobs++
		return nil
	})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Greater(t, jobs, 20_000)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes that were ever allocated")
}

func BenchmarkParseAds(b *testing.B) {
	content := manyJobs(20_000)
	columns := newJobColumns(jobDetails)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		var jobs int
		err := parseAds(bytes.NewReader(content), columns.attributes, func(a *ad) error {
			if j := columns.read(a); j.cluster != absent {
				jobs++
			}
			return nil
		})
		if err != nil || jobs != 20_000 {
			b.Fatal(jobs, err)
		}
	}
}
