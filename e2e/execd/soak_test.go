//go:build soak

package execd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSoak kills children and reloads Telegraf at random for SOAKTIME. Metrics flow again after each, what arrives is
// whole, and nobody grows.
func TestSoak(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("SOAKTIME"))
	require.NoError(t, err, "SOAKTIME")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	b := newBench(t)
	configuration := agent + b.input("metrics = 100") + b.execd("processors", "", `  data_format = "influx"`) + b.output("")
	tg := b.start(strings.TrimPrefix(configuration, agent))
	b.flows()
	telegraf := descriptors(t, tg.Pid())
	kills, reloads := 0, 0
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if random.IntN(5) == 0 {
			tg.Reload(configuration)
			reloads++
		} else {
			name := []string{"test_input.conf", "test_processor.conf", "test_output.conf"}[random.IntN(3)]
			child := tg.Child(name)
			require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
			tg.NewChild(name, child)
			kills++
		}
		b.flows()
		for _, name := range []string{"test_input.conf", "test_processor.conf", "test_output.conf"} {
			require.Less(t, residentMiB(t, tg.Child(name)), 100, "MiB resident in the child with %s", name)
		}
	}
	require.LessOrEqual(t, descriptors(t, tg.Pid()), telegraf+5, "open files of Telegraf")
	tg.Stop()
	t.Logf("%d kills, %d reloads", kills, reloads)
	require.LessOrEqual(t, b.broken(), kills, "lines that are not whole")
}

// flows waits until more metrics arrive.
func (b *bench) flows() {
	b.t.Helper()
	size := func() int64 {
		info, err := os.Stat(b.path("metrics.out"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	deadline := time.Now().Add(30 * time.Second)
	for size() <= before {
		require.True(b.t, time.Now().Before(deadline), "no metrics for 30s")
		time.Sleep(20 * time.Millisecond)
	}
}

// broken counts lines that are not as they left the input. A killed output may leave one, which it was writing.
func (b *bench) broken() int {
	b.t.Helper()
	file, err := os.Open(b.path("metrics.out"))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, file.Close()) }()
	whole := regexp.MustCompile(`^test_input,n=\d+,seen=yes gather=\d+i,padding="" \d{19}$`)
	n := 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if !whole.Match(lines.Bytes()) {
			n++
		}
	}
	require.NoError(b.t, lines.Err())
	return n
}

func descriptors(t testing.TB, pid int) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(open)
}

// residentMiB reads how much memory a process has (proc(5), statm). One that has just ended has none.
func residentMiB(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize() >> 20
}
