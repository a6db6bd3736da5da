package execd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInputGathersAtNewline(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	c := start(t, kindInput, `
[[inputs.test_input]]
  metrics = 2
  time = 17
  events = "`+events+`"
`)
	c.send("\n")
	c.waitStdout("n=1")
	require.Equal(t, []string{
		`test_input,n=0 gather=1i,padding="" 17`,
		`test_input,n=1 gather=1i,padding="" 17`,
	}, fieldsInOrder(c.stdout.String()))
	c.send("\n")
	c.waitStdout("test_input,n=1 gather=2i")
	stdout, stderr := c.finish()
	require.Equal(t, 4, strings.Count(stdout, "\n"))
	require.Empty(t, stderr)
	require.Equal(t, "init\nstart\ngather\ngather\nstop\n", fileText(events))
}

// fieldsInOrder gives the lines, each with its two fields in the order gather, padding: Telegraf's metrics have none.
func fieldsInOrder(text string) []string {
	lines := sortedLines(text)
	for i, line := range lines {
		var series, gather, stamp string
		if _, err := fmt.Sscanf(line, `%s padding="",gather=%s %s`, &series, &gather, &stamp); err == nil {
			lines[i] = fmt.Sprintf(`%s gather=%s,padding="" %s`, series, gather, stamp)
		}
	}
	return lines
}

func TestInputOptionsOfTelegraf(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindInput, `
[[inputs.test_input]]
  metrics = 4
  time = 1700000000123456789
  precision = "1s"
  name_override = "renamed"
  name_suffix = "_s"
  fieldexclude = ["padding"]
  [inputs.test_input.tagdrop]
    n = ["2", "3"]
  [inputs.test_input.tags]
    room = "b 1"
    n = "never"
[[inputs.test_input]]
  alias = "second"
  metrics = 1
  time = 3
  fieldexclude = ["padding"]
`, "\n")
	require.Equal(t, 0, status)
	require.Equal(t, []string{
		`renamed_s,n=0,room=b\ 1 gather=1i 1700000000000000000`,
		`renamed_s,n=1,room=b\ 1 gather=1i 1700000000000000000`,
		`test_input,n=0 gather=1i 3`,
	}, sortedLines(stdout))
	require.Empty(t, stderr)
}

func TestInputPollsByItself(t *testing.T) {
	t.Parallel()
	c := start(t, kindInput, `
[[inputs.test_input]]
  interval = "50ms"
[[inputs.test_input]]
  name_override = "never"
`)
	c.waitStdout("gather=3i")
	stdout, _ := c.finish()
	require.NotContains(t, stdout, "never")
}

func TestInputSkipsWhileGathering(t *testing.T) {
	t.Parallel()
	c := start(t, kindInput, `
[[inputs.test_input]]
  time = 1
  slow_in = "gather"
  slow = "600ms"
`)
	c.send("\n")
	c.send("\n")
	c.waitStderr("W! [inputs.test_input] The gather that began ")
	c.send("\n")
	c.waitStdout("gather=1i")
	c.waitStderr(": 2 were skipped")
	c.send("\n")
	stdout, stderr := c.finish()
	require.Equal(t, 2, strings.Count(stdout, "\n"))
	require.Regexp(t, `^W! \[inputs\.test_input\] The gather that began \d+(ms|s) ago is still running: this one is skipped\n`+
		`W! \[inputs\.test_input\] The gather took \d+ms: 2 were skipped\n$`, stderr)
}

func TestInputLogs(t *testing.T) {
	t.Parallel()
	status, _, stderr := run(t, kindInput, `
[[inputs.test_input]]
  error = ["an error\nof two lines"]
  warn = ["a warning"]
  info = ["an information"]
  debug = ["for debugging\n  indented\n"]
  fail_in = "gather"
[[inputs.test_input]]
  alias = "quiet"
  log_level = "error"
  metrics = 0
  error = ["heard"]
  warn = ["not heard"]
`, "\n")
	require.Equal(t, 0, status)
	require.Equal(t, []string{
		"D! [inputs.test_input]   indented",
		"D! [inputs.test_input] for debugging",
		"E! [inputs.test_input::quiet] heard",
		"E! [inputs.test_input] an error",
		"E! [inputs.test_input] of two lines",
		"E! [inputs.test_input] told to fail in gather",
		"I! [inputs.test_input] an information",
		"W! [inputs.test_input] a warning",
	}, sortedLines(stderr))
}

func TestInputOnce(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindInput, "[[inputs.test_input]]\n  metrics = 3\n  debug = [\"x\"]\n  info = [\"y\"]\n", "", "--once")
	require.Equal(t, 0, status)
	require.Equal(t, 3, strings.Count(stdout, "\n"))
	require.Equal(t, "I! [inputs.test_input] y\n", stderr)

	status, stdout, stderr = run(t, kindInput, "[[inputs.test_input]]\n  fail_in = \"gather\"\n", "", "--once")
	require.Equal(t, 1, status)
	require.Equal(t, 1, strings.Count(stdout, "\n"), "what was gathered before it failed")
	require.Equal(t, "E! [inputs.test_input] told to fail in gather\n", stderr)
}

func TestInputStartFails(t *testing.T) {
	t.Parallel()
	status, _, stderr := run(t, kindInput, "[[inputs.test_input]]\n  fail_in = \"start\"\n", "\n")
	require.Equal(t, 1, status)
	require.Equal(t, "E! [inputs.test_input] starting inputs.test_input: told to fail in start\n", stderr)

	status, stdout, stderr := run(t, kindInput, `
[[inputs.test_input]]
  fail_in = "start"
  startup_error_behavior = "ignore"
[[inputs.test_input]]
  name_override = "other"
`, "\n")
	require.Equal(t, 0, status)
	require.Regexp(t, "^other,n=0 [^\n]*\n$", stdout)
	require.Equal(t, "W! [inputs.test_input] Not started, and ignored as startup_error_behavior says: "+
		"starting inputs.test_input: told to fail in start\n", stderr)
}

func TestInputEndsWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hang string
		want string
	}{
		{"gather", "giving up: inputs.test_input has been gathering for "},
		{"stop", "giving up: a plugin's Stop, or standard output that nobody reads"},
		{"start", "giving up: the plugin has not started yet"},
	} {
		for _, how := range []string{"EOF", "SIGTERM"} {
			t.Run(test.hang+"/"+how, func(t *testing.T) {
				t.Parallel()
				events := filepath.Join(t.TempDir(), "events")
				c := start(t, kindInput, "[[inputs.test_input]]\n  hang_in = \""+test.hang+"\"\n  metrics = 7\n  events = \""+events+"\"\n")
				eventually(t, func() bool { return strings.Contains(fileText(events), "start\n") }, "the start")
				c.send("\n")
				if test.hang != "start" {
					eventually(t, func() bool { return strings.Contains(fileText(events), "gather\n") }, "the gather")
				}
				began := time.Now()
				if how == "EOF" {
					c.eof()
				} else {
					c.terminate()
				}
				require.Equal(t, 0, c.exit())
				require.Less(t, c.exited.Sub(began), 5*time.Second)
				require.Contains(t, c.stderr.String(), "E! [inputs.test_input] Not done after 4s, "+test.want)
				if test.hang != "start" {
					require.Equal(t, 7, strings.Count(c.stdout.String(), "\n"), "what was gathered before it hung")
				}
			})
		}
	}
}

func TestInputFinishesTheGatherAtSIGTERM(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	c := start(t, kindInput, "[[inputs.test_input]]\n  slow_in = \"gather\"\n  slow = \"300ms\"\n  metrics = 5\n  events = \""+events+"\"\n")
	c.send("\n")
	eventually(t, func() bool { return strings.Contains(fileText(events), "gather") }, "the gather")
	c.terminate()
	require.Equal(t, 0, c.exit())
	require.Equal(t, 5, strings.Count(c.stdout.String(), "\n"))
	require.Equal(t, "init\nstart\ngather\nstop\n", fileText(events))
	require.Empty(t, c.stderr.String())
}

// The parent closes a child's pipes as soon as it is dead: all must have been read before.
func TestInputLingers(t *testing.T) {
	t.Parallel()
	c := start(t, kindInput, "[[inputs.test_input]]\n")
	c.waitReady()
	began := time.Now()
	c.eof()
	require.Equal(t, 0, c.exit())
	require.GreaterOrEqual(t, c.exited.Sub(began), linger)
}

// waitReady waits until the child reads its stdin.
func (c *child) waitReady() {
	c.t.Helper()
	c.send("\n")
	c.waitStdout("\n")
}

func TestInputPanics(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"gather", "start", "init", "stop"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := start(t, kindInput, "[[inputs.test_input]]\n  metrics = 3\n  panic_in = \""+where+"\"\n")
			_, _ = c.stdin.Write([]byte("\n"))
			if where == "stop" {
				c.waitStdout("n=2")
				c.eof()
			}
			require.Equal(t, 2, c.exit())
			lines := strings.Split(strings.TrimSuffix(c.stderr.String(), "\n"), "\n")
			require.Equal(t, "E! [inputs.test_input] panic: told to panic in "+where, lines[0])
			require.Greater(t, len(lines), 5)
			for _, line := range lines {
				require.True(t, strings.HasPrefix(line, "E! [inputs.test_input] "), line)
			}
			require.Contains(t, c.stderr.String(), "testplugin.(*Common).call")
			if where == "gather" {
				require.Equal(t, 3, strings.Count(c.stdout.String(), "\n"), "what was gathered before")
			}
		})
	}
}

func TestInputPanicsInAGoroutineOfItsOwn(t *testing.T) {
	t.Parallel()
	status, _, stderr := run(t, kindInput, "[[inputs.test_input]]\n  panic_in = \"goroutine\"\n", "")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "panic: told to panic in a goroutine")
}

func TestInputBackground(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	c := start(t, kindInput, `
[[inputs.test_input]]
  background = 3
  tracked = true
  events = "`+events+`"
[[inputs.test_input]]
  background = 2
  name_override = "untracked"
`)
	// No gather is asked for: the lines must not wait for one.
	eventually(t, func() bool { return strings.Count(c.stdout.String(), "\n") == 5 }, "all lines")
	eventually(t, func() bool { return strings.Count(fileText(events), "delivered true\n") == 3 }, "all deliveries")
	stdout, _ := c.finish()
	require.Equal(t, 2, strings.Count(stdout, "untracked"))
}

func TestInputLargeGather(t *testing.T) {
	t.Parallel()
	const metrics = 5_000
	c := start(t, kindInput, fmt.Sprintf(`
[[inputs.test_input]]
  metrics = %d
  padding = 300
[[inputs.test_input]]
  name_override = "second"
  metrics = %d
  padding = 300
`, metrics, metrics))
	c.send("\n")
	eventually(t, func() bool { return strings.Count(c.stdout.String(), "\n") == 2*metrics }, "all lines")
	stdout, _ := c.finish()
	for i, line := range sortedLines(stdout) {
		name := "second,n="
		if i >= metrics {
			name = "test_input,n="
		}
		require.True(t, strings.HasPrefix(line, name), "a line of one table must not be cut by the other's: %.80s", line)
	}
}

func TestInputStdoutGone(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	cmd := command(t, kindInput, "[[inputs.test_input]]\n  events = \""+events+"\"\n")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	var stderr buffer
	cmd.Stdout, cmd.Stderr = writer, &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdin.Write([]byte("\n"))
	require.NoError(t, err)
	require.EqualError(t, cmd.Wait(), "exit status 1")
	require.Equal(t, "E! [inputs.test_input] writing to standard output: write /dev/stdout: broken pipe\n", stderr.String())
	require.Equal(t, "init\nstart\ngather\nstop\n", fileText(events), "the plugin can save its state")
}

func TestInputStdoutStuck(t *testing.T) {
	t.Parallel()
	cmd := command(t, kindInput, "[[inputs.test_input]]\n  metrics = 2000\n  padding = 200\n")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = reader.Close() }()
	var stderr buffer
	cmd.Stdout, cmd.Stderr = writer, &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdin.Write([]byte("\n"))
	require.NoError(t, err)
	// The first bytes are there: the rest does not fit into the pipe.
	_, err = reader.Read(make([]byte, 1))
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	require.Less(t, time.Since(began), 5*time.Second)
	require.Contains(t, stderr.String(), "giving up: inputs.test_input has been gathering for ")
}

// A closed stdout does not kill a plugin; and what a plugin starts is not to inherit that: with SIGPIPE ignored, a shell's
// `yes | head` complains.
func TestInputCatchesSIGPIPE(t *testing.T) {
	t.Parallel()
	c := start(t, kindInput, "[[inputs.test_input]]\n")
	c.send("\n")
	c.waitStdout("test_input")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	require.NoError(t, err)
	require.True(t, signalIn(t, string(status), "SigCgt"), "it is caught")
	require.False(t, signalIn(t, string(status), "SigIgn"), "it is not ignored")
	c.finish()
}

// signalIn tells whether SIGPIPE is in a set of signals in /proc/PID/status (proc(5)).
func signalIn(t *testing.T, status, set string) bool {
	t.Helper()
	_, rest, found := strings.Cut(status, set+":\t")
	require.True(t, found)
	mask, err := strconv.ParseUint(rest[:16], 16, 64)
	require.NoError(t, err)
	return mask&(1<<(uint(syscall.SIGPIPE)-1)) != 0
}
