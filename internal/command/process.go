package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killWait is how long a tool may take to end once it was killed. Only one that waits inside of the kernel, mostly for
// a file server that does not answer, takes longer.
const killWait = 2 * time.Second

// process is one run of a tool.
type process struct {
	stderr head
	out    *pipe
	errs   *pipe

	ended   chan struct{} // Closed when the tool has ended, or could not be started. Then state or refused is set.
	state   *os.ProcessState
	refused *Error

	mu      sync.Mutex
	started bool
	killed  bool
	pid     int // 0 where there is nothing to kill: not started yet, or waited for, when the number may be another's.
}

// newProcess makes the pipes and starts to read them, standard output into a sink.
func newProcess(stdout sink) (*process, error) {
	out, err := newPipe()
	if err != nil {
		return nil, err
	}
	errs, err := newPipe()
	if err != nil {
		discard(out.r, out.w)
		return nil, err
	}
	p := &process{out: out, errs: errs, ended: make(chan struct{})}
	go p.out.read(stdout)
	go p.errs.read(&p.stderr)
	return p, nil
}

// run starts the tool and waits until it has ended. It is not bound by the timeout: where the tool's file is on a hung
// file system, finding and starting it may take for ever.
func (p *process) run(find func() (string, *Error), argv, env []string) {
	// The kernel sends Pdeathsig when the thread that started the tool ends, not only when the process does. So no other
	// goroutine may have this thread, and end it, while the tool runs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	tool, refused := p.start(find, argv, env)
	if refused != nil {
		p.refused = refused
		return
	}
	// This leaves the tool a zombie. While it is one, its number, and its group's, cannot be another's.
	for {
		if err := unix.Waitid(unix.P_PID, tool.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break // Any other error is met again in Wait.
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
	p.pid = 0
	state, err := tool.Wait()
	if err != nil {
		p.refused = &Error{Reason: ErrSystem, Err: fmt.Errorf("waiting for its end: %w", err)}
		return
	}
	p.state = state
}

// start finds and starts the tool, and closes our copies of what it was given.
func (p *process) start(find func() (string, *Error), argv, env []string) (*os.Process, *Error) {
	defer discard(p.out.w, p.errs.w)
	path, refused := find()
	if refused != nil {
		return nil, refused
	}
	touch(path)
	devNull, err := os.Open(os.DevNull)
	if err != nil {
		return nil, startError(path, err)
	}
	defer discard(devNull)
	tool, err := os.StartProcess(path, argv, &os.ProcAttr{ //nolint:gosec // Starting what the caller names is what we do.
		Env:   env,
		Files: []*os.File{devNull, p.out.w, p.errs.w},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, startError(path, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started, p.pid = true, tool.Pid
	if p.killed {
		p.signal()
	}
	return tool, nil
}

// touch hangs where the file system of a program does. Else the child that is to become the program would, and up to
// there it shares its memory with us: then Go cannot stop its threads for the next collection, and all of us hangs.
func touch(path string) {
	file, err := os.Open(path)
	if err != nil {
		return // A program need not be readable; and any other fault is met again.
	}
	defer discard(file)
	_, _ = file.Read(make([]byte, 4096)) // The kernel reads its header, too.
}

// signal kills the tool and its group. The lock is held.
func (p *process) signal() {
	if p.pid == 0 {
		return
	}
	// The tool on its own too: it may have gone to another group. Both fail only where nothing is left to kill, or for a
	// tool that runs as another user; finish sees to that.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
}

// watch waits until the tool has ended, when it gives nil, or must be ended, when it tells why.
func (p *process) watch(ctx context.Context, timeout time.Duration) *Error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	read := p.out.done
	var failure *Error
	for failure == nil {
		select {
		case <-p.ended:
			return nil
		case <-read:
			failure = p.readFailure()
			read = nil // The tool may close its standard output and go on.
		case <-ctx.Done():
			failure = &Error{Reason: ErrCancelled, Err: ctx.Err()}
		case <-timer.C:
			failure = p.overtime(timeout)
		}
	}
	// Whoever has ended in time is not failed because we looked late.
	select {
	case <-p.ended:
		return nil
	default:
		return failure
	}
}

func (p *process) overtime(timeout time.Duration) *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return &Error{Reason: ErrTimeout, Err: fmt.Errorf("not started after %s", timeout)}
	}
	return &Error{Reason: ErrTimeout, Err: fmt.Errorf("still running after %s", timeout)}
}

// readFailure tells why the reading of standard output has ended, where it was not by its end.
func (p *process) readFailure() *Error {
	var failure *Error
	switch {
	case p.out.err == nil:
		return nil
	case errors.As(p.out.err, &failure):
		return failure
	default:
		return &Error{Reason: ErrSystem, Err: fmt.Errorf("reading its output: %w", p.out.err)}
	}
}

// finish kills the tool where asked to, and ends the reading. It tells whether the tool is gone.
func (p *process) finish(kill bool) bool {
	gone := true
	if kill {
		p.mu.Lock()
		p.killed = true
		p.signal()
		p.mu.Unlock()
		timer := time.NewTimer(killWait)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			gone = false
		}
	}
	p.out.finish()
	p.errs.finish()
	return gone
}

// outlived says of a tool that could not be ended that it is still there.
func (p *process) outlived(failure *Error) *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return failure
	}
	return &Error{Reason: failure.Reason, Err: fmt.Errorf("%w, and could not be killed", failure.Err)}
}

// failure tells why a run failed whose tool has ended by itself; nil where it did not fail.
func (p *process) failure() *Error {
	if p.refused != nil {
		return p.refused
	}
	if status, ok := p.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		number := int(status.Signal())
		return &Error{Reason: ErrSignal, Status: number, Err: fmt.Errorf("killed by signal %d", number)}
	}
	if status := p.state.ExitCode(); status != 0 {
		return &Error{Reason: ErrExit, Status: status, Err: fmt.Errorf("exit status %d", status)}
	}
	return p.readFailure()
}
