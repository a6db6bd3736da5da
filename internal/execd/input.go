package execd

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/telegraf/models"
)

// input is one table of an input plugin.
type input struct {
	*models.RunningInput
	program *program
	acc     *accumulator
	lines   *lines

	mu      sync.Mutex
	stopped bool
	since   time.Time // When the gather began that runs now; zero while none does.
	skipped int       // Requests that came during it.
	idle    sync.WaitGroup
}

func (p *program) newInput(ri *models.RunningInput) *input {
	in := &input{RunningInput: ri, program: p, lines: p.newLines(ri.Log())}
	in.acc = newAccumulator(ri.Log(), in.lines.add)
	in.acc.make = ri.MakeMetric
	if ri.Config.Precision > 0 {
		in.acc.SetPrecision(ri.Config.Precision)
	}
	return in
}

// start starts the plugin if it is one that wants to be. It tells whether the table is to be gathered.
func (in *input) start() (ok bool, err error) {
	in.program.guard(func() {
		if err = in.Start(in.acc); err != nil {
			err = fmt.Errorf("starting %s: %w", in.LogName(), err)
			return
		}
		if err = in.Probe(); err != nil {
			err = fmt.Errorf("probing %s: %w", in.LogName(), err)
			in.Stop()
		}
	})
	if err == nil {
		return true, nil
	}
	switch in.Config.StartupErrorBehavior {
	case "ignore", "probe":
		in.Log().Warnf("Not started, and ignored as startup_error_behavior says: %v", err)
		return false, nil
	}
	return false, err
}

// request begins a gather, unless one is still running: then it is skipped, and that is said once a gather.
func (in *input) request() {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.stopped:
	case in.since.IsZero():
		in.since = time.Now()
		in.idle.Add(1)
		go in.gather()
	default:
		if in.skipped == 0 {
			in.Log().Warnf("The gather that began %v ago is still running: this one is skipped",
				time.Since(in.since).Round(time.Millisecond))
		}
		in.skipped++
	}
}

func (in *input) gather() {
	defer in.idle.Done()
	in.program.guard(in.gatherNow)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.skipped > 1 {
		in.Log().Warnf("The gather took %v: %d were skipped", time.Since(in.since).Round(time.Millisecond), in.skipped)
	}
	in.since, in.skipped = time.Time{}, 0
}

func (in *input) gatherNow() {
	in.lines.hold()
	in.acc.AddError(in.Gather(in.acc))
	in.lines.flush()
}

// finish waits for the gather that runs, then stops the plugin.
func (in *input) finish() {
	in.mu.Lock()
	in.stopped = true
	in.mu.Unlock()
	in.idle.Wait()
	in.program.guard(in.Stop)
	in.lines.flush()
}

// running names the gather that runs, if one does.
func (in *input) running() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s has been gathering for %v", in.LogName(), time.Since(in.since).Round(time.Millisecond))
}

// poll requests a gather at each full interval of the clock, as Telegraf does, until the program ends.
func (in *input) poll() {
	for {
		wait := untilNext(time.Now(), in.Config.Interval, in.Config.CollectionOffset)
		if jitter := in.Config.CollectionJitter; jitter > 0 {
			wait += rand.N(jitter) //nolint:gosec // Spreads load, protects nothing.
		}
		select {
		case <-in.program.ending:
			return
		case <-time.After(wait):
			in.request()
		}
	}
}

// untilNext gives the time from now to the next multiple of interval since the zero time, plus offset. A timer may
// fire a little before its time on a clock that is being corrected: what is nearly there is taken for past.
func untilNext(now time.Time, interval, offset time.Duration) time.Duration {
	at := now.Add(-offset)
	wait := at.Truncate(interval).Add(interval).Sub(at)
	if wait < interval/10 {
		wait += interval
	}
	return wait
}

func (p *program) startInputs(running []*models.RunningInput) ([]*input, error) {
	ins := make([]*input, 0, len(running))
	for _, ri := range running {
		in := p.newInput(ri)
		ok, err := in.start()
		if err != nil {
			finishAll(ins)
			return nil, err
		}
		if ok {
			ins = append(ins, in)
		}
	}
	p.setUndone(func() string {
		var busy []string
		for _, in := range ins {
			if s := in.running(); s != "" {
				busy = append(busy, s)
			}
		}
		if len(busy) == 0 {
			return "a plugin's Stop, or standard output that nobody reads"
		}
		return strings.Join(busy, ", ")
	})
	return ins, nil
}

func finishAll(ins []*input) {
	var all sync.WaitGroup
	for _, in := range ins {
		all.Go(in.finish)
	}
	all.Wait()
}

// runInputs gathers at each newline on stdin, and at each interval of the tables that have one.
func (p *program) runInputs(running []*models.RunningInput) int {
	ins, err := p.startInputs(running)
	if err != nil {
		p.logs.errorf("%v", err)
		return exitFailed
	}
	for _, in := range ins {
		if in.Config.Interval > 0 {
			go in.poll()
		}
	}
	chunks := p.feed()
	for open := true; open; {
		var chunk []byte
		select {
		case chunk, open = <-chunks:
		case <-p.stop:
			open = false
		}
		for range bytes.Count(chunk, []byte("\n")) {
			for _, in := range ins {
				in.request()
			}
		}
	}
	finishAll(ins)
	return p.exitStatus()
}

// gatherOnce gathers every table once, one after the other.
func (p *program) gatherOnce(running []*models.RunningInput) int {
	ins, err := p.startInputs(running)
	if err != nil {
		p.logs.errorf("%v", err)
		return exitFailed
	}
	for _, in := range ins {
		in.request()
		in.finish()
	}
	if p.logs.errors.Load() > 0 {
		return exitFailed
	}
	return p.exitStatus()
}
