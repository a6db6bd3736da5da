package testplugin

import (
	"slices"
	"time"

	"github.com/influxdata/telegraf"
)

// Metric is a metric of the plugin's own type, as a plugin with very many of them may have: it has what
// name_override, tags, filters and a line need. Its other methods panic.
type Metric struct {
	telegraf.Metric

	name   string
	time   time.Time
	tags   []*telegraf.Tag
	fields []*telegraf.Field
}

// NewMetric keeps tags and fields.
func NewMetric(name string, tags []*telegraf.Tag, fields []*telegraf.Field, t time.Time) *Metric {
	return &Metric{name: name, tags: tags, fields: fields, time: t}
}

// Name is a telegraf.Metric's.
func (m *Metric) Name() string { return m.name }

// TagList is a telegraf.Metric's.
func (m *Metric) TagList() []*telegraf.Tag { return m.tags }

// FieldList is a telegraf.Metric's.
func (m *Metric) FieldList() []*telegraf.Field { return m.fields }

// Time is a telegraf.Metric's.
func (m *Metric) Time() time.Time { return m.time }

// SetName is a telegraf.Metric's.
func (m *Metric) SetName(name string) { m.name = name }

// AddPrefix is a telegraf.Metric's.
func (m *Metric) AddPrefix(prefix string) { m.name = prefix + m.name }

// AddSuffix is a telegraf.Metric's.
func (m *Metric) AddSuffix(suffix string) { m.name += suffix }

// SetTime is a telegraf.Metric's.
func (m *Metric) SetTime(t time.Time) { m.time = t }

// GetTag is a telegraf.Metric's.
func (m *Metric) GetTag(key string) (string, bool) {
	for _, tag := range m.tags {
		if tag.Key == key {
			return tag.Value, true
		}
	}
	return "", false
}

// AddTag is a telegraf.Metric's, for a key that is not there yet.
func (m *Metric) AddTag(key, value string) {
	m.tags = append(m.tags, &telegraf.Tag{Key: key, Value: value})
}

// RemoveTag is a telegraf.Metric's.
func (m *Metric) RemoveTag(key string) {
	m.tags = slices.DeleteFunc(m.tags, func(t *telegraf.Tag) bool { return t.Key == key })
}

// RemoveField is a telegraf.Metric's.
func (m *Metric) RemoveField(key string) {
	m.fields = slices.DeleteFunc(m.fields, func(f *telegraf.Field) bool { return f.Key == key })
}

// Accept is a telegraf.Metric's.
func (*Metric) Accept() {}

// Reject is a telegraf.Metric's.
func (*Metric) Reject() {}

// Drop is a telegraf.Metric's.
func (*Metric) Drop() {}
