package jobstats

// What a Point tells.
type What uint8

// The kinds of points.
const (
	// Zeros precede the first total of a series, so that a database sees all of its increase.
	Zeros What = iota
	// Total is the true total of a series over all its epochs.
	Total
	// Epoch is one epoch of an entry as Lustre counts it.
	Epoch
)

// Field is one value of a point.
type Field struct {
	Name  string
	Value int64
}

// SeriesID names a series of a ledger: the job id as Lustre holds it, or the key of a sum. The same series has the same
// one in the ledgers of other targets.
type SeriesID struct {
	Key    string
	Summed bool
}

// Point is what a series shows now, or showed at Time. It is valid during the call it is passed to.
type Point struct {
	What   What
	Time   int64 // nanoseconds; 0 is now
	Labels Labels
	// ID names the series in its ledger; see Ledger.Total.
	ID SeriesID
	// Epoch is the epoch's identity; Epochs is how many there were so far.
	Epoch, Epochs int64
	// Snapshot is when the series counted last, on the server's clock, in nanoseconds.
	Snapshot int64
	// Fields are the operations' counts and sums, those at zero included where Lustre lists them.
	Fields []Field
	// Ops is all requests, none counted twice. BusyUsecs is their service time; it is known if Timed.
	Ops, BusyUsecs int64
	Timed          bool
}

// Emit visits what is to be emitted after a Gather that had no *StateError, or after Away: what changed since it was emitted last, and what
// is to be said again.
func (l *Ledger) Emit(visit func(p *Point)) {
	em := newEmitter(l, visit)
	for _, s := range l.order {
		em.entry(s.e, true)
	}
	if l.opts.RepeatFor > 0 {
		for _, e := range l.absent {
			em.entry(e, false)
		}
	}
	for _, s := range l.sums {
		em.sum(s)
	}
}

// Total visits the total of a series, whether its entry is in the file, was, or is on disk only. It tells whether there
// is one.
func (l *Ledger) Total(id SeriesID, visit func(p *Point)) bool {
	em := newEmitter(l, visit)
	em.point.ID, em.point.What = id, Total
	if id.Summed {
		s := l.sums[id.Key]
		if s == nil || s.changed == 0 {
			return false
		}
		em.point.Labels, em.point.Epochs, em.point.Snapshot = s.labels, s.lives, s.snapshot
		em.fill(s.shape, s.total, nil)
		visit(&em.point)
		return true
	}
	e := l.entries[id.Key]
	if e == nil {
		e, _ = l.fetch(id.Key)
	}
	if e == nil || e.sum != nil || e.epoch == 0 {
		return false
	}
	em.labelled(e)
	em.point.Epochs, em.point.Snapshot = e.lives(), e.values.Snapshot
	em.fill(e.values.Shape, e.values.Counters, e.closed())
	visit(&em.point)
	return true
}

type emitter struct {
	*Ledger
	visit   func(p *Point)
	values  []int64
	present []bool
	point   Point
}

func newEmitter(l *Ledger, visit func(p *Point)) *emitter {
	return &emitter{Ledger: l, visit: visit, values: make([]int64, len(l.ops.fields)), present: make([]bool, len(l.ops.fields))}
}

func (em *emitter) entry(e *entry, shown bool) {
	refresh, repeatFor := int64(em.opts.Refresh), int64(em.opts.RepeatFor)
	if em.opts.Totals && shown && e.sum == nil && e.sent.due(em.at, e.changed, em.gap, refresh) {
		em.labelled(e)
		em.total(e.values.Shape, e.values.Counters, e.closed(), e.zero, e.created, &e.sent, e.changed, e.lives(), e.values.Snapshot)
	}
	if em.opts.RepeatFor == 0 || e.sum != nil {
		return
	}
	if e.epoSt.repeatDue(em.at, e.changed, refresh, repeatFor) {
		em.labelled(e)
		em.epoch(&e.values, e.epoch, e.lives())
		e.epoSt.mark(em.at, e.changed)
	}
	if e.past == nil {
		return
	}
	for _, o := range e.past.old {
		if o.sent.repeatDue(em.at, o.changed, refresh, repeatFor) {
			em.labelled(e)
			em.epoch(&o.values, o.epoch, e.lives())
			o.sent.mark(em.at, o.changed)
		}
	}
}

func (em *emitter) sum(s *sum) {
	refresh := int64(em.opts.Refresh)
	em.point.Labels, em.point.ID = s.labels, SeriesID{Key: s.key, Summed: true}
	if em.opts.Totals && s.refs > 0 && s.sent.due(em.at, s.changed, em.gap, refresh) {
		em.total(s.shape, s.total, nil, s.zero, s.created, &s.sent, s.changed, s.lives, s.snapshot)
	}
	if em.opts.RepeatFor > 0 && s.epoSt.repeatDue(em.at, s.changed, refresh, int64(em.opts.RepeatFor)) {
		em.epoch(&Values{Counters: s.total, Shape: s.shape, Snapshot: s.snapshot}, s.epoch, s.lives)
		s.epoSt.mark(em.at, s.changed)
	}
}

func (em *emitter) labelled(e *entry) {
	em.point.ID = SeriesID{Key: e.id}
	if e.labels != nil {
		em.point.Labels = *e.labels
		return
	}
	em.point.Labels = Labels{Job: e.id}
}

func (em *emitter) total(shape *Shape, open, closed []Counter, zero, created int64, sent *sending, changed, lives, snapshot int64) {
	p := &em.point
	p.Epoch, p.Epochs = 0, lives
	if zero != 0 && sent.at == 0 && created >= em.loaded {
		em.fill(shape, nil, nil)
		p.What, p.Time, p.Snapshot, p.Epochs = Zeros, zero, 0, 0
		em.visit(p)
		p.Epochs = lives
	}
	em.fill(shape, open, closed)
	p.What, p.Time, p.Snapshot = Total, 0, snapshot
	em.visit(p)
	sent.mark(em.at, changed)
}

func (em *emitter) epoch(v *Values, epoch, lives int64) {
	em.fill(v.Shape, v.Counters, nil)
	em.point.What, em.point.Time, em.point.Snapshot = Epoch, 0, v.Snapshot
	em.point.Epoch, em.point.Epochs = epoch, lives
	em.visit(&em.point)
}

// fill lays out the fields: those of the shape, and what was counted under another one.
func (em *emitter) fill(shape *Shape, open, closed []Counter) {
	clear(em.values)
	clear(em.present)
	if shape != nil {
		for _, op := range shape.Ops {
			em.show(op, 0, 0)
		}
	}
	for _, counters := range [2][]Counter{open, closed} {
		for i := range counters {
			em.show(counters[i].Op, counters[i].Samples, counters[i].Sum)
		}
	}
	p := &em.point
	p.Fields = p.Fields[:0]
	p.Ops, p.BusyUsecs, p.Timed = 0, 0, false
	for i := range em.ops.fields {
		if !em.present[i] {
			continue
		}
		f := &em.ops.fields[i]
		p.Fields = append(p.Fields, Field{Name: f.name, Value: em.values[i]})
		switch {
		case f.requests && (f.twin < 0 || !em.present[f.twin]):
			p.Ops += em.values[i]
		case f.busy:
			p.BusyUsecs += em.values[i]
			p.Timed = true
		}
	}
}

func (em *emitter) show(op uint16, samples, sum int64) {
	i := em.ops.count[op]
	em.present[i] = true
	em.values[i] += samples
	if i = em.ops.sum[op]; i >= 0 {
		em.present[i] = true
		em.values[i] += sum
	}
}
