package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// Telegraf is a stock Telegraf that runs under the test.
type Telegraf struct {
	*process
	// Folder is its working directory: relative paths in its configuration lead here.
	Folder string
}

// inputConfiguration takes options of [agent], the plugin's command and configuration, and where metrics go.
const inputConfiguration = `
[agent]
  flush_interval = "200ms"
  metric_buffer_limit = 200000
  %s

[[inputs.execd]]
  command = [%q, "--config", %q]
  signal = "STDIN"
  restart_delay = "200ms"
  data_format = "influx"

[[outputs.influxdb]]
  urls = [%q]
  database = %q
  skip_database_creation = true
`

// Input gives the configuration of a Telegraf that runs an input of ours and writes to a database, soon. agent are further
// options of its table [agent].
func (db *InfluxDB) Input(database, program, configuration string, agent ...string) string {
	return fmt.Sprintf(inputConfiguration, strings.Join(agent, "\n  "), program, configuration, db.URL, database)
}

// StartTelegraf starts the stock Telegraf in a folder, with a configuration that is written there.
func StartTelegraf(t testing.TB, folder, configuration string, flags ...string) *Telegraf {
	t.Helper()
	tg := &Telegraf{Folder: folder}
	tg.start(t, configuration, flags...)
	return tg
}

// Restart starts Telegraf again, after it has ended, in the same folder with a configuration that may be another.
func (tg *Telegraf) Restart(configuration string, flags ...string) {
	tg.t.Helper()
	require.True(tg.t, tg.ended(), "Telegraf still runs")
	tg.start(tg.t, configuration, flags...)
}

func (tg *Telegraf) start(t testing.TB, configuration string, flags ...string) {
	t.Helper()
	binary, err := stock.Telegraf(t.Context(), logWriter{t})
	require.NoError(t, err)
	path := filepath.Join(tg.Folder, "telegraf.conf")
	require.NoError(t, os.WriteFile(path, []byte(configuration), 0o600))
	tg.process = start(t, tg.Folder, binary, append([]string{"--config", path}, flags...)...)
	tg.name = "telegraf"
}

// Path gives the path of a file in Telegraf's folder.
func (tg *Telegraf) Path(name string) string { return filepath.Join(tg.Folder, name) }

// Reload changes the configuration, asks Telegraf to reload it and waits until the new one runs.
func (tg *Telegraf) Reload(configuration string) {
	tg.t.Helper()
	const running = "Starting Telegraf"
	before := len(tg.Lines(running))
	require.NoError(tg.t, os.WriteFile(tg.Path("telegraf.conf"), []byte(configuration), 0o600))
	tg.Signal(syscall.SIGHUP)
	tg.WaitLines(before+1, running, time.Minute)
}

// Stop asks Telegraf to stop and waits until it has ended well.
func (tg *Telegraf) Stop() {
	tg.t.Helper()
	tg.Signal(syscall.SIGTERM)
	require.Zero(tg.t, tg.Wait(time.Minute), "exit status of telegraf")
}

// Lines gives the lines of Telegraf's log that contain a string, without their time: "E! [inputs.execd] text".
func (tg *Telegraf) Lines(containing string) []string {
	var found []string
	for line := range strings.Lines(tg.Log()) {
		line = strings.TrimSuffix(line, "\n")
		if head, rest, ok := strings.Cut(line, " "); ok {
			if _, err := time.Parse(time.RFC3339, head); err == nil {
				line = rest
			}
		}
		if strings.Contains(line, containing) {
			found = append(found, line)
		}
	}
	return found
}

// WaitLines waits until Telegraf's log has at least n lines that contain a string, and gives all of them.
func (tg *Telegraf) WaitLines(n int, containing string, within time.Duration) []string {
	tg.t.Helper()
	var lines []string
	Eventually(tg.t, within, func() error {
		ended := tg.ended()
		if lines = tg.Lines(containing); len(lines) >= n {
			return nil
		}
		if ended {
			tg.t.Fatalf("telegraf ended with %d of %d lines with %q in its log", len(lines), n, containing)
		}
		return fmt.Errorf("%d of %d lines with %q in telegraf's log", len(lines), n, containing)
	})
	return lines
}

// logWriter hands whole writes to a test's log.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
