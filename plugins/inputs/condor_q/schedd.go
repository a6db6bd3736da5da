package condor_q

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"telegraf-hpc/internal/statefile"
)

// askSchedd asks a schedd for its queue and for what left it. Where the first question fails, it is not asked another,
// but its history is on disk and can be read without it on its own host.
func (p *CondorQ) askSchedd(pool *pool, answer *scheddAnswer, details jobDetail) {
	target := p.target(pool, answer.name)
	answer.up = true // Unless a question fails.
	if details != 0 || p.collects("schedd") {
		tally, err := p.jobs(target, details)
		answer.up = answer.note("", err) == nil
		answer.tally = tally
	}
	if answer.up {
		p.askQueues(target, answer)
	}
	if p.collects("finished") && (answer.up || answer.name == pool.local) {
		_ = answer.note("history", p.askHistory(pool, target, answer))
	}
}

// target gives the arguments by which a command finds the schedd. This host's needs none.
func (p *CondorQ) target(pool *pool, name string) []string {
	if name == pool.local {
		return nil
	}
	target := []string{"-name", name}
	if pool.address != "" {
		target = append(target, "-pool", pool.address)
	}
	return target
}

// jobs makes the one pass over all jobs. Where nothing of them is asked for, it is only found out whether the schedd
// answers, and the tally is nil.
func (p *CondorQ) jobs(target []string, details jobDetail) (*jobTally, error) {
	if details == 0 {
		args := append([]string{"-all", "-totals", "-json"}, target...)
		return nil, p.ask(func(r io.Reader) error {
			return parseAds(r, newAttributes(), func(*ad) error { return nil })
		}, "condor_q", args...)
	}
	tally := newJobTally(p.bounds)
	err := p.eachJob(target, "", newJobColumns(details, p.custom...), func(j *job) { tally.add(j, details) })
	if err != nil {
		return nil, err
	}
	return tally, nil
}

// eachJob calls take for each job that a constraint holds for.
func (p *CondorQ) eachJob(target []string, constraint string, columns *jobColumns, take func(j *job)) error {
	return p.ask(func(r io.Reader) error {
		return parseAds(r, columns.attributes, func(a *ad) error {
			j := columns.read(a)
			take(&j)
			return nil
		})
	}, "condor_q", queryArgs(target, constraint, columns.attributes)...)
}

func queryArgs(target []string, constraint string, columns *attributes, more ...string) []string {
	args := append([]string{"-all", "-json", "-attributes", columns.list()}, more...)
	args = append(args, target...)
	if constraint != "" {
		args = append(args, "-constraint", constraint)
	}
	return args
}

// askQueues asks for the named queues. One without a constraint has all jobs.
func (p *CondorQ) askQueues(target []string, answer *scheddAnswer) {
	if !p.collects("queue", "wait") {
		return
	}
	answer.queues = make([]*queueTally, len(p.Queues))
	for i, q := range p.Queues {
		tally := answer.tally.queue
		var err error
		if q.Constraint != "" {
			tally = newQueueTally(p.bounds)
			err = p.eachJob(target, q.Constraint, newJobColumns(jobCounts), func(j *job) { tally.add(p.bounds, j) })
		}
		if err != nil {
			err = fmt.Errorf("queue %q: %w", q.Name, err)
		}
		if answer.note("queue "+q.Name, err) != nil {
			continue
		}
		answer.queues[i] = tally
		if !p.collects("queue") {
			continue
		}
		left, err := p.unmaterialized(target, q.Constraint)
		if answer.note("unmaterialized "+q.Name, err) == nil {
			withFactories := *tally
			withFactories.unmaterialized = left
			answer.queues[i] = &withFactories
		}
	}
}

// unmaterialized gives how many jobs the queue's clusters will still make (HTCondor's late materialization). A constraint
// holds for such a cluster if it does for its common attributes.
func (p *CondorQ) unmaterialized(target []string, constraint string) (int64, error) {
	columns := newAttributes("JobMaterializeLimit", "TotalSubmitProcs", "JobMaterializeNextProcId")
	var left int64
	err := p.ask(func(r io.Reader) error {
		return parseAds(r, columns, func(a *ad) error {
			limit := either(a.count(0), a.count(1))
			if next := a.count(2); next != absent {
				left += max(limit-next, 0)
			}
			return nil
		})
	}, "condor_q", queryArgs(target, constraint, columns, "-factory")...)
	return left, err
}

// baselineRecords is how many records are read for the first time: enough to know those that a schedd writes again.
const baselineRecords = seenIDs

// errHistoryGone is that a history file cannot be read, or was removed: condor_history does not tell the two apart from
// one without records.
var errHistoryGone = errors.New("condor_history: no record, though there were some: has the history file been removed?")

// askHistory reads what came into the history since the last time.
func (p *CondorQ) askHistory(pool *pool, target []string, answer *scheddAnswer) error {
	s := answer.schedd
	if err := p.openHistory(pool, s); err != nil {
		return err
	}
	_ = answer.note("state", s.confirm())
	if !s.cursor.Started {
		return p.startHistory(target, s)
	}
	columns := newFinishedColumns(p.custom)
	args := historyArgs(target, columns.attributes)
	if since := s.cursor.since(); since != "" {
		args = append(args, "-since", since)
	}
	jobs, next, gap, err := p.readHistory(s, columns, args)
	if gap { // Perhaps only because the file was rotated at that moment.
		jobs, next, gap, err = p.readHistory(s, columns, args)
	}
	if err != nil {
		return err
	}
	answer.finished, s.pending = jobs, next
	var missing error
	if gap {
		missing = errors.New("its history does not reach back to what was read before: jobs that left meanwhile may be missing")
	}
	_ = answer.note("gap", missing)
	return nil
}

func historyArgs(target []string, columns *attributes) []string {
	return append([]string{"-json", "-attributes", columns.list()}, target...)
}

// readHistory gives the jobs that are new, oldest first, the cursor behind them, and whether some may be missing.
func (p *CondorQ) readHistory(s *schedd, columns *finishedColumns, args []string) (jobs []finishedJob, next *cursor, gap bool, err error) {
	var all []finishedJob // newest first
	var records []record
	err = p.ask(func(r io.Reader) error {
		return parseAds(r, columns.attributes, func(a *ad) error {
			if j := columns.read(a); j.ID != "" { // Else it is no job's.
				all = append(all, j)
				records = append(records, j.record)
			}
			return nil
		})
	}, "condor_history", args...)
	if err == nil && len(records) == 0 && len(s.cursor.Tail) > 0 {
		err = errHistoryGone
	}
	if err != nil {
		return nil, nil, false, err
	}
	next, fresh, gap := s.cursor.advance(records)
	for _, i := range fresh {
		jobs = append(jobs, all[i])
	}
	return jobs, next, gap, nil
}

// startHistory takes for read what is in the history now.
func (p *CondorQ) startHistory(target []string, s *schedd) error {
	columns := newRecordColumns(newAttributes())
	var records []record
	args := append(historyArgs(target, columns.attributes), "-limit", strconv.Itoa(baselineRecords))
	err := p.ask(func(r io.Reader) error {
		return parseAds(r, columns.attributes, func(a *ad) error {
			if r, ok := columns.read(a); ok {
				records = append(records, r)
			}
			return nil
		})
	}, "condor_history", args...)
	if err != nil {
		return err
	}
	s.cursor = *s.cursor.start(records)
	return s.save()
}

// openHistory opens the state of a schedd, once.
func (p *CondorQ) openHistory(pool *pool, s *schedd) error {
	if s.opened {
		return nil
	}
	state, cursor, err := openState(p.StateDirectory, pool.tag, s.name)
	var damaged *statefile.DamagedError
	if errors.As(err, &damaged) {
		p.Log.Warnf("Schedd %q: %v; what left its queue before now is not told", s.name, err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("nothing is told of finished jobs: %w", err)
	}
	s.state, s.cursor, s.opened = state, cursor, true
	return nil
}

// confirm makes what the gather before emitted part of the state. Should the process die before this, the next one emits
// the same rows again, which are the same points.
func (s *schedd) confirm() error {
	if s.pending == nil {
		return nil
	}
	changed := len(s.pending.Tail) != len(s.cursor.Tail) || len(s.pending.Tail) > 0 && s.pending.Tail[0] != s.cursor.Tail[0]
	s.cursor, s.pending = *s.pending, nil
	if !changed {
		return nil
	}
	return s.save()
}
