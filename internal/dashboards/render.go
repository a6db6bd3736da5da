package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	uidPrefix = "telegraf-hpc-"
	boardTag  = "telegraf-hpc"
	// minInterval is the shortest step of a graph: no shorter than what agents and plugins take to tell again.
	minInterval = "1m"
	// longestGap is what a line runs on over, in milliseconds: series that change seldom are told of every 4 minutes.
	longestGap = 10 * 60 * 1000
)

// renderer makes Grafana's dashboards of boards, for one store.
type renderer struct {
	store  Store
	source string   // uid of the data source; empty: the reader chooses
	hosts  []string // what the variable host offers; empty: all that the store knows
	next   int      // id of the next panel
}

// uid is a board's, which links lead to.
func (r *renderer) uid(name string) string {
	if r.store == Graphite {
		return uidPrefix + "graphite-" + name
	}
	return uidPrefix + name
}

func (r *renderer) dataSource() dataSource {
	if r.source != "" {
		return dataSource{r.store.plugin(), r.source}
	}
	return dataSource{r.store.plugin(), "${datasource}"}
}

// dashboard makes Grafana's JSON of a board.
func (r *renderer) dashboard(b *board) ([]byte, error) {
	r.next = 1
	d := dashboard{
		UID: r.uid(b.name), Title: b.title, Description: b.about, Tags: []string{boardTag, string(r.store)},
		Editable: true, GraphTooltip: 1, Time: timeRange{"now-6h", "now"}, Refresh: "1m", Timezone: "browser",
		SchemaVersion: schemaVersion,
		Links: []dashboardLink{{
			Title: "telegraf-hpc", Type: "dashboards", Tags: []string{boardTag, string(r.store)}, AsDropdown: true,
			Icon: "external link", KeepTime: true, Tooltip: "The other dashboards of telegraf-hpc",
		}},
	}
	if r.source == "" {
		d.Templating.List = append(d.Templating.List, variableModel{
			Name: "datasource", Type: "datasource", Label: "Data source", Query: r.store.plugin(),
		})
	}
	for i := range b.variables {
		v, err := r.variable(&b.variables[i])
		if err != nil {
			return nil, fmt.Errorf("dashboard %q: %w", b.name, err)
		}
		d.Templating.List = append(d.Templating.List, v)
	}
	y := 0
	for i := range b.rows {
		panels, err := r.row(&b.rows[i], &y)
		if err != nil {
			return nil, fmt.Errorf("dashboard %q: %w", b.name, err)
		}
		d.Panels = append(d.Panels, panels...)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // Links have many ampersands.
	err := encoder.Encode(d)
	return text.Bytes(), err
}

// row makes a row and the panels below it. Rows that hold nothing for the store are left out.
func (r *renderer) row(one *row, y *int) ([]any, error) {
	heading := rowPanel{ID: r.id(), Type: "row", Title: one.title, GridPos: gridPosition{1, 24, 0, *y}, Panels: []any{}}
	panels := []any{heading}
	x, top, height := 0, *y+1, 0
	for i := range one.panels {
		p := &one.panels[i]
		if !r.store.has(p) {
			continue
		}
		if x+p.width > 24 {
			x, top, height = 0, top+height, 0
		}
		made, err := r.panel(p)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.title, err)
		}
		made.GridPos = gridPosition{p.height, p.width, x, top}
		panels = append(panels, made)
		x, height = x+p.width, max(height, p.height)
	}
	if len(panels) == 1 {
		return nil, nil
	}
	*y = top + height
	return panels, nil
}

func (r *renderer) id() int {
	r.next++
	return r.next - 1
}

func (r *renderer) panel(p *panel) (graphPanel, error) {
	made := graphPanel{
		ID: r.id(), Title: p.title, Description: p.about, Datasource: r.dataSource(), Interval: minInterval, TimeFrom: p.recent,
		FieldConfig: fieldConfig{Overrides: []override{}},
	}
	var err error
	if made.Targets, err = r.targets(p); err != nil {
		return made, err
	}
	f := &made.FieldConfig.Defaults
	*f = fieldDefaults{Unit: p.unit, Color: colour{"palette-classic"}, Thresholds: thresholdsOf(p.steps), Mappings: mappingsOf(p.states)}
	if p.ceiling != 0 {
		zero := 0.0
		f.Min, f.Max = &zero, &p.ceiling
	}
	if p.link != nil && r.store == InfluxQL { // Lines of Graphite have no labels.
		f.Links = []dataLink{r.link(p.link, "__field.labels")}
	}
	switch p.view {
	case viewLines, viewStack:
		r.lines(p, &made)
	case viewStat:
		made.Type, f.Color, f.NoValue = "stat", colour{"thresholds"}, "unknown"
		made.Options = statOptions{
			ReduceOptions: reduceOptions{Calcs: []string{"lastNotNull"}}, Orientation: "auto", ColorMode: "value", GraphMode: "area",
			JustifyMode: "auto", TextMode: "auto", WideLayout: true, PercentChangeColorMode: "standard",
		}
	case viewBars:
		made.Type, f.Color = "bargauge", colour{"thresholds"}
		made.Options = barOptions{
			ReduceOptions: reduceOptions{Calcs: []string{"lastNotNull"}}, Orientation: "horizontal", DisplayMode: "gradient",
			ValueMode: "color", NamePlacement: "auto", Sizing: "auto", ShowUnfilled: true, MinVizWidth: 8, MinVizHeight: 16,
			MaxVizHeight: 300, Legend: legendOptions{DisplayMode: "list", Placement: "bottom", Calcs: []string{}},
		}
	case viewTable:
		r.table(p, &made)
	}
	return made, nil
}

func (r *renderer) lines(p *panel, made *graphPanel) {
	made.Type = "timeseries"
	zero := 0.0
	custom := lineConfig{
		DrawStyle: "line", FillOpacity: 10, LineWidth: 1, ShowPoints: "auto", SpanNulls: longestGap, Stacking: stacking{"none", "A"},
		AxisSoftMin: &zero,
	}
	if p.view == viewStack {
		custom.FillOpacity, custom.Stacking.Mode = 60, "normal"
		paint(p, &made.FieldConfig)
	}
	made.FieldConfig.Defaults.Custom = custom
	made.Options = lineOptions{
		Legend:  legendOptions{DisplayMode: "list", Placement: "bottom", ShowLegend: true, Calcs: []string{}},
		Tooltip: tooltipOptions{Mode: "multi", Sort: "desc"},
	}
}

// paint gives what is always the same its own colour: what is down is red.
func paint(p *panel, f *fieldConfig) {
	colours := stateColours()
	for _, q := range p.queries {
		for _, v := range q.values {
			if fixed, ok := colours[v.name]; ok && len(q.by) == 0 {
				f.Overrides = append(f.Overrides, override{matcher{"byName", v.name}, []property{
					{"color", map[string]string{"mode": "fixed", "fixedColor": fixed}},
				}})
			}
		}
	}
}

// stateColours are the colours of what is stacked in several panels, by the names that values have.
func stateColours() map[string]string {
	return map[string]string{
		"allocated": "green", "used": "green", "mixed": "light-green", "idle": "blue", "idle, usable": "blue", "reserved": "purple",
		"idle, reserved": "purple", "maintenance": "light-purple", "draining": "yellow", "drained": "orange", "idle, drained": "orange",
		"down": "red", "idle, down": "red", "not usable": "gray", "closed": "gray", "other": "gray", "idle, no CPU left": "light-orange",
		"idle, no memory left": "dark-yellow",
	}
}

func (r *renderer) table(p *panel, made *graphPanel) {
	made.Type, made.Interval = "table", ""
	f := &made.FieldConfig
	f.Defaults.Color = colour{"thresholds"}
	f.Defaults.Custom = tableConfig{Align: "auto", CellOptions: cellOptions{Type: "auto"}, Filterable: true}
	options := tableOptions{ShowHeader: true, CellHeight: "sm"}
	if p.sorted != "" {
		options.SortBy = []tableSort{{p.sorted, true}}
	}
	if p.queries[0].form == inTable { // Its time is the begin of the range.
		made.Transformations = []transformation{{"organize", map[string]any{"excludeByName": map[string]bool{"Time": true}}}}
	}
	for i := range p.columns {
		c := &p.columns[i]
		o := override{Matcher: matcher{"byName", c.name}}
		set := func(id string, value any) { o.Properties = append(o.Properties, property{id, value}) }
		if c.count {
			made.Transformations = append(made.Transformations, transformation{"convertFieldType", map[string]any{
				"fields": map[string]any{}, "conversions": []map[string]string{{"targetField": c.name, "destinationType": "number"}},
			}})
			options.SortBy = []tableSort{{c.name, false}}
		}
		if c.unit != "" {
			set("unit", c.unit)
		}
		if c.steps != nil {
			set("thresholds", thresholdsOf(c.steps))
		}
		switch {
		case c.bar:
			set("min", 0)
			set("max", 1)
			set("custom.cellOptions", cellOptions{Type: "gauge", Mode: "basic"})
		case c.steps != nil:
			set("custom.cellOptions", cellOptions{Type: "color-text"})
		}
		if c.link != nil {
			set("links", []dataLink{r.link(c.link, "__data.fields")})
		}
		f.Overrides = append(f.Overrides, o)
	}
	made.Options = options
}

// link makes the address of a link. Values are those of the row of a table, or of the labels of a line.
func (r *renderer) link(l *link, of string) dataLink {
	var b strings.Builder
	b.WriteString("/d/" + r.uid(l.board) + "/?${__url_time_range}")
	if r.source == "" {
		b.WriteString("&${datasource:queryparam}")
	}
	for _, set := range l.set {
		if name, ok := strings.CutPrefix(set[1], "$"); ok {
			fmt.Fprintf(&b, "&${%s:queryparam}", name)
			continue
		}
		fmt.Fprintf(&b, "&var-%s=${%s.%s:percentencode}", set[0], of, set[1])
	}
	return dataLink{l.title, b.String()}
}

func thresholdsOf(steps []step) *thresholds {
	if len(steps) == 0 {
		return &thresholds{"absolute", []thresholdStep{{blue, nil}}}
	}
	t := &thresholds{Mode: "absolute"}
	for i := range steps {
		s := thresholdStep{Color: steps[i].colour}
		if i > 0 {
			s.Value = &steps[i].from
		}
		t.Steps = append(t.Steps, s)
	}
	return t
}

func mappingsOf(states []state) []mapping {
	if len(states) == 0 {
		return nil
	}
	m := mapping{"value", make(map[string]mappingResult)}
	for i, s := range states {
		m.Options[s.value] = mappingResult{s.text, s.colour, i}
	}
	return []mapping{m}
}

// targets makes the queries of a panel.
func (r *renderer) targets(p *panel) ([]target, error) {
	var targets []target
	add := func(t target) {
		t.RefID, t.Datasource = string(rune('A'+len(targets))), r.dataSource()
		targets = append(targets, t)
	}
	for i := range p.queries {
		q := &p.queries[i]
		if r.store == Graphite {
			texts, err := q.graphite()
			if err != nil {
				return nil, err
			}
			for _, text := range texts {
				add(target{Target: text, TextEditor: true})
			}
			continue
		}
		t := target{Query: q.influxQL(), RawQuery: true, ResultFormat: "table"}
		if q.form == overTime {
			t.ResultFormat, t.Alias = "time_series", q.legend(len(p.queries) > 1)
		}
		add(t)
	}
	return targets, nil
}

func (r *renderer) variable(v *variable) (variableModel, error) {
	m := variableModel{Name: v.name, Label: v.label}
	switch {
	case v.from == "":
		m.Type = "textbox"
		m.Current = &variableOption{true, "", ""}
		return m, nil
	case v.name == "host" && len(r.hosts) > 0:
		m.Type, m.Multi, m.IncludeAll = "custom", true, true
		m.Query = strings.Join(r.hosts, ",")
		m.Current = &variableOption{true, []string{"All"}, []string{"$__all"}}
		m.Options = append(m.Options, variableOption{true, "All", "$__all"})
		for _, host := range r.hosts {
			m.Options = append(m.Options, variableOption{false, host, host})
		}
		return m, nil
	}
	source := r.dataSource()
	m.Type, m.Datasource, m.Refresh, m.Sort, m.Multi, m.IncludeAll = "query", &source, 2, 7, true, true
	m.Current = &variableOption{true, []string{"All"}, []string{"$__all"}}
	if r.store == Graphite {
		var err error
		m.Query, m.Regex, err = v.graphite()
		m.AllValue = "*"
		return m, err
	}
	m.Query, m.AllValue = v.influxQL(), ".*"
	return m, nil
}
