package execd

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/execd/testplugin"
)

// childVariable makes the test binary run Main with one test plugin instead of its tests.
const childVariable = "EXECD_TEST_CHILD"

// commanderKind is an input with commands of its own.
const commanderKind = "commanders"

// lineProcessorKind is a processor that reads lines itself.
const lineProcessorKind = "line processors"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case kindInput:
		testplugin.RegisterInput()
		Main()
	case kindProcessor:
		testplugin.RegisterProcessor()
		Main()
	case commanderKind:
		testplugin.RegisterCommander()
		Main()
	case lineProcessorKind:
		testplugin.RegisterLineProcessor()
		Main()
	case kindOutput:
		testplugin.RegisterOutput()
		Main()
	case "none":
		Main()
	}
	testplugin.RegisterInput()
	testplugin.RegisterProcessor()
	testplugin.RegisterOutput()
	flag.Parse()
	// Most tests wait for a child most of the time. A fuzzer's workers do not.
	if flag.Lookup("test.fuzz").Value.String() == "" {
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come: long, for a loaded machine.
const patience = 30 * time.Second

// buffer collects what the child writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// child is a running program with one test plugin.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *buffer
	stderr *buffer
	done   chan struct{}
	exited time.Time
}

// command prepares the program. An empty conf means no -config.
func command(t *testing.T, kind, conf string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	if conf != "" {
		args = append([]string{"-config", configFile(t, conf)}, args...)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	// Under the race detector a program would wait for another second when it exits.
	cmd.Env = append(os.Environ(), childVariable+"="+kind, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func configFile(t *testing.T, conf string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plugin.conf")
	require.NoError(t, os.WriteFile(name, []byte(conf), 0o600))
	return name
}

func start(t *testing.T, kind, conf string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: command(t, kind, conf, args...), stdout: &buffer{}, stderr: &buffer{}, done: make(chan struct{})}
	var err error
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.done)
		var exit *exec.ExitError
		if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("waiting for the child: %v", err)
		}
		c.exited = time.Now()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if t.Failed() {
			t.Logf("stdout: %.2000s\nstderr: %.4000s", c.stdout, c.stderr)
		}
	})
	return c
}

func (c *child) send(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.stdin, text)
	require.NoError(c.t, err)
}

func (c *child) eof() {
	c.t.Helper()
	require.NoError(c.t, c.stdin.Close())
}

func (c *child) terminate() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
}

// exit waits for the end and gives the exit status.
func (c *child) exit() int {
	c.t.Helper()
	select {
	case <-c.done:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		require.Fail(c.t, "the child does not exit")
		return -1
	}
}

// finish closes stdin, requires status 0, and gives what was written.
func (c *child) finish() (stdout, stderr string) {
	c.t.Helper()
	c.eof()
	require.Equal(c.t, exitOK, c.exit())
	return c.stdout.String(), c.stderr.String()
}

func (c *child) waitStdout(text string) {
	c.t.Helper()
	eventually(c.t, func() bool { return strings.Contains(c.stdout.String(), text) }, "%q on stdout", text)
}

func (c *child) waitStderr(text string) {
	c.t.Helper()
	eventually(c.t, func() bool { return strings.Contains(c.stderr.String(), text) }, "%q on stderr", text)
}

func eventually(t *testing.T, condition func() bool, what string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, condition, patience, 5*time.Millisecond, what, args...)
}

// run runs the program to its end with what it gets on stdin.
func run(t *testing.T, kind, conf, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	c := start(t, kind, conf, args...)
	// The program may have ended already: then it did not want to read.
	_, _ = io.WriteString(c.stdin, stdin)
	_ = c.stdin.Close()
	return c.exit(), c.stdout.String(), c.stderr.String()
}

func fileText(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

// sortedLines gives the lines of a text in order.
func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// requireText compares texts that are too long to be shown.
func requireText(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	same := 0
	for same < min(len(want), len(got)) && want[same] == got[same] {
		same++
	}
	require.Failf(t, "the texts differ", "%d and %d bytes, after %d: %.100q and %.100q", len(want), len(got), same, want[same:], got[same:])
}
