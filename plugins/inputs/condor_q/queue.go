package condor_q

import "telegraf-hpc/internal/series"

// amounts are sums over jobs. Those of the scheduler universe, which DAGMan runs in, are apart, as in condor_q's totals.
type amounts struct {
	states    [suspended + 1]int64
	scheduler [suspended + 1]int64
	cpus      int64 // of jobs on slots
	gpus      int64 // of jobs on slots
	memory    int64 // of jobs on slots, MiB
	runtime   int64 // of jobs on slots, seconds
}

func (a *amounts) add(j *job) {
	if j.status < unexpanded || j.status > suspended {
		return
	}
	if j.universe == schedulerUniverse {
		a.scheduler[j.status]++
		return
	}
	a.states[j.status]++
	if !j.status.onSlot() {
		return
	}
	a.cpus += max(j.cpus, 0)
	a.gpus += max(j.gpus, 0)
	a.memory += max(j.memory, 0)
	a.runtime += max(j.runtime, 0)
}

func (a *amounts) merge(b *amounts) {
	for s := range a.states {
		a.states[s] += b.states[s]
		a.scheduler[s] += b.scheduler[s]
	}
	a.cpus += b.cpus
	a.gpus += b.gpus
	a.memory += b.memory
	a.runtime += b.runtime
}

// jobs gives how many there are.
func (a *amounts) jobs() (n int64) {
	for s := range a.states {
		n += a.states[s] + a.scheduler[s]
	}
	return n
}

const mebibyte = 1 << 20

// fields counts jobs that transfer their output as running, as HTCondor's own totals do, and also on their own.
func (a *amounts) fields() map[string]any {
	return map[string]any{
		"idle": a.states[idle] + a.states[unexpanded], "running": a.states[running] + a.states[transferringOutput],
		"transferring_output": a.states[transferringOutput], "held": a.states[held], "suspended": a.states[suspended],
		"completed": a.states[completed], "removed": a.states[removed],
		"dagman_idle": a.scheduler[idle], "dagman_running": a.scheduler[running], "dagman_held": a.scheduler[held],
		"dagman_completed": a.scheduler[completed], "dagman_removed": a.scheduler[removed],
		"allocated_cores": a.cpus, "allocated_gpus": a.gpus, "allocated_memory_bytes": a.memory * mebibyte,
	}
}

// queueTally is what is counted of the jobs of a queue.
type queueTally struct {
	amounts
	waits          series.Histogram
	oldest         int64 // seconds that the idle job waits that waits longest; absent where there is none
	unmaterialized int64 // absent where nobody knows
}

func newQueueTally(bounds []int64) *queueTally {
	return &queueTally{waits: series.NewHistogram(bounds), oldest: absent, unmaterialized: absent}
}

func (q *queueTally) add(bounds []int64, j *job) {
	q.amounts.add(j)
	if j.status != idle || j.universe == schedulerUniverse {
		return
	}
	if wait := waitOf(j); wait != absent {
		q.waits.Observe(bounds, wait, 1)
		q.oldest = max(q.oldest, wait)
	}
}

// waitOf gives for how long an idle job has been waiting: since it became idle, which is its submission unless it ran or
// was held before.
func waitOf(j *job) int64 {
	since := j.entered
	if since <= 0 {
		since = j.submitted
	}
	if since <= 0 || j.now <= 0 {
		return absent
	}
	return max(j.now-since, 0)
}

// userKey is whose jobs they are.
type userKey struct{ user, group string }

// holdSum are held jobs with the same HoldReasonCode.
type holdSum struct {
	jobs   int64
	oldest int64 // seconds; absent where nobody knows
}

// jobTally is what one pass over a schedd's jobs adds up.
type jobTally struct {
	bounds []int64
	queue  *queueTally // of all jobs
	users  map[userKey]*amounts
	holds  map[int64]*holdSum
	rows   []job // where they are asked for
}

func newJobTally(bounds []int64) *jobTally {
	return &jobTally{
		bounds: bounds, queue: newQueueTally(bounds), users: make(map[userKey]*amounts), holds: make(map[int64]*holdSum),
	}
}

func (t *jobTally) add(j *job, detail jobDetail) {
	t.queue.add(t.bounds, j)
	if detail&jobUsers != 0 {
		key := userKey{j.user, j.group}
		sum := t.users[key]
		if sum == nil {
			sum = new(amounts)
			t.users[key] = sum
		}
		sum.add(j)
	}
	if detail&jobHolds != 0 && j.status == held {
		t.addHold(j)
	}
	if detail&jobIDs != 0 && j.cluster != absent && j.proc != absent {
		t.rows = append(t.rows, *j)
	}
}

func (t *jobTally) addHold(j *job) {
	sum := t.holds[j.hold]
	if sum == nil {
		sum = &holdSum{oldest: absent}
		t.holds[j.hold] = sum
	}
	sum.jobs++
	if j.entered > 0 && j.now > 0 {
		sum.oldest = max(sum.oldest, j.now-j.entered)
	}
}
