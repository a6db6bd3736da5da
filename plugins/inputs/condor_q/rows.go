package condor_q

import (
	"strconv"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
)

// fieldList is the fields of a row, in their order.
type fieldList struct {
	names  []string
	values []any
}

func (f *fieldList) reset() { f.names, f.values = f.names[:0], f.values[:0] }

func (f *fieldList) add(name string, value any) {
	f.names = append(f.names, name)
	f.values = append(f.values, value)
}

// count adds a count unless it is unknown.
func (f *fieldList) count(name string, value int64) {
	if value != absent {
		f.add(name, value)
	}
}

// time adds seconds since 1970, or an id, unless there are none.
func (f *fieldList) time(name string, value int64) {
	if value > 0 {
		f.add(name, value)
	}
}

// text adds a text unless it is empty.
func (f *fieldList) text(name, value string) {
	if value != "" {
		f.add(name, value)
	}
}

func (f *fieldList) custom(attributes []customAttribute, values []any) {
	for i, value := range values {
		if value != nil {
			f.add(attributes[i].field, value)
		}
	}
}

// displayID writes a job's id as HTCondor does.
func (j *job) displayID() string {
	b := strconv.AppendInt(make([]byte, 0, 24), j.cluster, 10)
	return string(strconv.AppendInt(append(b, '.'), j.proc, 10))
}

// rows emits rows that are much alike, of which there may be very many. One metric is filled in again and again: to make
// each of them field by field costs several times as much.
type rows struct {
	acc     telegraf.Accumulator
	name    string
	tags    map[string]string
	through bool // acc keeps no metric that it was given
	fields  fieldList

	m telegraf.Metric // nil where none fits
}

// writesThrough is an accumulator that has written a metric when AddMetric returns, and keeps none.
type writesThrough interface{ WritesThrough() }

func newRows(acc telegraf.Accumulator, name string, tags map[string]string) *rows {
	_, through := acc.(writesThrough)
	return &rows{acc: acc, name: name, tags: tags, through: through}
}

// emit hands on a row with the fields that r.fields has.
func (r *rows) emit(at time.Time) {
	if !r.fill() {
		r.m = metric.New(r.name, r.tags, nil, at)
		for i, name := range r.fields.names {
			r.m.AddField(name, r.fields.values[i])
		}
	}
	m := r.m
	if !r.through {
		m = m.Copy()
	}
	m.SetTime(at)
	r.acc.AddMetric(m)
	if r.through && (m.Name() != r.name || len(m.TagList()) != len(r.tags)) {
		r.m = nil // The table's options changed it.
	}
}

// fill puts the values into the metric, and tells whether they fit.
func (r *rows) fill() bool {
	if r.m == nil || len(r.m.FieldList()) != len(r.fields.names) {
		return false
	}
	for i, f := range r.m.FieldList() {
		if f.Key != r.fields.names[i] {
			return false
		}
		f.Value = r.fields.values[i]
	}
	return true
}
