// Package execd runs internal/execd's test plugins under the stock Telegraf.
package execd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const agent = `
[agent]
  interval = "100ms"
  flush_interval = "100ms"
  metric_buffer_limit = 200000
  omit_hostname = true
  skip_processors_after_aggregators = true
`

const fileOutput = `
[[outputs.file]]
  files = ["metrics.out"]
  data_format = "influx"
  influx_sort_fields = true
`

// bench is a folder with the test plugins' programs at hand.
type bench struct {
	t      testing.TB
	folder string
	bin    string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	const programs = "./internal/execd/testdata/cmd/"
	bin := harness.Build(t, programs+"test_input", programs+"test_processor", programs+"test_output")
	return &bench{t: t, folder: t.TempDir(), bin: bin}
}

// execd configures a test plugin: its own table goes to a file of its own, and Telegraf's table, with some more lines,
// is returned. Kind is "inputs", "processors" or "outputs".
func (b *bench) execd(kind, options, more string) string {
	b.t.Helper()
	name := "test_" + strings.TrimSuffix(kind, "s")
	b.write(name+".conf", fmt.Sprintf("[[%s.%s]]\n%s\n", kind, name, options))
	return fmt.Sprintf("\n[[%s.execd]]\n  command = [%q, \"--config\", %q]\n  restart_delay = \"200ms\"\n%s\n",
		kind, filepath.Join(b.bin, name), b.path(name+".conf"), more)
}

// input is execd for an input that gathers at each interval.
func (b *bench) input(options string) string {
	b.t.Helper()
	return b.execd("inputs", options, "  signal = \"STDIN\"\n  data_format = \"influx\"")
}

func (b *bench) start(configuration ...string) *harness.Telegraf {
	b.t.Helper()
	return harness.StartTelegraf(b.t, b.folder, agent+strings.Join(configuration, ""), "--debug")
}

func (b *bench) path(name string) string { return filepath.Join(b.folder, name) }

func (b *bench) write(name, content string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(b.path(name), []byte(content), 0o600))
}

// count counts the lines of a file that have a prefix.
func (b *bench) count(name, prefix string) int {
	b.t.Helper()
	n := 0
	for _, line := range harness.ReadLines(b.t, b.path(name)) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// wait waits until a file has at least n lines with a prefix.
func (b *bench) wait(name, prefix string, n int) {
	b.t.Helper()
	harness.Eventually(b.t, time.Minute, func() error {
		if have := b.count(name, prefix); have < n {
			return fmt.Errorf("%d of %d lines with %q in %s", have, n, prefix, name)
		}
		return nil
	})
}
