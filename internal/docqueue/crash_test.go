package docqueue

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv makes this test's binary work with the queue in its working directory in place of its tests.
const childEnv = "DOCQUEUE_CHILD"

func TestMain(m *testing.M) {
	for env, do := range map[string]func() error{childEnv: child, openEnv: openChild} {
		if os.Getenv(env) != "" {
			if err := do(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// child takes numbered documents and delivers them, until it is killed. It tells what was committed, and what went out.
func child() error {
	q, err := Open("queue", Options{Warn: func(err error) { fmt.Fprintln(os.Stderr, err) }})
	if err != nil {
		return err
	}
	kinds := []string{"a", "b"}
	for _, kind := range kinds {
		go func() {
			for {
				entries, err := q.Read(kind, 50, 0)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				for i := range entries {
					_, _ = fmt.Fprintf(os.Stdout, "out %s %s\n", kind, entries[i].Body)
					if err := q.Delivered(&entries[i]); err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
				}
				if len(entries) == 0 {
					<-q.Added(kind)
				}
			}
		}()
	}
	go func() {
		for {
			_ = q.Maintain()
			time.Sleep(time.Millisecond)
		}
	}()
	stats := q.Stats()
	a, b := stats["a"].Accepted, stats["b"].Accepted
	for {
		var docs []Document
		for range 1 + rand.IntN(40) {
			docs = append(docs, Document{"a", fmt.Append(nil, a+1)}, Document{"b", fmt.Append(nil, b+1)})
			a, b = a+1, b+1
		}
		if err := q.Append(docs, map[string][]byte{"a": fmt.Append(nil, a)}); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(os.Stdout, "in a %d\nin b %d\n", a, b)
	}
}

// live runs a child for a while, kills it and gives what it told.
func live(t *testing.T, dir string, last *map[string]uint64, out map[string][]uint64) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = filepath.Dir(dir)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	scanner := bufio.NewScanner(stdout)
	var kill sync.Once
	for scanner.Scan() {
		// From the first that was told on: a child that is still opening has nothing to lose.
		kill.Do(func() {
			time.AfterFunc(time.Duration(rand.IntN(100))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		})
		var verb, kind string
		var n uint64
		_, err := fmt.Sscan(scanner.Text(), &verb, &kind, &n)
		require.NoError(t, err, scanner.Text())
		if verb == "in" {
			(*last)[kind] = n
		} else {
			out[kind] = append(out[kind], n)
		}
	}
	require.Error(t, cmd.Wait())
	require.Empty(t, stderr.String())
}

// A process is killed again and again in the midst of taking and delivering: all that was committed goes out, in order,
// and of each kind at most one document goes out twice for each kill.
func TestKilled(t *testing.T) {
	t.Parallel()
	const kills = 10
	dir := filepath.Join(t.TempDir(), "queue")
	last, out := map[string]uint64{}, map[string][]uint64{}
	for range kills {
		live(t, dir, &last, out)
	}
	q, err := Open(dir, Options{Warn: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	state, err := q.State("")
	require.NoError(t, err)
	require.Equal(t, strconv.FormatUint(q.Stats()["a"].Accepted, 10), string(state["a"]), "state and documents are of one transaction")
	for _, kind := range []string{"a", "b"} {
		entries, err := q.Read(kind, 0, 0)
		require.NoError(t, err)
		for _, e := range entries {
			var n uint64
			_, err := fmt.Sscan(string(e.Body), &n)
			require.NoError(t, err)
			out[kind] = append(out[kind], n)
		}
		repeats, due := 0, uint64(1)
		for _, n := range out[kind] {
			if n == due-1 {
				repeats++
				continue
			}
			require.Equal(t, due, n, "kind %s", kind)
			due++
		}
		require.LessOrEqual(t, repeats, kills)
		require.GreaterOrEqual(t, due-1, last[kind])
		require.NotZero(t, last[kind])
	}
	require.NoError(t, q.Close())
}

// limited runs a test in a process of its own, where a file can't become larger than a limit: like a full disk, and any
// user may do it.
func limited(t *testing.T, limit uint64) (here bool) {
	t.Helper()
	const env = "DOCQUEUE_LIMITED"
	if os.Getenv(env) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		setLimit(t, limit)
		return true
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())
	return false
}

func setLimit(t *testing.T, limit uint64) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: old.Max}))
}

// On a full disk nothing is lost or half there, and it goes on when there is room again: what was delivered makes some.
func TestFullDisk(t *testing.T) {
	if !limited(t, 3<<20) {
		return
	}
	r := newRig(t, Options{})
	body := strings.Repeat("x", 10_000)
	add := func(n int) error {
		return r.q.Append([]Document{{"a", fmt.Append(nil, n, " ", body)}, {"b", fmt.Append(nil, n)}}, map[string][]byte{"n": fmt.Append(nil, n)})
	}
	n := 0
	fill := func() (err error) {
		for err == nil {
			if err = add(n); err == nil {
				n++
			}
		}
		return err
	}
	check := func(from int) {
		t.Helper()
		state, err := r.q.State("n")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(n-1), string(state["n"]))
		b := r.read("b", 0, 0)
		require.Len(t, b, n-from)
		require.Equal(t, strconv.Itoa(from), b[0])
		require.Len(t, r.read("a", 0, 0), n-from)
	}
	err := fill()
	require.True(t, isFull(err), err)
	require.Greater(t, n, 50)
	check(0)
	require.True(t, isFull(add(n)), "and again")
	r.reopen()
	check(0)
	require.True(t, isFull(add(n)), "after a restart, too")

	half := n / 2
	r.deliver("a", half)
	r.deliver("b", half)
	require.NoError(t, errors.Join(r.q.Maintain(), r.q.Maintain()))
	before := n
	require.True(t, isFull(fill()))
	require.Greater(t, n, before+half/2, "the room of what was delivered is used again")
	check(half)
	setLimit(t, unix.RLIM_INFINITY)
	require.NoError(t, add(n))
	n++
	check(half)
	require.Empty(t, r.warnings)
}
