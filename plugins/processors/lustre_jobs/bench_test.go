package lustre_jobs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// benchFields are the fields of an OST's line beside epoch and snapshot: with these 20 in all.
var benchFields = []string{
	"read_bytes", "read_ops", "write_bytes", "write_ops", "read", "read_usecs", "write", "write_usecs", "getattr", "getattr_usecs",
	"setattr", "setattr_usecs", "punch", "punch_usecs", "sync", "sync_usecs", "statfs", "statfs_usecs",
}

// benchLine appends the line of a job on a target at a gather.
func benchLine(b []byte, target, job, gather int) []byte {
	b = fmt.Appendf(b, "lustre_jobstats_epoch,fs=scratch,host=oss%02d,job=%d,kind=ost,target=scratch-OST%04x epoch=%di", target/4, 4000000+job, target,
		1767225600000000000+int64(job)*1000)
	for i, name := range benchFields {
		b = fmt.Appendf(b, ",%s=%di", name, (gather+1)*(job%1000+1)*(i*1013+1))
	}
	return fmt.Appendf(b, ",snapshot=%di %d", 1767225600000000000+int64(gather)*30e9, 1767225600000000000+int64(gather)*30e9)
}

func cpu(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostResident gives the most memory of this process that was in RAM, in bytes.
func mostResident(b testing.TB) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			require.NoError(b, err)
			return kb << 10
		}
	}
	b.Fatal("no VmHWM in /proc/self/status")
	return 0
}

func benchPlugin(b testing.TB) *LustreJobs {
	b.Helper()
	p := newPlugin()
	p.StateDirectory = b.TempDir()
	p.Log = testutil.Logger{Quiet: true}
	p.Slurm = "none"
	clock := time.Unix(1767225600, 0)
	p.now = func() time.Time { return clock }
	require.NoError(b, p.Init())
	require.NoError(b, p.open(&nothing{}, clock))
	b.Cleanup(func() { require.NoError(b, p.ledger.store.close()) })
	return p
}

// nothing is an accumulator that writes a metric nowhere, at once.
type nothing struct {
	testutil.NopAccumulator

	points int
}

func (*nothing) WritesThrough() {}

func (n *nothing) AddMetric(telegraf.Metric) { n.points++ }

// BenchmarkLines takes lines of 20 fields that have all grown, from their bytes to totals.
func BenchmarkLines(b *testing.B) {
	p := benchPlugin(b)
	const keys = 50000
	lines := make([][]byte, 0, 2*keys)
	for gather := range 2 {
		for i := range keys {
			lines = append(lines, benchLine(nil, i%20, i/20, gather))
		}
	}
	bytes := 0
	for _, line := range lines {
		bytes += len(line)
	}
	b.SetBytes(int64(bytes / len(lines)))
	b.ReportAllocs()
	start := cpu(b)
	b.ResetTimer()
	for i := range b.N {
		if i%len(lines) == 0 && i > 0 {
			b.StopTimer()
			p.ledger.places, p.ledger.byID = map[placeName]*place{}, nil
			p.ledger.targets, p.ledger.lastTarget = map[targetName]*target{}, &target{place: &place{}}
			p.ledger.dirty, p.ledger.active, p.ledger.unknown = nil, nil, nil
			b.StartTimer()
		}
		if !p.AddLine(lines[i%len(lines)]) {
			b.Fatalf("not taken: %s", lines[i%len(lines)])
		}
	}
	rate := float64(b.N) / (cpu(b) - start).Seconds()
	b.ReportMetric(rate, "lines/cpu-s")
	if b.N >= keys && rate < 200_000 {
		b.Errorf("%.0f lines a second of CPU", rate)
	}
}

// BenchmarkScan reads lines only.
func BenchmarkScan(b *testing.B) {
	s := newScanner(newFieldTable())
	line := benchLine(nil, 3, 4711, 5)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for range b.N {
		if !s.scan(line) {
			b.Fatal("not taken")
		}
	}
}

// BenchmarkKeys has so many (target, job) keys live at once, each with 20 fields, gathered three times and saved, folded and
// emitted: what it costs in CPU, that of making the lines taken off, and in memory.
func BenchmarkKeys(b *testing.B) {
	perLine := make(map[int]float64)
	for _, keys := range []int{100_000, 1_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			const gathers = 3
			gather := func(n int, take func(line []byte) bool) time.Duration {
				start := cpu(b)
				var line []byte
				for job := range keys / 20 {
					for target := range 20 {
						line = benchLine(line[:0], target, job, n)
						take(line)
					}
				}
				return cpu(b) - start
			}
			making := gather(0, func([]byte) bool { return true }) * gathers
			for range b.N {
				p := benchPlugin(b)
				start := cpu(b)
				for n := range gathers {
					gather(n, p.AddLine)
					at := time.Unix(1767225600+int64(n+1)*30, 0)
					p.ledger.store.started = at.Add(-2 * foldAge) // Fold each time.
					p.emit(at)
					p.done.Wait()
				}
				perLine[keys] = float64(cpu(b)-start-making) / float64(gathers*keys)
				b.ReportMetric(perLine[keys], "cpu-ns/line")
				most := mostResident(b)
				b.ReportMetric(float64(most)/1e6, "peak-MB")
				require.LessOrEqual(b, most, int64(700e6))
				require.Equal(b, keys, p.ledger.lives)
			}
		})
	}
	if small, large := perLine[100_000], perLine[1_000_000]; small > 0 && large > 1.05*small {
		b.Errorf("ten times the keys cost %.1f times the CPU", 10*large/small)
	}
}

// BenchmarkEmit emits 5,000 jobs that all did I/O on the OSTs and on the MDT.
func BenchmarkEmit(b *testing.B) {
	p := benchPlugin(b)
	p.Top = 0
	var took, used time.Duration
	for i := range b.N {
		for job := range 5000 {
			line := benchLine(nil, rand.IntN(20), job, i)
			require.True(b, p.AddLine(line))
		}
		p.ledger.resolve(1767225600e9)
		require.NoError(b, p.ledger.save())
		em := emission{ledger: p.ledger, points: p.points, levels: map[string]bool{"fs": true, "account": true, "user": true, "job": true}, refresh: int64(p.Refresh)}
		em.at = 1767225600e9 + int64(i+1)*30e9
		begin, start := time.Now(), cpu(b)
		em.run(em.at - 30e9)
		p.ledger.nextWindow(em.at)
		took += time.Since(begin)
		used += cpu(b) - start
	}
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/emission")
	if b.N > 1 && used > 50*time.Millisecond*time.Duration(b.N) { // Of its own time: the machine may have other things to do.
		b.Errorf("%s of CPU an emission", used/time.Duration(b.N))
	}
	b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms/emission")
	b.ReportMetric(float64(p.acc.(*nothing).points)/float64(b.N), "points/emission")
}
