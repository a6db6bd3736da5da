package slurm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// figures are what is to be found in the database: by measurement, tags and field, as in
// "slurm_queue by=user,state=running,user=alice cpus".
type figures map[string]int64

// oracle asks Slurm for the same as the plugin, in other ways: it lets Slurm expand arrays, count CPUs by state and find
// the nodes with a reason, and takes GPUs from TRES instead of Gres.
func oracle(t testing.TB, s *harness.Slurm) figures {
	t.Helper()
	f := make(figures)
	f.jobs(t, s)
	f.nodes(t, s)
	f.gpus(t, s)
	f.others(t, s)
	return f
}

// rows splits what a command printed.
func rows(t testing.TB, text string, fields int) [][]string {
	t.Helper()
	var all [][]string
	for line := range strings.Lines(text) {
		row := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", fields)
		require.Len(t, row, fields, line)
		all = append(all, row)
	}
	return all
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// matched gives what a pattern's group matched, 0 where it does not match.
func matched(t testing.TB, pattern, text string) int64 {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	return number(t, found[1])
}

func (f figures) add(n int64, format string, args ...any) { f[fmt.Sprintf(format, args...)] += n }

// jobs counts with every task in a row of its own.
func (f figures) jobs(t testing.TB, s *harness.Slurm) {
	t.Helper()
	classes := map[string]string{
		"RUNNING": "running", "CONFIGURING": "running", "PENDING": "pending", "REQUEUE_HOLD": "pending", "SUSPENDED": "suspended",
		"COMPLETING": "completing",
	}
	seen := make(map[string]bool)
	text := s.Command("squeue", "-a", "-r", "-h", "-O", "State:|,Partition:|,UserName:|,Account:|,QOS:|,NumCPUs:|,NumNodes:|,tres-alloc:|,ArrayJobID:|,HetJobID:|,Reason:")
	for _, row := range rows(t, text, 11) {
		class := classes[row[0]]
		require.NotEmpty(t, class, "state %s", row[0])
		cpus, nodes, gpus := number(t, row[5]), number(t, row[6]), matched(t, `gres/gpu=(\d+)`, row[7])
		f.add(1, "slurm_cluster  tasks_%s", class)
		whole := row[8]
		if row[9] != "N/A" {
			whole = row[9]
		}
		if !seen[whole+class] {
			seen[whole+class] = true
			f.add(1, "slurm_cluster  jobs_%s", class)
		}
		by := []string{"account=" + row[3], "user=" + row[2], "qos=" + row[4]}
		partitions := strings.Split(row[1], ",")
		for _, partition := range partitions {
			by = append(by, "partition="+partition)
			f.add(1, "slurm_partition partition=%s tasks_%s", partition, class)
		}
		for _, value := range by {
			dimension, _, _ := strings.Cut(value, "=")
			tags := sorted("by="+dimension, value, "state="+class)
			f.add(1, "slurm_queue %s tasks", tags)
			f.add(cpus, "slurm_queue %s cpus", tags)
			f.add(nodes, "slurm_queue %s nodes", tags)
			f.add(gpus, "slurm_queue %s gpus", tags)
		}
		if class == "pending" {
			f.add(cpus, "slurm_cluster  cpus_pending")
			f.add(gpus, "slurm_cluster  gpus_pending")
			tags := sorted("partition="+partitions[0], "qos="+row[4], "reason="+reason(row[10]))
			f.add(1, "slurm_pending %s tasks", tags)
			f.add(cpus, "slurm_pending %s cpus", tags)
			f.add(gpus, "slurm_pending %s gpus", tags)
		}
	}
}

// reason gives the word that stands for a reason of more than one.
func reason(text string) string {
	text = strings.TrimSpace(text)
	for long, short := range map[string]string{
		"Nodes required for job are DOWN": "NodesUnavailable", "job requeued in held state": "RequeuedHeld",
	} {
		if strings.HasPrefix(text, long) {
			return short
		}
	}
	word, _, _ := strings.Cut(text, ",")
	return word
}

// nodes counts what sinfo says of nodes.
func (f figures) nodes(t testing.TB, s *harness.Slurm) {
	t.Helper()
	classes := map[string]string{
		"idle": "idle", "planned": "idle", "mixed": "mixed", "allocated": "allocated", "drained": "drained", "draining": "draining",
		"down": "down", "maint": "maintenance", "reserved": "reserved",
	}
	seen := make(map[string]bool)
	text := s.Command("sinfo", "-a", "-h", "-N", "-O", "NodeList:|,PartitionName:|,StateLong:|,CPUsState:|,Memory:|,AllocMem:")
	for _, row := range rows(t, text, 6) {
		node, partition, state := row[0], row[1], strings.TrimRight(row[2], "*~#!%$@^-")
		class := classes[state]
		require.NotEmpty(t, class, "state %q of node %s", row[2], node)
		scopes := []string{"slurm_partition partition=" + partition}
		if !seen[node] {
			scopes = append(scopes, "slurm_cluster ")
		}
		seen[node] = true
		cpus := strings.Split(row[3], "/") // allocated, idle, other, total
		for _, scope := range scopes {
			f.add(1, "%s nodes_total", scope)
			f.add(1, "%s nodes_%s", scope, class)
			for i, field := range []string{"allocated", "idle", "other", "total"} {
				f.add(number(t, cpus[i]), "%s cpus_%s", scope, field)
			}
			f.add(number(t, row[4])<<20, "%s memory_total_bytes", scope)
			f.add(number(t, strings.TrimSpace(row[5]))<<20, "%s memory_allocated_bytes", scope)
		}
	}
}

// gpus counts GPUs by what nodes have and gave away as TRES.
func (f figures) gpus(t testing.TB, s *harness.Slurm) {
	t.Helper()
	for line := range strings.Lines(s.Command("scontrol", "-a", "-o", "show", "node")) {
		configured := regexp.MustCompile(`CfgTRES=(\S*)`).FindStringSubmatch(line)
		given := regexp.MustCompile(`AllocTRES=(\S*)`).FindStringSubmatch(line)
		if configured == nil || given == nil {
			continue
		}
		total, used := matched(t, `gres/gpu=(\d+)`, configured[1]), matched(t, `gres/gpu=(\d+)`, given[1])
		f.add(total, "slurm_cluster  gpus_total")
		f.add(used, "slurm_cluster  gpus_allocated")
		for _, kind := range []string{"a100", "h100", "l40s"} {
			ofKind, usedOfKind := matched(t, `gres/gpu:`+kind+`=(\d+)`, configured[1]), matched(t, `gres/gpu:`+kind+`=(\d+)`, given[1])
			total, used = total-ofKind, used-usedOfKind
			f.kind(line, kind, ofKind, usedOfKind)
		}
		f.kind(line, "_untyped", total, used)
	}
}

func (f figures) kind(node, kind string, total, used int64) {
	if total == 0 {
		return
	}
	why := "usable" // The workload leaves CPUs and memory free beside each idle GPU.
	switch {
	case strings.Contains(node, "+DRAIN"):
		why = "drained"
	case strings.Contains(node, "+RESERVED"):
		why = "reserved"
	}
	tags := "by=type,type=" + kind
	f.add(total, "slurm_gpu %s total", tags)
	f.add(used, "slurm_gpu %s used", tags)
	f.add(total-used, "slurm_gpu %s idle_%s", tags, why)
}

// others counts licences, reservations, and nodes with a reason.
func (f figures) others(t testing.TB, s *harness.Slurm) {
	t.Helper()
	for _, row := range rows(t, s.Command("squeue", "-a", "-r", "-h", "-O", "State:|,Licenses:"), 2) {
		field := map[string]string{"PENDING": "pending", "RUNNING": "used"}[row[0]]
		if n := matched(t, `matlab:(\d+)`, row[1]); n > 0 && field != "" {
			f.add(n, "slurm_license license=matlab %s", field)
		}
	}
	for line := range strings.Lines(s.Command("sinfo", "-a", "-h", "-T")) {
		fields := strings.Fields(line) // RESV_NAME STATE START_TIME END_TIME DURATION NODELIST
		active := int64(0)
		if fields[1] == "ACTIVE" {
			active = 1
		}
		f.add(active, "slurm_reservation reservation=%s active", fields[0])
		f.add(1, "slurm_reservation reservation=%s nodes", fields[0])
	}
}
