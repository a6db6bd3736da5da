package lustre

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// truth is what lustresim says at its end: target, job, and what the job did there.
type truth map[string]map[string]work

type work struct {
	Ops   map[string]struct{ Samples, Sum int64 }
	Lives int64
}

func readTruth(t testing.TB, path string) truth {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var all struct{ Targets truth }
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all.Targets)
	return all.Targets
}

// values are fields that are not 0.
type values map[string]int64

// fields gives what is to be counted for the work, by the plugin's names.
func (w work) fields() values {
	f := make(values)
	for name, op := range w.Ops {
		_, twice := w.Ops[name+"_bytes"] // A read counts in read_bytes and again in read.
		if strings.HasSuffix(name, "_rename") || strings.HasPrefix(name, "parallel_rename_") {
			twice = true // It is a part of rename.
		}
		if base, ok := strings.CutSuffix(name, "_bytes"); ok {
			f[base+"_ops"] += op.Samples
			f[name] += op.Sum
		} else {
			f[name] += op.Samples
			f[name+"_usecs"] += op.Sum
			if !strings.Contains(name, "_rename") {
				f["busy_usecs"] += op.Sum
			}
		}
		if !twice {
			f["ops"] += op.Samples
		}
	}
	f["epochs"] = w.Lives
	f.drop0()
	return f
}

func (v values) drop0() { maps.DeleteFunc(v, func(_ string, n int64) bool { return n == 0 }) }

func (v values) add(more values) {
	for name, n := range more {
		v[name] += n
	}
}

// totals gives the fields of each series "where job": where is a target, or what one is a part of.
func (all truth) totals(where func(target string) string) map[string]values {
	sums := make(map[string]values)
	for target, jobs := range all {
		for job, w := range jobs {
			key := where(target) + " " + job
			if sums[key] == nil {
				sums[key] = make(values)
			}
			sums[key].add(w.fields())
		}
	}
	return sums
}

func byTarget(target string) string { return target }

// byKind is for group_by = "fs".
func byKind(target string) string {
	if strings.Contains(target, "-MDT") {
		return "mdt"
	}
	return "ost"
}

// history is the points of one series, in the order of their time.
type history struct {
	tags map[string]string
	rows []harness.Row
}

// histories gives all series of lustre_jobstats by their key: tag is "target" or "kind".
func (s *site) histories(tag string) map[string]history {
	s.t.Helper()
	all := make(map[string]history)
	for _, series := range s.db.Query(database, `SELECT * FROM lustre_jobstats GROUP BY *`) {
		key := series.Tags[tag] + " " + series.Tags["job"]
		require.NotContains(s.t, all, key)
		all[key] = history{series.Tags, series.Rows}
	}
	return all
}

// last gives the last value of each field that is not 0. A field that ever is less than before fails the test.
func (h history) last(t testing.TB) values {
	t.Helper()
	last := make(values)
	for _, row := range h.rows {
		for field, value := range row {
			if field == "time" || value == nil {
				continue
			}
			now := row.Int64(t, field)
			if now < last[field] {
				t.Errorf("%v: %s falls from %d to %d at %s", h.tags, field, last[field], now, row["time"])
			}
			last[field] = now
		}
	}
	delete(last, "snapshot")
	last.drop0()
	return last
}

// startsAtZero tells whether the first point is one of zeros.
func (h history) startsAtZero(t testing.TB) bool {
	t.Helper()
	for field, value := range h.rows[0] {
		if value != nil && field != "time" && field != "epochs" && h.rows[0].Int64(t, field) != 0 {
			return false
		}
	}
	return true
}

// check compares InfluxDB with the truth: all that is in it, and nothing else. No total ever falls. Every series starts
// with zeros, but for those that the first gather found, and those whose zeros a Telegraf took along that was killed: so
// the increase that the database itself sums up is the whole total.
func (s *site) check(want map[string]values, tag string) {
	s.t.Helper()
	histories := s.histories(tag)
	got := make(map[string]values)
	fromZero := make(map[string]bool)
	first := s.firstGathers()
	for key, h := range histories {
		got[key] = h.last(s.t)
		fromZero[key] = h.startsAtZero(s.t)
		if at := h.rows[0].Int64(s.t, "time"); !fromZero[key] && !slices.Contains(first, at) {
			s.t.Errorf("%v starts at %d without zeros; gathers that may: %d", h.tags, at, first)
		}
	}
	require.Equal(s.t, want, got)
	zeros := 0
	for _, yes := range fromZero {
		if yes {
			zeros++
		}
	}
	require.Greater(s.t, zeros, len(got)/2, "series that start with zeros")
	s.checkIncrease(got, fromZero, tag)
	for field, kind := range s.db.FieldTypes(database, "lustre_jobstats") {
		require.Equal(s.t, "integer", kind, field)
	}
	s.t.Logf("%d series, %d of them from zero", len(got), zeros)
}

// checkIncrease lets InfluxDB sum up what each total grew by.
func (s *site) checkIncrease(totals map[string]values, fromZero map[string]bool, tag string) {
	s.t.Helper()
	for _, field := range []string{"ops", "write_bytes", "busy_usecs"} {
		checked := 0
		for _, series := range s.db.Query(database, fmt.Sprintf(
			`SELECT sum(increase) FROM (SELECT non_negative_difference(%q) AS increase FROM lustre_jobstats GROUP BY *) GROUP BY *`, field)) {
			key := series.Tags[tag] + " " + series.Tags["job"]
			if fromZero[key] {
				require.Equal(s.t, totals[key][field], series.Rows[0].Int64(s.t, "sum"), "increase of %s of %s", field, key)
				checked++
			}
		}
		if field == "ops" {
			require.NotZero(s.t, checked)
		}
	}
}

// firstGathers gives the times of the gathers of each target that may show series without zeros.
func (s *site) firstGathers() []int64 {
	s.t.Helper()
	var first []int64
	for _, target := range s.db.Query(database, `SELECT entries FROM lustre_jobstats_self GROUP BY target`) {
		for _, started := range s.started {
			for _, row := range target.Rows {
				if at := row.Int64(s.t, "time"); time.Unix(0, at).After(started) {
					first = append(first, at)
					break
				}
			}
		}
	}
	return first
}
