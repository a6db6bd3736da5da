// Package slurm runs slurm_load under the stock Telegraf, beside a real Slurm, a real InfluxDB and a real Graphite.
package slurm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "hpc"
)

// site is a head node with Telegraf and our plugin, a cluster, and the database that it reports to.
type site struct {
	t      testing.TB
	slurm  *harness.Slurm
	db     *harness.InfluxDB
	tg     *harness.Telegraf
	folder string
	bin    string
	more   string // of Telegraf's configuration
}

// newSite makes a site of which Telegraf does not run yet. Options are lines of the plugin's configuration.
func newSite(t testing.TB, cluster *harness.Slurm, options ...string) *site {
	t.Helper()
	s := &site{t: t, slurm: cluster, folder: t.TempDir(), bin: harness.Build(t, "./cmd/slurm_load"), db: harness.StartInfluxDB(t)}
	s.db.CreateDatabase(database)
	s.configure(options...)
	return s
}

// configure writes the plugin's configuration.
func (s *site) configure(options ...string) {
	s.t.Helper()
	options = append([]string{
		fmt.Sprintf("command_directory = %q", s.slurm.Bin), fmt.Sprintf("state_directory = %q", filepath.Join(s.folder, "state")),
	}, options...)
	text := "[[inputs.slurm_load]]\n  " + strings.Join(options, "\n  ") + "\n"
	require.NoError(s.t, os.WriteFile(s.pluginConfig(), []byte(text), 0o600))
}

func (s *site) pluginConfig() string { return filepath.Join(s.folder, "slurm_load.conf") }

func (s *site) start() {
	s.t.Helper()
	// The interval is shorter than a site's, so that a test need not wait. On a busy machine a gather may take longer: then
	// the plugin leaves one out, and says so.
	text := s.db.Input(database, filepath.Join(s.bin, "slurm_load"), s.pluginConfig(), `interval = "2s"`, `hostname = "head"`)
	s.tg = harness.StartTelegraf(s.t, s.folder, text+s.more)
}

// atEachGather asks for the groups with an interval of their own as often as for the others.
const atEachGather = `reservation_interval = "1s"
  license_interval = "1s"
  fairshare_interval = "1s"
  finished_interval = "1s"`

// checkLog requires that Telegraf complained of nothing.
func (s *site) checkLog() {
	s.t.Helper()
	for _, level := range []string{"E! ", "W! [inputs.execd]"} {
		for _, line := range s.tg.Lines(level) {
			require.Contains(s.t, line, "is still running: this one is skipped")
		}
	}
}

// everyGroup collects all that there is.
const everyGroup = `collect = ["cluster", "partition", "node_problem", "queue", "pending", "wait", "gpu", "scheduler", ` +
	`"reservation", "license", "finished_total", "node", "fairshare", "job", "finished"]`

// row is one point of a series.
type row struct {
	tags   map[string]string
	fields map[string]any
}

// latest gives the latest point of each series of a measurement that is later than a time.
func (s *site) latest(measurement string, after time.Time) []row {
	s.t.Helper()
	query := fmt.Sprintf("SELECT * FROM %q WHERE time > %d GROUP BY * ORDER BY time DESC LIMIT 1", measurement, after.UnixNano())
	found := s.db.Query(database, query)
	all := make([]row, 0, len(found))
	for _, series := range found {
		delete(series.Tags, "host")
		r := row{tags: make(map[string]string), fields: make(map[string]any)}
		for tag, value := range series.Tags {
			if value != "" {
				r.tags[tag] = value
			}
		}
		for field, value := range series.Rows[0] {
			if field != "time" && value != nil {
				r.fields[field] = value
			}
		}
		all = append(all, r)
	}
	return all
}

// figure gives a row's integer.
func (r row) figure(field string) (int64, bool) {
	number, ok := r.fields[field].(json.Number)
	if !ok {
		return 0, false
	}
	value, err := number.Int64()
	return value, err == nil
}

// gathered waits until a gather that began after a time has arrived whole, and gives when it began.
func (s *site) gathered(after time.Time) time.Time {
	s.t.Helper()
	var at time.Time
	harness.Eventually(s.t, harness.Patience, func() error {
		// The plugin's own row is the last of a gather.
		rows := s.db.Query(database, fmt.Sprintf("SELECT gather_seconds FROM slurm_load_self WHERE time > %d LIMIT 1", after.UnixNano()))
		if len(rows) == 0 {
			return fmt.Errorf("no gather after %s", after)
		}
		at = time.Unix(0, rows[0].Rows[0].Int64(s.t, "time"))
		return nil
	})
	return at
}

// accounting gives all that slurmdbd knows of the jobs of the cluster, asked for by their ids instead of by time.
func (s *site) accounting(fields string) string {
	s.t.Helper()
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return s.slurm.Command("sacct", "-a", "-D", "-X", "-n", "-P", "-j", strings.Join(ids, ","), "-o", fields)
}
