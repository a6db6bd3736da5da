//go:build previews

package dashboards

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// page takes the data, the styles and the program.
const page = `<!doctype html><meta charset="utf-8"><style>body { margin: 0; background: #f4f5f5; font-size: 13px; } %s</style>
<div id="root"></div><script>window.onerror = (text) => { document.body.textContent = "FAULT: " + text; };</script><script>window.board = %s;</script><script>%s</script>`

// TestPreviews draws each dashboard, with the data of the other tests, to bin/previews/STORE-NAME.png.
func TestPreviews(t *testing.T) {
	browser := harness.Program(t, "chromium", "chromium")
	program, styles := bundle(t)
	now := time.Now().Truncate(time.Minute)
	lines := data(t, now, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	db := startInfluxDB(t, lines)
	g := harness.StartGraphite(t)
	fillGraphite(t, g, shownIn(t, lines, "graphite"))
	out := filepath.Join(repository(t), "bin", "previews")
	require.NoError(t, os.MkdirAll(out, 0o755))
	for _, store := range []string{"influxql", "graphite"} {
		for _, b := range boards(t, store) {
			text, height := b.filled(t, db, g, now)
			html := filepath.Join(t.TempDir(), "page.html")
			require.NoError(t, os.WriteFile(html, []byte(fmt.Sprintf(page, styles, text, program)), 0o600))
			png := filepath.Join(out, strings.ReplaceAll(b.name, "/", "-")+".png")
			cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
				"--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=1536,%d", height), "--virtual-time-budget=10000",
				"--screenshot="+png, "file://"+html)
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
			info, err := os.Stat(png)
			require.NoError(t, err, "%s", output)
			require.Greater(t, info.Size(), int64(40_000), "%s is empty", png)
			t.Logf("%s: %d bytes", png, info.Size())
		}
	}
}

// bundle gives the program that draws, and its styles.
func bundle(t testing.TB) (program, styles string) {
	t.Helper()
	modules, folder := npmModules(t, "preview"), t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(folder, "node_modules")))
	text, err := os.ReadFile(filepath.Join(repository(t), "dashboards", "preview", "preview.tsx"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "preview.tsx"), text, 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(modules, "node_modules", ".bin", "esbuild"), "preview.tsx", "--bundle", "--minify",
		"--jsx=automatic", "--outfile=out.js", `--define:process.env.NODE_ENV="production"`, "--loader:.ttf=dataurl", "--log-level=error")
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	js, err := os.ReadFile(filepath.Join(folder, "out.js"))
	require.NoError(t, err)
	css, err := os.ReadFile(filepath.Join(folder, "out.css"))
	require.NoError(t, err)
	return strings.ReplaceAll(string(js), "</script", `<\/script`), string(css)
}

// filled gives a dashboard with what its queries gave in the place of them, and how high it is in pixels.
func (b *board) filled(t testing.TB, db *harness.InfluxDB, g *harness.Graphite, now time.Time) (text []byte, height int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository(t), "dashboards", b.name+".json"))
	require.NoError(t, err)
	var d map[string]any
	require.NoError(t, json.Unmarshal(raw, &d))
	values, from := b.everything(), now.Add(-15*time.Minute)
	for _, v := range b.Templating.List {
		if v.Type == "textbox" {
			values[v.Name] = reported(t, db)
		}
	}
	for i, p := range b.Panels {
		shown := d["panels"].([]any)[i].(map[string]any)
		for j, target := range p.Targets {
			series := any(nil)
			if target.Query != "" {
				series = ask(t, db, fill(t, target.Query, values, from, now))
			} else {
				series = points(g.Query(fill(t, target.Target, values, from, now)))
			}
			shown["targets"].([]any)[j].(map[string]any)["series"] = series
		}
		at := shown["gridPos"].(map[string]any)
		height = max(height, int(at["y"].(float64)+at["h"].(float64)))
	}
	d["from"], d["to"] = from.UnixMilli(), now.UnixMilli()
	text, err = json.Marshal(d)
	require.NoError(t, err)
	return text, height*36 + 56
}

// series is one of an answer, as InfluxDB has it.
type series struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags,omitempty"`
	Columns []string          `json:"columns"`
	Values  [][]any           `json:"values"`
}

func ask(t testing.TB, db *harness.InfluxDB, query string) []series {
	t.Helper()
	response, err := http.PostForm(db.URL+"/query", url.Values{"db": {database}, "epoch": {"ms"}, "q": {query}})
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct{ Results []struct{ Series []series } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	return append([]series{}, answer.Results[0].Series...)
}

func points(found map[string][]harness.GraphitePoint) []series {
	all := make([]series, 0, len(found))
	for name, points := range found {
		s := series{Name: name, Columns: []string{"time", "value"}}
		for _, p := range points {
			s.Values = append(s.Values, []any{p.Time.UnixMilli(), p.Value})
		}
		all = append(all, s)
	}
	return all
}
