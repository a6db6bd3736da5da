package lustresim

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// WorkloadConfig says what a Workload does. Equal configurations do the same.
type WorkloadConfig struct {
	Seed uint64
	Era  Era
	FS   string
	// OSTs and MDTs are the numbers of targets, Jobs of jobs that run at one
	// time: a job that ends makes room for a new one.
	OSTs, MDTs, Jobs int
	// Interval is job_cleanup_interval. The rhythm of the jobs follows it:
	// pauses are of 0.3 to 3 of it, and bursts short against it.
	Interval time.Duration
	// Start is the virtual time of the beginning (ns since the Unix epoch).
	Start int64
	// Login is the share of jobs that are processes of a login node, which
	// have ids like "bash.1003" and never end. Odd is the share of ids that
	// are hostile or just strange. Both are 0 to 1.
	Login, Odd float64
	// InFlight is the share of operations (0 to 1) of which a reading may see
	// the sample but not yet the sum.
	InFlight float64
	// ClearEvery, RemountEvery and FailoverEvery are the mean times between
	// two of these on some target; 0 is never.
	ClearEvery, RemountEvery, FailoverEvery time.Duration
	// PollMin and PollMax bound the time between two polls of an agent in Run.
	PollMin, PollMax time.Duration
}

// Workload is users on a file system of two servers.
type Workload struct {
	// BeforeReset, if set, is called just before a clear, remount or failover
	// of the Workload, with WhyClear or WhyRemount: the last moment to read.
	BeforeReset func(now int64, t *Target, what string)

	cfg     WorkloadConfig
	rng     *rand.Rand
	servers [2]*Server
	targets []*Target
	actions map[Kind][]action
	now     int64
	queue   events
	jobID   int
	polls   [2]int64
}

// action is one call of a client and the counters it moves.
type action []step

type step struct {
	op    int
	bytes bool
}

// user is a job, or a login process.
type user struct {
	id       string
	targets  []*Target
	login    bool
	bursts   int // still to come
	ops      int // still to come in this burst
	inFlight *InFlight
}

// event is something to do. Exactly one of user and reset is set.
type event struct {
	at    int64
	user  *user
	reset func(now int64)
	every time.Duration
}

// events is a heap by time.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// NewWorkload makes the servers, with every other target on the second, and
// the jobs, which start within the first interval.
func NewWorkload(c WorkloadConfig) (*Workload, error) {
	switch {
	case c.OSTs < 0 || c.MDTs < 0 || c.OSTs+c.MDTs == 0:
		return nil, fmt.Errorf("%d OSTs and %d MDTs: want at least one target", c.OSTs, c.MDTs)
	case c.Jobs < 1:
		return nil, fmt.Errorf("%d jobs: want at least one", c.Jobs)
	case c.Interval < 2*time.Second:
		return nil, fmt.Errorf("interval %s: want at least 2s", c.Interval)
	case c.PollMin < 0 || c.PollMax < c.PollMin:
		return nil, fmt.Errorf("polls every %s to %s: want a range", c.PollMin, c.PollMax)
	case c.FS == "":
		return nil, errors.New("no file system name")
	}
	day := int64(24 * time.Hour)
	w := &Workload{
		cfg:     c,
		rng:     rand.New(rand.NewPCG(c.Seed, 1)), //nolint:gosec // A simulation must repeat itself.
		servers: [2]*Server{NewServer("server0", c.Start-day), NewServer("server1", c.Start-9*day)},
		actions: map[Kind][]action{OST: actionsOf(c.Era.Ops(OST)), MDT: actionsOf(c.Era.Ops(MDT))},
		now:     c.Start,
		polls:   [2]int64{c.Start, c.Start},
	}
	w.addTargets(OST, c.OSTs)
	w.addTargets(MDT, c.MDTs)
	for range c.Jobs {
		w.push(event{at: w.now + w.rng.Int64N(int64(c.Interval)), user: w.newUser()})
	}
	w.addReset(c.ClearEvery, w.clear)
	w.addReset(c.RemountEvery, w.remount)
	w.addReset(c.FailoverEvery, w.failover)
	return w, nil
}

func (w *Workload) addTargets(k Kind, n int) {
	for i := range n {
		t := NewTarget(w.cfg.FS, k, i, w.cfg.Era, w.cfg.Interval, w.now)
		w.servers[len(w.targets)%2].Attach(w.now, t)
		w.targets = append(w.targets, t)
	}
}

func (w *Workload) addReset(every time.Duration, reset func(int64)) {
	if every > 0 {
		w.push(event{at: w.now + w.exponential(every), reset: reset, every: every})
	}
}

// Servers returns both servers. Which has which targets changes.
func (w *Workload) Servers() [2]*Server { return w.servers }

// Targets returns all targets, OSTs first, by index.
func (w *Workload) Targets() []*Target { return w.targets }

// Now is the virtual time reached.
func (w *Workload) Now() int64 { return w.now }

// Lives is the number of entries ever made on all targets.
func (w *Workload) Lives() uint64 {
	var n uint64
	for _, t := range w.targets {
		n += t.Lives()
	}
	return n
}

// Advance does all that happens up to a time.
func (w *Workload) Advance(to int64) {
	for len(w.queue) > 0 && w.queue[0].at <= to {
		e := &w.queue[0]
		w.now = e.at
		if e.user != nil {
			e.at += w.act(e.user)
		} else {
			e.reset(w.now)
			e.at += w.exponential(e.every)
		}
		heap.Fix(&w.queue, 0)
	}
	w.now = max(w.now, to)
}

// Skip lets time pass up to a time in which nobody does anything: all that
// would have happened happens later by as much.
func (w *Workload) Skip(to int64) {
	delay := max(0, to-w.now)
	for i := range w.queue {
		w.queue[i].at += delay
	}
	w.now += delay
}

// Run advances up to a time. On the way each server's agent polls, at random
// intervals of PollMin to PollMax: poll is to read the server's Targets.
func (w *Workload) Run(until int64, poll func(now int64, s *Server)) {
	for {
		i := 0
		if w.polls[1] < w.polls[0] {
			i = 1
		}
		if w.polls[i] > until {
			w.Advance(until)
			return
		}
		w.Advance(w.polls[i])
		poll(w.now, w.servers[i])
		w.polls[i] += max(1, int64(w.cfg.PollMin)+w.below(int64(w.cfg.PollMax-w.cfg.PollMin)))
	}
}

func (w *Workload) push(e event) { heap.Push(&w.queue, e) }

func (w *Workload) below(n int64) int64 { return w.rng.Int64N(n + 1) }

func (w *Workload) exponential(mean time.Duration) int64 {
	return 1 + int64(w.rng.ExpFloat64()*float64(mean))
}

// act does a user's next operation and returns the time to the one after.
func (w *Workload) act(u *user) int64 {
	u.inFlight.Finish()
	u.inFlight = nil
	if u.ops == 0 {
		w.newBurst(u)
	}
	t := u.targets[w.rng.IntN(len(u.targets))]
	actions := w.actions[t.kind]
	// Data first: most of what an OST does is reads and writes.
	a := actions[w.rng.IntN(len(actions))]
	if t.kind == OST && w.rng.IntN(4) > 0 {
		a = actions[w.rng.IntN(2)]
	}
	for i, s := range a {
		value := w.value(s.bytes)
		if i == len(a)-1 && u.ops > 1 && w.rng.Float64() < w.cfg.InFlight {
			u.inFlight = t.begin(w.now, u.id, s.op, value)
			continue
		}
		t.op(w.now, u.id, s.op, value)
	}
	u.ops--
	if u.ops > 0 {
		return w.exponential(w.cfg.Interval / 200)
	}
	return w.pause(u)
}

func (w *Workload) value(bytes bool) uint64 {
	if bytes {
		return 1 << w.rng.UintN(24) * (1 + w.rng.Uint64N(3))
	}
	return 1 + uint64(math.Exp(w.rng.Float64()*14))
}

// newBurst begins a burst: a few operations on a few targets.
func (w *Workload) newBurst(u *user) {
	u.ops = 1 + w.rng.IntN(8)
	u.targets = u.targets[:0]
	for range 1 + w.rng.IntN(3) {
		u.targets = append(u.targets, w.targets[w.rng.IntN(len(w.targets))])
	}
}

// pause returns the time between two bursts of 0.3 to 3 intervals, one in
// three of them close to when an entry goes. The job may have ended.
func (w *Workload) pause(u *user) int64 {
	if u.bursts--; u.bursts <= 0 && !u.login {
		*u = *w.newUser()
	}
	share := 0.3 + 2.7*w.rng.Float64()
	if w.rng.IntN(3) == 0 {
		share = 0.9 + 0.7*w.rng.Float64()
	}
	return int64(share * float64(w.cfg.Interval))
}

func (w *Workload) newUser() *user {
	u := &user{bursts: 1 + w.rng.IntN(8)}
	w.jobID++
	switch p := w.rng.Float64(); {
	case p < w.cfg.Login:
		exes := []string{"bash", "python3", "vim", "rsync", "sshd", "kworker"}
		u.login = true
		u.id = fmt.Sprintf("%s.%d", exes[w.rng.IntN(len(exes))], 1000+w.rng.IntN(50))
	case p < w.cfg.Login+w.cfg.Odd:
		u.id = w.oddID()
	default:
		u.id = strconv.Itoa(4000000 + w.jobID)
	}
	return u
}

// oddID is an id to break parsers, different from all before also where it is
// cut or its bytes are masked. Where ids are printed raw it has no newline:
// that forges text which no reader can tell from the truth.
func (w *Workload) oddID() string {
	odd := []string{
		"%d a b", "%d \"q\"", "- job_id: %d", "%d - x", "%d:x", "@%d", "%d/0:1", "'%d'", "{ %d }", "%d\\x41",
		"  snapshot_time:   %d", "job_stats:%d", "\xc3\xa9t\xc3\xa9%d", "\xff\xfe%d", "%d#", "%d, x",
		"%d-a-very-long-name-that-is-cut-at-31", "%d\t\x7f", "%d\nx", "%d\n- job_id: 1",
	}
	if w.cfg.Era.ids == idRaw {
		odd = odd[:len(odd)-2]
	}
	return fmt.Sprintf(odd[w.rng.IntN(len(odd))], w.jobID)
}

func (w *Workload) someTarget() *Target { return w.targets[w.rng.IntN(len(w.targets))] }

func (w *Workload) warn(now int64, t *Target, what string) {
	if w.BeforeReset != nil {
		w.BeforeReset(now, t, what)
	}
}

func (w *Workload) clear(now int64) {
	t := w.someTarget()
	w.warn(now, t, WhyClear)
	t.Clear(now)
}

func (w *Workload) remount(now int64) {
	t := w.someTarget()
	w.warn(now, t, WhyRemount)
	t.Remount(now)
}

func (w *Workload) failover(now int64) {
	t := w.someTarget()
	w.warn(now, t, WhyRemount)
	to := w.servers[0]
	if t.server == to {
		to = w.servers[1]
	}
	t.server.Failover(now, t, to)
}

// actionsOf pairs the counters that one call of a client moves together: bytes
// with their latency, and a kind of rename with the rename.
func actionsOf(ops []OpInfo) []action {
	partner := map[string]string{
		"read_bytes": "read", "write_bytes": "write", "samedir_rename": "rename", "crossdir_rename": "rename",
		"parallel_rename_file": "rename", "parallel_rename_dir": "rename",
	}
	index, isPartner := map[string]int{}, map[string]bool{}
	for i, op := range ops {
		index[op.Name] = i
		isPartner[partner[op.Name]] = true
	}
	var actions []action
	for i, op := range ops {
		if isPartner[op.Name] {
			continue
		}
		a := action{{op: i, bytes: op.HasSum && op.Unit != "usecs"}}
		if with, ok := index[partner[op.Name]]; ok {
			a = append(a, step{op: with})
		}
		actions = append(actions, a)
	}
	return actions
}
