package who_users

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// nothing takes metrics and keeps none.
type nothing struct {
	telegraf.Accumulator
	errs []error
}

func (*nothing) AddFields(string, map[string]any, map[string]string, ...time.Time) {}

func (n *nothing) AddError(err error) { n.errs = append(n.errs, err) }

// manyRecords makes a utmp with so many sessions, each of a user of its own.
func manyRecords(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(record(layoutOf("amd64"), 7, 1000+i, fmt.Sprintf("pts/%d", i), fmt.Sprintf("user%04d", i), fmt.Sprintf("192.0.2.%d", i%250), then.Add(-time.Hour)))
	}
	return b.Bytes()
}

func newBench(tb testing.TB, sessions int) *WhoUsers {
	tb.Helper()
	p := newPlugin()
	p.Method, p.ListUsers, p.SessionRows, p.History = "utmp", true, true, config.Duration(5*time.Minute)
	p.HostRoot = newHost(tb, map[string]string{"run/utmp": string(manyRecords(sessions)), "var/log/wtmp": string(manyRecords(sessions))})
	now := then
	p.now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	p.alive = func(int32) bool { return true }
	p.Log = testutil.Logger{Quiet: true}
	require.NoError(tb, p.Init())
	tb.Cleanup(p.Stop)
	return p
}

// BenchmarkGather measures a gather of 1,000 sessions of utmp, with a list, rows and a history.
func BenchmarkGather(b *testing.B) {
	if layoutOf(runtime.GOARCH) != layoutOf("amd64") {
		b.Skip("the records are those of amd64")
	}
	p := newBench(b, 1000)
	acc := new(nothing)
	require.NoError(b, p.Gather(acc))
	b.SetBytes(1000 * 384)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, p.Gather(acc))
	}
	require.Empty(b, acc.errs)
	require.Equal(b, int64(1), p.self.up)
}

func BenchmarkParseUtmp(b *testing.B) {
	text := manyRecords(1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		rows, _ := parseUtmp(text, layoutOf("amd64"))
		if len(rows) != 1000 {
			b.Fatal(len(rows))
		}
	}
}

// BenchmarkLogind measures a gather of 1,000 sessions of logind, with the work of a bus that is in the same process.
func BenchmarkLogind(b *testing.B) {
	bus := newBus(b)
	for i := range 1000 {
		bus.sessions = append(bus.sessions, person(fmt.Sprintf("c%d", i), fmt.Sprintf("user%04d", i)))
	}
	l := newLogind(b, bus)
	b.ReportAllocs()
	for b.Loop() {
		a, err := l.list(b.Context(), then)
		if err != nil || len(a.sessions) != 1000 {
			b.Fatal(len(a.sessions), err)
		}
	}
}

// BenchmarkHistory measures the reading of a wtmp with 100,000 records of which 300 are within the window.
func BenchmarkHistory(b *testing.B) {
	l := layoutOf("amd64")
	var text bytes.Buffer
	for i := range 100_000 {
		text.Write(record(l, 7, i+1, fmt.Sprintf("pts/%d", i%500), fmt.Sprintf("user%d", i%700), "192.0.2.1", then.Add(time.Duration(i-100_000)*time.Second)))
	}
	h := history{
		window: 5 * time.Minute, layout: l, only: func(*row) bool { return true },
		wtmp: filepath.Join(newHost(b, map[string]string{"wtmp": text.String()}), "wtmp"),
	}
	b.ReportAllocs()
	for b.Loop() {
		h.read = stamp{}
		require.NoError(b, h.catchUp(then))
	}
	require.Len(b, h.seen, 300)
}

// However long the plugin runs, it keeps no more than what is there: who has gone is forgotten.
func TestForgets(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) {
		p.Method, p.SessionRows, p.History, p.Groups = "utmp", true, config.Duration(time.Minute), []string{"users"}
		p.GroupsKeep = config.Duration(time.Minute)
	})
	r.write("etc/group", []byte("users:x:100:\n"))
	for i := range 200 {
		user := fmt.Sprintf("user%d", i)
		r.write("etc/passwd", []byte(user+":x:1:100::/:\n"))
		r.write("run/utmp", record(layoutOf("amd64"), 7, 100+i, "pts/0", user, "h", r.now))
		metrics, errs := r.gather()
		require.Empty(t, errs)
		require.True(t, tells(metrics))
	}
	require.Len(t, r.p.rows.known, 1)
	require.LessOrEqual(t, len(r.p.history.seen), 7)
	require.LessOrEqual(t, len(r.p.members.users), 13)
}
