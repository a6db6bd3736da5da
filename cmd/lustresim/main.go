// Lustresim writes the job_stats of a simulated Lustre file server into a tree
// like that of /proc/fs/lustre and /sys/fs/lustre, and at its end the true
// sums. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"telegraf-hpc/internal/lustresim"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	os.Exit(run(os.Args[1:], signals, os.Stdout, os.Stderr))
}

// run returns the exit status: 1 if the tree cannot be written, 2 for bad flags.
func run(args []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "lustresim:", err)
		return 2
	}
	s, err := newSimulator(o, time.Now(), stdout)
	if err == nil {
		err = s.loop(signals)
	}
	if err != nil {
		fmt.Fprintln(stderr, "lustresim:", err)
		return 1
	}
	return 0
}

// options are the flags.
type options struct {
	root, fs, truth        string
	era                    lustresim.Era
	osts, mdts, jobs       int
	interval, tick, settle time.Duration
	duration, clearEvery   time.Duration
	speed                  float64
	seed                   uint64
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var era string
	f := flag.NewFlagSet("lustresim", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "root", "", "write the tree under this `folder` (needed)")
	f.StringVar(&o.fs, "fs", "lustre", "`name` of the file system")
	f.StringVar(&o.truth, "truth", "", "at the end, write the true sums to this `file` as JSON")
	f.StringVar(&era, "era", "2.15", "Lustre `version` to be like")
	f.IntVar(&o.osts, "osts", 2, "object storage targets")
	f.IntVar(&o.mdts, "mdts", 1, "metadata targets")
	f.IntVar(&o.jobs, "jobs", 20, "jobs that run at one time")
	f.DurationVar(&o.interval, "interval", 30*time.Second, "job_cleanup_interval, in simulated time")
	f.DurationVar(&o.tick, "tick", time.Second, "time between two versions of the files")
	f.DurationVar(&o.settle, "settle", 5*time.Second, "what goes has stood in the files for at least this long")
	f.DurationVar(&o.duration, "duration", 0, "stop after this time; 0 is at SIGTERM")
	f.DurationVar(&o.clearEvery, "clear-every", 0, "clear all targets this often; 0 is never")
	f.Float64Var(&o.speed, "speed", 1, "simulated seconds in a second")
	f.Uint64Var(&o.seed, "seed", 1, "equal seeds give equal jobs")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	var err error
	if o.era, err = lustresim.EraNamed(era); err != nil {
		return o, fmt.Errorf("--era: %w", err)
	}
	return o, o.check()
}

func (o *options) check() error {
	root, err := filepath.Abs(o.root)
	switch {
	case o.fs == "" || strings.ContainsAny(o.fs, "/\x00"):
		return fmt.Errorf("--fs %q: no name of a file system", o.fs)
	case o.osts < 0 || o.mdts < 0 || o.osts+o.mdts == 0:
		return fmt.Errorf("--osts %d --mdts %d: want at least one target", o.osts, o.mdts)
	case o.jobs < 1:
		return fmt.Errorf("--jobs %d: want at least 1", o.jobs)
	case o.root == "":
		return errors.New("--root is needed: the folder to write the tree under")
	case err != nil:
		return fmt.Errorf("--root: %w", err)
	case root == "/":
		return errors.New("--root /: that is where a real server has its files")
	case o.tick <= 0:
		return fmt.Errorf("--tick %s: want more than 0", o.tick)
	case o.settle <= 0:
		return fmt.Errorf("--settle %s: want more than 0", o.settle)
	case o.speed <= 0:
		return fmt.Errorf("--speed %g: want more than 0", o.speed)
	case o.duration < 0:
		return fmt.Errorf("--duration %s: want 0 or more", o.duration)
	case o.interval < 2*time.Second || o.interval%time.Second != 0:
		return fmt.Errorf("--interval %s: want whole seconds, at least 2s", o.interval)
	case o.clearEvery != 0 && o.clearEvery < 2*o.settle:
		return fmt.Errorf("--clear-every %s: want 0, or at least 2 times --settle %s", o.clearEvery, o.settle)
	}
	return o.checkInterval()
}

// checkInterval holds up the promise of --settle. An entry is dropped only
// when it was idle for an interval, and every file written meanwhile showed
// it. An interval that is long against the time between two polls of the
// agent under test is so what keeps expiry from losing anything.
func (o *options) checkInterval() error {
	realInterval := time.Duration(float64(o.interval) / o.speed)
	if shortest := 4 * max(o.settle, o.tick); realInterval < shortest {
		return fmt.Errorf("--interval %s at --speed %g is %s of real time: want at least %s, "+
			"4 times the longer of --settle %s and --tick %s", o.interval, o.speed, realInterval, shortest, o.settle, o.tick)
	}
	return nil
}
