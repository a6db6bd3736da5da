package jobstats

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/durable"
)

func wholeID(t testing.TB) *JobIDPatterns {
	t.Helper()
	return patternsOf(t, "%j")
}

func patternsOf(t testing.TB, names ...string) *JobIDPatterns {
	t.Helper()
	p, err := ParseJobIDPatterns(names, false)
	require.NoError(t, err)
	return p
}

func options(t testing.TB, dir string) Options {
	return Options{
		Dir: dir, Host: "oss1", Patterns: wholeID(t), MaxJobs: 200000, ForgetAfter: 8 * 24 * time.Hour,
		Refresh: 4 * time.Minute, Totals: true,
	}
}

func open(t testing.TB, o Options) *Ledger {
	t.Helper()
	l, warnings, err := Open(o)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return l
}

// job is an entry with one operation, write_bytes of 1 MiB requests.
type job struct {
	id          string
	start, last int64 // seconds; without a start the text is that of 2.12
	writes      int64
}

func text(jobs ...job) []byte {
	var b strings.Builder
	b.WriteString("job_stats:\n")
	const mib = 1 << 20
	for _, j := range jobs {
		fmt.Fprintf(&b, "- %-16s %s\n", "job_id:", j.id)
		if j.start != 0 {
			fmt.Fprintf(&b, "  %-16s %d.%09d secs.nsecs\n", "snapshot_time:", j.last, 1)
			fmt.Fprintf(&b, "  %-16s %d.%09d secs.nsecs\n", "start_time:", j.start, 5)
		} else {
			fmt.Fprintf(&b, "  %-16s %d\n", "snapshot_time:", j.last)
		}
		fmt.Fprintf(&b, "  %-16s { samples: %11d, unit: bytes, min: %8d, max: %8d, sum: %16d }\n", "write_bytes:", j.writes, mib, mib, j.writes*mib)
	}
	return []byte(b.String())
}

// t0 is the wall clock at the start of the tests here.
const t0 = 1_750_000_000

// gather reads a file at t0 + at seconds, and returns what was emitted, as `job what writes@time`.
func gather(t testing.TB, l *Ledger, at int64, since int64, jobs ...job) (Stats, []string) {
	t.Helper()
	for i := range jobs {
		jobs[i].last += t0
		if jobs[i].start != 0 {
			jobs[i].start += t0
		}
	}
	if since != 0 {
		since = (t0 + since) * second
	}
	stats, err := l.Gather(bytes.NewReader(text(jobs...)), time.Unix(t0+at, 0), since, 600*time.Second)
	require.NoError(t, err)
	return stats, emitted(l)
}

func emitted(l *Ledger) (points []string) {
	l.Emit(func(p *Point) {
		writes := ""
		for _, f := range p.Fields {
			if f.Name == "write_ops" {
				writes = fmt.Sprintf(" %d", f.Value)
			}
		}
		if p.Time != 0 {
			writes += fmt.Sprintf("@%d", p.Time/second-t0)
		}
		points = append(points, p.Labels.Job+" "+[...]string{"zeros", "total", "epoch"}[p.What]+writes)
	})
	return points
}

// The cases that jobHarvest gets wrong, and what is true.
func TestJobHarvestCases(t *testing.T) {
	type file struct {
		at   int64
		jobs []job
	}
	for _, tt := range []struct {
		name  string
		start bool
		files []file
		want  string // the last total
	}{
		{
			"1 MiB every 615 s, three times", true,
			[]file{{30, []job{{"7", 10, 10, 1}}}, {640, []job{{"7", 625, 625, 1}}}, {1260, []job{{"7", 1240, 1240, 1}}}}, "7 total 3",
		},
		{
			"1 MiB every 815 s, three times, without start_time", false,
			[]file{{30, []job{{"7", 0, 10, 1}}}, {840, []job{{"7", 0, 825, 1}}}, {1660, []job{{"7", 0, 1640, 1}}}}, "7 total 3",
		},
		{
			"1 MiB, restart, 5 MiB", true,
			[]file{{30, []job{{"7", 10, 10, 1}}}, {640, []job{{"7", 625, 630, 5}}}}, "7 total 6",
		},
		{
			"100 MiB, cleared, 1 MiB within 60 s", false,
			[]file{{30, []job{{"7", 0, 10, 100}}}, {60, []job{{"7", 0, 55, 1}}}}, "7 total 101",
		},
		{
			"the target is missing from one gather", true,
			[]file{{30, []job{{"7", 10, 20, 100}}}, {90, []job{{"7", 10, 80, 101}}}}, "7 total 101",
		},
		{
			"the entry is missing from one reading", false,
			[]file{{30, []job{{"6", 0, 5, 1}, {"7", 0, 10, 100}}}, {60, []job{{"6", 0, 5, 1}}}, {90, []job{{"6", 0, 5, 1}, {"7", 0, 10, 100}}}}, "7 total 100",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, t.TempDir())
			o.Refresh = time.Second
			l := open(t, o)
			var last []string
			for _, f := range tt.files {
				_, last = gather(t, l, f.at, 0, f.jobs...)
			}
			require.Contains(t, last, tt.want)
			require.NoError(t, l.Close())
		})
	}
}

func TestEmitOnlyWhatIsNew(t *testing.T) {
	l := open(t, options(t, t.TempDir()))
	st, points := gather(t, l, 30, 0, job{"1", 10, 20, 5}, job{"2", 11, 20, 7})
	require.Equal(t, []string{"1 total 5", "2 total 7"}, points, "no zeros on a first gather without state")
	require.Equal(t, 2, st.Started)
	_, points = gather(t, l, 60, 30, job{"1", 10, 20, 5}, job{"2", 11, 50, 8}, job{"3", 45, 50, 1})
	require.Equal(t, []string{"2 total 8", "3 zeros 0@45", "3 total 1"}, points)
	_, points = gather(t, l, 90, 60, job{"1", 10, 20, 5}, job{"2", 11, 50, 8}, job{"3", 45, 50, 1})
	require.Empty(t, points)
	_, points = gather(t, l, 240, 90, job{"1", 10, 20, 5}, job{"2", 11, 50, 8}, job{"3", 45, 50, 1})
	require.Equal(t, []string{"1 total 5", "2 total 8", "3 total 1"}, points, "refreshed before 4m are over")
}

func TestZeroPointTimes(t *testing.T) {
	l := open(t, options(t, t.TempDir()))
	gather(t, l, 30, 0, job{"1", 10, 20, 5})
	_, points := gather(t, l, 60, 30, job{"1", 10, 20, 5}, job{"old", 5, 50, 1}, job{"none", 0, 50, 1}, job{"ahead", 70, 71, 1})
	require.Equal(t, []string{
		"old zeros 0@30", "old total 1", // It started before: it was skipped then, or is from before a failover.
		"ahead zeros 0@30", "ahead total 1", // The clock of Lustre is ahead.
		"none zeros 0@30", "none total 1",
	}, sortedAsIn(points, "old", "ahead", "none"))
	require.NoError(t, l.Close())
}

func sortedAsIn(points []string, ids ...string) (sorted []string) {
	for _, id := range ids {
		for _, p := range points {
			if strings.HasPrefix(p, id+" ") {
				sorted = append(sorted, p)
			}
		}
	}
	return sorted
}

func TestTwins(t *testing.T) {
	// An entry that was dropped while a request held it stands beside the new one of the same id.
	l := open(t, options(t, t.TempDir()))
	gather(t, l, 30, 0, job{"7", 10, 20, 5})
	_, points := gather(t, l, 60, 30, job{"7", 10, 40, 6}, job{"7", 45, 50, 2})
	require.Equal(t, "7 total 8", points[len(points)-1])
	_, points = gather(t, l, 90, 60, job{"7", 10, 70, 7}, job{"7", 45, 80, 3})
	require.Equal(t, "7 total 10", points[len(points)-1])
	_, points = gather(t, l, 120, 90, job{"7", 45, 110, 4})
	require.Equal(t, []string{"7 total 11"}, points)
	// Shown once more, as a reader that is skipped over may.
	_, points = gather(t, l, 150, 120, job{"7", 10, 70, 7}, job{"7", 45, 140, 5})
	require.Equal(t, "7 total 12", points[len(points)-1])
	require.NoError(t, l.Close())
}

func TestRestartGoesOn(t *testing.T) {
	for name, end := range map[string]func(l *Ledger) error{
		"stopped": (*Ledger).Close,
		"killed":  func(l *Ledger) error { return l.store.close() },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, t.TempDir())
			l := open(t, o)
			gather(t, l, 30, 0, job{"1", 10, 20, 5}, job{"2", 0, 20, 5})
			gather(t, l, 60, 30, job{"1", 55, 56, 1}, job{"2", 0, 20, 5})
			require.NoError(t, end(l))
			l = open(t, o)
			require.Equal(t, int64(t0+60)*second, l.LastPass())
			st, points := gather(t, l, 90, 60, job{"1", 55, 56, 1}, job{"2", 0, 20, 5})
			require.Equal(t, []string{"1 total 6", "2 total 5"}, points)
			require.Zero(t, st.Started)
			require.Zero(t, st.Changed)
			_, points = gather(t, l, 120, 90, job{"1", 55, 100, 3}, job{"2", 0, 100, 4})
			require.Equal(t, []string{"1 total 8", "2 total 9"}, points)
			require.NoError(t, l.Close())
		})
	}
}

func TestReboot(t *testing.T) {
	o := options(t, t.TempDir())
	o.Boot = "first"
	l := open(t, o)
	gather(t, l, 30, 0, job{"2", 0, 20, 5})
	require.NoError(t, l.store.close())
	o.Boot = "second"
	l = open(t, o)
	_, points := gather(t, l, 60, 30, job{"2", 0, 50, 6})
	require.Equal(t, []string{"2 total 11"}, points, "more than before, and yet from zero")
	require.NoError(t, l.store.close())
	l = open(t, o)
	_, points = gather(t, l, 90, 60, job{"2", 0, 80, 7})
	require.Equal(t, []string{"2 total 12"}, points)
	require.NoError(t, l.Close())
}

func TestForget(t *testing.T) {
	o := options(t, t.TempDir())
	o.ForgetAfter = 24 * time.Hour
	l := open(t, o)
	gather(t, l, 30, 0, job{"idle", 10, 20, 5}, job{"busy", 10, 20, 5})
	gather(t, l, 12*3600, 30, job{"busy", 10, 3600, 9})
	require.NoError(t, l.Close())
	l = open(t, o)
	_, points := gather(t, l, 23*3600, 12*3600, job{"busy", 10, 3600, 9}, job{"idle", 82000, 82001, 1})
	require.Contains(t, points, "idle total 6", "from disk")
	require.NoError(t, l.Close())
	l = open(t, o)
	gather(t, l, 48*3600, 23*3600, job{"other", 172000, 172001, 1})
	require.NoError(t, l.Close())
	l = open(t, o)
	_, points = gather(t, l, 49*3600, 48*3600, job{"idle", 176000, 176001, 1}, job{"busy", 176000, 176001, 2})
	require.Contains(t, points, "idle total 1", "forgotten")
	require.NoError(t, l.Close())
}

func TestSums(t *testing.T) {
	o := options(t, t.TempDir())
	o.Patterns = patternsOf(t, "%e.%u.%p", "%j")
	l := open(t, o)
	labels := func() (all []string) {
		l.Emit(func(p *Point) {
			all = append(all, fmt.Sprintf("%v %s%s%s epochs=%d ops=%d", p.What, p.Labels.Job, p.Labels.Exe, p.Labels.UID, p.Epochs, p.Ops))
		})
		return all
	}
	one := func(at int64, jobs ...job) []string {
		t.Helper()
		stats, err := l.Gather(bytes.NewReader(text(jobs...)), time.Unix(at, 0), (at-30)*second, 600*time.Second)
		require.NoError(t, err)
		require.Empty(t, stats.Errors)
		return labels()
	}
	require.Equal(t, []string{"1 77 epochs=1 ops=3", "0 sh0 epochs=0 ops=0", "1 sh0 epochs=2 ops=3"}, one(t0, job{"sh.0.11", t0, t0, 1}, job{"sh.0.12", t0, t0, 2}, job{"77", t0 - 50, t0, 3})[1:],
		"zeros of 77 stand before")
	require.Equal(t, []string{"1 sh0 epochs=3 ops=8"}, one(t0+30, job{"sh.0.12", t0, t0 + 20, 3}, job{"77", t0 - 50, t0, 3}, job{"sh.0.13", t0 + 9, t0 + 9, 4}))
	require.NoError(t, l.store.close())
	l = open(t, o)
	require.Equal(t, []string{"1 77 epochs=1 ops=3", "1 sh0 epochs=4 ops=9"}, one(t0+60, job{"sh.0.12", t0, t0 + 20, 3}, job{"77", t0 - 50, t0, 3}, job{"sh.0.13", t0 + 9, t0 + 9, 4}, job{"sh.0.11", t0 + 40, t0 + 41, 1}))
	require.NoError(t, l.Close())
}

func TestOverflow(t *testing.T) {
	o := options(t, t.TempDir())
	o.MaxJobs = 2
	l := open(t, o)
	st, points := gather(t, l, 30, 0, job{"1", 10, 20, 1}, job{"2", 10, 20, 2}, job{"3", 10, 20, 3}, job{"4", 10, 20, 4})
	require.Equal(t, 2, st.Overflow)
	require.Equal(t, []string{"1 total 1", "2 total 2", "_overflow total 7"}, points)
	// An id stays where it is, whatever room there is later: its total must not be told twice.
	_, points = gather(t, l, 60, 30, job{"3", 10, 50, 4}, job{"4", 10, 20, 4})
	require.Equal(t, []string{"_overflow total 8"}, points)
	require.NoError(t, l.Close())
	l = open(t, o)
	_, points = gather(t, l, 90, 60, job{"3", 10, 80, 5}, job{"4", 70, 75, 1})
	require.Equal(t, []string{"_overflow total 10"}, points)
	require.NoError(t, l.Close())
}

func TestEpochs(t *testing.T) {
	o := options(t, t.TempDir())
	o.Totals, o.RepeatFor = false, time.Hour
	l := open(t, o)
	_, points := gather(t, l, 30, 0, job{"1", 10, 20, 5})
	require.Equal(t, []string{"1 epoch 5"}, points)
	_, points = gather(t, l, 60, 30, job{"1", 40, 50, 1})
	require.Equal(t, []string{"1 epoch 1"}, points)
	at := map[string][]int64{}
	for now := int64(90); now < 3*3600; now += 30 {
		_, points = gather(t, l, now, now-30, job{"1", 40, 50, 1})
		for _, p := range points {
			at[p] = append(at[p], now)
		}
	}
	require.Equal(t, map[string][]int64{"1 epoch 5": {270, 750, 1710, 3630}, "1 epoch 1": {300, 780, 1740, 3660}}, at,
		"after 4, 8, 16 and 32 minutes, until an hour is over")
	require.NoError(t, l.Close())
}

// A line of an epoch that is gone from the file when the agent restarts is still told again.
func TestEpochsOfTheGoneAreRepeatedAfterARestart(t *testing.T) {
	o := options(t, t.TempDir())
	o.Totals, o.RepeatFor = false, time.Hour
	l := open(t, o)
	gather(t, l, 30, 0, job{"1", 10, 20, 5}, job{"2", 10, 20, 3})
	gather(t, l, 60, 30, job{"1", 40, 50, 1}, job{"2", 10, 20, 3})
	gather(t, l, 90, 60, job{"2", 10, 20, 3})
	require.NoError(t, l.store.close())
	l = open(t, o)
	_, points := gather(t, l, 120, 90, job{"2", 10, 20, 3})
	require.ElementsMatch(t, []string{"2 epoch 3", "1 epoch 1", "1 epoch 5"}, points)
	require.NoError(t, l.Close())
}

// errKilled is a kill at a point of the writer.
var errKilled = errors.New("killed")

// Wherever the agent is killed, what it says before and after is the truth, never less and never twice.
func TestKilledAnywhere(t *testing.T) {
	points := map[string]int{}
	for stop := 1; ; stop++ {
		k := killed{t: t, stop: stop, epochs: map[string]map[int64]int64{}}
		if k.run(); k.point == "" {
			break
		}
		points[k.point]++
	}
	for _, p := range []string{"before log", "before write", "half write", "after write", "sync", "before fold", "in fold", "after fold"} {
		require.NotZero(t, points[p], "never killed at %q: %v", p, points)
	}
}

// killed is a run of fourteen gathers that is killed at the stop-th point of the writer, and goes on after it.
type killed struct {
	t      *testing.T
	stop   int
	count  int
	point  string
	l      *Ledger
	jobs   []*killedJob
	epochs map[string]map[int64]int64
}

type killedJob struct {
	job
	before int64 // what it wrote in earlier lives
	idle   int   // gathers since it wrote
}

func (k *killed) fault(point string) error {
	if k.count++; k.count < k.stop {
		return nil
	}
	if k.point == "" {
		k.point = point
	}
	return errKilled
}

func (k *killed) run() {
	o := options(k.t, k.t.TempDir())
	o.RepeatFor = time.Hour
	rng := rand.New(rand.NewPCG(3, 1))
	for pass := int64(1); pass <= 15; pass++ {
		now := t0 + pass*30
		file := k.write(rng, now)
		if pass == 15 && k.l != nil {
			k.l.store.fault = nil
		}
		if k.l == nil {
			k.l = open(k.t, o)
			if k.point == "" && pass < 15 {
				k.l.store.fault = k.fault
			}
		}
		_, err := k.l.Gather(bytes.NewReader(file), time.Unix(now, 0), 0, 600*time.Second)
		if err == nil {
			k.check()
			if pass%4 == 3 {
				err = k.l.fold()
			}
		}
		if err != nil {
			require.ErrorIs(k.t, err, errKilled)
			require.NoError(k.t, k.l.store.close())
			k.l = nil
		}
	}
	for _, j := range k.jobs {
		sum := int64(0)
		for _, writes := range k.epochs[j.id] {
			sum += writes
		}
		require.Equal(k.t, j.before+j.writes, sum, "epochs of job %s, killed at %q", j.id, k.point)
	}
	require.NoError(k.t, k.l.Close())
}

// write lets the jobs write. An entry is dropped when it was idle for a while, never right after it wrote.
func (k *killed) write(rng *rand.Rand, now int64) []byte {
	if len(k.jobs) < 8 {
		k.jobs = append(k.jobs, &killedJob{job: job{id: strconv.Itoa(len(k.jobs)), start: now - 9}})
	}
	jobs := make([]job, 0, len(k.jobs))
	for _, j := range k.jobs {
		if j.idle++; j.idle > 3 {
			j.before += j.writes
			j.job = job{id: j.id, start: now - 8}
		}
		if j.writes == 0 || rng.IntN(3) == 0 {
			j.writes += 1 + rng.Int64N(5)
			j.last, j.idle = now-5, 0
		}
		jobs = append(jobs, j.job)
	}
	return text(jobs...)
}

// check compares what is emitted with the truth.
func (k *killed) check() {
	truth := map[string]int64{}
	for _, j := range k.jobs {
		truth[j.id] = j.before + j.writes
	}
	k.l.Emit(func(p *Point) {
		writes := int64(0)
		for _, f := range p.Fields {
			if f.Name == "write_ops" {
				writes = f.Value
			}
		}
		switch p.What {
		case Total:
			require.Equal(k.t, truth[p.Labels.Job], writes, "total of job %s, killed at %q", p.Labels.Job, k.point)
		case Epoch:
			if k.epochs[p.Labels.Job] == nil {
				k.epochs[p.Labels.Job] = map[int64]int64{}
			}
			k.epochs[p.Labels.Job][p.Epoch] = max(k.epochs[p.Labels.Job][p.Epoch], writes)
		case Zeros:
			require.Zero(k.t, writes)
		}
	})
}

func TestFullDisk(t *testing.T) {
	o := options(t, t.TempDir())
	l := open(t, o)
	gather(t, l, 30, 0, job{"1", 10, 20, 5})
	l.store.fault = func(point string) error {
		if point == "half write" {
			return syscall.ENOSPC
		}
		return nil
	}
	for at := int64(60); at <= 120; at += 30 {
		_, err := l.Gather(bytes.NewReader(text(job{"1", t0 + 10, t0 + at - 5, at})), time.Unix(t0+at, 0), 0, 600*time.Second)
		var state *StateError
		require.ErrorAs(t, err, &state)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "log "+filepath.Join(o.Dir, "log.1")+": wrote ")
		require.ErrorContains(t, err, "; what was read is kept, and emitted once it is saved")
	}
	l.store.fault = nil
	_, points := gather(t, l, 150, 120, job{"1", 10, 115, 120})
	require.Equal(t, []string{"1 total 120"}, points)
	require.NoError(t, l.store.close())
	l = open(t, o)
	_, points = gather(t, l, 180, 150, job{"1", 10, 170, 121})
	require.Equal(t, []string{"1 total 121"}, points)
	require.NoError(t, l.Close())
}

// A disk that is full at the start costs nothing: what the log has is in memory.
func TestFullDiskAtTheStart(t *testing.T) {
	o := options(t, t.TempDir())
	l := open(t, o)
	gather(t, l, 30, 0, job{"1", 10, 20, 5})
	require.NoError(t, l.store.close())
	s := &store{dir: o.Dir, fault: func(point string) error {
		if point == "before fold" {
			return syscall.ENOSPC
		}
		return nil
	}}
	l = newLedger(o)
	l.store = s
	warnings, err := l.load()
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.ErrorIs(t, warnings[0], syscall.ENOSPC)
	_, points := gather(t, l, 60, 30, job{"1", 10, 50, 6})
	require.Equal(t, []string{"1 total 6"}, points)
	s.fault = nil
	require.NoError(t, l.Close())
	l = open(t, o)
	_, points = gather(t, l, 90, 60, job{"1", 10, 80, 7})
	require.Equal(t, []string{"1 total 7"}, points)
	require.NoError(t, l.Close())
}

func TestClockSetBack(t *testing.T) {
	o := options(t, t.TempDir())
	o.Totals, o.RepeatFor = false, time.Hour
	l := open(t, o)
	gather(t, l, 3600, 0, job{"1", 0, 3590, 5})
	epochs := map[int64]bool{}
	for i := range int64(3) {
		_, err := l.Gather(bytes.NewReader(text(job{"1", 0, t0 + 60*i, 4 - i})), time.Unix(t0+60*i, 0), 0, 600*time.Second)
		require.NoError(t, err)
		l.Emit(func(p *Point) { epochs[p.Epoch] = true })
	}
	require.Len(t, epochs, 3)
	require.NoError(t, l.Close())
}

// A batch of several frames counts as a whole or not at all.
func TestBatchOfSeveralFrames(t *testing.T) {
	const entries = 30000
	gather := func(l *Ledger, step int) (Stats, error) {
		return l.Gather(bytes.NewReader(ostText(entries, step)), time.Unix(1724140500+int64(30*step), 0), 0, 600*time.Second)
	}
	o := options(t, t.TempDir())
	l := open(t, o)
	_, err := gather(l, 1)
	require.NoError(t, err)
	frames := 0
	l.store.fault = func(point string) error {
		if point == "before write" {
			frames++
		}
		if frames == 3 {
			return errKilled
		}
		return nil
	}
	_, err = gather(l, 2)
	require.ErrorIs(t, err, errKilled)
	require.NoError(t, l.store.close())
	l = open(t, o)
	require.Equal(t, int64(1724140530)*second, l.LastPass(), "the first batch")
	st, err := gather(l, 1)
	require.NoError(t, err)
	require.Zero(t, st.Changed)
	require.Zero(t, st.Started)
	l.store.fault = func(point string) error {
		if frames++; point == "half write" && frames > 5 {
			return syscall.ENOSPC
		}
		return nil
	}
	frames = 0
	_, err = gather(l, 2)
	require.ErrorIs(t, err, syscall.ENOSPC)
	l.store.fault = nil
	_, err = gather(l, 3)
	require.NoError(t, err)
	require.NoError(t, l.store.close())
	l = open(t, o)
	st, err = gather(l, 3)
	require.NoError(t, err)
	require.Zero(t, st.Changed)
	require.NoError(t, l.Close())
}

func TestStateLocked(t *testing.T) {
	o := options(t, t.TempDir())
	l := open(t, o)
	_, _, err := Open(o)
	require.EqualError(t, err, "state "+filepath.Join(o.Dir, "ledger.db")+": the state is in use by another process")
	require.NoError(t, l.Close())
	require.NoError(t, open(t, o).Close())
}

func TestStateOfALaterVersion(t *testing.T) {
	o := options(t, t.TempDir())
	l := open(t, o)
	require.NoError(t, l.store.db.Update(func(tx *bbolt.Tx) error { return durable.PutUint(tx.Bucket([]byte("meta")), "version", 2) }))
	require.NoError(t, l.store.close())
	_, _, err := Open(o)
	require.EqualError(t, err, "state "+filepath.Join(o.Dir, "ledger.db")+": the state was written by a later version: format 2, known is 1")
}

func TestDamagedState(t *testing.T) {
	// Damage the state of job 1 (5, folded; then 6, in the log) and job 2 (3, folded).
	for _, tt := range []struct {
		name    string
		damage  func(t *testing.T, dir string)
		warning string
		want    []string
		errs    int
	}{
		{"none", func(*testing.T, string) {}, "", []string{"1 total 7", "2 total 4"}, 0},
		{
			"a part of a batch at the end of the log", func(t *testing.T, dir string) {
				appendTo(t, filepath.Join(dir, "log.2"), []byte{200, 0, 0, 0, 1, 2, 3, 4, 5})
			}, "", []string{"1 total 7", "2 total 4"}, 0,
		},
		{
			"a bit of the log", func(t *testing.T, dir string) {
				flip(t, filepath.Join(dir, "log.2"), int64(len(logMagic)+20))
				appendTo(t, filepath.Join(dir, "log.2"), []byte{1, 0, 0, 0, 1, 2, 3, 4, 5})
			}, "is damaged: what it has behind the damage is lost; a copy is", []string{"1 total 7", "2 total 4"}, 0,
		},
		{
			"the first bytes of the store", func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "ledger.db"), bytes.Repeat([]byte("x"), 32768), 0o600))
			}, "was set aside as", []string{"1 total 7", "2 total 4"}, 0,
		},
		{
			"the end of the store", func(t *testing.T, dir string) {
				require.NoError(t, os.Truncate(filepath.Join(dir, "ledger.db"), 9000))
			}, "was set aside as", []string{"1 total 7", "2 total 4"}, 0,
		},
		{
			"one record", func(t *testing.T, dir string) {
				db, err := bbolt.Open(filepath.Join(dir, "ledger.db"), 0o600, nil)
				require.NoError(t, err)
				require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
					return tx.Bucket([]byte("entries")).Put([]byte("2"), []byte("garbage"))
				}))
				require.NoError(t, db.Close())
			}, "", []string{"1 total 7", "2 total 4"}, 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, t.TempDir())
			l := open(t, o)
			gather(t, l, 30, 0, job{"1", 10, 20, 5}, job{"2", 10, 20, 3})
			require.NoError(t, l.fold())
			gather(t, l, 60, 30, job{"1", 10, 50, 6}, job{"2", 10, 20, 3})
			require.NoError(t, l.store.close())
			tt.damage(t, o.Dir)
			l, warnings, err := Open(o)
			require.NoError(t, err)
			if tt.warning == "" {
				require.Empty(t, warnings)
			} else {
				require.Len(t, warnings, 1)
				require.ErrorContains(t, warnings[0], tt.warning)
			}
			// One life, as Lustre says: what a damaged record forgot is there to be read again.
			st, points := gather(t, l, 90, 60, job{"1", 10, 80, 7}, job{"2", 10, 80, 4})
			for i := range points {
				points[i] = strings.TrimSpace(points[i])
			}
			require.Equal(t, tt.want, points)
			require.Len(t, st.Errors, tt.errs)
			if tt.errs > 0 {
				require.EqualError(t, st.Errors[0], `state of job id "2": the record is damaged; its totals start again`)
			}
			require.NoError(t, l.Close())
		})
	}
}

func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, errors.Join(err, f.Close()))
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func FuzzRecord(f *testing.F) {
	e := &entry{
		id: "7", values: Values{Snapshot: 5, Start: 4, Counters: []Counter{{Op: 1, Samples: 2, Sum: 3}}, Shape: newShape([]uint16{0, 1})},
		epoch: 4, first: 1, last: 2, changed: 3, created: 1, zero: 1, past: &past{closed: []Counter{{Op: 0, Samples: 9, Sum: 9}}, lives: 1},
	}
	f.Add("7", appendEntry(nil, e))
	f.Add("7", appendOld(nil, "7", &oldEpoch{values: e.values, epoch: 4, last: 1, changed: 2}))
	f.Add("7", appendSum(nil, &sum{key: "7", total: e.values.Counters, labels: Labels{Job: "7"}}))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		sums := func(key string) *sum { return &sum{key: key} }
		if len(value) >= 4 {
			durable.Seal(value, 0, key) // Get past the checksum, which keeps everything else out.
		}
		if e, err := readEntry(key, value, sums); err == nil {
			again, err := readEntry(key, appendEntry(nil, e), sums)
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
		if o, err := readOld(key, value); err == nil {
			require.NotNil(t, o)
		}
		if s, err := readSum(key, value); err == nil {
			again, err := readSum(key, appendSum(nil, s))
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
}
