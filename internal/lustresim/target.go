package lustresim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxID is LUSTRE_JOBID_SIZE without its NUL.
const maxID = 31

// Why an entry's life ended, and what a Reset was.
const (
	WhyExpired = "expired"
	WhyClear   = "clear"
	WhyDrop    = "drop"
	WhyRemount = "remount"
	// WhyInterval is a changed job_cleanup_interval, a Reset only.
	WhyInterval = "interval"
)

// Target is the job_stats of one target: a hash of job ids, and a list of
// entries in the order of their creation.
type Target struct {
	// OnEnd, if set, is called when an entry leaves the list for good.
	OnEnd func(EndedLife)

	name    string
	kind    Kind
	era     Era
	ops     []OpInfo
	opIndex map[string]int
	lines   []line
	server  *Server

	interval    int64 // ns, whole seconds as the kernel keeps it; 0 is never
	lastCleanup int64 // on the era's clock
	headerDue   bool  // OJS_HEADER
	mount       int   // counts mounts
	hash        map[string]*entry
	list        []*entry
	free        []*entry // ended entries, to be used again

	jobs   map[string]*job
	lives  uint64
	resets []Reset
	shown  []Shown // of Poll
	totals []Count // of OnEnd
}

// entry is struct job_stat.
type entry struct {
	id       string
	life     uint64
	job      *job
	born     int64 // js_time_init
	latest   int64 // js_time_latest
	refs     int   // beside the hash's own
	hashed   bool
	mount    int
	why      string // set when it leaves the hash
	died     int64
	counters []counter
	hist     []histogram
	read     []Count // what a reading last showed
}

// NewTarget makes an empty target, mounted at now. Its name is FS-OST0000 or
// FS-MDT0000 with the index in hexadecimal. The clean-up interval counts in
// whole seconds; 0 means that nothing ever expires.
func NewTarget(fs string, k Kind, index int, era Era, interval time.Duration, now int64) *Target {
	t := &Target{
		name:    fmt.Sprintf("%s-%s%04x", fs, strings.ToUpper(string(k)), index),
		kind:    k,
		era:     era,
		ops:     era.Ops(k),
		opIndex: map[string]int{},
		// A server of its own, up for a day, until one is attached.
		server: &Server{BootedAt: now - int64(24*time.Hour)},
		jobs:   map[string]*job{},
	}
	for i, op := range t.ops {
		t.opIndex[op.Name] = i
	}
	t.lines = newLines(era, t.ops)
	t.totals = make([]Count, len(t.ops))
	t.interval = t.stored(interval)
	t.start(now)
	return t
}

// Name is the target's name, such as "lustre-OST0000".
func (t *Target) Name() string { return t.name }

// Kind is the kind of the target.
func (t *Target) Kind() Kind { return t.kind }

// Era is what the target's Lustre version does.
func (t *Target) Era() Era { return t.era }

// Interval is job_cleanup_interval as a read of it shows.
func (t *Target) Interval() time.Duration { return time.Duration(t.interval) }

// Len is the number of entries in the file now.
func (t *Target) Len() int { return len(t.list) }

// Lives is the number of entries ever made.
func (t *Target) Lives() uint64 { return t.lives }

// start is lprocfs_job_stats_init.
func (t *Target) start(now int64) {
	t.mount++
	t.hash = map[string]*entry{}
	t.list = nil
	t.headerDue = false
	t.lastCleanup = t.clock(now)
}

// clock is now as the era's kernel sees it.
func (t *Target) clock(now int64) int64 {
	switch t.era.clock {
	case bootNanos:
		return now - t.server.BootedAt
	case wallNanos:
		return now + int64(t.server.Skew)
	default:
		now += int64(t.server.Skew)
		return now - now%int64(time.Second)
	}
}

// stored is an interval as the kernel keeps it.
func (t *Target) stored(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if t.era.halved {
		seconds -= seconds % 2
	}
	return seconds * int64(time.Second)
}

// Op is lprocfs_job_stats_log: one operation that took or moved value (usecs
// or bytes; ignored by a counter without a sum). A job id is cut to 31 bytes,
// and an empty one is not counted. The only error is an operation that the
// era's entries do not have.
func (t *Target) Op(now int64, jobid, op string, value uint64) error {
	i, ok := t.opIndex[op]
	if !ok {
		return t.unknownOp(op)
	}
	t.op(now, jobid, i, value)
	return nil
}

func (t *Target) unknownOp(op string) error {
	return fmt.Errorf("%s: no operation %q on an %s of era %s", t.name, op, t.kind, t.era.Name)
}

func (t *Target) op(now int64, jobid string, i int, value uint64) {
	if e := t.touch(now, jobid); e != nil {
		e.count(i)
		t.add(e, i, value)
	}
}

// InFlight is an operation whose sample is counted and whose value is not.
type InFlight struct {
	t     *Target
	e     *entry
	op    int
	value uint64
}

// Begin is the first half of Op, up to where lprocfs_counter_add has counted
// the sample. The operation holds its entry: one that leaves the hash
// meanwhile stays in the file until Finish, beside a new one of the same id.
// A job id that is not counted gives nil, which Finish accepts.
func (t *Target) Begin(now int64, jobid, op string, value uint64) (*InFlight, error) {
	i, ok := t.opIndex[op]
	if !ok {
		return nil, t.unknownOp(op)
	}
	return t.begin(now, jobid, i, value), nil
}

func (t *Target) begin(now int64, jobid string, i int, value uint64) *InFlight {
	e := t.touch(now, jobid)
	if e == nil {
		return nil
	}
	e.refs++
	e.count(i)
	return &InFlight{t: t, e: e, op: i, value: value}
}

// Finish is the second half: the value counts and the entry is let go. What
// was in flight over a remount is lost.
func (f *InFlight) Finish() {
	if f == nil || f.e.mount != f.t.mount {
		return
	}
	f.t.add(f.e, f.op, f.value)
	f.t.put(f.e)
}

// touch finds or makes the entry of an id and sets its time.
func (t *Target) touch(now int64, jobid string) *entry {
	c := t.clock(now)
	if t.era.cleanEveryOp {
		t.cleanUp(c, false)
	}
	id := cutID(jobid)
	if id == "" {
		return nil
	}
	e := t.hash[id]
	if e == nil {
		if !t.era.cleanEveryOp {
			t.cleanUp(c, false)
		}
		e = t.newEntry(id, c)
	}
	e.latest = c
	return e
}

// cutID is an id as the kernel holds it, in a field of 32 bytes with a NUL.
func cutID(id string) string {
	if i := strings.IndexByte(id, 0); i >= 0 {
		id = id[:i]
	}
	return id[:min(len(id), maxID)]
}

func (t *Target) newEntry(id string, c int64) *entry {
	e := t.blankEntry()
	t.lives++
	e.id, e.life, e.job = id, t.lives, t.jobOf(id)
	e.born, e.hashed, e.mount = c, true, t.mount
	e.job.lives++
	t.hash[id] = e
	t.list = append(t.list, e)
	return e
}

func (t *Target) blankEntry() *entry {
	if n := len(t.free); n > 0 {
		e := t.free[n-1]
		t.free = t.free[:n-1]
		clear(e.hist)
		clear(e.read)
		*e = entry{counters: e.counters, hist: e.hist, read: e.read}
		return e.reset()
	}
	hists := 0
	for _, op := range t.ops {
		if op.hist {
			hists++
		}
	}
	e := &entry{
		counters: make([]counter, len(t.ops)),
		hist:     make([]histogram, hists),
		read:     make([]Count, len(t.ops)),
	}
	return e.reset()
}

func (e *entry) reset() *entry {
	for i := range e.counters {
		e.counters[i] = counter{min: minInit}
	}
	return e
}

// count and add are the two halves of lprocfs_counter_add.
func (e *entry) count(i int) {
	e.counters[i].count++
	e.job.total[i].Samples++
}

func (t *Target) add(e *entry, i int, value uint64) {
	if !t.ops[i].HasSum {
		return
	}
	c := &e.counters[i]
	c.sum += value
	c.min = min(c.min, value)
	c.max = max(c.max, value)
	if t.ops[i].sumsq {
		c.sumsq += value * value
	}
	e.job.total[i].Sum += value
	if t.ops[i].hist {
		e.hist[t.histIndex(i)][bucket(value)]++
	}
}

// histIndex is the place of counter i among those with a histogram.
func (t *Target) histIndex(i int) int {
	n := 0
	for _, op := range t.ops[:i] {
		if op.hist {
			n++
		}
	}
	return n
}

// cleanUp is lprocfs_job_cleanup, at c on the era's clock.
func (t *Target) cleanUp(c int64, force bool) {
	if t.interval == 0 {
		return
	}
	period := t.interval
	if !t.era.cleanEveryOp {
		period = t.interval / int64(time.Second) / 2 * int64(time.Second)
	}
	if !force && c < t.lastCleanup+period {
		return
	}
	oldest := c - t.interval
	t.drop(c, WhyExpired, func(e *entry) bool { return e.latest < oldest })
	t.lastCleanup = c
}

// drop takes the entries that match out of the hash, and those that nothing
// holds out of the list.
func (t *Target) drop(c int64, why string, match func(*entry) bool) {
	keep := t.list[:0]
	for _, e := range t.list {
		if e.hashed && match(e) {
			t.unhash(e, c, why)
		}
		if e.hashed || e.refs > 0 {
			keep = append(keep, e)
			continue
		}
		t.end(e)
	}
	clear(t.list[len(keep):])
	t.list = keep
}

func (t *Target) unhash(e *entry, c int64, why string) {
	e.hashed, e.why, e.died = false, why, c
	// In the tree of 2.17 an entry is found as long as something holds it.
	if t.era.walk != walkPosition || e.refs == 0 {
		delete(t.hash, e.id)
	}
}

// put lets go of an entry.
func (t *Target) put(e *entry) {
	e.refs--
	if e.refs > 0 || e.hashed {
		return
	}
	if t.hash[e.id] == e {
		delete(t.hash, e.id)
	}
	at := t.position(e.life)
	t.list = slices.Delete(t.list, at, at+1)
	t.end(e)
}

// position is the place in the list of the first entry from a life on.
func (t *Target) position(life uint64) int {
	at, _ := slices.BinarySearchFunc(t.list, life, func(e *entry, life uint64) int {
		switch {
		case e.life < life:
			return -1
		case e.life > life:
			return 1
		default:
			return 0
		}
	})
	return at
}

// Clear is "echo clear > job_stats".
func (t *Target) Clear(now int64) {
	c := t.clock(now)
	t.headerDue = true // The write, too, opens the file.
	t.note(now, WhyClear)
	oldest := c - t.interval
	t.drop(c, WhyClear, func(e *entry) bool { return !t.era.clearSparesRecent || e.latest < oldest })
	if !t.era.cleanEveryOp {
		t.lastCleanup = c
	}
}

// Drop is the writing of one id to job_stats. It says whether there was such
// an entry.
func (t *Target) Drop(now int64, jobid string) bool {
	c := t.clock(now)
	t.headerDue = true
	e := t.hash[cutID(jobid)]
	if e != nil {
		t.note(now, WhyDrop)
		t.drop(c, WhyDrop, func(other *entry) bool { return other == e })
	}
	t.release(c)
	return e != nil
}

// release is lprocfs_jobstats_seq_release, the close of the file.
func (t *Target) release(c int64) {
	if !t.era.cleanEveryOp {
		t.cleanUp(c, false)
	}
}

// SetInterval is the writing of job_cleanup_interval, which runs a clean-up.
func (t *Target) SetInterval(now int64, d time.Duration) {
	t.note(now, WhyInterval)
	t.interval = t.stored(d)
	t.cleanUp(t.clock(now), t.era.cleanEveryOp)
}

// Remount is an unmount and a mount: all from zero. A Reader that is open
// reads no more.
func (t *Target) Remount(now int64) {
	t.note(now, WhyRemount)
	t.empty(now)
}

func (t *Target) empty(now int64) {
	c := t.clock(now)
	for _, e := range t.list {
		if e.hashed {
			e.why, e.died = WhyRemount, c
		}
		t.end(e)
	}
	t.start(now)
}

func (t *Target) note(now int64, what string) {
	t.resets = append(t.resets, Reset{At: now, What: what})
}
