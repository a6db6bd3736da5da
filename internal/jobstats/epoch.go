package jobstats

import (
	"slices"
)

// Rule tells what decided whether an entry was started again. The numbers are those of the rules for Lustre before
// 2.15, which shows no start_time.
type Rule uint8

// The rules, in the order in which they are asked.
const (
	// RuleFirst: the entry was never seen before.
	RuleFirst Rule = 0
	// RuleUnchanged: the same snapshot_time and the same counters are the same entry.
	RuleUnchanged Rule = 1
	// RuleFell: a counter that fell (or a min that rose) was started again.
	RuleFell Rule = 2
	// RuleInterval: an entry that counted again within the clean-up interval was not dropped in between.
	RuleInterval Rule = 3
	// RuleOrder: entries stand in the order of their creation.
	RuleOrder Rule = 4
	// RuleIdentical: it counted (snapshot_time advanced) and yet shows the same counters: it made the same requests again.
	RuleIdentical Rule = 5
	// RuleBounds: the difference of sums can't be made of so many requests of such sizes.
	RuleBounds Rule = 6
	// RuleGap: nothing decides; the gap says what is likelier.
	RuleGap Rule = 7
	// RuleStart: start_time tells. Exact.
	RuleStart Rule = 8
	// RuleAbsent: a reading that is known to have shown every entry did not show this one. Exact, and asked before the
	// rules 1 to 7. One absence from any other reading proves nothing: up to 2.15 removing an entry makes a reader skip
	// another.
	RuleAbsent Rule = 9
)

// Values are what one reading showed of an entry.
type Values struct {
	Snapshot int64
	Start    int64
	// Counters are the operations that have counted, ascending by Op.
	Counters []Counter
	// Shape is what the text listed. It is nil for values read back from disk.
	Shape *Shape
}

// sighting is one entry in one reading of a whole file, and, when known is true, what is remembered of it.
type sighting struct {
	known bool
	prev  Values
	first int64 // the reading that showed the remembered epoch first
	last  int64 // the reading that showed it last
	pos   int   // its place in the file then; -1 is not known
	now   Values

	restarted bool
	rule      Rule
	decided   bool
}

// reading is what the rules need to know beside the sightings.
type reading struct {
	// previous is the reading before this one, and skipFree the latest one known to have shown every entry there was.
	previous, skipFree int64
	// interval is job_cleanup_interval in nanoseconds, the shorter one if it was changed since; 0 is never.
	interval int64
	// remounted is the latest reading before which all counters were lost, and cleared the latest one that showed a sign
	// that some were; 0 is none.
	remounted, cleared int64
}

// decide sets restarted and rule of each sighting. They are all of one reading, in the order of the file. It tells whether
// there is a sign that counters were cleared since the reading before.
func decide(ss []sighting, r reading) (cleared bool) {
	for i := range ss {
		ss[i].alone(r)
	}
	byInversion(ss, r)
	cleared = signOfClear(ss, r)
	for i := range ss {
		s := &ss[i]
		if !s.decided && !cleared && s.last >= r.cleared && r.within(s) {
			s.set(false, RuleInterval)
		}
	}
	byOrder(ss, r)
	untouched := slices.ContainsFunc(ss, func(s sighting) bool { return s.rule == RuleUnchanged })
	for i := range ss {
		s := &ss[i]
		switch {
		case s.decided:
		case equalCounters(s.prev.Counters, s.now.Counters):
			s.set(true, RuleIdentical)
		case outOfBounds(s.prev.Counters, s.now):
			s.set(true, RuleBounds)
		default:
			s.set(r.likely(s, cleared && !untouched || s.last < r.cleared), RuleGap)
		}
	}
	return cleared
}

func (s *sighting) set(restarted bool, rule Rule) {
	s.restarted, s.rule, s.decided = restarted, rule, true
}

// alone applies what needs no other entry.
func (s *sighting) alone(r reading) {
	switch {
	case !s.known:
		s.set(true, RuleFirst)
	case s.now.Start != 0 && s.prev.Start != 0:
		s.set(s.now.Start != s.prev.Start, RuleStart)
	case s.now.Start != 0:
		// The header was off before: what started after the last request that was seen is another entry.
		s.set(s.now.Start > s.prev.Snapshot, RuleStart)
	case s.last < r.remounted:
		s.set(true, RuleFell)
	case s.last < r.skipFree:
		s.set(true, RuleAbsent)
	case s.now.Snapshot == s.prev.Snapshot && equalCounters(s.prev.Counters, s.now.Counters):
		s.set(false, RuleUnchanged)
	case fell(s.prev.Counters, s.now):
		s.set(true, RuleFell)
	}
}

// within tells whether the entry counted again before it could be dropped.
func (r reading) within(s *sighting) bool {
	return r.interval == 0 || s.now.Snapshot-s.prev.Snapshot <= r.interval
}

// likely guesses for what no rule decides: entries live up to about 1.25 intervals. In a file that was cleared nothing
// is known to be older than that.
func (r reading) likely(s *sighting, cleared bool) bool {
	return cleared || r.interval != 0 && s.now.Snapshot-s.prev.Snapshot > r.interval/4*5
}

// byInversion finds entries that stood before another one in the previous reading and stand behind it now: they were
// created after it, so they are not the ones of before. It is the rule of order, and asked early since the only
// things that RuleInterval misses, a clear and a remount, show this way.
func byInversion(ss []sighting, r reading) {
	behind := -1
	for i := range ss {
		s := &ss[i]
		if !s.known || s.pos < 0 || s.last != r.previous {
			continue
		}
		if s.pos < behind && (!s.decided || s.rule == RuleFell) {
			s.set(true, RuleOrder)
		}
		behind = max(behind, s.pos)
	}
}

// signOfClear tells whether an entry was dropped that can't have expired.
func signOfClear(ss []sighting, r reading) bool {
	return slices.ContainsFunc(ss, func(s sighting) bool {
		return s.decided && s.known && s.restarted && s.rule != RuleStart && r.within(&s)
	})
}

// byOrder applies the order of creation: what stands before an entry that existed when this one was last read is not
// younger than that reading, and what stands behind an entry created since this one's epoch was first seen is another.
func byOrder(ss []sighting, r reading) {
	const never = int64(-1)
	oldest := int64(1<<63 - 1) // the earliest reading known to have seen an entry that stands behind
	for i := len(ss) - 1; i >= 0; i-- {
		s := &ss[i]
		if !s.decided && oldest <= s.last {
			s.set(false, RuleOrder)
		}
		if s.decided && s.known && !s.restarted {
			oldest = min(oldest, s.first)
		}
	}
	youngest := never // the latest reading after which an entry that stands before was created
	for i := range ss {
		s := &ss[i]
		if !s.decided && youngest >= s.first {
			s.set(true, RuleOrder)
		}
		switch {
		case s.decided && s.known && s.restarted:
			youngest = max(youngest, s.last)
		case !s.known && r.skipFree != 0:
			youngest = max(youngest, r.skipFree)
		}
	}
}

// find returns the counter of op in counters that ascend by Op. It stands at the place hint, as a rule.
func find(counters []Counter, op uint16, hint int) *Counter {
	if hint < len(counters) && counters[hint].Op == op {
		return &counters[hint]
	}
	for i := range counters {
		if counters[i].Op == op {
			return &counters[i]
		}
	}
	return nil
}

// lists tells whether the text had a line for op.
func (v *Values) lists(op uint16) bool {
	return v.Shape != nil && slices.Contains(v.Shape.Ops, op)
}

// fell tells whether a counter shows less than before. sumsq is none: it wraps.
func fell(prev []Counter, now Values) bool {
	for i := range prev {
		p := &prev[i]
		n := find(now.Counters, p.Op, i)
		if n == nil {
			if now.lists(p.Op) {
				return true
			}
			continue
		}
		if n.Samples < p.Samples || n.Sum < p.Sum {
			return true
		}
		// Without a max, min and max are not known: the line has none, or they were not kept.
		if p.Max > 0 && (n.Max < p.Max || n.Min > p.Min) {
			return true
		}
	}
	return false
}

func equalCounters(a, b []Counter) bool {
	return slices.EqualFunc(a, b, func(x, y Counter) bool {
		return x.Op == y.Op && x.Samples == y.Samples && x.Sum == y.Sum
	})
}

// inFlight allows for requests that a reading saw counted but not yet summed up: the kernel adds the two one after the
// other, without a lock, on each of its CPUs.
const inFlight = 16

// outOfBounds tells whether the difference of a sum can't come from the difference of samples, each of them between
// the entry's min and max.
func outOfBounds(prev []Counter, now Values) bool {
	for i := range now.Counters {
		n := &now.Counters[i]
		p := find(prev, n.Op, i)
		if p == nil || n.Max == 0 {
			continue
		}
		samples, sum := float64(n.Samples-p.Samples), float64(n.Sum-p.Sum)
		if sum < (samples-inFlight)*float64(n.Min) || sum > (samples+inFlight)*float64(n.Max) {
			return true
		}
	}
	return false
}

// merge returns now's counters and, of what its text does not list, those of prev: what is not said did not change.
func merge(prev *Values, now *Values) []Counter {
	if prev.Shape == now.Shape {
		return now.Counters
	}
	return mergeShapes(prev.Counters, now)
}

func mergeShapes(prev []Counter, now *Values) []Counter {
	missing := false
	for i := range prev {
		if !now.lists(prev[i].Op) {
			missing = true
		}
	}
	if !missing {
		return now.Counters
	}
	for i := range prev {
		if !now.lists(prev[i].Op) && find(now.Counters, prev[i].Op, i) == nil {
			now.Counters = append(now.Counters, prev[i])
		}
	}
	sortCounters(now.Counters)
	return now.Counters
}

func sortCounters(c []Counter) {
	for i := 1; i < len(c); i++ {
		for j := i; j > 0 && c[j-1].Op > c[j].Op; j-- {
			c[j-1], c[j] = c[j], c[j-1]
		}
	}
}

// raise makes now's counters at least prev's, and tells whether one was less: within an epoch they only grow.
func raise(prev, now []Counter) (raised bool) {
	for i := range now {
		p := find(prev, now[i].Op, i)
		if p != nil && (p.Samples > now[i].Samples || p.Sum > now[i].Sum) {
			now[i].Samples, now[i].Sum = max(p.Samples, now[i].Samples), max(p.Sum, now[i].Sum)
			raised = true
		}
	}
	return raised
}

// add adds b's samples and sums to a.
func add(a, b []Counter) []Counter {
	for i := range b {
		if have := find(a, b[i].Op, i); have != nil {
			have.Samples += b[i].Samples
			have.Sum += b[i].Sum
			continue
		}
		a = append(a, Counter{Op: b[i].Op, Samples: b[i].Samples, Sum: b[i].Sum})
	}
	return a
}

// addGrowth adds what now has more than prev to a.
func addGrowth(a, prev, now []Counter) []Counter {
	for i := range now {
		c := Counter{Op: now[i].Op, Samples: now[i].Samples, Sum: now[i].Sum}
		if p := find(prev, c.Op, i); p != nil {
			c.Samples -= p.Samples
			c.Sum -= p.Sum
		}
		if c.Samples != 0 || c.Sum != 0 {
			a = add(a, []Counter{c})
		}
	}
	return a
}
