// Package dashboards checks the repository's dashboards as Grafana would use them: their types with Grafana's own, and each of
// their queries against a real InfluxDB, or Graphite, that has what the plugins' testcases say they emit.
package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// board is a dashboard, as far as these tests read it.
type board struct {
	name       string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type, Query, Regex, AllValue string
	IncludeAll                         bool
}

type panel struct {
	Title, Type, TimeFrom string
	Targets               []target
}

type target struct {
	RefID, Query, Target, ResultFormat string
}

// repository gives the repository's folder.
func repository(t testing.TB) string {
	t.Helper()
	root, err := stock.Repository()
	require.NoError(t, err)
	return root
}

// boards reads the dashboards of a store.
func boards(t testing.TB, store string) []board {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository(t), "dashboards", store, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := make([]board, 0, len(paths))
	for _, path := range paths {
		b := board{name: store + "/" + strings.TrimSuffix(filepath.Base(path), ".json")}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &b))
		all = append(all, b)
	}
	return all
}

// everything is what a reader who chooses nothing has: all values of each variable.
func (b *board) everything() map[string]string {
	values := make(map[string]string)
	for _, v := range b.Templating.List {
		if v.Type == "query" {
			values[v.Name] = v.AllValue
		}
	}
	return values
}

// fill puts variables into a query, those with long names first, as $user is the begin of $users. Macros are as Grafana's
// data source for InfluxQL makes them, https://grafana.com/docs/grafana/latest/datasources/influxdb/query-editor/.
func fill(t testing.TB, query string, values map[string]string, from, to time.Time) string {
	t.Helper()
	values["__interval"] = "1m"
	values["timeFilter"] = fmt.Sprintf("time >= %dms and time <= %dms", from.UnixMilli(), to.UnixMilli())
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return len(names[i]) > len(names[j]) })
	for _, name := range names {
		query = strings.ReplaceAll(query, "$"+name, values[name])
	}
	require.NotRegexp(t, `\$[{a-z_]`, query, "a variable is left")
	return query
}

// since gives the begin of the time that a panel shows, if all of the dashboard is the latest six hours.
func (p *panel) since(t testing.TB, now time.Time) time.Time {
	t.Helper()
	if p.TimeFrom == "" {
		return now.Add(-6 * time.Hour)
	}
	minutes, err := strconv.Atoi(strings.TrimSuffix(p.TimeFrom, "m"))
	require.NoError(t, err)
	return now.Add(-time.Duration(minutes) * time.Minute)
}
