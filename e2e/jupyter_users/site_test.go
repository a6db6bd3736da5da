// Package jupyter_users runs jupyter_users under the stock Telegraf, beside a real InfluxDB: against answers that a real
// kube-apiserver gave, against a JupyterHub that follows its documentation, and, with the build tag kube_suites, against a
// real kube-apiserver.
package jupyter_users

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "jupyter"
	// patience is how long something may take on a machine that has other things to do.
	patience = 2 * time.Minute
)

const telegrafConfiguration = `
[agent]
  interval = "500ms"
  flush_interval = "200ms"
  omit_hostname = true

[[inputs.execd]]
  command = [%q, "--config", "jupyter_users.conf"]
  signal = "STDIN"
  restart_delay = "200ms"
  data_format = "influx"

[[outputs.influxdb]]
  urls = [%q]
  database = %q
  skip_database_creation = true
`

// site is a Telegraf with our plugin, and the database that it reports to.
type site struct {
	t  testing.TB
	db *harness.InfluxDB
	tg *harness.Telegraf
}

// watch starts a database, and Telegraf with the plugin's configuration.
func watch(t testing.TB, configuration string) *site {
	t.Helper()
	s := &site{t: t, db: harness.StartInfluxDB(t)}
	s.db.CreateDatabase(database)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "jupyter_users.conf"), []byte(configuration), 0o600))
	bin := harness.Build(t, "./cmd/jupyter_users")
	s.tg = harness.StartTelegraf(t, folder, fmt.Sprintf(telegrafConfiguration, filepath.Join(bin, "jupyter_users"), s.db.URL, database))
	return s
}

// try gives the latest point of a measurement that was gathered after a time.
func (s *site) try(after time.Time, measurement string, tags map[string]string) (harness.Row, error) {
	s.t.Helper()
	series := s.db.Query(database, fmt.Sprintf("SELECT * FROM %q WHERE time > %d AND %s ORDER BY time DESC LIMIT 1", measurement, after.UnixNano(), conditions(tags)))
	if len(series) == 0 {
		return nil, fmt.Errorf("no %s with %v after %s", measurement, tags, after)
	}
	return series[0].Rows[0], nil
}

// last waits for a point of a measurement that is gathered from now on.
func (s *site) last(measurement string, tags map[string]string) harness.Row {
	s.t.Helper()
	after := time.Now()
	var row harness.Row
	harness.Eventually(s.t, patience, func() (err error) {
		row, err = s.try(after, measurement, tags)
		return err
	})
	return row
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

// values gives all values that a field of jupyter_users ever had.
func (s *site) values(field string, tags map[string]string) map[int64]bool {
	s.t.Helper()
	found := make(map[int64]bool)
	for _, series := range s.db.Query(database, fmt.Sprintf("SELECT %q FROM jupyter_users WHERE %s", field, conditions(tags))) {
		for _, row := range series.Rows {
			found[row.Int64(s.t, field)] = true
		}
	}
	return found
}

// conditions are those of a query for tags.
func conditions(tags map[string]string) string {
	all := make([]string, 0, len(tags))
	for name, value := range tags {
		all = append(all, fmt.Sprintf("%q = '%s'", name, value))
	}
	return strings.Join(all, " AND ")
}

// complaints gives the errors and warnings of our plugin in Telegraf's log.
func (s *site) complaints() []string {
	var said []string
	for _, level := range []string{"E!", "W!"} {
		for _, line := range s.tg.Lines(level + " [inputs.execd] [inputs.jupyter_users] ") {
			_, text, _ := strings.Cut(line, "[inputs.jupyter_users] ")
			said = append(said, text)
		}
	}
	return said
}

// said waits until our plugin has said something that contains a text, and requires that this was once.
func (s *site) said(want string) {
	s.t.Helper()
	harness.Eventually(s.t, patience, func() error {
		n := 0
		for _, text := range s.complaints() {
			if strings.Contains(text, want) {
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

// plugin gives the id of our plugin's process.
func (s *site) plugin() int {
	s.t.Helper()
	return s.tg.Child("jupyter_users.conf")
}

// requireCheap requires the figures that the plugin is to keep to, while it gathers 1,000 pods or users again and again.
func (s *site) requireCheap(tags map[string]string) {
	s.t.Helper()
	const gathers = 10
	pid := s.plugin()
	s.last("jupyter_users", tags)
	before, from := harness.CPUTime(s.t, pid).Seconds(), s.points(tags)
	harness.Eventually(s.t, patience, func() error {
		if n := s.points(tags); n < from+gathers {
			return fmt.Errorf("%d gathers", n-from)
		}
		return nil
	})
	each := (harness.CPUTime(s.t, pid).Seconds() - before) / float64(s.points(tags)-from)
	resident := harness.Memory(s.t, pid, "VmHWM")
	s.t.Logf("a gather takes %.3f s of CPU; at most %.1f MB of memory were resident", each, float64(resident)/1e6)
	require.LessOrEqual(s.t, each, 0.2, "CPU seconds of a gather")
	require.LessOrEqual(s.t, resident, 45_000_000, "resident memory")
}

// points counts the gathers that have reached the database.
func (s *site) points(tags map[string]string) int {
	s.t.Helper()
	series := s.db.Query(database, `SELECT COUNT("users") FROM jupyter_users WHERE `+conditions(tags))
	if len(series) == 0 {
		return 0
	}
	return int(series[0].Rows[0].Int64(s.t, "count"))
}

// writeCA writes the authority of a test server's certificate into a file.
func writeCA(t testing.TB, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// writeToken writes a token into a file in one step, as Kubernetes does.
func writeToken(t testing.TB, path, token string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(token+"\n"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}
