package slurm_load

import (
	"time"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
)

// jobRows knows what was emitted of each row of the queue.
type jobRows map[jobRowKey]jobRow

// jobRowKey tells the tasks of an array that wait from the one that has the array's id, which is the last to start.
type jobRowKey struct {
	id      int64
	pending bool
}

type jobRow struct {
	state     slurm.JobState
	partition string
	tasks     int64
	start     int64
	shown     time.Time
}

// addJobs emits who each job is: when that changes, and each refresh.
func (p *SlurmLoad) addJobs(o *out, text slurm.JobText) {
	rows := make(jobRows, len(p.jobs))
	for job, err := range text.All() {
		if err != nil {
			return // The pass before has found the text to be sound.
		}
		class := job.State.Class()
		key := jobRowKey{job.ID, class == slurm.JobPending}
		before := p.jobs[key]
		row := jobRow{state: job.State, partition: job.Partition, tasks: job.Tasks, shown: before.shown}
		if !key.pending { // That of a pending job is an estimate, another one after each cycle.
			row.start = job.Start
		}
		age := o.now.Sub(row.shown)
		if row != before || age < 0 || age >= time.Duration(p.Refresh) {
			row.shown = o.now
			p.addJob(o, job)
		}
		rows[key] = row
	}
	p.jobs = rows
}

func (p *SlurmLoad) addJob(o *out, j *slurm.Job) {
	tags := map[string]string{
		"account": series.Known(j.Account), "partition": series.Known(j.FirstPartition()), "qos": series.Known(j.QOS),
	}
	if name, shown := p.users.Name(j.User); shown {
		tags["user"] = name
	}
	o.addAt(momentOf(o.now.Unix(), j.ID), "slurm_job", tags, j.Fields())
}

// momentOf gives a job's row a time of its own within a second: its id as nanoseconds, which is unique in a cluster and
// below 2^26 (slurm.h, MAX_JOB_ID). So two jobs never share a point, and a row that is emitted again is the same one.
func momentOf(seconds, jobID int64) time.Time { return time.Unix(seconds, jobID%1e9) }
