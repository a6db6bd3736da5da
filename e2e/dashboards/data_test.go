package dashboards

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// line is one of line protocol, its time apart.
type line struct {
	head string // measurement and tags
	rest string // fields
	at   int64
}

// linePattern takes a line with a time apart: blanks in the first part are escaped.
var linePattern = regexp.MustCompile(`^((?:\\.|[^\\ ])+) (\w+=.+) (\d{16,})$`)

// parse reads lines and gives those a host that have none, as Telegraf does.
func parse(t testing.TB, text, host string) []line {
	t.Helper()
	var lines []line
	for one := range strings.Lines(text) {
		part := linePattern.FindStringSubmatch(strings.TrimSpace(one))
		require.NotNil(t, part, "no line of line protocol: %s", one)
		at, err := strconv.ParseInt(part[3], 10, 64)
		require.NoError(t, err)
		head := part[1]
		if !strings.Contains(head, ",host=") {
			head += ",host=" + host
		}
		lines = append(lines, line{head, part[2], at})
	}
	return lines
}

// replay lets lines end now, and again some minutes before, so that there is more than one step of time.
func replay(lines []line, now time.Time, minutes ...int) string {
	var b strings.Builder
	var newest int64
	for _, l := range lines {
		newest = max(newest, l.at)
	}
	for _, back := range minutes {
		shift := now.Add(-time.Duration(back)*time.Minute).UnixNano() - newest
		for _, l := range lines {
			fmt.Fprintf(&b, "%s %s %d\n", l.head, l.rest, l.at+shift)
		}
	}
	return b.String()
}

// cases gives what the testcases of all inputs and processors say they emit, each file on its own.
func cases(t testing.TB) [][]line {
	t.Helper()
	var all [][]line
	for _, kind := range []string{"inputs", "processors"} {
		paths, err := filepath.Glob(filepath.Join(repository(t), "plugins", kind, "*", "testcases", "*", "expected.out"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			if len(text) > 0 {
				all = append(all, parse(t, string(text), "n1.example.org"))
			}
		}
	}
	return all
}

// telegrafsExamples gives the examples in the READMEs of Telegraf for what hosts of tests do not have.
func telegrafsExamples(t testing.TB) [][]line {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/telegraf")
	cmd.Dir = repository(t)
	folder, err := cmd.Output()
	require.NoError(t, err)
	plugins := []string{"temp", "disk", "diskio", "net", "nvidia_smi", "swap"}
	all := make([][]line, 0, len(plugins))
	for _, plugin := range plugins {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "plugins", "inputs", plugin, "README.md"))
		require.NoError(t, err)
		_, examples, ok := strings.Cut(string(text), "## Example Output")
		require.True(t, ok, plugin)
		var lines []line
		for one := range strings.Lines(examples) {
			if strings.HasPrefix(one, plugin) && linePattern.MatchString(strings.TrimSpace(one)) {
				lines = append(lines, parse(t, one, "n1.example.org")...)
			}
		}
		require.NotEmpty(t, lines, plugin)
		all = append(all, lines)
	}
	return all
}

// telegrafsOwn gives what a stock Telegraf measures here with the inputs that sample.conf has for every host.
func telegrafsOwn(t testing.TB) []line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "sample.conf"))
	require.NoError(t, err)
	_, inputs, ok := strings.Cut(string(text), " every host\n")
	require.True(t, ok)
	inputs, _, ok = strings.Cut(inputs, "[[inputs.execd]]")
	require.True(t, ok)
	folder := t.TempDir()
	// Alone, Telegraf about itself has nothing to tell of outputs before it has written.
	tg := harness.StartTelegraf(t, folder, `
[agent]
  hostname = "n2.example.org"
  interval = "1s"
  flush_interval = "1s"
[[outputs.file]]
  files = ["out"]
`+inputs)
	var out string
	harness.Eventually(t, time.Minute, func() error {
		out = strings.Join(harness.ReadLines(t, tg.Path("out")), "\n")
		for _, measurement := range []string{"cpu", "mem", "system", "kernel", "processes", "internal_agent", "internal_gather", "internal_write"} {
			if !strings.Contains("\n"+out, "\n"+measurement+",") {
				return fmt.Errorf("no %s yet", measurement)
			}
		}
		return nil
	})
	tg.Stop()
	return parse(t, out, "n2.example.org")
}

// more gives what no testcase has, and no host of tests: the fields are those of the READMEs.
func more(t testing.TB) []line {
	t.Helper()
	text, err := os.ReadFile("testdata/more.txt")
	require.NoError(t, err)
	return parse(t, string(text), "n1.example.org")
}

// data gives all lines, in the order of their sources: now, and again some minutes before.
func data(t testing.TB, now time.Time, minutes ...int) string {
	t.Helper()
	var b strings.Builder
	sources := append(cases(t), telegrafsExamples(t)...)
	for _, lines := range append(sources, telegrafsOwn(t), more(t)) {
		b.WriteString(replay(lines, now, minutes...))
	}
	return b.String()
}
