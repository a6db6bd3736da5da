package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrNoJob tells that Slurm knows no such job.
var ErrNoJob = errors.New("no such job")

// ErrNoAccounting tells that this Slurm has no slurmdbd.
var ErrNoAccounting = errors.New("no accounting")

// isNoAccounting tells it by what sacct says.
func isNoAccounting(err error) bool {
	return strings.Contains(err.Error(), "accounting storage is disabled")
}

// Who is what is known of one job, from the queue or from accounting.
type Who struct {
	ID        int64
	ArrayID   int64
	ArrayTask string
	HetID     int64
	HetOffset int64
	State     string // as Slurm names it, such as "RUNNING", "CANCELLED"
	Partition string
	User      string
	Account   string
	QOS       string
	Start     int64 // 0 while it has not started
	End       int64 // 0 while it has not ended
}

// Lookup asks Slurm for one job by its raw id: first in the text, then squeue with that one id (two would make
// slurmctld send its whole table), then sacct. The error is ErrNoJob only when Slurm says so: slurmctld that it has no
// such job, and slurmdbd too, or that there is no accounting to ask. A job that slurmctld does not tell, because it is
// out of reach, may yet be told by slurmdbd. Of a job that ran more than once it is the last run.
//
// A user who may not see others' jobs (PrivateData) is told that there are none.
func (c *Client) Lookup(ctx context.Context, cached JobText, id int64) (Who, error) {
	if id < 1 || id > math.MaxUint32 { // squeue and sacct take another job's, or all, for these
		return Who{}, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	if job, ok, err := cached.Find(id); err == nil && ok {
		return whoOf(&job), nil
	}
	who, queueErr := c.inQueue(ctx, id)
	if queueErr == nil {
		return who, nil
	}
	who, err := c.inAccounting(ctx, id)
	switch {
	case err == nil:
		return who, nil
	case !errors.Is(queueErr, ErrNoJob) && errors.Is(err, ErrNoJob):
		err = queueErr // it may be too young for slurmdbd
	case !errors.Is(queueErr, ErrNoJob):
		err = errors.Join(queueErr, err)
	}
	return Who{}, fmt.Errorf("job %d: %w", id, err)
}

// inQueue asks slurmctld. Of an array's id it gives all tasks, and of a heterogeneous job's all components.
func (c *Client) inQueue(ctx context.Context, id int64) (Who, error) {
	text, err := c.squeue(ctx, "-j", strconv.FormatInt(id, 10))
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			return Who{}, ErrNoJob
		}
		return Who{}, err
	}
	job, ok, err := text.Find(id)
	switch {
	case err != nil:
		return Who{}, err
	case !ok:
		return Who{}, ErrNoJob
	}
	return whoOf(&job), nil
}

func whoOf(j *Job) Who {
	w := Who{
		ID:        j.ID,
		ArrayID:   j.ArrayID,
		ArrayTask: j.ArrayTask,
		HetID:     j.HetID,
		HetOffset: j.HetOffset,
		State:     string(j.State),
		Partition: j.Partition,
		User:      j.User,
		Account:   j.Account,
		QOS:       j.QOS,
	}
	switch j.State.Class() {
	case JobPending: // what it has are estimates
	case JobCompleting, JobFinished:
		w.Start, w.End = j.Start, j.End
	default:
		w.Start = j.Start
	}
	return w
}

// sacctFields are asked of sacct. None of them holds a bar, but that an account's coordinator may put one into its name:
// it stands last.
const sacctFields = "JobIDRaw,JobID,State,Partition,User,QOS,Submit,Start,End,Account"

// inAccounting asks slurmdbd. sacct knows raw ids, those of array tasks and of components too. Without -D it gives one
// run of a job, the last.
func (c *Client) inAccounting(ctx context.Context, id int64) (Who, error) {
	text, err := c.Run(ctx, "sacct", "--local", "-X", "-n", "-P", "-j", strconv.FormatInt(id, 10), "-o", sacctFields)
	if err != nil {
		if isNoAccounting(err) {
			return Who{}, ErrNoJob
		}
		return Who{}, err
	}
	var last Who
	var submitted int64
	for line := range bytes.Lines(text) {
		w, submit, err := parseAccounted(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return Who{}, fmt.Errorf("sacct: %w", err)
		}
		if w.ID == id && submit >= submitted {
			last, submitted = w, submit
		}
	}
	if last.ID == 0 {
		return Who{}, ErrNoJob
	}
	return last, nil
}

// parseAccounted parses a row of sacct.
func parseAccounted(row []byte) (w Who, submit int64, err error) {
	f := bytes.SplitN(row, []byte("|"), strings.Count(sacctFields, ",")+1)
	if len(f) <= strings.Count(sacctFields, ",") {
		return w, 0, fmt.Errorf("%d fields instead of %d: %s", len(f), strings.Count(sacctFields, ",")+1, quoted(row))
	}
	if w.ID, err = parseInt(f[0]); err != nil {
		return w, 0, fmt.Errorf("JobIDRaw: %w", err)
	}
	if err = w.parseDisplayID(f[1]); err != nil {
		return w, 0, fmt.Errorf("JobID: %w", err)
	}
	state, _, _ := bytes.Cut(f[2], []byte(" ")) // CANCELLED by 1001
	w.State, w.Partition, w.User, w.QOS, w.Account = string(state), string(f[3]), string(f[4]), string(f[5]), string(f[9])
	for i, t := range [...]*int64{&submit, &w.Start, &w.End} {
		if *t, err = parseTime(f[6+i]); err != nil {
			return w, 0, fmt.Errorf("%s: %w", [...]string{"Submit", "Start", "End"}[i], err)
		}
	}
	return w, submit, nil
}

// parseDisplayID reads an id as users see it: 12, 12_3, 12_[3-9%3], 12+1.
func (w *Who) parseDisplayID(b []byte) error {
	first, n := digits(b)
	rest := b[n:]
	switch {
	case first == 0:
	case len(rest) == 0:
		return nil
	case rest[0] == '+':
		offset, err := parseInt(rest[1:])
		w.HetID, w.HetOffset = first, offset
		return err
	case rest[0] == '_':
		task := bytes.TrimSuffix(bytes.TrimPrefix(rest[1:], []byte("[")), []byte("]"))
		_, err := countTasks(task)
		w.ArrayID, w.ArrayTask = first, string(task)
		return err
	}
	return fmt.Errorf("%s is no job id", quoted(b))
}
