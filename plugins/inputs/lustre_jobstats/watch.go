package lustre_jobstats

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/jobstats"
	"telegraf-hpc/internal/version"
)

// watched is a target that is read, or was.
type watched struct {
	target
	ledger   *jobstats.Ledger
	here     bool          // is on this server
	gone     bool          // was here, or has a state, and was missing from a gather
	since    time.Time     // the latest time at which it was known not to be here
	took     time.Duration // to read it
	read     time.Time     // when it was read last
	slow     bool
	overflow bool
	totals   selfTotals
	grouped  []member // what it emitted, where targets are summed
	unsaved  bool     // what was read of it last is not on disk
}

// selfTotals count over the life of this process.
type selfTotals struct {
	started, undecided, parseErrors, dropped, bytes int64
}

// watch compares the targets found with those of the gather before.
func (p *LustreJobstats) watch(found []target, complete bool) {
	here := make(map[string]bool, len(found))
	for _, t := range found {
		here[t.name] = true
		w := p.watched[t.name]
		if w == nil {
			w = &watched{since: p.gathered}
			p.watched[t.name] = w
		}
		if w.gone {
			p.Log.Infof("Target %q is back", t.name)
			w.since = p.gathered
			if w.ledger != nil {
				w.ledger.Remounted()
			}
		}
		w.target, w.here, w.gone = t, true, false
	}
	if !complete {
		return
	}
	for name, w := range p.watched {
		if here[name] || w.gone {
			continue
		}
		if w.here {
			p.Log.Warnf("Target %q is gone; its totals are kept until it is back", name)
		}
		w.here, w.gone = false, true
	}
}

// gather reads one target and emits what is new of it.
func (p *LustreJobstats) gather(acc telegraf.Accumulator, w *watched, now time.Time) {
	if p.rests(w, now) {
		return
	}
	if err := p.open(w); err != nil {
		p.said.Fail(acc, w.name, fmt.Errorf("target %q: %w", w.name, err))
		return
	}
	stats, err := p.readTarget(w, now)
	if err != nil {
		p.said.Fail(acc, w.name, fmt.Errorf("target %q: %w", w.name, err))
	} else {
		p.said.Mend(w.name)
	}
	p.tell(acc, w, stats)
	var disk *jobstats.StateError
	if w.unsaved = errors.As(err, &disk); !w.unsaved {
		p.emit(acc, w, now)
	}
	p.addSelf(acc, w, stats, now)
}

// away says again what is to be said again of the targets that are not here.
func (p *LustreJobstats) away(acc telegraf.Accumulator, now time.Time) {
	for _, w := range p.watched {
		if !w.here && w.ledger != nil {
			w.ledger.Away(now)
			p.emit(acc, w, now)
		}
	}
}

// emit emits what is new of a target. Where targets are summed, totals wait for the others.
func (p *LustreJobstats) emit(acc telegraf.Accumulator, w *watched, now time.Time) {
	points := p.newPoints(acc, map[string]string{"fs": w.fs, "kind": w.kind, "target": w.name})
	w.ledger.Emit(func(pt *jobstats.Point) {
		if p.GroupBy == "fs" && pt.What != jobstats.Epoch {
			w.grouped = append(w.grouped, newMember(pt))
			return
		}
		points.emit(now, pt)
	})
}

func (p *LustreJobstats) newPoints(acc telegraf.Accumulator, tags map[string]string) *points {
	return newPoints(acc, tags, p.Detail == "basic", p.Shards)
}

// open opens a target's state.
func (p *LustreJobstats) open(w *watched) error {
	if w.ledger != nil {
		return nil
	}
	o := p.options
	o.Boot = p.tree.bootID()
	if p.StateDirectory != "" {
		o.Dir = filepath.Join(p.StateDirectory, url.PathEscape(w.name))
	}
	ledger, warnings, err := jobstats.Open(o)
	for _, warning := range warnings {
		p.Log.Warnf("Target %q: %v", w.name, warning)
	}
	if err != nil {
		return err
	}
	w.ledger = ledger
	return nil
}

// readTarget reads job_stats into the ledger.
func (p *LustreJobstats) readTarget(w *watched, now time.Time) (stats jobstats.Stats, err error) {
	cleanup, err := p.tree.cleanup(w.target)
	if err != nil {
		if p.said.First("cleanup "+w.name, err.Error()) {
			p.Log.Warnf("Target %q: job_cleanup_interval: %v", w.name, err)
		}
	}
	since := w.ledger.LastPass()
	if !w.since.IsZero() {
		since = max(since, w.since.UnixNano())
	}
	f, err := os.Open(w.path)
	if err != nil {
		return stats, err
	}
	start := time.Now()
	stats, err = w.ledger.Gather(f, now, since, cleanup)
	w.took, w.read, w.since = time.Since(start), now, time.Time{}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return stats, err
}

// rests tells whether a target is left alone this time, since reading it takes too much of the server's time. It is
// read every third of the clean-up interval at least: an entry lives that long after its last request.
func (p *LustreJobstats) rests(w *watched, now time.Time) bool {
	if p.interval == 0 || w.read.IsZero() {
		return false
	}
	wait := time.Duration(float64(w.took) / p.MaxDuty)
	cleanup, err := p.tree.cleanup(w.target)
	if err == nil && cleanup > 0 {
		wait = min(wait, cleanup/3)
	}
	if slow := wait > p.interval; slow != w.slow {
		w.slow = slow
		if slow {
			p.Log.Warnf("Target %q: reading it takes %s, more than %g of the interval of %s: reading it every %s from now on",
				w.name, w.took.Round(time.Millisecond), p.MaxDuty, p.interval, wait.Round(time.Second))
		} else {
			p.Log.Infof("Target %q: reading it takes %s now: reading it at each gather again", w.name, w.took.Round(time.Millisecond))
		}
	}
	// Half an interval of grace: gathers are not exactly one interval apart.
	return w.slow && now.Sub(w.read)+p.interval/2 < wait
}

// tell reports what was wrong in the file.
func (p *LustreJobstats) tell(acc telegraf.Accumulator, w *watched, stats jobstats.Stats) {
	for i, err := range stats.Errors {
		cause := err.Error()
		var damage *jobstats.EntryError
		if errors.As(err, &damage) {
			// Its line has other numbers each time.
			cause = damage.JobID + damage.Err.Error()
		}
		if p.said.First(fmt.Sprintf("entry %d %s", i, w.name), cause) {
			acc.AddError(fmt.Errorf("target %q: left out: %w", w.name, err))
		}
	}
	if more := stats.ErrorCount - len(stats.Errors); more > 0 && p.said.First("entries "+w.name, "more") {
		acc.AddError(fmt.Errorf("target %q: %d more entries were left out", w.name, more))
	}
	if stats.ErrorCount == 0 {
		p.said.Mend("entries " + w.name)
	}
	if stats.Overflow > 0 && !w.overflow {
		w.overflow = true
		p.Log.Warnf("Target %q: more than max_jobs = %d ids: what is past them is summed under job=%s", w.name, p.MaxJobs, jobstats.JobOverflow)
	}
	w.totals.started += int64(stats.Started)
	w.totals.undecided += int64(stats.Undecided)
	w.totals.parseErrors += int64(stats.ErrorCount)
	w.totals.dropped += int64(stats.Overflow)
	w.totals.bytes += stats.Bytes
}

func (p *LustreJobstats) addSelf(acc telegraf.Accumulator, w *watched, stats jobstats.Stats, now time.Time) {
	fields := map[string]any{
		"entries": int64(stats.Entries), "epochs_started": w.totals.started, "undecided": w.totals.undecided,
		"parse_errors": w.totals.parseErrors, "dropped_ids": w.totals.dropped, "bytes_read": w.totals.bytes,
		"read_seconds": w.took.Seconds(), "state_bytes_written": w.ledger.Written(), "version": version.String(),
	}
	acc.AddFields(measurementSelf, fields, map[string]string{"fs": w.fs, "target": w.name, "kind": w.kind}, now)
}
