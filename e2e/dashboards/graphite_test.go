package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// fillGraphite has a stock Telegraf send lines to Graphite with the output that sample.conf has for it.
func fillGraphite(t testing.TB, g *harness.Graphite, lines string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "sample.conf"))
	require.NoError(t, err)
	_, output, ok := strings.Cut(string(text), "# [[outputs.graphite]]\n")
	require.True(t, ok)
	output, _, ok = strings.Cut(output, "\n\n")
	require.True(t, ok)
	output = strings.ReplaceAll(output, "\n# ", "\n")
	output = strings.Replace(strings.TrimPrefix(output, "# "), "127.0.0.1:2003", g.Address, 1)
	require.Contains(t, output, g.Address)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "lines"), []byte(lines), 0o600))
	tg := harness.StartTelegraf(t, folder, `
[agent]
  omit_hostname = true
  metric_buffer_limit = 200000
  metric_batch_size = 5000
[[inputs.file]]
  files = ["lines"]
  data_format = "influx"
[[outputs.graphite]]
`+output, "--once")
	require.Zero(t, tg.Wait(time.Minute), "exit status of telegraf")
}

// shownIn keeps the lines of the measurements that dashboards show: Graphite has a file for each field.
func shownIn(t testing.TB, lines, store string) string {
	t.Helper()
	var text strings.Builder
	for _, b := range boards(t, store) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				text.WriteString(target.Target)
			}
		}
	}
	shown := make(map[string]bool)
	for _, name := range regexp.MustCompile(`\w+`).FindAllString(text.String(), -1) {
		shown[name] = true
	}
	var b strings.Builder
	for one := range strings.Lines(lines) {
		if name, _, _ := strings.Cut(one, ","); shown[name] {
			b.WriteString(one)
		}
	}
	return b.String()
}

// expand asks graphite-web for the paths that fit a pattern, as Grafana does for a variable.
func expand(t testing.TB, g *harness.Graphite, pattern string) []string {
	t.Helper()
	response, err := http.Get(g.URL + "/metrics/expand?" + url.Values{"query": {pattern}}.Encode())
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct{ Results []string }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	return answer.Results
}

// fieldOf is the last node of the path that a target asks for first. Several targets ask for one field where series may
// lack a tag.
func fieldOf(target string) string {
	path, _, _ := strings.Cut(target[strings.LastIndex(target[:strings.IndexAny(target, "$*")], "(")+1:], ",")
	path, _, _ = strings.Cut(path, ")")
	return path[strings.LastIndex(path, ".")+1:]
}

// Each target of each panel gives points.
func TestGraphite(t *testing.T) {
	t.Parallel()
	now := time.Now()
	g := harness.StartGraphite(t)
	fillGraphite(t, g, shownIn(t, data(t, now, 0, 1, 2, 5), "graphite"))
	asked := 0
	for _, b := range boards(t, "graphite") {
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				requireVariable(t, g, &b, &v)
			}
		}
		for _, p := range b.Panels {
			harness.Eventually(t, time.Minute, func() error { return b.points(t, g, &p) })
			asked += len(p.Targets)
		}
	}
	t.Logf("%d targets", asked)
	require.Greater(t, asked, 50)
}

// points tells of which field a panel's targets give no points. Carbon has taken the lines, and makes a file for each path.
func (b *board) points(t testing.TB, g *harness.Graphite, p *panel) error {
	t.Helper()
	empty, full := make(map[string]string), make(map[string]bool)
	for _, target := range p.Targets {
		query := fill(t, target.Target, b.everything(), time.Now(), time.Now())
		if field := fieldOf(target.Target); len(g.Query(query)) > 0 {
			full[field] = true
		} else {
			empty[field] = query
		}
	}
	for field, query := range empty {
		if !full[field] {
			return fmt.Errorf("%s: %s: no points of %s: %s", b.name, p.Title, field, query)
		}
	}
	return nil
}

// requireVariable requires that a variable has values.
func requireVariable(t testing.TB, g *harness.Graphite, b *board, v *variable) {
	t.Helper()
	pattern, ok := strings.CutPrefix(v.Query, "expand(")
	require.True(t, ok, v.Query)
	pattern = fill(t, strings.TrimSuffix(pattern, ")"), b.everything(), time.Now(), time.Now())
	take, err := regexp.Compile(strings.Trim(v.Regex, "/"))
	require.NoError(t, err)
	harness.Eventually(t, time.Minute, func() error {
		for _, path := range expand(t, g, pattern) {
			if part := take.FindStringSubmatch(path); part != nil && part[1] != "" {
				return nil
			}
		}
		return errors.New(b.name + ": no values of the variable " + v.Name + ": " + pattern)
	})
}
