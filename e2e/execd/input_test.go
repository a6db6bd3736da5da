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

const gatheredLine = `^test_input,n=\d+ gather=(\d+)i,padding="x*" \d{19}$`

// A killed input is started anew and gathers again from its beginning. Of the gather that it was killed in, whole lines
// arrive or none.
func TestInputKilled(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("metrics = 1000\npadding = 100"), fileOutput)
	child := tg.Child("test_input.conf")
	for range 5 {
		b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+1000)
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
		child = tg.NewChild("test_input.conf", child)
	}
	b.wait("metrics.out", "test_input,", b.count("metrics.out", "test_input,")+1000)
	tg.Stop()

	require.Len(t, tg.Lines("E! [inputs.execd] Process "+filepath.Join(b.bin, "test_input")+" exited: signal: killed"), 5)
	lives := 0
	for _, line := range harness.ReadLines(t, b.path("metrics.out")) {
		found := regexp.MustCompile(gatheredLine).FindStringSubmatch(line)
		require.NotNil(t, found, line)
		if found[1] == "1" && strings.HasPrefix(line, "test_input,n=0 ") {
			lives++
		}
	}
	require.Equal(t, 6, lives, "first gathers")
}

// All that was gathered before, while and after Telegraf reloads arrives, once, and the plugin's own file is read anew.
func TestInputOverReload(t *testing.T) {
	b := newBench(t)
	options := fmt.Sprintf("metrics = 1000\nevents = %q\n", b.path("events"))
	configuration := agent + b.input(options) + fileOutput
	tg := b.start(b.input(options), fileOutput)
	child := tg.Child("test_input.conf")
	for reload := range 3 {
		b.wait("events", "gather", b.count("events", "gather")+2)
		b.input(fmt.Sprintf("%s  [inputs.test_input.tags]\n  reload = \"%d\"", options, reload))
		tg.Reload(configuration)
		harness.Gone(t, child, time.Minute)
		child = tg.NewChild("test_input.conf", child)
	}
	b.wait("metrics.out", "test_input,n=999,reload=2 ", 2)
	tg.Stop()

	require.Equal(t, 4, b.count("events", "start"))
	require.Equal(t, 4, b.count("events", "stop"))
	require.Equal(t, 1000*b.count("events", "gather"), b.count("metrics.out", "test_input,"))
	require.Empty(t, tg.Lines("E! "))
}

// Telegraf is told to stop while a gather runs. The plugin ends it, and all of it arrives. Several times, because a
// parent that closes its child's pipes too early does so by chance.
func TestInputStoppedWhileGathering(t *testing.T) {
	for round := range 5 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			b := newBench(t)
			tg := b.start(b.input(fmt.Sprintf("metrics = 20000\nslow_in = \"gather\"\nslow = \"400ms\"\nevents = %q", b.path("events"))), fileOutput)
			b.wait("events", "gather", 1)
			tg.Stop()

			require.Equal(t, 1, b.count("events", "stop"))
			require.Equal(t, 20000*b.count("events", "gather"), b.count("metrics.out", "test_input,"))
			require.Empty(t, tg.Lines("E! "))
		})
	}
}

// A plugin that hangs holds up neither Telegraf's end, nor what it gathered before.
func TestInputHangsAtTheEnd(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input(fmt.Sprintf("metrics = 10\nhang_in = \"stop\"\nevents = %q", b.path("events"))), fileOutput)
	b.wait("metrics.out", "test_input,", 10)
	began := time.Now()
	tg.Stop()
	require.Less(t, time.Since(began), 8*time.Second)
	require.Equal(t, 10*b.count("events", "gather"), b.count("metrics.out", "test_input,"))
	require.Equal(t, []string{"E! [inputs.execd] [inputs.test_input] Not done after 4s, giving up: " +
		"a plugin's Stop, or standard output that nobody reads"}, tg.Lines("E! "))
}

func TestInputPanics(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("panic_in = \"gather\""), fileOutput)
	tg.WaitLines(2, "E! [inputs.execd] [inputs.test_input] panic: told to panic in gather", time.Minute)
	tg.WaitLines(2, "E! [inputs.execd] Process "+filepath.Join(b.bin, "test_input")+" exited: exit status 2", time.Minute)
	// The stack has many lines, and each says where it comes from.
	require.NotEmpty(t, tg.Lines("E! [inputs.execd] [inputs.test_input] goroutine "))
	require.Empty(t, tg.Lines("stderr:"))
	b.wait("metrics.out", "test_input,n=0 gather=1i", 2)
	tg.Stop()
}

// A mistake in the plugin's own file is said in Telegraf's log with the file's name. Telegraf goes on trying, so the
// plugin runs as soon as the file is mended.
func TestInputWithBadConfiguration(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input("metricks = 3"), fileOutput)
	message := fmt.Sprintf("E! [inputs.execd] [inputs.test_input] %s:2: ", b.path("test_input.conf"))
	line := tg.WaitLines(2, message, time.Minute)[0]
	require.Contains(t, line, "metricks")
	b.input("metrics = 3")
	b.wait("metrics.out", "test_input,n=2 gather=1i", 1)
	tg.Stop()
}

// With stop_on_error Telegraf tries once, says so, and goes on with everything else.
func TestInputWithBadConfigurationAndStopOnError(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.execd("inputs", "metricks = 3", "  signal = \"STDIN\"\n  stop_on_error = true\n  data_format = \"influx\""),
		fileOutput, "\n[[inputs.mem]]\n")
	tg.WaitLines(1, "E! [inputs.execd] Process quit with message: exit status 1", time.Minute)
	b.wait("metrics.out", "mem ", b.count("metrics.out", "mem ")+10)
	require.Len(t, tg.Lines("I! [inputs.execd] Starting process: "), 1)
	require.Len(t, tg.Lines(b.path("test_input.conf")+":2: "), 1)
	tg.Stop()
}

// With stop_on_error a killed plugin is not started again either, and Telegraf goes on without it: it is no way to run a
// plugin that has to be there.
func TestInputKilledWithStopOnError(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.execd("inputs", "", "  signal = \"STDIN\"\n  stop_on_error = true\n  data_format = \"influx\""),
		fileOutput, "\n[[inputs.mem]]\n")
	b.wait("metrics.out", "test_input,", 1)
	require.NoError(t, syscall.Kill(tg.Child("test_input.conf"), syscall.SIGKILL))
	tg.WaitLines(1, "E! [inputs.execd] Process quit with message: signal: killed", time.Minute)
	b.wait("metrics.out", "mem ", b.count("metrics.out", "mem ")+5) // What it gathered before is written by then.
	gathered := b.count("metrics.out", "test_input,")
	b.wait("metrics.out", "mem ", b.count("metrics.out", "mem ")+10) // A second: five times restart_delay.
	require.Equal(t, gathered, b.count("metrics.out", "test_input,"))
	require.Len(t, tg.Lines("I! [inputs.execd] Starting process: "), 1)
	tg.Stop()
}

// Each level arrives as it left, on each line of a message, and an error that gather returns is an error.
func TestInputLogLevels(t *testing.T) {
	b := newBench(t)
	tg := b.start(b.input(strings.Join([]string{
		`error = ["disk \"full\"", "two\nlines"]`, `warn = ["W! of its own"]`, `info = ["so it is"]`, `debug = ["detail"]`,
		`fail_in = "gather"`,
	}, "\n")), fileOutput)
	tg.WaitLines(1, "told to fail in gather", time.Minute)
	tg.Stop()
	lines := tg.Lines("] [inputs.test_input]")
	require.Equal(t, []string{
		`E! [inputs.execd] [inputs.test_input] disk "full"`,
		`E! [inputs.execd] [inputs.test_input] two`,
		`E! [inputs.execd] [inputs.test_input] lines`,
		`W! [inputs.execd] [inputs.test_input] W! of its own`,
		`I! [inputs.execd] [inputs.test_input] so it is`,
		`D! [inputs.execd] [inputs.test_input] detail`,
		`E! [inputs.execd] [inputs.test_input] told to fail in gather`,
	}, lines[:7])
	require.Empty(t, tg.Lines("stderr:"))
}
