package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// bigCluster has 2,000 nodes that are powered up when they are needed, which takes for ever.
const bigCluster = `
ResumeTimeout=10000
NodeName=s[0001-1800] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000 Feature=rome,ib State=CLOUD
NodeName=g[001-200] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:a100:4 Feature=milan,ib State=CLOUD
PartitionName=cpu Nodes=s[0001-1800] Default=YES State=UP MaxTime=2-00:00:00
PartitionName=gpu Nodes=g[001-200] State=UP
PartitionName=all Nodes=s[0001-1800],g[001-200] State=UP
`

// With 2,000 nodes and 60,000 tasks that wait, what we add to the CPU time of Slurm's own commands is at most 30 % of it.
func TestCostAtScale(t *testing.T) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Configuration: bigCluster})
	for range 6 {
		cluster.Submit("alice", "-A", "physics", "--hold", "--array=1-10000", "-n1", "-c8", "--mem=8G", "--time=60", "--wrap=true")
	}
	// These start, as far as slurmctld can tell: each task has a row of its own then.
	cluster.Submit("bob", "-A", "chem", "--array=1-2000", "-n1", "-c8", "--mem=8G", "--time=60", "--wrap=true")
	cluster.Submit("bob", "-A", "chem", "-p", "gpu", "--array=1-400", "-n1", "-c8", "--mem=8G", "--gres=gpu:a100:1", "--wrap=true")
	harness.Eventually(t, harness.Patience, func() error {
		if n := strings.Count(cluster.Command("squeue", "-h", "-t", "R,CF", "-o", "%i"), "\n"); n < 2000 {
			return fmt.Errorf("%d tasks have started", n)
		}
		return nil
	})
	s := newSite(t, cluster)
	s.start()
	plugin := s.tg.Child("slurm_load.conf")
	// What else the machine has to do adds to our part: the best of some rounds is nearest to the truth.
	best := 1.
	at := s.gathered(time.Now())
	for range 3 {
		own, children := cpuOf(t, plugin)
		for range 10 {
			at = s.gathered(at)
		}
		ownAfter, childrenAfter := cpuOf(t, plugin)
		own, children = ownAfter-own, childrenAfter-children
		best = min(best, float64(own)/float64(children))
		t.Logf("10 gathers: ours %d ticks, the commands' %d", own, children)
		if best < 0.3 {
			break
		}
	}
	require.Less(t, best, 0.3, "our CPU time to that of the commands")

	rows := s.latest("slurm_cluster", at.Add(-time.Nanosecond))
	require.Len(t, rows, 1)
	nodes, _ := rows[0].figure("nodes_total")
	pending, _ := rows[0].figure("tasks_pending")
	require.Equal(t, int64(2000), nodes)
	require.GreaterOrEqual(t, pending, int64(60000))
}

// cpuOf gives the CPU time of a process and that of its children that have ended, in clock ticks (proc(5)).
func cpuOf(t *testing.T, pid int) (own, children int64) {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	return number(t, fields[11]) + number(t, fields[12]), number(t, fields[13]) + number(t, fields[14])
}
