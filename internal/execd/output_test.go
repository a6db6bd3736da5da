package execd

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outputConf is a table that writes to files in a new folder.
func outputConf(t *testing.T, more string) (conf, file, batches string) {
	t.Helper()
	dir := t.TempDir()
	file, batches = filepath.Join(dir, "metrics"), filepath.Join(dir, "batches")
	return fmt.Sprintf("[[outputs.test_output]]\n  file = %q\n  batches = %q\n%s\n", file, batches, more), file, batches
}

func manyLines(from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&text, "m,t=x f=%di %d\n", i, i)
	}
	return text.String()
}

func TestOutputBatches(t *testing.T) {
	t.Parallel()
	conf, file, batches := outputConf(t, "")
	c := start(t, kindOutput, conf)
	c.send("m,t=x f=0i 0\n")
	// Within batchFor, without an end of stdin.
	eventually(t, func() bool { return fileText(batches) == "1\n" }, "the first batch")
	c.send(manyLines(1, 2501))
	stdout, stderr := c.finish()
	require.Equal(t, manyLines(0, 2501), fileText(file))
	require.True(t, strings.HasPrefix(fileText(batches), "1\n1000\n1000\n"), fileText(batches))
	require.Empty(t, stdout)
	require.Empty(t, stderr)
}

func TestOutputOptionsOfTelegraf(t *testing.T) {
	t.Parallel()
	conf, file, batches := outputConf(t, `
  metric_batch_size = 500
  metric_buffer_limit = 7
  name_prefix = "p_"
  namepass = ["m"]
  tagexclude = ["t"]`)
	second, other, _ := outputConf(t, "alias = \"second\"\n  namedrop = [\"m\"]")
	status, _, stderr := run(t, kindOutput, conf+second, manyLines(0, 20)+"n f=1i 1\n")
	require.Equal(t, 0, status)
	require.Empty(t, stderr)
	require.Equal(t, strings.ReplaceAll(manyLines(0, 20), "m,t=x", "p_m"), fileText(file), "none may be lost in a small buffer")
	require.Equal(t, "n f=1i 1\n", fileText(other))
	require.Equal(t, "7\n7\n6\n", fileText(batches))
}

func TestOutputRetries(t *testing.T) {
	t.Parallel()
	conf, file, batches := outputConf(t, "  fail_in = \"write\"\n  fail_first = 2\n")
	c := start(t, kindOutput, conf)
	c.send(manyLines(0, 3))
	eventually(t, func() bool { return strings.HasPrefix(fileText(batches), "-3\n") }, "the first try")
	c.send(manyLines(3, 5))
	c.waitStdout("Writing succeeded after 3 tries in ")
	stdout, stderr := c.finish()
	require.Equal(t, manyLines(0, 5), fileText(file))
	require.Equal(t, "-3\n-3\n3\n2\n", fileText(batches))
	require.Equal(t, "E! [outputs.test_output] Writing failed, and is tried again until it succeeds: told to fail in write\n", stderr)
	require.Regexp(t, `^\[outputs\.test_output\] Writing succeeded after 3 tries in \S+\n$`, stdout)
}

func TestOutputRetriesToConnect(t *testing.T) {
	t.Parallel()
	conf, file, _ := outputConf(t, "  fail_in = \"connect\"\n  fail_first = 2\n")
	c := start(t, kindOutput, conf)
	c.send(manyLines(0, 5))
	c.waitStdout("Connecting succeeded after 3 tries in ")
	_, stderr := c.finish()
	require.Equal(t, manyLines(0, 5), fileText(file))
	require.Equal(t, "E! [outputs.test_output] Connecting failed, and is tried again until it succeeds: told to fail in connect\n", stderr)
}

// While a write fails stdin waits, so that the parent keeps its metrics.
func TestOutputHoldsStdinBack(t *testing.T) {
	t.Parallel()
	conf, file, batches := outputConf(t, "  fail_in = \"write\"\n  fail_first = 3\n")
	c := start(t, kindOutput, conf)
	c.send(manyLines(0, 1000))
	eventually(t, func() bool { return strings.HasPrefix(fileText(batches), "-1000\n") }, "the first try")
	const lines = 200_000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c.stdin, manyLines(1000, lines))
	}()
	select {
	case <-sent:
		require.Fail(t, "stdin does not wait")
	case <-time.After(300 * time.Millisecond):
	}
	<-sent
	c.finish()
	requireText(t, manyLines(0, lines), fileText(file))
}

func TestOutputLongLines(t *testing.T) {
	t.Parallel()
	conf, file, _ := outputConf(t, "")
	long := "a f=\"" + strings.Repeat("x", 1<<20) + "\nx\" 1\n"
	status, _, stderr := run(t, kindOutput, conf, long+"garbage\nc f=1i 1\n")
	require.Equal(t, 0, status)
	requireText(t, long+"c f=1i 1\n", fileText(file))
	require.Contains(t, stderr, `E! [outputs.test_output] A line of standard input is dropped: metric parse error`)
}

func TestOutputLogs(t *testing.T) {
	t.Parallel()
	log := "  error = [\"one\\ntwo\"]\n  warn = [\"three\"]\n  info = [\"four\\nfive\"]\n  debug = [\"six\"]\n"
	conf, _, _ := outputConf(t, log)
	status, stdout, stderr := run(t, kindOutput, conf, manyLines(0, 1))
	require.Equal(t, 0, status)
	require.Equal(t, "[outputs.test_output] four\n[outputs.test_output] five\n", stdout)
	require.Equal(t, "E! [outputs.test_output] one\nE! [outputs.test_output] two\nW! [outputs.test_output] three\n", stderr)

	conf, _, _ = outputConf(t, log+"  log_level = \"debug\"\n")
	_, stdout, _ = run(t, kindOutput, conf, manyLines(0, 1))
	require.Contains(t, stdout, "[outputs.test_output] six\n")
}

func TestOutputEnds(t *testing.T) {
	t.Parallel()
	conf, file, _ := outputConf(t, "")
	events := filepath.Join(t.TempDir(), "events")
	c := start(t, kindOutput, conf+"events = \""+events+"\"\n")
	eventually(t, func() bool { return strings.Contains(fileText(events), "connect") }, "the connection")
	c.terminate()
	c.send(manyLines(0, 3000))
	require.Equal(t, 0, c.exit())
	require.Equal(t, manyLines(0, 3000), fileText(file))
	require.True(t, strings.HasPrefix(fileText(events), "init\nconnect\nwrite\n"))
	require.True(t, strings.HasSuffix(fileText(events), "\nclose\n"))
}

func TestOutputEndsWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{
		"hanging": "hang_in = \"write\"",
		"failing": "fail_in = \"write\"",
		"away":    "fail_in = \"connect\"",
		"closing": "hang_in = \"close\"",
	} {
		for _, how := range []string{"EOF", "SIGTERM"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				conf, _, _ := outputConf(t, option)
				events := filepath.Join(t.TempDir(), "events")
				c := start(t, kindOutput, conf+"  events = \""+events+"\"\n")
				call := map[string]string{"away": "connect"}[name]
				if call == "" {
					call = "write"
				}
				// More than one batch: the end of stdin comes long after what is read while a write is tried.
				c.send(manyLines(0, 1500))
				eventually(t, func() bool { return strings.Contains(fileText(events), call) }, "the "+call)
				began := time.Now()
				if how == "EOF" {
					c.eof()
				} else {
					c.terminate()
				}
				require.Equal(t, 0, c.exit())
				require.Less(t, c.exited.Sub(began), 5*time.Second)
				want := map[string]string{"away": "0 metrics", "closing": "0 metrics"}[name]
				if want == "" {
					want = "1000 metrics"
				}
				require.Contains(t, c.stderr.String(), "Not done after 4s, giving up: "+want+" were not delivered, nor what was not read yet")
			})
		}
	}
}

// A stopped parent is seen although more lies in the pipe than is read during a failing write.
func TestOutputSeesTheEndBehindAFullPipe(t *testing.T) {
	t.Parallel()
	conf, _, batches := outputConf(t, "fail_in = \"write\"")
	c := start(t, kindOutput, conf)
	go func() { _, _ = io.WriteString(c.stdin, manyLines(0, 200_000)) }()
	eventually(t, func() bool { return fileText(batches) != "" }, "the first try")
	began := time.Now()
	c.eof()
	require.Equal(t, 0, c.exit())
	require.Less(t, c.exited.Sub(began), 5*time.Second)
	require.Contains(t, c.stderr.String(), "1000 metrics were not delivered")
}

// After the parent's end a write is tried more often: the time is short.
func TestOutputTriesHarderAtTheEnd(t *testing.T) {
	t.Parallel()
	conf, file, batches := outputConf(t, "  fail_in = \"write\"\n  fail_first = 6\n")
	c := start(t, kindOutput, conf)
	c.send(manyLines(0, 10))
	eventually(t, func() bool { return fileText(batches) != "" }, "the first try")
	c.finish()
	require.Equal(t, manyLines(0, 10), fileText(file))
}

func TestOutputPanics(t *testing.T) {
	t.Parallel()
	conf, _, _ := outputConf(t, "  panic_in = \"write\"\n")
	status, _, stderr := run(t, kindOutput, conf, manyLines(0, 1))
	require.Equal(t, 2, status)
	require.True(t, strings.HasPrefix(stderr, "E! [outputs.test_output] panic: told to panic in write\nE! [outputs.test_output] goroutine "))
}
