package slurm_load

import (
	"maps"
	"slices"
	"time"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
)

const (
	// finishedMargin is how long after its end, in seconds, slurmdbd may learn of a job while nothing waits to be sent to it.
	finishedMargin = 600
	// finishedWindow is the longest time that is asked for at once, in seconds: after an outage slurmdbd is not to answer for
	// days at a time.
	finishedWindow = 6 * 3600
	// settleMargin is how long after its end, in seconds, a run is left alone: what slurmctld tells of it comes in pieces.
	settleMargin = 5
	// usageMargin is how long after its end, in seconds, a job's steps may tell what they used: until KillWait is over, and
	// the epilog has ended.
	usageMargin = 120
)

// endKey is a series of slurm_finished_total.
type endKey struct{ State, Partition, Account string }

// endSum adds up runs that ended.
type endSum struct {
	Runs    int64 `json:"runs"`
	Wait    int64 `json:"wait"`    // seconds
	Elapsed int64 `json:"elapsed"` // seconds
	CPU     int64 `json:"cpu"`     // seconds of CPUs that the runs had
	GPU     int64 `json:"gpu"`     // seconds of GPUs that the runs had
	shown   time.Time
}

// ended is one run of a job that ended. These two are what slurmdbd tells its records by (the unique
// index of its table of jobs); all else may still change: the start of a run that was requeued at once is told later than
// its end.
type ended struct{ ID, Submit int64 }

// ends knows which runs are counted.
type ends struct {
	// All runs that ended before the cursor are counted; of those after it, these are. The value tells whether the run's
	// row is known to have been emitted.
	Cursor  int64
	Counted map[ended]seen
	Totals  map[endKey]*endSum
	shown   time.Time // when the totals were looked at last
	leaving []ended   // those whose rows were emitted in the latest gather
}

type seen struct {
	End     int64
	Emitted bool
}

// confirm notes that the rows of the gather before have left.
func (e *ends) confirm() {
	for _, id := range e.leaving {
		e.Counted[id] = seen{e.Counted[id].End, true}
	}
	e.leaving = nil
}

// gatherFinished asks slurmdbd for what ended.
func (p *SlurmLoad) gatherFinished(o *out, diag slurm.Diag) {
	if !p.collects("finished", "finished_total") || !p.due("finished", time.Duration(p.FinishedInterval), o.now) {
		return
	}
	if !p.site.AccountingStorage {
		if p.said.First("accounting", "none") {
			p.Log.Info("This Slurm has no slurmdbd: nothing is told of finished jobs")
		}
		return
	}
	e := &p.state.ends
	e.confirm()
	p.startEnds(diag.Time)
	until := min(diag.Time-settleMargin, e.Cursor+finishedWindow)
	if until <= e.Cursor {
		e.shown = o.now
		return // It is the first time, or slurmctld's clock went back.
	}
	runs, err := p.client.Finished(p.ctx, e.Cursor, until, p.collects("finished"))
	p.fail(o.acc, "finished", err)
	if err != nil {
		return
	}
	created := e.count(runs, !p.collects("finished"))
	if p.collects("finished") {
		p.addFinished(o, runs)
	}
	if p.collects("finished_total") {
		p.addEnds(o, created)
	}
	e.advance(until, diag)
	e.shown = o.now
}

// startEnds sets the cursor the first time, and after an outage that was too long.
func (p *SlurmLoad) startEnds(now int64) {
	e := &p.state.ends
	oldest := now - int64(time.Duration(p.FinishedLookback)/time.Second)
	switch {
	case e.Cursor == 0:
		e.Cursor = now // What ended before is not ours.
	case e.Cursor < oldest:
		p.Log.Warnf("Jobs that ended between %s and %s are not counted: that is longer ago than finished_lookback",
			time.Unix(e.Cursor, 0).UTC().Format(time.RFC3339), time.Unix(oldest, 0).UTC().Format(time.RFC3339))
		e.Cursor = oldest
	}
}

// count counts the runs that are not counted, and tells which series are new. Where no rows are asked for, they count as
// emitted.
func (e *ends) count(runs []slurm.Finished, emitted bool) (created []endKey) {
	for i := range runs {
		r := &runs[i]
		id := ended{r.ID, r.Submit}
		if _, ok := e.Counted[id]; ok || r.End < e.Cursor {
			continue
		}
		e.Counted[id] = seen{r.End, emitted}
		key := endKey{r.State, r.Partition, r.Account}
		sum := e.Totals[key]
		if sum == nil {
			sum = new(endSum)
			e.Totals[key] = sum
			created = append(created, key)
		}
		sum.add(r)
	}
	return created
}

func (s *endSum) add(r *slurm.Finished) {
	s.Runs += r.Tasks
	s.Elapsed += r.Elapsed
	s.CPU += r.Elapsed * r.CPUs
	s.GPU += r.Elapsed * countGPUs(r.GPUs)
	s.Wait += r.Wait()
	s.shown = time.Time{}
}

// advance moves the cursor to where all that ended is certain to be known, and forgets what is counted before it. While
// slurmctld could not hand all to slurmdbd, what is missing may be of any time. A run whose row may have been lost is
// asked for again.
func (e *ends) advance(until int64, diag slurm.Diag) {
	if diag.Values["dbd_agent_queue_size"] > 0 {
		return
	}
	cursor := until - finishedMargin
	for _, s := range e.Counted {
		if !s.Emitted {
			cursor = min(cursor, s.End)
		}
	}
	e.Cursor = max(e.Cursor, cursor)
	for id, s := range e.Counted {
		if s.End < e.Cursor {
			delete(e.Counted, id)
		}
	}
}

func (p *SlurmLoad) addEnds(o *out, created []endKey) {
	e := &p.state.ends
	for _, key := range created {
		// A database that looks at growth misses what is there from the first point on.
		if !e.shown.IsZero() && e.shown.Before(o.now) {
			addEnd(o, e.shown, key, new(endSum))
		}
	}
	for key, sum := range e.Totals {
		if age := o.now.Sub(sum.shown); age < 0 || age >= time.Duration(p.Refresh) {
			sum.shown = o.now
			addEnd(o, o.now, key, sum)
		}
	}
}

func addEnd(o *out, at time.Time, key endKey, s *endSum) {
	o.addAt(at, "slurm_finished_total",
		map[string]string{"state": series.Known(key.State), "partition": series.Known(key.Partition), "account": series.Known(key.Account)},
		map[string]any{
			"runs": s.Runs, "wait_seconds": s.Wait, "elapsed_seconds": s.Elapsed, "cpu_seconds": s.CPU, "gpu_seconds": s.GPU,
		})
}

// addFinished emits a row for each run whose row is not known to have been emitted. Whether it was is known when the next
// gather begins: a row that is emitted twice is the same point. A run whose steps have not told what they used waits for
// that a while.
func (p *SlurmLoad) addFinished(o *out, runs []slurm.Finished) {
	e := &p.state.ends
	for i := range runs {
		r := &runs[i]
		id := ended{r.ID, r.Submit}
		if s, ok := e.Counted[id]; !ok || s.Emitted {
			continue
		}
		if p.site.JobAcctGather && r.StepsUntold && o.server-r.End < usageMargin {
			continue
		}
		p.addRun(o, r)
		e.leaving = append(e.leaving, id)
	}
}

func (p *SlurmLoad) addRun(o *out, r *slurm.Finished) {
	tags := map[string]string{
		"account": series.Known(r.Account), "partition": series.Known(r.Partition), "qos": series.Known(r.QOS), "state": series.Known(r.State),
	}
	if name, shown := p.users.Name(r.User); shown {
		tags["user"] = name
	}
	row := finishedRow{at: momentOf(r.End, r.ID), tags: tags, fields: r.Fields(), first: o.now, gap: time.Duration(p.Refresh)}
	row.add(o)
	if p.RepeatFor > 0 {
		p.repeats = append(p.repeats, row)
	}
}

// finishedRow is a row that is emitted again, for any one line may be lost on its way.
type finishedRow struct {
	at     time.Time
	tags   map[string]string
	fields map[string]any
	first  time.Time
	gap    time.Duration // from the first time on to the next
}

func (r *finishedRow) add(o *out) { o.addAt(r.at, "slurm_finished", maps.Clone(r.tags), r.fields) }

// repeatFinished emits rows again after refresh, 2 refresh, 4 refresh ... until repeat_for is over.
func (p *SlurmLoad) repeatFinished(o *out) {
	p.repeats = slices.DeleteFunc(p.repeats, func(r finishedRow) bool {
		return r.gap > time.Duration(p.RepeatFor) || o.now.Before(r.first)
	})
	for i := range p.repeats {
		r := &p.repeats[i]
		if o.now.Sub(r.first) < r.gap {
			continue
		}
		r.add(o)
		for r.gap <= o.now.Sub(r.first) {
			r.gap *= 2
		}
	}
}
