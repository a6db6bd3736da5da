// Package who_users runs who_users under the stock Telegraf, on a machine with a real sshd and a real logind, and with a
// real InfluxDB.
package who_users

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "who"
	// patience is how long something may take on a machine that has other things to do.
	patience = 2 * time.Minute
)

const telegrafConfiguration = `
[agent]
  interval = "500ms"
  flush_interval = "200ms"
  omit_hostname = true

[[inputs.execd]]
  command = [%q, "--config", "/run/who_users.conf"]
  signal = "STDIN"
  restart_delay = "200ms"
  data_format = "influx"

[[outputs.influxdb]]
  urls = [%q]
  database = %q
  skip_database_creation = true
`

// TestMain lets more tests run side by side than there are CPUs: they wait most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// site is a login node that Telegraf and our plugin watch, and the database that they report to.
type site struct {
	*harness.LoginNode
	t  testing.TB
	db *harness.InfluxDB
	tg *harness.Telegraf
}

// newSite starts a login node and a database.
func newSite(t testing.TB, options harness.LoginOptions) *site {
	t.Helper()
	s := &site{t: t, LoginNode: harness.StartLoginNode(t, options), db: harness.StartInfluxDB(t)}
	s.db.CreateDatabase(database)
	return s
}

// watch starts Telegraf with the plugin on the node. Each text has the options of one table.
func (s *site) watch(tables ...string) {
	s.t.Helper()
	var configuration strings.Builder
	for _, options := range tables {
		fmt.Fprintf(&configuration, "[[inputs.who_users]]\n%s\n", options)
	}
	require.NoError(s.t, os.WriteFile(s.Path("who_users.conf"), []byte(configuration.String()), 0o600))
	bin := harness.Build(s.t, "./cmd/who_users")
	tool := s.Tool(filepath.Join(bin, "who_users"))
	s.tg = harness.StartTelegraf(s.t, s.t.TempDir(), fmt.Sprintf(telegrafConfiguration, tool, s.db.URL, database))
}

// last gives the latest point of a measurement that was gathered after a time, and has all of the tags.
func (s *site) last(after time.Time, measurement, where string) (harness.Row, error) {
	s.t.Helper()
	if where != "" {
		where = " AND " + where
	}
	series := s.db.Query(database, fmt.Sprintf("SELECT * FROM %q WHERE time > %d%s ORDER BY time DESC LIMIT 1", measurement, after.UnixNano(), where))
	if len(series) == 0 {
		return nil, fmt.Errorf("no %s after %s", measurement, after)
	}
	return series[0].Rows[0], nil
}

// until waits until a point that is gathered from now on has these fields: integers, strings, or nil for one that is not
// there.
func (s *site) until(measurement, where string, want map[string]any) {
	s.t.Helper()
	after := time.Now()
	harness.Eventually(s.t, patience, func() error {
		row, err := s.last(after, measurement, where)
		if err != nil {
			return err
		}
		for field, value := range want {
			if number, ok := value.(int); ok && row[field] != nil {
				if got := row.Int64(s.t, field); got != int64(number) {
					return fmt.Errorf("%s: %s is %d, not %d: %v", measurement, field, got, number, row)
				}
			} else if row[field] != value {
				return fmt.Errorf("%s: %s is %v, not %v: %v", measurement, field, row[field], value, row)
			}
		}
		return nil
	})
}

// none requires that the plugin gathers and tells nothing of users.
func (s *site) none() {
	s.t.Helper()
	after := time.Now()
	for range 3 {
		begin := time.Now()
		harness.Eventually(s.t, patience, func() error {
			_, err := s.last(begin, "who_users_self", "")
			return err
		})
	}
	_, err := s.last(after, "who_users", "")
	require.Error(s.t, err, "there is a point")
}

// said waits until our plugin has said something at a level, and requires that this was once.
func (s *site) said(level, want string) {
	s.t.Helper()
	want = level + "! [inputs.execd] [inputs.who_users] " + want
	s.tg.WaitLines(1, want, patience)
	lines := s.tg.Lines(want)
	require.Len(s.t, lines, 1)
}
