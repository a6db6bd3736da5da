package dashboards

// Grafana's schema of dashboards, version 1 ("classic"), as far as it is used here. What every Grafana since 9 reads;
// https://github.com/grafana/grafana/tree/main/packages/grafana-schema has it as TypeScript, which the dashboards are
// checked with.

// schemaVersion is the last one of this schema.
const schemaVersion = 42

type dashboard struct {
	UID           string          `json:"uid"`
	Title         string          `json:"title"`
	Description   string          `json:"description"`
	Tags          []string        `json:"tags"`
	Editable      bool            `json:"editable"`
	GraphTooltip  int             `json:"graphTooltip"`
	Time          timeRange       `json:"time"`
	Refresh       string          `json:"refresh"`
	Timezone      string          `json:"timezone"`
	SchemaVersion int             `json:"schemaVersion"`
	Links         []dashboardLink `json:"links"`
	Templating    templating      `json:"templating"`
	Panels        []any           `json:"panels"` // rowPanel or graphPanel
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type dashboardLink struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	Icon        string   `json:"icon"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	TargetBlank bool     `json:"targetBlank"`
	Tooltip     string   `json:"tooltip"`
}

type templating struct {
	List []variableModel `json:"list"`
}

type variableModel struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Label      string           `json:"label"`
	Datasource *dataSource      `json:"datasource,omitempty"`
	Query      string           `json:"query"`
	Regex      string           `json:"regex,omitempty"`
	Refresh    int              `json:"refresh,omitempty"`
	Sort       int              `json:"sort,omitempty"`
	Multi      bool             `json:"multi,omitempty"`
	IncludeAll bool             `json:"includeAll,omitempty"`
	AllValue   string           `json:"allValue,omitempty"`
	Current    *variableOption  `json:"current,omitempty"`
	Options    []variableOption `json:"options,omitempty"`
}

type variableOption struct {
	Selected bool `json:"selected"`
	Text     any  `json:"text"` // a text, or a list of texts where there may be several
	Value    any  `json:"value"`
}

type dataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type gridPosition struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type rowPanel struct {
	ID        int          `json:"id"`
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Collapsed bool         `json:"collapsed"`
	GridPos   gridPosition `json:"gridPos"`
	Panels    []any        `json:"panels"`
}

type graphPanel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description"`
	Datasource      dataSource       `json:"datasource"`
	GridPos         gridPosition     `json:"gridPos"`
	Interval        string           `json:"interval,omitempty"`
	TimeFrom        string           `json:"timeFrom,omitempty"`
	Targets         []target         `json:"targets"`
	FieldConfig     fieldConfig      `json:"fieldConfig"`
	Options         any              `json:"options"`
	Transformations []transformation `json:"transformations,omitempty"`
}

// target is a query of a panel. The first three are of InfluxQL, the next is Graphite's.
type target struct {
	Query        string     `json:"query,omitempty"`
	ResultFormat string     `json:"resultFormat,omitempty"`
	Alias        string     `json:"alias,omitempty"`
	Target       string     `json:"target,omitempty"`
	RawQuery     bool       `json:"rawQuery,omitempty"`
	TextEditor   bool       `json:"textEditor,omitempty"`
	RefID        string     `json:"refId"`
	Datasource   dataSource `json:"datasource"`
}

type transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []override    `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string      `json:"unit,omitempty"`
	Min        *float64    `json:"min,omitempty"`
	Max        *float64    `json:"max,omitempty"`
	Color      colour      `json:"color"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
	Mappings   []mapping   `json:"mappings,omitempty"`
	Links      []dataLink  `json:"links,omitempty"`
	NoValue    string      `json:"noValue,omitempty"`
	Custom     any         `json:"custom,omitempty"`
}

type colour struct {
	Mode string `json:"mode"`
}

type thresholds struct {
	Mode  string          `json:"mode"`
	Steps []thresholdStep `json:"steps"`
}

type thresholdStep struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // null in the first one
}

type mapping struct {
	Type    string                   `json:"type"`
	Options map[string]mappingResult `json:"options"`
}

type mappingResult struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

type dataLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

type override struct {
	Matcher    matcher    `json:"matcher"`
	Properties []property `json:"properties"`
}

type matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

type property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// lineConfig is fieldConfig.defaults.custom of time series.
type lineConfig struct {
	DrawStyle   string   `json:"drawStyle"`
	FillOpacity int      `json:"fillOpacity"`
	LineWidth   int      `json:"lineWidth"`
	ShowPoints  string   `json:"showPoints"`
	SpanNulls   int      `json:"spanNulls"` // milliseconds
	Stacking    stacking `json:"stacking"`
	AxisSoftMin *float64 `json:"axisSoftMin,omitempty"`
}

type stacking struct {
	Mode  string `json:"mode"`
	Group string `json:"group"`
}

type lineOptions struct {
	Legend  legendOptions  `json:"legend"`
	Tooltip tooltipOptions `json:"tooltip"`
}

type legendOptions struct {
	DisplayMode string   `json:"displayMode"`
	Placement   string   `json:"placement"`
	ShowLegend  bool     `json:"showLegend"`
	Calcs       []string `json:"calcs"`
}

type tooltipOptions struct {
	Mode string `json:"mode"`
	Sort string `json:"sort"`
}

type reduceOptions struct {
	Calcs  []string `json:"calcs"`
	Fields string   `json:"fields"`
	Values bool     `json:"values"`
}

type statOptions struct {
	ReduceOptions          reduceOptions `json:"reduceOptions"`
	Orientation            string        `json:"orientation"`
	ColorMode              string        `json:"colorMode"`
	GraphMode              string        `json:"graphMode"`
	JustifyMode            string        `json:"justifyMode"`
	TextMode               string        `json:"textMode"`
	WideLayout             bool          `json:"wideLayout"`
	ShowPercentChange      bool          `json:"showPercentChange"`
	PercentChangeColorMode string        `json:"percentChangeColorMode"`
}

type barOptions struct {
	ReduceOptions reduceOptions `json:"reduceOptions"`
	Orientation   string        `json:"orientation"`
	DisplayMode   string        `json:"displayMode"`
	ValueMode     string        `json:"valueMode"`
	NamePlacement string        `json:"namePlacement"`
	Sizing        string        `json:"sizing"`
	ShowUnfilled  bool          `json:"showUnfilled"`
	MinVizWidth   int           `json:"minVizWidth"`
	MinVizHeight  int           `json:"minVizHeight"`
	MaxVizHeight  int           `json:"maxVizHeight"`
	Legend        legendOptions `json:"legend"`
}

type tableConfig struct {
	Align       string      `json:"align"`
	CellOptions cellOptions `json:"cellOptions"`
	Inspect     bool        `json:"inspect"`
	Filterable  bool        `json:"filterable"`
}

type cellOptions struct {
	Type string `json:"type"`
	Mode string `json:"mode,omitempty"`
}

type tableOptions struct {
	FrameIndex int         `json:"frameIndex"`
	ShowHeader bool        `json:"showHeader"`
	CellHeight string      `json:"cellHeight"`
	SortBy     []tableSort `json:"sortBy,omitempty"`
}

type tableSort struct {
	DisplayName string `json:"displayName"`
	Desc        bool   `json:"desc"`
}
