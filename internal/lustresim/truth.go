package lustresim

import "slices"

// Count is what one counter has counted. Sum is in bytes or usecs, and 0 where
// the counter keeps none.
type Count struct {
	Samples, Sum uint64
}

// JobTruth is what a job did on a target.
type JobTruth struct {
	// Ops are the true sums over all lives of the job's entry, by operation.
	// Operations never done are absent.
	Ops map[string]Count
	// Unread is the part of Ops that ended lives had and that no reading ever
	// showed; nil if there is none. No agent can know it.
	Unread map[string]Count
	// Lives is how many entries the job had, and UnreadLives how many of them
	// ended with something unread.
	Lives, UnreadLives uint64
}

// EndedLife is an entry that has left the list.
type EndedLife struct {
	Life  uint64
	JobID string
	// Born, LastOp and Died are on the era's clock (ns).
	Born, LastOp, Died int64
	// Why is one of WhyExpired, WhyClear, WhyDrop, WhyRemount.
	Why string
	// Total is the entry's last state and Read what a reading last showed,
	// indexed as Era.Ops. They are valid during the call only.
	Total, Read []Count
}

// Reset is something other than idleness that ended lives, or may have.
type Reset struct {
	At   int64
	What string
}

// job is the truth about one id on a target.
type job struct {
	total              []Count
	unread             []Count // nil until something was
	lives, unreadLives uint64
}

func (t *Target) jobOf(id string) *job {
	j := t.jobs[id]
	if j == nil {
		j = &job{total: make([]Count, len(t.ops))}
		t.jobs[id] = j
	}
	return j
}

// end settles the truth of an entry that has left the list.
func (t *Target) end(e *entry) {
	unread := false
	for i := range e.counters {
		c, r := &e.counters[i], e.read[i]
		if c.count == r.Samples && c.sum == r.Sum {
			continue
		}
		if e.job.unread == nil {
			e.job.unread = make([]Count, len(t.ops))
		}
		e.job.unread[i].Samples += c.count - r.Samples
		e.job.unread[i].Sum += c.sum - r.Sum
		unread = true
	}
	if unread {
		e.job.unreadLives++
	}
	if t.OnEnd != nil {
		t.tellEnd(e)
	}
	// One in flight over a remount is still held, and is left to the collector.
	if e.refs == 0 {
		t.free = append(t.free, e)
	}
}

func (t *Target) tellEnd(e *entry) {
	for i, c := range e.counters {
		t.totals[i] = Count{Samples: c.count, Sum: c.sum}
	}
	t.OnEnd(EndedLife{
		Life: e.life, JobID: e.id, Born: e.born, LastOp: e.latest, Died: e.died, Why: e.why,
		Total: t.totals, Read: e.read,
	})
}

// markRead notes that a reading has shown the entry as it is.
func (e *entry) markRead() {
	for i := range e.counters {
		e.read[i] = Count{Samples: e.counters[i].count, Sum: e.counters[i].sum}
	}
}

// Truth returns what every job did on the target since NewTarget, over all
// lives, remounts and servers, by the id as the kernel holds it.
func (t *Target) Truth() map[string]JobTruth {
	all := make(map[string]JobTruth, len(t.jobs))
	for id, j := range t.jobs {
		all[id] = JobTruth{
			Ops: t.named(j.total), Unread: t.named(j.unread), Lives: j.lives, UnreadLives: j.unreadLives,
		}
	}
	return all
}

// named returns the counts that are not zero; nil for none at all.
func (t *Target) named(counts []Count) map[string]Count {
	var named map[string]Count
	for i, c := range counts {
		if c == (Count{}) {
			continue
		}
		if named == nil {
			named = map[string]Count{}
		}
		named[t.ops[i].Name] = c
	}
	return named
}

// Resets returns the clears, dropped ids, remounts and changes of the
// interval so far, in order.
func (t *Target) Resets() []Reset { return slices.Clone(t.resets) }
