package slurm_load

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
)

// nothing takes metrics and keeps none.
type nothing struct {
	telegraf.Accumulator
	metrics int
	errs    []error
}

func (n *nothing) AddFields(string, map[string]any, map[string]string, ...time.Time) { n.metrics++ }

func (n *nothing) AddError(err error) { n.errs = append(n.errs, err) }

// bigSite gives what the commands print at a site of so many nodes and records of jobs, of which every other one is an
// array with tasks that wait.
func bigSite(nodes, records int) map[string]string {
	stamp := func(t int) string { return time.Unix(1795244400+int64(t), 0).UTC().Format("2006-01-02T15:04:05") }
	var queue, hosts strings.Builder
	for i := range records {
		user := 10000 + i%300
		partition := []string{"cpu", "gpu", "long", "cpu,long"}[i%4]
		tres, asked := fmt.Sprintf("cpu=%d,mem=%dG,node=1,billing=8", 8+i%56, 4+i%250), "N/A"
		if partition == "gpu" {
			tres, asked = tres+",gres/gpu=2,gres/gpu:a100=2", "gres:gpu:a100:2"
		}
		state, tasks, start, end, node, reason := "RUNNING", "N/A", stamp(i), stamp(i+86400), fmt.Sprintf("s%04d", i%nodes), "None"
		if i%2 == 0 {
			state, tasks, start, end, node, reason = "PENDING", "1-30", "N/A", "N/A", "", []string{"Priority", "Resources", "Dependency"}[i%3]
		}
		fmt.Fprintf(&queue, "%d|%d|%s|N/A|N/A|%s|%s|%d|user%d|normal|%d|1|1|%s|%s|%s|%s|1-00:00:00|%d|%s|%s|",
			1000000+i, 1000000+i, tasks, state, partition, user, user, 8+i%56, stamp(i/20), stamp(i/20), start, end, 100000+i, node, tres)
		marked := []string{"", fmt.Sprintf("account%d", i%80), "(null)", "(null)", asked, "N/A", "N/A", reason}
		queue.WriteString(strings.Join(marked, "|"+mark+"|")[1:] + "|" + mark + "\n")
	}
	for i := range nodes {
		partition := []string{"cpu,long", "gpu"}[i%2]
		gres := "Gres=(null) GresDrain=N/A GresUsed=gpu:0"
		if partition == "gpu" {
			gres = "Gres=gpu:a100:4(S:0-1) GresDrain=N/A GresUsed=gpu:a100:2(IDX:0-1)"
		}
		fmt.Fprintf(&hosts, "NodeName=s%04d Arch=x86_64 CoresPerSocket=32  CPUAlloc=%d CPUEfctv=64 CPUTot=64 CPULoad=3.72 AvailableFeatures=rome,ib "+
			"ActiveFeatures=rome,ib %s NodeAddr=s%04d NodeHostName=s%04d Version=24.11.5 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian 6.1.1 "+
			"RealMemory=256000 AllocMem=128000 FreeMem=18471 Sockets=2 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "+
			"MCS_label=N/A Partitions=%s  BootTime=2026-11-21T08:46:22 SlurmdStartTime=2026-11-21T09:13:33 LastBusyTime=2026-11-21T09:13:33 "+
			"CfgTRES=cpu=64,mem=250G,billing=64 AllocTRES=cpu=8,mem=2G CurrentWatts=0 AveWatts=0\n", i, i%64, gres, i, i, partition)
	}
	return map[string]string{
		"squeue": queue.String(), "node": hosts.String(),
		"partition": "PartitionName=cpu MaxTime=UNLIMITED PriorityTier=1 State=UP TotalCPUs=128000 TotalNodes=2000\n",
		"lic":       "LicenseName=matlab Total=10 Used=0 Free=10 Reserved=0 Remote=no\n", "res": "No reservations in the system\n",
		"sacct": "", "config": "AccountingStorageType   = accounting_storage/slurmdbd\nClusterName             = hpc\n" +
			"MinJobAge               = 300 sec\nPrivateData             = none\nSLURM_VERSION           = 24.11.5\n",
	}
}

// newBench gives a plugin that finds all that it asks for in memory, one second later at each gather.
func newBench(tb testing.TB, nodes, records int) (p *SlurmLoad, bytes int) {
	tb.Helper()
	texts := make(map[string][]byte)
	for file, text := range bigSite(nodes, records) {
		texts[file] = []byte(text)
		bytes += len(text)
	}
	p = newPlugin()
	p.StateDirectory = ""
	now := time.Unix(1795252472, 0)
	p.now = func() time.Time { return now }
	p.identity = func() (identity, error) { return identity{}, nil }
	p.mark = func() string { return mark }
	p.run = func(_ context.Context, buffer []byte, name string, args ...string) (command.Result, error) {
		if name == "sdiag" {
			now = now.Add(30 * time.Second)
			return command.Result{Stdout: fmt.Appendf(buffer[:0], "sdiag output at Sat Nov 21 09:14:32 2026 (%d)\n"+
				"Data since      Sat Nov 21 09:13:34 2026 (1795252414)\n"+
				"*******************************************************\nServer thread count:  3\n", now.Unix())}, nil
		}
		return command.Result{Stdout: append(buffer[:0], texts[fileOf(name, args)]...)}, nil
	}
	require.NoError(tb, p.Init())
	return p, bytes
}

// BenchmarkGather measures all but the commands and the writing of the metrics. 10 times the jobs may cost at most 10.5
// times as much: compare ns/record.
func BenchmarkGather(b *testing.B) {
	for _, records := range []int{4000, 40000} {
		b.Run(strconv.Itoa(records), func(b *testing.B) {
			p, bytes := newBench(b, 2000, records)
			acc := new(nothing)
			require.NoError(b, p.Gather(acc))
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, p.Gather(acc))
			}
			require.Empty(b, acc.errs)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
		})
	}
}

// TestGatherMemory requires that a gather, the first too, takes at most three times the memory of the texts, with them.
func TestGatherMemory(t *testing.T) {
	p, bytes := newBench(t, 2000, 20000)
	acc := new(nothing)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	require.NoError(t, p.Gather(acc))
	require.Empty(t, acc.errs)
	runtime.ReadMemStats(&after)
	// Everything that was allocated, whether it was freed meanwhile or not: no peak can be higher.
	ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(bytes)
	t.Logf("a gather allocates %.2f times the text of %d bytes", ratio, bytes)
	require.Less(t, ratio, 3.0)
}
