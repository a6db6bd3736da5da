package dashboards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// influxQL is the query in InfluxQL, with Grafana's macros.
func (q *query) influxQL() string {
	var b strings.Builder
	filter := strings.Join(append(q.conditions(), "$timeFilter"), " AND ")
	switch {
	case q.form == asRows:
		fmt.Fprintf(&b, "SELECT %s FROM %q WHERE %s ORDER BY time DESC LIMIT %d", q.selection(plainOf), q.from, filter, q.limit)
		return b.String()
	case q.join == "":
		fmt.Fprintf(&b, "SELECT %s FROM %q WHERE %s", q.selection(functionOf), q.from, filter)
	default: // A function of each series, and of these the sum: a sum of points would count a series once a point.
		fmt.Fprintf(&b, "SELECT %s FROM (SELECT %s FROM %q WHERE %s GROUP BY %s) WHERE $timeFilter",
			q.selection(func(_ function, operand string) string { return q.join + "(" + operand + ")" }),
			q.inner(), q.from, filter, q.innerGroups())
		if i := slices.IndexFunc(q.operands(), func(o value) bool { return o.field == q.only }); i >= 0 {
			fmt.Fprintf(&b, ` AND "v%d" > 0`, i)
		}
	}
	groups := make([]string, 0, len(q.by)+1)
	if q.form == overTime {
		groups = append(groups, q.time())
	}
	for _, tag := range q.by {
		groups = append(groups, strconv.Quote(tag))
	}
	if len(groups) > 0 {
		b.WriteString(" GROUP BY " + strings.Join(groups, ", "))
	}
	if q.form == overTime {
		b.WriteString(q.fill())
	}
	return b.String()
}

// fill is what a step of time has in which a series has no point.
func (q *query) fill() string {
	switch {
	case q.zeros:
		return " fill(0)"
	case q.hold && q.join == "":
		return " fill(previous)"
	}
	return " fill(null)"
}

// innerGroups parts all series from each other.
func (q *query) innerGroups() string {
	switch {
	case q.form != overTime:
		return "*"
	case q.hold:
		return q.time() + ", * fill(previous)"
	}
	return q.time() + ", * fill(none)"
}

func (q *query) time() string {
	if q.step != "" {
		return "time(" + q.step + ")"
	}
	return "time($__interval)"
}

// operands gives the fields that are asked for, each once with each function, in order.
func (q *query) operands() []value {
	var all []value
	add := func(v value) {
		for _, o := range all {
			if o.field == v.field && o.do == v.do {
				return
			}
		}
		all = append(all, v)
	}
	for _, v := range q.values {
		add(value{field: v.field, do: v.do})
		if v.over != "" {
			add(value{field: v.over, do: v.do})
		}
	}
	return all
}

// inner is what the query inside gives, under names that the one outside knows.
func (q *query) inner() string {
	operands := q.operands()
	parts := make([]string, 0, len(operands))
	for i, o := range operands {
		parts = append(parts, fmt.Sprintf(`%s AS "v%d"`, functionOf(o.do, strconv.Quote(o.field)), i))
	}
	return strings.Join(parts, ", ")
}

// selection is what stands behind SELECT.
func (q *query) selection(apply func(function, string) string) string {
	operand := func(field string, do function) string {
		if q.join == "" {
			return strconv.Quote(field)
		}
		for i, o := range q.operands() {
			if o.field == field && o.do == do {
				return fmt.Sprintf(`"v%d"`, i)
			}
		}
		return ""
	}
	parts := make([]string, 0, len(q.values))
	for _, v := range q.values {
		part := apply(v.do, operand(v.field, v.do))
		if v.over != "" {
			part += " / " + apply(v.do, operand(v.over, v.do))
		}
		if v.factor != 0 {
			part += " * " + strconv.FormatFloat(v.factor, 'f', -1, 64)
		}
		if v.rest {
			part = "100 - " + part
		}
		if v.name != v.field || part != strconv.Quote(v.field) {
			part += " AS " + strconv.Quote(v.name)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func plainOf(_ function, operand string) string { return operand }

// functionOf is a function of a field.
func functionOf(do function, operand string) string {
	switch do {
	case doMean:
		return "mean(" + operand + ")"
	case doMax:
		return "max(" + operand + ")"
	case doSum:
		return "sum(" + operand + ")"
	case doCount:
		return "count(" + operand + ")"
	case doCountTwo:
		return "moving_average(count(" + operand + "), 2)"
	case doSpread:
		return "spread(" + operand + ")"
	case doPerSecond:
		return "non_negative_derivative(last(" + operand + "), 1s)"
	case doIncrease:
		return "non_negative_difference(last(" + operand + "))"
	}
	return "last(" + operand + ")"
}

// conditions are those of WHERE, but for the time.
func (q *query) conditions() []string {
	parts := make([]string, 0, len(q.filters)+1)
	for _, c := range q.filters {
		parts = append(parts, c.influxQL())
	}
	return parts
}

func (c condition) influxQL() string {
	if c.how == matches {
		return fmt.Sprintf("%q =~ /^%s$/", c.tag, c.value)
	}
	return fmt.Sprintf("%q %s '%s'", c.tag, c.how, strings.ReplaceAll(c.value, "'", `\'`))
}

// legend is what Grafana calls the lines of a query, which may not be alone in its panel.
func (q *query) legend(among bool) string {
	parts := make([]string, 0, len(q.by)+1)
	for _, tag := range q.by {
		parts = append(parts, "$tag_"+tag)
	}
	if q.label != "" {
		parts = append(parts, q.label)
	}
	if len(q.values) > 1 || len(q.by) == 0 || among && q.label == "" {
		parts = append(parts, "$col")
	}
	return strings.Join(parts, " ")
}

// influxQL asks for the values of a variable.
func (v *variable) influxQL() string {
	text := fmt.Sprintf("SHOW TAG VALUES FROM %q WITH KEY = %q", v.from, v.name)
	q := query{filters: v.where}
	if conditions := q.conditions(); len(conditions) > 0 {
		text += " WHERE " + strings.Join(conditions, " AND ")
	}
	return text
}
