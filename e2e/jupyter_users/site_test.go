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
)

// site is a Telegraf with our plugin, and the database that it reports to.
type site struct {
	harness.Reports
	t testing.TB
}

// watch starts a database, and Telegraf with the plugin's configuration.
func watch(t testing.TB, configuration string) *site {
	t.Helper()
	s := &site{t: t, Reports: harness.Reports{
		DB: harness.StartInfluxDB(t), Database: database, Plugin: "inputs.jupyter_users",
	}}
	s.DB.CreateDatabase(database)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "jupyter_users.conf"), []byte(configuration), 0o600))
	bin := harness.Build(t, "./cmd/jupyter_users")
	s.Telegraf = harness.StartTelegraf(t, folder,
		s.DB.Input(database, filepath.Join(bin, "jupyter_users"), "jupyter_users.conf", `interval = "500ms"`, "omit_hostname = true"))
	return s
}

// last waits for a point of a measurement that is gathered from now on.
func (s *site) last(measurement string, tags map[string]string) harness.Row {
	s.t.Helper()
	return s.Last(time.Now(), measurement, tags)
}

// values gives all values that a field of jupyter_users ever had.
func (s *site) values(field string, tags map[string]string) map[int64]bool {
	s.t.Helper()
	found := make(map[int64]bool)
	for _, series := range s.DB.Query(database, fmt.Sprintf("SELECT %q FROM jupyter_users WHERE %s", field, conditions(tags))) {
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

// plugin gives the id of our plugin's process.
func (s *site) plugin() int {
	s.t.Helper()
	return s.Telegraf.Child("jupyter_users.conf")
}

// requireCheap requires the figures that the plugin is to keep to, while it gathers 1,000 pods or users again and again.
func (s *site) requireCheap(tags map[string]string) {
	s.t.Helper()
	const gathers = 10
	pid := s.plugin()
	s.last("jupyter_users", tags)
	before, from := harness.CPUTime(s.t, pid).Seconds(), s.points(tags)
	harness.Eventually(s.t, harness.Patience, func() error {
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
	series := s.DB.Query(database, `SELECT COUNT("users") FROM jupyter_users WHERE `+conditions(tags))
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
