package lustre_jobs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ledger keeps the totals of all file servers. An epoch's counters only grow, so the largest value seen of each is the
// right one, and of lines that come twice, late, out of order or from two servers at once none counts twice. What an
// epoch grew by is added to its series, and from there to the sums over users, accounts and file systems, so that these
// stay when a series is forgotten. It is not safe for concurrent use.
type ledger struct {
	fields *fieldTable
	store  *store // nil keeps everything in memory

	places  map[placeName]*place
	targets map[targetName]*target
	servers map[string]*server
	sums    map[sumName]*sum
	byID    []*place
	lastID  uint64 // of a series

	slurm    slurmState
	jobs     map[int64]*job    // of Slurm, not reported yet or not long ago
	reported map[int64]int64   // jobs that are on disk only: their ends, or, negative, when they were seen last, seconds
	unsaved  map[*job]struct{} // since the last batch
	unknown  []*series         // in memory, of whom it is not known who they are
	window   window
	active   []*series // with rates in the window or the next
	dirty    []*series // since the last batch
	dirtySum []*sum
	// forgetting are the keys of series that did nothing since forgetBefore, and are to be dropped from the store.
	forgetting   []string
	oldSums      []string // keys of sums that are to be dropped
	forgetBefore int64
	folding      bool
	changes      changes // since the last batch
	created      int64   // when the state began, nanoseconds
	memory       int     // series in memory
	lives        int     // epochs in memory
	stats        counts

	lastTarget *target
	lastServer *server
	old        []int64 // the values of the epoch that a line is of
	grown      []growth
	key, text  []byte
}

// changes tells what is new in the tables that everything refers to.
type changes struct {
	fields  int // the number of those that were saved
	places  []*place
	targets []*target
	servers map[*server]struct{}
}

// counts are what the processor tells of itself, since it started.
type counts struct {
	lines    int64 // epoch lines
	repeated int64 // of them those that told nothing new
	late     int64 // of them those that came after their job's report
	refused  int64 // lines of lustre_jobstats_epoch that are none
	stale    int64 // lines that grew a total and were too late for its rates
	lives    int64 // epochs that were new
	lost     int64 // jobs whose end Slurm did not tell
}

type placeName struct{ fs, kind, shard string }

// place is a file system's targets of one kind (ost or mdt), or one shard of them.
type place struct {
	placeName
	id     uint32
	series map[string]*series // in memory, by key
	total  *sum
	rest   bool // the rates of the rest that were emitted last were not 0
}

type targetName struct {
	place uint32
	name  string
}

// target is an OST or MDT, whatever server has it now.
type target struct {
	id    uint32
	place *place
	name  string
}

// server is a file server, for its gathers: what a gather shows was done since the one before.
type server struct {
	host           string
	latest, before int64 // the latest gather and the one before it, nanoseconds
}

// series is what one job, or one user's processes of one name, did in one place.
type series struct {
	id     uint64
	place  *place
	key    string
	parts  []string // of a job's ids, what is not in its key: as a rule there is one, empty
	epochs []epoch  // in memory, in the order of their ids
	stored bool     // more of them may be on disk

	total    []int64
	listed   fieldSet
	cur, nxt []float64 // what the window, and the next one, has of the totals' growth; nil is nothing
	changed  int64     // when it grew last, nanoseconds, by this host's clock
	created  int64
	first    int64 // the first and the last I/O, nanoseconds, by the server's clock
	last     int64
	zero     int64 // the time of the point of zeros before the first total; 0 is none

	who     *identity // nil while it is not known
	user    *sum
	account *sum
	shown   shown
	done    bool // its job is reported
	marks   uint8
}

// The marks of series and sums.
const (
	markDirty   = 1 << iota // not in the log
	markLogged              // in the log, and not in the store
	markFolding             // on its way into the store
	markActive              // in ledger.active
	markAdopted             // in memory
)

// epochID tells the epochs of a series apart.
type epochID struct {
	target uint32
	part   uint32
	start  int64 // the identity of the life, on this target
}

func (a epochID) compare(b epochID) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.part, b.part), cmp.Compare(a.start, b.start))
}

// epoch is one life of a counter.
type epoch struct {
	epochID
	changed uint32 // when it grew last, seconds
	marks   uint8
	record  string // its values, see appendValues
}

// sum is what is kept for good: what a user, an account or a file system did.
type sum struct {
	sumName
	place  *place
	total  []int64
	listed fieldSet
	zero   int64
	rate   []float64
	shown  shown
	marks  uint8
	active int64 // when it grew last, nanoseconds
}

// The levels of sums.
const (
	levelFS = iota
	levelAccount
	levelUser
	levelUID
)

type sumName struct {
	level   uint8
	place   uint32
	cluster string
	name    string
}

// shown is what was emitted of a series or a sum.
type shown struct {
	at    int64 // when, nanoseconds; 0 is never
	rated bool  // the last point had a rate that is not 0
	state string
	owed  bool // there is a total that is not emitted
}

type growth struct {
	field uint16
	by    int64
}

func newLedger(created int64) *ledger {
	return &ledger{
		fields: newFieldTable(), places: make(map[placeName]*place), targets: make(map[targetName]*target),
		servers: make(map[string]*server), sums: make(map[sumName]*sum), jobs: make(map[int64]*job), reported: make(map[int64]int64),
		unsaved: make(map[*job]struct{}), created: created, lastTarget: &target{place: &place{}},
		lastServer: &server{host: "\x00"}, old: make([]int64, maxFields), changes: changes{servers: make(map[*server]struct{})},
	}
}

// maxTargets bounds the targets that lines may name.
const maxTargets = 1 << 17

var errTargets = errors.New("more targets than any site has")

// gathered notes that a server gathered its statistics.
func (l *ledger) gathered(host []byte, at int64) *server {
	s := l.lastServer
	if s.host != string(host) {
		if s = l.servers[string(host)]; s == nil {
			s = &server{host: string(host)}
			l.servers[s.host] = s
		}
		l.lastServer = s
	}
	if at > s.latest {
		s.before, s.latest = s.latest, at
		l.changes.servers[s] = struct{}{}
	}
	return s
}

// target gives the target that a line is of.
func (l *ledger) target(line *epochLine) (*target, error) {
	t := l.lastTarget
	p := t.place
	if t.name == string(line.target) && p.fs == string(line.fs) && p.kind == string(line.kind) && p.shard == string(line.shard) {
		return t, nil
	}
	p = l.places[placeName{string(line.fs), string(line.kind), string(line.shard)}]
	if p == nil && len(l.targets) < maxTargets {
		p = &place{placeName: placeName{string(line.fs), string(line.kind), string(line.shard)}, id: uint32(len(l.byID))}
		l.addPlace(p)
		l.changes.places = append(l.changes.places, p)
	}
	if p == nil {
		return nil, errTargets
	}
	t = l.targets[targetName{p.id, string(line.target)}]
	if t == nil {
		if len(l.targets) >= maxTargets {
			return nil, errTargets
		}
		t = &target{id: uint32(len(l.targets)), place: p, name: string(line.target)}
		l.targets[targetName{p.id, t.name}] = t
		l.changes.targets = append(l.changes.targets, t)
	}
	l.lastTarget = t
	return t, nil
}

func (l *ledger) addPlace(p *place) {
	p.series = make(map[string]*series)
	l.places[p.placeName] = p
	l.byID = append(l.byID, p)
	p.total = l.sum(levelFS, p, "", "")
}

// sum gives a sum, and makes it if there is none.
func (l *ledger) sum(level uint8, p *place, cluster, name string) *sum {
	key := sumName{level, p.id, cluster, name}
	s := l.sums[key]
	if s == nil {
		s = &sum{sumName: key, place: p}
		l.sums[key] = s
	}
	return s
}

// merge takes a line; now is this host's clock in nanoseconds.
func (l *ledger) merge(line *epochLine, now int64) error {
	l.stats.lines++
	t, err := l.target(line)
	if err != nil {
		return err
	}
	server := l.gathered(line.host, line.time)
	s, part, err := l.find(t.place, line)
	if err != nil {
		return err
	}
	id := epochID{t.id, part, line.epoch}
	at, known := slices.BinarySearchFunc(s.epochs, id, func(e epoch, id epochID) int { return e.compare(id) })
	record := ""
	switch {
	case known:
		record = s.epochs[at].record
	case s.stored:
		record, known, err = l.store.epoch(s, id)
	}
	if err != nil {
		// Its values are in the totals: what it shows now is taken for what it was.
		l.store.warn(fmt.Errorf("state of an epoch of %q: %w; what it grew by since is lost", s.key, err))
		l.grow(line, "")
		l.grown = l.grown[:0]
	} else if !l.grow(line, record) && known {
		clear(l.old[:l.fields.len()])
		l.stats.repeated++
		return nil
	}
	l.adopt(s)
	if !known {
		l.stats.lives++
	}
	if at == len(s.epochs) || s.epochs[at].epochID != id {
		s.epochs = insert(s.epochs, at, epoch{epochID: id})
		l.lives++
	}
	e := &s.epochs[at]
	l.key = appendValues(l.key[:0], l.old[:l.fields.len()])
	e.record, e.changed, e.marks = string(l.key), uint32(now/int64(time.Second)), e.marks|markDirty
	clear(l.old[:l.fields.len()])
	l.spread(s, line, server, known, now)
	return nil
}

// insert inserts an epoch, and gives the list some room to grow, but not its double: there are very many of them.
func insert(list []epoch, at int, e epoch) []epoch {
	if len(list) == cap(list) {
		list = append(make([]epoch, 0, len(list)+len(list)/4+1), list...)
	}
	list = append(list, epoch{})
	copy(list[at+1:], list[at:])
	list[at] = e
	return list
}

// grow finds by how much a line's values are more than those on record, leaves the larger ones in l.old, and tells
// whether there are any. ops and busy_usecs of a line that has them by operation only are what their parts grew by.
func (l *ledger) grow(line *epochLine, record string) bool {
	readValues(record, l.old)
	l.grown = l.grown[:0]
	var set fieldSet
	for _, f := range line.fields {
		set.put(f)
	}
	var ops, busy int64
	for i, f := range line.fields {
		by := line.values[i] - l.old[f]
		if by <= 0 {
			continue
		}
		l.old[f] = line.values[i]
		l.grown = append(l.grown, growth{f, by})
		d := &l.fields.fields[f]
		switch {
		case d.requests && (d.twin == noField || !set.has(d.twin)):
			ops += by
		case d.busy:
			busy += by
		}
	}
	if ops > 0 && !set.has(fieldOps) {
		l.grown = append(l.grown, growth{fieldOps, ops})
	}
	if busy > 0 && !set.has(fieldBusy) {
		l.grown = append(l.grown, growth{fieldBusy, busy})
	}
	return len(l.grown) > 0
}

// listed adds what a line tells of, at zero too: its ops always, its service time where it has any.
func (l *ledger) listed(set *fieldSet, line *epochLine) {
	for _, f := range line.fields {
		set.put(f)
		if l.fields.fields[f].busy {
			set.put(fieldBusy)
		}
	}
	set.put(fieldOps)
}

// spread adds what a line grew by to its series, and to the sums that the series is in.
func (l *ledger) spread(s *series, line *epochLine, server *server, known bool, now int64) {
	l.listed(&s.listed, line)
	since := sinceWhen(line, server, known)
	if s.created == 0 {
		s.created, s.first = now, line.time
		s.zero = l.zeroTime(line, server)
	}
	if from := line.epoch; plausible(from, line.time) {
		s.first = min(s.first, from)
	}
	at := line.time
	if plausible(line.snapshot, line.time) {
		at = line.snapshot
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
	s.changed = now
	s.shown.owed = true
	l.markSeries(s)
	p := s.place.total
	if p.zero == 0 && p.total == nil {
		p.zero = s.zero
	}
	for _, sum := range [...]*sum{p, s.user, s.account} {
		if sum != nil {
			l.addTo(sum, &s.listed, l.grown, now)
		}
	}
	s.total = grownBy(s.total, l.grown, l.fields.len())
	l.rate(s, since, line.time)
	if s.done {
		l.stats.late++
	}
}

// addTo adds to a sum.
func (l *ledger) addTo(sum *sum, listed *fieldSet, grown []growth, now int64) {
	for i := range listed {
		sum.listed[i] |= listed[i]
	}
	sum.total = grownBy(sum.total, grown, l.fields.len())
	sum.active = now
	sum.shown.owed = true
	if sum.marks&markDirty == 0 {
		sum.marks |= markDirty
		l.dirtySum = append(l.dirtySum, sum)
	}
}

func grownBy(total []int64, grown []growth, fields int) []int64 {
	if len(total) < fields {
		total = append(make([]int64, 0, fields), total...)[:fields]
	}
	for _, g := range grown {
		total[g.field] += g.by
	}
	return total
}

func (l *ledger) markSeries(s *series) {
	if s.marks&markDirty == 0 {
		s.marks |= markDirty
		l.dirty = append(l.dirty, s)
	}
}

// plausible tells whether a time is one of the wall clock, and not after a gather. Lustre 2.15.0 and 2.15.1 count from
// boot; the wall clock has been past 30 years for a while.
func plausible(at, gather int64) bool {
	const bootClock = 30 * 365 * 24 * int64(time.Hour)
	return at > bootClock && at <= gather
}

// sinceWhen tells from when on what a line shows was done: since the server's gather before, or since the life began if
// that was later. It is the line's own time if nothing is known.
func sinceWhen(line *epochLine, server *server, known bool) int64 {
	since := line.time
	if server.latest == line.time && server.before != 0 {
		since = server.before
	}
	switch start := line.epoch; {
	case known || !plausible(start, line.time):
	case since == line.time:
		since = start
	default:
		since = max(since, start)
	}
	return since
}

// zeroTime gives the time of the point of zeros before a new total: the later of the server's gather before and the
// life's start. Of what was there when the state began, nothing tells since when.
func (l *ledger) zeroTime(line *epochLine, server *server) int64 {
	start := line.epoch
	if !plausible(start, line.time) {
		start = 0
	}
	zero := start
	if server.latest == line.time {
		zero = max(start, server.before)
	}
	if zero < l.created && server.before == 0 || zero >= line.time {
		return 0
	}
	return zero
}

// find gives the series that a line is of, and the part of its ids. One that is not in memory is read from the store,
// or new; it stays in memory only once adopt says so.
func (l *ledger) find(p *place, line *epochLine) (s *series, part uint32, err error) {
	l.key, l.text = l.key[:0], l.text[:0]
	if len(line.job) > 0 {
		l.key = append(append(l.key, 'j'), line.job...)
		l.text = joined(l.text, line.uid, line.gid, line.exe, line.client)
	} else {
		l.key = append(append(append(append(l.key, 'p'), line.uid...), 0), line.exe...)
		l.text = joined(l.text, line.gid, line.client)
	}
	if s = p.series[string(l.key)]; s == nil && l.store != nil {
		if s, err = l.store.series(p, string(l.key), l); err != nil {
			return nil, 0, err
		}
	}
	if s == nil {
		s = &series{place: p, key: string(l.key)}
	}
	for i, have := range s.parts {
		if have == string(l.text) {
			return s, uint32(i), nil
		}
	}
	s.parts = append(s.parts, string(l.text))
	return s, uint32(len(s.parts) - 1), nil
}

// joined joins texts such that others never give the same; none give none.
func joined(b []byte, texts ...[]byte) []byte {
	for i, text := range texts {
		if len(text) > 0 {
			b = append(append(append(b, byte('a'+i)), text...), 0)
		}
	}
	return b
}

// adopt keeps a series in memory.
func (l *ledger) adopt(s *series) {
	if s.marks&markAdopted != 0 {
		return
	}
	if s.id == 0 {
		l.lastID++
		s.id = l.lastID
	}
	s.marks |= markAdopted
	s.place.series[s.key] = s
	l.memory++
	if s.who == nil {
		l.unknown = append(l.unknown, s)
	}
}

// job gives the job that a series is named after, as Lustre has it; ok is false for processes of a login node.
func (s *series) job() (name string, ok bool) {
	if s.key[0] != 'j' {
		return "", false
	}
	return s.key[1:], true
}

// process gives the user and the program that a series is of.
func (s *series) process() (uid, exe string) {
	uid, exe, _ = strings.Cut(s.key[1:], "\x00")
	return uid, exe
}

// appendValues appends the fields that are not 0: how far each is from the one before, and its value.
func appendValues(b []byte, values []int64) []byte {
	last := -1
	for i, v := range values {
		if v == 0 {
			continue
		}
		b = append(b, byte(i-last))
		b = binary.AppendUvarint(b, uint64(v))
		last = i
	}
	return b
}

// readValues reads what appendValues appended. It tells whether it was that.
func readValues(record string, values []int64) bool {
	field := -1
	for i := 0; i < len(record); {
		field += int(record[i])
		v, shift := uint64(0), 0
		for i++; ; i++ {
			if i >= len(record) || shift > 63 {
				return false
			}
			v |= uint64(record[i]&0x7f) << shift
			shift += 7
			if record[i] < 0x80 {
				break
			}
		}
		i++
		if field < 0 || field >= len(values) {
			return false
		}
		values[field] = int64(v)
	}
	return true
}
