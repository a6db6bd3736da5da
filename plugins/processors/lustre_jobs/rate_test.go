package lustre_jobs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rates gives the rate of read_bytes by job, after an emission.
func (s *still) rates() map[string]float64 {
	got := make(map[string]float64)
	for _, m := range s.out.GetTelegrafMetrics() {
		if v, ok := m.GetField("read_bytes_rate"); ok && m.Name() == measurementJob {
			got[m.Tags()["job"]] = v.(float64)
		}
	}
	return got
}

// gathers tells of what a job has read on a server up to a time.
func (s *still) gathers(host string, at time.Time, bytes int64) {
	s.t.Helper()
	require.True(s.t, s.AddLine(fmt.Appendf(nil, "%s,fs=s,host=%s,job=1,kind=ost,target=%s-OST epoch=%di,read_bytes=%di,read_ops=1i %d",
		measurementEpoch, host, host, time.Unix(1767225600, 0).UnixNano(), bytes, at.UnixNano())))
}

// Whatever moments the servers gather at, as long as their lines come within an interval: rate times time, summed up over
// all emissions, is what was done.
func TestRatesAddUp(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := newStill(t, t.TempDir())
		var total int64
		sum := 0.0
		hosts := []string{"oss1", "oss2", "oss3"}
		done := make(map[string]int64)
		for range 40 {
			for _, host := range hosts {
				done[host] += rng.Int64N(1000)
				s.gathers(host, s.clock.Add(time.Duration(rng.IntN(30000))*time.Millisecond), done[host])
			}
			s.next(30 * time.Second)
			sum += s.rates()["1"] * 30
		}
		for range 3 {
			s.next(30 * time.Second)
			sum += s.rates()["1"] * 30
		}
		for _, host := range hosts {
			total += done[host]
		}
		require.InEpsilon(t, total, sum, 1e-9, "seed %d", seed)
		s.close()
	}
}

// A server whose lines come late in one burst, as after an outage, has no burst of rates; one that comes back without what
// it did meanwhile has the rate of all that time.
func TestRatesAfterAnOutage(t *testing.T) {
	s := newStill(t, t.TempDir())
	begin := s.clock
	s.gathers("oss1", begin.Add(time.Second), 0)
	s.next(30 * time.Second)
	for i := 1; i <= 3; i++ { // 30 bytes a second
		s.gathers("oss1", begin.Add(time.Second+time.Duration(i)*30*time.Second), int64(i)*900)
		s.next(30 * time.Second)
	}
	require.InDelta(t, 30, s.rates()["1"], 0.001)
	s.next(10 * time.Minute)
	for i := 4; i <= 23; i++ {
		s.gathers("oss1", begin.Add(time.Second+time.Duration(i)*30*time.Second), int64(i)*900)
	}
	s.next(30 * time.Second)
	require.LessOrEqual(t, s.rates()["1"], 30.001)
	require.Positive(t, s.ledger.stats.stale)

	s.next(10 * time.Minute)
	s.gathers("oss1", begin.Add(time.Second+45*30*time.Second), 45*900)
	s.next(30 * time.Second)
	s.next(30 * time.Second)
	require.LessOrEqual(t, s.rates()["1"], 30.001)
	s.close()
}

// A clock that is set back, and moments that are missed, make no rates of their own.
func TestRatesWithAnOddClock(t *testing.T) {
	s := newStill(t, t.TempDir())
	begin := s.clock
	s.gathers("oss1", begin.Add(10*time.Second), 0)
	s.next(30 * time.Second)
	s.gathers("oss1", begin.Add(40*time.Second), 3000)
	s.next(150 * time.Second) // Four moments were missed.
	require.InDelta(t, 3000.0/150, s.rates()["1"], 5)
	for _, step := range []time.Duration{-time.Hour, 30 * time.Second, 2 * time.Hour, 30 * time.Second} {
		s.gathers("oss1", s.clock, 3000)
		s.next(step)
		for _, rate := range s.rates() {
			require.GreaterOrEqual(t, rate, 0.0)
			require.LessOrEqual(t, rate, 101.0)
		}
	}
	s.close()
}

// A job that runs and does nothing is quiet, one that Slurm tells of no more is not known to run.
func TestStates(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm = "stream" })
	tell := func(id int64, state string, end int64) {
		s.ledger.tell(&row{id: id, display: fmt.Sprint("job", id), user: "alice", state: state, start: 1767225000, end: end}, s.clock.UnixNano())
	}
	states := func() map[string]string {
		got := make(map[string]string)
		for _, m := range s.out.GetTelegrafMetrics() {
			if v, ok := m.GetField("state"); ok && m.Name() == measurementJob {
				got[m.Tags()["job"]] = v.(string)
			}
		}
		return got
	}
	for _, job := range []string{"1", "2", "3"} {
		s.read(job, 0, 10, 100)
	}
	tell(1, "RUNNING", 0)
	tell(2, "RUNNING", 0)
	tell(3, "RUNNING", 0)
	s.next(time.Minute)
	require.Equal(t, map[string]string{"job1": "running", "job2": "running", "job3": "running"}, states())
	s.clock = s.clock.Add(11 * time.Minute)
	s.read("1", 0, 10, 200)
	tell(1, "RUNNING", 0)
	tell(2, "COMPLETED", s.clock.Unix()-5)
	s.next(time.Minute)
	require.Equal(t, map[string]string{"job1": "running", "job2": "finished", "job3": "quiet"}, states())
	for range 4 {
		s.clock = s.clock.Add(5 * time.Minute)
		tell(1, "RUNNING", 0)
		s.fold(time.Minute)
	}
	require.Equal(t, int64(1), s.ledger.stats.lost, "job 3")
	s.close()
}

// What a job did that is reported already may come late, from a server that was away, and wherever the job is by then: in
// memory, in a log or in the store.
func TestLateSeriesOfAReportedJob(t *testing.T) {
	stream := func(p *LustreJobs) { p.Slurm, p.ReportDelay = "stream", p.Interval }
	for name, pass := range map[string]func(s *still){
		"memory": func(*still) {},
		"log": func(s *still) {
			require.NoError(t, s.ledger.store.close())
			s.LustreJobs = s.plugin(s.StateDirectory, stream)
			require.NoError(t, s.open(s.out, s.clock))
		},
		"store": func(s *still) { s.fold(2 * idleFor); require.Empty(t, s.ledger.jobs) },
		"store, after a restart": func(s *still) {
			s.fold(2 * idleFor)
			require.NoError(t, s.ledger.store.close())
			s.LustreJobs = s.plugin(s.StateDirectory, stream)
			require.NoError(t, s.open(s.out, s.clock))
			require.Empty(t, s.ledger.jobs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t, t.TempDir(), stream)
			s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "COMPLETED", start: 1767225500, end: 1767225600}, s.clock.UnixNano())
			s.next(time.Minute)
			s.next(time.Minute)
			pass(s)
			s.read("1", 0, 10, 100)
			require.Equal(t, map[string]int64{"lustre_fs": 100, "lustre_user": 100, "lustre_job 1": 100}, s.next(time.Minute))
			require.Equal(t, int64(1), s.ledger.stats.late)
			s.close()
		})
	}
}

// A report that is emitted again, since the plugin was killed before it could note it, is the same point.
func TestReportOverAKill(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm, p.ReportDelay = "stream", p.Interval })
	report := func() (lines []string) {
		for _, m := range s.out.GetTelegrafMetrics() {
			if m.Name() == measurementReport {
				lines = append(lines, fmt.Sprint(m.Tags(), m.Fields(), m.Time().UnixNano()))
			}
		}
		return lines
	}
	s.read("1", 0, 10, 100)
	s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "COMPLETED", start: 1767225500, end: 1767225600}, s.clock.UnixNano())
	s.next(time.Minute)
	first := report()
	require.Len(t, first, 1)
	for range 2 {
		require.NoError(t, s.ledger.store.close())
		s.LustreJobs = s.plugin(s.StateDirectory, func(p *LustreJobs) { p.Slurm, p.ReportDelay = "stream", p.Interval })
		require.NoError(t, s.open(s.out, s.clock))
		s.next(time.Minute)
		require.Equal(t, first, report())
	}
	s.next(time.Minute)
	require.Empty(t, report())
	// It is told again, and reported no more; but when it runs again it is.
	s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "COMPLETED", start: 1767225500, end: 1767225600, finished: true}, s.clock.UnixNano())
	s.next(5 * time.Minute)
	require.Empty(t, report())
	s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "RUNNING", start: 1767226000}, s.clock.UnixNano())
	s.next(time.Minute)
	s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "FAILED", start: 1767226000, end: 1767226100}, s.clock.UnixNano())
	s.next(5 * time.Minute)
	require.Len(t, report(), 1)
	s.close()
}
