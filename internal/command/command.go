// Package command runs an external tool, such as squeue, and gives what it wrote, or one line that says why it could not.
//
// A tool gets no shell, no standard input, an environment that is set, and a process group of its own. Whatever it does,
// a run ends within its timeout and a short while for the kill, and nothing of the group is left. The system calls are
// Linux's: waitid(2), prctl(2) PR_SET_PDEATHSIG, pipe(7).
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultTimeout is the timeout of a Runner that sets none.
	DefaultTimeout = 10 * time.Second
	// DefaultMaxOutput is the most output in bytes for a Runner that sets no limit.
	DefaultMaxOutput = 64 << 20
)

// Runner runs external tools, without a shell. The zero value is ready. It may run several at the same time.
type Runner struct {
	// Timeout is the longest that one run may take; 0 stands for DefaultTimeout.
	Timeout time.Duration
	// MaxOutput is the most bytes that a tool may write to standard output; 0 stands for DefaultMaxOutput.
	MaxOutput int
	// Env is the whole environment of the tools, as os.Environ gives it; nil stands for that of this process.
	Env []string
	// Folder is where tools are looked for by name: an absolute path. Without it, it is the PATH of this process; Env has
	// no say in it.
	Folder string

	mu    sync.Mutex
	stuck map[string]int // Runs by name that were given up, and whose tool could not be killed yet.
}

// Result is what a run gave whose tool ended with exit status 0.
type Result struct {
	// Stdout is all that the tool wrote to standard output.
	Stdout []byte
	// Elapsed is the time from start to end by the clock.
	Elapsed time.Duration
	// CPU is the user and system time of the tool and of those of its children that it waited for.
	CPU time.Duration
}

// Run runs a tool until it ends and gives its standard output. The name is looked for in Folder or PATH, or is an
// absolute path; args reach the tool as they are. An error is always an *Error.
//
// The tool's whole process group is killed when the time is over, the output too long, or ctx done. It is killed, too,
// when the tool has ended but has left children behind; that is no error: the output is complete as far as the tool
// itself wrote it. A child that has left the group lives on, but is not waited for, and may find its pipe closed. When
// this process dies, the kernel kills the tool, but not the tool's children.
func (r *Runner) Run(ctx context.Context, name string, args ...string) (Result, error) {
	out := text{limit: r.maxOutput()}
	defer out.free()
	result, err := r.run(ctx, &out, name, args)
	if err != nil {
		return Result{}, err
	}
	result.Stdout = out.bytes()
	return result, nil
}

// run runs a tool until it ends, with its standard output in a sink. The reading has ended when it returns.
func (r *Runner) run(ctx context.Context, stdout sink, name string, args []string) (Result, error) {
	begin := time.Now()
	if err := r.admit(ctx, name); err != nil {
		return Result{}, &Error{Name: name, Reason: err.Reason, Err: err.Err}
	}
	p, err := newProcess(stdout)
	if err != nil {
		return Result{}, &Error{Name: name, Reason: ErrSystem, Err: err}
	}
	find := func() (string, *Error) { return r.find(name) }
	go p.run(find, append([]string{name}, args...), r.Env)

	failure := p.watch(ctx, r.timeout())
	gone := p.finish(failure != nil)
	if !gone {
		r.remember(name, p)
		failure = p.outlived(failure)
	}
	if failure == nil {
		failure = p.failure()
	}
	if failure != nil {
		failure.Name, failure.Stderr = name, p.stderr.firstLine()
		return Result{}, failure
	}
	return Result{Elapsed: time.Since(begin), CPU: p.state.UserTime() + p.state.SystemTime()}, nil
}

func (r *Runner) timeout() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return DefaultTimeout
}

func (r *Runner) maxOutput() int {
	if r.MaxOutput > 0 {
		return r.MaxOutput
	}
	return DefaultMaxOutput
}

// admit tells why a tool should not be started at all.
func (r *Runner) admit(ctx context.Context, name string) *Error {
	if err := ctx.Err(); err != nil {
		return &Error{Reason: ErrCancelled, Err: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// On a hung file system each would hold a thread of ours, and there would be more of them at every interval.
	if r.stuck[name] > 0 {
		return &Error{Reason: ErrStuck, Err: errors.New("not started: an earlier one could not be ended")}
	}
	return nil
}

// remember keeps the tool from being started again while p is still there.
func (r *Runner) remember(name string, p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stuck == nil {
		r.stuck = make(map[string]int)
	}
	r.stuck[name]++
	go func() {
		<-p.ended
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stuck[name]--
	}()
}

// find gives the path of a tool.
func (r *Runner) find(name string) (string, *Error) {
	path, missing := name, "not found"
	switch {
	case filepath.IsAbs(name):
	case r.Folder != "":
		path, missing = filepath.Join(r.Folder, name), "not found in "+r.Folder
	case !strings.Contains(name, "/"):
		path, err := exec.LookPath(name)
		if err != nil { // Also where PATH has a relative folder, which depends on where Telegraf was started.
			return "", &Error{Reason: ErrNotFound, Err: errors.New("not found in PATH")}
		}
		return path, nil
	}
	if !filepath.IsAbs(path) {
		return "", &Error{Reason: ErrSystem, Err: fmt.Errorf("the path %q is not absolute", path)}
	}
	_, err := exec.LookPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &Error{Reason: ErrNotFound, Err: errors.New(missing)}
	}
	if err != nil {
		return "", startError(path, err)
	}
	return path, nil
}
