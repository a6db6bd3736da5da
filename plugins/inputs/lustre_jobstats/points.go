package lustre_jobstats

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"

	"telegraf-hpc/internal/jobstats"
)

const (
	measurement      = "lustre_jobstats"
	measurementEpoch = "lustre_jobstats_epoch"
	measurementSelf  = "lustre_jobstats_self"
)

// points makes metrics of what a ledger emits.
type points struct {
	tags   map[string]string // of every point: fs, kind and target
	basic  bool
	shards uint32
	acc    telegraf.Accumulator

	through bool // acc keeps no metric that it was given

	names   []string
	values  []int64
	layouts [jobstats.Epoch + 1]layout
}

// layout is a metric that is filled in, and then copied where the accumulator keeps it. To make each of them field by
// field costs several times as much, and a server may have 100,000 of them every 30 seconds.
type layout struct {
	m      telegraf.Metric
	name   string
	names  []string
	labels []string
	tags   int
}

// writesThrough is an accumulator that has written a metric when AddMetric returns, and keeps none.
type writesThrough interface{ WritesThrough() }

func newPoints(acc telegraf.Accumulator, tags map[string]string, basic bool, shards int) *points {
	_, through := acc.(writesThrough)
	return &points{tags: tags, basic: basic, shards: uint32(shards), acc: acc, through: through}
}

// emit hands on a point; now is when it was gathered.
func (p *points) emit(now time.Time, pt *jobstats.Point) {
	p.collect(pt)
	l := p.filled(pt)
	m := l.m
	if !p.through {
		m = m.Copy()
	}
	m.SetTime(now)
	if pt.Time != 0 {
		m.SetTime(time.Unix(0, pt.Time))
	}
	p.acc.AddMetric(m)
	if p.through && (m.Name() != l.name || len(m.FieldList()) != len(l.names) || len(m.TagList()) != l.tags) {
		// The table's filters or name_override changed it: it is no layout any more.
		l.m = nil
	}
}

func (p *points) field(name string, value int64) {
	p.names = append(p.names, name)
	p.values = append(p.values, value)
}

// collect lists the fields of a point.
func (p *points) collect(pt *jobstats.Point) {
	p.names, p.values = p.names[:0], p.values[:0]
	for _, f := range pt.Fields {
		if !p.basic || strings.HasSuffix(f.Name, "_bytes") {
			p.field(f.Name, f.Value)
		}
	}
	if pt.What != jobstats.Epoch || p.basic {
		p.field("ops", pt.Ops)
		if pt.Timed {
			p.field("busy_usecs", pt.BusyUsecs)
		}
	}
	switch {
	case pt.What == jobstats.Epoch:
		p.field("epoch", pt.Epoch)
	case p.basic:
		return
	default:
		p.field("epochs", pt.Epochs)
	}
	if pt.Snapshot != 0 {
		p.field("snapshot", pt.Snapshot)
	}
}

// filled returns the layout of a point with the point's values, valid until the next one.
func (p *points) filled(pt *jobstats.Point) *layout {
	l := &p.layouts[pt.What]
	tags := p.tagValues(pt.Labels)
	if l.m == nil || !slices.Equal(l.names, p.names) || !slices.EqualFunc(tags, l.labels, func(t tag, key string) bool { return t.key == key }) {
		*l = p.newLayout(pt.What, tags)
	}
	for _, t := range tags {
		l.m.AddTag(t.key, t.value)
	}
	for i, f := range l.m.FieldList() {
		f.Value = p.values[i]
	}
	return l
}

func (p *points) newLayout(what jobstats.What, tags []tag) layout {
	name := measurement
	if what == jobstats.Epoch {
		name = measurementEpoch
	}
	l := layout{name: name, names: slices.Clone(p.names), tags: len(p.tags) + len(tags), m: metric.New(name, p.tags, nil, time.Time{}, telegraf.Counter)}
	for _, field := range l.names {
		l.m.AddField(field, int64(0))
	}
	for _, t := range tags {
		l.labels = append(l.labels, t.key)
	}
	return l
}

type tag struct{ key, value string }

// tagValues lists the tags that the labels have.
func (p *points) tagValues(l jobstats.Labels) []tag {
	tags := make([]tag, 0, 6)
	for _, t := range [...]tag{{"job", l.Job}, {"uid", l.UID}, {"gid", l.GID}, {"exe", l.Exe}, {"client", l.Client}} {
		if t.value != "" {
			tags = append(tags, t)
		}
	}
	if p.shards > 1 {
		// Of the job, so that all of a job's epochs, whatever the target, come together.
		h := fnv.New32a()
		_, _ = h.Write([]byte(l.Key()))
		tags = append(tags, tag{"shard", strconv.FormatUint(uint64(h.Sum32()%p.shards), 10)})
	}
	return tags
}
