package node_sensors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// bigNode makes the folders of a node with 256 CPUs, 40 interfaces and 60 fans.
func bigNode(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	var stat, cpuinfo strings.Builder
	stat.WriteString("cpu  1810619 44211 478729 2347828 22390 120 18270 4597 900 100\n")
	for i := range 256 {
		fmt.Fprintf(&stat, "cpu%d 1810619 44211 478729 2347828 22390 120 18270 4597 900 100\n", i)
		fmt.Fprintf(&cpuinfo, "processor\t: %d\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9754\ncpu MHz\t\t: %d.5\nflags\t\t: %s\n\n",
			i, 2000+i, strings.Repeat("avx512_vnni ", 100))
		for file, text := range map[string]string{"scaling_min_freq": "800000\n", "scaling_max_freq": "3500000\n"} {
			write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/%s", i, file), text)
		}
	}
	stat.WriteString("intr 75148969" + strings.Repeat(" 1234", 4000) + "\nctxt 178683805\nbtime 1795258756\nprocesses 1\nprocs_running 1\n" +
		"procs_blocked 0\nsoftirq 30860785 0 8123456 1 2 3 4 5 6 7 8\n")
	write("proc/stat", stat.String())
	write("proc/cpuinfo", cpuinfo.String())
	for i := range 40 {
		for file, text := range map[string]string{"flags": "0x1003", "operstate": "up", "mtu": "9000", "speed": "100000", "duplex": "full"} {
			write(fmt.Sprintf("sys/class/net/eth%d/%s", i, file), text+"\n")
		}
	}
	write("sys/class/hwmon/hwmon0/name", "board\n")
	for i := range 60 {
		write(fmt.Sprintf("sys/class/hwmon/hwmon0/fan%d_input", i), "4200\n")
	}
	return root
}

// The default sensors take at most 0.5 % of a core at an interval of 10 s, and the program 40 MB, here and on a big node.
func TestCost(t *testing.T) {
	t.Parallel()
	const gathers, interval = 60, 10 * time.Second
	for name, configuration := range map[string]string{
		"here":     "",
		"big node": fmt.Sprintf("root = %q\n", bigNode(t)),
	} {
		t.Run(name, func(t *testing.T) {
			// The addresses, too, each time: more than is asked.
			ours := startPlugin(t, "", configuration+"[inputs.node_sensors.sensor.net_if_addrs]\ninterval = \"0s\"\n")
			rows := len(ours.gather())
			before := harness.CPUTime(t, ours.pid)
			for range gathers {
				ours.gather()
			}
			memory, after := harness.Memory(t, ours.pid, "VmHWM"), harness.CPUTime(t, ours.pid)
			share := 100 * (after - before).Seconds() / gathers / interval.Seconds()
			t.Logf("%d rows: %.2f ms of CPU a gather, %.3f %% of a core at %s; %.1f MB at most", rows,
				1000*(after-before).Seconds()/gathers, share, interval, float64(memory)/(1<<20))
			require.LessOrEqual(t, share, 0.5, "% of a core")
			require.LessOrEqual(t, memory, 40<<20, "bytes of memory")
		})
	}
}
