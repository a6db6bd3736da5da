package slurm_load

import (
	"errors"
	"slices"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/statefile"
)

// stateVersion is the version of the state's format.
const stateVersion = 1

// state is what outlives the process: the totals, and what is counted in them.
type state struct {
	ends
	cluster string
	file    statefile.File
}

// stateContent is the state as it is on disk.
type stateContent struct {
	Version int         `json:"version"`
	Cluster string      `json:"cluster"`
	Bounds  []int64     `json:"wait_bounds"`
	Since   int64       `json:"wait_since"`
	Counted []run       `json:"wait_counted"`
	Waits   []waitTotal `json:"waits"`
	Cursor  int64       `json:"finished_cursor"`
	Ended   []endedRun  `json:"finished_counted"`
	Ends    []endTotal  `json:"finished"`
}

type waitTotal struct {
	waitKey
	histogram
}

type endedRun struct {
	ended
	seen
}

type endTotal struct {
	endKey
	endSum
}

// open reads the cluster's state, and keeps others from it. Without state the totals begin at zero.
func (p *SlurmLoad) open() error {
	s := &p.state
	if s.cluster == p.site.Cluster {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	p.queue.waits.init(p.bounds)
	*s = state{cluster: p.site.Cluster, ends: ends{Counted: make(map[ended]seen), Totals: make(map[endKey]*endSum)}}
	if p.StateDirectory == "" || !p.collects("wait", "finished", "finished_total") {
		return nil
	}
	if err := p.load(); err != nil {
		p.Log.Warnf("%v: totals begin at zero, and are not kept over a restart", err)
	}
	return nil
}

func (p *SlurmLoad) load() error {
	file, content, err := statefile.Open[stateContent](p.StateDirectory, "cluster-"+p.state.cluster, stateVersion)
	var damaged *statefile.DamagedError
	if errors.As(err, &damaged) {
		p.Log.Warnf("State %q can't be read: %v: set aside as %q; totals begin at zero", damaged.Path, damaged.Cause, damaged.Aside)
		err = nil
	}
	if err != nil {
		return err
	}
	p.state.file = file
	if content.Version != 0 { // There was one.
		p.restore(&content)
	}
	return nil
}

func (p *SlurmLoad) restore(f *stateContent) {
	w := &p.queue.waits
	if slices.Equal(f.Bounds, w.bounds) {
		w.since, w.counted = f.Since, make(map[run]bool, len(f.Counted))
		for _, r := range f.Counted {
			w.counted[r] = true
		}
		for _, total := range f.Waits {
			w.started[total.waitKey] = &total.histogram
		}
	} else {
		p.Log.Infof("Option wait_buckets has changed: the totals of slurm_wait begin at zero")
	}
	e := &p.state.ends
	e.Cursor = f.Cursor
	for _, r := range f.Ended {
		e.Counted[r.ended] = r.seen
	}
	for _, total := range f.Ends {
		e.Totals[total.endKey] = &total.endSum
	}
}

// save writes the state. Should the process die before, the next one counts the same again from the state before.
func (p *SlurmLoad) save(acc telegraf.Accumulator) {
	if p.state.file.Keeps() {
		p.fail(acc, "state", p.state.file.Save(p.snapshot()))
	}
}

func (p *SlurmLoad) snapshot() *stateContent {
	w, e := &p.queue.waits, &p.state.ends
	f := &stateContent{Version: stateVersion, Cluster: p.state.cluster, Bounds: w.bounds, Since: w.since, Cursor: e.Cursor}
	for r := range w.counted {
		f.Counted = append(f.Counted, r)
	}
	for key, h := range w.started {
		f.Waits = append(f.Waits, waitTotal{key, *h})
	}
	for id, s := range e.Counted {
		f.Ended = append(f.Ended, endedRun{id, s})
	}
	for key, sum := range e.Totals {
		f.Ends = append(f.Ends, endTotal{key, *sum})
	}
	return f
}
