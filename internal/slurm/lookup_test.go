package slurm

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the commands say when they fail, as Client.Run tells it.
var (
	errUnknownID = errors.New("squeue: exit status 1: slurm_load_jobs error: Invalid job id specified")
	errRefused   = errors.New("squeue: exit status 1: slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	errNoDBD     = errors.New("sacct: exit status 1: sacct: error: Problem talking to the database: Connection refused")
	errNoSacct   = errors.New("sacct: exit status 1: Slurm accounting storage is disabled")
)

// realCommands gives what squeue and sacct of 22.05 printed of one job, and notes what was run.
func realCommands(t *testing.T, ran *[]string) func(context.Context, string, ...string) ([]byte, error) {
	return func(_ context.Context, name string, args ...string) ([]byte, error) {
		*ran = append(*ran, name)
		id := args[slices.Index(args, "-j")+1]
		b, err := os.ReadFile("testdata/22.05/lookup/" + name + "-" + id + ".txt")
		if name == "squeue" && err != nil {
			return nil, errUnknownID
		}
		require.NoError(t, err)
		return b, nil
	}
}

func TestLookup(t *testing.T) {
	queue, err := os.ReadFile("testdata/22.05/squeue.txt")
	require.NoError(t, err)
	for _, test := range []struct {
		name string
		text string
		id   int64
		ran  []string
		want Who
	}{
		{"in the text", string(queue), 20, nil, Who{
			ID: 20, State: "RUNNING", Partition: "gpu", User: "bob", Account: "chem", QOS: "normal", Start: 1795270092}},
		{"an array's task that runs", "", 42, []string{"squeue"}, Who{
			ID: 42, ArrayID: 2, ArrayTask: "0", State: "RUNNING", Partition: "cpu", User: "alice", Account: "lattice", QOS: "normal",
			Start: 1795270092}},
		{"an array's tasks that wait, among those that run", "", 2, []string{"squeue"}, Who{
			ID: 2, ArrayID: 2, ArrayTask: "3-9%3", State: "PENDING", Partition: "cpu", User: "alice", Account: "lattice", QOS: "normal"}},
		{"an array's last task, which has the array's id", "", 6, []string{"squeue"}, Who{
			ID: 6, ArrayID: 6, ArrayTask: "6", State: "RUNNING", Partition: "cpu", User: "bob", Account: "chem", QOS: "normal",
			Start: 1795270092}},
		{"a component", "", 23, []string{"squeue"}, Who{
			ID: 23, HetID: 22, HetOffset: 1, State: "RUNNING", Partition: "gpu", User: "alice", Account: "physics", QOS: "normal",
			Start: 1795270094}},
		{"requeued and held", "", 109, []string{"squeue"}, Who{
			ID: 109, State: "PENDING", Partition: "cpu", User: "alice", Account: "physics", QOS: "high"}},
		{"forgotten by slurmctld", string(queue), 4, []string{"squeue", "sacct"}, Who{
			ID: 4, State: "FAILED", Partition: "cpu", User: "bob", Account: "chem", QOS: "normal", Start: 1795270092, End: 1795270092}},
		{"cancelled before it ran", "", 54, []string{"squeue", "sacct"}, Who{
			ID: 54, State: "CANCELLED", Partition: "cpu", User: "alice", Account: "physics", QOS: "normal", End: 1795271294}},
		{"a text that is cut does not matter", plainRow()[:100], 42, []string{"squeue"}, Who{
			ID: 42, ArrayID: 2, ArrayTask: "0", State: "RUNNING", Partition: "cpu", User: "alice", Account: "lattice", QOS: "normal",
			Start: 1795270092}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ran []string
			client := Client{Mark: testMark, Run: realCommands(t, &ran)}
			who, err := client.Lookup(t.Context(), NewJobText([]byte(test.text), testMark), test.id)
			require.NoError(t, err)
			require.Equal(t, test.want, who)
			require.Equal(t, test.ran, ran)
		})
	}
}

// A job that ended within MinJobAge is in the queue yet.
func TestLookupEnded(t *testing.T) {
	text := NewJobText([]byte(plainRow(fieldState, "TIMEOUT")+plainRow(fieldJobID, 7, fieldState, "COMPLETING")), testMark)
	for _, id := range []int64{12345, 7} {
		who, err := (&Client{}).Lookup(t.Context(), text, id)
		require.NoError(t, err)
		require.Equal(t, int64(1795270092), who.Start)
		require.Equal(t, int64(1795356492), who.End)
	}
}

func TestLookupNone(t *testing.T) {
	const row = "7|7|COMPLETED|cpu|bob|normal|2026-11-21T14:08:09|2026-11-21T14:08:12|2026-11-21T14:09:14|chem\n"
	for _, test := range []struct {
		name     string
		queue    string
		queueErr error
		sacct    string
		sacctErr error
		noJob    bool
		want     string // the error; "" where the job is found
	}{
		{"neither knows it", "", errUnknownID, "", nil, true, "job 7: no such job"},
		{"no accounting", "", errUnknownID, "", errNoSacct, true, "job 7: no such job"},
		{"slurmdbd is down", "", errUnknownID, "", errNoDBD, false, "job 7: " + errNoDBD.Error()},
		{"slurmctld is down, slurmdbd knows", "", errRefused, row, nil, false, ""},
		{"slurmctld is down, slurmdbd does not know", "", errRefused, "", nil, false, "job 7: " + errRefused.Error()},
		{"slurmctld is down, no accounting", "", errRefused, "", errNoSacct, false, "job 7: " + errRefused.Error()},
		{"both are down", "", errRefused, "", errNoDBD, false, "job 7: " + errRefused.Error() + "\n" + errNoDBD.Error()},
		{"squeue tells other tasks alone", plainRow(), nil, row, nil, false, ""},
		{"squeue tells nothing", "", nil, "", nil, true, "job 7: no such job"},
		{"squeue's row is broken", plainRow(fieldJobID, 7, fieldNumCPUs, "x"), nil, "", nil, false,
			`job 7: squeue: job 7: NumCPUs: "x" is no number`},
		{"sacct tells other tasks alone", "", errUnknownID, "8|7_1|RUNNING|cpu|bob|normal|Unknown|Unknown|Unknown|chem\n", nil, true,
			"job 7: no such job"},
		{"sacct's row is short", "", errUnknownID, "7|7|COMPLETED\n", nil, false, `job 7: sacct: 3 fields instead of 10: "7|7|COMPLETED"`},
		{"sacct's raw id", "", errUnknownID, strings.Replace(row, "7|", "7.0|", 1), nil, false, `job 7: sacct: JobIDRaw: "7.0" is no number`},
		{"sacct's id", "", errUnknownID, strings.Replace(row, "|7|", "|seven|", 1), nil, false, `job 7: sacct: JobID: "seven" is no job id`},
		{"sacct's task", "", errUnknownID, strings.Replace(row, "|7|", "|7_x|", 1), nil, false, `job 7: sacct: JobID: "x": no number of a task`},
		{"sacct's component", "", errUnknownID, strings.Replace(row, "|7|", "|7+|", 1), nil, false, `job 7: sacct: JobID: "" is no number`},
		{"sacct's time", "", errUnknownID, strings.Replace(row, "2026-11-21T14:08:12", "now", 1), nil, false, `job 7: sacct: Start: "now" is no time`},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := Client{Mark: testMark, Run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
				if name == "sacct" {
					return []byte(test.sacct), test.sacctErr
				}
				return []byte(test.queue), test.queueErr
			}}
			who, err := client.Lookup(t.Context(), JobText{}, 7)
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, Who{ID: 7, State: "COMPLETED", Partition: "cpu", User: "bob", Account: "chem", QOS: "normal",
					Start: 1795270092, End: 1795270154}, who)
				return
			}
			require.EqualError(t, err, test.want)
			require.Equal(t, test.noJob, errors.Is(err, ErrNoJob))
			require.Zero(t, who)
		})
	}
}

// squeue takes the lower 32 bits of an id, and sacct takes 0 for all jobs: neither is asked.
func TestLookupImpossible(t *testing.T) {
	client := Client{Mark: testMark, Run: func(context.Context, string, ...string) ([]byte, error) {
		t.Error("a command was run")
		return nil, nil
	}}
	for _, id := range []int64{0, -1, 1 << 32} {
		_, err := client.Lookup(t.Context(), JobText{}, id)
		require.ErrorIs(t, err, ErrNoJob)
	}
}

// Of several runs it is the one that was submitted last, and the account may hold a bar.
func TestLookupRuns(t *testing.T) {
	client := Client{Mark: testMark, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name == "squeue" {
			require.Equal(t, []string{"-j", "94"}, args[len(args)-2:])
			return nil, errUnknownID
		}
		require.Equal(t, []string{"--local", "-X", "-n", "-P", "-j", "94", "-o",
			"JobIDRaw,JobID,State,Partition,User,QOS,Submit,Start,End,Account"}, args)
		return []byte("94|94|REQUEUED|cpu|alice|high|2026-11-21T14:41:42|2026-11-21T14:42:14|2026-11-21T14:42:20|physics\n" +
			"94|90_[4,7%2]|PENDING|cpu|alice|high|2026-11-21T14:42:23|Unknown|Unknown|a|b\n" +
			"94|94|NODE_FAIL|cpu|alice|high|2026-11-21T14:40:00|None|2026-11-21T14:42:20|physics\n"), nil
	}}
	who, err := client.Lookup(t.Context(), JobText{}, 94)
	require.NoError(t, err)
	require.Equal(t, Who{ID: 94, ArrayID: 90, ArrayTask: "4,7%2", State: "PENDING", Partition: "cpu", User: "alice", Account: "a|b",
		QOS: "high"}, who)
}

// The ids of sacct read back as users see them.
func FuzzSacctRow(f *testing.F) {
	f.Add("42|2_0|RUNNING|cpu|alice|normal|2026-11-21T14:08:09|2026-11-21T14:08:12|Unknown|lattice")
	f.Add("2|2_[3-9%3]|CANCELLED by 0|cpu|alice|normal|2026-11-21T14:08:09|None|None|a|b")
	f.Add("23|22+1|RUNNING|gpu|alice|normal|2026-11-21T14:08:10|2026-11-21T14:08:14|Unknown|physics")
	f.Fuzz(func(t *testing.T, row string) {
		who, _, err := parseAccounted([]byte(row))
		if err != nil || who.ID == 0 { // no job has the id 0
			return
		}
		display := strings.Split(row, "|")[1]
		job := Job{ID: who.ID, ArrayID: who.ArrayID, ArrayTask: who.ArrayTask, HetID: who.HetID, HetOffset: who.HetOffset}
		again := Who{}
		require.NoError(t, again.parseDisplayID([]byte(job.DisplayID())), display)
		require.Equal(t, Who{ArrayID: who.ArrayID, ArrayTask: who.ArrayTask, HetID: who.HetID, HetOffset: who.HetOffset}, again)
	})
}
