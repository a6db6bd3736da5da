package condor_q

// jobStatus is a job's JobStatus (HTCondor's manual, job ClassAd attributes).
type jobStatus int64

const (
	unexpanded jobStatus = iota
	idle
	running
	removed
	completed
	held
	transferringOutput
	suspended
)

// String gives HTCondor's name of the state.
func (s jobStatus) String() string {
	if s < unexpanded || s > suspended {
		return "unknown"
	}
	return [...]string{"unexpanded", "idle", "running", "removed", "completed", "held", "transferring_output", "suspended"}[s]
}

// afState gives the name that the Analysis Facility's collector has for the state. It is not HTCondor's.
func (s jobStatus) afState() string {
	switch s {
	case completed:
		return "finished"
	case transferringOutput:
		return "submission_err"
	case suspended:
		return "unknown"
	}
	return s.String()
}

// onSlot tells whether the job has a slot now.
func (s jobStatus) onSlot() bool { return s == running || s == transferringOutput || s == suspended }

// schedulerUniverse is the universe of jobs that run on the schedd's own host, such as DAGMan.
const schedulerUniverse = 7

// job is one job of the queue. Counts that are not known are absent.
type job struct {
	cluster, proc int64
	id            string // GlobalJobId
	status        jobStatus
	universe      int64
	entered       int64 // seconds since 1970: when it came into its state
	submitted     int64 // seconds since 1970
	now           int64 // seconds since 1970, by the schedd's clock
	cpus, gpus    int64 // provisioned
	memory        int64 // provisioned, MiB
	user, group   string
	runtime       int64 // seconds on slots, in all of its runs
	hold          int64 // HoldReasonCode
	batch         string
	wantCPUs      int64
	wantGPUs      int64
	wantMemory    int64 // MiB
	custom        []any // in the order of option attributes; nil where unknown
}

// jobDetail is how much is asked of each job.
type jobDetail uint8

const (
	jobCounts  jobDetail = 1 << iota // what is counted of each queue
	jobUsers                         // who it belongs to, and for how long it runs
	jobHolds                         // why it is held
	jobIDs                           // who it is
	jobDetails = jobCounts | jobUsers | jobHolds | jobIDs
)

// jobColumns tells where in an ad's values a job's are; -1 where they were not asked for.
type jobColumns struct {
	*attributes
	cluster, proc, id, status, universe, entered, submitted, now, cpus, gpus, memory, owner, user, group, account, wall, started,
	hold, batch, wantCPUs, wantGPUs, wantMemory int
	custom []customAttribute
	places []int // of custom
}

// newJobColumns asks for what is needed, and no more: the schedd's work grows with it.
func newJobColumns(detail jobDetail, custom ...customAttribute) *jobColumns {
	a := newAttributes()
	c := &jobColumns{attributes: a}
	place := func(needed jobDetail, name string) int {
		if detail&needed == 0 {
			return -1
		}
		return a.place(name)
	}
	for _, column := range []struct {
		at     *int
		needed jobDetail
		name   string
	}{
		{&c.status, jobCounts, "JobStatus"}, {&c.universe, jobCounts, "JobUniverse"},
		{&c.entered, jobCounts, "EnteredCurrentStatus"}, {&c.submitted, jobCounts, "QDate"}, {&c.now, jobCounts, "ServerTime"},
		{&c.cpus, jobCounts, "CpusProvisioned"}, {&c.gpus, jobCounts, "GPUsProvisioned"},
		{&c.memory, jobCounts, "MemoryProvisioned"},
		{&c.owner, jobUsers | jobIDs, "Owner"}, {&c.user, jobUsers | jobIDs, "User"}, {&c.group, jobUsers | jobIDs, "AcctGroup"},
		{&c.account, jobUsers | jobIDs, "AccountingGroup"}, {&c.wall, jobUsers | jobIDs, "RemoteWallClockTime"},
		{&c.started, jobUsers | jobIDs, "JobCurrentStartDate"},
		{&c.hold, jobHolds, "HoldReasonCode"},
		{&c.cluster, jobIDs, "ClusterId"}, {&c.proc, jobIDs, "ProcId"}, {&c.id, jobIDs, "GlobalJobId"},
		{&c.batch, jobIDs, "JobBatchName"}, {&c.wantCPUs, jobIDs, "RequestCpus"}, {&c.wantGPUs, jobIDs, "RequestGPUs"},
		{&c.wantMemory, jobIDs, "RequestMemory"},
	} {
		*column.at = place(column.needed, column.name)
	}
	if detail&jobIDs != 0 {
		c.custom, c.places = custom, placesOf(a, custom)
	}
	return c
}

// read makes a job of an ad.
func (c *jobColumns) read(a *ad) job {
	j := job{
		cluster: a.count(c.cluster), proc: a.count(c.proc), id: a.unique(c.id), status: jobStatus(a.count(c.status)),
		universe: a.count(c.universe), entered: a.count(c.entered), submitted: a.count(c.submitted), now: a.count(c.now),
		cpus: a.count(c.cpus), gpus: a.count(c.gpus), memory: a.count(c.memory), hold: a.count(c.hold),
		batch: a.text(c.batch), wantCPUs: a.count(c.wantCPUs), wantGPUs: a.count(c.wantGPUs), wantMemory: a.count(c.wantMemory),
		user: userOf(a, c.owner, c.user), group: groupOf(a, c.group, c.account),
	}
	j.runtime = runtimeOf(j.status, a.count(c.wall), a.count(c.started), j.now)
	if len(c.custom) > 0 {
		j.custom = customValues(a, c.custom, c.places)
	}
	return j
}

// runtimeOf gives for how long a job has been on slots. HTCondor adds a run to RemoteWallClockTime when it ends, so that
// the present one is missing there. By the schedd's clock: that of this host may be another.
func runtimeOf(status jobStatus, wall, started, now int64) int64 {
	if !status.onSlot() || started <= 0 || now < started {
		return wall
	}
	return max(wall, 0) + now - started
}
