package condor_q

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/users"
	"telegraf-hpc/internal/version"
)

// self is what the plugin tells of itself. The numbers are of the gather, but for errors.
type self struct {
	commands int64
	elapsed  time.Duration
	cpu      time.Duration
	bytes    int64
	errors   int64 // since the start
}

// Gather asks all pools, each with its schedds at the same time, and then tells of all of them. What a command does not
// tell is left out; the others go on.
func (p *CondorQ) Gather(acc telegraf.Accumulator) error {
	o := &out{acc: acc, now: p.now()}
	p.self = self{errors: p.self.errors}
	details := p.details(o.now)
	answers := make([]*poolAnswer, len(p.pools))
	work := make([]func(), len(p.pools))
	for i, pool := range p.pools {
		work[i] = func() { answers[i] = p.askPool(pool, o.now, details) }
	}
	p.parallel(work)
	p.tell(o, answers)
	p.addSelf(o, p.now().Sub(o.now))
	return nil
}

// details tells what is to be asked of each job.
func (p *CondorQ) details(now time.Time) (d jobDetail) {
	if p.collects("queue", "wait") {
		d |= jobCounts
	}
	if p.collects("user") {
		d |= jobCounts | jobUsers
	}
	if p.collects("hold") {
		d |= jobCounts | jobHolds
	}
	if p.collects("job") && p.due("job", time.Duration(p.JobInterval), now) {
		d |= jobCounts | jobIDs
	}
	return d
}

// due tells whether a group with an interval of its own is to be asked for now.
func (p *CondorQ) due(group string, interval time.Duration, now time.Time) bool {
	// Telegraf's ticks are a little early or late.
	if age := now.Sub(p.schedule[group]); age >= 0 && age < interval-time.Second {
		return false
	}
	p.schedule[group] = now
	return true
}

// parallel does all of the work, and returns when it is done. How many commands run at once is up to ask.
func (p *CondorQ) parallel(work []func()) {
	var all sync.WaitGroup
	for _, do := range work {
		all.Go(do)
	}
	all.Wait()
}

// ask runs a command and has its output read.
func (p *CondorQ) ask(consume func(io.Reader) error, name string, args ...string) error {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	counted := &countingReader{}
	result, err := p.run(p.ctx, func(r io.Reader) error {
		counted.r = r
		return consume(counted)
	}, name, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.self.commands++
	p.self.elapsed += result.Elapsed
	p.self.cpu += result.CPU
	p.self.bytes += counted.n
	return err
}

// askIn is ask of a pool's collector or negotiator.
func (p *CondorQ) askIn(pool *pool, consume func(io.Reader) error, name string, args ...string) error {
	if pool.address != "" {
		args = slices.Concat([]string{"-pool", pool.address}, args)
	}
	return p.ask(consume, name, args...)
}

// read is ask for a short text.
func (p *CondorQ) read(name string, args ...string) (string, error) {
	var text bytes.Buffer
	err := p.ask(func(r io.Reader) error {
		_, err := text.ReadFrom(r)
		return err
	}, name, args...)
	return text.String(), err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func isMissing(err error) bool { return errors.Is(err, command.ErrNotFound) }

// tell emits what was asked for.
func (p *CondorQ) tell(o *out, answers []*poolAnswer) {
	if p.ctx.Err() != nil {
		return // We are told to stop: what failed failed by that.
	}
	names := p.userNames(answers)
	for _, answer := range answers {
		if answer.absent {
			if p.said.First("htcondor", "absent") {
				p.Log.Info("There is no HTCondor on this host; looking again at each gather")
			}
			continue
		}
		p.said.Mend("htcondor")
		o.pool = answer.tag
		p.tellFailures(o, answer.pool, answer.fails)
		p.tellPool(o, answer)
		for _, s := range answer.schedds {
			p.tellFailures(o, answer.pool, s.fails)
			p.tellSchedd(o, answer, s, names)
		}
	}
}

// tellFailures hands on each error once; a subject without one is well again.
func (p *CondorQ) tellFailures(o *out, pool *pool, fails []failure) {
	for _, f := range fails {
		subject := pool.tag + " " + f.subject
		if f.err == nil {
			p.said.Mend(subject)
			continue
		}
		p.self.errors++
		err := f.err
		if pool.address != "" {
			err = fmt.Errorf("pool %q: %w", pool.address, err)
		}
		p.said.Fail(o.acc, subject, err)
	}
}

func (p *CondorQ) tellPool(o *out, answer *poolAnswer) {
	if answer.tag == "" {
		return // Nobody knows which pool it is.
	}
	o.add("condor_pool", nil, map[string]any{"up": flag(answer.up)})
	if answer.slots != nil {
		for key, sum := range answer.slots {
			o.add("condor_slots", key.tags(p.PartitionAttribute), sum.fields())
		}
		for _, key := range series.Gone(&answer.shownSlots, o.now.Unix(), answer.slots) {
			o.add("condor_slots", key.tags(p.PartitionAttribute), new(slotSum).fields())
		}
	}
	for _, m := range answer.managers {
		o.add("condor_negotiator", map[string]string{"negotiator": m.name}, m.fields)
	}
	p.tellPriorities(o, answer.prios)
}

func (k slotKey) tags(partition string) map[string]string {
	tags := map[string]string{"state": series.Known(k.state), "type": series.Known(k.kind)}
	if partition != "" {
		tags["partition"] = series.Known(k.partition)
	}
	return tags
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// tellPriorities tells of groups, and of those submitters who use most.
func (p *CondorQ) tellPriorities(o *out, prios []priority) {
	weights := make(map[string]weight)
	for _, r := range prios {
		if !r.isGroup {
			weights[r.name] = weight{r.weightedUsed, r.weightedUsage}
		}
	}
	names := users.Heaviest(&p.users, weights, weight.compare, p.MaxUsers)
	for _, r := range prios {
		tags := map[string]string{"by": "group", "group": series.Known(r.group)}
		if r.isGroup {
			if r.name != "<none>" {
				tags["group"] = r.name
			}
		} else {
			name := names[r.name]
			if name == "" || name == users.Others {
				continue // Priorities have no sum.
			}
			tags["by"], tags["submitter"] = "submitter", name
		}
		o.add("condor_userprio", tags, r.fields())
	}
}

// tellSchedd tells of one schedd.
func (p *CondorQ) tellSchedd(o *out, pool *poolAnswer, s *scheddAnswer, names map[string]string) {
	o.schedd = s.name
	defer func() { o.schedd = "" }()
	if p.collects("schedd") {
		fields := make(map[string]any, len(s.numbers)+1)
		for name, value := range s.numbers {
			fields[name] = value
		}
		if s.asked || pool.up { // Without the collector nobody knows of the others.
			fields["up"] = flag(s.up)
		}
		o.add("condor_schedd", nil, fields)
	}
	for i, tally := range s.queues {
		if tally != nil {
			p.tellQueue(o, p.Queues[i].Name, tally)
		}
	}
	if s.tally != nil {
		p.tellUsers(o, s, names)
		p.tellHolds(o, s)
		p.tellJobs(o, s.tally.rows)
	}
	p.tellFinished(o, s.finished)
}

func (p *CondorQ) tellQueue(o *out, name string, tally *queueTally) {
	tags := func() map[string]string { return map[string]string{"queue": name} }
	if p.collects("queue") {
		fields := tally.fields()
		if tally.oldest != absent {
			fields["oldest_wait_seconds"] = tally.oldest
		}
		if tally.unmaterialized != absent {
			fields["unmaterialized"] = tally.unmaterialized
		}
		o.add("condor_queue", tags(), fields)
	}
	if !p.collects("wait") {
		return
	}
	tally.waits.Rows(p.bounds, tags, func(tags map[string]string, fields map[string]any) { o.add("condor_wait", tags, fields) })
}

// weight is what decides which users are shown by name where there are too many.
type weight struct{ first, second float64 }

func (w weight) compare(other weight) int {
	return cmp.Or(cmp.Compare(w.first, other.first), cmp.Compare(w.second, other.second))
}

// userNames gives the names under which users are shown: those with the most cores, and then the most jobs, in all pools
// have their own.
func (p *CondorQ) userNames(answers []*poolAnswer) map[string]string {
	weights := make(map[string]weight)
	for _, answer := range answers {
		for _, s := range answer.schedds {
			if s.tally == nil {
				continue
			}
			for key, sum := range s.tally.users {
				w := weights[key.user]
				weights[key.user] = weight{w.first + float64(sum.cpus), w.second + float64(sum.jobs())}
			}
		}
	}
	return users.Heaviest(&p.users, weights, weight.compare, p.MaxUsers)
}

func (p *CondorQ) tellUsers(o *out, s *scheddAnswer, names map[string]string) {
	if !p.collects("user") {
		return
	}
	shown := make(map[userKey]*amounts, len(s.tally.users))
	for key, sum := range s.tally.users {
		key.user = names[key.user]
		if key.user == users.Others {
			key.group = users.Others // Groups of theirs may have their names.
		}
		if shown[key] == nil {
			shown[key] = new(amounts)
		}
		shown[key].merge(sum)
	}
	for key, sum := range shown {
		o.add("condor_user", key.tags(), sum.userFields())
	}
	for _, key := range series.Gone(&s.shownUsers, o.now.Unix(), shown) {
		o.add("condor_user", key.tags(), new(amounts).userFields())
	}
}

func (k userKey) tags() map[string]string {
	tags := map[string]string{"group": series.Known(k.group)}
	if k.user != "" {
		tags["user"] = k.user
	}
	return tags
}

func (a *amounts) userFields() map[string]any {
	fields := a.fields()
	fields["runtime_seconds"] = a.runtime
	return fields
}

func (p *CondorQ) tellHolds(o *out, s *scheddAnswer) {
	if !p.collects("hold") {
		return
	}
	add := func(code, jobs, oldest int64) {
		tags := map[string]string{"code": series.Known(""), "reason": holdReason(code)}
		if code != absent {
			tags["code"] = strconv.FormatInt(code, 10)
		}
		fields := map[string]any{"jobs": jobs}
		if oldest != absent {
			fields["oldest_seconds"] = oldest
		}
		o.add("condor_hold", tags, fields)
	}
	for code, sum := range s.tally.holds {
		add(code, sum.jobs, sum.oldest)
	}
	for _, code := range series.Gone(&s.shownHolds, o.now.Unix(), s.tally.holds) {
		add(code, 0, 0)
	}
}

// tellJobs tells who each job is, at the second of the gather.
func (p *CondorQ) tellJobs(o *out, jobs []job) {
	r := newRows(o.acc, "condor_job", o.tags(nil))
	for i := range jobs {
		j := &jobs[i]
		j.user, _ = p.users.Name(j.user)
		r.fields.reset()
		j.fields(&r.fields)
		r.fields.add("state", j.status.String())
		r.fields.add("af_state", j.status.afState())
		r.fields.custom(p.custom, j.custom)
		r.emit(momentOf(o.now.Unix(), j))
	}
}

// tellFinished tells of jobs that left the queue, at the second of their end. A row that is emitted again is the same
// point.
func (p *CondorQ) tellFinished(o *out, jobs []finishedJob) {
	byState := make(map[jobStatus]*rows)
	for i := range jobs {
		j := &jobs[i]
		r := byState[j.status]
		if r == nil {
			r = newRows(o.acc, "condor_finished", o.tags(map[string]string{"state": j.status.String()}))
			byState[j.status] = r
		}
		j.user, _ = p.users.Name(j.user)
		r.fields.reset()
		j.fields(&r.fields, p.custom)
		r.emit(momentOf(j.done, &j.job))
	}
}

func (p *CondorQ) addSelf(o *out, took time.Duration) {
	o.pool = ""
	o.add("condor_q_self", nil, map[string]any{
		"version": version.String(), "commands": p.self.commands, "commands_seconds": p.self.elapsed.Seconds(),
		"commands_cpu_seconds": p.self.cpu.Seconds(), "bytes_read": p.self.bytes, "errors": p.self.errors,
		"gather_seconds": took.Seconds(),
	})
}

// out hands on the metrics of one gather.
type out struct {
	acc    telegraf.Accumulator
	now    time.Time
	pool   string
	schedd string
}

func (o *out) add(measurement string, tags map[string]string, fields map[string]any) {
	if len(fields) > 0 {
		o.acc.AddFields(measurement, fields, o.tags(tags), o.now)
	}
}

func (o *out) tags(tags map[string]string) map[string]string {
	if tags == nil {
		tags = make(map[string]string, 2)
	}
	if o.pool != "" {
		tags["pool"] = o.pool
	}
	if o.schedd != "" {
		tags["schedd"] = o.schedd
	}
	return tags
}
