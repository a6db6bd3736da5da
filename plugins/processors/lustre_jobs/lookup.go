package lustre_jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/slurm"
)

const (
	// lookupsAtOnce is how many ids Slurm is asked for in a round, each with a command or two of its own.
	lookupsAtOnce = 50
	// tellAtOnce is how many jobs are told while lines wait.
	tellAtOnce = 500
)

// asker asks Slurm by its commands, beside the stream, which never waits for it.
type asker struct {
	plugin *LustreJobs
	client slurm.Client
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

// round tells of the jobs of the queue that have begun, and asks for those that Lustre knows and the queue does not.
func (a *asker) round(ctx context.Context) error {
	text, err := a.client.Jobs(ctx)
	if err != nil {
		return err
	}
	queued := make(map[int64]bool)
	var rows []row
	for j, err := range text.All() {
		if err != nil {
			return err
		}
		if j.State.Class() != slurm.JobPending {
			queued[j.ID] = true
			rows = append(rows, rowOf(j))
		}
	}
	a.tell(rows)
	for _, id := range a.missing(queued) {
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

func (a *asker) tell(rows []row) {
	for chunk := range slices.Chunk(rows, tellAtOnce) {
		a.plugin.mu.Lock()
		for i := range chunk {
			chunk[i].cluster = a.plugin.Cluster
			a.plugin.ledger.tell(&chunk[i], a.plugin.now().UnixNano())
		}
		a.plugin.mu.Unlock()
	}
}

func (a *asker) deny(id int64) {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	a.plugin.ledger.slurm.noJobs[id] = true
	// One that Slurm has forgotten will not be heard of again.
	if j := a.plugin.ledger.jobs[id]; j != nil && j.End == 0 {
		delete(a.plugin.ledger.jobs, id)
	}
}

// missing gives ids to ask for: those of series of whom nothing is known, and those of jobs that have left the queue and
// whose end is not known.
func (a *asker) missing(queued map[int64]bool) []int64 {
	a.plugin.mu.Lock()
	defer a.plugin.mu.Unlock()
	l := a.plugin.ledger
	wanted := make(map[int64]bool)
	for _, s := range l.unknown {
		name, _ := s.job()
		if id, ok := jobNumber(name); ok && l.job(id) == nil {
			wanted[id] = true
		}
	}
	for id := range l.slurm.noJobs {
		if !wanted[id] {
			delete(l.slurm.noJobs, id)
		}
	}
	for id := range l.slurm.noJobs {
		delete(wanted, id)
	}
	for id, j := range l.jobs {
		if j.End == 0 && !queued[id] {
			wanted[id] = true
		}
	}
	ids := make([]int64, 0, len(wanted))
	for id := range wanted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), lookupsAtOnce)]
}

// rowOf makes a row like those of slurm_job.
func rowOf(j *slurm.Job) row {
	r := row{
		id: j.ID, display: j.DisplayID(), user: j.User, account: j.Account, partition: j.FirstPartition(), qos: j.QOS,
		state: string(j.State), submit: j.Submit, start: j.Start,
		ints: map[string]int64{"cpus": j.CPUs, "nodes": j.Nodes, "gpus": j.GPUCount()}, texts: make(map[string]string),
	}
	if j.State.Class() == slurm.JobFinished {
		r.end = j.End
	}
	if j.TimeLimit >= 0 {
		r.ints["limit_seconds"] = j.TimeLimit
	}
	if j.Memory >= 0 {
		r.ints["memory_bytes"] = j.Memory
	}
	if j.NodeList != "" {
		r.texts["node_list"] = j.NodeList
	}
	return r
}

func rowOfWho(w *slurm.Who) row {
	j := slurm.Job{ID: w.ID, ArrayID: w.ArrayID, ArrayTask: w.ArrayTask, HetID: w.HetID, HetOffset: w.HetOffset, Partition: w.Partition}
	return row{
		id: w.ID, display: j.DisplayID(), user: w.User, account: w.Account, partition: j.FirstPartition(), qos: w.QOS,
		state: w.State, start: w.Start, end: w.End,
	}
}
