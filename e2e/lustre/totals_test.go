package lustre

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Entries come and go by themselves, all are cleared, a target is mounted anew, the plugin is killed, Telegraf is killed
// and restarted: in the end InfluxDB has the true total of each job on each target, to the byte.
func TestTotals(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Second, 3)
	s.simulate("--era", "2.15", "--osts", "2", "--mdts", "1", "--jobs", "60", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	s.start()
	s.pass(8 * time.Second)
	s.kill()
	s.pass(2 * time.Second)
	s.reset(syscall.SIGUSR1)
	s.pass(5 * time.Second)
	s.restart(syscall.SIGKILL)
	s.pass(3 * time.Second)
	s.kill()
	s.kill() // One that has only just begun.
	s.pass(2 * time.Second)
	s.reset(syscall.SIGUSR2)
	s.pass(5 * time.Second)
	s.restart(syscall.SIGTERM)
	s.pass(10 * time.Second)
	s.kill()
	want := s.finish()
	s.check(want.totals(byTarget), "target")
	requireRestarts(t, want)
}

// requireRestarts requires that the simulation was worth it.
func requireRestarts(t testing.TB, all truth) {
	t.Helper()
	series, again, lives := 0, 0, int64(0)
	for _, jobs := range all {
		for _, w := range jobs {
			series++
			if w.Lives > 1 {
				again++
			}
			lives += w.Lives
		}
	}
	t.Logf("%d series of %d epochs, %d of them of more than one", series, lives, again)
	require.Greater(t, again, 10, "series of more than one epoch")
}

// Without start_time the plugin has to find out which counters started again. What it does is exact here, and not by
// luck:
//   - Nothing is dropped in the first clean-up interval. So the plugins and Telegrafs that are killed in it have only to
//     know that nothing was.
//   - Later, files are read as often as they are written, so nearly each drop is seen as such. An entry that is dropped
//     and made anew within one tick stands at the end of the file then, behind others that stood behind it before: with
//     120 jobs some were always made while it was idle.
//   - Places in the file are not kept on disk. So the file stands still from the last reading of a plugin that is killed
//     later until the next one has read it twice.
//
// The plugin says itself that nothing was left to chance: undecided does not grow.
func TestTotalsWithoutStartTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, 500*time.Millisecond, 3)
	s.simulate("--era", "2.12", "--osts", "2", "--mdts", "1", "--jobs", "120", "--tick", "500ms", "--settle", "4s", "--interval", "20s")
	simulated := time.Now()
	s.start()
	s.pass(2 * time.Second)
	killed := time.Now()
	s.kill()
	s.pass(time.Second)
	s.restart(syscall.SIGKILL)
	s.pass(time.Second)
	s.restart(syscall.SIGTERM)
	s.pass(time.Second)
	s.kill()
	s.pass(0)
	require.Less(t, time.Since(simulated), 20*time.Second, "too slow for what this test says")
	s.pass(28 * time.Second)
	s.sim.Signal(syscall.SIGSTOP)
	s.pass(0)
	s.kill()
	s.restart(syscall.SIGKILL)
	s.pass(time.Second)
	s.sim.Signal(syscall.SIGCONT)
	s.pass(10 * time.Second)
	want := s.finish()
	s.check(want.totals(byTarget), "target")
	requireRestarts(t, want)
	for _, target := range s.db.Query(database, `SELECT undecided FROM lustre_jobstats_self GROUP BY target`) {
		// What stood in the files before there was a state counts, in the first plugin only.
		undecided := target.Rows[0].Int64(t, "undecided")
		for _, row := range target.Rows {
			if at := time.Unix(0, row.Int64(t, "time")); at.After(killed) {
				undecided = 0
			}
			require.Equal(t, undecided, row.Int64(t, "undecided"), "%v at %s", target.Tags, row["time"])
		}
	}
}

// With group_by = "fs" the totals are summed over the targets of a kind, of those too that change at other times, and
// go on when the plugin starts anew.
func TestTotalsByFileSystem(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Second, 5, `group_by = "fs"`)
	s.simulate("--era", "2.15", "--osts", "3", "--mdts", "2", "--jobs", "40", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	s.start()
	s.pass(6 * time.Second)
	s.kill()
	s.pass(3 * time.Second)
	s.reset(syscall.SIGUSR2)
	s.pass(5 * time.Second)
	s.restart(syscall.SIGKILL)
	s.pass(10 * time.Second)
	want := s.finish()
	s.check(want.totals(byKind), "kind")
	for _, h := range s.histories("kind") {
		require.NotContains(t, h.tags, "target")
		require.Equal(t, "lustre", h.tags["fs"])
	}
}
