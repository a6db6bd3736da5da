package slurm_load

import (
	"maps"
	"time"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
)

// waitKey is whose wait it is.
type waitKey struct{ Partition, Account, QOS string }

// histogram counts waits by their length.
type histogram struct {
	series.Histogram
	shown time.Time
}

// run is one run of a job: a requeued job starts again under its id.
type run struct{ ID, Start int64 }

// waits knows the waits of the jobs that started, and which of them are counted.
type waits struct {
	bounds  []int64
	started map[waitKey]*histogram // grows only
	// Jobs that started at since or later, by slurmctld's clock, and are counted: since is when the latest dump was asked
	// for, so that what is not among them and started then, started after that dump. It is 0 before the first.
	since   int64
	counted map[run]bool
	shown   time.Time // when the latest dump was shown

	shownPending series.Fading[waitKey]
}

func (w *waits) init(bounds []int64) {
	w.bounds = bounds
	w.started = make(map[waitKey]*histogram)
}

// waitTally is what one dump says of waits.
type waitTally struct {
	of      *waits
	now     int64
	since   int64                  // what waits.since will be; never less than it was, or what was counted would count again
	started map[waitKey]*histogram // since the dump before
	pending map[waitKey]*histogram
	counted map[run]bool
}

func newWaitTally(now int64, of *waits) waitTally {
	return waitTally{
		of: of, now: now, since: max(now, of.since), started: make(map[waitKey]*histogram), pending: make(map[waitKey]*histogram), counted: make(map[run]bool),
	}
}

func (t *waitTally) add(j *slurm.Job, class slurm.JobClass) {
	if j.Eligible <= 0 {
		return // It waits for something else than for its turn, or nobody knows for how long it did.
	}
	if class == slurm.JobPending {
		if j.Eligible <= t.now {
			t.observe(t.pending, j, t.now-j.Eligible)
		}
		return
	}
	if j.Start < t.of.since || j.Start <= 0 || j.NodeList == "" {
		return // Counted before, or it ended without having started.
	}
	r := run{j.ID, j.Start}
	if j.Start >= t.since {
		t.counted[r] = true
	}
	if t.of.since > 0 && !t.of.counted[r] {
		t.observe(t.started, j, max(j.Start-j.Eligible, 0))
	}
}

func (t *waitTally) observe(in map[waitKey]*histogram, j *slurm.Job, seconds int64) {
	key := waitKey{j.FirstPartition(), j.Account, j.QOS}
	h := in[key]
	if h == nil {
		h = new(histogram)
		in[key] = h
	}
	h.Observe(t.of.bounds, seconds, j.Tasks)
}

// commit makes the tally of a sound dump part of the totals, and tells which are new.
func (t *waitTally) commit() (created []waitKey) {
	for key, more := range t.started {
		h := t.of.started[key]
		if h == nil {
			h = new(histogram)
			t.of.started[key] = h
			created = append(created, key)
		}
		h.Merge(&more.Histogram)
		h.shown = time.Time{}
	}
	t.of.since, t.of.counted = t.since, t.counted
	return created
}

func (p *SlurmLoad) addWaits(o *out, t *tally) {
	w := &p.queue.waits
	before := w.shown
	for _, key := range t.waits.commit() {
		// A database that looks at growth misses what is there from the first point on.
		if !before.IsZero() && before.Before(o.now) {
			addHistogram(o, before, w.bounds, "started", key, &histogram{Histogram: series.NewHistogram(w.bounds)})
		}
	}
	w.shown = o.now
	for key, h := range w.started {
		if age := o.now.Sub(h.shown); age < 0 || age >= time.Duration(p.Refresh) {
			h.shown = o.now
			addHistogram(o, o.now, w.bounds, "started", key, h)
		}
	}
	pending := maps.Clone(t.waits.pending)
	for _, key := range series.Gone(&w.shownPending, t.now, pending) {
		pending[key] = &histogram{Histogram: series.NewHistogram(w.bounds)}
	}
	for key, h := range pending {
		addHistogram(o, o.now, w.bounds, "pending", key, h)
	}
}

func addHistogram(o *out, at time.Time, bounds []int64, state string, key waitKey, h *histogram) {
	h.Rows(bounds, func() map[string]string {
		return map[string]string{
			"state": state, "partition": series.Known(key.Partition), "account": series.Known(key.Account), "qos": series.Known(key.QOS),
		}
	}, func(tags map[string]string, fields map[string]any) { o.addAt(at, "slurm_wait", tags, fields) })
}
