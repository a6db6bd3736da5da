package lustre_jobs

import (
	"math/bits"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
)

// points makes metrics of totals and rates.
type points struct {
	acc     telegraf.Accumulator
	through bool // acc keeps no metric that it was given
	fields  *fieldTable
	basic   bool
	layouts map[layoutName]*layout
}

// writesThrough is an accumulator that has written a metric when AddMetric returns, and keeps none.
type writesThrough interface{ WritesThrough() }

func newPoints(acc telegraf.Accumulator, fields *fieldTable, basic bool) *points {
	_, through := acc.(writesThrough)
	return &points{acc: acc, through: through, fields: fields, basic: basic, layouts: make(map[layoutName]*layout)}
}

// tag is a tag of a point; one that is empty is left out.
type tag struct{ key, value string }

// point is what is to be emitted.
type point struct {
	name   string
	tags   []tag
	listed *fieldSet
	total  []int64   // nil: none are emitted
	rates  []float64 // per second; nil: none are emitted
	whole  []float64 // the rates that the shares are of; nil: none are emitted
	state  string
	at     int64 // nanoseconds
}

// maxLayouts bounds the layouts that are kept. There are a few for each kind of target, but lines may name any fields.
const maxLayouts = 1000

// layoutName tells which points have the same tags and fields.
type layoutName struct {
	name   string
	listed fieldSet
	tags   uint16
	has    uint8
}

// layout is a metric that is filled in, and then copied where the accumulator keeps it.
type layout struct {
	m      telegraf.Metric
	tags   []*telegraf.Tag
	fields []*telegraf.Field
}

const (
	hasTotal = 1 << iota
	hasRates
	hasState
	firstShare // and the next ones
)

// shareFields are the fields that there are shares of.
type shareField struct {
	name   string
	fields []uint16
}

func shareFields() [3]shareField {
	return [3]shareField{
		{"bytes_share", []uint16{fieldReadBytes, fieldWriteBytes}}, {"ops_share", []uint16{fieldOps}},
		{"busy_share", []uint16{fieldBusy}},
	}
}

// emit hands on a point.
func (p *points) emit(pt *point) {
	name := layoutName{name: pt.name, listed: p.shownOf(pt.listed)}
	var shares [3]float64
	if pt.whole != nil {
		var known [3]bool
		shares, known = sharesOf(pt.rates, pt.whole)
		for i, ok := range known {
			if ok {
				name.has |= firstShare << i
			}
		}
	}
	for i, t := range pt.tags {
		if t.value != "" {
			name.tags |= 1 << i
		}
	}
	for _, has := range [...]struct {
		is  bool
		bit uint8
	}{{pt.total != nil, hasTotal}, {pt.rates != nil, hasRates}, {pt.state != "", hasState}} {
		if has.is {
			name.has |= has.bit
		}
	}
	l := p.layouts[name]
	if l == nil {
		if len(p.layouts) >= maxLayouts {
			clear(p.layouts)
		}
		l = p.layout(&name, pt)
		p.layouts[name] = l
	}
	p.fill(l, &name, pt, shares)
	m := l.m
	if !p.through {
		m = m.Copy()
	}
	p.acc.AddMetric(m)
	if p.through && (m.Name() != pt.name || len(m.FieldList()) != len(l.fields) || len(m.TagList()) != len(l.tags)) {
		// Something behind it changed it: it is no layout any more.
		delete(p.layouts, name)
	}
}

// shownOf gives the fields that are emitted.
func (p *points) shownOf(listed *fieldSet) fieldSet {
	set := *listed
	if p.basic {
		var basic fieldSet
		for _, f := range [...]uint16{fieldOps, fieldBusy, fieldReadBytes, fieldWriteBytes} {
			basic.put(f)
		}
		for i := range set {
			set[i] &= basic[i]
		}
	}
	return set
}

// sharesOf gives the shares that rates have of the whole's, in the order of shareFields, and which are known: where nobody
// does any there are none.
func sharesOf(rates, whole []float64) (shares [3]float64, known [3]bool) {
	for i, f := range shareFields() {
		mine, all := 0.0, 0.0
		for _, field := range f.fields {
			mine += at(rates, field)
			all += at(whole, field)
		}
		if known[i] = all > 0; known[i] {
			shares[i] = min(mine/all, 1)
		}
	}
	return shares, known
}

func at[T int64 | float64](list []T, i uint16) T {
	if int(i) < len(list) {
		return list[i]
	}
	return 0
}

func (p *points) layout(name *layoutName, pt *point) *layout {
	l := &layout{m: metric.New(pt.name, nil, nil, time.Time{})}
	for i, t := range pt.tags {
		if name.tags&(1<<i) != 0 {
			l.m.AddTag(t.key, t.value)
		}
	}
	for i, t := range pt.tags {
		if name.tags&(1<<i) == 0 {
			continue
		}
		for _, have := range l.m.TagList() {
			if have.Key == t.key {
				l.tags = append(l.tags, have)
			}
		}
	}
	for w, word := range name.listed {
		for ; word != 0; word &= word - 1 {
			f := &p.fields.fields[w*64+bits.TrailingZeros64(word)]
			if name.has&hasTotal != 0 {
				l.m.AddField(f.name, int64(0))
			}
			if name.has&hasRates != 0 {
				l.m.AddField(f.rate, 0.0)
			}
		}
	}
	for i, f := range shareFields() {
		if name.has&(firstShare<<i) != 0 {
			l.m.AddField(f.name, 0.0)
		}
	}
	if name.has&hasState != 0 {
		l.m.AddField("state", pt.state)
	}
	l.fields = l.m.FieldList()
	return l
}

// fill writes the point's values into a layout, in the order in which it was made.
func (p *points) fill(l *layout, name *layoutName, pt *point, shares [3]float64) {
	n := 0
	for i, t := range pt.tags {
		if name.tags&(1<<i) != 0 {
			l.tags[n].Value = t.value
			n++
		}
	}
	n = 0
	put := func(v any) {
		l.fields[n].Value = v
		n++
	}
	for w, word := range name.listed {
		for ; word != 0; word &= word - 1 {
			i := uint16(w*64 + bits.TrailingZeros64(word))
			if name.has&hasTotal != 0 {
				put(at(pt.total, i))
			}
			if name.has&hasRates != 0 {
				put(at(pt.rates, i))
			}
		}
	}
	for i := range shares {
		if name.has&(firstShare<<i) != 0 {
			put(shares[i])
		}
	}
	if name.has&hasState != 0 {
		put(pt.state)
	}
	l.m.SetTime(time.Unix(0, pt.at))
}
