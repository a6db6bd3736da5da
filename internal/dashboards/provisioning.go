package dashboards

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Grafana's files for provisioning: https://grafana.com/docs/grafana/latest/administration/provisioning/ and, of alerts,
// https://grafana.com/docs/grafana/latest/alerting/set-up/provision-alerting-resources/file-provisioning/. Grafana takes what
// stands behind a dollar sign in them for a variable of its environment, but for that in annotations and in the models of
// queries (grafana/grafana, issues 71007 and 82774): only those may have one.

const (
	folderTitle   = "HPC"
	defaultFolder = "/var/lib/grafana/dashboards/telegraf-hpc/" // and the store
)

type dashboardProviders struct {
	APIVersion int                 `json:"apiVersion"`
	Providers  []dashboardProvider `json:"providers"`
}

type dashboardProvider struct {
	Name           string            `json:"name"`
	Folder         string            `json:"folder"`
	Type           string            `json:"type"`
	AllowUIUpdates bool              `json:"allowUiUpdates"`
	Options        map[string]string `json:"options"`
}

type dataSources struct {
	APIVersion  int            `json:"apiVersion"`
	Datasources []dataSourceAt `json:"datasources"`
}

type dataSourceAt struct {
	Name     string            `json:"name"`
	UID      string            `json:"uid"`
	Type     string            `json:"type"`
	Access   string            `json:"access"`
	URL      string            `json:"url"`
	JSONData map[string]string `json:"jsonData"`
}

type alertRules struct {
	APIVersion int         `json:"apiVersion"`
	Groups     []ruleGroup `json:"groups"`
}

type ruleGroup struct {
	OrgID    int         `json:"orgId"`
	Name     string      `json:"name"`
	Folder   string      `json:"folder"`
	Interval string      `json:"interval"`
	Rules    []alertRule `json:"rules"`
}

type alertRule struct {
	UID          string            `json:"uid"`
	Title        string            `json:"title"`
	Condition    string            `json:"condition"`
	Data         []ruleStep        `json:"data"`
	NoDataState  string            `json:"noDataState"`
	ExecErrState string            `json:"execErrState"`
	For          string            `json:"for"`
	Annotations  map[string]string `json:"annotations"`
	Labels       map[string]string `json:"labels"`
}

type ruleStep struct {
	RefID             string        `json:"refId"`
	DatasourceUID     string        `json:"datasourceUid"`
	RelativeTimeRange *secondsRange `json:"relativeTimeRange,omitempty"`
	Model             ruleModel     `json:"model"`
}

type secondsRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// ruleModel is a query of InfluxQL, or one of Grafana's expressions.
type ruleModel struct {
	RefID        string          `json:"refId"`
	Query        string          `json:"query,omitempty"`
	RawQuery     bool            `json:"rawQuery,omitempty"`
	ResultFormat string          `json:"resultFormat,omitempty"`
	Type         string          `json:"type,omitempty"`
	Expression   string          `json:"expression,omitempty"`
	Reducer      string          `json:"reducer,omitempty"`
	Settings     *ruleSettings   `json:"settings,omitempty"`
	Conditions   []ruleCondition `json:"conditions,omitempty"`
}

type ruleSettings struct {
	Mode string `json:"mode"`
}

type ruleCondition struct {
	Evaluator ruleEvaluator `json:"evaluator"`
}

type ruleEvaluator struct {
	Type   string    `json:"type"`
	Params []float64 `json:"params"`
}

// provisioning gives the files of Grafana's folder provisioning.
func provisioning(r Request) ([]File, error) {
	if r.Folder == "" {
		r.Folder = defaultFolder + string(r.Store)
	}
	var files []File
	add := func(name string, content any) error {
		text, err := yaml.Marshal(content)
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		files = append(files, File{"provisioning/" + name, string(text)})
		return nil
	}
	name := uidPrefix + string(r.Store)
	err := add("dashboards/"+name+".yaml", dashboardProviders{1, []dashboardProvider{{
		Name: name, Folder: folderTitle, Type: "file", Options: map[string]string{"path": r.Folder},
	}}})
	if err == nil && r.DataSource == "" {
		err = add("datasources/"+name+".yaml", dataSources{1, []dataSourceAt{dataSourceOf(r)}})
	}
	if err == nil && r.Store == InfluxQL {
		err = add("alerting/"+name+".yaml", rulesOf(r))
	}
	return files, err
}

func dataSourceOf(r Request) dataSourceAt {
	d := dataSourceAt{
		Name: "telegraf-hpc " + string(r.Store), UID: DefaultDataSource(r.Store), Type: r.Store.plugin(), Access: "proxy", URL: r.URL,
	}
	if r.Store == Graphite {
		d.JSONData = map[string]string{"graphiteVersion": "1.1", "graphiteType": "default"}
		if d.URL == "" {
			d.URL = "http://127.0.0.1:8080"
		}
		return d
	}
	if r.Database == "" {
		r.Database = "hpc"
	}
	d.JSONData = map[string]string{"dbName": r.Database, "httpMode": "POST", "timeInterval": "30s"}
	if d.URL == "" {
		d.URL = "http://127.0.0.1:8086"
	}
	return d
}

// rulesOf gives the alert rules. Only what a query shows can fire: where a plugin is not used, nothing is wrong.
func rulesOf(r Request) alertRules {
	source := r.DataSource
	if source == "" {
		source = DefaultDataSource(r.Store)
	}
	group := ruleGroup{OrgID: 1, Name: "telegraf-hpc", Folder: folderTitle, Interval: "1m"}
	for _, a := range alerts() {
		group.Rules = append(group.Rules, a.rule(source))
	}
	return alertRules{1, []ruleGroup{group}}
}

func (a *alert) rule(source string) alertRule {
	evaluator := ruleEvaluator{"gt", []float64{a.above}}
	if a.above == 0 {
		evaluator = ruleEvaluator{"lt", []float64{a.below}}
	}
	q := a.query
	q.step = "1m"
	if q.zeros { // Silence is that of two steps.
		q.step = "5m"
	}
	return alertRule{
		UID: uidPrefix + a.uid, Title: a.title, Condition: "C", NoDataState: "OK", ExecErrState: "Error", For: a.lasts,
		Annotations: map[string]string{"summary": a.summary, "description": a.remedy, "dashboard": "/d/" + uidPrefix + a.board},
		Labels:      map[string]string{"severity": a.severity},
		Data: []ruleStep{
			{"A", source, &secondsRange{From: a.back}, ruleModel{
				RefID: "A", Query: q.influxQL(), RawQuery: true, ResultFormat: "time_series",
			}},
			{"B", "__expr__", nil, ruleModel{
				RefID: "B", Type: "reduce", Expression: "A", Reducer: a.reduce, Settings: &ruleSettings{"dropNN"},
			}},
			{"C", "__expr__", nil, ruleModel{
				RefID: "C", Type: "threshold", Expression: "B", Conditions: []ruleCondition{{evaluator}},
			}},
		},
	}
}
