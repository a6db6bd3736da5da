package slurm

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testMark = "#3f9a1c#"

// jobRow gives a row as squeue prints it. The fields stand in squeue's order.
func jobRow(fields ...any) string {
	var b strings.Builder
	for i, f := range fields {
		fmt.Fprint(&b, f, "|")
		if i >= fieldTRESAlloc {
			b.WriteString(testMark)
		}
		if i >= fieldTRESAlloc && i < fieldCount-1 {
			b.WriteByte('|')
		}
	}
	return b.String() + "\n"
}

// bigSite gives the queue of a big site: half of the records run, the others wait, most of them job arrays. single has
// each task in a row of its own, as squeue -r does.
func bigSite(records int, single bool) []byte {
	var b strings.Builder
	stamp := func(t int) string { return time.Unix(1795244400+int64(t), 0).UTC().Format("2006-01-02T15:04:05") }
	for i := range records {
		user, account := 10000+i%300, "account"+strconv.Itoa(i%80)
		id, array, tasks, partition := 1000000+i, 1000000+i, "N/A", []string{"cpu", "gpu", "long", "cpu,long"}[i%4]
		tres := fmt.Sprintf("cpu=%d,mem=%dG,node=1,billing=%d", 8+i%56, 4+i%250, 8+i%56)
		node := "N/A"
		if partition == "gpu" {
			node = fmt.Sprintf("gres/gpu:a100:%d", 1+i%4)
			tres += fmt.Sprintf(",gres/gpu=%d,gres/gpu:a100=%d", 1+i%4, 1+i%4)
		}
		state, start, end, nodes, reason := "PENDING", "N/A", "N/A", "", []string{"Priority", "Resources", "Dependency"}[i%3]
		switch {
		case single:
			array, tasks = 1000000+i/1000, strconv.Itoa(i%1000)
		case i%2 == 0:
			state, start, end, nodes, reason = "RUNNING", stamp(i), stamp(i+86400), fmt.Sprintf("node%04d", i%2000), "None"
			array, tasks = 1000000+i/100*100, strconv.Itoa(i%100)
		case i%3 == 0:
			tasks = fmt.Sprintf("%d-1000%%%d", 1+i%500, 10+i%90)
		}
		b.WriteString(jobRow(id, array, tasks, "N/A", "N/A", state, partition, user, fmt.Sprintf("user%d", user), "normal",
			8+i%56, 1, 1, stamp(i/20), stamp(i/20), start, end, "1-00:00:00", 100000+i, nodes, tres, account,
			"(null)", "(null)", node, "N/A", "N/A", reason))
	}
	return []byte(b.String())
}

// Parsing a text from memory. What is allocated are the strings that repeat, once, and the numbers of array tasks.
func BenchmarkJobs(b *testing.B) {
	for _, bench := range []struct {
		name    string
		records int
		single  bool
	}{{"4000", 4000, false}, {"40000", 40000, false}, {"60000single", 60000, true}} {
		b.Run(bench.name, func(b *testing.B) {
			text := NewJobText(bigSite(bench.records, bench.single), testMark)
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				jobs := 0
				for job, err := range text.All() {
					if err != nil {
						b.Fatal(err)
					}
					jobs += min(1, int(job.ID))
				}
				if jobs != bench.records {
					b.Fatal(jobs)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bench.records), "ns/row")
		})
	}
}

func BenchmarkFind(b *testing.B) {
	text := NewJobText(bigSite(40000, false), testMark)
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := text.Find(1039999); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// The heap at its peak, the text too, may be three times the text.
func TestJobsMemory(t *testing.T) {
	text := NewJobText(bigSite(10000, false), testMark)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak, rows := heap(), uint64(0), 0
	for _, err := range text.All() {
		require.NoError(t, err)
		if rows++; rows%5000 == 0 {
			peak = max(peak, heap())
		}
	}
	require.Less(t, peak-min(peak, before), uint64(2*text.Len()))
	runtime.KeepAlive(text)
}
