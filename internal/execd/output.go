package execd

import (
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/models"
)

const (
	// batchFor is how long the first metric of a batch waits for others.
	batchFor = 100 * time.Millisecond
	// firstRetry and longestRetry bound the wait after a failed write.
	firstRetry   = 500 * time.Millisecond
	longestRetry = 30 * time.Second
	// lastRetry is the wait while the program is ending.
	lastRetry = 250 * time.Millisecond
)

// output is one table of an output plugin.
type output struct {
	*models.RunningOutput
	program *program
}

// batchSize is how many metrics may be added at a time: RunningOutput drops what is over its buffer.
func (o *output) batchSize() int {
	return min(o.MetricBatchSize, o.MetricBufferLimit)
}

// insist calls f until it succeeds, with growing waits. An error is logged when it is new, and once more when it is
// over. While the program ends the waits are short, until the process is ended from outside.
func (o *output) insist(what string, f func() error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = firstRetry, longestRetry, 2
	var last string
	began := time.Now()
	for tries := 1; ; tries++ {
		var err error
		o.program.guard(func() { err = f() })
		if err == nil {
			if tries > 1 {
				o.Log().Infof("%s succeeded after %d tries in %v", what, tries, time.Since(began).Round(time.Millisecond))
			}
			return
		}
		if err.Error() != last {
			last = err.Error()
			o.Log().Errorf("%s failed, and is tried again until it succeeds: %v", what, err)
		}
		select {
		case <-o.program.ending:
			time.Sleep(lastRetry)
			continue
		default:
		}
		select {
		case <-o.program.ending:
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// write delivers what has been added. It returns when nothing is left: no more may be added before.
func (o *output) write() {
	for o.BufferLength() > 0 {
		o.insist("Writing", o.WriteBatch)
	}
}

// outputTables are the tables of an output plugin. Each gets every metric; the slowest sets the pace.
type outputTables struct {
	program *program
	tables  []*output
	size    int // Of a batch.
}

func (o *outputTables) each(f func(*output)) {
	var all sync.WaitGroup
	for _, table := range o.tables {
		all.Go(func() { f(table) })
	}
	all.Wait()
}

// deliver returns when all tables have delivered the batch.
func (o *outputTables) deliver(batch []telegraf.Metric) {
	o.program.guard(func() {
		for i, table := range o.tables {
			add := table.AddMetric // Copies.
			if i == len(o.tables)-1 {
				add = table.AddMetricNoCopy
			}
			for _, m := range batch {
				add(m)
			}
		}
	})
	o.each((*output).write)
}

// undone counts what is waiting to be written.
func (o *outputTables) undone() string {
	waiting := 0
	for _, table := range o.tables {
		waiting += table.BufferLength()
	}
	return fmt.Sprintf("%d metrics were not delivered, nor what was not read yet", waiting)
}

func (p *program) runOutputs(running []*models.RunningOutput) int {
	outs := &outputTables{program: p, size: models.DefaultMetricBatchSize}
	for _, ro := range running {
		o := &output{RunningOutput: ro, program: p}
		outs.tables = append(outs.tables, o)
		outs.size = min(outs.size, o.batchSize())
	}
	p.setUndone(outs.undone)
	r, err := p.newReader()
	if err != nil {
		p.logs.errorf("making the parser: %v", err)
		return exitFailed
	}
	outs.each(func(o *output) { o.insist("Connecting", o.Connect) })
	outs.run(r)
	outs.each(func(o *output) { p.guard(o.Close) })
	return p.exitStatus()
}

// run delivers batches until stdin ends.
func (o *outputTables) run(r *reader) {
	batch := make([]telegraf.Metric, 0, o.size)
	flush := func() {
		if len(batch) > 0 {
			o.deliver(batch)
			clear(batch)
			batch = batch[:0]
		}
	}
	var due <-chan time.Time
	for open := true; open; {
		for _, m := r.next(); m != nil; _, m = r.next() {
			if len(batch) == 0 {
				due = time.After(batchFor)
			}
			if batch = append(batch, m); len(batch) == o.size {
				flush()
			}
		}
		if len(batch) == 0 {
			due = nil
		}
		var timedOut bool
		if open, timedOut = r.more(due); timedOut {
			flush()
		}
	}
	flush()
}
