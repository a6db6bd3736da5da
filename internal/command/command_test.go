package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunGivesExactOutput(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience}
	for _, n := range []int{0, 1, 4095, 65536, chunkSize - 1, chunkSize, chunkSize + 1, 10_000_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			got, err := r.Run(t.Context(), "pattern", strconv.Itoa(n))
			require.NoError(t, err)
			require.NotNil(t, got.Stdout)
			require.Equal(t, string(pattern(n)), string(got.Stdout))
		})
	}
}

func TestRunPassesArgumentsRaw(t *testing.T) {
	t.Parallel()
	args := []string{"", " ", "*", "$HOME", "`id`", "$(id)", "a;b|c&d>e", `"'\`, "--help", "-o", "%i|%j\n", "é\xff"}
	got, err := (&Runner{Folder: folder(t)}).Run(t.Context(), "args", args...)
	require.NoError(t, err)
	require.Equal(t, strings.Join(args, "\x00"), string(got.Stdout))
}

func TestRunGivesNoStandardInput(t *testing.T) {
	t.Parallel()
	got, err := (&Runner{Folder: folder(t)}).Run(t.Context(), "stdin")
	require.NoError(t, err)
	require.Empty(t, got.Stdout)
}

func TestRunSetsTheWholeEnvironment(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"none":   {},
		"some":   {"LC_ALL=C", "SLURM_CONF=/etc/slurm/a b.conf", "EMPTY=", "TWICE=1", "TWICE=2", "odd"},
		"no own": nil,
	} {
		t.Run(name, func(t *testing.T) {
			variables := env
			if env == nil {
				variables = os.Environ()
			}
			var want strings.Builder
			for _, v := range variables {
				want.WriteString(v + "\x00")
			}
			got, err := (&Runner{Folder: folder(t), Env: env}).Run(t.Context(), "env")
			require.NoError(t, err)
			require.Equal(t, want.String(), string(got.Stdout))
		})
	}
}

func TestRunFindsTools(t *testing.T) {
	dir := folder(t)
	t.Setenv("PATH", dir)
	for name, r := range map[string]*Runner{
		"args":                      {},                                     // In PATH.
		filepath.Join(dir, "args"):  {},                                     // Absolute.
		filepath.Join(dir, "args/"): {Folder: "/nonexistent"},               // Absolute before the folder.
		"/bin/sh":                   {Folder: dir, Env: []string{"PATH=/"}}, // Nothing of Env is looked at.
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Run(t.Context(), name, "-c", ":")
			require.NoError(t, err)
		})
	}
}

func TestRunMeasures(t *testing.T) {
	t.Parallel()
	got, err := (&Runner{Folder: folder(t)}).Run(t.Context(), "burn")
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.CPU, 195*time.Millisecond, "the child's time is missing")
	require.GreaterOrEqual(t, got.Elapsed, 195*time.Millisecond)
	require.Less(t, got.Elapsed, patience)

	got, err = (&Runner{Folder: folder(t)}).Run(t.Context(), "args")
	require.NoError(t, err)
	require.Less(t, got.CPU, 195*time.Millisecond, "another run's time is in it")
}

// failure is what a test expects of a run that fails.
type failure struct {
	reason Reason
	status int
	stderr string
	text   string
}

// requireFailure runs a tool that must fail.
func requireFailure(t *testing.T, r *Runner, want failure, name string, args ...string) {
	t.Helper()
	got, err := r.Run(t.Context(), name, args...)
	requireError(t, want, name, got, err)
}

func requireError(t *testing.T, want failure, name string, got Result, err error) {
	t.Helper()
	require.EqualError(t, err, want.text)
	require.ErrorIs(t, err, want.reason)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, failure{failed.Reason, failed.Status, failed.Stderr, failed.Error()})
	require.Equal(t, name, failed.Name)
	require.Empty(t, got)
}

func TestRunFailsByTheTool(t *testing.T) {
	t.Parallel()
	const stderr = `\x1b[31msqueue: "error"\a\tcaf\xe9 café\u202e`
	for name, want := range map[string]failure{
		"fails":     {ErrExit, 3, stderr, "fails: exit status 3: " + stderr},
		"silent":    {ErrExit, 1, "", "silent: exit status 1"},
		"signalled": {ErrSignal, 9, "", "signalled: killed by signal 9"},
	} {
		t.Run(name, func(t *testing.T) {
			requireFailure(t, &Runner{Folder: folder(t), Timeout: patience}, want, name)
		})
	}
}

func TestRunFailsByWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o600)
	noise := file("noise", "\x00\x01\x02", 0o700)
	orphan := file("orphan", "#!/nonexistent/python2\n", 0o700)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	t.Setenv("PATH", dir)
	t.Chdir(dir)

	missing := failure{reason: ErrNotFound}
	system := failure{reason: ErrSystem}
	for _, c := range []struct {
		folder, name string
		want         failure
		text         string
	}{
		{"", "squeue", missing, "squeue: not found in PATH"},
		{"", "plain", missing, "plain: not found in PATH"},
		{"", "", missing, ": not found in PATH"},
		{dir, "squeue", missing, "squeue: not found in " + dir},
		{dir, "dangling", missing, "dangling: not found in " + dir},
		{dir, "/nonexistent/squeue", missing, "/nonexistent/squeue: not found"},
		{dir, "plain", system, "plain: starting " + plain + ": permission denied"},
		{"", plain, system, plain + ": starting " + plain + ": permission denied"},
		{dir, "sub", system, "sub: starting " + dir + "/sub: is a directory"},
		{plain, "squeue", system, "squeue: starting " + plain + "/squeue: not a directory"},
		{dir, "noise", system, "noise: starting " + noise + ": exec format error"},
		{dir, "orphan", system, "orphan: starting " + orphan + ": no such file or directory (of its interpreter)"},
		{"", "./plain", system, `./plain: the path "./plain" is not absolute`},
		{".", "plain", system, `plain: the path "plain" is not absolute`},
	} {
		t.Run(c.folder+":"+c.name, func(t *testing.T) {
			c.want.text = c.text
			requireFailure(t, &Runner{Folder: c.folder, Timeout: patience}, c.want, c.name)
		})
	}
	t.Run("not readable", func(t *testing.T) {
		text, err := os.ReadFile("/bin/true")
		require.NoError(t, err)
		_, err = (&Runner{Folder: dir}).Run(t.Context(), filepath.Base(file("secret", string(text), 0o111)))
		require.NoError(t, err)
	})
	t.Run("relative PATH", func(t *testing.T) {
		require.NoError(t, os.Chmod(plain, 0o700))
		t.Setenv("PATH", ".")
		missing.text = "plain: not found in PATH"
		requireFailure(t, &Runner{}, missing, "plain")
	})
	t.Run("zero byte", func(t *testing.T) {
		system.text = "plain: starting " + plain + ": invalid argument"
		requireFailure(t, &Runner{Folder: dir}, system, "plain", "a\x00b")
	})
}

func TestRunLimitsOutput(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for _, limit := range []int{1, 1000, chunkSize, chunkSize + 1} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			r := &Runner{Folder: dir, Timeout: patience, MaxOutput: limit}
			want := failure{reason: ErrTooLong, text: fmt.Sprintf("flood: more than %d bytes of output", limit)}
			requireFailure(t, r, want, "flood")
			want.text = fmt.Sprintf("pattern: more than %d bytes of output", limit)
			requireFailure(t, r, want, "pattern", strconv.Itoa(limit+1))
			got, err := r.Run(t.Context(), "pattern", strconv.Itoa(limit))
			require.NoError(t, err)
			require.Len(t, got.Stdout, limit)
		})
	}
}

func TestRunLimitsOutputByDefault(t *testing.T) {
	t.Parallel()
	want := failure{reason: ErrTooLong, text: "flood: more than 67108864 bytes of output"}
	requireFailure(t, &Runner{Folder: folder(t), Timeout: patience}, want, "flood")
	require.Equal(t, DefaultTimeout, (&Runner{}).timeout())
}

func TestRunDrainsStandardError(t *testing.T) {
	t.Parallel()
	got, err := (&Runner{Folder: folder(t), Timeout: patience}).Run(t.Context(), "flooderr")
	require.NoError(t, err)
	require.Equal(t, "answer", string(got.Stdout))
}

func TestRunStopsAtTimeout(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	r := &Runner{Folder: dir, Timeout: 4 * time.Second}
	for _, name := range []string{"hang", "stubborn", "mover", "closes", "forkhang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			requireFailure(t, r, failure{reason: ErrTimeout, text: name + ": still running after 4s"}, name, pid)
		})
	}
}

func TestRunStopsWithTheContext(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for _, name := range []string{"hang", "stubborn", "mover", "closes", "forkhang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var tool int
			go func() {
				defer cancel()
				tool = awaitPid(t, pid)
			}()
			got, err := (&Runner{Folder: dir, Timeout: patience}).Run(ctx, name, pid)
			require.ErrorIs(t, err, context.Canceled)
			requireError(t, failure{reason: ErrCancelled, text: name + ": context canceled"}, name, got, err)
			<-ctx.Done() // Makes the process id known.
			awaitEndOfGroup(t, tool)
			awaitEnd(t, tool)
			if name == "forkhang" {
				awaitEnd(t, awaitPid(t, pid+".child"))
			}
		})
	}
}

func TestRunDoesNotStartWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	pid := filepath.Join(t.TempDir(), "pid")
	got, err := (&Runner{Folder: folder(t)}).Run(ctx, "fork", pid)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	requireError(t, failure{reason: ErrCancelled, text: "fork: context deadline exceeded"}, "fork", got, err)
	require.NoFileExists(t, pid)
	refused := (&Runner{}).admit(ctx, "fork") // Else it would be started, and killed before it has done anything.
	require.NotNil(t, refused)
	require.Equal(t, ErrCancelled, refused.Reason)
}

// What has ended in time is not failed because the machine was too busy to look.
func TestWatchPrefersTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	close(ended)
	for range 100 {
		p := &process{ended: ended, out: &pipe{done: make(chan struct{})}}
		require.Nil(t, p.watch(ctx, 0))
	}
}

func TestRunInParallel(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience, MaxOutput: chunkSize}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for k := range 4 {
				text := fmt.Sprint(i, k)
				got, err := r.Run(t.Context(), "args", text)
				if err == nil && string(got.Stdout) != text {
					err = fmt.Errorf("got %q", got.Stdout)
				}
				if _, tooLong := r.Run(t.Context(), "flood"); !errors.Is(tooLong, ErrTooLong) {
					err = errors.Join(err, fmt.Errorf("flood gives: %w", tooLong))
				}
				if err != nil {
					t.Errorf("run %s: %v", text, err)
				}
			}
		})
	}
	wait.Wait()
}

// The kernel kills a tool when the thread that started it ends.
func TestRunKeepsItsThread(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience}
	stop := make(chan struct{})
	var threads sync.WaitGroup
	threads.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // And never unlocked: so the thread ends with the goroutine.
			}()
			<-done
		}
	})
	for range 30 {
		_, err := r.Run(t.Context(), "/bin/sleep", "0.02")
		require.NoError(t, err)
	}
	close(stop)
	threads.Wait()
}

func TestToolDiesWithItsParent(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	pid := filepath.Join(t.TempDir(), "pid")
	cmd := self("parent", dir, pid)
	require.NoError(t, cmd.Start())
	tool := awaitPid(t, pid)
	require.True(t, running(tool))
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	awaitEnd(t, tool)
}
