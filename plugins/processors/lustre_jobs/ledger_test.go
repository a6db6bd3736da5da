package lustre_jobs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// life is one epoch of a job on a target, in the truth.
type life struct {
	fs, target, kind, job string
	id                    int64
	fields                map[string]int64
}

func (l *life) line(host string, at int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s,fs=%s,host=%s,%s,kind=%s,target=%s epoch=%di", measurementEpoch, l.fs, host, l.job, l.kind, l.target, l.id)
	for _, name := range slices.Sorted(maps.Keys(l.fields)) {
		fmt.Fprintf(&b, ",%s=%di", name, l.fields[name])
	}
	fmt.Fprintf(&b, " %d", at)
	return b.String()
}

// world is a plugin that is killed and started again, and what it should know.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	dir    string
	clock  time.Time
	plugin *LustreJobs
	out    *testutil.Accumulator
	lives  []*life
	open   map[string]*life // by target and job
	sent   []string
	last   map[string]int64 // emitted totals
	faulty bool
	killed int
}

const worldJobs = 6

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), clock: time.Unix(1767225600, 0), open: make(map[string]*life),
		last: make(map[string]int64),
	}
	w.start()
	return w
}

func (w *world) start() {
	p := newPlugin()
	p.StateDirectory, p.Top = w.dir, 0
	p.UnknownAfter = config.Duration(1000 * time.Hour) // Slurm tells of all jobs, sooner or later.
	p.Log = testutil.Logger{Quiet: true}
	p.now = func() time.Time { return w.clock }
	require.NoError(w.t, p.Init())
	w.out = &testutil.Accumulator{}
	if w.faulty {
		p.fault = func(string) error {
			if w.rng.IntN(12) == 0 {
				return errors.New("told to fail")
			}
			return nil
		}
	}
	require.NoError(w.t, p.open(w.out, w.clock))
	w.plugin = p
}

// kill ends the process as kill -9 does: nothing more is written.
func (w *world) kill() {
	w.plugin.done.Wait()
	require.NoError(w.t, w.plugin.ledger.store.close())
	w.killed++
	w.start()
}

// step lets something happen.
func (w *world) step() {
	w.clock = w.clock.Add(time.Duration(w.rng.IntN(20)) * time.Second)
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.work()
	case n < 70 && len(w.sent) > 0: // A late line, or one that was there before.
		w.give(w.sent[w.rng.IntN(len(w.sent))])
	case n < 85:
		w.emit()
	case n < 88: // Enough for all to leave memory.
		w.clock = w.clock.Add(2 * idleFor)
		w.plugin.ledger.store.started = w.clock.Add(-2 * foldAge)
		w.emit()
	case n < 91:
		w.kill()
	case n < 95:
		w.slurm()
	default: // The server starts again, or the target is mounted elsewhere: new lives.
		clear(w.open)
	}
}

// work lets a job do something on a target, and one or two servers tell of it, or none.
func (w *world) work() {
	kind, ops := "ost", []string{"read_bytes", "read_ops", "read", "read_usecs", "punch", "punch_usecs"}
	target := fmt.Sprintf("s-OST%04d", w.rng.IntN(3))
	if w.rng.IntN(3) == 0 {
		kind, target, ops = "mdt", "s-MDT0000", []string{"open", "open_usecs", "rename", "samedir_rename", "samedir_rename_usecs"}
	}
	n := w.rng.IntN(worldJobs)
	job := fmt.Sprintf("job=%d", 100+n)
	if n == 0 {
		job = "exe=bash,gid=10,uid=1000"
	}
	l := w.open[target+job]
	if l == nil {
		l = &life{fs: "s", target: target, kind: kind, job: job, id: w.clock.UnixNano() + int64(len(w.lives)), fields: make(map[string]int64)}
		w.open[target+job] = l
		w.lives = append(w.lives, l)
	}
	for _, op := range ops {
		l.fields[op] += w.rng.Int64N(1000)
	}
	for _, host := range []string{"oss1", "oss2"}[:w.rng.IntN(3)] {
		line := l.line(host, w.clock.UnixNano())
		w.sent = append(w.sent, line)
		if w.rng.IntN(3) > 0 {
			w.give(line)
		}
	}
}

func (w *world) give(line string) { require.True(w.t, w.plugin.AddLine([]byte(line)), line) }

// slurm tells of a job.
func (w *world) slurm() {
	n := 1 + w.rng.IntN(worldJobs-1)
	w.plugin.ledger.tell(&row{
		id: int64(100 + n), display: strconv.Itoa(100 + n), user: fmt.Sprintf("user%d", n%2), account: "physics", cluster: "hpc",
		partition: "cpu", state: "RUNNING", start: 5,
	}, w.clock.UnixNano())
}

func (w *world) emit() {
	at := w.clock.Truncate(time.Duration(w.plugin.Interval))
	w.plugin.emit(at)
	w.plugin.done.Wait()
	w.check(w.out.GetTelegrafMetrics(), at)
	w.out.ClearMetrics()
	if w.faulty && w.rng.IntN(2) == 0 {
		w.kill()
	}
}

// check requires that no total ever falls. Points of zeros are of a time before.
func (w *world) check(metrics []telegraf.Metric, at time.Time) {
	for _, m := range metrics {
		if m.Name() == measurementSelf || m.Name() == measurementReport || m.Time().Before(at) {
			continue
		}
		for _, f := range m.FieldList() {
			v, ok := f.Value.(int64)
			if !ok {
				continue
			}
			key := fmt.Sprint(m.Name(), m.Tags(), f.Key)
			require.GreaterOrEqual(w.t, v, w.last[key], key)
			w.last[key] = v
		}
	}
}

// totals are fields by the names of what they are of.
type totals map[string]map[string]int64

func (t totals) add(name, field string, v int64) {
	if v == 0 {
		return
	}
	if t[name] == nil {
		t[name] = make(map[string]int64)
	}
	t[name][field] += v
}

// truth adds up what was done.
func (w *world) truth() totals {
	want := make(totals)
	for _, l := range w.lives {
		var user string
		if strings.HasPrefix(l.job, "job=") {
			var n int
			_, err := fmt.Sscanf(l.job, "job=%d", &n)
			require.NoError(w.t, err)
			user = fmt.Sprintf("user%d", n%2)
		}
		names := []string{"fs " + l.kind, "job " + l.job + " " + l.kind}
		if user != "" {
			names = append(names, "user "+user+" "+l.kind, "account physics "+l.kind)
		} else {
			names = append(names, "uid 1000 "+l.kind)
		}
		for _, name := range names {
			for field, v := range l.fields {
				want.add(name, field, v)
			}
			want.add(name, "ops", l.fields["read_ops"]+l.fields["punch"]+l.fields["open"]+l.fields["rename"])
			want.add(name, "busy_usecs", l.fields["read_usecs"]+l.fields["punch_usecs"]+l.fields["open_usecs"])
		}
	}
	return want
}

// known gives what the plugin knows.
func (w *world) known() totals {
	got := make(totals)
	l := w.plugin.ledger
	put := func(name string, total []int64) {
		for i, v := range total {
			got.add(name, l.fields.name(uint16(i)), v)
		}
	}
	for _, s := range l.sums {
		level := []string{"fs ", "account ", "user ", "uid "}[s.level]
		put(level+strings.TrimPrefix(s.name+" ", " ")+s.place.kind, s.total)
	}
	for _, p := range l.byID {
		for _, job := range []string{"p1000\x00bash", "j101", "j102", "j103", "j104", "j105"} {
			s := p.series[job]
			if s == nil {
				var err error
				s, err = l.store.series(p, job, l)
				require.NoError(w.t, err)
			}
			name := "exe=bash,gid=10,uid=1000"
			if job[0] == 'j' {
				name = "job=" + job[1:]
			}
			if s != nil {
				put("job "+name+" "+p.kind, s.total)
			}
		}
	}
	return got
}

// finish brings what was lost once more, as lustre_jobstats does, lets Slurm tell of all jobs, and compares.
func (w *world) finish() {
	w.faulty, w.plugin.fault, w.plugin.ledger.store.fault = false, nil, nil
	w.rng.Shuffle(len(w.lives), func(i, j int) { w.lives[i], w.lives[j] = w.lives[j], w.lives[i] })
	for _, l := range w.lives {
		w.give(l.line("oss1", w.clock.UnixNano()))
	}
	for n := 1; n < worldJobs; n++ {
		w.plugin.ledger.tell(&row{
			id: int64(100 + n), display: strconv.Itoa(100 + n), user: fmt.Sprintf("user%d", n%2), account: "physics", cluster: "hpc",
			partition: "cpu", state: "RUNNING", start: 5,
		}, w.clock.UnixNano())
	}
	w.clock = w.clock.Add(time.Minute)
	w.emit()
	require.Equal(w.t, w.truth(), w.known())
	w.kill()
	require.Equal(w.t, w.truth(), w.known(), "after a kill")
	w.clock = w.clock.Add(2 * idleFor)
	require.NoError(w.t, w.plugin.ledger.save())
	w.plugin.ledger.store.started = w.clock.Add(-2 * foldAge)
	w.emit()
	require.Equal(w.t, w.truth(), w.known(), "from the store")
	require.NoError(w.t, w.plugin.ledger.store.close())
}

// Lines that come twice, late, in any order, from two servers, or not at all until they are repeated; lives that begin
// anew; a plugin that is killed, and whose state leaves memory: the sum is the truth.
func TestSumIsTheTruth(t *testing.T) {
	worlds := 25
	if testing.Short() {
		worlds = 6
	}
	for seed := range worlds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, uint64(seed))
			for range 300 {
				w.step()
			}
			w.finish()
			require.NotZero(t, w.killed)
		})
	}
}

// The same with a disk that fails at each point where the process could be killed, and with kills there.
func TestSumIsTheTruthWhereverItIsKilled(t *testing.T) {
	worlds := 25
	if testing.Short() {
		worlds = 6
	}
	for seed := range worlds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1000+uint64(seed))
			w.faulty = true
			w.kill()
			for range 300 {
				w.step()
			}
			w.finish()
		})
	}
}
