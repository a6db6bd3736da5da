package dashboards

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestInfluxQL(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]query{
		`SELECT mean("f") AS "n" FROM "m" WHERE $timeFilter GROUP BY time($__interval) fill(null)`:                                                                                                                                                                                          ask("m", mean("n", "f")),
		`SELECT 100 - mean("f") AS "n" FROM "m" WHERE "a" =~ /^$a$/ AND $timeFilter GROUP BY time($__interval), "a", "b" fill(null)`:                                                                                                                                                        ask("m", mean("n", "f").outOf100()).choose("a").each("a", "b"),
		`SELECT last("f") / last("g") * 1000 AS "n" FROM "m" WHERE "a" = 'it\'s' AND $timeFilter GROUP BY "a"`:                                                                                                                                                                              table("m", last("n", "f").of("g").times(1000)).is("a", "it's").each("a"),
		`SELECT non_negative_derivative(last("f"), 1s) AS "n" FROM "m" WHERE $timeFilter GROUP BY time($__interval) fill(previous)`:                                                                                                                                                         ask("m", perSecond("n", "f")).holding(),
		`SELECT "f", "t" FROM "m" WHERE "t" != 'x' AND $timeFilter ORDER BY time DESC LIMIT 500`:                                                                                                                                                                                            list("m", "f", "t").not("t", "x"),
		`SELECT moving_average(count("f"), 2) AS "n" FROM "m" WHERE $timeFilter GROUP BY time($__interval), "h" fill(0)`:                                                                                                                                                                    ask("m", value{name: "n", field: "f", do: doCountTwo}).each("h").absent(),
		`SELECT max("f") AS "a", count("f") AS "b", sum("f") AS "c", spread("f") AS "d" FROM "m" WHERE $timeFilter`:                                                                                                                                                                         table("m", highest("a", "f"), counted("b", "f"), total("c", "f"), grown("d", "f")),
		`SELECT sum("v0") / sum("v1") AS "n" FROM (SELECT last("f") AS "v0", last("g") AS "v1" FROM "m" WHERE "t" = 'x' AND $timeFilter GROUP BY time($__interval), * fill(none)) WHERE $timeFilter GROUP BY time($__interval), "h" fill(null)`:                                             ask("m", last("n", "f").of("g")).is("t", "x").each("h").sum(),
		`SELECT max("v0") AS "n" FROM (SELECT mean("f") AS "v0" FROM "m" WHERE $timeFilter GROUP BY time($__interval), * fill(previous)) WHERE $timeFilter GROUP BY time($__interval) fill(null)`:                                                                                           ask("m", mean("n", "f")).holding().highest(),
		`SELECT sum("v0") AS "n" FROM (SELECT non_negative_difference(last("f")) AS "v0" FROM "m" WHERE $timeFilter GROUP BY time(1m), * fill(none)) WHERE $timeFilter GROUP BY time(1m) fill(null)`:                                                                                        withStep(ask("m", increase("n", "f")).sum(), "1m"),
		`SELECT sum("v0") AS "n" FROM (SELECT spread("f") AS "v0" FROM "m" WHERE $timeFilter GROUP BY *) WHERE $timeFilter GROUP BY "u"`:                                                                                                                                                    table("m", grown("n", "f")).each("u").sum(),
		`SELECT last("v0") AS "r", last("v1") * 2 AS "s" FROM (SELECT last("f") AS "v0", last("g") AS "v1" FROM "m" WHERE $timeFilter GROUP BY *) WHERE $timeFilter AND "v0" > 0 GROUP BY "u"`:                                                                                              table("m", last("r", "f"), last("s", "g").times(2)).each("u").latest().onlyWith("f"),
		`SELECT sum("v0") / sum("v1") AS "w" FROM (SELECT non_negative_difference(last("f")) AS "v0", non_negative_difference(last("g")) AS "v1" FROM "m" WHERE $timeFilter GROUP BY time($__interval), * fill(none)) WHERE $timeFilter AND "v1" > 0 GROUP BY time($__interval) fill(null)`: ask("m", increase("w", "f").of("g")).sum().onlyWith("g"),
	} {
		require.Equal(t, want, q.influxQL())
	}
}

func TestLegend(t *testing.T) {
	t.Parallel()
	one := ask("m", mean("n", "f"))
	for _, c := range []struct {
		query query
		among bool
		want  string
	}{
		{one, false, "$col"}, {one.each("a", "b"), false, "$tag_a $tag_b"}, {one.each("a"), true, "$tag_a $col"},
		{labelled("x", one.each("a")), true, "$tag_a x"}, {ask("m", mean("n", "f"), mean("o", "g")).each("a"), false, "$tag_a $col"},
	} {
		require.Equal(t, c.want, c.query.legend(c.among))
	}
}

func withStep(q query, step string) query {
	q.step = step
	return q
}

func TestGraphite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query query
		want  []string
	}{
		{ask("system", mean("load", "load1")).choose("host"), []string{"alias($host.system.load1, 'load')"}},
		{ask("system", mean("load", "load1")).choose("host").each("host"), []string{"aliasByNode($host.system.load1, 0)"}},
		{ask("cpu", mean("busy", "usage_idle").outOf100()).is("cpu", "cpu-total").choose("host").each("host"), []string{
			"aliasByNode(offset(scale($host.cpu.cpu-total.usage_idle, -1), 100), 0)",
		}},
		{ask("net", perSecond("in", "bytes_recv"), perSecond("out", "bytes_sent")).choose("host").each("host", "interface"), []string{
			"aliasSub(aliasByNode(perSecond($host.net.*.bytes_recv), 0, 2), '$', ' in')",
			"aliasSub(aliasByNode(perSecond($host.net.*.bytes_sent), 0, 2), '$', ' out')",
		}},
		{ask("disk", mean("used", "used")).each("path").beside("device", "fstype").maybeBeside("label").highest(), []string{
			"groupByNodes(*.disk.*.*.*.used, 'max', 4)", "groupByNodes(*.disk.*.*.*.*.used, 'max', 5)",
		}},
		{ask("slurm_queue", last("cpus", "cpus")).choose("cluster").is("by", "user").is("state", "running").each("user").sum(), []string{
			"groupByNodes(consolidateBy($cluster.slurm_queue.user.*.running.cpus, 'last'), 'sum', 3)",
		}},
		{ask("slurm_cluster", last("share", "cpus_allocated").of("cpus_total")).choose("cluster").sum(), []string{
			"alias(divideSeries(sumSeries(consolidateBy($cluster.slurm_cluster.cpus_allocated, 'last')), sumSeries(consolidateBy($cluster.slurm_cluster.cpus_total, 'last'))), 'share')",
		}},
		{ask("slurm_cluster", increase("n", "x").times(0.5)).holding().lowest(), []string{
			"alias(minSeries(scale(keepLastValue(nonNegativeDerivative(slurm_cluster.x)), 0.5)), 'n')",
		}},
		{ask("cpu", mean("u", "f")).average(), []string{"alias(averageSeries(*.cpu.f), 'u')"}},
		{ask("cpu", mean("u", "f")).each("host").average(), []string{"groupByNodes(*.cpu.f, 'average', 0)"}},
		{ask("temp", highest("t", "temp")).is("sensor", "a.b/c d"), []string{"alias(consolidateBy(*.temp.a_b-c_d.temp, 'max'), 't')"}},
	} {
		got, err := c.query.graphite()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestNotForGraphite(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]query{
		`measurement "m": Graphite has no tables`:                              table("m", last("n", "f")),
		`measurement "m": Graphite has no paths but for those of "x"`:          ask("m", last("n", "f")).not("t", "x"),
		`path "*.m.f": no such function of Graphite`:                           ask("m", counted("n", "f")),
		`measurement "m": a share that is not one of sums is not for Graphite`: ask("m", mean("n", "f").of("g")).each("host").sum(),
		`measurement "o": a share that is not one of sums is not for Graphite`: ask("o", mean("n", "f").of("g")).highest(),
		`measurement "m": "it's" is no name for Graphite`:                      ask("m", mean("it's", "f")),
		`measurement "slurm_x": tag "host" is in no path of Graphite`:          ask("slurm_x", mean("n", "f")).each("host"),
	} {
		_, err := q.graphite()
		require.EqualError(t, err, want)
	}
}

// What Graphite's paths are made with, and what it does not get, is what sample.conf says.
func TestGraphiteOfSampleConf(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../sample.conf")
	require.NoError(t, err)
	_, output, ok := strings.Cut(string(text), "# [[outputs.graphite]]\n")
	require.True(t, ok)
	list := func(option string) []string {
		_, rest, ok := strings.Cut(output, "#   "+option+" = [\n")
		require.True(t, ok, option)
		rest, _, ok = strings.Cut(rest, "#   ]\n")
		require.True(t, ok, option)
		all := regexp.MustCompile(`"[^"]*"`).FindAllString(rest, -1)
		for i := range all {
			all[i] = strings.Trim(all[i], `"`)
		}
		return all
	}
	require.Equal(t, list("templates"), graphiteTemplates())
	require.Equal(t, list("namedrop"), graphiteDrops())
}

// Each panel tells what it is, has a unit where it has numbers, and asks by variables that the board has.
func TestBoards(t *testing.T) {
	t.Parallel()
	boards := make(map[string]board)
	for _, b := range influxBoards() {
		require.NotContains(t, boards, b.name)
		boards[b.name] = b
	}
	for _, b := range boards {
		require.NotEmpty(t, b.about, b.name)
		titles := make(map[string]bool)
		used := make(map[string]bool)
		for _, r := range b.rows {
			for _, p := range r.panels {
				where := b.name + ": " + p.title
				require.False(t, titles[r.title+p.title], "%s is there twice", where)
				titles[r.title+p.title] = true
				require.Regexp(t, `^[A-Z].*\.$`, p.about, where)
				require.Equal(t, p.view == viewTable, p.unit == "", "%s: unit", where)
				require.True(t, p.width > 0 && p.width <= 24 && p.height > 0, where)
				require.NotEmpty(t, p.queries, where)
				checkPanel(t, boards, &b, &p, used)
			}
		}
		for _, v := range b.variables {
			require.NotEmpty(t, v.label, b.name)
			for _, c := range v.where {
				used[strings.TrimPrefix(c.value, "$")] = true
			}
		}
		for _, v := range b.variables {
			require.True(t, used[v.name], "%s: nothing asks by the variable %s", b.name, v.name)
		}
	}
}

func checkPanel(t *testing.T, boards map[string]board, b *board, p *panel, used map[string]bool) {
	t.Helper()
	where := b.name + ": " + p.title
	has := func(of *board, name string) bool {
		return slices.ContainsFunc(of.variables, func(v variable) bool { return v.name == name })
	}
	names := make(map[string]bool) // columns and labels
	for _, q := range p.queries {
		for _, c := range q.filters {
			if name, ok := strings.CutPrefix(c.value, "$"); ok {
				require.True(t, has(b, name), "%s: variable %s", where, name)
				used[name] = true
			}
		}
		for _, tag := range q.by {
			names[tag] = true
		}
		if q.only != "" {
			require.True(t, q.join != "" && slices.ContainsFunc(q.operands(), func(o value) bool { return o.field == q.only }), where)
		}
		for _, v := range q.values {
			require.NotEmpty(t, v.name, where)
			require.NotEqual(t, "time", v.name, "%s: InfluxDB gives a column of this name the time", where)
			require.Equal(t, q.form == asRows, v.do == doNothing, "%s: %s", where, v.name)
			names[v.name] = true
		}
	}
	links := append(make([]*link, 0, len(p.columns)+1), p.link)
	for _, c := range p.columns {
		require.True(t, names[c.name], "%s: column %s", where, c.name)
		links = append(links, c.link)
	}
	if p.sorted != "" {
		require.True(t, names[p.sorted], "%s: column %s", where, p.sorted)
	}
	for _, l := range links {
		if l == nil {
			continue
		}
		require.Contains(t, boards, l.board, where)
		other := boards[l.board]
		for _, set := range l.set {
			require.True(t, has(&other, set[0]), "%s: %s has no variable %s", where, l.board, set[0])
			if name, ok := strings.CutPrefix(set[1], "$"); ok {
				require.True(t, has(b, name) && name == set[0], "%s: variable %s", where, name)
			} else {
				require.True(t, names[set[1]], "%s: no column %s to lead on by", where, set[1])
			}
		}
	}
}

// Panels have ids of their own and do not lie on each other.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, store := range []Store{InfluxQL, Graphite} {
		files, err := Dashboards(Request{Store: store})
		require.NoError(t, err)
		uids := make(map[string]bool)
		for _, f := range files {
			var d struct {
				UID    string
				Panels []struct {
					ID      int
					Title   string
					GridPos gridPosition
				}
			}
			require.NoError(t, json.Unmarshal([]byte(f.Text), &d))
			require.False(t, uids[d.UID], d.UID)
			require.LessOrEqual(t, len(d.UID), 40, "Grafana's limit")
			uids[d.UID] = true
			ids, cells := make(map[int]bool), make(map[[2]int]string)
			require.NotEmpty(t, d.Panels, f.Name)
			for _, p := range d.Panels {
				require.False(t, ids[p.ID], p.Title)
				ids[p.ID] = true
				g := p.GridPos
				require.LessOrEqual(t, g.X+g.W, 24, p.Title)
				for x := g.X; x < g.X+g.W; x++ {
					for y := g.Y; y < g.Y+g.H; y++ {
						require.Empty(t, cells[[2]int{x, y}], "%s: %s", f.Name, p.Title)
						cells[[2]int{x, y}] = p.Title
					}
				}
			}
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	_, err := Files(Request{Store: "prometheus"})
	require.EqualError(t, err, `there is no store "prometheus": choose one of influxql, graphite`)
	_, err = Files(Request{Store: Graphite, Hosts: []string{"a,b"}})
	require.EqualError(t, err, `"a,b" is no name of a host`)

	files, err := Files(Request{Store: Graphite, Hosts: []string{"n1.example.org", "n2", "n2"}, DataSource: "mine", Folder: "/srv/boards"})
	require.NoError(t, err)
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{
		"dashboards/node.json", "dashboards/cluster.json", "dashboards/users.json", "provisioning/dashboards/telegraf-hpc-graphite.yaml",
	}, names)
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(files[0].Text), &d))
	require.Len(t, d.Templating.List, 1)
	require.Equal(t, "n1_example_org,n2", d.Templating.List[0].Query)
	require.NotContains(t, files[0].Text, "${datasource}")
	require.Contains(t, files[0].Text, `"uid": "mine"`)
	require.Contains(t, files[3].Text, "path: /srv/boards\n")
}

// Where the request names a data source, that is what alerts ask; else the one that is provisioned.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{"": "telegraf-hpc-influxql", "mine": "mine"} {
		files, err := provisioning(Request{Store: InfluxQL, DataSource: source, URL: "http://db:8086", Database: "metrics"})
		require.NoError(t, err)
		var rules alertRules
		require.NoError(t, yaml.UnmarshalStrict([]byte(files[len(files)-1].Text), &rules))
		require.Len(t, rules.Groups, 1)
		uids := make(map[string]bool)
		for _, r := range rules.Groups[0].Rules {
			require.False(t, uids[r.UID])
			uids[r.UID] = true
			require.Equal(t, want, r.Data[0].DatasourceUID)
			require.NotContains(t, r.Data[0].Model.Query, "$__interval", "alerts look at steps of a length of their own")
			require.NotEmpty(t, r.Annotations["summary"])
			for _, text := range []string{r.Title, r.Labels["severity"], r.UID, r.For} {
				require.NotContains(t, text, "$", "Grafana would take it for a variable of its environment")
			}
		}
		if source != "" {
			require.Len(t, files, 2)
			continue
		}
		var sources dataSources
		require.NoError(t, yaml.UnmarshalStrict([]byte(files[1].Text), &sources))
		require.Equal(t, want, sources.Datasources[0].UID)
		require.Equal(t, "http://db:8086", sources.Datasources[0].URL)
		require.Equal(t, "metrics", sources.Datasources[0].JSONData["dbName"])
	}
}
