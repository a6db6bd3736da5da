package execd

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// onceInput gives Telegraf a file's metrics once. At its end it does what our programs do: when a child exits, Telegraf
// closes the pipes, whether they were read to the end or not.
const onceInput = `
[[inputs.execd]]
  command = ["sh", "-c", "cat metrics.in; cat; exec >&- 2>&-; sleep 0.2"]
  data_format = "influx"
`

// What Telegraf's serializer makes of hostile names and values passes through unharmed, whether the plugin takes it or
// not.
func TestProcessorGetsHostileMetrics(t *testing.T) {
	b := newBench(t)
	b.write("metrics.in", strings.Join([]string{
		`taken,job=a\ b\,c\=d,exe=caffè text="a \"quoted\" back\\slash",n=-9223372036854775808i 1`,
		"taken,job=newline text=\"first\nsecond n=1i 2\n\" 2",
		`taken,job=\x07 f=1.5,b=true 3`,
		"passed,job=tab text=\"a\tb\n\n\",u=18446744073709551615u 4",
		`passed,a=b\ c\\d,k\,e\=y=v n=1i,text="#" 5`,
		`last n=1i 6`,
	}, "\n")+"\n")
	const output = `
[[outputs.file]]
  files = ["%s.out"]
  influx_uint_support = true
  influx_sort_fields = true
  data_format = "influx"
`
	through := func(name, processor string) []string {
		tg := b.start(onceInput, processor, fmt.Sprintf(output, name))
		b.wait(name+".out", "last", 1)
		tg.Stop()
		require.Empty(t, tg.Lines("E! "))
		return harness.ReadLines(t, b.path(name+".out"))
	}
	without := through("without", "")
	with := through("with", b.execd("processors", `namepass = ["taken"]`, "  data_format = \"influx\"\n  influx_uint_support = true"))
	text := strings.Join(with, "\n")
	require.Equal(t, 3, strings.Count(text, ",seen=yes "))
	require.Equal(t, strings.Join(without, "\n"), strings.ReplaceAll(text, ",seen=yes ", " "))
}

// A Telegraf that is told to send something else than line protocol: each line is refused with a reason, the log is
// not flooded, and the plugin lives.
func TestProcessorGetsGarbage(t *testing.T) {
	b := newBench(t)
	b.write("metrics.in", strings.Repeat("garbage n=1i 1700000000000000000\n", 1000))
	tg := b.start(onceInput, b.execd("processors", "", `  data_format = "graphite"`), fileOutput)
	child := tg.Child("test_processor.conf")
	line := tg.WaitLines(10, "A line of standard input is dropped: ", time.Minute)[0]
	require.True(t, strings.HasPrefix(line, "E! [processors.execd] [processors.test_processor] A line of standard input is dropped: "), line)
	require.True(t, strings.HasSuffix(line, `: ".garbage.n 1 1700000000"`), line)
	require.Equal(t, child, tg.Child("test_processor.conf"))
	tg.Stop()
	require.Len(t, tg.Lines("A line of standard input is dropped: "), 10)
	require.Empty(t, harness.ReadLines(t, b.path("metrics.out")))
}

// What is on its way through a processor when Telegraf is told to stop arrives, and what the plugin adds at its end too.
func TestProcessorStopped(t *testing.T) {
	const lines = 50000
	b := newBench(t)
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "test n=%di %d\n", n, n+1)
	}
	b.write("metrics.in", text.String())
	processor := b.execd("processors", "at_stop = true", `  data_format = "influx"`)
	tg := b.start(onceInput, processor, fileOutput)
	b.wait("metrics.out", "test,", 1)
	tg.Stop()
	require.Empty(t, tg.Lines("E! "))

	out := harness.ReadLines(t, b.path("metrics.out"))
	require.Equal(t, fmt.Sprintf("stopped seen=%di 1", len(out)-1), out[len(out)-1])
	for n, line := range out[:len(out)-1] {
		require.Equal(t, fmt.Sprintf("test,seen=yes n=%di %d", n, n+1), line)
	}
}

// A killed processor is started anew, and what Telegraf sends then is processed.
func TestProcessorKilled(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("metrics = 10"), b.execd("processors", "", `  data_format = "influx"`), fileOutput)
	child := tg.Child("test_processor.conf")
	for range 3 {
		b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+20)
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
		child = tg.NewChild("test_processor.conf", child)
	}
	b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+20)
	tg.Stop()
	require.Len(t, tg.Lines("E! [processors.execd] Process "+filepath.Join(b.bin, "test_processor")+" exited: signal: killed"), 3)
	for _, line := range harness.ReadLines(t, b.path("metrics.out")) {
		require.Regexp(t, `^test_input,n=\d,seen=yes gather=\d+i,padding="" \d{19}$`, line)
	}
}

func TestProcessorLogLevels(t *testing.T) {
	b := newBench(t)
	b.write("metrics.in", "test n=1i 1\n")
	tg := b.start(onceInput, b.execd("processors", strings.Join([]string{
		`error = ["two\nlines"]`, `warn = ["careful"]`, `info = ["so it is"]`, `debug = ["detail"]`, `fail_in = "add"`,
	}, "\n"), `  data_format = "influx"`), fileOutput)
	tg.WaitLines(1, "told to fail in add", time.Minute)
	tg.Stop()
	require.Equal(t, []string{
		`E! [processors.execd] [processors.test_processor] two`,
		`E! [processors.execd] [processors.test_processor] lines`,
		`W! [processors.execd] [processors.test_processor] careful`,
		`I! [processors.execd] [processors.test_processor] so it is`,
		`D! [processors.execd] [processors.test_processor] detail`,
		`E! [processors.execd] [processors.test_processor] Metric "test": told to fail in add`,
	}, tg.Lines("] [processors.test_processor]"))
	require.Empty(t, tg.Lines("stderr:"))
}
