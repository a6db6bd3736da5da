package dashboards

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/metricdoc"
)

// stock is what a stock plugin of Telegraf measures, as far as a dashboard shows it, and the file of Telegraf that says so.
type stock struct {
	source string
	tags   []string
	fields []string
}

func stockMeasurements() map[string]stock {
	return map[string]stock{
		"cpu": {"plugins/inputs/cpu/README.md", []string{"cpu"}, []string{
			"usage_user", "usage_nice", "usage_system", "usage_idle", "usage_irq", "usage_softirq", "usage_steal", "usage_iowait",
		}},
		"mem":  {"plugins/inputs/mem/README.md", nil, []string{"available", "available_percent", "cached", "buffered", "dirty"}},
		"swap": {"plugins/inputs/swap/README.md", nil, []string{"used_percent"}},
		// Its README says zombie.
		"processes": {"plugins/inputs/processes/processes_notwindows.go", nil, []string{"running", "blocked", "zombies"}},
		"system":    {"plugins/inputs/system/README.md", nil, []string{"load1", "uptime", "n_unique_users"}},
		"kernel":    {"plugins/inputs/kernel/README.md", nil, []string{"context_switches"}},
		"disk": {"plugins/inputs/disk/README.md", []string{"path", "device", "fstype", "mode", "label"}, []string{
			"used_percent", "inodes_used_percent",
		}},
		// Its README does not have wwid.
		"diskio": {"plugins/inputs/diskio/diskio.go", []string{"name", "serial", "wwid"}, []string{"read_bytes", "write_bytes", "io_time"}},
		"net": {"plugins/inputs/net/README.md", []string{"interface"}, []string{
			"bytes_recv", "bytes_sent", "err_in", "err_out", "drop_in", "drop_out",
		}},
		"temp": {"plugins/inputs/temp/README.md", []string{"sensor"}, []string{"temp"}},
		"nvidia_smi": {"plugins/inputs/nvidia_smi/README.md", []string{"index"}, []string{
			"utilization_gpu", "memory_used", "memory_total", "temperature_gpu",
		}},
		"internal_agent": {"plugins/inputs/internal/README.md", []string{"version"}, []string{
			"metrics_gathered", "metrics_written", "metrics_dropped", "gather_errors",
		}},
		"internal_gather": {"plugins/inputs/internal/README.md", []string{"input"}, []string{"gather_time_ns"}},
		"internal_write": {"plugins/inputs/internal/README.md", []string{"output"}, []string{
			"metrics_written", "metrics_dropped", "buffer_size", "buffer_limit", "write_time_ns",
		}},
	}
}

// The list above says what Telegraf's own files say.
func TestStockIsTelegrafs(t *testing.T) {
	t.Parallel()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/telegraf").Output()
	require.NoError(t, err)
	for name, s := range stockMeasurements() {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), s.source))
		require.NoError(t, err)
		for _, word := range slices.Concat(s.tags, s.fields) {
			require.Regexp(t, `\b`+word+`\b`, string(text), "%s: %s", name, s.source)
		}
	}
}

// documents are what the plugins' READMEs say of their metrics.
func documents(t *testing.T) *metricdoc.Doc {
	t.Helper()
	paths, err := filepath.Glob("../../plugins/*/*/README.md")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := new(metricdoc.Doc)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		doc, err := metricdoc.Parse(text)
		require.NoError(t, err, path)
		all.Measurements = append(all.Measurements, doc.Measurements...)
	}
	return all
}

// undocumented tells what a query asks for that nobody documents.
func undocumented(doc *metricdoc.Doc, q *query) []string {
	isTag, isField := known(doc, q.from)
	if isTag == nil {
		return []string{fmt.Sprintf("measurement %q", q.from)}
	}
	var missing []string
	tag := func(name string) {
		if name != "host" && !isTag(name) { // Telegraf adds host to all.
			missing = append(missing, fmt.Sprintf("tag %q of %s", name, q.from))
		}
	}
	for _, name := range slices.Concat(q.by, q.also, q.maybe) {
		tag(name)
	}
	for _, c := range q.filters {
		if q.form == asRows && isField(c.tag) { // Rows may be chosen by a field.
			continue
		}
		tag(c.tag)
	}
	for _, v := range q.values {
		for _, name := range []string{v.field, v.over} {
			if name == "" || isField(name) || q.form == asRows && (name == "host" || isTag(name)) {
				continue
			}
			missing = append(missing, fmt.Sprintf("field %q of %s", name, q.from))
		}
	}
	return missing
}

// known gives what tells tags and fields of a measurement; nil where there is no such measurement.
func known(doc *metricdoc.Doc, measurement string) (isTag, isField func(string) bool) {
	if s, ok := stockMeasurements()[measurement]; ok {
		return func(name string) bool { return slices.Contains(s.tags, name) }, func(name string) bool { return slices.Contains(s.fields, name) }
	}
	m := doc.Measurement(measurement)
	if m == nil {
		return nil, nil
	}
	return func(name string) bool { return m.Tag(name) != nil }, func(name string) bool { return m.Field(name, "") != nil }
}

// queries gives all queries that there are, those of variables and alerts too.
func queries() map[string][]query {
	all := make(map[string][]query)
	for _, b := range influxBoards() {
		for _, v := range b.variables {
			if v.from != "" {
				q := query{from: v.from, by: []string{v.name}, also: v.also, filters: v.where, values: []value{{field: v.field}}}
				all[b.name+": variable "+v.name] = []query{q}
			}
		}
		for _, r := range b.rows {
			for _, p := range r.panels {
				all[b.name+": "+r.title+": "+p.title] = p.queries
			}
		}
	}
	for _, a := range alerts() {
		all["alert "+a.uid] = []query{a.query}
	}
	return all
}

func TestDocumented(t *testing.T) {
	t.Parallel()
	doc := documents(t)
	asked := 0
	var missing []string
	for where, all := range queries() {
		for i := range all {
			for _, what := range undocumented(doc, &all[i]) {
				missing = append(missing, where+": "+what)
			}
			asked++
		}
	}
	require.Empty(t, missing)
	require.Greater(t, asked, 150)
}

func TestUndocumented(t *testing.T) {
	t.Parallel()
	doc, err := metricdoc.Parse([]byte("## Metrics\n\n- a_b: text\n  - tags:\n    - t\n  - fields:\n    - f (integer)\n"))
	require.NoError(t, err)
	q := ask("a_b", mean("x", "f").of("g"), mean("x", "h")).choose("t", "u").each("host", "v").beside("w").maybeBeside("y")
	require.Equal(t, []string{
		`tag "v" of a_b`, `tag "w" of a_b`, `tag "y" of a_b`, `tag "u" of a_b`, `field "g" of a_b`, `field "h" of a_b`,
	}, undocumented(doc, &q))
	q = ask("c", mean("x", "f"))
	require.Equal(t, []string{`measurement "c"`}, undocumented(doc, &q))
	q = list("a_b", "t", "f", "z", "host").is("f", "1")
	require.Equal(t, []string{`field "z" of a_b`}, undocumented(doc, &q))
}
