package condor_q

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"telegraf-hpc/internal/command"
)

// tools runs HTCondor's commands.
type tools struct {
	folder  string // "" stands for PATH
	quick   *command.Runner
	history *command.Runner

	self func() (string, error) // the path of this program, which has the name of one of them

	mu    sync.Mutex
	found map[string]*command.Runner // for condor_q, by the folder that it is in
}

func newTools(folder string, timeout, historyTimeout time.Duration, maxOutput int) *tools {
	return &tools{
		folder: folder, self: os.Executable, found: make(map[string]*command.Runner),
		quick:   &command.Runner{Timeout: timeout, MaxOutput: maxOutput, Folder: folder},
		history: &command.Runner{Timeout: historyTimeout, MaxOutput: maxOutput, Folder: folder},
	}
}

func (t *tools) run(ctx context.Context, consume func(io.Reader) error, name string, args ...string) (command.Result, error) {
	runner := t.quick
	switch {
	case name == "condor_history":
		runner = t.history
	case name == "condor_q" && t.folder == "":
		folder, err := t.theirs(name)
		if err != nil {
			return command.Result{}, err
		}
		runner = t.in(folder)
	}
	return runner.Stream(ctx, consume, name, args...)
}

// in gives the runner for a folder: always the same, since it knows which tools hang.
func (t *tools) in(folder string) *command.Runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found[folder] == nil {
		t.found[folder] = &command.Runner{Timeout: t.quick.Timeout, MaxOutput: t.quick.MaxOutput, Folder: folder}
	}
	return t.found[folder]
}

// theirs gives the first folder of PATH whose file of that name can be run and is not this program.
func (t *tools) theirs(name string) (string, error) {
	missing := func(text string) error {
		return &command.Error{Name: name, Reason: command.ErrNotFound, Err: errors.New(text)}
	}
	path, err := t.self()
	if err != nil {
		return "", missing("not found: asking for this program's own path: " + err.Error())
	}
	self, err := os.Stat(path)
	if err != nil {
		return "", missing("not found: " + err.Error())
	}
	text := "not found in PATH"
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		candidate := filepath.Join(folder, name)
		if !filepath.IsAbs(folder) || !runs(candidate) {
			continue
		}
		if info, err := os.Stat(candidate); err == nil && !os.SameFile(info, self) { //nolint:gosec // Running what PATH has is what we do.
			return folder, nil
		}
		text = "not found in PATH but for this program, " + candidate
	}
	return "", missing(text)
}

// runs tells whether a file can be run.
func runs(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}
