package jobstats

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/lustresim"
)

var lives = flag.Int("lives", 1000000, "entry lives to simulate in TestExact, over all eras; a fiftieth with -short")

// agent polls the targets of one server, as the plugin does.
type agent struct {
	t       *testing.T
	dir     string
	rng     *rand.Rand
	ledgers map[string]*Ledger
	here    map[string]bool
	last    int64
	life    map[string]map[string]uint64 // the life that the latest reading of a target and id showed
	tally   *tally
	take    func(target string, p *Point)
	buf     []byte
	opts    Options
}

// tally compares decisions with the truth.
type tally struct {
	decisions [RuleAbsent + 1]int
	wrong     [RuleAbsent + 1]int
	undecided int
	emitted   map[string]map[string]map[string]int64 // server and target, job, field: the latest total
}

func (a *agent) ledger(name string) *Ledger {
	l := a.ledgers[name]
	if l == nil {
		o := a.opts
		o.Dir = a.dir + "/" + name
		var warnings []error
		var err error
		l, warnings, err = Open(o)
		require.NoError(a.t, err)
		require.Empty(a.t, warnings)
		a.ledgers[name] = l
	}
	return l
}

// kill ends the agent as kill -9 does: nothing is folded, closed or said.
func (a *agent) kill() {
	for name, l := range a.ledgers {
		require.NoError(a.t, l.store.close())
		delete(a.ledgers, name)
	}
	a.here = map[string]bool{}
	a.last = 0
}

// away lists the targets that have a state and are not here.
func (a *agent) away(here map[string]bool) (names []string) {
	for name := range a.life {
		if !here[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *agent) poll(now int64, s *lustresim.Server) {
	here := map[string]bool{}
	for _, target := range s.Targets {
		here[target.Name()] = true
		l := a.ledger(target.Name())
		if !a.here[target.Name()] && a.last != 0 {
			l.Remounted()
		}
		var shown []lustresim.Shown
		a.buf, shown = target.Poll(now, a.buf[:0])
		shownNow := map[string]uint64{}
		for _, sh := range shown {
			shownNow[target.Era().Visible(sh.JobID)] = sh.Life
		}
		before := a.life[target.Name()]
		if before == nil {
			before = map[string]uint64{}
			a.life[target.Name()] = before
		}
		l.decided = func(id string, s *sighting) { a.tally.judge(a.t, target, id, s, before[id], shownNow[id]) }
		since := max(l.LastPass(), a.last)
		st, err := l.Gather(bytes.NewReader(a.buf), time.Unix(0, now), since, target.Interval())
		require.NoError(a.t, err)
		require.Empty(a.t, st.Errors)
		for id, life := range shownNow {
			before[id] = life
		}
		a.tally.undecided += st.Undecided
		l.Emit(func(p *Point) { a.take(s.Name+" "+target.Name(), p) })
	}
	for _, name := range a.away(here) {
		l := a.ledger(name)
		l.Away(time.Unix(0, now))
		l.Emit(func(p *Point) { a.take(s.Name+" "+name, p) })
	}
	a.here, a.last = here, now
	if a.rng.IntN(400) == 0 {
		a.kill()
	}
}

// judge compares a decision with the life that the simulator says was shown. A wrong one must be of the last rule, or be
// what a clear or a remount hides from rule 3.
func (y *tally) judge(t *testing.T, target *lustresim.Target, id string, s *sighting, before, now uint64) {
	y.decisions[s.rule]++
	if s.restarted == (before != now) {
		return
	}
	y.wrong[s.rule]++
	hidden := s.rule == RuleInterval && slices.ContainsFunc(target.Resets(), func(r lustresim.Reset) bool {
		return r.At > s.prev.Snapshot && r.At <= s.now.Snapshot+int64(time.Second)
	})
	if s.rule != RuleGap && !hidden {
		t.Errorf("%s %q: rule %d says restarted=%v, lives %d, %d: %+v", target.Name(), id, s.rule, s.restarted, before, now, s)
	}
}

func (y *tally) take(t *testing.T, target string, p *Point) {
	if p.What != Total {
		return
	}
	jobs := y.emitted[target]
	if jobs == nil {
		jobs = map[string]map[string]int64{}
		y.emitted[target] = jobs
	}
	fields := jobs[p.Labels.Job]
	if fields == nil {
		fields = map[string]int64{}
		jobs[p.Labels.Job] = fields
	}
	for _, f := range p.Fields {
		if f.Value < fields[f.Name] { // Asked a billion times: require is too slow here.
			t.Fatalf("%s %s %s fell from %d to %d", target, p.Labels.Job, f.Name, fields[f.Name], f.Value)
		}
		fields[f.Name] = f.Value
	}
}

// truth adds up what an agent that sees everything reports, as fields.
func truth(w *lustresim.Workload) map[string]map[string]map[string]int64 {
	all := map[string]map[string]map[string]int64{}
	for _, target := range w.Targets() {
		jobs := map[string]map[string]int64{}
		all[target.Name()] = jobs
		units := map[string]string{}
		for _, op := range target.Era().Ops(target.Kind()) {
			units[op.Name] = op.Unit
		}
		for id, job := range target.Truth() {
			shown := DisplayJobID(target.Era().Visible(id))
			if jobs[shown] == nil {
				jobs[shown] = map[string]int64{}
			}
			for name, c := range job.Ops {
				op := newOp(name, units[name])
				jobs[shown][op.Count] += int64(c.Samples) - int64(job.Unread[name].Samples)
				if op.Sum != "" {
					jobs[shown][op.Sum] += int64(c.Sum) - int64(job.Unread[name].Sum)
				}
			}
		}
	}
	return all
}

func TestExact(t *testing.T) {
	if testing.Short() {
		*lives /= 50
	}
	for _, era := range lustresim.Eras() {
		t.Run(era.Name, func(t *testing.T) { exact(t, era, *lives/len(lustresim.Eras())) })
	}
}

func exact(t *testing.T, era lustresim.Era, want int) {
	w := workload(t, era)
	y := &tally{emitted: map[string]map[string]map[string]int64{}}
	agents := agentsOf(t, w, y, func(o *Options) { o.Totals = true })
	for _, a := range agents {
		a.take = func(target string, p *Point) { y.take(t, target, p) }
	}
	for w.Lives() < uint64(want) {
		w.Run(w.Now()+int64(time.Hour), func(now int64, s *lustresim.Server) { agents[s.Name].poll(now, s) })
	}
	for _, s := range w.Servers() {
		agents[s.Name].poll(w.Now()+1, s)
	}
	got := overServers(y.emitted)
	wrong, all, off := compare(t, truth(w), got)
	t.Logf("%d lives; decisions by rule 0 to 9: %v, wrong: %v", w.Lives(), y.decisions, y.wrong)
	t.Logf("%d of %d fields wrong, %.5f%% of all that was counted; %d undecided", wrong, all, 100*off, y.undecided)
	if era.HasStartTime() {
		require.Zero(t, wrong)
		require.Zero(t, y.undecided)
	}
	require.Less(t, off, 0.005)
}

func workload(t *testing.T, era lustresim.Era) *lustresim.Workload {
	w, err := lustresim.NewWorkload(lustresim.WorkloadConfig{
		Seed: 7, Era: era, FS: "lustre", OSTs: 3, MDTs: 1, Jobs: 60, Interval: 600 * time.Second,
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(),
		Login: 0.2, Odd: 0.1, ClearEvery: 6 * time.Hour, RemountEvery: 8 * time.Hour, FailoverEvery: 5 * time.Hour,
		PollMin: 20 * time.Second, PollMax: 200 * time.Second,
	})
	require.NoError(t, err)
	return w
}

// agentsOf makes an agent for each server.
func agentsOf(t *testing.T, w *lustresim.Workload, y *tally, change func(o *Options)) map[string]*agent {
	agents := map[string]*agent{}
	for i, s := range w.Servers() {
		o := Options{
			Host: s.Name, Patterns: wholeID(t), MaxJobs: 200000, ForgetAfter: 1000 * time.Hour, Refresh: 4 * time.Minute,
			SyncInterval: 1000 * time.Hour, // No power is cut here.
		}
		change(&o)
		agents[s.Name] = &agent{
			t: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(uint64(i), 5)), ledgers: map[string]*Ledger{}, here: map[string]bool{},
			tally: y, life: map[string]map[string]uint64{}, opts: o,
		}
	}
	return agents
}

// Any one line may be lost, lines may come twice and in any order, agents are killed, targets fail over and back: once a
// repeat has come through, the epochs add up to the truth.
func TestEpochLines(t *testing.T) {
	for _, name := range []string{"2.15.0", "2.15.6", "2.17"} {
		t.Run(name, func(t *testing.T) {
			era, err := lustresim.EraNamed(name)
			require.NoError(t, err)
			w := workload(t, era)
			agents := agentsOf(t, w, &tally{}, func(o *Options) { o.RepeatFor = 2 * time.Hour })
			c := central{rng: rand.New(rand.NewPCG(9, 9)), lost: map[string]bool{}}
			for _, a := range agents {
				a.take = c.send
			}
			poll := func(now int64, s *lustresim.Server) { agents[s.Name].poll(now, s) }
			for w.Lives() < 4000 {
				w.Run(w.Now()+int64(time.Hour), poll)
			}
			for now := w.Now() + 1; now < w.Now()+int64(3*time.Hour); now += int64(time.Minute) {
				for _, s := range w.Servers() {
					poll(now, s) // Nothing happens any more but repeats.
				}
			}
			wrong, all, _ := compare(t, truth(w), c.merge())
			t.Logf("%d lines, %d lost, %d of %d fields wrong", c.sent, c.dropped, wrong, all)
			require.Zero(t, wrong)
			require.Greater(t, c.dropped, c.sent/5)
		})
	}
}

// central takes the lines of epochs, and loses some.
type central struct {
	rng           *rand.Rand
	lost          map[string]bool // of an epoch: whether its latest line was lost
	lines         []epochLine
	sent, dropped int
}

type epochLine struct {
	target, job string
	epoch       int64
	fields      []Field
}

func (c *central) send(target string, p *Point) {
	_, target, _ = strings.Cut(target, " ")
	line := epochLine{target, p.Labels.Job, p.Epoch, slices.Clone(p.Fields)}
	key := fmt.Sprint(target, " ", line.job, " ", p.Epoch)
	c.sent++
	if c.lost[key] = !c.lost[key] && c.rng.IntN(3) == 0; c.lost[key] {
		c.dropped++
		return
	}
	for range 1 + c.rng.IntN(2) {
		c.lines = append(c.lines, line)
	}
}

// merge adds up the epochs: of each, the most that any line says.
func (c *central) merge() map[string]map[string]map[string]int64 {
	c.rng.Shuffle(len(c.lines), func(i, j int) { c.lines[i], c.lines[j] = c.lines[j], c.lines[i] })
	type key struct {
		target, job, field string
		epoch              int64
	}
	most := map[key]int64{}
	for _, l := range c.lines {
		for _, f := range l.fields {
			k := key{l.target, l.job, f.Name, l.epoch}
			most[k] = max(most[k], f.Value)
		}
	}
	sum := map[string]map[string]map[string]int64{}
	for k, v := range most {
		if sum[k.target] == nil {
			sum[k.target] = map[string]map[string]int64{}
		}
		if sum[k.target][k.job] == nil {
			sum[k.target][k.job] = map[string]int64{}
		}
		sum[k.target][k.job][k.field] += v
	}
	return sum
}

// overServers adds up what the servers report: each has its own totals of a target that moves between them.
func overServers(emitted map[string]map[string]map[string]int64) map[string]map[string]map[string]int64 {
	sum := map[string]map[string]map[string]int64{}
	for key, jobs := range emitted {
		_, target, _ := strings.Cut(key, " ")
		if sum[target] == nil {
			sum[target] = map[string]map[string]int64{}
		}
		for job, fields := range jobs {
			if sum[target][job] == nil {
				sum[target][job] = map[string]int64{}
			}
			for f, v := range fields {
				sum[target][job][f] += v
			}
		}
	}
	return sum
}

// compare counts the fields that are not the truth, and by what share of all they are off.
func compare(t *testing.T, truth, got map[string]map[string]map[string]int64) (wrong, all int, off float64) {
	var missed, sum float64
	for target, jobs := range truth {
		for job, fields := range jobs {
			for f, v := range fields {
				all++
				sum += float64(v)
				d := got[target][job][f] - v
				if d == 0 {
					continue
				}
				if wrong++; wrong <= 3 {
					t.Logf("%s %q %s: got %d, truth %d", target, job, f, got[target][job][f], v)
				}
				missed += math.Abs(float64(d))
			}
		}
	}
	require.NotZero(t, all)
	return wrong, all, missed / sum
}
