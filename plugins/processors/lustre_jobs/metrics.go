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
	r := row{
		finished: m.Name() == "slurm_finished", ints: make(map[string]int64), floats: make(map[string]float64),
		texts: make(map[string]string),
	}
	for _, t := range m.TagList() {
		switch t.Key {
		case "cluster":
			r.cluster = t.Value
		case "user":
			r.user = t.Value
		case "account":
			r.account = t.Value
		case "partition":
			r.partition = t.Value
		case "qos":
			r.qos = t.Value
		case "state":
			r.state = t.Value
		}
	}
	for _, f := range m.FieldList() {
		switch v := f.Value.(type) {
		case int64:
			r.setInt(f.Key, v)
		case float64:
			r.floats[f.Key] = v
		case string:
			r.setText(f.Key, v)
		}
	}
	if r.id <= 0 || r.display == "" || p.Slurm != "stream" || p.Cluster != "" && r.cluster != p.Cluster {
		return
	}
	p.ledger.tell(&r, p.now().UnixNano())
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
