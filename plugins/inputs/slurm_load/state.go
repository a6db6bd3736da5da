package slurm_load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/influxdata/telegraf"
	"golang.org/x/sys/unix"
)

// stateVersion is the version of the state's format.
const stateVersion = 1

// state is what outlives the process: the totals, and what is counted in them.
type state struct {
	ends
	cluster string
	path    string // "" where nothing is kept
	lock    *os.File
}

// stateFile is the state as it is on disk.
type stateFile struct {
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
	if err := s.close(); err != nil {
		return err
	}
	p.queue.waits.init(p.bounds())
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
	if err := os.MkdirAll(p.StateDirectory, 0o750); err != nil {
		return fmt.Errorf("creating the state directory: %w", err)
	}
	s := &p.state
	path := filepath.Join(p.StateDirectory, fileName(s.cluster)+".json")
	lock, err := lockFile(strings.TrimSuffix(path, ".json") + ".lock")
	if err != nil {
		return err
	}
	s.lock, s.path = lock, path
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f stateFile
	if err := json.Unmarshal(text, &f); err != nil {
		return p.setAside(path, err)
	}
	if f.Version != stateVersion {
		return p.setAside(path, fmt.Errorf("version %d of the format is not %d", f.Version, stateVersion))
	}
	p.restore(&f)
	return nil
}

// setAside keeps a file that can't be read, for a person to look at.
func (p *SlurmLoad) setAside(path string, cause error) error {
	aside := path + ".damaged"
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	p.Log.Warnf("State %q can't be read: %v: set aside as %q; totals begin at zero", path, cause, aside)
	return nil
}

// lockFile locks a file until it is closed, which the end of the process does too.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state %q is in use by another process: %w", path, err), f.Close())
	}
	return f, nil
}

// fileName gives a cluster's name without what would lead out of the directory.
func fileName(cluster string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, "cluster-"+cluster)
}

func (p *SlurmLoad) restore(f *stateFile) {
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
	if p.state.path == "" {
		return
	}
	text, err := json.Marshal(p.snapshot())
	if err == nil {
		err = replaceFile(p.state.path, text)
	}
	if err != nil {
		err = fmt.Errorf("writing the state: %w", err)
	}
	p.fail(acc, "state", err)
}

func (p *SlurmLoad) snapshot() *stateFile {
	w, e := &p.queue.waits, &p.state.ends
	f := &stateFile{Version: stateVersion, Cluster: p.state.cluster, Bounds: w.bounds, Since: w.since, Cursor: e.Cursor}
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

// replaceFile writes a file whole or not at all.
func replaceFile(path string, text []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// close lets others have the state.
func (s *state) close() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock, s.path = nil, ""
	return err
}
