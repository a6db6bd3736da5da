package execd

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const outputFormat = "  data_format = \"influx\"\n  influx_sort_fields = true"

// output is execd for an output that writes to metrics.out.
func (b *bench) output(options string) string {
	b.t.Helper()
	return b.execd("outputs", fmt.Sprintf("file = %q\n%s", b.path("metrics.out"), options), outputFormat)
}

// A line that is longer than any buffer goes all the way: from our input, through Telegraf, to our output.
func TestOutputGetsLineOfAMebibyte(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("metrics = 1\npadding = 1048576\ntime = 1700000000000000000"), b.output(""))
	b.wait("metrics.out", "test_input,", 3)
	tg.Stop()
	for i, line := range harness.ReadLines(t, b.path("metrics.out")) {
		require.Equal(t, fmt.Sprintf("test_input,n=0 gather=%di,padding=%q 1700000000000000000", i+1, strings.Repeat("x", 1<<20)), line)
	}
	require.Empty(t, tg.Lines("E! "))
}

// numbered gives the values of the field n in metrics.out.
func (b *bench) numbered() []int {
	b.t.Helper()
	lines := harness.ReadLines(b.t, b.path("metrics.out"))
	all := make([]int, 0, len(lines))
	for _, line := range lines {
		found := regexp.MustCompile(`^test n=(\d+)i \d+$`).FindStringSubmatch(line)
		require.NotNil(b.t, found, line)
		n, err := strconv.Atoi(found[1])
		require.NoError(b.t, err)
		all = append(all, n)
	}
	return all
}

// oneTo writes n metrics for onceInput, and gives the numbers in them.
func (b *bench) oneTo(n int) []int {
	b.t.Helper()
	var text strings.Builder
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
		fmt.Fprintf(&text, "test n=%di %d\n", i+1, i+1)
	}
	b.write("metrics.in", text.String())
	return all
}

// A slow output gets everything, in order and once, and holds up nobody else.
func TestOutputSlow(t *testing.T) {
	b := newBench(t)
	expected := b.oneTo(20000)
	tg := b.start(onceInput, b.output("slow_in = \"write\"\nslow = \"100ms\""), strings.ReplaceAll(fileOutput, "metrics.out", "quick.out"))
	b.wait("quick.out", "test ", 20000)
	require.Less(t, b.count("metrics.out", "test "), 20000)
	b.wait("metrics.out", "test ", 20000)
	tg.Stop()
	require.Equal(t, expected, b.numbered())
	require.Empty(t, tg.Lines("E! "))
	require.Empty(t, tg.Lines("dropped"))
}

// An output whose store is away for a while writes all of it in the end, in order and once.
func TestOutputFails(t *testing.T) {
	b := newBench(t)
	expected := b.oneTo(5000)
	tg := b.start(onceInput, b.output("fail_in = \"write\"\nfail_first = 2"))
	b.wait("metrics.out", "test ", 5000)
	tg.Stop()
	require.Equal(t, expected, b.numbered())
	require.Equal(t, []string{
		"E! [outputs.execd] stderr: E! [outputs.test_output] Writing failed, and is tried again until it succeeds: told to fail in write",
	}, tg.Lines("E! "))
	require.Len(t, tg.Lines("I! [outputs.execd] [outputs.test_output] Writing succeeded after 3 tries in "), 1)
}

// What lies in the pipe when Telegraf is told to stop is delivered.
func TestOutputStopped(t *testing.T) {
	b := newBench(t)
	expected := b.oneTo(10000)
	tg := b.start(onceInput, b.output(fmt.Sprintf("slow_in = \"write\"\nslow = \"100ms\"\nevents = %q", b.path("events"))))
	b.wait("events", "write", 1)
	tg.Stop()
	require.Equal(t, expected, b.numbered())
	require.Equal(t, 1, b.count("events", "close"))
	require.Empty(t, tg.Lines("E! "))
}

// A killed output is started anew, and what Telegraf sends then is written.
func TestOutputKilled(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("metrics = 10"), b.output(""))
	child := tg.Child("test_output.conf")
	for range 3 {
		b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+20)
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
		child = tg.NewChild("test_output.conf", child)
	}
	b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+20)
	tg.Stop()
	require.Len(t, tg.Lines("E! [outputs.execd] Process "+filepath.Join(b.bin, "test_output")+" exited: signal: killed"), 3)
}

// Telegraf logs all of an output's stderr as errors. So only what is wrong goes there.
func TestOutputLogLevels(t *testing.T) {
	b := newBench(t)
	b.oneTo(1)
	tg := b.start(onceInput, b.output(strings.Join([]string{
		`log_level = "debug"`, `error = ["two\nlines"]`, `warn = ["careful"]`, `info = ["so it is"]`, `debug = ["detail"]`,
	}, "\n")))
	b.wait("metrics.out", "test ", 1)
	tg.WaitLines(6, "[outputs.test_output]", time.Minute)
	tg.Stop()
	// Telegraf reads the two streams side by side, so the order is not certain.
	require.Subset(t, tg.Lines("[outputs.test_output]"), []string{
		`E! [outputs.execd] stderr: E! [outputs.test_output] two`,
		`E! [outputs.execd] stderr: E! [outputs.test_output] lines`,
		`E! [outputs.execd] stderr: W! [outputs.test_output] careful`,
		`I! [outputs.execd] [outputs.test_output] so it is`,
		`I! [outputs.execd] [outputs.test_output] detail`,
	})
	require.Len(t, tg.Lines("stderr:"), 3)
}
