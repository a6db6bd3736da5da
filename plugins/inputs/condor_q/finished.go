package condor_q

import (
	"time"
)

// finishedJob is what a record of the history says. Counts that are not known are absent.
type finishedJob struct {
	record
	job
	done      int64 // seconds since 1970: when it completed or was removed
	start     int64 // seconds since 1970: of its last run
	first     int64 // seconds since 1970: of its first run
	starts    int64
	exitCode  int64
	signal    int64
	cpu       float64 // seconds of CPU time, of all runs; negative where unknown
	resident  int64   // the most resident memory, KiB
	host      string
	removal   string
	dagman    int64
	exitKnown bool
}

// finishedColumns tells where in a record's values a job's are.
type finishedColumns struct {
	*jobColumns
	done, completion, first, starts, exitCode, bySignal, signal, userCPU, systemCPU, lastUserCPU, lastSystemCPU, resident,
	residentRaw, memoryUsage, host, removal, dagman int
}

// recordColumns are what names a record.
type recordColumns struct {
	*attributes
	id, done int
}

func newRecordColumns(a *attributes) recordColumns {
	return recordColumns{attributes: a, id: a.place("GlobalJobId"), done: a.place("JobFinishedHookDone")}
}

// read names the record; without an id there is none.
func (c recordColumns) read(a *ad) (r record, ok bool) {
	r = record{ID: a.unique(c.id), Done: a.count(c.done)}
	return r, r.ID != ""
}

func newFinishedColumns(custom []customAttribute) *finishedColumns {
	jobs := newJobColumns(jobCounts|jobUsers|jobIDs, custom...)
	a := jobs.attributes
	return &finishedColumns{
		jobColumns: jobs, done: a.place("JobFinishedHookDone"), completion: a.place("CompletionDate"),
		first: a.place("JobStartDate"), starts: a.place("NumJobStarts"), exitCode: a.place("ExitCode"),
		bySignal: a.place("ExitBySignal"), signal: a.place("ExitSignal"), userCPU: a.place("CumulativeRemoteUserCpu"),
		systemCPU: a.place("CumulativeRemoteSysCpu"), lastUserCPU: a.place("RemoteUserCpu"), lastSystemCPU: a.place("RemoteSysCpu"),
		resident: a.place("ResidentSetSize"), residentRaw: a.place("ResidentSetSize_RAW"), memoryUsage: a.place("MemoryUsage"),
		host: a.place("LastRemoteHost"), removal: a.place("RemoveReason"), dagman: a.place("DAGManJobId"),
	}
}

func (c *finishedColumns) read(a *ad) finishedJob {
	j := finishedJob{
		job: c.jobColumns.read(a), start: a.count(c.started), first: a.count(c.first), starts: a.count(c.starts), exitCode: absent, signal: absent,
		cpu: cpuTime(a, c.userCPU, c.systemCPU), host: a.text(c.host), removal: a.unique(c.removal), dagman: a.count(c.dagman),
		resident: residentOf(a, c.residentRaw, c.resident, c.memoryUsage),
	}
	j.record = record{ID: j.id, Done: a.count(c.done)}
	j.runtime = a.count(c.wall) // All of its runs have ended.
	if j.cpu < 0 {
		j.cpu = cpuTime(a, c.lastUserCPU, c.lastSystemCPU)
	}
	if bySignal, ok := a.boolean(c.bySignal); ok && bySignal {
		j.signal = a.count(c.signal)
	} else if code, ok := a.integer(c.exitCode); ok {
		j.exitCode, j.exitKnown = code, true
	}
	j.done = a.count(c.completion)
	if j.done <= 0 { // Of those that were removed.
		j.done = j.entered
	}
	if j.done <= 0 {
		j.done = max(j.Done, j.submitted, 0)
	}
	return j
}

// cpuTime adds up the time in user and in system mode.
func cpuTime(a *ad, user, system int) float64 {
	u, ok := a.float(user)
	s, both := a.float(system)
	if !ok || !both {
		return absent
	}
	return u + s
}

// residentOf gives the most memory in KiB that a job had. ResidentSetSize is rounded up to a quarter of its size at most,
// and MemoryUsage is an expression of it unless the job's cgroup was asked.
func residentOf(a *ad, raw, rounded, usage int) int64 {
	if mib := a.count(usage); mib != absent {
		return mib << 10
	}
	if kib := a.count(raw); kib != absent {
		return kib
	}
	return a.count(rounded)
}

// had gives the cores, GPUs and memory in MiB that the job had at last, or asked for if it never ran.
func (j *job) had() (cpus, gpus, memory int64) {
	return either(j.cpus, j.wantCPUs), either(j.gpus, j.wantGPUs), either(j.memory, j.wantMemory)
}

func either(first, second int64) int64 {
	if first != absent {
		return first
	}
	return second
}

// fields gives what is told of the job.
func (j *finishedJob) fields(f *fieldList, custom []customAttribute) {
	j.job.fields(f)
	f.text("af_state", completed.afState())
	f.text("host", j.host)
	f.text("remove_reason", j.removal)
	f.count("submit", j.submitted)
	f.time("start", j.start)
	f.time("end", j.done)
	f.count("starts", j.starts)
	f.count("signal", j.signal)
	if j.exitKnown {
		f.add("exit_code", j.exitCode)
	}
	f.time("dagman_cluster", j.dagman)
	if j.first > 0 && j.submitted > 0 {
		f.count("wait_seconds", max(j.first-j.submitted, 0))
	}
	j.efficiency(f)
	f.custom(custom, j.custom)
}

// efficiency tells what the job used, and what that is of what it had.
func (j *finishedJob) efficiency(f *fieldList) {
	cpus, _, memory := j.had()
	if j.cpu >= 0 {
		f.add("cpu_seconds", j.cpu)
		if had := j.runtime * cpus; j.runtime > 0 && cpus > 0 {
			f.add("cpu_efficiency", j.cpu/float64(had))
		}
	}
	if j.resident > 0 {
		f.add("memory_peak_bytes", j.resident<<10)
		if memory > 0 {
			f.add("memory_efficiency", float64(j.resident)/float64(memory<<10))
		}
	}
}

// fields gives what is told of any job.
func (j *job) fields(f *fieldList) {
	cpus, gpus, memory := j.had()
	f.text("id", j.displayID())
	f.text("global_job_id", j.id)
	f.text("user", j.user)
	f.text("group", j.group)
	f.text("batch_name", j.batch)
	f.count("universe", j.universe)
	f.count("runtime_seconds", j.runtime)
	f.count("cores", cpus)
	f.count("gpus", gpus)
	if memory != absent {
		f.add("memory_bytes", memory*mebibyte)
	}
}

// jobFields are the fields that a row of a job may have besides those of option attributes.
func jobFields() []string {
	return []string{
		"id", "global_job_id", "user", "group", "batch_name", "state", "af_state", "universe", "runtime_seconds", "cores", "gpus",
		"memory_bytes", "submit", "start", "end", "starts", "host", "remove_reason", "exit_code", "signal", "dagman_cluster",
		"wait_seconds", "cpu_seconds", "cpu_efficiency", "memory_peak_bytes", "memory_efficiency",
	}
}

// clusterStep is near the golden ratio's part of 1e9, and has no divisor in common with it. Of such numbers it is one whose
// multiples keep the most distance.
const clusterStep = 618_302_059

// momentOf gives a job's row a time of its own within a second: nanoseconds of its cluster and process, so that a row that
// is emitted again is the same point. Clusters lie as far apart as they can: two jobs of a schedd have the same one only
// if the distance of their clusters times that of their processes is beyond 300 million.
func momentOf(seconds int64, j *job) time.Time {
	return time.Unix(seconds, (max(j.cluster, 0)%1e9*clusterStep+max(j.proc, 0)%1e9)%1e9)
}
