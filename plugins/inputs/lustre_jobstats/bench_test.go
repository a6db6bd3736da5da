package lustre_jobstats

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/inputs"
	"github.com/influxdata/telegraf/plugins/inputs/lustre2"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/jobstats"
)

// jobStats is job_stats of a 2.15 OST with six active operations in each entry; each step changes every entry but those
// from changed on.
func jobStats(entries, changed, step int) []byte {
	b := []byte("job_stats:\n")
	base := time.Now().Unix() - 40000
	for j := range entries {
		s := step
		if j >= changed {
			s = 0
		}
		b = fmt.Appendf(b, "- %-16s %d\n  %-16s %d.%09d secs.nsecs\n  %-16s %d.%09d secs.nsecs\n  %-16s %d.%09d secs.nsecs\n",
			"job_id:", 1000000+j, "snapshot_time:", base+int64(s*30), j, "start_time:", 1700000000, j, "elapsed_time:", s*30, 0)
		for _, op := range []struct {
			name, unit string
			size       int
		}{
			{"read_bytes", "bytes", 1 << 20}, {"write_bytes", "bytes", 1 << 20}, {"read", "usecs", 600}, {"write", "usecs", 600},
			{"getattr", "usecs", 0}, {"setattr", "usecs", 0}, {"punch", "usecs", 600}, {"sync", "usecs", 600}, {"destroy", "usecs", 0},
			{"create", "usecs", 0}, {"statfs", "usecs", 0}, {"get_info", "usecs", 0}, {"set_info", "usecs", 0}, {"quotactl", "usecs", 0},
			{"prealloc", "usecs", 0},
		} {
			n := 0
			if op.size > 0 {
				n = 100 + s + j%100
			}
			b = fmt.Appendf(b, "  %-16s { samples: %11d, unit: %5s, min: %8d, max: %8d, sum: %16d, sumsq: %18d }\n",
				op.name+":", n, op.unit, op.size/2, op.size, n*op.size, n*op.size*op.size)
		}
	}
	return b
}

type discard struct {
	testutil.NopAccumulator
	metrics int
}

func (d *discard) WritesThrough() {}

func (d *discard) AddMetric(telegraf.Metric) { d.metrics++ }

// AddFields makes the metric that AddMetric is given, as each accumulator must.
func (d *discard) AddFields(name string, fields map[string]any, tags map[string]string, _ ...time.Time) {
	if metric.New(name, tags, fields, time.Time{}) != nil {
		d.metrics++
	}
}

// cpuTime is this process's own.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ossFor makes a plugin with one target.
func ossFor(b *testing.B) (p *LustreJobstats, file string) {
	b.Helper()
	p = newPlugin()
	p.Root, p.StateDirectory, p.Log = b.TempDir(), b.TempDir(), &testutil.CaptureLogger{}
	p.MaxDuty = 1
	require.NoError(b, p.Init())
	b.Cleanup(p.Stop)
	file = filepath.Join(p.Root, ost0)
	require.NoError(b, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(b, os.WriteFile(filepath.Join(filepath.Dir(file), "job_cleanup_interval"), []byte("600\n"), 0o600))
	return p, file
}

// gathers runs a gather of each text, and returns the CPU time that the last took.
func gathers(b *testing.B, p *LustreJobstats, file string, texts ...[]byte) (cpu time.Duration, metrics int) {
	b.Helper()
	for _, text := range texts {
		require.NoError(b, os.WriteFile(file, text, 0o600))
		runtime.GC()
		var acc discard
		before := cpuTime(b)
		require.NoError(b, p.Gather(&acc))
		cpu, metrics = cpuTime(b)-before, acc.metrics-1
	}
	return cpu, metrics
}

// A whole gather, reading and the synced log included, and parsing alone, against the stock lustre2 input on the same
// file. Medians.
func BenchmarkGatherAgainstLustre2(b *testing.B) {
	const entries = 20000
	var ours, parse, stock []time.Duration
	parser := jobstats.Parser{Ops: jobstats.NewOpTable()}
	for b.Loop() {
		p, file := ossFor(b)
		for step := range 6 {
			text := jobStats(entries, entries, 1+step)
			b.SetBytes(int64(len(text)))
			before := cpuTime(b)
			for rest := text; len(rest) > 0; {
				_, n, _, err := parser.Next(rest, true)
				if err != nil {
					b.Fatal(err)
				}
				rest = rest[n:]
			}
			parsed := cpuTime(b) - before
			cpu, metrics := gathers(b, p, file, text)
			require.Equal(b, entries, metrics)
			if step > 0 {
				ours, parse = append(ours, cpu), append(parse, parsed)
			}
		}
		stocks, ok := inputs.Inputs["lustre2"]().(*lustre2.Lustre2)
		require.True(b, ok)
		stocks.OstProcfiles, stocks.MdsProcfiles, stocks.Log = []string{file}, []string{filepath.Join(p.Root, "none", "job_stats")}, p.Log
		for range 3 {
			runtime.GC()
			var acc discard
			before := cpuTime(b)
			require.NoError(b, stocks.Gather(&acc))
			stock = append(stock, cpuTime(b)-before)
			require.GreaterOrEqual(b, acc.metrics, entries)
		}
	}
	b.ReportMetric(median(stock)/median(ours), "x_lustre2")
	b.ReportMetric(median(stock)/median(parse), "x_lustre2_parse")
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// A gather in which nothing changed, against reading the file: at once, as other agents do, and 4 KiB a read(2), which
// is what Lustre gives whatever is asked for. A file of the page cache costs no printf, so the real ratio is smaller.
func BenchmarkUnchanged(b *testing.B) {
	const entries = 20000
	text := jobStats(entries, entries, 1)
	p, file := ossFor(b)
	p.options.Refresh = 1 << 60
	gathers(b, p, file, text, text) // The second is known not to have changed, the third is told by its text.
	b.SetBytes(int64(len(text)))
	var ours, whole, pieces time.Duration
	timed := func(sum *time.Duration, run func()) {
		before := cpuTime(b)
		run()
		*sum += cpuTime(b) - before
	}
	buf := make([]byte, 4096)
	for b.Loop() {
		var acc discard
		timed(&ours, func() { require.NoError(b, p.Gather(&acc)) })
		require.Equal(b, 1, acc.metrics)
		timed(&whole, func() {
			_, err := os.ReadFile(file)
			require.NoError(b, err)
		})
		timed(&pieces, func() {
			f, err := os.Open(file)
			require.NoError(b, err)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
			require.NoError(b, err)
			require.NoError(b, f.Close())
		})
	}
	b.ReportMetric(float64(ours)/float64(whole), "x_readfile")
	b.ReportMetric(float64(ours)/float64(pieces), "x_read4k")
}

// Ten times the entries, twice over: what a gather of them costs.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		var before time.Duration
		for _, entries := range []int{2000, 20000, 200000} {
			var best time.Duration
			for range 3 {
				p, file := ossFor(b)
				cpu, metrics := gathers(b, p, file, jobStats(entries, entries, 1), jobStats(entries, entries, 2), jobStats(entries, entries, 3))
				require.Equal(b, entries, metrics)
				p.Stop()
				if best == 0 || cpu < best {
					best = cpu
				}
			}
			b.ReportMetric(float64(best.Nanoseconds())/float64(entries), fmt.Sprintf("ns/entry_of_%d", entries))
			if before > 0 {
				b.ReportMetric(float64(best)/float64(before), fmt.Sprintf("x_cpu_%d", entries))
			}
			before = best
		}
	}
}

// The heap that a plugin holds after a garbage collection, for each entry.
func BenchmarkHeap(b *testing.B) {
	const entries = 200000
	for b.Loop() {
		p, file := ossFor(b)
		require.NoError(b, os.WriteFile(file, jobStats(entries, entries, 1), 0o600))
		heap := func() uint64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		for range 2 {
			var acc discard
			require.NoError(b, p.Gather(&acc))
		}
		b.ReportMetric(float64(heap()-before)/entries, "B/entry")
		runtime.KeepAlive(p)
	}
}

// What the state of a server writes that has 5,000 changed entries of 20,000 every 30 seconds.
func BenchmarkStateWritten(b *testing.B) {
	const entries, changed = 20000, 5000
	p, file := ossFor(b)
	gathers(b, p, file, jobStats(entries, changed, 1))
	start := p.watched["lustre-OST0000"].ledger.Written()
	steps := 0
	for b.Loop() {
		steps++
		gathers(b, p, file, jobStats(entries, changed, 1+steps))
	}
	log := float64(p.watched["lustre-OST0000"].ledger.Written()-start) / float64(steps)
	b.ReportMetric(log/changed, "B/record")
	b.ReportMetric(log*24*3600/30/1e9, "GB/day")
}

// 100,000 changed series from the newline on stdin to the last byte on stdout, the log synced: our runner against
// Telegraf's shim, with the same plugin, each in a process of its own.
func BenchmarkStdoutAgainstShim(b *testing.B) {
	const entries = 100000
	bin := b.TempDir()
	for name, pkg := range map[string]string{"ours": "telegraf-hpc/cmd/lustre_jobstats", "shim": "./testdata/shim"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), pkg).CombinedOutput()
		require.NoError(b, err, string(out))
	}
	texts := [][]byte{jobStats(entries, entries, 1), jobStats(entries, entries, 2), jobStats(entries, entries, 3)}
	for b.Loop() {
		cpu := map[string]time.Duration{}
		for _, name := range []string{"shim", "ours"} {
			cpu[name] = childGather(b, filepath.Join(bin, name), texts)
			b.ReportMetric(cpu[name].Seconds(), "cpu-s_"+name)
		}
		b.ReportMetric(float64(cpu["ours"])/float64(cpu["shim"]), "x_shim")
	}
}

// childGather returns the CPU time that a child takes for the last of some gathers.
func childGather(b *testing.B, program string, texts [][]byte) time.Duration {
	b.Helper()
	root := b.TempDir()
	file := filepath.Join(root, ost0)
	require.NoError(b, os.MkdirAll(filepath.Dir(file), 0o750))
	conf := filepath.Join(root, "conf")
	require.NoError(b, os.WriteFile(conf, fmt.Appendf(nil, "[[inputs.lustre_jobstats]]\nroot = %q\nstate_directory = %q\nmax_duty = 1.0\n", root, filepath.Join(root, "state")), 0o600))
	cmd := exec.Command(program, "--config", conf)
	cmd.Stderr = io.Discard
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	lines := bufio.NewReaderSize(stdout, 1<<20)
	var took time.Duration
	for _, text := range texts {
		require.NoError(b, os.WriteFile(file, text, 0o600))
		before := childCPU(b, cmd.Process.Pid)
		_, err := stdin.Write([]byte("\n"))
		require.NoError(b, err)
		for n := 0; ; n++ {
			line, err := lines.ReadSlice('\n')
			require.NoError(b, err)
			if bytes.HasPrefix(line, []byte(measurementSelf)) {
				require.GreaterOrEqual(b, n, 100000)
				break
			}
		}
		took = childCPU(b, cmd.Process.Pid) - before
	}
	require.NoError(b, stdin.Close())
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait() // The shim ends with an error when it is told to stop.
	return took
}

// childCPU reads user and system time from /proc/PID/stat, in ticks of 10 ms.
func childCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A gather in which every entry changed.
func BenchmarkChanged(b *testing.B) {
	const entries = 20000
	p, file := ossFor(b)
	step := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		step++
		require.NoError(b, os.WriteFile(file, jobStats(entries, entries, step), 0o600))
		b.StartTimer()
		var acc discard
		require.NoError(b, p.Gather(&acc))
	}
}
