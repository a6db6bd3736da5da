package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFlagErrors(t *testing.T) {
	tests := map[string]string{
		"":                           `--root is needed: the folder to write the tree under`,
		"--root /":                   `--root /: that is where a real server has its files`,
		"--root x y":                 `unknown argument "y"`,
		"--root x --fs a/b":          `--fs "a/b": no name of a file system`,
		"--root x --osts 0 --mdts 0": `--osts 0 --mdts 0: want at least one target`,
		"--root x --jobs 0":          `--jobs 0: want at least 1`,
		"--root x --tick 0":          `--tick 0s: want more than 0`,
		"--root x --settle 0":        `--settle 0s: want more than 0`,
		"--root x --speed 0":         `--speed 0: want more than 0`,
		"--root x --duration -1s":    `--duration -1s: want 0 or more`,
		"--root x --interval 1s":     `--interval 1s: want whole seconds, at least 2s`,
		"--root x --interval 30.5s":  `--interval 30.5s: want whole seconds, at least 2s`,
		"--root x --clear-every 9s":  `--clear-every 9s: want 0, or at least 2 times --settle 5s`,
		"--root x --interval 19s": `--interval 19s at --speed 1 is 19s of real time: want at least 20s, ` +
			`4 times the longer of --settle 5s and --tick 1s`,
		"--root x --speed 2": `--interval 30s at --speed 2 is 15s of real time: want at least 20s, ` +
			`4 times the longer of --settle 5s and --tick 1s`,
		"--root x --era 3": `--era: unknown era "3": want one of 2.5, 2.7, 2.10, 2.12, 2.14, 2.15.0, 2.15.2, 2.15.6, 2.16, 2.16-noheader, 2.17`,
	}
	for args, want := range tests {
		var stderr bytes.Buffer
		require.Equal(t, 2, run(strings.Fields(args), nil, io.Discard, &stderr), args)
		require.Equal(t, "lustresim: "+want+"\n", stderr.String(), args)
	}
}

func TestHelp(t *testing.T) {
	var stderr bytes.Buffer
	require.Zero(t, run([]string{"--help"}, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "job_cleanup_interval, in simulated time")
}

func TestATreeThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"--root", file}, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "lustresim: mkdir "+file)
}

func newTestSimulator(t *testing.T, args ...string) (*simulator, time.Time, *bytes.Buffer) {
	t.Helper()
	o, err := parseOptions(append([]string{"--root", t.TempDir()}, args...), io.Discard)
	require.NoError(t, err)
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	s, err := newSimulator(o, now, &log)
	require.NoError(t, err)
	return s, now, &log
}

func TestTree(t *testing.T) {
	for era, want := range map[string][]string{
		"2.12": {
			"proc/fs/lustre/mdt/scratch-MDT0000/job_cleanup_interval", "proc/fs/lustre/mdt/scratch-MDT0000/job_stats",
			"proc/fs/lustre/obdfilter/scratch-OST0000/job_cleanup_interval", "proc/fs/lustre/obdfilter/scratch-OST0000/job_stats",
		},
		"2.14": {
			"proc/fs/lustre/mdt/scratch-MDT0000/job_stats", "proc/fs/lustre/obdfilter/scratch-OST0000/job_stats",
			"sys/fs/lustre/mdt/scratch-MDT0000/job_cleanup_interval", "sys/fs/lustre/obdfilter/scratch-OST0000/job_cleanup_interval",
		},
	} {
		s, _, log := newTestSimulator(t, "--fs", "scratch", "--osts", "1", "--era", era)
		var files []string
		require.NoError(t, filepath.WalkDir(s.o.root, func(name string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			if !d.IsDir() {
				name, err = filepath.Rel(s.o.root, name)
				files = append(files, name)
			}
			return err
		}))
		require.Equal(t, want, files)
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(s.o.root, name))
			require.NoError(t, err)
			require.Equal(t, map[string]string{"job_cleanup_interval": "30\n", "job_stats": "job_stats:\n"}[filepath.Base(name)], string(text))
		}
		require.Equal(t, "lustresim: 2 targets of scratch (Lustre "+era+") under "+s.o.root+", new files every 1s\n", log.String())
	}
}

// life is one entry as an agent knows it.
type life struct{ target, job, start string }

var (
	entryHead = regexp.MustCompile(`^- job_id: +(.*)$`)
	startTime = regexp.MustCompile(`^  start_time: +(\S+) secs.nsecs$`)
	opLine    = regexp.MustCompile(`^  (\w+): +\{ samples: +(\d+), unit: +\w+, min: +\d+, max: +\d+, sum: +(\d+)`)
)

// readAll is an agent: it notes what every life in the files shows now.
func readAll(t *testing.T, root string, known map[life]map[string]opTruth) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "proc/fs/lustre/*/*/job_stats"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		l := life{target: filepath.Base(filepath.Dir(name))}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Contains(line, "samples:           0,") {
				continue
			}
			if m := entryHead.FindStringSubmatch(line); m != nil {
				l.job = m[1]
			} else if m := startTime.FindStringSubmatch(line); m != nil {
				l.start = m[1]
				known[l] = map[string]opTruth{}
			} else if m := opLine.FindStringSubmatch(line); m != nil {
				known[l][m[1]] = opTruth{Samples: number(t, m[2]), Sum: number(t, m[3])}
			}
		}
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// total sums up what an agent knows as the file of --truth has it.
func total(known map[life]map[string]opTruth) map[string]targetTruth {
	all := map[string]targetTruth{}
	for l, ops := range known {
		if all[l.target] == nil {
			all[l.target] = targetTruth{}
		}
		job := all[l.target][l.job]
		job.Lives++
		if job.Ops == nil {
			job.Ops = map[string]opTruth{}
		}
		for name, count := range ops {
			job.Ops[name] = opTruth{job.Ops[name].Samples + count.Samples, job.Ops[name].Sum + count.Sum}
		}
		all[l.target][l.job] = job
	}
	return all
}

func readTruth(t *testing.T, name string) map[string]targetTruth {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var truth struct{ Targets map[string]targetTruth }
	require.NoError(t, json.Unmarshal(text, &truth))
	return truth.Targets
}

// An agent that reads at least every --settle knows all, whatever happens:
// expiry, clears, remounts, and a simulator that stands still for a while.
func TestAnAgentCanKnowTheTruth(t *testing.T) {
	truthFile := filepath.Join(t.TempDir(), "truth.json")
	s, now, log := newTestSimulator(t, "--truth", truthFile, "--clear-every", "7m")
	known := map[life]map[string]opTruth{}
	rng := rand.New(rand.NewPCG(1, 2))
	lastRead := now
	for i := range 1500 {
		step := time.Second
		if rng.IntN(100) == 0 {
			step = time.Minute // A long stall: the agent reads meanwhile, once.
			readAll(t, s.o.root, known)
			lastRead = now
		}
		now = now.Add(step)
		if i%500 == 250 {
			s.later(now, s.remount)
		}
		require.NoError(t, s.step(now))
		if now.Sub(lastRead) >= 4*time.Second || rng.IntN(8) == 0 {
			readAll(t, s.o.root, known)
			lastRead = now
		}
	}
	require.NoError(t, s.finish(now))
	readAll(t, s.o.root, known)
	require.Equal(t, readTruth(t, truthFile), total(known))
	require.Greater(t, s.clears, 2)
	require.Equal(t, 3, s.remounts)
	require.Greater(t, len(known), 200)
	require.Contains(t, log.String(), "lustresim: remounted lustre-OST0001\n")
	require.Contains(t, log.String(), "on 3 targets, "+strconv.Itoa(s.clears)+" clears, 3 remounts, truth in "+truthFile+"\n")
}

func TestIOStandsStillBeforeAClear(t *testing.T) {
	s, now, log := newTestSimulator(t, "--jobs", "200")
	for range 20 {
		now = now.Add(time.Second)
		require.NoError(t, s.step(now))
	}
	before := map[life]map[string]opTruth{}
	readAll(t, s.o.root, before)
	require.NotEmpty(t, before)
	s.later(now, s.clear)
	for range 5 {
		during := map[life]map[string]opTruth{}
		readAll(t, s.o.root, during)
		require.Equal(t, before, during)
		require.NotContains(t, log.String(), "cleared")
		now = now.Add(time.Second)
		require.NoError(t, s.step(now))
	}
	require.Contains(t, log.String(), "lustresim: cleared all targets\n")
	after := map[life]map[string]opTruth{}
	readAll(t, s.o.root, after)
	require.Empty(t, after)
	for range 20 {
		now = now.Add(time.Second)
		require.NoError(t, s.step(now))
	}
	readAll(t, s.o.root, after)
	require.NotEmpty(t, after, "I/O goes on")
}

// lines hands on what is written to it, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lines) waitFor(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			require.Fail(t, "no line came", "waited for %q", text)
		}
	}
}

func TestRunObeysSignals(t *testing.T) {
	root, truthFile := t.TempDir(), filepath.Join(t.TempDir(), "truth.json")
	signals, stdout := make(chan os.Signal), make(lines, 100)
	done := make(chan int)
	var stderr bytes.Buffer
	go func() {
		done <- run(strings.Fields("--era 2.16 --tick 5ms --settle 5ms --speed 100 --jobs 200 --root "+root+" --truth "+truthFile),
			signals, stdout, &stderr)
	}()
	stdout.waitFor(t, "3 targets of lustre (Lustre 2.16) under "+root)
	signals <- syscall.SIGUSR1
	stdout.waitFor(t, "cleared all targets")
	signals <- syscall.SIGUSR2
	stdout.waitFor(t, "remounted lustre-OST0000")
	signals <- syscall.SIGTERM
	stdout.waitFor(t, "1 clears, 1 remounts, truth in "+truthFile)
	require.Zero(t, <-done)
	require.Empty(t, stderr.String())
	require.Len(t, readTruth(t, truthFile), 3)
}

// A run too short for anything to expire leaves files that show the truth.
func TestRunEndsByItself(t *testing.T) {
	root, truthFile := t.TempDir(), filepath.Join(t.TempDir(), "truth.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(strings.Fields("--interval 10m --tick 10ms --settle 100ms --speed 400 --duration 300ms --root "+
		root+" --truth "+truthFile), nil, &stdout, &stderr))
	require.Empty(t, stderr.String())
	known := map[life]map[string]opTruth{}
	readAll(t, root, known)
	require.NotEmpty(t, known)
	require.Equal(t, readTruth(t, truthFile), total(known))
	require.Contains(t, stdout.String(), "lustresim: stopped after ")
}
