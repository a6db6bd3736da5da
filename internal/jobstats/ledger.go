package jobstats

import (
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"slices"
	"time"
)

// Options say how a ledger works. All fields but Dir are needed.
type Options struct {
	// Dir is the folder of the state on disk; it is made if it is missing. Empty keeps the state in memory only.
	Dir string
	// Host names this server. It goes into the identity of epochs that have no start_time.
	Host string
	// Boot is the server's boot id: with another one than before, all counters without start_time are new ones. Empty is
	// not known.
	Boot string
	// Patterns finds the labels of job ids.
	Patterns *JobIDPatterns
	// MaxJobs is how many series there may be at once; what is past it is summed under JobOverflow.
	MaxJobs int
	// ForgetAfter is how long a job is remembered that does no I/O.
	ForgetAfter time.Duration
	// Refresh is how often an unchanged series is emitted at least, and the first wait until an epoch is sent again.
	Refresh time.Duration
	// RepeatFor is how long an epoch is sent again after it changed; 0 emits no epochs.
	RepeatFor time.Duration
	// Totals is whether totals are emitted.
	Totals bool
	// SyncInterval is how long the log may stay unsynced; 0 syncs before anything is emitted.
	SyncInterval time.Duration
}

// Ledger keeps the totals of one target. It is not safe for concurrent use.
type Ledger struct {
	opts    Options
	ops     *OpTable
	parser  Parser
	seed    maphash.Seed
	hostSum uint16

	entries map[string]*entry
	sums    map[string]*sum
	own     int // entries in memory that are series of their own

	order    []slot   // the latest file, in its order
	absent   []*entry // in memory, and not in the latest file
	seen     []slot   // the file being read
	buf      []byte
	waiting  []sighting
	waitsFor []*entry

	pass     int64 // the latest reading
	logged   int64 // the latest reading that is in the log
	folded   int64 // the latest reading that is in the store
	looked   int64 // the latest reading that reached the end of the file
	at       int64 // the time of the next Emit
	loaded   int64 // the latest reading of the process before this one
	whole    bool  // it reached the end, and left nothing out
	skipFree int64
	gap      int64 // between the latest two readings
	interval int64 // job_cleanup_interval then; -1 before the first
	remount  bool  // since the latest reading
	resets   resets
	boot     string // the boot id at the latest reading
	evicted  int64  // the reading after which entries were dropped from memory last

	store *store
	stats Stats

	// decided is told of each decision made without start_time; only tests set it.
	decided func(id string, s *sighting)
}

// resets are the latest readings that showed that all counters were lost, and that some may have been.
type resets struct{ remounted, cleared int64 }

// slot is an entry's place in a file, and what is needed to know its text again, if that is known.
type slot struct {
	e    *entry
	text fingerprint
}

// Stats tell of one gather.
type Stats struct {
	Entries    int // in the file
	Changed    int // that counted since the reading before
	Started    int // epochs that were seen to start
	Undecided  int // decisions that may be wrong
	Overflow   int // ids summed under JobOverflow for the first time
	Bytes      int64
	Errors     []error // entries left out
	ErrorCount int     // Errors holds the first ones only
}

// maxErrors is how many entries left out are told of in full in one gather.
const maxErrors = 3

// keepOld is how long a closed epoch is remembered that no file shows: much longer than an entry is referenced by a
// request after it was dropped.
const keepOld = time.Hour

// Open opens the ledger of a target, and reads the state on disk. Warnings tell of state that was damaged, and what
// became of it.
func Open(o Options) (l *Ledger, warnings []error, err error) {
	l = newLedger(o)
	if o.Dir == "" {
		return l, nil, nil
	}
	l.store = &store{dir: o.Dir}
	if warnings, err = l.load(); err != nil {
		return nil, warnings, errors.Join(err, l.store.close())
	}
	return l, warnings, nil
}

func newLedger(o Options) *Ledger {
	h := fnv.New32a()
	_, _ = io.WriteString(h, o.Host)
	l := &Ledger{
		opts: o, ops: NewOpTable(), seed: maphash.MakeSeed(), hostSum: uint16(h.Sum32()),
		entries: make(map[string]*entry), sums: make(map[string]*sum), interval: -1,
	}
	l.parser.Ops = l.ops
	return l
}

// Remounted tells that the target was away since the last reading: its counters are new ones.
func (l *Ledger) Remounted() { l.remount = true }

// Away takes the place of Gather while the target is not on this server: Emit then says again what is to be said again
// of epochs, and no totals.
func (l *Ledger) Away(now time.Time) {
	for _, s := range l.order {
		if s.e.pos >= 0 {
			l.absent = append(l.absent, s.e)
			s.e.pos = -1
		}
	}
	clear(l.order)
	l.order, l.whole, l.at = l.order[:0], false, max(now.UnixNano(), l.pass)
}

// Size returns how many entries are in memory.
func (l *Ledger) Size() int { return len(l.entries) }

// LastPass returns when a file was last read to its end, by this or an earlier process, in nanoseconds; 0 is never.
func (l *Ledger) LastPass() int64 { return l.looked }

// Written returns how many bytes this ledger wrote to its log.
func (l *Ledger) Written() int64 {
	if l.store == nil {
		return 0
	}
	return l.store.written
}

// StateError says that what a gather saw is not on disk. It must not be emitted: after a restart, totals would be less.
type StateError struct{ Err error }

func (e *StateError) Error() string {
	return e.Err.Error() + "; what was read is kept, and emitted once it is saved"
}

func (e *StateError) Unwrap() error { return e.Err }

// Gather reads a job_stats file at the time now, and keeps what it shows. interval is the target's
// job_cleanup_interval, 0 for never. since is when the target was looked at before, when an entry that is new now was
// not there; 0 if it never was. Without a *StateError in its error, what Gather saw is on disk and may be emitted;
// with one the ledger is right, and the next Gather writes what this one could not.
func (l *Ledger) Gather(r io.Reader, now time.Time, since int64, interval time.Duration) (Stats, error) {
	// A clock that was set back must not make two epochs of one identity.
	pass := max(now.UnixNano(), l.pass+identityStep)
	l.stats = Stats{}
	l.seen, l.waiting, l.waitsFor = l.seen[:0], l.waiting[:0], l.waitsFor[:0]
	g := gathering{Ledger: l, pass: pass, since: since}
	whole, err := g.read(r)
	shortest := int64(interval)
	if l.interval > 0 && (shortest == 0 || l.interval < shortest) {
		shortest = l.interval
	}
	if l.remount {
		l.resets = resets{remounted: pass, cleared: pass}
	}
	g.settle(reading{
		previous: l.pass, skipFree: l.skipFree, interval: shortest, remounted: l.resets.remounted, cleared: l.resets.cleared,
	})
	g.close(whole)
	l.interval = int64(interval)
	if err == nil {
		l.looked = pass
	}
	if stateErr := l.logBatch(); stateErr != nil {
		err = errors.Join(err, &StateError{stateErr})
	}
	if l.store == nil && l.pass-l.evicted > int64(foldAge) {
		l.forgetOld()
		l.evict(l.opts.ForgetAfter)
	}
	return l.stats, err
}

// gathering is one reading of the file.
type gathering struct {
	*Ledger
	pass, since int64
	same        int // entries of the reading before that this one shows as the same
	again       int // entries of the reading before that this one shows
	plain       bool
}

// read reads the file and applies what start_time decides. It returns whether every entry there was has been seen.
func (g *gathering) read(r io.Reader) (whole bool, err error) {
	s := NewScanner(r, &g.parser, g.buf)
	g.buf = s.buf
	defer func() { g.stats.Bytes = s.Bytes }()
	whole = true
	for at := 0; ; {
		if at < len(g.order) && g.order[at].text.size > 0 && s.SkipSame(&g.order[at].text, g.seed) {
			g.unchanged(g.order[at])
			at++
			continue
		}
		e, err := s.Next()
		var damage *EntryError
		switch {
		case errors.Is(err, io.EOF):
			return whole, nil
		case errors.As(err, &damage):
			whole = false
			g.stats.ErrorCount++
			if len(g.stats.Errors) < maxErrors {
				g.stats.Errors = append(g.stats.Errors, err)
			}
		case err != nil:
			return false, err
		default:
			if i := g.entry(e, s.Text(), at); i >= 0 {
				at = i + 1
			}
		}
	}
}

// unchanged takes an entry whose text is that of the reading before.
func (g *gathering) unchanged(sl slot) {
	if sl.e.values.Start == 0 {
		g.wait(sl.e, sighting{known: true, rule: RuleUnchanged, decided: true, first: sl.e.first, last: sl.e.last, pos: int(sl.e.pos)})
	} else {
		g.same++
	}
	g.show(sl)
}

// show notes that the file has an entry. What was noted of the reading before is in its sighting, if it waits.
func (g *gathering) show(sl slot) {
	if sl.e.pos >= 0 && sl.e.last == g.Ledger.pass {
		g.again++
	}
	sl.e.last, sl.e.pos = g.pass, int32(len(g.seen))
	g.seen = append(g.seen, sl)
}

// entry takes a parsed entry, where the reading before may have shown it at place at. It returns its place there, or -1.
func (g *gathering) entry(p *Entry, text []byte, at int) int {
	sortCounters(p.Counters)
	now := Values{Snapshot: p.Snapshot, Start: p.Start, Counters: p.Counters, Shape: p.Shape}
	e := g.find(p.JobID, at)
	known := e.epoch != 0
	place := -1
	if known && e.pos >= 0 && int(e.pos) < len(g.order) && g.order[e.pos].e == e {
		place = int(e.pos)
	}
	s := sighting{known: known, prev: e.values, first: e.first, last: e.last, pos: int(e.pos), now: now}
	g.show(slot{e: e})
	switch {
	case now.Start == 0:
		s.now.Counters = slices.Clone(now.Counters)
		if known && now.Snapshot == e.values.Snapshot {
			g.remember(text)
		}
		g.wait(e, s)
	case known && now.Start == e.values.Start && equalCounters(now.Counters, e.values.Counters):
		// Some vendors' snapshot_time is the time of the reading: it alone is no change.
		g.same++
		e.values.Shape, e.values.Snapshot = now.Shape, now.Snapshot
		g.remember(text)
	case known && e.values.Start == now.Start:
		g.same++
		now.Counters = merge(&e.values, &now)
		g.more(e, now)
	case g.growOld(e, now):
	default:
		s.alone(reading{})
		g.apply(e, &s)
	}
	return place
}

// remember keeps the fingerprint of the latest entry's text. One that just changed is likely to change again: it gets
// none until it was once read without a change.
func (g *gathering) remember(text []byte) {
	g.seen[len(g.seen)-1].text = fingerprintOf(text, g.seed)
}

// find returns the entry of an id. Most stand where they stood before, which saves a look into a large map.
func (g *gathering) find(id []byte, at int) *entry {
	if at < len(g.order) && g.order[at].e.id == string(id) {
		return g.order[at].e
	}
	if e := g.entries[string(id)]; e != nil {
		return e
	}
	return g.recall(string(id))
}

// wait keeps a sighting until the whole file was read. Of two of one id the later one is kept: without start_time
// nothing tells an entry that was dropped from the one beside it.
func (g *gathering) wait(e *entry, s sighting) {
	g.plain = true
	if e.waits == g.pass {
		i := slices.Index(g.waitsFor, e)
		g.waitsFor[i] = nil
		s.last, s.pos = g.waiting[i].last, g.waiting[i].pos
	}
	e.waits = g.pass
	g.waiting = append(g.waiting, s)
	g.waitsFor = append(g.waitsFor, e)
}

// settle decides and applies what start_time did not.
func (g *gathering) settle(r reading) {
	if !g.plain {
		return
	}
	kept := 0
	for i, e := range g.waitsFor {
		if e != nil {
			g.waiting[kept], g.waitsFor[kept] = g.waiting[i], e
			kept++
		}
	}
	g.waiting, g.waitsFor = g.waiting[:kept], g.waitsFor[:kept]
	if decide(g.waiting, r) {
		g.resets.cleared = g.pass
	}
	for i, e := range g.waitsFor {
		s := &g.waiting[i]
		if g.decided != nil {
			g.decided(e.id, s)
		}
		if s.known && !s.restarted && s.rule != RuleGap {
			g.same++
		}
		if s.rule == RuleUnchanged {
			if s.now.Shape != nil {
				e.values.Shape = s.now.Shape
			}
			continue
		}
		if s.rule == RuleGap || s.rule == RuleFirst && g.Ledger.pass == 0 {
			g.stats.Undecided++
		}
		g.apply(e, s)
	}
}

// close ends the reading: the entries that it did not show are absent from now on.
func (g *gathering) close(whole bool) {
	l := g.Ledger
	if l.whole && g.same >= len(l.order) {
		// Whatever the reading before showed is still there, so nothing was dropped while it went on, and it skipped
		// nothing.
		l.skipFree = l.pass
	}
	g.missing()
	clear(l.order)
	l.order, l.seen = g.seen, l.order[:0]
	if l.pass > 0 {
		l.gap = g.pass - l.pass
	}
	l.pass, l.at, l.whole, l.remount, l.boot = g.pass, g.pass, whole, false, l.opts.Boot
	l.stats.Entries = len(l.order)
	if cap(l.waiting) > 4096 {
		l.waiting, l.waitsFor = nil, nil
	}
	clear(l.waiting)
	clear(l.waitsFor)
}

// missing finds the entries that are absent now, and those that are no more.
func (g *gathering) missing() {
	absent := slices.DeleteFunc(g.absent, func(e *entry) bool { return e.last == g.pass })
	if g.again < len(g.order) {
		for _, s := range g.order {
			// An id that stood twice in the file is in the order twice: its place tells that it was moved already.
			if s.e.last != g.pass && s.e.pos >= 0 {
				absent = append(absent, s.e)
				s.e.pos = -1
			}
		}
	}
	g.absent = absent
}

// recall returns the entry of an id that is not in memory: from the store, else a new one.
func (g *gathering) recall(id string) *entry {
	e, damaged := g.fetch(id)
	if e == nil {
		e = &entry{id: id, created: g.pass, pos: -1, lost: damaged}
	}
	g.keep(e)
	return e
}

// fetch reads an entry from the store; nil if it has none. A damaged one is reported, and lost.
func (l *Ledger) fetch(id string) (e *entry, damaged bool) {
	if l.store == nil {
		return nil, false
	}
	e, err := l.store.entry(id, l)
	if err != nil {
		l.report(fmt.Errorf("state of job id %q: %w; its totals start again", id, err))
	}
	return e, err != nil || l.store.setAside && l.pass == l.loaded
}

// keep takes an entry into memory and gives it its series.
func (g *gathering) keep(e *entry) {
	g.entries[e.id] = e
	labels, summed := g.opts.Patterns.Labels(e.id)
	switch {
	case e.sum != nil:
		// The store said so.
	case summed:
		g.addTo(e, labels)
	case e.epoch == 0 && g.own+len(g.sums) >= g.opts.MaxJobs:
		g.stats.Overflow++
		g.addTo(e, Labels{Job: JobOverflow})
	}
	g.own += ownSeries(e)
	if e.sum == nil && labels != (Labels{Job: e.id}) {
		e.labels = &labels
	}
}

// ownSeries counts an entry among the series, or among those that a sum has.
func ownSeries(e *entry) int {
	if e.sum != nil {
		e.sum.refs++
		return 0
	}
	return 1
}

// addTo lets an entry be summed from now on, and adds what it has: it was a series of its own under other patterns.
func (g *gathering) addTo(e *entry, labels Labels) {
	s := g.sumOf(labels)
	e.sum = s
	if e.epoch == 0 {
		return
	}
	s.total = add(add(s.total, e.values.Counters), e.closed())
	s.lives += e.lives()
	s.changed, s.touched, s.zero = g.pass, g.pass, 0
	e.touched = g.pass
}

func (e *entry) closed() []Counter {
	if e.past == nil {
		return nil
	}
	return e.past.closed
}

// sumOf returns the sum of these labels, and makes it if there is none. One more than MaxJobs goes to JobOverflow.
func (g *gathering) sumOf(labels Labels) *sum {
	if s := g.sums[labels.Key()]; s != nil {
		return s
	}
	reserved := labels.Job == JobOther || labels.Job == JobOverflow
	if !reserved && g.own+len(g.sums) >= g.opts.MaxJobs {
		g.stats.Overflow++
		return g.sumOf(Labels{Job: JobOverflow})
	}
	s := &sum{key: labels.Key(), labels: labels, created: g.pass, epoch: g.identity(), zero: g.zeroTime(Values{})}
	g.sums[s.key] = s
	return s
}

// apply takes a sighting that was decided on.
func (g *gathering) apply(e *entry, s *sighting) {
	if !s.restarted {
		s.now.Counters = merge(&e.values, &s.now)
		if s.now.Start == 0 {
			// The header was switched off: it is still the entry with that start_time.
			s.now.Start = e.values.Start
		}
		g.more(e, s.now)
		return
	}
	g.stats.Started++
	if e.epoch != 0 {
		e.closeEpoch(g.pass)
	} else if e.created = g.pass; !e.lost {
		e.zero = g.zeroTime(s.now)
	}
	e.epoch = s.now.Start
	if e.epoch == 0 {
		e.epoch = g.identity()
	}
	e.first = g.pass
	g.grow(e, s.now)
	if e.sum != nil {
		e.sum.lives++
	}
}

// identityStep is the resolution of identities, in nanoseconds.
const identityStep = 1 << 16

// identity makes the identity of an epoch that Lustre does not tell the start of: the time of this reading, with a hash
// of the host in its last bits, so that two servers never make the same one.
func (g *gathering) identity() int64 { return g.pass&^(identityStep-1) | int64(g.hostSum) }

// zeroTime is the time of the point of zeros before a new total: the later of the last look at the target and the
// entry's start, where that is on the wall clock. 0 is none.
func (g *gathering) zeroTime(v Values) int64 {
	if g.since == 0 || g.since >= g.pass {
		return 0
	}
	// 2.15.0 and 2.15.1 count from boot; the wall clock has been past 30 years for a while.
	const bootClock = 30 * 365 * 24 * int64(time.Hour)
	if v.Start > max(g.since, bootClock) && v.Start < g.pass {
		return v.Start
	}
	return g.since
}

// more takes new values of an epoch that goes on. A counter that is less than before can't be: it stays as it was, and
// counts as undecided.
func (g *gathering) more(e *entry, now Values) {
	if raise(e.values.Counters, now.Counters) {
		g.stats.Undecided++
	}
	g.grow(e, now)
}

// grow takes new values of the open epoch.
func (g *gathering) grow(e *entry, now Values) {
	prev := e.values.Counters
	if e.sum != nil {
		g.growSum(e, prev, now)
	}
	// The parser's slice is used again for the next entry, so the values are copied over the ones kept.
	counters := prev
	if cap(counters) < len(now.Counters) {
		counters = make([]Counter, 0, len(now.Counters))
	}
	now.Counters = append(counters[:0], now.Counters...)
	e.values = now
	e.changed = g.pass
	if e.touched != g.pass {
		g.stats.Changed++
	}
	e.touched = g.pass
}

func (g *gathering) growSum(e *entry, prev []Counter, now Values) {
	s := e.sum
	s.total = addGrowth(s.total, prev, now.Counters)
	s.shape, s.snapshot = now.Shape, max(s.snapshot, now.Snapshot)
	s.changed, s.touched = g.pass, g.pass
}

// growOld takes new values of a closed epoch: an entry that was dropped and is still shown, since a request holds it.
func (g *gathering) growOld(e *entry, now Values) bool {
	o := e.findOld(now.Start)
	if o == nil {
		return false
	}
	g.same++
	raise(o.values.Counters, now.Counters)
	if equalCounters(o.values.Counters, now.Counters) {
		o.last = g.pass
		return true
	}
	e.past.closed = addGrowth(e.past.closed, o.values.Counters, now.Counters)
	if e.sum != nil {
		g.growSum(e, o.values.Counters, now)
	}
	now.Counters = append(o.values.Counters[:0], now.Counters...)
	o.values, o.last, o.changed, o.touched = now, g.pass, g.pass, g.pass
	e.changed, e.touched = g.pass, g.pass
	return true
}

// Close folds the log into the store and closes it.
func (l *Ledger) Close() error {
	if l.store == nil {
		return nil
	}
	return errors.Join(l.fold(), l.store.close())
}
