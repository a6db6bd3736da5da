package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const graphiteOutput = `
[[outputs.graphite]]
  servers = [%q]
  namepass = ["slurm_*"]
  namedrop = ["slurm_job", "slurm_finished", "slurm_load_self"]
  template = "cluster.measurement.by.node.problem.partition.account.user.qos.reason.type.rpc.reservation.license.state.le.field"
`

// A queue with jobs in every state, pending for every reason: each figure in InfluxDB and in Graphite is what Slurm says
// when it is asked in another way.
func TestFigures(t *testing.T) { testFigures(t, "") }

func testFigures(t *testing.T, suite string) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Suite: suite})
	s := newSite(t, cluster, everyGroup, atEachGather, "rpc_users = true")
	graphite := harness.StartGraphite(t)
	s.more = fmt.Sprintf(graphiteOutput, graphite.Address)
	s.start()
	s.gathered(time.Now())
	cluster.Workload()

	var want figures
	var at time.Time
	harness.Eventually(t, harness.Patience, func() error {
		before := oracle(t, cluster)
		at = s.gathered(time.Now())
		want = oracle(t, cluster)
		if !maps.Equal(before, want) {
			return errors.New("the queue has changed meanwhile")
		}
		return compare(want, s.found(at.Add(-time.Nanosecond)))
	})
	t.Logf("%d figures are right", len(want))
	require.Greater(t, len(want), 250)
	checkGraphite(t, graphite, want, at)
	checkFinished(t, s)
	checkRows(t, s, at)
	s.checkLog()
}

// found gives all figures of the database that are later than a time.
func (s *site) found(after time.Time) figures {
	s.t.Helper()
	f := make(figures)
	for _, measurement := range []string{
		"slurm_cluster", "slurm_partition", "slurm_queue", "slurm_pending", "slurm_gpu", "slurm_license", "slurm_reservation",
	} {
		for _, r := range s.latest(measurement, after) {
			delete(r.tags, "cluster")
			tags := make([]string, 0, len(r.tags))
			for name, value := range r.tags {
				tags = append(tags, name+"="+value)
			}
			for field := range r.fields {
				if value, ok := r.figure(field); ok {
					f[measurement+" "+sorted(tags...)+" "+field] = value
				}
			}
		}
	}
	return f
}

func sorted(tags ...string) string {
	slices.Sort(tags)
	return strings.Join(tags, ",")
}

// compare tells which of the figures that are wanted are not there; and which are there, of what is counted whole, and
// are not 0 and not wanted.
func compare(want, got figures) error {
	var wrong []string
	for key, n := range want {
		if value, ok := got[key]; !ok || value != n {
			wrong = append(wrong, fmt.Sprintf("%s is %d (%t) instead of %d", key, value, ok, n))
		}
	}
	for key, n := range got {
		measurement, _, _ := strings.Cut(key, " ")
		counted := measurement == "slurm_queue" && !strings.HasSuffix(key, "memory_bytes") ||
			measurement == "slurm_pending" && !strings.HasSuffix(key, "oldest_wait_seconds") ||
			strings.Contains(key, " tasks_") || strings.Contains(key, " nodes_") && !strings.Contains(key, " nodes_power") && !strings.Contains(key, " nodes_not_")
		if _, ok := want[key]; counted && !ok && n != 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %d instead of nothing", key, n))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%d figures are wrong: %s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
}

// order is that of the tags in Graphite's paths.
var order = []string{"by", "partition", "account", "user", "qos", "reason", "type", "reservation", "license", "state"}

// checkGraphite requires the figures under the paths that a person would guess.
func checkGraphite(t *testing.T, graphite *harness.Graphite, want figures, at time.Time) {
	t.Helper()
	paths := make(map[string]int64)
	for key, n := range want {
		parts := strings.SplitN(key, " ", 3)
		path := []string{"hpc", parts[0]}
		tags := make(map[string]string)
		for tag := range strings.SplitSeq(parts[1], ",") {
			name, value, _ := strings.Cut(tag, "=")
			tags[name] = value
		}
		for _, name := range order {
			if value, ok := tags[name]; ok {
				path = append(path, value)
			}
		}
		paths[strings.Join(append(path, parts[2]), ".")] = n
	}
	require.Contains(t, paths, "hpc.slurm_queue.user.alice.running.tasks")
	require.Contains(t, paths, "hpc.slurm_cluster.cpus_idle")
	patterns := make(map[string]bool)
	for path := range paths {
		parts := strings.Split(path, ".")
		patterns["hpc."+parts[1]+strings.Repeat(".*", len(parts)-2)] = true
	}
	harness.Eventually(t, harness.Patience, func() error {
		got := make(map[string]float64)
		for pattern := range patterns {
			for path, points := range graphite.Query(pattern) {
				for _, p := range points {
					if !p.Time.Before(at.Truncate(time.Second)) {
						got[path] = p.Value
					}
				}
			}
		}
		for path, n := range paths {
			if value, ok := got[path]; !ok || value != float64(n) {
				return fmt.Errorf("%s is %v (%t) instead of %d", path, value, ok, n)
			}
		}
		return nil
	})
}

// checkFinished requires that each job that ended is there once, with what Slurm's accounting says of it.
func checkFinished(t *testing.T, s *site) {
	t.Helper()
	harness.Eventually(t, harness.Patience, func() error {
		want := make(map[string]int64)
		ids := make(map[string]string)
		for _, row := range rows(t, s.accounting("JobIDRaw,State,ExitCode,End"), 4) {
			state, _, _ := strings.Cut(row[1], " ")
			if row[3] == "Unknown" {
				continue
			}
			want[state]++
			ids[row[0]+" "+row[3]] = state + " " + row[2]
		}
		got := make(map[string]int64)
		for _, r := range s.latest("slurm_finished_total", time.Unix(0, 0)) {
			n, _ := r.figure("runs")
			got[r.tags["state"]] += n
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("finished %v instead of %v", got, want)
		}
		events := make(map[string]string)
		for _, series := range s.db.Query(database, `SELECT * FROM slurm_finished GROUP BY state`) {
			for _, r := range series.Rows {
				end := time.Unix(r.Int64(t, "end"), 0).UTC().Format("2006-01-02T15:04:05")
				key := fmt.Sprintf("%d %s", r.Int64(t, "job_id"), end)
				if events[key] != "" {
					return fmt.Errorf("run %s is there twice", key)
				}
				events[key] = fmt.Sprintf("%s %d:%d", series.Tags["state"], r.Int64(t, "exit_code"), r.Int64(t, "signal"))
			}
		}
		if !maps.Equal(ids, events) {
			return fmt.Errorf("rows %v instead of %v", events, ids)
		}
		return nil
	})
}

// checkRows looks at what has no oracle in figures.
func checkRows(t *testing.T, s *site, at time.Time) {
	t.Helper()
	problems := make(map[string]string)
	for _, r := range s.latest("slurm_node_problem", at.Add(-time.Nanosecond)) {
		problems[r.tags["node"]] = fmt.Sprintf("%s, %s: %s by %s", r.tags["problem"], r.tags["reason"], r.fields["reason_text"], r.fields["user"])
	}
	require.Equal(t, map[string]string{
		"cpu03": "drained, memory: bad dimm by root", "dead01": "down, power: psu by root",
		"gpu02": "draining, gpu: GPU 3 ECC errors, see ticket #42 | pipe by root", "mem01": `draining, other: quote "x" é by root`,
	}, problems)

	jobs := make(map[string]string)
	for _, series := range s.db.Query(database, "SELECT * FROM slurm_job GROUP BY \"user\"") {
		for _, r := range series.Rows {
			jobs[r["job"].(string)] = fmt.Sprint(series.Tags["user"], " ", r["state"])
		}
	}
	ids := make(map[string]string)
	text := s.slurm.Command("squeue", "-a", "-h", "-t", "R,S", "-o", "%i|%u|%T")
	for _, row := range rows(t, text, 3) {
		ids[row[0]] = row[1] + " " + row[2]
	}
	require.NotEmpty(t, ids)
	for id, want := range ids {
		require.Equal(t, want, jobs[id], "slurm_job of %s", id)
	}

	var waits, started int64
	for _, r := range s.latest("slurm_wait", time.Unix(0, 0)) {
		if n, ok := r.figure("count"); ok && r.tags["state"] == "started" {
			started += n
		}
		if n, ok := r.figure("count"); ok && r.tags["state"] == "pending" {
			waits += n
		}
	}
	require.NotZero(t, waits)
	// A run that was requeued before a gather saw it leaves no trace in the queue. slurmdbd tells late of a run that was
	// requeued at once, and may never tell its start or its nodes.
	harness.Eventually(t, harness.Patience, func() error {
		text := s.accounting("State,Start,NodeList")
		ran, requeued := 0, 0
		for _, row := range rows(t, text, 3) {
			switch {
			case row[0] == "REQUEUED":
				requeued++
				ran++
			case row[1] != "Unknown" && row[1] != "None" && row[2] != "None assigned":
				ran++
			}
		}
		if started > int64(ran) || started < int64(ran-requeued) {
			return fmt.Errorf("the waits of %d runs were counted, of %d, of which %d were requeued:\n%s", started, ran, requeued, text)
		}
		return nil
	})
}

// A gather costs slurmctld one dump of jobs, one of nodes, and no more than the commands themselves ask beside them.
func TestRPCsOfAGather(t *testing.T) { testRPCs(t, "") }

func testRPCs(t *testing.T, suite string) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Suite: suite})
	s := newSite(t, cluster, atEachGather)
	once := func() { s.once(t) }
	once() // The first asks for the configuration, too.
	before := rpcs(t, cluster)
	const gathers = 5
	for range gathers {
		once()
	}
	after := rpcs(t, cluster)
	for name, most := range map[string]int64{
		"REQUEST_JOB_INFO": 1, "REQUEST_NODE_INFO": 1, "REQUEST_STATS_INFO": 1, "REQUEST_BUILD_INFO": 1,
		// squeue and scontrol show node ask for the partitions, too, whatever they are asked for.
		"REQUEST_PARTITION_INFO":   3,
		"REQUEST_RESERVATION_INFO": 1, "REQUEST_LICENSE_INFO": 1,
	} {
		n := after[name] - before[name]
		if name == "REQUEST_STATS_INFO" {
			n-- // Our own.
		}
		require.LessOrEqual(t, n, most*gathers, name)
		require.GreaterOrEqual(t, n, int64(gathers), name)
	}
	for name, n := range after {
		if strings.HasPrefix(name, "REQUEST_") && n > before[name] {
			require.Contains(t, []string{
				"REQUEST_JOB_INFO", "REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO", "REQUEST_STATS_INFO", "REQUEST_BUILD_INFO",
				"REQUEST_RESERVATION_INFO", "REQUEST_LICENSE_INFO", "REQUEST_PING",
			}, name)
		}
	}
}
