package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"telegraf-hpc/internal/lustresim"
)

// loginShare is the share of jobs that are processes of a login node.
const loginShare = 0.25

// simulator is a running simulation. Its time goes on in steps.
type simulator struct {
	o    options
	w    *lustresim.Workload
	log  io.Writer
	text []byte

	began, last time.Time // real time
	now         int64     // simulated time
	nextClear   time.Time

	// A reset that waits: I/O stands still until resetAt.
	resets  []func()
	resetAt time.Time

	clears, remounts int
}

// newSimulator makes the tree and writes its first files.
func newSimulator(o options, now time.Time, log io.Writer) (*simulator, error) {
	w, err := lustresim.NewWorkload(lustresim.WorkloadConfig{
		Seed: o.seed, Era: o.era, FS: o.fs, OSTs: o.osts, MDTs: o.mdts, Jobs: o.jobs,
		Interval: o.interval, Start: now.UnixNano(), Login: loginShare,
	})
	if err != nil {
		return nil, err
	}
	s := &simulator{o: o, w: w, log: log, began: now, last: now, now: now.UnixNano()}
	s.nextClear = now.Add(o.clearEvery)
	for _, t := range w.Targets() {
		if err := s.makeTarget(t); err != nil {
			return nil, err
		}
	}
	if err := s.write(); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "lustresim: %d targets of %s (Lustre %s) under %s, new files every %s\n",
		len(w.Targets()), o.fs, o.era.Name, o.root, o.tick)
	return s, nil
}

// loop steps until it is told to stop, or its time is over.
func (s *simulator) loop(signals <-chan os.Signal) error {
	ticker := time.NewTicker(s.o.tick)
	defer ticker.Stop()
	var over <-chan time.Time
	if s.o.duration > 0 {
		timer := time.NewTimer(s.o.duration)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case now := <-ticker.C:
			if err := s.step(now); err != nil {
				return err
			}
		case got := <-signals:
			switch got {
			case syscall.SIGUSR1:
				s.later(time.Now(), s.clear)
			case syscall.SIGUSR2:
				s.later(time.Now(), s.remount)
			default:
				return s.finish(time.Now())
			}
		case <-over:
			return s.finish(time.Now())
		}
	}
}

// step lets the simulated time follow the real one, and writes the files. The
// agent under test is taken to read each version of them, so their close runs
// the clean-up.
func (s *simulator) step(now time.Time) error {
	// A process that stood still does not catch up at once: what happens in
	// one step is never in a file, and could come and go unread.
	passed := min(now.Sub(s.last), 2*s.o.tick)
	s.last = now
	s.now += int64(float64(passed) * s.o.speed)
	if s.o.clearEvery > 0 && !now.Before(s.nextClear) {
		s.nextClear = now.Add(s.o.clearEvery)
		s.later(now, s.clear)
	}
	if len(s.resets) == 0 {
		s.w.Advance(s.now)
		return s.write()
	}
	s.w.Skip(s.now)
	if !now.Before(s.resetAt) {
		for _, reset := range s.resets {
			reset()
		}
		s.resets = nil
	}
	return s.write()
}

// later does a reset after --settle, in which there is no I/O. A clear or a
// remount loses what was done since the last reading: no agent can know it,
// and a test against the truth would fail for no fault. So the last values
// stand in the files until a poll must have seen them.
func (s *simulator) later(now time.Time, reset func()) {
	s.resets = append(s.resets, reset)
	s.resetAt = now.Add(s.o.settle)
}

func (s *simulator) clear() {
	for _, t := range s.w.Targets() {
		t.Clear(s.now)
	}
	s.clears++
	fmt.Fprintln(s.log, "lustresim: cleared all targets")
}

func (s *simulator) remount() {
	targets := s.w.Targets()
	t := targets[s.remounts%len(targets)]
	t.Remount(s.now)
	s.remounts++
	fmt.Fprintf(s.log, "lustresim: remounted %s\n", t.Name())
}

// finish leaves the last text in place and writes the truth. There has been no
// I/O since the last step, so those files show all.
func (s *simulator) finish(now time.Time) error {
	for _, t := range s.w.Targets() {
		if err := s.writeTarget(t, t.Text()); err != nil {
			return err
		}
	}
	where := ""
	if s.o.truth != "" {
		if err := s.writeTruth(); err != nil {
			return err
		}
		where = ", truth in " + s.o.truth
	}
	fmt.Fprintf(s.log, "lustresim: stopped after %s: %d entries made on %d targets, %d clears, %d remounts%s\n",
		now.Sub(s.began).Round(time.Millisecond), s.w.Lives(), len(s.w.Targets()), s.clears, s.remounts, where)
	return nil
}

// targetTruth is a target in the file of --truth.
type targetTruth map[string]jobTruth

type jobTruth struct {
	Ops   map[string]opTruth `json:"ops"`
	Lives uint64             `json:"lives"`
}

type opTruth struct {
	Samples uint64 `json:"samples"`
	Sum     uint64 `json:"sum"`
}

func (s *simulator) writeTruth() error {
	targets := map[string]targetTruth{}
	for _, t := range s.w.Targets() {
		jobs := targetTruth{}
		for id, truth := range t.Truth() {
			ops := map[string]opTruth{}
			for name, count := range truth.Ops {
				ops[name] = opTruth(count)
			}
			jobs[id] = jobTruth{Ops: ops, Lives: truth.Lives}
		}
		targets[t.Name()] = jobs
	}
	text, err := json.MarshalIndent(map[string]any{"targets": targets}, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the truth: %w", err)
	}
	return replace(s.o.truth, append(text, '\n'))
}

func (s *simulator) write() error {
	for _, t := range s.w.Targets() {
		s.text, _ = t.Poll(s.now, s.text)
		if err := s.writeTarget(t, s.text); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulator) writeTarget(t *lustresim.Target, text []byte) error {
	return replace(filepath.Join(s.folder("proc", t), "job_stats"), text)
}

// makeTarget makes a target's folders and its job_cleanup_interval.
func (s *simulator) makeTarget(t *lustresim.Target) error {
	in := "proc"
	if s.o.era.IntervalInSys {
		in = "sys"
	}
	for _, top := range []string{"proc", in} {
		if err := os.MkdirAll(s.folder(top, t), 0o755); err != nil { //nolint:gosec // Readable by all, as in /proc.
			return err
		}
	}
	seconds := strconv.FormatInt(int64(t.Interval()/time.Second), 10)
	return replace(filepath.Join(s.folder(in, t), "job_cleanup_interval"), []byte(seconds+"\n"))
}

// folder is a target's folder under proc or sys.
func (s *simulator) folder(top string, t *lustresim.Target) string {
	kind := "obdfilter"
	if t.Kind() == lustresim.MDT {
		kind = "mdt"
	}
	return filepath.Join(s.o.root, top, "fs", "lustre", kind, t.Name())
}

// replace writes a file so that a reader sees the old text or the new one.
func replace(name string, text []byte) error {
	folder, base := filepath.Split(name)
	temporary := folder + "." + base + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil { //nolint:gosec // Readable by all, as in /proc.
		return err
	}
	return os.Rename(temporary, name) //nolint:gosec // The folder is what the user asked for.
}
