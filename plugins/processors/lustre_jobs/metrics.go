package lustre_jobs

import (
	"errors"
	"fmt"

	"github.com/influxdata/telegraf"
)

// epochOf makes a line of a metric that came in another form than lustre_jobstats writes, such as with escapes. It is
// valid until the next one.
func (p *LustreJobs) epochOf(m telegraf.Metric) (*epochLine, error) {
	l := &p.scan.line
	*l = epochLine{fields: l.fields[:0], values: l.values[:0], time: m.Time().UnixNano()}
	for _, t := range m.TagList() {
		l.setTag([]byte(t.Key), []byte(t.Value))
	}
	for _, f := range m.FieldList() {
		v, ok := f.Value.(int64)
		if !ok {
			return nil, fmt.Errorf("field %q is no integer", f.Key)
		}
		switch f.Key {
		case "epoch":
			l.epoch = v
			continue
		case "snapshot":
			l.snapshot = v
			continue
		}
		i, ok := p.ledger.fields.number([]byte(f.Key))
		if !ok || v < 0 {
			return nil, fmt.Errorf("field %q is none of Lustre's", f.Key)
		}
		l.fields, l.values = append(l.fields, i), append(l.values, v)
	}
	if !l.complete() {
		return nil, errors.New("it has no fs, no target, no kind, no job or no epoch")
	}
	return l, nil
}

// tell takes a row of slurm_job or slurm_finished.
func (p *LustreJobs) tell(m telegraf.Metric) {
	r := newRow()
	r.finished, r.at = m.Name() == "slurm_finished", m.Time().Unix()
	for _, t := range m.TagList() {
		r.setTag(t.Key, t.Value)
	}
	for _, f := range m.FieldList() {
		r.setField(f.Key, f.Value)
	}
	if r.id <= 0 || r.display == "" || p.Slurm != "stream" || p.Cluster != "" && r.cluster != p.Cluster {
		return
	}
	p.ledger.tell(&r, p.now().UnixNano())
}

func newRow() row {
	return row{ints: make(map[string]int64), floats: make(map[string]float64), texts: make(map[string]string)}
}

func (r *row) setTag(key, value string) {
	switch key {
	case "cluster":
		r.cluster = value
	case "user":
		r.user = value
	case "account":
		r.account = value
	case "partition":
		r.partition = value
	case "qos":
		r.qos = value
	case "state":
		r.state = value
	}
}

// setField keeps a field. Those that have no place of their own become fields of the job's report.
func (r *row) setField(key string, value any) {
	switch v := value.(type) {
	case int64:
		r.setInt(key, v)
	case float64:
		r.floats[key] = v
	case string:
		r.setText(key, v)
	}
}

func (r *row) setInt(key string, v int64) {
	switch key {
	case "job_id":
		r.id = v
	case "submit":
		r.submit = v
	case "start":
		r.start = v
	case "end":
		r.end = v
	default:
		r.ints[key] = v
	}
}

func (r *row) setText(key, v string) {
	switch key {
	case "job":
		r.display = v
	case "state":
		r.state = v
	case "reason": // why it waited
	default:
		r.texts[key] = v
	}
}
