package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// awaitPid waits until a tool is ready, and gives its process id.
func awaitPid(t *testing.T, file string) int {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil {
			pid, err := strconv.Atoi(string(text))
			if err != nil {
				t.Errorf("process id: %v", err)
			}
			return pid
		}
		if time.Now().After(deadline) {
			t.Errorf("no tool has written %s", file)
			return 0
		}
	}
}

// stat is what /proc says of a process.
type stat struct {
	pid, parent, group int
	state              string
}

// processes lists all processes.
func processes(t *testing.T) []stat {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var all []stat
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended since.
		}
		// The name before the last bracket may hold anything.
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		s := stat{state: fields[0]}
		for number, field := range map[*int]string{&s.pid: filepath.Base(filepath.Dir(file)), &s.parent: fields[1], &s.group: fields[2]} {
			*number, err = strconv.Atoi(field)
			require.NoError(t, err)
		}
		all = append(all, s)
	}
	return all
}

// live tells whether a process runs. A zombie does not: whoever adopted it has not waited for it yet.
func (s stat) live() bool { return s.state != "Z" && s.state != "X" }

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	// Not require.Eventually, which starts goroutines that a condition may count.
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), what)
	}
}

func isStuck(err error) bool { return errors.Is(err, ErrStuck) }

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	require.Positive(t, pid)
	await(t, "process lives on", func() bool {
		for _, s := range processes(t) {
			if s.pid == pid && s.live() {
				return false
			}
		}
		return true
	})
}

func awaitEndOfGroup(t *testing.T, group int) {
	t.Helper()
	require.Positive(t, group)
	await(t, "processes of the group live on", func() bool {
		for _, s := range processes(t) {
			if s.group == group && s.live() {
				return false
			}
		}
		return true
	})
}

func TestRunEndsWithTheToolNotItsChildren(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	t.Run("in the group", func(t *testing.T) {
		t.Parallel()
		pid := filepath.Join(t.TempDir(), "pid")
		got, err := (&Runner{Folder: dir, Timeout: patience}).Run(t.Context(), "fork", pid)
		require.NoError(t, err)
		require.Equal(t, "mine", string(got.Stdout))
		awaitEndOfGroup(t, awaitPid(t, pid))
		awaitEnd(t, awaitPid(t, pid+".child"))
	})
	for _, name := range []string{"escape", "floodchild"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			got, err := (&Runner{Folder: dir, Timeout: patience}).Run(t.Context(), name, pid)
			require.NoError(t, err)
			require.Equal(t, "mine", string(got.Stdout[:4]))
			child := awaitPid(t, pid+".child")
			if name == "escape" {
				require.Equal(t, "mine", string(got.Stdout))
				require.True(t, running(child), "a process of another group was killed")
				require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
			}
			awaitEnd(t, child) // The one that floods finds its pipe closed.
		})
	}
}

// Not in parallel: it counts what the whole process has.
func TestRunLeavesNothingBehind(t *testing.T) {
	dir := folder(t)
	pid := filepath.Join(t.TempDir(), "pid")
	everything := func() {
		r := &Runner{Folder: dir, Timeout: patience, MaxOutput: 1000}
		for _, args := range [][]string{{"args"}, {"fails"}, {"signalled"}, {"flood"}, {"fork", pid}, {"missing"}, {"/"}} {
			_, _ = r.Run(t.Context(), args[0], args[1:]...) // How each ends is another test's matter.
		}
		r.Timeout = 10 * time.Millisecond
		_, err := r.Run(t.Context(), "hang", pid)
		require.ErrorIs(t, err, ErrTimeout)
	}
	everything()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		everything()
	}
	for _, s := range processes(t) {
		require.NotEqual(t, os.Getpid(), s.parent, "a child is left: %+v", s)
	}
	require.Equal(t, files, openFiles(t))
	await(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Not in parallel: it takes the files from the whole process.
func TestRunWithoutFilesToOpen(t *testing.T) {
	r := &Runner{Timeout: patience}
	_, err := r.Run(t.Context(), "/bin/true")
	require.NoError(t, err)
	before := openFiles(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	failed := 0
	for files := uint64(3); ; files++ {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: limit.Max}))
		_, err := r.Run(t.Context(), "/bin/true")
		if err == nil {
			break
		}
		failed++
		require.ErrorIs(t, err, ErrSystem)
		require.ErrorIs(t, err, syscall.EMFILE)
	}
	require.GreaterOrEqual(t, failed, 6, "each of two pipes, and what it takes to start")
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.Equal(t, before, openFiles(t))
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

// Not in parallel: it measures what the whole process uses.
func TestRunWaitsWithoutWork(t *testing.T) {
	before := ownCPU()
	r := &Runner{Folder: folder(t), Timeout: 400 * time.Millisecond}
	_, err := r.Run(t.Context(), "closes", filepath.Join(t.TempDir(), "pid"))
	require.ErrorIs(t, err, ErrTimeout)
	require.Less(t, ownCPU()-before, 200*time.Millisecond)
}

// Not in parallel: it measures what the whole process has.
func TestRunUnmapsItsChunks(t *testing.T) {
	for _, name := range []string{"/bin/true", "/bin/false"} {
		before := mapped(t)
		for range 256 {
			_, _ = (&Runner{}).Run(t.Context(), name) // Both ways to end.
		}
		// Go's heap and threads may grow meanwhile.
		require.Less(t, mapped(t)-before, 192*chunkSize, name)
	}
}

// mapped gives the size in bytes of all that is mapped into this process.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// A tool that cannot be killed is given up, and not started again while it is there.
func TestRunGivesUpWhatCannotBeKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	pid := filepath.Join(t.TempDir(), "pid")
	r := &Runner{Folder: dir, Timeout: patience}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan func() error, 1)
	go func() {
		defer cancel()
		held <- hold(t, awaitPid(t, pid))
	}()
	got, err := r.Run(ctx, "traced", pid)
	letGo := <-held
	requireError(t, failure{reason: ErrCancelled, text: "traced: context canceled, and could not be killed"}, "traced", got, err)
	require.ErrorIs(t, err, context.Canceled)
	requireFailure(t, r, failure{reason: ErrStuck, text: "traced: not started: an earlier one could not be ended"}, "traced", pid)
	_, err = r.Run(t.Context(), "args")
	require.NoError(t, err, "another tool")

	require.NoError(t, letGo())
	r.Timeout = 10 * time.Millisecond
	await(t, "it is held back for ever", func() bool {
		_, err := r.Run(t.Context(), "traced", pid)
		return !isStuck(err)
	})
}

// hold keeps a process from ending until what it gives is called.
func hold(t *testing.T, pid int) func() error {
	cmd := self("tracer", strconv.Itoa(pid))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Errorf("tracing a process: %v", err)
		return func() error { return err }
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.ReadFull(stdout, make([]byte, len("seized\n")))
	}
	if err != nil {
		t.Errorf("tracing a process: %v", err)
	}
	return func() error { return errors.Join(err, stdin.Close(), cmd.Wait()) }
}

// A file on a hung file system hangs whoever starts it, before there is anything to kill. A lease does the same.
func TestRunGivesUpWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slow")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec sleep $1\n"), 0o700))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer discard(file)
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	require.NoError(t, err)
	t.Parallel() // Not before: children of other tests would hold the file, open for writing, for a moment.

	r := &Runner{Folder: dir, Timeout: 50 * time.Millisecond}
	requireFailure(t, r, failure{reason: ErrTimeout, text: "slow: not started after 50ms"}, "slow", "300")
	runtime.GC() // It hangs where the child does.
	requireFailure(t, r, failure{reason: ErrStuck, text: "slow: not started: an earlier one could not be ended"}, "slow", "0")
	r.Timeout = patience
	_, err = r.Run(t.Context(), "/bin/true")
	require.NoError(t, err, "another tool")

	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	require.NoError(t, err)
	await(t, "it is held back for ever", func() bool {
		_, err := r.Run(t.Context(), "slow", "0")
		return !isStuck(err)
	})
}
