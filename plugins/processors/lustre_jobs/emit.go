package lustre_jobs

import (
	"cmp"
	"slices"
	"time"
)

// The measurements of levels.
const (
	measurementFS      = "lustre_fs"
	measurementAccount = "lustre_account"
	measurementUser    = "lustre_user"
	measurementJob     = "lustre_job"
	measurementProcess = "lustre_process"
	measurementReport  = "job_report"
	measurementSelf    = "lustre_jobs_self"
)

// other is what the jobs that are not among the top are shown under.
const other = "_other"

// emission is one emission of all that is to be told at a moment.
type emission struct {
	*ledger
	points  *points
	levels  map[string]bool
	top     int
	refresh int64
	at      int64   // the moment, nanoseconds
	seconds float64 // of the window
}

// run emits the levels. What they show must be saved.
func (em *emission) run(edge int64) {
	em.seconds = em.closeWindow(edge)
	em.sumRates()
	for _, level := range []struct {
		name  string
		level []uint8
	}{{"fs", []uint8{levelFS}}, {"account", []uint8{levelAccount}}, {"user", []uint8{levelUser, levelUID}}} {
		if em.levels[level.name] {
			em.emitSums(level.level)
		}
	}
	if em.levels["job"] {
		em.emitSeries()
	}
}

// sumRates makes rates of what series did in the window, and adds them up.
func (em *emission) sumRates() {
	for _, s := range em.sums {
		clear(s.rate)
	}
	for _, s := range em.active {
		for i := range s.cur {
			if em.seconds > 0 {
				s.cur[i] /= em.seconds
			} else {
				s.cur[i] = 0
			}
		}
		for _, sum := range [...]*sum{s.place.total, s.user, s.account} {
			if sum == nil {
				continue
			}
			if len(sum.rate) < len(s.cur) {
				sum.rate = append(make([]float64, 0, len(s.cur)), sum.rate...)[:len(s.cur)]
			}
			for i, v := range s.cur {
				sum.rate[i] += v
			}
		}
	}
}

// due tells whether something is to be emitted: there is a total that was not, it has rates or they have just ended, or
// it was not emitted for long.
func (em *emission) due(sh *shown, rated bool, changed int64, state string) bool {
	return sh.owed || rated || sh.rated || sh.state != state || em.at-sh.at >= em.refresh && em.at-changed <= forgetIdle
}

// forgetIdle is how long a sum is shown that does not change.
const forgetIdle = int64(24 * time.Hour)

func anyOf(rates []float64) bool {
	return slices.ContainsFunc(rates, func(v float64) bool { return v > 0 })
}

func (em *emission) emitSums(levels []uint8) {
	for _, m := range em.sums {
		rated := anyOf(m.rate)
		if !slices.Contains(levels, m.level) || m.total == nil || !em.due(&m.shown, rated, m.active, "") {
			continue
		}
		pt := &point{listed: &m.listed, total: m.total, rates: orZeros(m.rate), at: em.at}
		pt.name, pt.tags = m.tags()
		if m.level != levelFS {
			pt.whole = m.place.total.rate
		}
		em.point(pt, &m.shown, m.zero, rated, nil, m)
	}
}

// orZeros gives rates that are known to be none where there are none.
func orZeros(rates []float64) []float64 {
	if rates == nil {
		return []float64{}
	}
	return rates
}

// tags gives the measurement and the tags of a sum.
func (s *sum) tags() (name string, tags []tag) {
	tags = []tag{{"fs", s.place.fs}, {"kind", s.place.kind}, {"shard", s.place.shard}, {"cluster", s.cluster}}
	switch s.level {
	case levelAccount:
		return measurementAccount, append(tags, tag{"account", s.name})
	case levelUser:
		return measurementUser, append(tags, tag{"user", s.name})
	case levelUID:
		return measurementUser, append(tags, tag{"uid", s.name})
	}
	return measurementFS, tags
}

// point emits a point, and before the first one of its series a point of zeros, so that a database sees all of its
// increase.
func (em *emission) point(pt *point, sh *shown, zero int64, rated bool, s *series, m *sum) {
	if sh.at == 0 && zero != 0 && zero < em.at {
		z := point{name: pt.name, tags: pt.tags, listed: pt.listed, total: []int64{}, at: zero}
		em.points.emit(&z)
	}
	em.points.emit(pt)
	first := sh.at == 0
	*sh = shown{at: em.at, rated: rated, state: pt.state}
	if first && s != nil {
		em.markSeries(s)
	}
	if first && m != nil && m.marks&markDirty == 0 {
		m.marks |= markDirty
		em.dirtySum = append(em.dirtySum, m)
	}
}

// emitSeries emits jobs and processes, of each file system those with the most I/O by rate, and the rates of the rest.
func (em *emission) emitSeries() {
	for _, p := range em.byID {
		rest := make([]float64, em.fields.len())
		var restListed fieldSet
		chosen := em.choose(p)
		for _, s := range p.series {
			if s.who == nil || s.reserved() {
				addRest(s, rest, &restListed)
				continue
			}
			rated, state := anyOf(s.cur), em.state(s, em.at)
			switch {
			case chosen != nil && !chosen[s.key] && rated:
				addRest(s, rest, &restListed)
				continue
			case chosen != nil && s.shown.at == 0 && !chosen[s.key]:
				continue // It does nothing now, and there are enough others to be told of.
			case !em.due(&s.shown, rated, s.changed, state) || s.total == nil:
				continue
			}
			pt := &point{listed: &s.listed, total: s.total, rates: orZeros(s.cur), whole: p.total.rate, state: state, at: em.at}
			pt.name, pt.tags = s.tags()
			em.point(pt, &s.shown, s.zero, rated, s, nil)
		}
		if anyOf(rest) || p.rest {
			em.emitRest(p, rest, &restListed)
		}
	}
}

func addRest(s *series, rest []float64, listed *fieldSet) {
	for i, v := range s.cur {
		rest[i] += v
	}
	for i := range listed {
		listed[i] |= s.listed[i]
	}
}

// emitRest emits the rates of the jobs that are not among the top, or that are not known yet.
func (em *emission) emitRest(p *place, rest []float64, listed *fieldSet) {
	if !anyOf(rest) {
		*listed = p.total.listed
	}
	em.points.emit(&point{
		name: measurementJob, tags: []tag{{"fs", p.fs}, {"kind", p.kind}, {"shard", p.shard}, {"job", other}},
		listed: listed, rates: rest, whole: p.total.rate, at: em.at,
	})
	p.rest = anyOf(rest)
}

// reserved tells whether a series is itself a sum, that lustre_jobstats made of ids past its limits.
func (s *series) reserved() bool {
	name, isJob := s.job()
	return isJob && len(name) > 0 && name[0] == '_'
}

// choose gives the keys of the top series of a place, by the largest of their shares; nil is all.
func (em *emission) choose(p *place) map[string]bool {
	if em.top == 0 {
		return nil
	}
	type ranked struct {
		key  string
		rank float64
	}
	var list []ranked
	for _, s := range p.series {
		if s.who == nil || s.reserved() {
			continue
		}
		if rank := s.rank(); rank > 0 || s.shown.at == 0 && s.shown.owed {
			list = append(list, ranked{s.key, rank})
		}
	}
	if len(list) > em.top {
		slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.key, b.key)) })
		list = list[:em.top]
	}
	chosen := make(map[string]bool, len(list))
	for _, r := range list {
		chosen[r.key] = true
	}
	return chosen
}

// rank gives the largest of the shares that a series has of its place's rates.
func (s *series) rank() float64 {
	shares, _ := sharesOf(s.cur, s.place.total.rate)
	return max(shares[0], shares[1], shares[2])
}

// tags gives the measurement and the tags of a series.
func (s *series) tags() (name string, tags []tag) {
	p, w := s.place, s.who
	if w.kind == whoProcess {
		uid, exe := s.process()
		return measurementProcess, []tag{{"fs", p.fs}, {"kind", p.kind}, {"uid", uid}, {"exe", exe}}
	}
	return measurementJob, []tag{
		{"fs", p.fs}, {"kind", p.kind}, {"job", w.job}, {"user", w.user}, {"account", w.account},
		{"partition", w.partition}, {"cluster", w.cluster},
	}
}
