package slurm

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Job is a row of squeue: a job, a task of a job array that was started, or all tasks of an array that were not. A
// heterogeneous job has a row for each of its components.
type Job struct {
	ID        int64  // the raw id, which the job itself finds in SLURM_JOB_ID
	ArrayID   int64  // the array's id; 0 where the job is of no array
	ArrayTask string // the task's number, or those of the tasks that were not started, as "1,3,7-9%2"; "" where of no array
	HetID     int64  // the id of the first component; 0 where the job is not heterogeneous
	HetOffset int64  // the component's number, from 0
	State     JobState
	Partition string // of a pending job it may be a list, as "all,cpu", the one that is tried first in front
	User      string // the number of a user whom this host does not know
	Account   string
	QOS       string
	Tasks     int64 // 1, or the number of tasks that the row stands for

	// These are of each task: what it has, or asks for while it is pending. Of a job that is completing the CPUs and nodes
	// are those that it still has.
	CPUs     int64
	Nodes    int64  // of a pending job the least that it may run on
	Memory   int64  // bytes, of all nodes; Unknown where Slurm does not say
	GPUs     []GPUs // none with a count of 0
	Licenses string // as "matlab:10,ansys"

	Submit      int64
	Eligible    int64
	Start       int64 // of a pending job it is slurmctld's estimate; 0 of a job that ended and never ran
	End         int64 // of a job that has not ended it is when the limit is reached
	TimeLimit   int64 // seconds; Unlimited; Unknown
	Priority    int64
	NodeList    string // as "cpu[01-03]"
	Reservation string
	Reason      string // why it is pending or has failed, a word of few (see reasonWord); "" where there is none
}

// JobState is a state as squeue names it, such as "RUNNING".
type JobState string

// JobClass is what a job's state comes to.
type JobClass uint8

// The classes of jobs.
const (
	JobOther      JobClass = iota // a state that this package does not know
	JobPending                    // waits to be started
	JobRunning                    // has its nodes and runs, or is about to
	JobSuspended                  // has its nodes and does not run
	JobCompleting                 // has ended and its nodes are being cleaned
	JobFinished                   // has ended
)

// String gives the class as a word.
func (c JobClass) String() string {
	return [...]string{"other", "pending", "running", "suspended", "completing", "finished"}[c]
}

// Class tells what the state comes to. squeue shows one flag, where there is one, in the place of the state itself: see
// job_state_string in src/common/slurm_protocol_defs.c, and the states in slurm.h.
func (s JobState) Class() JobClass {
	switch s {
	case "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		return JobPending
	case "RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "POWER_UP_NODE", "UPDATE_DB":
		return JobRunning
	case "SUSPENDED", "STOPPED":
		return JobSuspended
	case "COMPLETING", "STAGE_OUT", "EXPEDITING": // the nodes are free while data are staged out
		return JobCompleting
	case "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
		"OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED":
		return JobFinished
	}
	return JobOther
}

// DisplayID gives the id as Slurm shows it to users: 12345, 12345_10, 12345_[1,3,7-9%2], 12345+1.
func (j *Job) DisplayID() string {
	switch {
	case j.ArrayTask != "":
		return displayTask(j.ArrayID, j.ArrayTask)
	case j.HetID != 0:
		return strconv.FormatInt(j.HetID, 10) + "+" + strconv.FormatInt(j.HetOffset, 10)
	}
	return strconv.FormatInt(j.ID, 10)
}

func displayTask(array int64, task string) string {
	id := strconv.FormatInt(array, 10)
	if strings.ContainsAny(task, ",-%") {
		return id + "_[" + task + "]"
	}
	return id + "_" + task
}

// Partitions gives the partitions, one by one.
func (j *Job) Partitions() iter.Seq[string] { return strings.SplitSeq(j.Partition, ",") }

// FirstPartition gives the partition where the job runs, or is tried first.
func (j *Job) FirstPartition() string {
	first, _, _ := strings.Cut(j.Partition, ",")
	return first
}

// GPUCount gives the number of GPUs of all types.
func (j *Job) GPUCount() int64 { return sumGPUs(j.GPUs) }

// JobText is what squeue printed: of 60,000 jobs it is much, so rows are read from it one by one and not kept.
type JobText struct {
	text []byte
	mark string
}

// Jobs asks for all jobs of the queue, hidden partitions' too, and for those that ended within MinJobAge. It is one
// REQUEST_JOB_INFO to slurmctld, and one REQUEST_PARTITION_INFO, which squeue always sends.
func (c *Client) Jobs(ctx context.Context) (JobText, error) { return c.squeue(ctx) }

// squeue runs squeue. In a federation it would show the other clusters' jobs too, but for --local.
func (c *Client) squeue(ctx context.Context, more ...string) (JobText, error) {
	if err := checkMark(c.Mark); err != nil {
		return JobText{}, fmt.Errorf("squeue: %w", err)
	}
	args := append([]string{"--local", "-a", "-h", "-t", "all", "-O", jobFormat(c.Mark)}, more...)
	text, err := c.Run(ctx, "squeue", args...)
	if err != nil {
		return JobText{}, err
	}
	return NewJobText(text, c.Mark), nil
}

// NewJobText takes what `squeue -O` printed with the fields that Client.Jobs asks for.
func NewJobText(text []byte, mark string) JobText { return JobText{text, mark} }

// Len gives the length of the text in bytes.
func (t JobText) Len() int { return len(t.text) }

// All gives the rows one after the other. It ends with the first that is not as it should be, with an error that names
// it: a sum over the others would be wrong, so the caller has to drop what it has. The Job, its GPUs too, is overwritten
// by the next; its strings may be kept.
func (t JobText) All() iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		if err := t.check(); err != nil {
			yield(nil, err)
			return
		}
		p := newRowParser(t.mark)
		var err error
		for rest, row := t.text, 1; len(rest) > 0; row++ {
			if rest, err = p.next(rest); err != nil {
				yield(nil, fmt.Errorf("squeue: row %d: %w", row, err))
				return
			}
			if !yield(&p.job, nil) {
				return
			}
		}
	}
}

// check tells whether the text can be told into rows.
func (t JobText) check() error {
	if len(t.text) == 0 {
		return nil
	}
	if err := checkMark(t.mark); err != nil {
		return fmt.Errorf("squeue: %w", err)
	}
	return nil
}

// Find looks for a job by its raw id, without parsing the other rows.
func (t JobText) Find(id int64) (Job, bool, error) {
	if err := t.check(); err != nil || len(t.text) == 0 {
		return Job{}, false, err
	}
	p := newRowParser(t.mark)
	start := append(slices.Clone(p.end), strconv.FormatInt(id, 10)+"|"...)
	at := 0
	if !bytes.HasPrefix(t.text, start[len(p.end):]) {
		before := bytes.Index(t.text, start)
		if before < 0 {
			return Job{}, false, nil
		}
		at = before + len(p.end)
	}
	if _, err := p.next(t.text[at:]); err != nil {
		return Job{}, false, fmt.Errorf("squeue: job %d: %w", id, err)
	}
	return p.job, true, nil
}
