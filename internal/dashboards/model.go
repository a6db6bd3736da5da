package dashboards

import (
	"slices"
	"strings"
)

// board is a dashboard, as far as all stores have it in common.
type board struct {
	name      string // the end of its uid, and the name of its file
	title     string
	about     string
	variables []variable
	rows      []row
}

// row is a heading with panels below it.
type row struct {
	title  string
	panels []panel
}

// variable is one that a reader chooses: the values of a tag, or a text that is typed in.
type variable struct {
	name  string // that of the tag, too
	label string
	from  string // a measurement that has the tag; empty where the text is typed in
	field string // a field of that measurement
	also  []string
	where []condition
}

// view is how a panel shows.
type view int

const (
	viewLines view = iota
	viewStack      // lines on top of each other
	viewStat       // big numbers, the latest
	viewBars       // a bar for each, the latest
	viewTable
)

// panel is one picture.
type panel struct {
	view    view
	title   string
	about   string
	unit    string // Grafana's id of a unit
	width   int    // of 24
	height  int
	ceiling float64 // the end of the scale, unless 0
	steps   []step
	states  []state
	queries []query
	columns []column
	sorted  string // the column of a table that the largest come first of
	recent  string // a time range of its own, up to now, such as 10m
	link    *link
}

// step is a colour from a value on. The first one holds for all below the second.
type step struct {
	from   float64
	colour string
}

// state is a text in place of a number.
type state struct {
	value, text, colour string
}

// column is how a table shows a column.
type column struct {
	name  string
	unit  string
	steps []step
	bar   bool // a bar from 0 to 1
	count bool // a tag that is a number, by which the table is sorted, the smallest first
	link  *link
}

// link leads to another board, of the same time range. Each of its variables gets the value of a tag or column, or, with a
// dollar sign before it, of a variable here.
type link struct {
	title string
	board string
	set   [][2]string
}

// form is what a query gives.
type form int

const (
	overTime form = iota // a point for each step of time
	inTable              // a row for each series, of the whole time range
	asRows               // the points themselves, the latest first
)

// function is what becomes of the values of a series in a step of time, or in the whole range.
type function int

const (
	doNothing   function = iota // the value itself, of rows
	doMean                      //
	doLast                      //
	doMax                       //
	doSum                       // of the points
	doCount                     //
	doCountTwo                  // of two steps together, halved: the last one has only begun
	doSpread                    // what a counter that never falls has grown by
	doPerSecond                 // of a counter, which may start again from 0
	doIncrease                  // likewise
)

// value is a field, or with rows a tag, that is asked for.
type value struct {
	name   string // what it is called
	field  string
	do     function
	over   string  // a field that it is divided by
	factor float64 // that it is multiplied by, unless 0
	rest   bool    // what is left of 100 beside it
}

// comparison is how a tag is compared.
type comparison string

const (
	matches  comparison = "=~" // with a variable that may have many values
	equal    comparison = "="
	notEqual comparison = "!="
)

// condition is what a series must have. With a variable the value is its name with a dollar sign before it.
type condition struct {
	tag   string
	how   comparison
	value string
}

// query asks for values of one measurement.
type query struct {
	form    form
	from    string
	values  []value
	filters []condition
	by      []string // tags: a line or a row for each of their values
	also    []string // the other tags of its series but host, which are in paths of Graphite
	maybe   []string // those of these that some of its series have not
	join    string   // sum, max, min, mean, count or last: how series that differ in other tags than by become one; empty where none do
	hold    bool     // its series have points when they change: the last one holds until the next
	only    string   // a field: what has it above 0 counts alone, in each step of time
	zeros   bool     // a step without points is 0
	step    string   // of time, such as 5m; empty: as Grafana has it
	limit   int      // of rows
	label   string   // what its lines are called beside their tags, where several queries are in a panel
}

// ask begins a query over time.
func ask(measurement string, values ...value) query { return query{from: measurement, values: values} }

// table begins a query for a table.
func table(measurement string, values ...value) query {
	return query{form: inTable, from: measurement, values: values}
}

// list begins a query for the points themselves. Columns are called as the fields and tags are, but for units, which the
// panel shows: wait_seconds is wait, exit_code is exit code.
func list(measurement string, fields ...string) query {
	q := query{form: asRows, from: measurement, limit: 500}
	for _, field := range fields {
		name := strings.TrimSuffix(strings.TrimSuffix(field, "_seconds"), "_bytes")
		q.values = append(q.values, value{name: strings.ReplaceAll(name, "_", " "), field: field})
	}
	return q
}

func mean(name, field string) value      { return value{name: name, field: field, do: doMean} }
func last(name, field string) value      { return value{name: name, field: field, do: doLast} }
func highest(name, field string) value   { return value{name: name, field: field, do: doMax} }
func grown(name, field string) value     { return value{name: name, field: field, do: doSpread} }
func perSecond(name, field string) value { return value{name: name, field: field, do: doPerSecond} }
func total(name, field string) value     { return value{name: name, field: field, do: doSum} }
func counted(name, field string) value   { return value{name: name, field: field, do: doCount} }
func increase(name, field string) value  { return value{name: name, field: field, do: doIncrease} }

// of divides by a field, which is taken alike.
func (v value) of(field string) value {
	v.over = field
	return v
}

func (v value) times(factor float64) value {
	v.factor = factor
	return v
}

// outOf100 is what is left of 100 beside it.
func (v value) outOf100() value {
	v.rest = true
	return v
}

// choose restricts tags to what the variables of the same names say.
func (q query) choose(tags ...string) query {
	for _, tag := range tags {
		q.filters = append(slices.Clip(q.filters), condition{tag, matches, "$" + tag})
	}
	return q
}

func (q query) is(tag, value string) query {
	q.filters = append(slices.Clip(q.filters), condition{tag, equal, value})
	return q
}

func (q query) not(tag, value string) query {
	q.filters = append(slices.Clip(q.filters), condition{tag, notEqual, value})
	return q
}

func (q query) each(tags ...string) query {
	q.by = tags
	return q
}

func (q query) beside(tags ...string) query {
	q.also = tags
	return q
}

// maybeBeside is beside, of tags that some series have not.
func (q query) maybeBeside(tags ...string) query {
	q.maybe = tags
	return q
}

func (q query) sum() query {
	q.join = "sum"
	return q
}

func (q query) highest() query {
	q.join = "max"
	return q
}

func (q query) lowest() query {
	q.join = "min"
	return q
}

func (q query) average() query {
	q.join = "mean"
	return q
}

func (q query) number() query {
	q.join = "count"
	return q
}

func (q query) holding() query {
	q.hold = true
	return q
}

// onlyWith leaves out where a field, which is asked for, is 0.
func (q query) onlyWith(field string) query {
	q.only = field
	return q
}

func (q query) latest() query {
	q.join = "last"
	return q
}

// absent counts steps without points as 0.
func (q query) absent() query {
	q.zeros = true
	return q
}

func draw(v view, title, about, unit string, queries ...query) panel {
	return panel{view: v, title: title, about: about, unit: unit, width: 12, height: 8, queries: queries}
}

func lines(title, about, unit string, queries ...query) panel {
	return draw(viewLines, title, about, unit, queries...)
}

func stack(title, about, unit string, queries ...query) panel {
	return draw(viewStack, title, about, unit, queries...)
}

func stat(title, about, unit string, queries ...query) panel {
	return draw(viewStat, title, about, unit, queries...).size(4, 4)
}

func bars(title, about, unit string, queries ...query) panel {
	return draw(viewBars, title, about, unit, queries...)
}

func tabled(title, about string, q query, columns ...column) panel {
	p := draw(viewTable, title, about, "", q)
	p.columns = columns
	return p.size(24, 9)
}

func (p panel) size(width, height int) panel {
	p.width, p.height = width, height
	return p
}

func (p panel) to(ceiling float64) panel {
	p.ceiling = ceiling
	return p
}

func (p panel) colours(steps ...step) panel {
	p.steps = steps
	return p
}

func (p panel) means(states ...state) panel {
	p.states = states
	return p
}

func (p panel) last(recent string) panel {
	p.recent = recent
	return p
}

func (p panel) most(column string) panel {
	p.sorted = column
	return p
}

func (p panel) leads(l link) panel {
	p.link = &l
	return p
}

// as is a column of a unit.
func as(name, unit string) column { return column{name: name, unit: unit} }

// share is a column of values from 0 to 1.
func share(name string, steps ...step) column {
	return column{name: name, unit: "percentunit", bar: true, steps: steps}
}

func (c column) leads(l link) column {
	c.link = &l
	return c
}

// toBoard is a link to a board, whose variables are set to tags or columns of the same names.
func toBoard(title, board string, names ...string) link {
	l := link{title: title, board: board}
	for _, name := range names {
		l.set = append(l.set, [2]string{name, name})
	}
	return l
}

// with sets one more variable.
func (l link) with(variable, column string) link {
	l.set = append(slices.Clip(l.set), [2]string{variable, column})
	return l
}

// Colours of thresholds, by Grafana's names.
const (
	green  = "green"
	yellow = "yellow"
	orange = "orange"
	red    = "red"
	blue   = "blue"
	plain  = "text"
)

// warn is green below the first value, orange up to the second, and red.
func warn(orangeFrom, redFrom float64) []step {
	return []step{{0, green}, {orangeFrom, orange}, {redFrom, red}}
}

// bad is green at 0 and red above.
func bad() []step { return []step{{0, green}, {1, red}} }

// upDown tells 1 from 0.
func upDown() []state { return []state{{"1", "up", green}, {"0", "down", red}} }
