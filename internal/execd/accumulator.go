package execd

import (
	"sync/atomic"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
)

// accumulator is what a plugin hands its metrics to. There is no queue behind it: when AddMetric returns, the metric has
// been written into a buffer, or given to the next processor, and an input may use it again. The table's options have
// been applied to the metric itself then, by its own methods: its name, tags, fields and time may have changed.
type accumulator struct {
	log  telegraf.Logger
	make func(telegraf.Metric) telegraf.Metric // The table's name_override, tags and filters; nil drops the metric.
	next func(m telegraf.Metric, tracked bool)

	precision atomic.Int64 // Nanoseconds.
}

var _ telegraf.Accumulator = (*accumulator)(nil)

// WritesThrough tells plugins that AddMetric keeps no metric, so that they may fill in the same one again. The table's
// options (name_override, tags, filters) were then applied to it.
func (*accumulator) WritesThrough() {}

// newAccumulator rounds no timestamps until SetPrecision says so: some plugins tell events apart by their nanoseconds.
func newAccumulator(log telegraf.Logger, next func(m telegraf.Metric, tracked bool)) *accumulator {
	a := &accumulator{log: log, next: next}
	a.precision.Store(int64(time.Nanosecond))
	return a
}

func (a *accumulator) AddFields(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	a.addFields(name, fields, tags, telegraf.Untyped, t)
}

func (a *accumulator) AddGauge(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	a.addFields(name, fields, tags, telegraf.Gauge, t)
}

func (a *accumulator) AddCounter(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	a.addFields(name, fields, tags, telegraf.Counter, t)
}

func (a *accumulator) AddSummary(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	a.addFields(name, fields, tags, telegraf.Summary, t)
}

func (a *accumulator) AddHistogram(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	a.addFields(name, fields, tags, telegraf.Histogram, t)
}

func (a *accumulator) AddMetric(m telegraf.Metric) {
	a.add(m, false)
}

func (a *accumulator) AddError(err error) {
	if err != nil {
		a.log.Error(err.Error())
	}
}

func (a *accumulator) SetPrecision(precision time.Duration) {
	a.precision.Store(int64(precision))
}

func (a *accumulator) addFields(
	name string, fields map[string]any, tags map[string]string, kind telegraf.ValueType, times []time.Time,
) {
	var t time.Time
	if len(times) > 0 {
		t = times[0]
	} else {
		t = time.Now()
	}
	a.add(metric.New(name, tags, fields, t, kind), false)
}

func (a *accumulator) add(m telegraf.Metric, tracked bool) {
	if precision := time.Duration(a.precision.Load()); precision > time.Nanosecond {
		m.SetTime(m.Time().Round(precision))
	}
	if a.make != nil {
		if m = a.make(m); m == nil {
			return
		}
	}
	a.next(m, tracked)
}

// WithTracking tells the plugin when a metric's line has been written to the parent's pipe: the parent's outputs are
// out of sight.
func (a *accumulator) WithTracking(maxTracked int) telegraf.TrackingAccumulator {
	return &trackingAccumulator{accumulator: a, delivered: make(chan telegraf.DeliveryInfo, maxTracked)}
}

type trackingAccumulator struct {
	*accumulator
	delivered chan telegraf.DeliveryInfo
}

func (t *trackingAccumulator) AddTrackingMetric(m telegraf.Metric) telegraf.TrackingID {
	tracked, id := metric.WithTracking(m, t.onDelivery)
	t.add(tracked, true)
	return id
}

func (t *trackingAccumulator) AddTrackingMetricGroup(group []telegraf.Metric) telegraf.TrackingID {
	tracked, id := metric.WithGroupTracking(group, t.onDelivery)
	for _, m := range tracked {
		t.add(m, true)
	}
	return id
}

func (t *trackingAccumulator) Delivered() <-chan telegraf.DeliveryInfo {
	return t.delivered
}

func (t *trackingAccumulator) onDelivery(info telegraf.DeliveryInfo) {
	select {
	case t.delivered <- info:
	default:
		// As in Telegraf: the plugin has more metrics under way than it said it would.
		panic("more tracked metrics than WithTracking was told of")
	}
}
