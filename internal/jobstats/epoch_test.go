package jobstats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	second   = int64(time.Second)
	interval = 600 * second
)

// seen is a sighting of an entry with one counter, read_bytes: samples, sum, min and max.
type seen struct {
	first, last int64 // readings; 0 is an entry never seen before
	pos         int
	prevAt      int64 // seconds
	prev        [4]int64
	nowAt       int64
	now         [4]int64
	prevStart   int64
	start       int64
}

func (s seen) sighting(shape *Shape) sighting {
	values := func(at, start int64, c [4]int64) Values {
		v := Values{Snapshot: at * second, Start: start, Shape: shape}
		if c[0] > 0 {
			v.Counters = []Counter{{Op: 0, Samples: c[0], Sum: c[1], Min: c[2], Max: c[3]}}
		}
		return v
	}
	return sighting{
		known: s.last != 0, first: s.first, last: s.last, pos: s.pos,
		prev: values(s.prevAt, s.prevStart, s.prev), now: values(s.nowAt, s.start, s.now),
	}
}

func TestRules(t *testing.T) {
	// Each case is a file of some entries, and what is to be decided of each. Readings are 10, 20, 30; this one is 40.
	type verdict struct {
		restarted bool
		rule      Rule
	}
	same, restarted := func(r Rule) verdict { return verdict{false, r} }, func(r Rule) verdict { return verdict{true, r} }
	// idle is an entry that nothing happened to; far, one that counted again after a gap of 800 s; next, after 700 s.
	idle := func(first int64, pos int) seen {
		return seen{first: first, last: 30, pos: pos, prevAt: 100, prev: [4]int64{1, 10, 10, 10}, nowAt: 100, now: [4]int64{1, 10, 10, 10}}
	}
	far := seen{first: 20, last: 30, pos: 5, prevAt: 100, prev: [4]int64{2, 20, 10, 10}, nowAt: 900, now: [4]int64{4, 40, 10, 10}}
	next := far
	next.nowAt = 800
	fallen := seen{first: 20, last: 30, pos: 3, prevAt: 100, prev: [4]int64{2, 20, 10, 10}, nowAt: 1000, now: [4]int64{1, 10, 10, 10}}
	quick := seen{first: 20, last: 30, pos: 4, prevAt: 100, prev: [4]int64{2, 20, 10, 10}, nowAt: 130, now: [4]int64{3, 30, 10, 10}}
	with := func(s seen, change func(*seen)) seen {
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		r    reading
		file []seen
		want []verdict
	}{
		{"never seen", reading{}, []seen{{nowAt: 100, now: [4]int64{1, 1, 1, 1}}}, []verdict{restarted(RuleFirst)}},
		{"start_time is the same", reading{}, []seen{with(far, func(s *seen) { s.prevStart, s.start = 7, 7 })}, []verdict{same(RuleStart)}},
		{"start_time is later", reading{}, []seen{with(quick, func(s *seen) { s.prevStart, s.start = 7, 8 })}, []verdict{restarted(RuleStart)}},
		{"start_time is earlier: the clock was set back", reading{}, []seen{with(quick, func(s *seen) { s.prevStart, s.start = 7, 6 })}, []verdict{restarted(RuleStart)}},
		{"the header was switched on, same entry", reading{}, []seen{with(far, func(s *seen) { s.start = 100 * second })}, []verdict{same(RuleStart)}},
		{"the header was switched on, new entry", reading{}, []seen{with(far, func(s *seen) { s.start = 101 * second })}, []verdict{restarted(RuleStart)}},
		{"the header was switched off: rule 3", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.prevStart = 7 })}, []verdict{same(RuleInterval)}},
		{"1 unchanged", reading{}, []seen{idle(20, 0)}, []verdict{same(RuleUnchanged)}},
		{"2 samples fell", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.now = [4]int64{1, 30, 10, 10} })}, []verdict{restarted(RuleFell)}},
		{"2 sum fell", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.now = [4]int64{3, 19, 10, 10} })}, []verdict{restarted(RuleFell)}},
		{"2 max fell", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.now = [4]int64{3, 30, 9, 9} })}, []verdict{restarted(RuleFell)}},
		{"2 min rose", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.now = [4]int64{3, 40, 11, 20} })}, []verdict{restarted(RuleFell)}},
		{"2 the operation is at zero now", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.now = [4]int64{} })}, []verdict{restarted(RuleFell)}},
		{"2 the target was remounted", reading{interval: interval, remounted: 40}, []seen{quick}, []verdict{restarted(RuleFell)}},
		{"2 remounted while the entry was absent", reading{interval: interval, previous: 30, remounted: 30}, []seen{with(quick, func(s *seen) { s.last = 20 })}, []verdict{restarted(RuleFell)}},
		{"3 within the interval", reading{interval: interval}, []seen{quick}, []verdict{same(RuleInterval)}},
		{"3 exactly the interval", reading{interval: interval}, []seen{with(quick, func(s *seen) { s.nowAt = 700 })}, []verdict{same(RuleInterval)}},
		{"3 the clean-up is off", reading{interval: 0}, []seen{far}, []verdict{same(RuleInterval)}},
		{
			"3 is not asked after a sign of a clear", reading{interval: interval, previous: 30},
			[]seen{with(fallen, func(s *seen) { s.nowAt = 130 }), quick}, []verdict{restarted(RuleFell), restarted(RuleOrder)},
		},
		{
			"3 is not asked while a clear before the last sighting is remembered", reading{interval: interval, previous: 30, cleared: 30},
			[]seen{with(quick, func(s *seen) { s.last = 20 })}, []verdict{restarted(RuleGap)},
		},
		{
			"4 before an entry that was there at the last sighting", reading{interval: interval, previous: 30},
			[]seen{far, idle(30, 6)}, []verdict{same(RuleOrder), same(RuleUnchanged)},
		},
		{
			"4 before an entry that came later proves nothing", reading{interval: interval, previous: 30},
			[]seen{with(far, func(s *seen) { s.last = 20 }), idle(30, 6)}, []verdict{restarted(RuleGap), same(RuleUnchanged)},
		},
		{
			"4 behind an entry that was restarted", reading{interval: interval, previous: 30},
			[]seen{fallen, next}, []verdict{restarted(RuleFell), restarted(RuleOrder)},
		},
		{
			"4 behind a new entry, when the last reading is known to be whole", reading{interval: interval, previous: 30, skipFree: 30},
			[]seen{{nowAt: 1000, now: [4]int64{1, 1, 1, 1}}, next}, []verdict{restarted(RuleFirst), restarted(RuleOrder)},
		},
		{
			"4 behind a new entry that the last reading may have skipped", reading{interval: interval, previous: 30},
			[]seen{{nowAt: 1000, now: [4]int64{1, 1, 1, 1}}, next}, []verdict{restarted(RuleFirst), same(RuleGap)},
		},
		{
			"4 the order of two entries was turned round", reading{interval: interval, previous: 30},
			[]seen{with(quick, func(s *seen) { s.pos = 9 }), with(quick, func(s *seen) { s.pos = 2 })},
			[]verdict{restarted(RuleGap), restarted(RuleOrder)},
		},
		{"5 counted, and shows the same", reading{interval: interval}, []seen{with(far, func(s *seen) { s.now = s.prev })}, []verdict{restarted(RuleIdentical)}},
		{
			"6 too much for so many requests", reading{interval: interval},
			[]seen{with(next, func(s *seen) { s.now = [4]int64{4, 1000, 10, 10} })}, []verdict{restarted(RuleBounds)},
		},
		{
			"6 too little for so many requests", reading{interval: interval},
			[]seen{with(next, func(s *seen) { s.now = [4]int64{1002, 5000, 10, 10} })}, []verdict{restarted(RuleBounds)},
		},
		{
			"6 allows for requests in flight", reading{interval: interval},
			[]seen{with(next, func(s *seen) { s.now = [4]int64{2, 180, 10, 10} })}, []verdict{same(RuleGap)},
		},
		{"7 a gap of 1.25 intervals", reading{interval: interval}, []seen{with(far, func(s *seen) { s.nowAt = 850 })}, []verdict{same(RuleGap)}},
		{"7 a longer gap", reading{interval: interval}, []seen{with(far, func(s *seen) { s.nowAt = 851 })}, []verdict{restarted(RuleGap)}},
		{
			"9 absent from a reading that showed all", reading{interval: interval, previous: 30, skipFree: 30},
			[]seen{with(quick, func(s *seen) { s.last = 20 })}, []verdict{restarted(RuleAbsent)},
		},
		{
			"9 one absence proves nothing", reading{interval: interval, previous: 30},
			[]seen{with(quick, func(s *seen) { s.last = 20 })}, []verdict{same(RuleInterval)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape := &Shape{Ops: []uint16{0}}
			ss := make([]sighting, 0, len(tt.file))
			for _, s := range tt.file {
				ss = append(ss, s.sighting(shape))
			}
			decide(ss, tt.r)
			for i, want := range tt.want {
				require.Equal(t, want, verdict{ss[i].restarted, ss[i].rule}, "entry %d", i)
			}
		})
	}
}
