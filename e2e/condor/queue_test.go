package condor

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

// fill puts jobs in every state into the queue, and waits until all are where they will stay.
func (s *site) fill() {
	s.t.Helper()
	c := s.pool
	const sleep = "executable = /bin/sleep\narguments = 3000\n"
	running := c.Submit("alice", sleep+"accounting_group = group_physics.alice\n+ProjectName = \"ATLAS\"\nbatch_name = long running\nqueue 3")
	c.Submit("bob", sleep+"request_cpus = 2\nrequest_gpus = 1\nrequest_memory = 2048\naccounting_group = group_bio.bob\nqueue")
	c.Submit("bob", sleep+"request_cpus = 64\nrequest_memory = 1000000\nqueue 3")
	c.Submit("carol", sleep+"+ProjectName = \"ATLAS\"\nhold = true\nqueue 2")
	c.Submit("carol", "executable = /nonexistent/program\ntransfer_executable = false\nqueue")
	c.Submit("carol", "executable = /bin/true\nleave_in_queue = true\nqueue 2")
	// Quotes, and a byte that is no UTF-8.
	c.Submit("alice", sleep+"request_cpus = 64\nmax_idle = 2\nbatch_name = late \"jobs\" caf\xe9\nqueue 10")
	c.Submit("carol", sleep+"request_cpus = 64\nqueue 4", "-name", secondSchedd)
	dag := filepath.Join(filepath.Dir(c.Path("")), "jobs", "test.dag")
	require.NoError(s.t, os.WriteFile(dag, []byte("JOB a /run/jobs/a.sub\n"), 0o644))
	require.NoError(s.t, os.WriteFile(filepath.Join(filepath.Dir(dag), "a.sub"),
		[]byte(sleep+"request_memory = 64\nrequest_disk = 1MB\nshould_transfer_files = NO\nqueue\n"), 0o644))
	c.CommandAs("alice", "condor_submit_dag", "-force", "/run/jobs/test.dag")

	c.WaitJobs(2, "JobStatus == 4")
	c.WaitJobs(3, "JobStatus == 5")
	c.WaitJobs(5, "JobStatus == 2 && JobUniverse == 5")
	c.WaitJobs(1, "JobStatus == 2 && JobUniverse == 7")
	c.WaitJobs(5, "JobStatus == 1")
	c.Command("condor_suspend", running+".1")
	c.WaitJobs(1, "JobStatus == 7")
	c.Command("condor_qedit", running+".0", "JobBatchName", `"two\nlines, a=b"`)
}

// told is what condor_q -af says of a job.
type told struct {
	id, owner, group                                                             string
	status, universe, cpus, memory, gpus, entered, hold, wall, started, wantCPUs int64
}

// oracle asks condor_q in another way than the plugin does.
func (s *site) oracle(constraint string, args ...string) []told {
	s.t.Helper()
	args = append([]string{"-all", "-constraint", constraint, "-af:j,", "JobStatus", "JobUniverse", "CpusProvisioned", "MemoryProvisioned",
		"GPUsProvisioned", "EnteredCurrentStatus", "HoldReasonCode", "RemoteWallClockTime", "JobCurrentStartDate", "RequestCpus", "Owner", "AcctGroup"}, args...)
	var jobs []told
	for line := range strings.Lines(s.pool.Command("condor_q", args...)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Split(rest, ", ")
		require.Len(s.t, fields, 12, line)
		var numbers [10]int64
		for i := range numbers {
			if fields[i] == "undefined" {
				continue
			}
			f, err := strconv.ParseFloat(fields[i], 64)
			require.NoError(s.t, err, line)
			numbers[i] = int64(f)
		}
		n := numbers
		jobs = append(jobs, told{id: strings.TrimSuffix(id, ","), owner: fields[10], group: fields[11], status: n[0], universe: n[1], cpus: n[2], memory: n[3],
			gpus: n[4], entered: n[5], hold: n[6], wall: n[7], started: n[8], wantCPUs: n[9]})
	}
	return jobs
}

// sums adds up jobs as condor_queue and condor_user do.
func sums(jobs []told) map[string]int64 {
	fields := map[string]int64{}
	states := []string{"", "idle", "running", "removed", "completed", "held", "transferring_output", "suspended"}
	for _, state := range states[1:] {
		fields[state] = 0
	}
	for _, state := range []string{"idle", "running", "held", "completed", "removed"} {
		fields["dagman_"+state] = 0
	}
	for _, field := range []string{"allocated_cores", "allocated_memory_bytes", "allocated_gpus"} {
		fields[field] = 0
	}
	for _, j := range jobs {
		if j.universe == 7 {
			fields["dagman_"+states[j.status]]++
			continue
		}
		fields[states[j.status]]++
		if j.status == 2 || j.status == 6 || j.status == 7 {
			fields["allocated_cores"] += j.cpus
			fields["allocated_memory_bytes"] += j.memory << 20
			fields["allocated_gpus"] += j.gpus
		}
	}
	fields["running"] += fields["transferring_output"]
	return fields
}

func (s *site) requireSums(want map[string]int64, row harness.Row, of string) {
	s.t.Helper()
	for field, value := range want {
		require.NotNil(s.t, row[field], "%s: %s", of, field)
		require.Equal(s.t, value, row.Int64(s.t, field), "%s: %s", of, field)
	}
}

// Jobs in every state, two schedds, a DAG, late materialization, GPUs: all figures are those that condor_q gives.
func TestQueueIsThatOfCondorQ(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.CondorOptions{SecondSchedd: true})
	s.fill()
	s.watch(`
collect = ["queue", "wait", "user", "hold", "finished", "slots", "schedd", "negotiator", "userprio", "job"]
job_interval = "0s"
attributes = ["ProjectName", "JobPrio:integer"]
[[inputs.condor_q.queue]]
  name = "all"
[[inputs.condor_q.queue]]
  name = "atlas"
  constraint = 'ProjectName == "ATLAS"'
`)
	start := time.Now()
	head := map[string]string{"pool": pool, "schedd": headSchedd}
	s.Last(start, "condor_job", head)
	jobs := s.oracle("true")
	require.Len(t, jobs, 16)
	s.requireQueues(start, jobs)
	s.requireUsers(start, jobs)
	s.requireHolds(start, jobs)
	s.requireJobs(jobs)
	s.requirePool(start, jobs)
	require.Empty(t, s.Said("E"))
	s.Telegraf.Stop()
}

func (s *site) requireQueues(start time.Time, jobs []told) {
	s.t.Helper()
	all := s.Last(start, "condor_queue", map[string]string{"schedd": headSchedd, "queue": "all"})
	s.requireSums(sums(jobs), all, "all")
	require.Equal(s.t, int64(8), all.Int64(s.t, "unmaterialized"))
	s.requireSums(sums(s.oracle(`ProjectName == "ATLAS"`)), s.Last(start, "condor_queue", map[string]string{"schedd": headSchedd, "queue": "atlas"}), "atlas")
	s.requireSums(sums(s.oracle("true", "-name", secondSchedd)), s.Last(start, "condor_queue", map[string]string{"schedd": secondSchedd, "queue": "all"}), "second")

	oldest := time.Now().Unix()
	for _, j := range jobs {
		if j.status == 1 {
			oldest = min(oldest, j.entered)
		}
	}
	gathered := all.Int64(s.t, "time") / 1e9
	require.InDelta(s.t, gathered-oldest, all.Int64(s.t, "oldest_wait_seconds"), 5)
	waits := s.Last(start, "condor_wait", map[string]string{"schedd": headSchedd, "queue": "all", "le": "+Inf"})
	require.Equal(s.t, all.Int64(s.t, "idle"), waits.Int64(s.t, "bucket"))
}

func (s *site) requireUsers(start time.Time, jobs []told) {
	s.t.Helper()
	users := map[[2]string][]told{}
	for _, j := range jobs {
		group := j.group
		if group == "undefined" {
			group = "_none"
		}
		users[[2]string{j.owner, group}] = append(users[[2]string{j.owner, group}], j)
	}
	require.Len(s.t, users, 5)
	for key, of := range users {
		row := s.Last(start, "condor_user", map[string]string{"schedd": headSchedd, "user": key[0], "group": key[1]})
		s.requireSums(sums(of), row, key[0]+" "+key[1])
	}
}

func (s *site) requireHolds(start time.Time, jobs []told) {
	s.t.Helper()
	holds := map[int64]int64{}
	for _, j := range jobs {
		if j.status == 5 {
			holds[j.hold]++
		}
	}
	reasons := map[int64]string{6: "FailedToCreateProcess", 15: "SubmittedOnHold"}
	require.Len(s.t, holds, 2)
	for code, n := range holds {
		row := s.Last(start, "condor_hold", map[string]string{"schedd": headSchedd, "code": strconv.FormatInt(code, 10), "reason": reasons[code]})
		require.Equal(s.t, n, row.Int64(s.t, "jobs"))
	}
}

// requireJobs compares the rows of one gather.
func (s *site) requireJobs(jobs []told) {
	s.t.Helper()
	tags := map[string]string{"schedd": headSchedd}
	second := s.Last(time.Now(), "condor_job", tags).Int64(s.t, "time") / 1e9
	s.Last(time.Unix(second+1, 0), "condor_job", tags) // Then all of that second are there.
	series := s.DB.Query(database, fmt.Sprintf(`SELECT * FROM condor_job WHERE schedd = '%s' AND time >= %d AND time < %d`, headSchedd, second*1e9, (second+1)*1e9))
	require.Len(s.t, series, 1)
	rows := map[any]harness.Row{}
	for _, row := range series[0].Rows {
		rows[row["id"]] = row
	}
	require.Len(s.t, rows, len(jobs))
	states := []string{"unexpanded", "idle", "running", "removed", "completed", "held", "transferring_output", "suspended"}
	names := []string{"unexpanded", "idle", "running", "removed", "finished", "held", "submission_err", "unknown"}
	for _, j := range jobs {
		row := rows[j.id]
		require.NotNil(s.t, row, j.id)
		require.Equal(s.t, states[j.status], row["state"], j.id)
		require.Equal(s.t, names[j.status], row["af_state"], j.id)
		require.Equal(s.t, j.owner, row["user"], j.id)
		require.Equal(s.t, max(j.cpus, 0), map[bool]int64{true: row.Int64(s.t, "cores"), false: 0}[j.cpus > 0], j.id)
		runtime := j.wall
		if j.status == 2 || j.status == 7 {
			runtime += second - j.started
		}
		require.InDelta(s.t, runtime, row.Int64(s.t, "runtime_seconds"), 5, j.id)
		if j.status == 2 {
			require.Positive(s.t, row.Int64(s.t, "runtime_seconds"), j.id)
		}
	}
	batches := map[any]bool{}
	for _, row := range rows {
		batches[row["batch_name"]] = true
	}
	require.Contains(s.t, batches, `two\nlines, a=b`)
	require.Contains(s.t, batches, "late \"jobs\" caf\uFFFD")
}

// requirePool compares what is not of a queue.
func (s *site) requirePool(start time.Time, jobs []told) {
	s.t.Helper()
	used := s.Last(start, "condor_slots", map[string]string{"state": "Claimed", "type": "Dynamic"})
	idle := s.Last(start, "condor_slots", map[string]string{"type": "Partitionable"})
	want := sums(jobs)
	require.Equal(s.t, want["allocated_cores"], used.Int64(s.t, "cores_used"))
	require.Equal(s.t, want["allocated_gpus"], used.Int64(s.t, "gpus_used"))
	require.Equal(s.t, int64(16), used.Int64(s.t, "cores_used")+idle.Int64(s.t, "cores_idle"))
	require.Equal(s.t, int64(2), used.Int64(s.t, "gpus_used")+idle.Int64(s.t, "gpus_idle"))
	require.Equal(s.t, int64(32768<<20), used.Int64(s.t, "memory_used_bytes")+idle.Int64(s.t, "memory_idle_bytes"))
	require.Equal(s.t, int64(1), s.Last(start, "condor_pool", nil).Int64(s.t, "up"))
	for name, unmaterialized := range map[string]int64{headSchedd: 8, secondSchedd: 0} {
		row := s.Last(start, "condor_schedd", map[string]string{"schedd": name})
		require.Equal(s.t, int64(1), row.Int64(s.t, "up"))
		require.Equal(s.t, unmaterialized, row.Int64(s.t, "jobs_unmaterialized"))
	}
	negotiator := s.Last(start, "condor_negotiator", map[string]string{"negotiator": headSchedd})
	require.InDelta(s.t, time.Now().Unix(), negotiator.Int64(s.t, "cycle_end"), 60)
	require.NotNil(s.t, negotiator["rejections"])
	require.NotNil(s.t, negotiator["cycle_seconds"])
	alice := s.Last(start, "condor_userprio", map[string]string{"submitter": "group_physics.alice.alice@pool.test", "group": "group_physics"})
	require.Equal(s.t, int64(3), alice.Int64(s.t, "resources_used"))
}
