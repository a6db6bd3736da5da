package harness

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// workload is a queue in the making: the jobs that it has, and what is to become of them.
type workload struct {
	slurm *Slurm
	ids   map[string]string
	wants map[string]string // For each name a pattern of what (*Slurm).jobs tells of the job.
	nodes string            // What (*Slurm).nodes tells in the end.
}

// Workload fills the cluster, which must be a fresh one with the harness's own nodes, with jobs in every state that they
// can be brought to at once, pending for every reason, on nodes that are up, draining, drained, down and reserved. It
// returns once nothing changes any more, and gives the ids of the jobs by their names here, which are Slurm's but for the
// odd ones. No job runs out of time or of memory.
func (s *Slurm) Workload() map[string]string {
	s.t.Helper()
	w := &workload{slurm: s, ids: make(map[string]string), wants: make(map[string]string)}
	w.ended()
	w.running()
	w.settle()
	w.holdBack()
	w.pending()
	w.settle()
	w.behind()
	w.nodes = workloadNodes
	w.settle()
	return w.ids
}

// workloadNodes are the nodes that the workload ends with. It takes slurmctld seconds to see that one is reserved.
const workloadNodes = `cloud01 MIXED+CLOUD+NOT_RESPONDING+POWERING_UP
cloud02 MIXED+CLOUD+NOT_RESPONDING+POWERING_UP
cloud03 IDLE+CLOUD+POWERED_DOWN
cpu01 MIXED
cpu02 MIXED
cpu03 IDLE+DRAIN
cpu04 ALLOCATED+MAINTENANCE+RESERVED
dead01 DOWN+NOT_RESPONDING
gpu01 MIXED
gpu02 MIXED+DRAIN
gpu03 MIXED
gpu04 MIXED+RESERVED
mem01 MIXED+DRAIN
`

const (
	forever   = "--wrap=sleep 100000"
	elsewhere = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)

// add submits a job that is to come into states, a pattern.
func (w *workload) add(name, states, user string, args ...string) string {
	w.slurm.t.Helper()
	require.NotContains(w.slurm.t, w.ids, name)
	w.ids[name] = w.slurm.Submit(user, append([]string{"--job-name=" + name}, args...)...)
	w.wants[name] = states
	return w.ids[name]
}

// ended adds the jobs that are over and those that their states are made with.
func (w *workload) ended() {
	s := w.slurm
	s.t.Helper()
	w.add("ok", "1 COMPLETED None", "bob", "--wrap=true")
	w.add("fails", "1 FAILED NonZeroExitCode", "bob", "--wrap=exit 3")
	w.add("mixed array", "1 COMPLETED None, 1 FAILED .*, 1 FAILED .*, 3 RUNNING None", "bob", "--nodelist=mem01", "--array=1-6",
		"--wrap=case $SLURM_ARRAY_TASK_ID in 1) exit 1;; 2) exit 0;; 3) kill -9 $$;; *) sleep 100000;; esac")
	canceled := w.add("canceled", "1 CANCELLED None", "bob", forever)
	neverRan := w.add("never ran", "1 CANCELLED JobHeldUser", "bob", "--hold", forever)
	nodeFail := w.add("node fail", "1 NODE_FAIL NodeDown", "bob", "--nodelist=cpu04", "--no-requeue", forever)
	again := w.add("again", "1 PENDING job requeued in held state", "bob", "--nodelist=mem01", forever)
	for _, job := range []string{canceled, nodeFail, again} {
		s.WaitState(job, "RUNNING")
	}
	s.Command("scancel", canceled, neverRan)
	s.Command("scontrol", "update", "nodename=cpu04", "state=down", "reason=lost")
	s.Command("scontrol", "update", "nodename=cpu04", "state=idle")
	s.Command("scontrol", "requeuehold", again)
}

// running adds the jobs that run, with the tasks that wait for one of their own.
func (w *workload) running() {
	s := w.slurm
	s.t.Helper()
	const one = "1 RUNNING None"
	whole := w.add("whole node", one, "bob", "--nodelist=cpu04", "--exclusive", forever)
	suspended := w.add("suspended", "1 SUSPENDED None", "alice", "--nodelist=mem01", "--mem=10", forever)
	w.add("cfd", one, "alice", "--nodelist=mem01", "-n4", "--mem=8G", "--time=10:00:00", forever)
	w.add("sweep", "7 PENDING JobArrayTaskLimit, 3 RUNNING None", "alice", "-A", "lattice", "--nodelist=mem01", "-c16", "--mem-per-cpu=1G",
		"--time=20:00:00", "--array=0-9%3", forever)
	w.add("mpi", one, "bob", "--nodelist=cpu[01-02]", "-N2", "--ntasks-per-node=8", "--mem=2G", "--time=5:00:00", forever)
	w.add("secret", one, "alice", "--partition=secret", "--mem=10", forever)
	w.add("cloud", "1 CONFIGURING None", "alice", "--partition=cloud", "-N2", forever)
	for i, name := range []string{`a|b c,d=e"f'g`, "tab\there\nnewline", "näme-日本語-%j \\n", `{"json":[1,2]}`, ""} {
		w.add(fmt.Sprintf("odd name %d", i), one, "alice", "--nodelist=mem01", "--job-name="+name, "--comment=x|y z", forever)
	}
	w.add("typed gpus", one, "alice", "--partition=gpu", "--nodelist=gpu01", "--gres=gpu:a100:2", "--mem=10G", forever)
	w.add("any gpu", one, "alice", "--partition=gpu", "--nodelist=gpu01", "--gpus=1", "--mem=10G", forever)
	w.add("gpus of a node", one, "bob", "--partition=gpu", "-n2", "--gpus-per-node=h100:1", "--mem=10G", forever)
	w.add("last type", one, "bob", "--partition=gpu", "--gres=gpu:l40s:1", "--mem=1G", forever)
	w.add("all gpus", one, "bob", "--partition=gpu", "--nodelist=gpu02", "--gres=gpu:a100:4", "--mem=1G", forever)
	w.add("heterogeneous", "2 RUNNING None", "alice", "--nodelist=mem01", "--mem=100", ":", "-n2", "--partition=gpu", "--nodelist=gpu03", "--mem=100", forever)
	w.add("licences", one, "bob", "--nodelist=mem01", "--licenses=matlab:10", "--mem=10", forever)
	w.add("tiny", one, "bob", "--nodelist=mem01", "--qos=tiny", "-c4", "--mem=10", forever)
	w.add("group", one, "carol", "--nodelist=mem01", "-c8", "--mem=10", forever)
	s.WaitState(whole, "RUNNING")
	s.WaitState(suspended, "RUNNING")
	s.Command("scontrol", "suspend", suspended)
	s.Command("scontrol", "create", "reservation", "reservationname=maintenance", "starttime=now", "duration=120", "nodes=cpu04", "flags=maint,ignore_jobs", "users=root")
	s.Command("scontrol", "create", "reservation", "reservationname=training", "starttime=now", "duration=120", "nodes=gpu04", "flags=ignore_jobs", "accounts=chem")
	s.Command("scontrol", "create", "reservation", "reservationname=tomorrow", "starttime=now+1day", "duration=120", "nodes=cpu01", "accounts=chem")
}

// holdBack takes nodes from the jobs that come: by a drain, a failure or a reservation.
func (w *workload) holdBack() {
	s := w.slurm
	s.t.Helper()
	state := func(node, state, reason string) {
		s.Command("scontrol", "update", "nodename="+node, "state="+state, "reason="+reason)
	}
	state("gpu02", "drain", "GPU 3 ECC errors, see ticket #42 | pipe")
	state("cpu03", "drain", "bad dimm")
	state("mem01", "drain", `quote "x" é`)
	state("dead01", "down", "psu")
	state("dead01", "noresp", "psu") // As slurmctld itself will say within minutes.
}

// pending adds the jobs that wait.
func (w *workload) pending() {
	s := w.slurm
	s.t.Helper()
	w.add("in a reservation", "1 RUNNING None", "bob", "--reservation=training", "--partition=gpu", "--gres=gpu:1", "--mem=10", forever)
	w.add("for a reservation", "1 PENDING Reservation", "bob", "--reservation=tomorrow", forever)
	w.add("held", "1 PENDING JobHeldUser", "alice", "--hold", forever)
	held := w.add("held by root", "1 PENDING JobHeldAdmin", "bob", "--hold", forever)
	s.Command("scontrol", "hold", held)
	w.add("heterogeneous held", "2 PENDING JobHeldUser", "alice", "--hold", ":", "-n2", "--partition=gpu", forever)
	w.add("later", "1 PENDING BeginTime", "alice", "--begin=now+2hours", forever)
	w.add("dependent", "1 PENDING Dependency", "alice", "--dependency=afterok:"+w.ids["held"], forever)
	w.add("never", "1 PENDING DependencyNeverSatisfied", "bob", "--dependency=afterok:"+w.ids["fails"], forever)
	w.add("no licences", "1 PENDING Licenses", "alice", "--qos=high", "--licenses=matlab:4", "--mem=10", forever)
	w.add("too tiny", "1 PENDING QOSMaxCpuPerUserLimit", "bob", "--qos=tiny", "-c4", "--mem=10", forever)
	w.add("too many in the group", "1 PENDING AssocGrpCpuLimit", "carol", "-c8", "--mem=10", forever)
	w.add("partition down", "1 PENDING PartitionDown", "bob", "--partition=maint", forever)
	w.add("node down", "1 PENDING ReqNodeNotAvail, UnavailableNodes:dead01", "bob", "--nodelist=dead01", forever)
	w.add("too long", "1 PENDING PartitionTimeLimit", "bob", "--time=3-00:00:00", forever)
	w.add("partitions", "1 PENDING BeginTime", "bob", "--partition=cpu,all", "-N7", "--exclusive", "--begin=now+2hours", forever)
	w.add("all nodes", "1 PENDING "+elsewhere, "bob", "--partition=all", "-N9", forever)
	w.add("many", "500 PENDING Resources", "alice", "--partition=cloud", "--array=1-500", "-N2", "--exclusive", "--time=60", forever)
	w.add("sparse", "16 PENDING Resources", "bob", "--array=1,3,7-9,100-200:10%2", "-N2", "--exclusive", "--time=60", forever)
	w.add("many gpus", "20 PENDING "+elsewhere, "bob", "--partition=gpu", "--gres=gpu:a100:4", "--mem=1G", "--array=1-20", forever)
	w.add("gpus of a task", "1 PENDING ReqNodeNotAvail, May be reserved for other job", "alice", "--partition=gpu", "--nodelist=gpu04", "-n1", "--gpus-per-task=2", "--mem=1G", forever)
}

// behind adds the jobs that wait behind others of their partition, which must be seen to wait before.
func (w *workload) behind() {
	w.slurm.t.Helper()
	w.add("no licences nor priority", "1 PENDING Priority", "bob", "--licenses=matlab:4", "--mem=10", forever)
	w.add("taken gpus", "1 PENDING Priority", "alice", "--partition=gpu", "--gres=gpu:h100:2", "--mem=1G", forever)
}

// settle waits until all jobs are what they are to be.
func (w *workload) settle() {
	w.slurm.t.Helper()
	Eventually(w.slurm.t, time.Minute, func() error {
		jobs := w.slurm.jobs()
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(w.wants)) {
			is := jobs[w.ids[name]]
			if !regexp.MustCompile("^" + w.wants[name] + "$").MatchString(is) {
				errs = append(errs, fmt.Errorf("job %s, %q, is %q instead of %q", w.ids[name], name, is, w.wants[name]))
			}
		}
		if is := w.slurm.nodes(); w.nodes != "" && is != w.nodes {
			errs = append(errs, fmt.Errorf("nodes are\n%sinstead of\n%s", is, w.nodes))
		}
		return errors.Join(errs...)
	})
}

// nodes gives a line with each node's name and state. The backfill scheduler's plans come and go and are left out.
func (s *Slurm) nodes() string {
	s.t.Helper()
	nodes := s.Command("scontrol", "--all", "--oneliner", "show", "node")
	nodes = regexp.MustCompile(`(?m)^NodeName=(\S+) .* State=(\S+) .*$`).ReplaceAllString(nodes, "$1 $2")
	return strings.ReplaceAll(nodes, "+PLANNED", "")
}

// jobs counts, for each job that is not part of another, the tasks and components by state and reason:
// "7 PENDING JobArrayTaskLimit, 3 RUNNING None".
func (s *Slurm) jobs() map[string]string {
	s.t.Helper()
	counts := make(map[string]map[string]int)
	for line := range strings.Lines(s.Command("squeue", "--all", "--array", "--noheader", "--states=all", "--format=%i|%T|%r")) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3)
		require.Len(s.t, fields, 3, line)
		job := regexp.MustCompile(`^\d+`).FindString(fields[0])
		if counts[job] == nil {
			counts[job] = make(map[string]int)
		}
		counts[job][fields[1]+" "+fields[2]]++
	}
	jobs := make(map[string]string)
	for job, states := range counts {
		var all []string
		for _, state := range slices.Sorted(maps.Keys(states)) {
			all = append(all, fmt.Sprintf("%d %s", states[state], state))
		}
		jobs[job] = strings.Join(all, ", ")
	}
	return jobs
}
