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
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "condor"
	// patience is how long something may take on a machine that has other things to do.
	patience = 2 * time.Minute

	headSchedd   = harness.CondorSchedd
	secondSchedd = harness.CondorSecondSchedd
	// pool is the pool's name, after COLLECTOR_HOST.
	pool = "127.0.0.1"
)

const telegrafConfiguration = `
[agent]
  interval = "1s"
  flush_interval = "300ms"
  metric_buffer_limit = 200000
  omit_hostname = true

[[inputs.execd]]
  command = [%q, "--config", "condor_q.conf"]
  signal = "STDIN"
  restart_delay = "200ms"
  data_format = "influx"

[[outputs.influxdb]]
  urls = [%q]
  database = %q
  skip_database_creation = true
`

// site is a pool that Telegraf and our plugin watch, and the database that they report to.
type site struct {
	t    testing.TB
	pool *harness.Condor
	db   *harness.InfluxDB
	tg   *harness.Telegraf
}

// newSite starts a pool and a database.
func newSite(t testing.TB, options harness.CondorOptions) *site {
	t.Helper()
	s := &site{t: t, pool: harness.StartCondor(t, options), db: harness.StartInfluxDB(t)}
	s.db.CreateDatabase(database)
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
	s.tg = harness.StartTelegraf(s.t, folder, fmt.Sprintf(telegrafConfiguration, filepath.Join(bin, "condor_q"), s.db.URL, database))
}

// last gives the latest point of a measurement that was gathered after a time.
func (s *site) last(after time.Time, measurement string, tags map[string]string) harness.Row {
	s.t.Helper()
	var row harness.Row
	harness.Eventually(s.t, patience, func() error {
		var err error
		row, err = s.try(after, measurement, tags)
		return err
	})
	return row
}

func (s *site) try(after time.Time, measurement string, tags map[string]string) (harness.Row, error) {
	s.t.Helper()
	where := append(make([]string, 0, len(tags)+1), fmt.Sprintf("time > %d", after.UnixNano()))
	for name, value := range tags {
		where = append(where, fmt.Sprintf("%q = '%s'", name, value))
	}
	series := s.db.Query(database, fmt.Sprintf("SELECT * FROM %q WHERE %s ORDER BY time DESC LIMIT 1", measurement, strings.Join(where, " AND ")))
	if len(series) == 0 {
		return nil, fmt.Errorf("no %s with %v after %s", measurement, tags, after)
	}
	return series[0].Rows[0], nil
}

// until waits until the latest point of a measurement has a value in a field.
func (s *site) until(measurement string, tags map[string]string, field string, want int64) {
	s.t.Helper()
	after := time.Now()
	harness.Eventually(s.t, patience, func() error {
		row, err := s.try(after, measurement, tags)
		if err != nil {
			return err
		}
		if row[field] == nil {
			return fmt.Errorf("%s %v has no %s", measurement, tags, field)
		}
		if got := row.Int64(s.t, field); got != want {
			return fmt.Errorf("%s %v %s is %d, not %d", measurement, tags, field, got, want)
		}
		return nil
	})
}

// complaints gives the errors of our plugin in Telegraf's log.
func (s *site) complaints() []string {
	lines := s.tg.Lines("E! [inputs.execd] [inputs.condor_q] ")
	said := make([]string, 0, len(lines))
	for _, line := range lines {
		_, text, _ := strings.Cut(line, "[inputs.condor_q] ")
		said = append(said, text)
	}
	return said
}

// said waits until our plugin has said something that begins so, and requires that this was once.
func (s *site) said(want string) {
	s.t.Helper()
	harness.Eventually(s.t, patience, func() error {
		n := 0
		for _, text := range s.complaints() {
			if strings.HasPrefix(text, want) {
				n++
			}
		}
		if n > 1 {
			s.t.Fatalf("%q was said %d times: %q", want, n, s.complaints())
		}
		if n == 0 {
			return fmt.Errorf("%q was not said, but %q", want, s.complaints())
		}
		return nil
	})
}

// killPlugin kills our plugin. What it gives waits until Telegraf has started it again.
func (s *site) killPlugin() (wait func()) {
	s.t.Helper()
	pid := s.tg.Child("condor_q.conf")
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	return func() { s.tg.NewChild("condor_q.conf", pid) }
}

// killSchedd kills the head's schedd. What it gives waits until the master has started it again.
func (s *site) killSchedd() (wait func()) {
	s.t.Helper()
	pid := s.pool.Pid("schedd")
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	return func() {
		harness.Gone(s.t, pid, patience)
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
