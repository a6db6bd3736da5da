package dashboards

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const database = "hpc"

// startInfluxDB starts an InfluxDB that has the lines.
func startInfluxDB(t testing.TB, lines string) *harness.InfluxDB {
	t.Helper()
	db := harness.StartInfluxDB(t)
	db.CreateDatabase(database)
	write(t, db, lines)
	return db
}

func write(t testing.TB, db *harness.InfluxDB, lines string) {
	t.Helper()
	response, err := http.Post(db.URL+"/write?db="+database, "text/plain", strings.NewReader(lines))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, response.StatusCode, "%s", body)
}

// columns gives the columns of an answer, and whether any row has a value there.
func columns(series []harness.Series) map[string]bool {
	found := make(map[string]bool)
	for _, s := range series {
		for _, row := range s.Rows {
			for name, value := range row {
				if name != "time" {
					found[name] = found[name] || value != nil
				}
			}
		}
	}
	return found
}

// chosen gives a value for each variable of a board: the last one that there is.
func chosen(t testing.TB, db *harness.InfluxDB, b *board) map[string]string {
	t.Helper()
	now := time.Now()
	values := make(map[string]string)
	for _, v := range b.Templating.List {
		switch v.Type {
		case "textbox":
			require.Equal(t, "job", v.Name)
			values[v.Name] = reported(t, db)
		case "query":
			answer := db.Query(database, fill(t, v.Query, b.everything(), now, now))
			require.NotEmpty(t, answer, "%s: variable %s: %s", b.name, v.Name, v.Query)
			rows := answer[len(answer)-1].Rows
			values[v.Name], _ = rows[len(rows)-1]["value"].(string)
			require.NotEmpty(t, values[v.Name], "%s: variable %s", b.name, v.Name)
		}
	}
	return values
}

// reported gives a job that Lustre knows and that has a report.
func reported(t testing.TB, db *harness.InfluxDB) string {
	t.Helper()
	known := make(map[any]bool)
	for _, s := range db.Query(database, `SHOW TAG VALUES FROM "lustre_job" WITH KEY = "job"`) {
		for _, row := range s.Rows {
			known[row["value"]] = true
		}
	}
	for _, s := range db.Query(database, `SELECT "job", "lustre_mds_ops" FROM "job_report"`) {
		for _, row := range s.Rows {
			if job, ok := row["job"].(string); ok && known[job] && row["lustre_mds_ops"] != nil {
				return job
			}
		}
	}
	t.Fatal("no job of Lustre has a report")
	return ""
}

// Each query of each panel gives rows, with each of its columns, where a reader has chosen nothing, and an answer where they
// have chosen one value of each variable.
func TestInfluxQL(t *testing.T) {
	t.Parallel()
	now := time.Now()
	db := startInfluxDB(t, data(t, now, 0, 1, 2, 5))
	asked := 0
	for _, b := range boards(t, "influxql") {
		one := chosen(t, db, &b)
		all := b.everything()
		if job, ok := one["job"]; ok {
			all["job"] = job
		}
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				where := b.name + ": " + p.Title + " " + target.RefID
				query := fill(t, target.Query, all, p.since(t, now), now.Add(time.Minute))
				answer := db.Query(database, query)
				found := columns(answer)
				if len(found) == 0 {
					t.Errorf("%s: no rows: %s", where, query)
				}
				for name, has := range found {
					if !has && !notInCases()[name] {
						t.Errorf("%s: no value in column %q: %s", where, name, query)
					}
				}
				db.Query(database, fill(t, target.Query, one, p.since(t, now), now.Add(time.Minute)))
				asked++
			}
		}
	}
	t.Logf("%d queries", asked)
	require.Greater(t, asked, 150)
	requireWhoHolds(t, db, now)
}

// requireWhoHolds requires that who holds the metadata servers now are jobs that ask them, the latest share of those that do
// no more being as it was when they did.
func requireWhoHolds(t testing.TB, db *harness.InfluxDB, now time.Time) {
	t.Helper()
	for _, b := range boards(t, "influxql") {
		for _, p := range b.Panels {
			if p.Title != "Jobs on the metadata servers" {
				continue
			}
			jobs := make(map[string]bool)
			for _, s := range db.Query(database, fill(t, p.Targets[0].Query, b.everything(), p.since(t, now), now.Add(time.Minute))) {
				jobs[s.Tags["job"]] = true
			}
			require.True(t, jobs["4801"] && jobs["4802"], "%v", jobs)
			require.False(t, jobs["4803"], "it has ended")
			return
		}
	}
	t.Fatal("no panel shows who holds the metadata servers")
}

// notInCases are columns that no testcase has a value of: operations of Lustre, which come as they occur, what Slurm tells of
// some jobs only, and what shows with fair share in use.
func notInCases() map[string]bool {
	names := make(map[string]bool)
	for _, name := range []string{
		"close", "create", "destroy", "getattr", "getxattr", "link", "mkdir", "mknod", "prealloc", "rename", "rmdir", "setattr", "setxattr",
		"statfs", "sync", "unlink", "cpu efficiency", "due to used", "exit code", "memory efficiency", "wait",
	} {
		names[name] = true
	}
	return names
}
