// Package plugintest is the golden-test harness of the plugins.
//
// A folder testcases/<case>/ has a telegraf.conf with the plugin's table, the input that the plugin's own test knows how
// to replay, and expected.out: the metrics as line protocol, one a line, sorted by time, with sorted fields.
// expected.err has the errors, one a line; without that file there must be none. `go test -update` writes both anew.
// README.md must document all metrics, which -update does not write.
package plugintest

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected files of golden tests anew")

// Update tells whether the expected files are to be written anew.
func Update() bool { return *update }

// Cases runs a test for each folder below testcases, with its path. passed are the measurements of other plugins that
// come out of a processor as they went in: its README need not document them.
func Cases(t *testing.T, run func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error), passed ...string) {
	t.Helper()
	folders, err := filepath.Glob("testcases/*")
	require.NoError(t, err)
	require.NotEmpty(t, folders, "no test cases")
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			metrics, errs := run(t, folder)
			Documented(t, slices.DeleteFunc(slices.Clone(metrics), func(m telegraf.Metric) bool {
				return slices.Contains(passed, m.Name())
			}))
			Golden(t, filepath.Join(folder, "expected.out"), Lines(t, metrics))
			var text strings.Builder
			for _, err := range errs {
				text.WriteString(err.Error() + "\n")
			}
			Golden(t, filepath.Join(folder, "expected.err"), text.String())
		})
	}
}

// Golden compares a text with a file; a missing file is an empty one.
func Golden(t *testing.T, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	if string(want) == got {
		return
	}
	if !*update {
		require.Equal(t, string(want), got, "%s; go test -update writes it anew", path)
	}
	if got == "" {
		require.NoError(t, os.Remove(path))
		return
	}
	require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
}

// Lines returns metrics as line protocol, sorted by time and then by text.
func Lines(t *testing.T, metrics []telegraf.Metric) string {
	t.Helper()
	s := influx.Serializer{SortFields: true, UintSupport: true}
	require.NoError(t, s.Init())
	sorted := slices.Clone(metrics)
	lines := make(map[telegraf.Metric]string, len(metrics))
	for _, m := range metrics {
		line, err := s.Serialize(m)
		require.NoError(t, err)
		lines[m] = string(line)
	}
	slices.SortStableFunc(sorted, func(a, b telegraf.Metric) int {
		if c := a.Time().Compare(b.Time()); c != 0 {
			return c
		}
		return strings.Compare(lines[a], lines[b])
	})
	var b strings.Builder
	for _, m := range sorted {
		b.WriteString(lines[m])
	}
	return b.String()
}

// Readme compares what README.md shows of other files with those: the blocks that begin with a line such as
// "```toml @sample.conf" or "```text @testcases/full/expected.out". `go test -update` writes them anew. The README's
// section of metrics must be in the form that metricdoc reads.
func Readme(t *testing.T) {
	t.Helper()
	documentation(t)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var want strings.Builder
	blocks := 0
	for rest := string(readme); ; blocks++ {
		head, after, found := cutBlock(rest)
		want.WriteString(head)
		if !found {
			break
		}
		line, _, _ := strings.Cut(after, "\n")
		text, err := os.ReadFile(line) //nolint:gosec // The README of the repository names a file beside it.
		require.NoError(t, err)
		_, tail, ok := strings.Cut(after, "\n```\n")
		require.True(t, ok, "README.md: the block of %q has no end", line)
		want.WriteString(line + "\n" + string(text) + "```\n")
		rest = tail
	}
	require.NotZero(t, blocks, "README.md shows no other file")
	if *update && want.String() != string(readme) {
		require.NoError(t, os.WriteFile("README.md", []byte(want.String()), 0o600))
		return
	}
	require.Equal(t, want.String(), string(readme), "README.md is not in step; go generate writes it anew")
}

// cutBlock cuts a text at the name of the next file that it shows.
func cutBlock(text string) (head, after string, found bool) {
	at := strings.Index(text, "\n```")
	for at >= 0 {
		line, _, _ := strings.Cut(text[at+1:], "\n")
		if name := strings.Index(line, " @"); name > 0 {
			end := at + 1 + name + len(" @")
			return text[:end], text[end:], true
		}
		next := strings.Index(text[at+1:], "\n```")
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return text, "", false
}

// LoadInput loads the one input of a configuration file, as Telegraf does; it is not initialised.
func LoadInput(t *testing.T, path string) telegraf.Input {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return ParseInput(t, text)
}

// ParseInput loads the one input of a configuration.
func ParseInput(t *testing.T, text []byte) telegraf.Input {
	t.Helper()
	c := config.NewConfig()
	require.NoError(t, c.LoadConfigData(text, config.EmptySourcePath))
	require.Len(t, c.Inputs, 1)
	return c.Inputs[0].Input
}

// LoadProcessor loads the one processor of a configuration file, as Telegraf does; it is not initialised.
func LoadProcessor(t *testing.T, path string) telegraf.StreamingProcessor {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return ParseProcessor(t, text)
}

// ParseProcessor loads the one processor of a configuration.
func ParseProcessor(t *testing.T, text []byte) telegraf.StreamingProcessor {
	t.Helper()
	c := config.NewConfig()
	require.NoError(t, c.LoadConfigData(text, config.EmptySourcePath))
	require.Len(t, c.Processors, 1)
	return c.Processors[0].Processor
}

// Uncommented returns a sample configuration with each option switched on, as it is shown there.
func Uncommented(sample string) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(sample) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if rest, ok := strings.CutPrefix(line[indent:], "# "); ok && indent > 0 {
			line = line[:indent] + rest
		}
		b.WriteString(line)
	}
	return b.Bytes()
}
