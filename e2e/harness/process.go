package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a server or agent that the test started. It heads a process group of its own, which is killed when the
// test ends, and the kernel kills it when the test's process dies first.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	log  *Buffer
	done chan struct{} // Closed once the process has been waited for.
}

// start starts a program in a folder, with its standard output and error together in the process's log.
func start(t testing.TB, folder, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(name), cmd: exec.Command(name, args...), log: &Buffer{}, done: make(chan struct{})}
	p.cmd.Dir = folder
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A child that outlives it may hold the log's pipe open.
	p.cmd.WaitDelay = 2 * time.Second
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // The exit status is in ProcessState.
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // Fails where all of the group has ended, as it should.
		<-p.done
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, tail(p.log.String(), 40))
		}
	})
	return p
}

// Pid gives the process's id.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// Log gives all that the process has written so far.
func (p *process) Log() string { return p.log.String() }

// Signal sends the process a signal.
func (p *process) Signal(signal syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(signal))
}

// Wait waits until the process has ended and gives its exit status, -1 where a signal killed it.
func (p *process) Wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s has not ended within %s", p.name, within)
		return -1
	}
}

// Kill ends the process, but not its children, with SIGKILL.
func (p *process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait(time.Minute)
}

// ended tells whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Child waits for a child of the process whose command line contains a string, and gives its id. A process that has
// ended but was not waited for yet has no command line and is not found.
func (p *process) Child(commandLine string) int {
	p.t.Helper()
	var pid int
	Eventually(p.t, time.Minute, func() error {
		pids, err := children(p.Pid(), commandLine)
		if err == nil && len(pids) != 1 {
			err = fmt.Errorf("%s has %d children with %q in their command line", p.name, len(pids), commandLine)
		}
		if err == nil {
			pid = pids[0]
		}
		return err
	})
	return pid
}

// NewChild waits until a child as in Child is there that is not old.
func (p *process) NewChild(commandLine string, old int) int {
	p.t.Helper()
	Eventually(p.t, time.Minute, func() error {
		if p.Child(commandLine) == old {
			return fmt.Errorf("process %d is still there", old)
		}
		return nil
	})
	return p.Child(commandLine)
}

// Gone waits until a process, which need not be the test's own, has ended.
func Gone(t testing.TB, pid int, within time.Duration) {
	t.Helper()
	Eventually(t, within, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// children gives the children of a process that have a string in their command line, from /proc.
func children(parent int, commandLine string) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // It ended meanwhile.
		}
		// The name in parentheses may contain anything; the parent is the second field after it (proc(5)).
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(args), "\x00", " "), commandLine) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Buffer keeps what is written to it. It may be read while it grows.
type Buffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}
