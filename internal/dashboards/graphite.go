package dashboards

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// graphiteTemplates are those of outputs.graphite in sample.conf, which make metrics' paths. A test compares them.
func graphiteTemplates() []string {
	return []string{
		"slurm_* cluster.measurement.by.node.problem.partition.account.user.qos.reason.type.rpc.reservation.license.state.le.field",
		"condor_* pool.measurement.schedd.queue.by.state.type.partition.user.submitter.group.code.reason.negotiator.le.field",
		"lustre_* fs.measurement.kind.cluster.account.user.uid.field",
		"host.measurement.tags.field",
	}
}

// graphiteDrops are the measurements that outputs.graphite in sample.conf drops. A test compares them.
func graphiteDrops() []string {
	return []string{
		"lustre_jobstats", "lustre_jobstats_epoch", "lustre_job", "lustre_process", "job_report", "slurm_job", "slurm_finished",
		"condor_job", "condor_finished", "who_session", "node_job*", "node_net_connection", "node_user", "*_self",
	}
}

// drops tells whether a measurement is not sent to Graphite.
func drops(measurement string) bool {
	return slices.ContainsFunc(graphiteDrops(), func(pattern string) bool {
		fits, err := path.Match(pattern, measurement)
		return err == nil && fits
	})
}

// graphiteNode makes of a name what Telegraf's outputs.graphite makes of it as one node of a path.
func graphiteNode(name string) string {
	return strings.NewReplacer(".", "_", "/", "-", "@", "-", "*", "-", " ", "_", `\`, "").Replace(name)
}

// paths gives the path of each of the query's series, as a pattern, and where in it the tags of by stand.
func (q *query) path(field string) (pattern string, by []int, err error) {
	tags, err := q.graphiteTags()
	if err != nil {
		return "", nil, err
	}
	var nodes, names []string
	add := func(name, node string) { names, nodes = append(names, name), append(nodes, node) }
	left := make([]string, 0, len(tags))
	for tag := range tags {
		left = append(left, tag)
	}
	slices.Sort(left)
	parts := strings.Split(template(q.from), ".")
	left = slices.DeleteFunc(left, func(tag string) bool { return slices.Contains(parts, tag) })
	for _, part := range parts {
		switch part {
		case "measurement":
			add("", q.from)
		case "field":
			add("", field)
		case "tags":
			for _, tag := range left {
				add(tag, tags[tag])
			}
		default:
			if node, ok := tags[part]; ok {
				add(part, node)
			}
		}
	}
	for _, tag := range q.by {
		i := slices.Index(names, tag)
		if i < 0 {
			return "", nil, fmt.Errorf("measurement %q: tag %q is in no path of Graphite", q.from, tag)
		}
		by = append(by, i)
	}
	return strings.Join(nodes, "."), by, nil
}

// template gives the template of a measurement.
func template(measurement string) string {
	for _, t := range graphiteTemplates() {
		pattern, rest, ok := strings.Cut(t, " ")
		if !ok {
			return t
		}
		if fits, err := path.Match(pattern, measurement); err == nil && fits {
			return rest
		}
	}
	return ""
}

// graphiteTags gives the tags of the query's series with what stands for them in a path.
func (q *query) graphiteTags() (map[string]string, error) {
	tags := map[string]string{"host": "*"}
	for _, tag := range slices.Concat(q.by, q.also) {
		tags[tag] = "*"
	}
	for _, c := range q.filters {
		switch {
		case c.how == notEqual:
			return nil, fmt.Errorf("measurement %q: Graphite has no paths but for those of %q", q.from, c.value)
		case strings.HasPrefix(c.value, "$"):
			tags[c.tag] = c.value
		default:
			tags[c.tag] = graphiteNode(c.value)
		}
	}
	return tags, nil
}

// graphite gives the targets of the query for Graphite's render API, one for each value.
func (q *query) graphite() ([]string, error) {
	if q.form != overTime {
		return nil, fmt.Errorf("measurement %q: Graphite has no tables", q.from)
	}
	var targets []string
	for i := range 1 << len(q.maybe) { // One with each choice of the tags that series may lack.
		some := *q
		for j, tag := range q.maybe {
			if i>>j&1 == 1 {
				some.also = append(slices.Clip(some.also), tag)
			}
		}
		more, err := some.graphitePaths()
		if err != nil {
			return nil, err
		}
		targets = append(targets, more...)
	}
	return targets, nil
}

// graphitePaths gives the targets of the query, all of whose series have the same tags.
func (q *query) graphitePaths() ([]string, error) {
	targets := make([]string, 0, len(q.values))
	for _, v := range q.values {
		if strings.ContainsAny(v.name, "'\\$") {
			return nil, fmt.Errorf("measurement %q: %q is no name for Graphite", q.from, v.name)
		}
		pattern, by, err := q.path(v.field)
		if err != nil {
			return nil, err
		}
		series, err := q.series(v, pattern)
		if err != nil {
			return nil, err
		}
		targets = append(targets, q.named(v, series, by))
	}
	return targets, nil
}

// series is what is asked for, before it has its name.
func (q *query) series(v value, pattern string) (string, error) {
	series, err := graphiteFunction(v.do, pattern)
	if err != nil {
		return "", err
	}
	if q.hold {
		series = "keepLastValue(" + series + ")"
	}
	if v.over != "" {
		over, _, err := q.path(v.over)
		if err != nil {
			return "", err
		}
		if len(q.by) > 0 || q.join != "sum" || q.hold {
			return "", fmt.Errorf("measurement %q: a share that is not one of sums is not for Graphite", q.from)
		}
		if over, err = graphiteFunction(v.do, over); err != nil {
			return "", err
		}
		series = fmt.Sprintf("divideSeries(sumSeries(%s), sumSeries(%s))", series, over)
	}
	if v.factor != 0 {
		series = fmt.Sprintf("scale(%s, %v)", series, v.factor)
	}
	if v.rest {
		series = "offset(scale(" + series + ", -1), 100)"
	}
	return series, nil
}

// named joins the series, and gives what comes out the names of the tags.
func (q *query) named(v value, series string, by []int) string {
	join := q.join
	if join == "mean" {
		join = "average"
	}
	if len(by) == 0 {
		if q.join != "" && v.over == "" { // A share is joined already.
			series = join + "Series(" + series + ")" // Such as sumSeries.
		}
		return fmt.Sprintf("alias(%s, '%s')", series, v.name)
	}
	var nodes strings.Builder
	for _, i := range by {
		fmt.Fprintf(&nodes, ", %d", i)
	}
	if q.join != "" {
		series = fmt.Sprintf("groupByNodes(%s, '%s'%s)", series, join, nodes.String())
	} else {
		series = fmt.Sprintf("aliasByNode(%s%s)", series, nodes.String())
	}
	if len(q.values) > 1 {
		series = fmt.Sprintf("aliasSub(%s, '$', ' %s')", series, v.name)
	}
	return series
}

// graphiteFunction is a function of a path. Graphite itself makes one point of many, by their mean unless told otherwise.
func graphiteFunction(do function, pattern string) (string, error) {
	switch do {
	case doMean:
		return pattern, nil
	case doLast:
		return "consolidateBy(" + pattern + ", 'last')", nil
	case doMax:
		return "consolidateBy(" + pattern + ", 'max')", nil
	case doPerSecond:
		return "perSecond(" + pattern + ")", nil
	case doIncrease:
		return "nonNegativeDerivative(" + pattern + ")", nil
	}
	return "", fmt.Errorf("path %q: no such function of Graphite", pattern)
}

// graphite asks for the paths that have the values of a variable; regex takes them out.
func (v *variable) graphite() (ask, regex string, err error) {
	q := query{from: v.from, by: []string{v.name}, also: v.also, filters: v.where}
	pattern, by, err := q.path(v.field)
	if err != nil {
		return "", "", err
	}
	return "expand(" + pattern + ")", fmt.Sprintf(`/^(?:[^.]+\.){%d}([^.]+)/`, by[0]), nil
}
