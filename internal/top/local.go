package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"telegraf-hpc/internal/jobstats"
)

const (
	// lustreCleanup is Lustre's own default of job_cleanup_interval.
	lustreCleanup = 600 * time.Second
	// mostSeries is how many jobs of a target are told apart.
	mostSeries = 200000
)

// Local reads the job_stats of the file server that it runs on. Counters that start again from zero are known as in
// lustre_jobstats: rates never fall below zero for it, and totals go on.
type Local struct {
	root     string
	patterns *jobstats.JobIDPatterns
	now      func() time.Time
	targets  map[string]*target // By the path of job_stats.
	samples  int
	last     Snapshot // Without rows.
	by       Grouping
}

// NewLocal gives the file server whose files are below a folder. The patterns are those of Lustre's jobid_name.
func NewLocal(root string, jobIDName []string, now func() time.Time) (*Local, error) {
	patterns, err := jobstats.ParseJobIDPatterns(jobIDName, false)
	if err != nil {
		return nil, err
	}
	return &Local{root: root, patterns: patterns, now: now, targets: map[string]*target{}}, nil
}

// Name says that it is this server.
func (l *Local) Name() string { return "this file server" }

// target is an OST or MDT.
type target struct {
	fs, path string
	meta     bool
	ledger   *jobstats.Ledger
	// read is when it was read, looked when it was read or found to be away, in nanoseconds; 0 is never.
	looked, read int64
	elapsed      time.Duration // Between the last two readings; 0 where one failed.
	away         bool
	series       map[jobstats.SeriesID]*series
}

// series is one job, or what else a pattern finds in an id, on a target.
type series struct {
	labels           jobstats.Labels
	read, write, ops int64
	known            bool // The three are counted from a known start, so that what comes is a difference.
	// What was done between the last two readings.
	readDone, writeDone, opsDone int64
}

// Sample reads all targets. One that can't be read is a problem, and the others are told all the same. Asked for another
// grouping, it reads nothing: what the last readings showed is put together in another way.
func (l *Local) Sample(ctx context.Context, by Grouping) (Snapshot, bool, error) {
	if l.samples > 0 && by != l.by {
		l.by = by
		return l.grouped(), l.samples > 1, nil
	}
	now := l.now()
	found, err := l.find()
	if err != nil {
		return Snapshot{}, false, err
	}
	if len(found) == 0 && len(l.targets) == 0 {
		return Snapshot{}, false, fmt.Errorf("no target of Lustre below %s: this host is no file server", filepath.Join(l.root, "proc/fs/lustre"))
	}
	l.last, l.by = Snapshot{At: now}, by
	for _, t := range found {
		if err := ctx.Err(); err != nil {
			return Snapshot{}, false, err
		}
		l.last.Problems = append(l.last.Problems, l.take(t)...)
	}
	for _, t := range l.targets {
		if !slices.Contains(found, t) {
			t.away, t.looked = true, now.UnixNano()
		}
	}
	l.samples++
	return l.grouped(), l.samples > 1, nil
}

// grouped gives what the last readings showed.
func (l *Local) grouped() Snapshot {
	rows := map[[2]string]*Row{}
	for _, t := range l.targets {
		if !t.away {
			t.fill(rows, l.by)
		}
	}
	s := l.last
	for _, r := range rows {
		s.Rows = append(s.Rows, *r)
	}
	return s
}

// find lists the targets that are here now.
func (l *Local) find() ([]*target, error) {
	var all []*target
	for _, place := range []string{"obdfilter", "mdt", "mds"} {
		paths, err := filepath.Glob(filepath.Join(l.root, "proc/fs/lustre", place, "*/job_stats"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			t := l.targets[path]
			if t == nil {
				name := filepath.Base(filepath.Dir(path))
				t = &target{path: path, meta: place != "obdfilter", fs: name, series: map[jobstats.SeriesID]*series{}}
				if i := strings.LastIndexByte(name, '-'); i > 0 {
					t.fs = name[:i]
				}
				// Without a folder there is nothing that could be damaged or in use.
				t.ledger, _, err = jobstats.Open(jobstats.Options{
					Host: "top", Patterns: l.patterns, MaxJobs: mostSeries, ForgetAfter: 8 * 24 * time.Hour, Refresh: 365 * 24 * time.Hour, Totals: true,
				})
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
				l.targets[path] = t
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// take reads a target.
func (l *Local) take(t *target) (problems []string) {
	t.elapsed = 0
	for _, s := range t.series {
		s.readDone, s.writeDone, s.opsDone = 0, 0, 0
	}
	file, err := os.Open(t.path)
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close() //nolint:errcheck // It was only read.
	if t.away {
		t.ledger.Remounted()
		t.away = false
	}
	now := l.now()
	since := t.looked
	stats, err := t.ledger.Gather(file, now, since, l.cleanup(t.path))
	t.looked = now.UnixNano()
	if err != nil {
		problems = append(problems, fmt.Sprintf("%s: %v", t.path, err))
	}
	if stats.ErrorCount > 0 {
		problems = append(problems, fmt.Sprintf("%s: %d entries can't be read: %v", t.path, stats.ErrorCount, stats.Errors[0]))
	}
	if t.read != 0 {
		t.elapsed = time.Duration(now.UnixNano() - t.read)
	}
	t.read = now.UnixNano()
	t.ledger.Emit(t.visit)
	return problems
}

// visit takes the zeros that a new series starts from, and the totals of those that counted.
func (t *target) visit(p *jobstats.Point) {
	s := t.series[p.ID]
	if s == nil {
		s = &series{labels: p.Labels}
		t.series[p.ID] = s
	}
	if p.What == jobstats.Zeros {
		s.known = true
		return
	}
	read, write := int64(0), int64(0)
	for _, f := range p.Fields {
		switch f.Name {
		case "read_bytes":
			read = f.Value
		case "write_bytes":
			write = f.Value
		}
	}
	if s.known {
		s.readDone, s.writeDone, s.opsDone = read-s.read, write-s.write, p.Ops-s.ops
	}
	s.read, s.write, s.ops, s.known = read, write, p.Ops, true
}

// fill adds a target's series to the rows.
func (t *target) fill(rows map[[2]string]*Row, by Grouping) {
	for _, s := range t.series {
		key := [2]string{t.fs, s.name(by)}
		r := rows[key]
		if r == nil {
			r = &Row{FS: t.fs, Name: key[1], User: s.labels.UID}
			rows[key] = r
		}
		done := Row{}
		if seconds := t.elapsed.Seconds(); seconds > 0 {
			done.ReadRate, done.WriteRate = float64(s.readDone)/seconds, float64(s.writeDone)/seconds
			done.OpsRate = float64(s.opsDone) / seconds
		}
		done.Read, done.Write = s.read, s.write
		if t.meta { // Its bytes are those of small files that an MDT itself holds (data on MDT).
			done.MetaRate, done.OpsRate = done.OpsRate, 0
		}
		r.add(&done)
	}
}

// name gives what the series counts for. Labels are printable already.
func (s *series) name(by Grouping) string {
	l := &s.labels
	switch {
	case by == ByUser && l.UID != "":
		return l.UID
	case by == ByUser:
		return "(jobs)"
	case l.Job != "":
		return l.Job
	}
	var parts []string
	for _, part := range []string{l.Exe, l.UID, l.GID, l.Client} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ".")
}

// cleanup reads a target's job_cleanup_interval: beside job_stats up to 2.12, below /sys after.
func (l *Local) cleanup(path string) time.Duration {
	folder := filepath.Dir(path)
	kind := filepath.Base(filepath.Dir(folder))
	for _, name := range []string{
		filepath.Join(l.root, "sys/fs/lustre", kind, filepath.Base(folder), "job_cleanup_interval"), filepath.Join(folder, "job_cleanup_interval"),
	} {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if seconds, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 31); err == nil {
			return time.Duration(seconds) * time.Second
		}
	}
	return lustreCleanup
}
