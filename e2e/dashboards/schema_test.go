package dashboards

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// npmModules gives a folder with the packages that a folder of dashboards names. They are installed once, in the user's cache
// folder.
func npmModules(t testing.TB, of string) string {
	t.Helper()
	harness.Program(t, "node", "nodejs")
	npm := harness.Program(t, "npm", "npm")
	files, sum := make(map[string][]byte), sha256.New()
	for _, name := range []string{".npmrc", "package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(repository(t), "dashboards", of, name))
		if errors.Is(err, os.ErrNotExist) { // Where versions of packages' own packages do not matter, there is no lock.
			continue
		}
		require.NoError(t, err)
		files[name] = text
		sum.Write(text)
	}
	require.Contains(t, files, "package.json")
	cache, err := stock.Cache()
	require.NoError(t, err)
	folder := filepath.Join(cache, "dashboards-"+of+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	unlock, err := stock.Lock(folder + ".lock")
	require.NoError(t, err)
	defer unlock()
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	part := folder + ".part" // What an earlier call left that was killed goes with it.
	require.NoError(t, os.RemoveAll(part))
	require.NoError(t, os.MkdirAll(part, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(part, name), text, 0o600))
	}
	t.Logf("installing the packages of dashboards/%s", of)
	cmd := exec.CommandContext(t.Context(), npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = part
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Rename(part, folder))
	return folder
}

// compile gives what the TypeScript compiler says of dashboards, by their names: a line for each fault.
func compile(t testing.TB, texts map[string]string) string {
	t.Helper()
	types, folder := npmModules(t, "check"), t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(types, "node_modules"), filepath.Join(folder, "node_modules")))
	for _, name := range []string{"dashboard.ts", "tsconfig.json"} {
		text, err := os.ReadFile(filepath.Join(repository(t), "dashboards", "check", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	for name, text := range texts {
		text = "import type { Checked } from './dashboard';\nexport const dashboard: Checked = " + text
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".ts"), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(types, "node_modules", "typescript", "bin", "tsc"), "--pretty", "false", "-p", folder)
	cmd.Dir = folder
	output, err := cmd.CombinedOutput() // It fails where there is a fault, and says nothing where there is none.
	require.Equal(t, err == nil, len(output) == 0, "%v: %s", err, output)
	return string(output)
}

// The dashboards are what Grafana's types say a dashboard is.
func TestSchema(t *testing.T) {
	t.Parallel()
	texts := make(map[string]string)
	for _, store := range []string{"influxql", "graphite"} {
		for _, b := range boards(t, store) {
			text, err := os.ReadFile(filepath.Join(repository(t), "dashboards", b.name+".json"))
			require.NoError(t, err)
			texts[strings.ReplaceAll(b.name, "/", "_")] = string(text)
		}
	}
	require.Empty(t, compile(t, texts))
}

// The check does find faults: of one dashboard with a fault each, it says so of each.
func TestSchemaFindsFaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository(t), "dashboards", "influxql", "users.json"))
	require.NoError(t, err)
	texts := make(map[string]string)
	for name, change := range map[string][2]string{
		"key":     {`"gridPos"`, `"gridpos"`},
		"enum":    {`"displayMode": "list"`, `"displayMode": "lists"`},
		"option":  {`"showLegend"`, `"showLegends"`},
		"type":    {`"schemaVersion": 42`, `"schemaVersion": "42"`},
		"custom":  {`"drawStyle": "line"`, `"drawStyle": "lines"`},
		"query":   {`"resultFormat": "time_series"`, `"resultFormat": "timeseries"`},
		"missing": {`"refId": "A",`, ``},
		"panel":   {`"type": "stat"`, `"type": "graph"`},
	} {
		texts[name] = strings.Replace(string(text), change[0], change[1], 1)
		require.NotEqual(t, string(text), texts[name], name)
	}
	said := compile(t, texts)
	for name := range texts {
		require.Contains(t, "\n"+said, "\n"+name+".ts(", "the fault was not found")
	}
}
