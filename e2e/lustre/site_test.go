// Package lustre runs lustre_jobstats under the stock Telegraf, beside a simulated Lustre server and a real InfluxDB.
package lustre

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "lustre"
)

// site is a file server with Telegraf and our plugin, and the database that it reports to.
type site struct {
	t      testing.TB
	bin    string
	folder string
	db     *harness.InfluxDB
	tg     *harness.Telegraf
	sim    *harness.Command

	host     string
	interval time.Duration
	targets  int    // that report
	more     string // of Telegraf's configuration

	plugin  int // its process
	killed  int // plugins of this Telegraf
	started []time.Time
}

// newSite makes a site of which nothing runs yet but the database. Options are lines of the plugin's configuration.
func newSite(t testing.TB, interval time.Duration, targets int, options ...string) *site {
	t.Helper()
	s := &site{
		t: t, folder: t.TempDir(), bin: harness.Build(t, "./cmd/lustre_jobstats", "./cmd/lustresim"),
		host: "oss1", interval: interval, targets: targets,
	}
	require.NoError(t, os.Mkdir(s.path("lustre"), 0o750))
	s.db = harness.StartInfluxDB(t)
	s.db.CreateDatabase(database)
	// A gather counts as reading until its log is synced, which takes long against these short intervals where others
	// use the disk too: the plugin is not to rest for that.
	options = append(options, fmt.Sprintf("root = %q", s.path("lustre")), fmt.Sprintf("state_directory = %q", s.path("state")), "max_duty = 1.0")
	s.write("lustre_jobstats.conf", "[[inputs.lustre_jobstats]]\n  "+strings.Join(options, "\n  ")+"\n")
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

// write writes a file so that a reader sees the old text or the new one.
func (s *site) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path(name+".new"), []byte(text), 0o600))
	require.NoError(s.t, os.Rename(s.path(name+".new"), s.path(name)))
}

func (s *site) configuration() string {
	return s.db.Input(database, filepath.Join(s.bin, "lustre_jobstats"), s.path("lustre_jobstats.conf"),
		fmt.Sprintf("interval = %q", s.interval), fmt.Sprintf("hostname = %q", s.host)) + s.more
}

// start starts Telegraf, for the first time or again. What an earlier one had not written out may be lost, points of
// zeros among it.
func (s *site) start() {
	s.t.Helper()
	s.started = append(s.started, time.Now())
	if s.tg == nil {
		s.tg = harness.StartTelegraf(s.t, s.folder, s.configuration())
	} else {
		s.tg.Restart(s.configuration())
	}
	s.killed = 0
	s.plugin = s.tg.Child("lustre_jobstats.conf")
}

// restart ends Telegraf with a signal, waits for the plugin to end by itself, and starts Telegraf again.
func (s *site) restart(signal syscall.Signal) {
	s.t.Helper()
	s.checkLog()
	s.tg.Signal(signal)
	status := s.tg.Wait(harness.Patience)
	if signal == syscall.SIGTERM {
		require.Zero(s.t, status, "exit status of telegraf")
		s.checkLog()
	}
	harness.Gone(s.t, s.plugin, harness.Patience)
	s.start()
	if signal == syscall.SIGTERM {
		s.started = s.started[:len(s.started)-1] // Nothing is lost when it is asked.
	}
}

// kill kills the plugin, and waits until Telegraf has started it anew.
func (s *site) kill() {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.plugin, syscall.SIGKILL))
	s.killed++
	s.plugin = s.tg.NewChild("lustre_jobstats.conf", s.plugin)
	s.tg.WaitLines(s.killed, s.killedLine(), harness.Patience)
}

func (s *site) killedLine() string {
	return "E! [inputs.execd] Process " + filepath.Join(s.bin, "lustre_jobstats") + " exited: signal: killed"
}

// checkLog requires that Telegraf complained of nothing but the plugins that were killed.
func (s *site) checkLog() {
	s.t.Helper()
	killed := 0
	for _, line := range s.tg.Lines("E! ") {
		switch line {
		case s.killedLine():
			killed++
		case "E! [inputs.execd] Error in plugin: read |0: file already closed",
			"E! [inputs.execd] Error in plugin: error reading stderr: read |0: file already closed",
			"E! [inputs.execd] Error in plugin: setting write deadline failed: use of closed file":
			// Telegraf saw the end of the process before that of its pipes, or was to ask it to gather before it ran again.
			if s.killed == 0 {
				s.t.Errorf("telegraf complains, and nothing was killed: %s", line)
			}
		default:
			s.t.Errorf("telegraf complains: %s", line)
		}
	}
	require.Equal(s.t, s.killed, killed, "plugins killed, in telegraf's log")
}

// stop ends Telegraf, and with it the plugin.
func (s *site) stop() {
	s.t.Helper()
	s.checkLog()
	s.tg.Stop()
	s.checkLog()
	harness.Gone(s.t, s.plugin, harness.Patience)
}

// gathered waits until all of a gather after a time is in InfluxDB.
func (s *site) gathered(after time.Time) {
	s.t.Helper()
	for range 2 { // Once a later one is there, all of the first is.
		harness.Eventually(s.t, time.Until(after)+harness.Patience, func() error {
			oldest := time.Now()
			series := s.db.Query(database, `SELECT last(entries) FROM lustre_jobstats_self WHERE host = '`+s.host+`' GROUP BY target`)
			for _, target := range series {
				if last := time.Unix(0, target.Rows[0].Int64(s.t, "time")); last.Before(oldest) {
					oldest = last
				}
			}
			if len(series) != s.targets || !oldest.After(after) {
				return fmt.Errorf("%d of %d targets in InfluxDB, the latest gather of all of them at %s, want one after %s",
					len(series), s.targets, oldest, after)
			}
			after = oldest
			return nil
		})
	}
}

// pass lets a time pass with its gathers.
func (s *site) pass(d time.Duration) {
	s.t.Helper()
	s.gathered(time.Now().Add(d))
}

// simulate starts the simulated server.
func (s *site) simulate(args ...string) {
	s.t.Helper()
	args = append([]string{"--root", s.path("lustre"), "--truth", s.path("truth.json")}, args...)
	s.sim = harness.StartCommand(s.t, s.folder, filepath.Join(s.bin, "lustresim"), args...)
	s.simulated(1, "new files every")
}

// simulated waits until the simulated server has said something for the nth time.
func (s *site) simulated(n int, what string) {
	s.t.Helper()
	harness.Eventually(s.t, harness.Patience, func() error {
		if have := strings.Count(s.sim.Log(), what); have < n {
			return fmt.Errorf("lustresim has said %q %d of %d times", what, have, n)
		}
		return nil
	})
}

// reset clears all targets (SIGUSR1) or remounts one (SIGUSR2). It returns when that is done.
func (s *site) reset(signal syscall.Signal) {
	s.t.Helper()
	said := "cleared all targets"
	if signal == syscall.SIGUSR2 {
		said = "remounted "
	}
	n := strings.Count(s.sim.Log(), said)
	s.sim.Signal(signal)
	s.simulated(n+1, said)
}

// finish ends the I/O, waits until all of it is in InfluxDB, and gives the truth.
func (s *site) finish() truth {
	s.t.Helper()
	s.sim.Signal(syscall.SIGTERM)
	require.Zero(s.t, s.sim.Wait(harness.Patience), "exit status of lustresim")
	s.gathered(time.Now())
	s.stop()
	s.t.Log(strings.TrimSpace(s.sim.Log()[strings.LastIndex(s.sim.Log(), "lustresim: stopped"):]))
	return readTruth(s.t, s.path("truth.json"))
}

// written waits until the last total of what a job wrote to a target is what it must be.
func (s *site) written(target, job string, want int64) {
	s.t.Helper()
	query := fmt.Sprintf(`SELECT last(write_bytes) FROM lustre_jobstats WHERE host = '%s' AND target = '%s' AND job = '%s'`, s.host, target, job)
	harness.Eventually(s.t, harness.Patience, func() error {
		series := s.db.Query(database, query)
		if len(series) == 0 {
			return fmt.Errorf("job %s on %s is not in InfluxDB", job, target)
		}
		if have := series[0].Rows[0].Int64(s.t, "last"); have != want {
			return fmt.Errorf("job %s on %s has written %d, want %d", job, target, have, want)
		}
		return nil
	})
}
