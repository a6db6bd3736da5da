package slurm_load

import (
	"cmp"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
	"telegraf-hpc/internal/users"
)

// amounts are sums over tasks.
type amounts struct {
	tasks, cpus, nodes, gpus int64
	memory                   int64 // bytes
	memoryUnknown            bool  // of one task at least
}

func (a *amounts) add(j *slurm.Job, gpus int64) {
	a.tasks += j.Tasks
	a.cpus += j.Tasks * j.CPUs
	a.nodes += j.Tasks * j.Nodes
	a.gpus += j.Tasks * gpus
	if j.Memory == slurm.Unknown {
		a.memoryUnknown = true
	} else {
		a.memory += j.Tasks * j.Memory
	}
}

func (a *amounts) fields() map[string]any {
	fields := map[string]any{"tasks": a.tasks, "cpus": a.cpus, "nodes": a.nodes, "gpus": a.gpus}
	if !a.memoryUnknown {
		fields["memory_bytes"] = a.memory
	}
	return fields
}

// queueKey is a series of slurm_queue.
type queueKey struct {
	by    string // partition, account, user or qos
	value string
	class slurm.JobClass
}

// pendingKey is a series of slurm_pending.
type pendingKey struct{ reason, partition, qos string }

type pendingSum struct {
	amounts
	oldest int64 // when the one that waits longest became eligible
}

// gpuKey is a type of GPU in a partition; the partition is "" for all of the cluster.
type gpuKey struct{ partition, kind string }

// anyKind is the type in a gpuKey of GPUs whose type does not matter to the job.
const anyKind = "\x00any"

// tally is what one pass over the queue adds up. All are of one dump: if that is not sound, nothing of it counts.
type tally struct {
	now      int64
	classes  [slurm.JobFinished + 1]amounts
	jobs     [slurm.JobFinished + 1]int64 // arrays and heterogeneous jobs count once
	grouped  map[groupedJob]bool          // those that were counted in jobs
	queue    map[queueKey]*amounts
	pending  map[pendingKey]*pendingSum
	gpus     map[gpuKey]int64 // asked for by pending jobs
	licenses map[string]int64 // asked for by pending jobs
	waits    waitTally
}

type groupedJob struct {
	id    int64
	class slurm.JobClass
}

func newTally(now int64, q *queue) *tally {
	return &tally{
		now: now, grouped: make(map[groupedJob]bool), queue: make(map[queueKey]*amounts),
		pending: make(map[pendingKey]*pendingSum), gpus: make(map[gpuKey]int64), licenses: make(map[string]int64),
		waits: newWaitTally(now, &q.waits),
	}
}

func (t *tally) add(j *slurm.Job) {
	class := j.State.Class()
	t.waits.add(j, class)
	if class == slurm.JobFinished {
		return
	}
	gpus := j.GPUCount()
	t.classes[class].add(j, gpus)
	t.countJob(j, class)
	for partition := range j.Partitions() {
		t.addTo(queueKey{"partition", partition, class}, j, gpus)
	}
	t.addTo(queueKey{"account", j.Account, class}, j, gpus)
	t.addTo(queueKey{"user", j.User, class}, j, gpus)
	t.addTo(queueKey{"qos", j.QOS, class}, j, gpus)
	if class == slurm.JobPending {
		t.addPending(j, gpus)
	}
}

func (t *tally) addTo(key queueKey, j *slurm.Job, gpus int64) {
	a := t.queue[key]
	if a == nil {
		a = new(amounts)
		t.queue[key] = a
	}
	a.add(j, gpus)
}

// countJob counts an array or a heterogeneous job once in each class it has tasks in.
func (t *tally) countJob(j *slurm.Job, class slurm.JobClass) {
	id := j.ArrayID
	if id == 0 {
		id = j.HetID
	}
	if id != 0 {
		key := groupedJob{id, class}
		if t.grouped[key] {
			return
		}
		t.grouped[key] = true
	}
	t.jobs[class]++
}

func (t *tally) addPending(j *slurm.Job, gpus int64) {
	key := pendingKey{j.Reason, j.FirstPartition(), j.QOS}
	sum := t.pending[key]
	if sum == nil {
		sum = new(pendingSum)
		t.pending[key] = sum
	}
	sum.add(j, gpus)
	if j.Eligible > 0 && j.Eligible <= t.now && (sum.oldest == 0 || j.Eligible < sum.oldest) {
		sum.oldest = j.Eligible
	}
	for _, g := range j.GPUs {
		kind := g.Type
		if kind == "" {
			kind = anyKind
		}
		t.gpus[gpuKey{"", kind}] += j.Tasks * g.Count
		for partition := range j.Partitions() {
			t.gpus[gpuKey{partition, kind}] += j.Tasks * g.Count
		}
	}
	if j.Licenses != "" {
		for _, l := range slurm.ParseLicenseRequests(j.Licenses) {
			t.licenses[l.Name] += j.Tasks * l.Count
		}
	}
}

// queue is what is remembered of the queue from gather to gather.
type queue struct {
	shownQueue   series.Fading[queueKey]
	shownPending series.Fading[pendingKey]
	licenses     map[string]int64 // of the latest dump; nil if that was not sound
	waits        waits
}

func (q *queue) init(bounds []int64) { q.waits.init(bounds) }

// gatherJobs makes the one pass over the queue that all groups of jobs live on. Without a sound queue it is nil.
func (p *SlurmLoad) gatherJobs(o *out) *tally {
	p.queue.licenses = nil
	if !p.collects("cluster", "partition", "queue", "pending", "wait", "gpu", "license", "job") || !p.shown(o.acc, "jobs") {
		return nil
	}
	text, err := p.client.Jobs(p.ctx)
	if err != nil {
		p.fail(o.acc, "jobs", err)
		return nil
	}
	t := newTally(o.server, &p.queue)
	for job, err := range text.All() {
		if err != nil {
			p.fail(o.acc, "jobs", err)
			return nil
		}
		t.add(job)
	}
	p.fail(o.acc, "jobs", nil)
	p.queue.licenses = t.licenses
	if p.collects("queue") {
		p.addQueue(o, t)
	}
	if p.collects("pending") {
		p.addPending(o, t)
	}
	if p.collects("wait") {
		p.addWaits(o, t)
	}
	if p.collects("job") {
		p.addJobs(o, text)
	}
	return t
}

func (p *SlurmLoad) addQueue(o *out, t *tally) {
	rows := p.named(t.queue)
	for key, a := range rows {
		o.add("slurm_queue", key.tags(), a.fields())
	}
	for _, key := range series.Gone(&p.queue.shownQueue, t.now, rows) {
		o.add("slurm_queue", key.tags(), new(amounts).fields())
	}
}

func (k queueKey) tags() map[string]string {
	return map[string]string{"by": k.by, k.by: series.Known(k.value), "state": k.class.String()}
}

// named gives users the names they are shown under, or leaves them out.
func (p *SlurmLoad) named(rows map[queueKey]*amounts) map[queueKey]*amounts {
	shown := make(map[queueKey]*amounts, len(rows))
	cpus := make(map[string]int64)
	for key, a := range rows {
		if key.by == "user" {
			cpus[key.value] += a.cpus
		} else {
			shown[key] = a
		}
	}
	names := users.Heaviest(&p.users, cpus, cmp.Compare[int64], p.MaxUsers)
	for key, a := range rows {
		name, ok := names[key.value]
		if key.by != "user" || !ok {
			continue
		}
		key.value = name
		if shown[key] == nil {
			shown[key] = new(amounts)
		}
		shown[key].merge(a)
	}
	return shown
}

func (a *amounts) merge(b *amounts) {
	a.tasks += b.tasks
	a.cpus += b.cpus
	a.nodes += b.nodes
	a.gpus += b.gpus
	a.memory += b.memory
	a.memoryUnknown = a.memoryUnknown || b.memoryUnknown
}

func (p *SlurmLoad) addPending(o *out, t *tally) {
	for key, sum := range t.pending {
		fields := map[string]any{"tasks": sum.tasks, "cpus": sum.cpus, "gpus": sum.gpus}
		if sum.oldest > 0 {
			fields["oldest_wait_seconds"] = t.now - sum.oldest
		}
		o.add("slurm_pending", key.tags(), fields)
	}
	for _, key := range series.Gone(&p.queue.shownPending, t.now, t.pending) {
		o.add("slurm_pending", key.tags(), map[string]any{
			"tasks": int64(0), "cpus": int64(0), "gpus": int64(0), "oldest_wait_seconds": int64(0),
		})
	}
}

func (k pendingKey) tags() map[string]string {
	return map[string]string{"reason": series.Known(k.reason), "partition": series.Known(k.partition), "qos": series.Known(k.qos)}
}
