package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plainRow gives a row of an ordinary running job, changed where changes say: a field and its text by turns.
func plainRow(changes ...any) string {
	fields := [fieldCount]any{
		12345, 12345, "N/A", "N/A", "N/A", "RUNNING", "cpu", 1001, "alice", "normal", 4, 1, 4, "2026-11-21T14:08:09",
		"2026-11-21T14:08:09", "2026-11-21T14:08:12", "2026-11-22T14:08:12", "1-00:00:00", 10003, "cpu01",
		"cpu=4,mem=8G,node=1,billing=4", "physics", "(null)", "(null)", "N/A", "N/A", "N/A", "None",
	}
	for i := 0; i < len(changes); i += 2 {
		fields[changes[i].(int)] = changes[i+1]
	}
	return jobRow(fields[:]...)
}

// allJobs gives copies of all jobs of a text.
func allJobs(text string) ([]Job, error) {
	var jobs []Job
	for job, err := range NewJobText([]byte(text), testMark).All() {
		if err != nil {
			return jobs, err
		}
		clone := *job
		clone.GPUs = slices.Clone(job.GPUs)
		if len(clone.GPUs) == 0 {
			clone.GPUs = nil
		}
		jobs = append(jobs, clone)
	}
	return jobs, nil
}

func oneJob(t *testing.T, row string) Job {
	t.Helper()
	jobs, err := allJobs(row)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	return jobs[0]
}

func TestJob(t *testing.T) {
	plain := Job{
		ID: 12345, State: "RUNNING", Partition: "cpu", User: "alice", Account: "physics", QOS: "normal", Tasks: 1, CPUs: 4,
		Nodes: 1, Memory: 8 << 30, Submit: 1795270089, Eligible: 1795270089, Start: 1795270092, End: 1795356492,
		TimeLimit: 86400, Priority: 10003, NodeList: "cpu01",
	}
	for name, test := range map[string]struct {
		changes []any
		want    func(j *Job)
	}{
		"plain": {nil, func(*Job) {}},
		"task that runs": {[]any{fieldArrayJobID, 12300, fieldArrayTaskID, "7"}, func(j *Job) {
			j.ArrayID, j.ArrayTask = 12300, "7"
		}},
		"tasks that wait": {[]any{fieldArrayTaskID, "1,3,7-9%2", fieldState, "PENDING"}, func(j *Job) {
			j.ArrayID, j.ArrayTask, j.Tasks, j.State = 12345, "1,3,7-9%2", 5, "PENDING"
		}},
		"component": {[]any{fieldHetJobID, 12344, fieldHetJobOffset, 1}, func(j *Job) { j.HetID, j.HetOffset = 12344, 1 }},
		"held, nothing known": {[]any{
			fieldState, "PENDING", fieldEligibleTime, "N/A", fieldStartTime, "N/A", fieldEndTime, "N/A", fieldTimeLimit,
			"NOT_SET", fieldPriorityLong, 0, fieldNodeList, "", fieldTRESAlloc, "N/A", fieldReason, "JobHeldUser",
		}, func(j *Job) {
			j.State, j.Eligible, j.Start, j.End, j.TimeLimit, j.Priority = "PENDING", 0, 0, 0, Unknown, 0
			j.NodeList, j.Memory, j.Reason = "", Unknown, "JobHeldUser"
		}},
		"cancelled before it ran": {[]any{fieldState, "CANCELLED", fieldNodeList, "", fieldStartTime, "2026-11-22T14:08:12"}, func(j *Job) {
			j.State, j.NodeList, j.Start = "CANCELLED", "", 0
		}},
		"cancelled while it ran":      {[]any{fieldState, "CANCELLED"}, func(j *Job) { j.State = "CANCELLED" }},
		"no limit":                    {[]any{fieldTimeLimit, "UNLIMITED", fieldEndTime, "NONE"}, func(j *Job) { j.TimeLimit, j.End = Unlimited, 0 }},
		"limit of more than 365 days": {[]any{fieldTimeLimit, "INVALID"}, func(j *Job) { j.TimeLimit = Unknown }},
		"licences and reservation": {[]any{fieldLicenses, "matlab:10|ansys:1", fieldReservation, "a|b"}, func(j *Job) {
			j.Licenses, j.Reservation = "matlab:10|ansys:1", "a|b"
		}},
		"account with a bar":                 {[]any{fieldAccount, "a|b"}, func(j *Job) { j.Account = "a|b" }},
		"unknown user of 22.05":              {[]any{fieldUserName, "nobody"}, func(j *Job) { j.User = "1001" }},
		"unknown user of 24.11":              {[]any{fieldUserName, "1001"}, func(j *Job) { j.User = "1001" }},
		"user above 2^31":                    {[]any{fieldUserID, -2147483647, fieldUserName, "bob"}, func(j *Job) { j.User = "bob" }},
		"fields that a squeue does not know": {[]any{fieldTRESPerTask, "", fieldHetJobOffset, ""}, func(*Job) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := plain
			test.want(&want)
			require.Equal(t, want, oneJob(t, plainRow(test.changes...)))
		})
	}
}

func TestJobGPUs(t *testing.T) {
	const none = "cpu=4,mem=8G,node=2"
	for _, test := range []struct {
		name                            string
		alloc, perJob, perNode, perTask string
		want                            []GPUs
	}{
		{"of tres-alloc", none + ",gres/gpu=4,gres/gpu:a100=4", "N/A", "gres:gpu:a100:2", "N/A", []GPUs{{"a100", 4}}},
		{"per node", none, "N/A", "gres:gpu:a100:2", "N/A", []GPUs{{"a100", 4}}},
		{"per node, as from 24.11 on", none, "N/A", "gres/gpu:a100:2", "N/A", []GPUs{{"a100", 4}}},
		{"per job", none, "gres:gpu:3", "N/A", "N/A", []GPUs{{"", 3}}},
		{"per task", none, "N/A", "N/A", "gres:gpu:h100:1", []GPUs{{"h100", 3}}},
		{"per job and node: the same GPUs", none, "gres:gpu:4", "gres:gpu:2", "N/A", []GPUs{{"", 4}}},
		{"before 22.05, pending", "N/A", "N/A", "gres:gpu:1", "N/A", []GPUs{{"", 2}}},
		{"types are not accounted", none + ",gres/gpu=4", "N/A", "gres:gpu:a100:2", "N/A", []GPUs{{"a100", 4}}},
		{"any type is asked for, one was given", none + ",gres/gpu=4,gres/gpu:a100=4", "gres:gpu:4", "N/A", "N/A", []GPUs{{"a100", 4}}},
		{"more were given than asked for", none + ",gres/gpu=8", "N/A", "gres:gpu:a100:2", "N/A", []GPUs{{"", 8}}},
		{"two types", none, "gres:gpu:h100:1,gres:gpu:l40s:1", "N/A", "N/A", []GPUs{{"h100", 1}, {"l40s", 1}}},
		{"none but shards", none, "N/A", "gres:shard:2", "N/A", nil},
		{"a user's own words", none + ",gres/gpu=1", "gres:gpu:x|\n9|9|N/A:1", "N/A", "N/A", []GPUs{{"", 1}}},
		{"what cannot be read tells nothing", none, "gres:gpu:a100:many", "gres:gpu:a100:1", "N/A", []GPUs{{"a100", 2}}},
		{"too many to be true", none, "N/A", "gres:gpu:8P", "gres:gpu:2147483648", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := oneJob(t, plainRow(fieldNumNodes, 2, fieldNumTasks, 3, fieldTRESAlloc, test.alloc, fieldTRESPerJob, test.perJob,
				fieldTRESPerNode, test.perNode, fieldTRESPerTask, test.perTask))
			require.Equal(t, test.want, job.GPUs)
			require.Equal(t, sumGPUs(test.want), job.GPUCount())
		})
	}
	for _, tasks := range []any{4294967294, "N/A", "", 0} {
		job := oneJob(t, plainRow(fieldNumTasks, tasks, fieldTRESPerTask, "gres:gpu:1"))
		require.Empty(t, job.GPUs, "the number of tasks is not known")
	}
}

// No user is shown under another's name: not those unknown here, nor those whose numbers 24.11 takes for the same.
func TestJobUsers(t *testing.T) {
	jobs, err := allJobs(plainRow(fieldUserID, 1000, fieldUserName, "alice") + plainRow(fieldUserID, 66536, fieldUserName, "alice") +
		plainRow(fieldUserID, 1000, fieldUserName, "alice") + plainRow(fieldUserID, 7, fieldUserName, "nobody") +
		plainRow(fieldUserID, 8, fieldUserName, "nobody"))
	require.NoError(t, err)
	users := make([]string, 0, len(jobs))
	for _, job := range jobs {
		users = append(users, job.User)
	}
	require.Equal(t, []string{"alice", "66536", "alice", "7", "8"}, users)
}

func TestJobErrors(t *testing.T) {
	long := strings.Repeat("x", 100)
	row := plainRow()
	for _, test := range []struct{ name, text, want string }{
		{"number", plainRow() + plainRow(fieldJobID, "abc"), `squeue: row 2: JobID: "abc" is no number`},
		{"no id", plainRow(fieldJobID, ""), `squeue: row 1: JobID: "" is no number`},
		{"array", plainRow(fieldArrayTaskID, "1-"), `squeue: row 1: ArrayTaskID: "1-": no number of a task`},
		{"array's id", plainRow(fieldArrayTaskID, "1", fieldArrayJobID, "N/A"), `squeue: row 1: ArrayJobID: "N/A" is no number`},
		{"component", plainRow(fieldHetJobID, "x"), `squeue: row 1: HetJobID: "x" is no number`},
		{"user", plainRow(fieldUserID, "alice"), `squeue: row 1: UserID: "alice" is no number`},
		{"CPUs", plainRow(fieldNumCPUs, "N/A"), `squeue: row 1: NumCPUs: "N/A" is no number`},
		{"nodes", plainRow(fieldNumNodes, "2-4"), `squeue: row 1: NumNodes: "2-4" is no number`},
		{"time", plainRow(fieldStartTime, "09:13"), `squeue: row 1: StartTime: "09:13" is no time`},
		{"limit", plainRow(fieldTimeLimit, "soon"), `squeue: row 1: TimeLimit: "soon" is no time span`},
		{"TRES", plainRow(fieldTRESAlloc, "cpu=1,mem=x"), `squeue: row 1: tres-alloc: "mem": "x" is no number`},
		{"cut", row + row[:len(row)-1], `squeue: row 2: the text ends inside of it: "` + row[:80] + `"...`},
		{"other text", "slurm_load_jobs error", `squeue: row 1: the text ends inside of it: "slurm_load_jobs error"`},
		{"field missing", row + strings.Replace(row, "|cpu01", "", 1), `squeue: row 2: 27 fields instead of 28: "` + row[:80] + `"...`},
		{"field too many", strings.Replace(row, "cpu01", "a|b", 1), `squeue: row 1: 29 fields instead of 28: "` + row[:80] + `"...`},
		{"partition with a bar", strings.Replace(row, "cpu|", "a|b|", 1), `squeue: row 1: 29 fields instead of 28: "` +
			strings.Replace(row, "cpu|", "a|b|", 1)[:80] + `"...`},
		{"TRES with a bar", strings.Replace(row, "node=1", "node|=1", 1), `squeue: row 1: 29 fields instead of 28: "` + row[:80] + `"...`},
		{"marked field missing", strings.Replace(row, testMark+"|N/A|", "", 1), `squeue: row 1: 27 fields instead of 28: "` + row[:80] + `"...`},
		{"marked field too many", strings.Replace(row, testMark+"|N/A|", testMark+"|N/A|"+testMark+"||", 1),
			`squeue: row 1: 29 fields instead of 28: "` + row[:80] + `"...`},
		{"marks of another kind", strings.Replace(strings.Replace(row, "|cpu01", "", 1), testMark+"|N/A|", testMark+"|N/A|"+testMark+"||", 1),
			`squeue: row 1: 20 fields before the first mark instead of 21: "` + row[:80] + `"...`},
		{"no fields", "|" + testMark + "\n", `squeue: row 1: 1 fields instead of 28: ""`},
		{"long", strings.Replace(row, "12345|", long+"|", 1), `squeue: row 1: JobID: "` + long[:80] + `"... is no number`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := allJobs(test.text)
			require.EqualError(t, err, test.want)
		})
	}
}

func TestJobsBreak(t *testing.T) {
	text := NewJobText([]byte(plainRow(fieldJobID, 1)+plainRow(fieldJobID, 2)+"damage"), testMark)
	for job, err := range text.All() {
		require.NoError(t, err)
		if job.ID == 2 {
			break
		}
	}
}

func TestNoJobs(t *testing.T) {
	jobs, err := allJobs("")
	require.NoError(t, err)
	require.Empty(t, jobs)
	_, ok, err := JobText{}.Find(1)
	require.NoError(t, err)
	require.False(t, ok)
}

// Without a mark rows could be forged.
func TestJobMark(t *testing.T) {
	for _, mark := range []string{"", "a,b", "a|b", "a\nb"} {
		want := "squeue: the mark " + strconv.Quote(mark) + " cannot end rows"
		for _, err := range NewJobText([]byte(plainRow()), mark).All() {
			require.EqualError(t, err, want)
		}
		_, _, err := NewJobText([]byte(plainRow()), mark).Find(1)
		require.EqualError(t, err, want)
		client := Client{Mark: mark, Run: func(context.Context, string, ...string) ([]byte, error) {
			t.Error("squeue was run")
			return nil, nil
		}}
		_, err = client.Jobs(t.Context())
		require.EqualError(t, err, want)
	}
}

// What users and administrators may write holds whole rows, ends of rows and other marks: none of it makes a row.
func TestForgedRows(t *testing.T) {
	forged := strings.ReplaceAll(plainRow(fieldJobID, 666, fieldUserName, "root"), testMark, "#000000#")
	for _, field := range []int{fieldAccount, fieldReservation, fieldLicenses, fieldTRESPerNode, fieldTRESPerJob, fieldTRESPerTask, fieldReason} {
		for _, text := range []string{"\n" + forged, "x|\n" + forged + "y", "|\n", "|#000000#\n" + forged, "\n666|666|", "|", "\n"} {
			row := plainRow(field, text)
			jobs, err := allJobs(plainRow(fieldJobID, 1) + row + plainRow(fieldJobID, 3))
			require.NoError(t, err)
			require.Len(t, jobs, 3)
			require.Equal(t, int64(12345), jobs[1].ID)
			require.Equal(t, "alice", jobs[1].User)
			_, ok, err := NewJobText([]byte(row), testMark).Find(666)
			require.NoError(t, err)
			require.False(t, ok)
		}
	}
}

func TestFind(t *testing.T) {
	text := NewJobText([]byte(plainRow(fieldJobID, 1)+plainRow(fieldJobID, 123)+
		plainRow(fieldJobID, 12, fieldTRESAlloc, "gres/gpu=2")+plainRow(fieldJobID, "7", fieldNumCPUs, "x")), testMark)
	for _, id := range []int64{1, 12, 123} {
		job, ok, err := text.Find(id)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, id, job.ID)
		require.Equal(t, "alice", job.User)
	}
	for _, id := range []int64{0, 2, 23, 12345} {
		_, ok, err := text.Find(id)
		require.NoError(t, err)
		require.False(t, ok)
	}
	_, _, err := text.Find(7)
	require.EqualError(t, err, `squeue: job 7: NumCPUs: "x" is no number`)
}

func TestReasons(t *testing.T) {
	for text, want := range map[string]string{
		"None": "", "": "", "(null)": "", "Priority": "Priority", "QOSMaxCpuPerUserLimit": "QOSMaxCpuPerUserLimit",
		"ReqNodeNotAvail, UnavailableNodes:dead[01-99]": "ReqNodeNotAvail", "Priority,Resources": "Priority",
		"ReqNodeNotAvail, Reserved for maintenance": "ReqNodeNotAvail", "RaisedSignal:53(Real-time_signal_19)": "RaisedSignal",
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions":            "NodesUnavailable",
		"Nodes required for job are DOWN, DRAINED, REBOOTING or reserved for jobs in higher priority partitions": "NodesUnavailable",
		"launch failed requeued held":                                                  "LaunchFailedRequeuedHeld",
		"launch failure limit exceeded requeued held":                                  "JobHoldMaxRequeue",
		"user env retrieval failed requeued held":                                      "UserEnvFailedRequeuedHeld",
		"job requeued in held state":                                                   "RequeuedHeld",
		"job requeued in special exit state":                                           "SpecialExit",
		"Reservation maint1 was deleted":                                               "ReservationDeleted",
		"Reservation maint1 is invalid":                                                "ReservationInvalid",
		"Reservation maint1, which this job was running under, has ended":              "ReservationEnded",
		"uid 1001 not in group permitted to use this partition (x). groups allowed: a": "GroupNotAllowed",
		"Job's account not permitted to use this partition (x allows a not b)":         "AccountNotAllowed",
		"Job's QOS not known, so it can't use this partition (x allows y)":             "QOSNotAllowed",
		"Job is at or exceeds QOS q's group wall limit of 1 with 2":                    "TimeLimit",
		"burst_buffer/lua: slurm_bb_data_in: no room, ever":                            "BurstBufferOperation",
		"Burst buffer pre_run error":                                                   "BurstBufferOperation",
		"Could not find burst buffer record":                                           "BurstBufferOperation",
		"the admin said so":                                                            "Other", "näher": "Other", "a\nb": "Other", strings.Repeat("x", 49): "Other", "a=b": "Other",
		strings.Repeat("x", 48): strings.Repeat("x", 48), "42": "42", "Job_Held": "Job_Held", "Reservation": "Reservation",
	} {
		require.Equal(t, want, oneJob(t, plainRow(fieldReason, text)).Reason, text)
	}
}

func TestJobClass(t *testing.T) {
	for class, states := range map[JobClass]string{
		JobPending:    "PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
		JobRunning:    "RUNNING CONFIGURING RESIZING SIGNALING POWER_UP_NODE UPDATE_DB",
		JobSuspended:  "SUSPENDED STOPPED",
		JobCompleting: "COMPLETING STAGE_OUT EXPEDITING",
		JobFinished: "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY " +
			"LAUNCH_FAILED RECONFIG_FAIL REVOKED",
		JobOther: "? running PENDING,REQUEUED BRAND_NEW",
	} {
		for state := range strings.FieldsSeq(states) {
			require.Equal(t, class, JobState(state).Class(), state)
		}
	}
	require.Equal(t, "pending finished other", fmt.Sprint(JobPending, " ", JobFinished, " ", JobOther))
}

func TestDisplayID(t *testing.T) {
	for want, job := range map[string]Job{
		"12345":             {ID: 12345},
		"12345_10":          {ID: 12360, ArrayID: 12345, ArrayTask: "10"},
		"12345_[1,3,7-9%2]": {ID: 12345, ArrayID: 12345, ArrayTask: "1,3,7-9%2"},
		"12345_[7%1]":       {ID: 12345, ArrayID: 12345, ArrayTask: "7%1"},
		"12345+1":           {ID: 12346, HetID: 12345, HetOffset: 1},
		"12345+0":           {ID: 12345, HetID: 12345},
	} {
		require.Equal(t, want, job.DisplayID())
	}
}

func TestJobPartitions(t *testing.T) {
	several := Job{Partition: "all,cpu"}
	require.Equal(t, []string{"all", "cpu"}, slices.Collect(several.Partitions()))
	require.Equal(t, "all", several.FirstPartition())
	one := Job{Partition: "cpu"}
	require.Equal(t, []string{"cpu"}, slices.Collect(one.Partitions()))
	require.Equal(t, "cpu", one.FirstPartition())
}

// After the first rows nothing is allocated for a row whose strings were seen before.
func TestJobsAllocations(t *testing.T) {
	text := []byte(strings.Repeat(plainRow(fieldTRESAlloc, "cpu=4,mem=8G,gres/gpu=4,gres/gpu:a100=4", fieldTRESPerNode,
		"gres:gpu:a100:4", fieldArrayTaskID, "1-9%3", fieldReason, "Nodes required for job are DOWN"), 1000))
	allocations := testing.AllocsPerRun(10, func() {
		for _, err := range NewJobText(text, testMark).All() {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	require.Less(t, allocations, 100.0)
}

func TestClientJobs(t *testing.T) {
	client := Client{Mark: testMark, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		require.Equal(t, "squeue", name)
		require.Equal(t, []string{"--local", "-a", "-h", "-t", "all", "-O", "JobID:|,ArrayJobID:|,ArrayTaskID:|,HetJobID:|," +
			"HetJobOffset:|,State:|,Partition:|,UserID:|,UserName:|,QOS:|,NumCPUs:|,NumNodes:|,NumTasks:|,SubmitTime:|," +
			"EligibleTime:|,StartTime:|,EndTime:|,TimeLimit:|,PriorityLong:|,NodeList:|,tres-alloc:|#3f9a1c#|,Account:|#3f9a1c#|," +
			"Reservation:|#3f9a1c#|,Licenses:|#3f9a1c#|,tres-per-node:|#3f9a1c#|,tres-per-job:|#3f9a1c#|,tres-per-task:|#3f9a1c#|," +
			"Reason:|#3f9a1c#"}, args)
		return []byte(plainRow()), nil
	}}
	text, err := client.Jobs(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(plainRow()), text.Len())
	_, ok, err := text.Find(12345)
	require.NoError(t, err)
	require.True(t, ok)

	broken := errors.New("squeue: exit status 1: slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	client.Run = func(context.Context, string, ...string) ([]byte, error) { return []byte(plainRow()), broken }
	text, err = client.Jobs(t.Context())
	require.ErrorIs(t, err, broken)
	require.Zero(t, text.Len())
}

// The jobs of a real cluster are what scontrol says of them, and squeue -r counts as many tasks.
func TestRealJobs(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("testdata/22.05/" + name)
		require.NoError(t, err)
		return string(b)
	}
	jobs, err := allJobs(read("squeue.txt"))
	require.NoError(t, err)
	require.Len(t, jobs, 102)

	tasks := map[int64]int64{}
	for line := range strings.Lines(read("squeue-r.txt")) {
		id, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
		require.NoError(t, err)
		tasks[id]++
	}
	records := regexp.MustCompile(`(?m)^JobId=`).Split(read("job.txt"), -1)[1:]
	require.Len(t, records, len(jobs))
	for _, record := range records {
		said := scontrolJob(record)
		i := slices.IndexFunc(jobs, func(j Job) bool { return strconv.FormatInt(j.ID, 10) == said["JobId"] })
		require.GreaterOrEqual(t, i, 0, said["JobId"])
		checkAgainst(t, &jobs[i], said)
		want := tasks[jobs[i].ID]
		if strings.Contains(jobs[i].ArrayTask, ":") {
			want++ // squeue -r forgets the last task of a range with a step (bitfmt2int in src/common/bitstring.c)
		}
		require.Equal(t, want, jobs[i].Tasks, jobs[i].ID)
	}
}

// scontrolJob reads a record of scontrol show job -o. A name may hold anything: what comes behind it is looked at.
func scontrolJob(record string) map[string]string {
	said := map[string]string{}
	id, rest, _ := strings.Cut(record, " ")
	said["JobId"] = id
	head, tail, _ := strings.Cut(rest, "JobName=")
	for _, part := range []string{head, tail[strings.Index(tail, " UserId="):]} {
		for _, item := range strings.Fields(part) {
			if key, value, ok := strings.Cut(item, "="); ok && said[key] == "" {
				said[key] = value
			}
		}
	}
	return said
}

func checkAgainst(t *testing.T, j *Job, said map[string]string) {
	t.Helper()
	number := func(v int64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatInt(v, 10)
	}
	clock := func(v int64) string {
		if v == 0 {
			return "Unknown"
		}
		return time.Unix(v, 0).UTC().Format("2006-01-02T15:04:05")
	}
	null := func(s string) string {
		if s == "(null)" {
			return ""
		}
		return s
	}
	require.Equal(t, said["ArrayJobId"], number(j.ArrayID))
	require.Equal(t, said["ArrayTaskId"], j.ArrayTask)
	require.Equal(t, said["HetJobId"], number(j.HetID))
	require.Equal(t, strings.TrimPrefix(said["HetJobOffset"], "0"), number(j.HetOffset))
	require.Equal(t, said["JobState"], string(j.State))
	require.Equal(t, said["Partition"], j.Partition)
	require.Equal(t, said["UserId"][:strings.Index(said["UserId"], "(")], j.User)
	require.Equal(t, said["Account"], j.Account)
	require.Equal(t, said["QOS"], j.QOS)
	require.Equal(t, said["NumCPUs"], strconv.FormatInt(j.CPUs, 10))
	least, _, _ := strings.Cut(said["NumNodes"], "-")
	require.Equal(t, least, strconv.FormatInt(j.Nodes, 10))
	require.Equal(t, said["SubmitTime"], clock(j.Submit))
	require.Equal(t, said["EligibleTime"], clock(j.Eligible))
	if said["JobState"] == "CANCELLED" && said["NodeList"] == "" {
		require.Zero(t, j.Start, "it never ran")
	} else {
		require.Equal(t, said["StartTime"], clock(j.Start))
	}
	require.Equal(t, said["EndTime"], clock(j.End))
	require.Equal(t, said["Priority"], strconv.FormatInt(j.Priority, 10))
	require.Equal(t, null(said["NodeList"]), j.NodeList)
	require.Equal(t, said["Reservation"], j.Reservation)
	require.Equal(t, null(said["Licenses"]), j.Licenses)
	if limit, err := parseDuration([]byte(said["TimeLimit"])); limit > 365*86400 {
		require.Equal(t, Unknown, j.TimeLimit, "squeue says INVALID")
	} else {
		require.NoError(t, err)
		require.Equal(t, limit, j.TimeLimit)
	}
	want, err := parseTRES([]byte(said["TRES"]), nil, nil)
	require.NoError(t, err)
	require.Equal(t, want.Memory, j.Memory)
	require.Equal(t, sumGPUs(want.GPUs), j.GPUCount())
	if reason := said["Reason"]; !strings.Contains(reason, "_") {
		require.Equal(t, strings.TrimSuffix(strings.Replace(reason, "None", "", 1), ","), j.Reason)
	}
}

// What is odd of the real jobs, one by one.
func TestRealOddities(t *testing.T) {
	b, err := os.ReadFile("testdata/22.05/squeue.txt")
	require.NoError(t, err)
	text := NewJobText(b, testMark)
	_, ok, err := text.Find(999999)
	require.NoError(t, err)
	require.False(t, ok, "the forged job")
	for id, want := range map[int64]string{
		116: "alice PENDING cpu tasks=1 nodes=1 gpus=[{ 1}] limit=172800 JobHeldUser",
		2:   "alice PENDING cpu tasks=7 nodes=1 gpus=[] limit=72000 JobArrayTaskLimit",
		128: "alice PENDING cpu tasks=201 nodes=1 gpus=[] limit=172800 JobHeldUser",
		50:  "bob PENDING all,cpu tasks=1 nodes=7 gpus=[] limit=-2 NodesUnavailable",
		122: "alice PENDING cpu tasks=1 nodes=2 gpus=[] limit=172800 JobHeldUser",
		123: "alice PENDING cpu tasks=1 nodes=24 gpus=[] limit=172800 JobHeldUser",
		124: "alice PENDING cpu tasks=1 nodes=1 gpus=[] limit=-1 JobHeldUser",
		120: "alice PENDING gpu tasks=1 nodes=1 gpus=[{a100 3}] limit=86400 JobHeldUser",
		121: "alice PENDING gpu tasks=1 nodes=1 gpus=[{h100 1} {l40s 1}] limit=86400 JobHeldUser",
		38:  "bob PENDING cpu tasks=1 nodes=1 gpus=[] limit=172800 ReqNodeNotAvail",
		110: "alice SPECIAL_EXIT cpu tasks=1 nodes=1 gpus=[] limit=172800 RequeuedHeld",
		111: "alice STOPPED cpu tasks=1 nodes=1 gpus=[] limit=172800 ",
		53:  "bob RUNNING gpu tasks=1 nodes=1 gpus=[{ 1}] limit=86400 ",
		112: "alice FAILED cpu tasks=1 nodes=1 gpus=[] limit=172800 NonZeroExitCode",
	} {
		job, ok, err := text.Find(id)
		require.NoError(t, err)
		require.True(t, ok, id)
		require.Equal(t, want, fmt.Sprintf("%s %s %s tasks=%d nodes=%d gpus=%v limit=%d %s", job.User, job.State, job.Partition,
			job.Tasks, job.Nodes, job.GPUs, job.TimeLimit, job.Reason))
	}
}

// A job written as a row again is the same job, and a text put twice in a row gives its jobs twice.
func FuzzJobs(f *testing.F) {
	f.Add(plainRow())
	f.Add(plainRow(fieldArrayTaskID, "1,3,7-9%2", fieldTRESPerNode, "gres:gpu:a100:2", fieldReason, "a|b\n"))
	f.Add(plainRow(fieldTRESAlloc, "cpu=1,mem=1.5K,gres/gpu=4,gres/gpu:a100=2", fieldHetJobID, 5, fieldTimeLimit, "UNLIMITED"))
	f.Add(plainRow(fieldUserName, "nobody") + plainRow(fieldUserID, 3) + plainRow(fieldReason, "\n"+plainRow()))
	f.Add(plainRow()[:200])
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := allJobs(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		twice, err := allJobs(text + text)
		require.NoError(t, err)
		require.Equal(t, append(slices.Clone(jobs), jobs...), twice)
		for i := range jobs {
			again := oneJob(t, renderJob(&jobs[i]))
			require.ElementsMatch(t, jobs[i].GPUs, again.GPUs)
			again.GPUs = jobs[i].GPUs
			require.Equal(t, jobs[i], again)
		}
	})
}

// renderJob writes a job as squeue would.
func renderJob(j *Job) string {
	clock := func(v int64) string {
		if v == 0 {
			return "N/A"
		}
		return time.Unix(v, 0).UTC().Format("2006-01-02T15:04:05")
	}
	array, task := j.ID, "N/A"
	if j.ArrayTask != "" {
		array, task = j.ArrayID, j.ArrayTask
	}
	limit := fmt.Sprintf("%d-%02d:%02d:%02d", j.TimeLimit/86400, j.TimeLimit/3600%24, j.TimeLimit/60%60, j.TimeLimit%60)
	switch j.TimeLimit {
	case Unlimited:
		limit = "UNLIMITED"
	case Unknown:
		limit = "NOT_SET"
	}
	return jobRow(j.ID, array, task, j.HetID, j.HetOffset, j.State, j.Partition, 1, j.User, j.QOS, j.CPUs, j.Nodes, 1,
		clock(j.Submit), clock(j.Eligible), clock(j.Start), clock(j.End), limit, j.Priority, j.NodeList,
		renderTRES(tres{Unknown, Unknown, j.Memory, j.GPUs}), j.Account, j.Reservation, j.Licenses, "N/A", "N/A", "N/A", j.Reason)
}
