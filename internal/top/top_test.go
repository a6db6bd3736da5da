package top

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.00", 0.5: "0.50", 9.99: "9.99", 9.996: "10", 999.4: "999", 999.6: "1.00k", 1234: "1.23k", 99949: "99.9k", 99950: "100k",
		999499: "999k", 999600: "1.00M", 1.5e9: "1.50G", 9.2e18: "9.20E", 1e30: "many", -1: "?",
	} {
		require.Equal(t, want, short(v), v)
	}
	for v := 0.001; v < 9e20; v *= 1.07 {
		require.LessOrEqual(t, len(short(v)), 5, v)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab  ", fit("ab", 4))
	require.Equal(t, "abcd", fit("abcd", 4))
	require.Equal(t, "abc+", fit("abcde", 4))
	require.Empty(t, fit("abc", 0))
}

func TestPlain(t *testing.T) {
	t.Parallel()
	require.Equal(t, `a b\x1B[2J\x0A\xC3\xA4~\x7F`, plain("a b\x1b[2J\nä~\x7f"))
}

func TestArrange(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{FS: "b", Name: "10", User: "Alice", ReadRate: 1, MetaRate: 9, Read: 5},
		{FS: "a", Name: "9", Account: "chem", WriteRate: 3, OpsRate: 2},
		{FS: "a", Name: "10", WriteRate: 1, Write: 3},
		{FS: "a", Name: "x"},
	}
	names := func(by Column, filter string) string {
		arranged := arrange(rows, by, filter)
		all := make([]string, len(arranged))
		for i, r := range arranged {
			all[i] = r.FS + r.Name
		}
		return strings.Join(all, " ")
	}
	require.Equal(t, "a9 a10 b10 ax", names(SortBytes, ""))
	require.Equal(t, "b10 a9 a10 ax", names(SortRead, ""))
	require.Equal(t, "a9 a10 ax b10", names(SortWrite, ""))
	require.Equal(t, "a9 a10 ax b10", names(SortOps, ""))
	require.Equal(t, "b10 a9 a10 ax", names(SortMeta, ""))
	require.Equal(t, "b10 a10 a9 ax", names(SortTotal, ""))
	require.Equal(t, "a9 a10 ax b10", names(SortName, ""))
	require.Equal(t, "b10", names(SortName, "aLI"))
	require.Equal(t, "a9", names(SortName, "chem"))
	require.Equal(t, "a10 b10", names(SortName, "10"))
	require.Empty(t, names(SortName, "nobody"))
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]key{
		"q": {'q'}, "\r": {keyEnter}, "\n": {keyEnter}, "\x1b": {keyEscape}, "\x7f\b": {keyBackspace, keyBackspace},
		"\x1b[A\x1bOB": {keyUp, keyDown}, "\x1b[5~\x1b[6~\x1b[H": {keyPageUp, keyPageDown, keyHome}, "\x1b[1;5Cq": {keyOther, 'q'},
		"\x1b[": {keyOther}, "\x1bq": {keyEscape, 'q'}, "ä": {keyOther, keyOther}, "\x01": {keyOther}, "": nil,
	} {
		require.Equal(t, want, parseKeys([]byte(text)), "%q", text)
	}
}

// sampleRows are jobs of a site, one of whose names is hostile.
func sampleRows() []Row {
	return []Row{
		{FS: "scratch", Name: "4711", User: "alice", State: "running", ReadRate: 1.5e9, WriteRate: 12e6, OpsRate: 430, MetaRate: 3, Read: 5e12, Write: 3e9},
		{FS: "scratch", Name: "4712_7", User: "bob", State: "quiet", WriteRate: 2e6, OpsRate: 2, MetaRate: 15000, Write: 7e9},
		{FS: "home", Name: "x\x1b]0;owned\x07\x1b[31m\nroot", User: "\x9b2J"},
		{FS: "home", Name: strings.Repeat("long", 20), User: "carol", ReadRate: 1, OpsRate: 0.2, Read: 10},
	}
}

func newView() *view {
	v := &view{source: "this file server", every: 5 * time.Second, by: ByJob, sort: SortBytes, width: 110, height: 12}
	v.sampled(Snapshot{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rows: sampleRows()}, true, nil)
	return v
}

// Screens, as they are drawn after some keys.
func TestScreens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keys   string
		change func(v *view)
	}{
		"start":   {},
		"meta":    {keys: "m"},
		"filter":  {keys: "/scr"},
		"chosen":  {keys: "/SCRX\x7f\rw"},
		"paused":  {keys: "p", change: func(v *view) { v.sampled(Snapshot{}, true, nil) }},
		"failed":  {change: func(v *view) { v.sampled(Snapshot{}, false, errors.New("it\x1b[2J is gone")) }},
		"problem": {change: func(v *view) { v.shown.Problems = []string{"open x", "y"} }},
		"narrow":  {change: func(v *view) { v.width, v.height = 40, 8 }},
		"down":    {keys: "n\x1b[B\x1b[B\x1b[B\x1b[B", change: func(v *view) { v.height = 7 }},
		"waiting": {change: func(v *view) { v.shown, v.ready = Snapshot{}, false }},
		"users":   {keys: "u"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newView()
			for _, k := range parseKeys([]byte(tt.keys)) {
				v.key(k)
			}
			if tt.change != nil {
				tt.change(v)
			}
			lines := v.lines()
			require.Len(t, lines, v.height)
			golden(t, name+".txt", strings.Join(lines, "\n")+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	v := newView()
	require.Equal(t, quit, v.key('q'))
	require.Equal(t, nothing, v.key('j'))
	require.Equal(t, resample, v.key('u'))
	require.Equal(t, ByUser, v.by)
	for range len(Columns()) {
		v.key('s')
	}
	require.Equal(t, SortBytes, v.sort)
	for k, want := range map[key]Column{'b': SortBytes, 'r': SortRead, 'w': SortWrite, 'o': SortOps, 'm': SortMeta, 't': SortTotal, 'n': SortName} {
		v.key(k)
		require.Equal(t, want, v.sort)
	}
	// A filter that is being written takes the letters that are keys otherwise, and may be given up.
	for _, k := range parseKeys([]byte("/q\x1b")) {
		require.Equal(t, nothing, v.key(k))
	}
	require.Empty(t, v.filter)
	for _, k := range parseKeys([]byte("/quit\r")) {
		require.Equal(t, nothing, v.key(k))
	}
	require.Equal(t, "quit", v.filter)
	v.key(keyEscape)
	require.Empty(t, v.filter)
	// What came while it was paused is there when it goes on.
	v.key('p')
	v.sampled(Snapshot{Rows: []Row{{Name: "new"}}}, true, nil)
	require.NotEqual(t, "new", v.shown.Rows)
	v.key(' ')
	require.Equal(t, []Row{{Name: "new"}}, v.shown.Rows)
}

const jobStats = `job_stats:
- job_id:          %s
  snapshot_time:   %d.000000000 secs.nsecs
  start_time:      %d.000000000 secs.nsecs
  elapsed_time:    1.000000000 secs.nsecs
  read_bytes:      { samples: %d, unit: bytes, min: 1, max: 1, sum: %d, sumsq: 1 }
  write_bytes:     { samples: %d, unit: bytes, min: 1, max: 1, sum: %d, sumsq: 1 }
`

const metaStats = `job_stats:
- job_id:          4711
  snapshot_time:   %d.000000000 secs.nsecs
  start_time:      100.000000000 secs.nsecs
  elapsed_time:    1.000000000 secs.nsecs
  open:            { samples: %d, unit: usecs, min: 1, max: 1, sum: 1, sumsq: 1 }
`

// server is a file server whose files a test writes.
type server struct {
	t    *testing.T
	root string
	now  time.Time
}

func (s *server) write(path, text string) {
	path = filepath.Join(s.root, path)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
}

func (s *server) ost(name, job string, start, reads, read, writes, write int) {
	s.write("proc/fs/lustre/obdfilter/"+name+"/job_stats", fmt.Sprintf(jobStats, job, s.now.Unix(), start, reads, read, writes, write))
}

// sample waits for ten seconds of the server's time, and reads it.
func (s *server) sample(l *Local, by Grouping) (Snapshot, bool) {
	s.now = s.now.Add(10 * time.Second)
	snapshot, ready, err := l.Sample(s.t.Context(), by)
	require.NoError(s.t, err)
	require.Equal(s.t, s.now, snapshot.At)
	snapshot.Rows = arrange(snapshot.Rows, SortName, "")
	return snapshot, ready
}

func newServer(t *testing.T) (*server, *Local) {
	t.Helper()
	s := &server{t: t, root: t.TempDir(), now: time.Unix(1000, 0)}
	l, err := NewLocal(s.root, []string{"%e.%u", "%j"}, func() time.Time { return s.now })
	require.NoError(t, err)
	return s, l
}

// Rates are those of both kinds of targets together; a counter that starts again from zero goes on.
func TestLocal(t *testing.T) {
	t.Parallel()
	s, l := newServer(t)
	s.ost("lustre-OST0000", "4711", 900, 1, 1000, 2, 5000)
	s.write("proc/fs/lustre/mdt/lustre-MDT0000/job_stats", fmt.Sprintf(metaStats, 999, 5))
	got, ready := s.sample(l, ByJob)
	require.False(t, ready)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", Read: 1000, Write: 5000}}, got.Rows)

	s.ost("lustre-OST0000", "4711", 900, 1, 1000, 4, 9000)
	s.write("proc/fs/lustre/mdt/lustre-MDT0000/job_stats", fmt.Sprintf(metaStats, 1012, 25))
	got, ready = s.sample(l, ByJob)
	require.True(t, ready)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", WriteRate: 400, OpsRate: 0.2, MetaRate: 2, Read: 1000, Write: 9000}}, got.Rows)

	// Nothing new.
	got, _ = s.sample(l, ByJob)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", Read: 1000, Write: 9000}}, got.Rows)

	// The counters started again, and another target shows the same job for the first time: all of it is new.
	s.ost("lustre-OST0000", "4711", 1025, 0, 0, 1, 300)
	s.write("proc/fs/lustre/obdfilter/lustre-OST0001/job_stats", "job_stats:\n")
	got, _ = s.sample(l, ByJob)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", WriteRate: 30, OpsRate: 0.1, Read: 1000, Write: 9300}}, got.Rows)
	s.ost("lustre-OST0001", "4711", 1045, 2, 700, 0, 0)
	got, _ = s.sample(l, ByJob)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", ReadRate: 70, OpsRate: 0.2, Read: 1700, Write: 9300}}, got.Rows)
}

// A target that goes to another server and comes back has counted from zero there: what it shows then is new.
func TestLocalAway(t *testing.T) {
	t.Parallel()
	s, l := newServer(t)
	s.ost("lustre-OST0000", "4711", 900, 0, 0, 1, 5000)
	s.sample(l, ByJob)
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "proc/fs/lustre/obdfilter/lustre-OST0000")))
	got, _ := s.sample(l, ByJob)
	require.Empty(t, got.Rows)
	s.ost("lustre-OST0000", "4711", 1025, 0, 0, 1, 200)
	got, _ = s.sample(l, ByJob)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", WriteRate: 10, OpsRate: 0.05, Write: 5200}}, got.Rows)
}

func TestLocalUsers(t *testing.T) {
	t.Parallel()
	s, l := newServer(t)
	s.ost("lustre-OST0000", "bash.1000", 900, 1, 10, 0, 0)
	s.ost("lustre-OST0001", "ls.1000", 900, 1, 20, 0, 0)
	s.ost("lustre-OST0002", "4711", 900, 1, 40, 0, 0)
	s.ost("home-OST0000", "ls.1001", 900, 1, 80, 0, 0)
	s.sample(l, ByUser)
	s.ost("home-OST0000", "ls.1001", 900, 1, 180, 0, 0)
	got, _ := s.sample(l, ByUser)
	require.Equal(t, []Row{
		{FS: "home", Name: "1001", User: "1001", ReadRate: 10, Read: 180}, {FS: "lustre", Name: "(jobs)", Read: 40}, {FS: "lustre", Name: "1000", User: "1000", Read: 30},
	}, got.Rows)
	// Another grouping is the same reading, whatever the time is.
	now := s.now
	s.now = now.Add(time.Millisecond)
	got, _, err := l.Sample(t.Context(), ByJob)
	require.NoError(t, err)
	require.Equal(t, now, got.At)
	require.Equal(t, Row{FS: "home", Name: "ls.1001", User: "1001", ReadRate: 10, Read: 180}, arrange(got.Rows, SortName, "")[0])
}

func TestLocalProblems(t *testing.T) {
	t.Parallel()
	s, l := newServer(t)
	_, _, err := l.Sample(t.Context(), ByJob)
	require.EqualError(t, err, "no target of Lustre below "+s.root+"/proc/fs/lustre: this host is no file server")
	s.ost("lustre-OST0000", "4711", 900, 1, 10, 0, 0)
	s.write("proc/fs/lustre/obdfilter/lustre-OST0001/job_stats", "job_stats:\n- job_id:          4711\n  read_bytes:      { samples: x\n")
	path := filepath.Join(s.root, "proc/fs/lustre/obdfilter/lustre-OST0002/job_stats")
	require.NoError(t, os.MkdirAll(path, 0o750))
	got, _ := s.sample(l, ByJob)
	require.Equal(t, []Row{{FS: "lustre", Name: "4711", Read: 10}}, got.Rows)
	require.Len(t, got.Problems, 2)
	require.Contains(t, got.Problems[0], "lustre-OST0001/job_stats: 1 entries can't be read: ")
	require.Equal(t, path+": read "+path+": is a directory", got.Problems[1])
	_, err = NewLocal("/", []string{"%z"}, time.Now)
	require.Error(t, err)
}

const jobsAnswer = `{"time":"2026-01-01T00:01:00Z","rows":[
{"fs":"lustre","kind":"ost","cluster":"hpc","id":"4711","job":"4710_1","user":"bob","account":"chem","state":"running",
 "totals":{"ops":3,"read_bytes":3000},"rates":{"ops":0.1,"read_bytes":100},"shares":{"bytes_share":0.75}},
{"fs":"lustre","kind":"mdt","cluster":"hpc","id":"4711","job":"4710_1","user":"bob","account":"chem","state":"running","totals":{"ops":9},"rates":{"ops":2}},
{"fs":"lustre","kind":"ost","uid":"1000","exe":"bash","rates":{"write_bytes":5},"totals":{"write_bytes":50}},
{"fs":"lustre","kind":"ost","id":"_other","rates":{"ops":1}}]}`

func TestRemote(t *testing.T) {
	t.Parallel()
	var asked []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization")+" "+r.URL.String())
		switch r.URL.Path {
		case "/v1/jobs":
			_, _ = io.WriteString(w, jobsAnswer)
		case "/v1/users":
			_, _ = io.WriteString(w, `{"rows":[{"fs":"lustre","kind":"ost","user":"bob","rates":{"ops":4}},{"fs":"lustre","kind":"ost","uid":"7","rates":{}}]}`)
		}
	})
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	unix := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go unix.Serve(listener)            //nolint:errcheck // It ends with Close.
	t.Cleanup(func() { unix.Close() }) //nolint:errcheck // Nothing was written to it.
	r, err := NewRemote("unix:"+socket, "tok", "")
	require.NoError(t, err)
	require.Equal(t, "lustre_jobs at unix:"+socket, r.Name())
	s, ready, err := r.Sample(t.Context(), ByJob)
	require.NoError(t, err)
	require.True(t, ready)
	require.Equal(t, Snapshot{At: time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC), Rows: []Row{
		{FS: "lustre", Name: "4710_1", User: "bob", Account: "chem", State: "running", ReadRate: 100, OpsRate: 0.1, MetaRate: 2, Read: 3000},
		{FS: "lustre", Name: "bash.1000", User: "1000", WriteRate: 5, Write: 50},
		{FS: "lustre", Name: "_other", OpsRate: 1},
	}}, s)
	s, _, err = r.Sample(t.Context(), ByUser)
	require.NoError(t, err)
	require.Equal(t, []Row{{FS: "lustre", Name: "bob", OpsRate: 4}, {FS: "lustre", Name: "7"}}, s.Rows)
	require.Equal(t, []string{"Bearer tok /v1/jobs?fields=read_bytes,write_bytes,ops", "Bearer tok /v1/users?fields=read_bytes,write_bytes,ops"}, asked)
}

func TestRemoteFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		text   string
		want   string
	}{
		{http.StatusUnauthorized, "", "it wants another token"},
		{http.StatusNotFound, "", "status 404"},
		{http.StatusFound, "", "status 302"},
		{http.StatusOK, "<html>", "the answer is none of lustre_jobs: invalid character '<' looking for beginning of value"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.text)
		}))
		r, err := NewRemote(web.URL, "", "")
		require.NoError(t, err)
		_, _, err = r.Sample(t.Context(), ByJob)
		require.EqualError(t, err, "lustre_jobs at "+web.URL+": "+tt.want)
		web.Close()
		_, _, err = r.Sample(t.Context(), ByJob)
		require.ErrorContains(t, err, "connection refused")
	}
	for _, address := range []string{"", "central:8095", "ftp://a", "http://"} {
		_, err := NewRemote(address, "", "")
		require.EqualError(t, err, fmt.Sprintf("%q is neither a URL nor unix:PATH", address))
	}
	_, err := NewRemote("https://a", "", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = NewRemote("https://a", "", empty)
	require.EqualError(t, err, empty+": no certificate in it")
}

// Whatever the names are, no screen has a byte that a terminal obeys, and no line is wider than it.
func FuzzScreen(f *testing.F) {
	f.Add("a\x1b[2J", "b", "c\n", uint8(80), uint8(24), "/x\r")
	f.Fuzz(func(t *testing.T, name, user, fs string, width, height uint8, keys string) {
		v := newView()
		v.width, v.height = int(width), int(height)
		v.sampled(Snapshot{Rows: []Row{{FS: fs, Name: name, User: user, State: user}}, Problems: []string{name}}, true, nil)
		for _, k := range parseKeys([]byte(keys)) {
			v.key(k)
		}
		lines := v.lines()
		require.Len(t, lines, max(v.height, 1))
		for _, line := range append(lines, strings.Split(v.table(0), "\n")...) {
			require.Equal(t, plain(line), line)
		}
		for _, line := range lines {
			require.LessOrEqual(t, len(line), v.width)
		}
	})
}

// Every key takes at least a byte, and the bytes of one read never get lost.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[A\x1b[1;5Cq"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			k, n := parseKey(rest)
			require.Positive(t, n)
			require.LessOrEqual(t, n, len(rest))
			require.True(t, k >= ' ' && k <= '~' || k >= keyEnter && k <= keyOther)
			rest = rest[n:]
		}
	})
}

// No answer adds to what it has: the sums of all rows are those of the answer's.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(jobsAnswer))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseAnswer(text, ByJob)
		if err != nil {
			return
		}
		var a answer
		require.NoError(t, json.Unmarshal(text, &a))
		require.LessOrEqual(t, len(s.Rows), len(a.Rows))
		want := int64(0)
		for _, r := range a.Rows {
			want += r.Totals["read_bytes"]
		}
		total := sum(s.Rows)
		require.Equal(t, want, total.Read)
	})
}
