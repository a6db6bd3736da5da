package lustre_jobs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/plugintest"
)

// replay feeds a plugin a script: lines of line protocol, and "# at SECONDS", which moves the clock and emits at each of
// the interval's moments on the way; "# kill" kills the plugin and starts it again.
type replay struct {
	t      *testing.T
	folder string
	state  string
	clock  time.Time
	plugin *LustreJobs
	out    *testutil.Accumulator
	parser influx.Parser
}

func (r *replay) start() {
	r.t.Helper()
	p, ok := plugintest.LoadProcessor(r.t, filepath.Join(r.folder, "telegraf.conf")).(*LustreJobs)
	require.True(r.t, ok)
	p.StateDirectory, p.Log = r.state, testutil.Logger{Quiet: true}
	p.now = func() time.Time { return r.clock }
	p.host = func() (string, error) { return "central", nil }
	require.NoError(r.t, p.Init())
	require.NoError(r.t, p.open(r.out, r.clock))
	r.plugin = p
}

func (r *replay) line(text string) {
	r.t.Helper()
	command, argument, _ := strings.Cut(strings.TrimPrefix(text, "# "), " ")
	switch {
	case !strings.HasPrefix(text, "#"):
		r.give(text)
	case command == "at":
		seconds, err := strconv.ParseInt(argument, 10, 64)
		require.NoError(r.t, err)
		r.moveTo(time.Unix(seconds, 0))
	case command == "kill":
		r.plugin.done.Wait()
		require.NoError(r.t, r.plugin.ledger.store.close())
		r.start()
	}
}

func (r *replay) give(text string) {
	r.t.Helper()
	if r.plugin.AddLine([]byte(text)) {
		return
	}
	metrics, err := r.parser.Parse([]byte(text))
	require.NoError(r.t, err, text)
	for _, m := range metrics { // These are of others, and pass on.
		passed := &testutil.Accumulator{}
		require.NoError(r.t, r.plugin.Add(m, passed))
		require.Equal(r.t, []telegraf.Metric{m}, passed.GetTelegrafMetrics(), text)
	}
}

func (r *replay) moveTo(to time.Time) {
	if r.plugin == nil {
		r.clock = to
		r.start()
		return
	}
	interval := time.Duration(r.plugin.Interval)
	for next := r.clock.Truncate(interval).Add(interval); !next.After(to); next = next.Add(interval) {
		r.clock = next
		r.plugin.emit(next)
		r.plugin.done.Wait() // The clock runs faster than a fold.
	}
	r.clock = to
}

func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) ([]telegraf.Metric, []error) {
		r := &replay{t: t, folder: folder, state: t.TempDir(), out: &testutil.Accumulator{}}
		require.NoError(t, r.parser.Init())
		script, err := os.ReadFile(filepath.Join(folder, "input.txt"))
		require.NoError(t, err)
		for text := range strings.Lines(string(script)) {
			if text = strings.TrimSpace(text); text != "" {
				r.line(text)
			}
		}
		r.plugin.done.Wait()
		require.NoError(t, r.plugin.ledger.store.close())
		metrics := r.out.GetTelegrafMetrics()
		for _, m := range metrics {
			if m.Name() == measurementSelf {
				m.RemoveField("emission_seconds") // These differ from run to run.
				m.RemoveField("version")
				m.RemoveField("state_bytes_written")
			}
		}
		return metrics, r.out.Errors
	})
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

// The cases leave out what differs from run to run.
func TestReadmeIsShown(t *testing.T) {
	plugintest.Shown(t, "lustre_jobs_self state_bytes_written", "lustre_jobs_self emission_seconds", "lustre_jobs_self version")
}
