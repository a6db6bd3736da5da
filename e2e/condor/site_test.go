// Package condor runs condor_q under the stock Telegraf, beside a real HTCondor pool and a real InfluxDB.
package condor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "condor"

	headSchedd   = harness.CondorSchedd
	secondSchedd = harness.CondorSecondSchedd
	// pool is the pool's name, after COLLECTOR_HOST.
	pool = "127.0.0.1"
)

// site is a pool that Telegraf and our plugin watch, and the database that they report to.
type site struct {
	harness.Reports
	t    testing.TB
	pool *harness.Condor
}

// newSite starts a pool and a database.
func newSite(t testing.TB, options harness.CondorOptions) *site {
	t.Helper()
	s := &site{t: t, pool: harness.StartCondor(t, options)}
	s.Reports = harness.Reports{DB: harness.StartInfluxDB(t), Database: database, Plugin: "inputs.condor_q"}
	s.DB.CreateDatabase(database)
	return s
}

// watch starts Telegraf with the plugin. Each text has the options of one table; the folders are added.
func (s *site) watch(tables ...string) {
	s.t.Helper()
	folder := s.t.TempDir()
	var configuration strings.Builder
	for _, options := range tables {
		// The tables of queues come last.
		head, queues, _ := strings.Cut(options, "[[")
		if queues != "" {
			queues = "[[" + queues
		}
		fmt.Fprintf(&configuration, "[[inputs.condor_q]]\n%s\ncommand_directory = %q\nstate_directory = %q\n%s\n",
			head, s.pool.Bin, filepath.Join(folder, "state"), queues)
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(folder, "condor_q.conf"), []byte(configuration.String()), 0o600))
	bin := harness.Build(s.t, "./cmd/condor_q")
	s.Telegraf = harness.StartTelegraf(s.t, folder,
		s.DB.Input(database, filepath.Join(bin, "condor_q"), "condor_q.conf", `interval = "1s"`, "omit_hostname = true"))
}

// killPlugin kills our plugin. What it gives waits until Telegraf has started it again.
func (s *site) killPlugin() (wait func()) {
	s.t.Helper()
	pid := s.Telegraf.Child("condor_q.conf")
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	return func() { s.Telegraf.NewChild("condor_q.conf", pid) }
}

// killSchedd kills the head's schedd. What it gives waits until the master has started it again.
func (s *site) killSchedd() (wait func()) {
	s.t.Helper()
	pid := s.pool.Pid("schedd")
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	return func() {
		harness.Gone(s.t, pid, harness.Patience)
		s.pool.Pid("schedd")
	}
}

// history gives the jobs in the history files of the head's schedd, each with when it came into its last state, and how many
// records there are. A schedd that was killed writes the last ones again, with the same state.
func (s *site) history() (jobs map[string]string, records int) {
	s.t.Helper()
	files, err := filepath.Glob(s.pool.Path("spool/history*"))
	require.NoError(s.t, err)
	jobs = make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // It was rotated.
		}
		require.NoError(s.t, err)
		entered := ""
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "EnteredCurrentStatus = "); ok {
				entered = value // Comes before GlobalJobId.
			}
			id, ok := strings.CutPrefix(line, "GlobalJobId = ")
			if !ok {
				continue
			}
			records++
			if before, again := jobs[id]; again {
				require.Equal(s.t, before, entered, id)
			}
			require.NotEmpty(s.t, entered)
			jobs[id], entered = entered, ""
		}
	}
	return jobs, records
}
