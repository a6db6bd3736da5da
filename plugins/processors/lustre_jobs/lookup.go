package lustre_jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"telegraf-hpc/internal/command"
	tagvalue "telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
)

const (
	// lookupsAtOnce is how many ids Slurm is asked for in a round, each with a command or two of its own.
	lookupsAtOnce = 50
	// tellAtOnce is how many jobs are told while lines wait.
	tellAtOnce = 500
	// finishedWindow is the longest time that slurmdbd is asked for at once, in seconds: after an outage it is not to answer
	// for days at a time.
	finishedWindow = 3600
	// finishedMargin is how long after a job's end, in seconds, slurmdbd may learn of it, and of what its steps used.
	finishedMargin = 600
)

// asker asks Slurm by its commands, beside the stream, which never waits for it.
type asker struct {
	plugin *LustreJobs
	client slurm.Client

	cursor       int64 // what ended before, in seconds since 1970, slurmdbd has told; 0 before it is asked
	noAccounting bool  // there is no slurmdbd
	last         int64 // the id that was looked up last
}

// newAsker makes an asker of commands in a folder, or of those in PATH.
func newAsker(p *LustreJobs) *asker {
	runner := &command.Runner{Timeout: time.Duration(p.Timeout), Env: slurm.Environment(os.Environ()), Folder: p.CommandDirectory}
	return &asker{plugin: p, client: slurm.Client{
		Mark: rand.Text(),
		Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			result, err := runner.Run(ctx, name, args...)
			return result.Stdout, err
		},
	}}
}

// run asks at each interval until the plugin stops.
func (a *asker) run(ctx context.Context) {
	ticker := time.NewTicker(time.Duration(a.plugin.SlurmInterval))
	defer ticker.Stop()
	for {
		if err := a.round(ctx); err == nil {
			a.plugin.said.Mend("slurm")
		} else if ctx.Err() == nil {
			a.plugin.said.Fail(a.plugin.acc, "slurm", fmt.Errorf("asking Slurm: %w; jobs that are not known are held back", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// round tells of the jobs of the queue and of those that ended, and asks for those that Lustre knows and neither tells of.
func (a *asker) round(ctx context.Context) error {
	queued, text, err := a.queue(ctx)
	if err = errors.Join(err, a.finished(ctx, queued)); err != nil { // Each may answer where the other does not.
		return err
	}
	return a.lookUp(ctx, text, queued)
}

// queue tells of the jobs of the queue, and gives their ids.
func (a *asker) queue(ctx context.Context) (ids map[int64]bool, text slurm.JobText, err error) {
	if text, err = a.client.Jobs(ctx); err != nil {
		return nil, text, err
	}
	ids = make(map[int64]bool)
	known := a.known()
	var rows []row
	for j, err := range text.All() {
		if err != nil {
			return nil, text, err
		}
		ids[j.ID] = true
		if j.State.Class() == slurm.JobPending && !known[j.ID] {
			continue
		}
		if rows = append(rows, rowOf(j.Fields(), j.User, j.Account, j.FirstPartition(), j.QOS)); len(rows) == tellAtOnce {
			a.tell(rows)
			rows = rows[:0]
		}
	}
	a.tell(rows)
	return ids, text, nil
}

// known gives the ids of the jobs that are known. Of those that wait for their turn only these matter: they have run before.
func (a *asker) known() map[int64]bool {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	ids := make(map[int64]bool, len(a.plugin.ledger.jobs))
	for id := range a.plugin.ledger.jobs {
		ids[id] = true
	}
	return ids
}

// finished tells of the runs that ended since it was asked last, and of those shortly before that: slurmctld tells slurmdbd
// late, and what a job used later still.
func (a *asker) finished(ctx context.Context, queued map[int64]bool) error {
	if a.noAccounting {
		return nil
	}
	now := a.plugin.now().Unix()
	if a.cursor == 0 {
		a.cursor = a.oldest(now-finishedMargin, queued, true)
	}
	for since := a.oldest(a.cursor, queued, false); since < now; {
		until := min(now, since+finishedWindow)
		runs, err := a.client.Finished(ctx, since, until, true)
		if errors.Is(err, slurm.ErrNoAccounting) {
			a.noAccounting = true
			a.plugin.Log.Info("This Slurm has no slurmdbd: what jobs used is not known")
			return nil
		}
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(runs, tellAtOnce) {
			a.tell(rowsOf(chunk))
		}
		a.cursor = max(a.cursor, until-finishedMargin)
		since = until
	}
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	a.plugin.ledger.slurm.accounting = true
	return nil
}

func rowsOf(runs []slurm.Finished) []row {
	rows := make([]row, len(runs))
	for i := range runs {
		f := &runs[i]
		rows[i] = rowOf(f.Fields(), f.User, f.Account, f.Partition, f.QOS)
		rows[i].finished, rows[i].state = true, f.State
	}
	return rows
}

// oldest gives the time from which on jobs ended that are to be reported and of which slurmdbd did not tell, at the latest a
// given one. At the start these are jobs, too, that have left the queue meanwhile.
func (a *asker) oldest(latest int64, queued map[int64]bool, start bool) int64 {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	for id, j := range a.plugin.ledger.jobs {
		switch {
		case j.Accounted || j.over():
		case j.End != 0:
			latest = min(latest, j.End)
		case start && !queued[id]:
			latest = min(latest, j.Seen)
		}
	}
	return latest
}

// lookUp asks for ids one by one, so many in a round that it does not take for ever: where one leaves off the next goes on.
func (a *asker) lookUp(ctx context.Context, text slurm.JobText, queued map[int64]bool) error {
	ids := a.missing(queued)
	from, _ := slices.BinarySearch(ids, a.last+1)
	ids = slices.Concat(ids[from:], ids[:from])
	for _, id := range ids[:min(len(ids), lookupsAtOnce)] {
		a.last = id
		who, err := a.client.Lookup(ctx, text, id)
		switch {
		case err == nil:
			a.tell([]row{rowOfWho(&who)})
		case errors.Is(err, slurm.ErrNoJob):
			a.deny(id)
		default:
			return err
		}
	}
	return nil
}

// tell tells the ledger, of so many jobs at most that lines need not wait for long.
func (a *asker) tell(rows []row) {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	now := a.plugin.now()
	for i := range rows {
		rows[i].cluster, rows[i].at = a.plugin.Cluster, now.Unix()
		a.plugin.ledger.tell(&rows[i], now.UnixNano())
	}
}

func (a *asker) deny(id int64) {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	a.plugin.ledger.slurm.noJobs[id] = true
}

// missing gives ids to ask for, in their order: those of series of whom nothing is known, and those of jobs that have left
// the queue, and whose end slurmdbd did not tell though it had the time to.
func (a *asker) missing(queued map[int64]bool) []int64 {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	l, now := a.plugin.ledger, a.plugin.now().Unix()
	wanted := make(map[int64]bool)
	for _, s := range l.unknown {
		name, _ := s.job()
		if id, ok := jobNumber(name); ok && l.job(id) == nil {
			wanted[id] = true
		}
	}
	for id, j := range l.jobs {
		if j.End == 0 && !queued[id] && (a.noAccounting || now-j.Seen >= finishedMargin) {
			wanted[id] = true
		}
	}
	for id := range l.slurm.noJobs {
		if !wanted[id] {
			delete(l.slurm.noJobs, id)
		}
		delete(wanted, id)
	}
	return slices.Sorted(maps.Keys(wanted))
}

// rowOf makes a row of what slurm_load would tell.
func rowOf(fields map[string]any, user, account, partition, qos string) row {
	r := newRow()
	r.user, r.account, r.partition, r.qos = tagvalue.Known(user), tagvalue.Known(account), tagvalue.Known(partition), tagvalue.Known(qos)
	for name, v := range fields {
		r.setField(name, v)
	}
	return r
}

func rowOfWho(w *slurm.Who) row {
	j := slurm.Job{ID: w.ID, ArrayID: w.ArrayID, ArrayTask: w.ArrayTask, HetID: w.HetID, HetOffset: w.HetOffset, Partition: w.Partition}
	fields := map[string]any{"job_id": w.ID, "job": j.DisplayID(), "state": w.State, "start": w.Start, "end": w.End}
	return rowOf(fields, w.User, w.Account, j.FirstPartition(), w.QOS)
}
