package condor_q

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/series"
)

func TestJobStatus(t *testing.T) {
	for status, want := range map[jobStatus][2]string{
		0: {"unexpanded", "unexpanded"}, 1: {"idle", "idle"}, 2: {"running", "running"}, 3: {"removed", "removed"},
		4: {"completed", "finished"}, 5: {"held", "held"}, 6: {"transferring_output", "submission_err"}, 7: {"suspended", "unknown"},
		8: {"unknown", "unknown"}, -1: {"unknown", "unknown"},
	} {
		require.Equal(t, want, [2]string{status.String(), status.afState()})
	}
}

func TestRuntime(t *testing.T) {
	for _, test := range []struct {
		name               string
		status             jobStatus
		wall, started, now int64
		want               int64
	}{
		{"running for the first time", running, 0, 1000, 1905, 905},
		{"running again", running, 300, 1000, 1060, 360},
		{"transferring", transferringOutput, 0, 1000, 1060, 60},
		{"suspended", suspended, 10, 1000, 1060, 70},
		{"idle again", idle, 300, 1000, 1060, 300},
		{"held", held, 300, 1000, 1060, 300},
		{"the clock went back", running, 300, 1000, 990, 300},
		{"nobody knows since when", running, 300, absent, 990, 300},
		{"nobody knows for how long before", running, absent, 1000, 1060, 60},
		{"nothing is known", idle, absent, absent, absent, absent},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, runtimeOf(test.status, test.wall, test.started, test.now))
		})
	}
}

// Jobs that transfer their output are running, those of the scheduler universe are apart, and only what has a slot has
// cores.
func TestAmounts(t *testing.T) {
	var a amounts
	for _, j := range []job{
		{status: idle, cpus: 8}, {status: unexpanded}, {status: running, cpus: 4, gpus: 1, memory: 2048, runtime: 60},
		{status: transferringOutput, cpus: 1, gpus: 0, memory: 128, runtime: 5}, {status: suspended, cpus: 2, gpus: absent, memory: absent, runtime: absent},
		{status: held}, {status: held}, {status: completed}, {status: removed},
		{status: running, universe: schedulerUniverse, cpus: 99}, {status: idle, universe: schedulerUniverse},
		{status: held, universe: schedulerUniverse}, {status: absent}, {status: 8},
	} {
		a.add(&j)
	}
	require.Equal(t, map[string]any{
		"idle": int64(2), "running": int64(2), "transferring_output": int64(1), "held": int64(2), "suspended": int64(1),
		"completed": int64(1), "removed": int64(1), "dagman_idle": int64(1), "dagman_running": int64(1), "dagman_held": int64(1),
		"dagman_completed": int64(0), "dagman_removed": int64(0), "allocated_cores": int64(7), "allocated_gpus": int64(1),
		"allocated_memory_bytes": int64(2176 << 20), "runtime_seconds": int64(65),
	}, a.userFields())
	require.Equal(t, int64(12), a.jobs())
	twice := a
	twice.merge(&a)
	require.Equal(t, int64(24), twice.jobs())
	require.Equal(t, int64(14), twice.cpus)
}

func TestWaits(t *testing.T) {
	bounds := []int64{60, 300}
	q := newQueueTally(bounds)
	for _, j := range []job{
		{status: idle, entered: 1000, submitted: 500, now: 1060},      // Its latest wait counts.
		{status: idle, entered: absent, submitted: 999, now: 1060},    // 61 s
		{status: idle, entered: 1070, now: 1060},                      // The clock went back.
		{status: idle, entered: 1, now: 1061},                         // 1,060 s
		{status: idle, entered: absent, submitted: absent, now: 1060}, // Nobody knows.
		{status: running, entered: 1, now: 9999},
		{status: idle, entered: 1, now: 9999, universe: schedulerUniverse},
	} {
		q.add(bounds, &j)
	}
	require.Equal(t, series.Histogram{Counts: []int64{2, 1, 1}, Sum: 60 + 61 + 1060}, q.waits)
	require.Equal(t, int64(1060), q.oldest)
	require.Equal(t, int64(absent), newQueueTally(bounds).oldest)
}

// What a partitionable slot has itself is what is left of it; a slot that takes no jobs has nothing to give.
func TestSlots(t *testing.T) {
	sums := make(map[slotKey]*slotSum)
	for _, s := range []slot{
		{"Unclaimed", "Partitionable", "", 10, 1, 1000}, {"Claimed", "Dynamic", "", 4, 1, 500}, {"Claimed", "Dynamic", "", 2, 0, 400},
		{"Unclaimed", "Dynamic", "", 1, 0, 100}, {"Owner", "Partitionable", "", 8, 2, 800}, {"Drained", "Partitionable", "", 8, 0, absent},
		{"Claimed", "Static", "gpu", 1, 0, 1}, {"Preempting", "Static", "gpu", 1, 0, 1}, {"Owner", "Static", "gpu", absent, 0, 1},
		{"Backfill", "Static", "gpu", 3, 0, 1},
	} {
		addSlot(sums, &s)
	}
	require.Equal(t, map[slotKey]*slotSum{
		{"Unclaimed", "Partitionable", ""}: {1, [uses]int64{0, 10, 0}, [uses]int64{0, 1, 0}, [uses]int64{0, 1000, 0}},
		{"Claimed", "Dynamic", ""}:         {2, [uses]int64{6, 0, 0}, [uses]int64{1, 0, 0}, [uses]int64{900, 0, 0}},
		{"Unclaimed", "Dynamic", ""}:       {1, [uses]int64{0, 1, 0}, [uses]int64{}, [uses]int64{0, 100, 0}},
		{"Owner", "Partitionable", ""}:     {1, [uses]int64{0, 0, 8}, [uses]int64{0, 0, 2}, [uses]int64{0, 0, 800}},
		{"Drained", "Partitionable", ""}:   {1, [uses]int64{0, 0, 8}, [uses]int64{}, [uses]int64{}},
		{"Claimed", "Static", "gpu"}:       {1, [uses]int64{1, 0, 0}, [uses]int64{}, [uses]int64{1, 0, 0}},
		{"Preempting", "Static", "gpu"}:    {1, [uses]int64{1, 0, 0}, [uses]int64{}, [uses]int64{1, 0, 0}},
		{"Owner", "Static", "gpu"}:         {1, [uses]int64{}, [uses]int64{}, [uses]int64{0, 0, 1}},
		{"Backfill", "Static", "gpu"}:      {1, [uses]int64{0, 0, 3}, [uses]int64{}, [uses]int64{0, 0, 1}},
	}, sums)
}

func TestParseUserprio(t *testing.T) {
	rows, err := parseUserprio([]byte("500.341 1000.0 1 1.0 25.0 30.0 false <none> alice@pool.test\n" +
		"500.0 undefined 0 0.0 0.0 0.0 true <none> group bio\n\n" +
		"0.5 1.0 3 undefined 7.5 error false group_bio group_bio.b\xffb@pool.test\n"))
	require.NoError(t, err)
	require.Equal(t, []priority{
		{"alice@pool.test", "", false, 500.341, 1000, 1, 1, 25, 30},
		{"group bio", "", true, 500, absent, 0, 0, 0, 0},
		{"group_bio.b\uFFFDb@pool.test", "group_bio", false, 0.5, 1, 3, absent, 7.5, absent},
	}, rows)
	require.Equal(t, map[string]any{"priority": .5, "priority_factor": 1., "resources_used": int64(3), "usage_seconds": 7.5}, rows[2].fields())
	for text, want := range map[string]string{
		"500 1\n":                        "line 1: 2 of 9 columns",
		"\n5 1 1 1 x 1 false g a\n":      `line 2: AccumulatedUsage: "x" is no number`,
		"nan 1 1 1 1 1 false g a":        `line 1: Priority: "nan" is no number`,
		"1 +Inf 1 1 1 1 false g a@b c d": `line 1: PriorityFactor: "+Inf" is no number`,
	} {
		_, err := parseUserprio([]byte(text))
		require.EqualError(t, err, want)
	}
}

func FuzzParseUserprio(f *testing.F) {
	f.Add([]byte("500.341 1000.0 1 1.0 25.0 30.0 false <none> alice@pool.test\n"))
	f.Add([]byte("undefined error 1 1 1 1 true undefined a b c\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		rows, err := parseUserprio(content)
		if err != nil {
			require.Nil(t, rows)
			return
		}
		for _, r := range rows {
			require.NotEmpty(t, r.name)
			for _, v := range r.fields() {
				require.GreaterOrEqual(t, v, map[bool]any{true: int64(0), false: 0.}[fmt.Sprintf("%T", v) == "int64"])
			}
		}
	})
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"ProjectName": "project_name", "queue": "queue", "JobPrio": "job_prio", "GPUsUsage": "gpus_usage", "DAGNodeName": "dag_node_name",
		"xCount": "x_count", "WANT_SUSPEND": "want_suspend", "HasGPUs": "has_gpus", "A": "a", "Job_Name2": "job_name2", "OSIssueLine": "os_issue_line",
	} {
		require.Equal(t, want, snake(name), name)
	}
}

func TestHostOf(t *testing.T) {
	for text, want := range map[string]string{
		"cm.example.org\n": "cm.example.org", "cm.example.org:9618?sock=collector\n": "cm.example.org", "a:1, b:2\n": "a", " \n": "",
		"[2001:db8::1]:9618\n": "[2001:db8::1]", "[2001:db8::1]\n": "[2001:db8::1]", "127.0.0.1:9618": "127.0.0.1",
	} {
		require.Equal(t, want, hostOf(text), text)
	}
}

func TestHoldReason(t *testing.T) {
	for code, want := range map[int64]string{0: "Unspecified", 1: "UserRequest", 26: "SystemPolicy", 28: "_unknown", 34: "JobOutOfResources",
		48: "HookShadowPrepareJobFailure", 49: "_unknown", 1 << 40: "_unknown", -1: "_unknown", 1000: "_unknown"} {
		require.Equal(t, want, holdReason(code))
	}
}

// Two jobs of a schedd share a moment only if their clusters and their processes are very far apart.
func TestMoments(t *testing.T) {
	at := func(cluster, proc int64) int64 { return momentOf(7, &job{cluster: cluster, proc: proc}).UnixNano() }
	require.Equal(t, int64(7e9), at(0, 0))
	require.Equal(t, int64(7e9+618_302_062), at(1, 3))
	require.Equal(t, int64(7e9+618_302_062), at(1e9+1, 3), "still within the second")
	require.Equal(t, int64(7e9), at(absent, absent))
	for distance := int64(1); distance <= 300_000; distance++ {
		apart := at(distance, 0) - 7e9
		apart = min(apart, 1e9-apart)
		if apart*distance < 300_000_000 {
			t.Fatalf("clusters that are %d apart have moments that are %d ns apart", distance, apart)
		}
	}
}

// file is a schedd's history file. It is written and rotated as HTCondor's is (condor_utils/classadHistory.cpp): a schedd
// that is killed writes again what its log had not flushed.
type file struct {
	records  []record // oldest first
	unlogged int      // the last of them, which the schedd's log does not know yet
	rotated  [2]int   // where the two latest rotations came
}

// during gives what condor_history prints that listed the files just before the latest rotation: it reads the file that
// is new, and those before the one that was rotated.
func (f *file) during(c *cursor) []record {
	all := f.records
	f.records = slices.Concat(all[:f.rotated[0]], all[f.rotated[1]:])
	defer func() { f.records = all }()
	return f.back(c)
}

// back gives what condor_history prints: newest first, up to what the cursor's expression holds for.
func (f *file) back(c *cursor) (records []record) {
	stop := record{}
	if c.since() != "" {
		stop = c.Tail[len(c.Tail)-1]
	}
	for i := len(f.records) - 1; i >= 0 && f.records[i] != stop; i-- {
		records = append(records, f.records[i])
	}
	return records
}

// Jobs leave in any order of their times, the schedd is killed, the file is rotated while it is read, the plugin is killed
// before or after it saved: each job that left since the plugin first ran is emitted, and none that left before.
func TestHistoryIsReadOnce(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		f := new(file)
		next := 0
		leave := func(n int) {
			for range n {
				// What stayed in the queue after it completed has an old time.
				f.records = append(f.records, record{fmt.Sprintf("s#%d.0#1", next), int64(next) - random.Int64N(1000)})
				next++
				if f.unlogged++; random.IntN(200) == 0 || f.unlogged > 200 {
					f.unlogged = 0
				}
			}
		}
		leave(random.IntN(3) * 400)
		first := next
		known := *new(cursor).start(f.back(new(cursor)))
		emitted := make(map[string]bool) // Of which a row is in the store: its time is not that of the record's writing.
		for range 60 {
			leave(random.IntN(5) * random.IntN(100))
			if random.IntN(6) == 0 { // The schedd is killed: it writes again, in another order, perhaps with other times.
				again := append([]record(nil), f.records[len(f.records)-f.unlogged:]...)
				random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
				for i := range again {
					again[i].Done += random.Int64N(2)
				}
				f.records = append(f.records, again...)
				f.unlogged = 0
				leave(random.IntN(50))
			}
			records := f.back(&known)
			if random.IntN(3) == 0 {
				f.rotated = [2]int{f.rotated[1], len(f.records) - random.IntN(min(20, len(f.records)-f.rotated[1]+1))}
				records = f.during(&known)
			}
			later, fresh, gap := known.advance(records)
			if gap {
				records = f.back(&known)
				later, fresh, gap = known.advance(records)
			}
			require.False(t, gap, "seed %d", seed)
			for _, i := range fresh {
				emitted[records[i].ID] = true
			}
			if random.IntN(4) > 0 { // Else the plugin is killed before it knows that the rows left.
				known = *later
			}
		}
		records := f.back(&known)
		_, fresh, _ := known.advance(records)
		for _, i := range fresh {
			emitted[records[i].ID] = true
		}
		require.Len(t, emitted, next-first, "seed %d", seed)
		for i := range first {
			if emitted[fmt.Sprintf("s#%d.0#1", i)] {
				t.Fatalf("seed %d: job %d left before", seed, i)
			}
		}
		require.LessOrEqual(t, len(known.Tail), anchorDepth+1)
		require.LessOrEqual(t, len(known.Seen), seenIDs)
	}
}

// A history that does not reach back to what was read is all new, but for what was seen.
func TestHistoryGap(t *testing.T) {
	records := func(from, to int) (r []record) { // newest first
		for i := to; i >= from; i-- {
			r = append(r, record{strconv.Itoa(i), int64(i)})
		}
		return r
	}
	known := new(cursor).start(records(1, 300))
	require.Equal(t, `GlobalJobId == "44" && JobFinishedHookDone == 44`, known.since())
	next, fresh, gap := known.advance(records(299, 310))
	require.False(t, gap)
	require.Len(t, fresh, 10)
	require.Equal(t, 9, fresh[0], "the oldest first")
	_, fresh, gap = next.advance(records(305, 320))
	require.False(t, gap)
	require.Len(t, fresh, 10)
	later, fresh, gap := next.advance(records(400, 405))
	require.True(t, gap)
	require.Len(t, fresh, 6)
	require.Equal(t, records(400, 405), later.Tail)
	_, fresh, gap = later.advance(records(402, 405))
	require.False(t, gap)
	require.Empty(t, fresh)
}

func TestSince(t *testing.T) {
	for _, test := range []struct {
		tail []record
		want string
	}{
		{nil, ""},
		{make([]record, anchorDepth), ""},
		{append(make([]record, anchorDepth), record{"s#1.0#5", 7}), `GlobalJobId == "s#1.0#5" && JobFinishedHookDone == 7`},
		{append(make([]record, anchorDepth), record{`q"\`, absent}), `GlobalJobId == "q\"\\" && JobFinishedHookDone =?= undefined`},
	} {
		require.Equal(t, test.want, (&cursor{Tail: test.tail}).since())
	}
}

// An empty history is a beginning, too: what comes then is new.
func TestHistoryBeginsEmpty(t *testing.T) {
	known := new(cursor).start(nil)
	require.True(t, known.Started)
	next, fresh, gap := known.advance([]record{{"b", 2}, {"a", 1}})
	require.Equal(t, []int{1, 0}, fresh)
	require.False(t, gap)
	require.Equal(t, []record{{"b", 2}, {"a", 1}}, next.Tail)
	require.Empty(t, next.since(), "it is short")
	next, fresh, gap = next.advance([]record{{"c", 3}, {"b", 2}, {"a", 1}})
	require.Equal(t, []int{0}, fresh)
	require.False(t, gap)
	require.Equal(t, []record{{"c", 3}, {"b", 2}, {"a", 1}}, next.Tail)
}

// What a whole history has from before the plugin first ran, and what is remembered no more, is not new.
func TestHistoryFromBefore(t *testing.T) {
	records := make([]record, 20_000) // newest first
	for i := range records {
		records[i] = record{strconv.Itoa(i), int64(i)}
	}
	known := new(cursor).start(records[5 : seenIDs+5])
	_, fresh, gap := known.advance(records)
	require.Equal(t, []int{4, 3, 2, 1, 0}, fresh)
	require.False(t, gap)
}

// What the history says of jobs that ended in different ways.
func TestFinishedJob(t *testing.T) {
	for _, test := range []struct {
		name, ad string
		want     map[string]any
		at       time.Time
	}{
		{"completed", `"JobStatus": 4, "CompletionDate": 2000, "EnteredCurrentStatus": 2001, "JobFinishedHookDone": 2002, "ExitBySignal": false, "ExitCode": 3,
			"QDate": 1000, "JobStartDate": 1100, "JobCurrentStartDate": 1500, "NumJobStarts": 2, "RemoteWallClockTime": 800.0, "CpusProvisioned": 4, "RequestCpus": 2,
			"MemoryProvisioned": 1024, "CumulativeRemoteUserCpu": 1500.0, "CumulativeRemoteSysCpu": 100.0, "RemoteUserCpu": 1.0, "RemoteSysCpu": 1.0,
			"ResidentSetSize": 600000, "ResidentSetSize_RAW": 524288, "MemoryUsage": "\/Expr(x)\/", "LastRemoteHost": "slot1@n1", "DAGManJobId": 7, "ServerTime": 9999`,
			map[string]any{"exit_code": int64(3), "end": int64(2000), "submit": int64(1000), "start": int64(1500), "starts": int64(2), "wait_seconds": int64(100),
				"runtime_seconds": int64(800), "cores": int64(4), "memory_bytes": int64(1 << 30), "cpu_seconds": 1600., "cpu_efficiency": .5,
				"memory_peak_bytes": int64(512 << 20), "memory_efficiency": .5, "host": "slot1@n1", "dagman_cluster": int64(7)}, time.Unix(2000, 618_302_061)},
		{"by a signal", `"JobStatus": 4, "CompletionDate": 2000, "ExitBySignal": true, "ExitSignal": 9, "ExitCode": 0, "MemoryUsage": 5, "RequestMemory": 10,
			"RemoteUserCpu": 1.5, "RemoteSysCpu": 0.5, "RemoteWallClockTime": 0.0`,
			map[string]any{"signal": int64(9), "end": int64(2000), "runtime_seconds": int64(0), "cpu_seconds": 2., "memory_bytes": int64(10 << 20),
				"memory_peak_bytes": int64(5 << 20), "memory_efficiency": .5}, time.Unix(2000, 618_302_061)},
		{"removed before it ran", `"JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": 2001, "JobFinishedHookDone": 2002, "QDate": 1000, "ExitBySignal": false,
			"RemoveReason": "via condor_rm", "NumJobStarts": 0`,
			map[string]any{"end": int64(2001), "submit": int64(1000), "starts": int64(0), "remove_reason": "via condor_rm"}, time.Unix(2001, 618_302_061)},
		{"of which little is known", `"QDate": 1000`, map[string]any{"end": int64(1000), "submit": int64(1000)}, time.Unix(1000, 618_302_061)},
		{"of which nothing is known", `"JobStatus": 4`, map[string]any{}, time.Unix(0, 618_302_061)},
	} {
		t.Run(test.name, func(t *testing.T) {
			columns := newFinishedColumns(nil)
			var j finishedJob
			require.NoError(t, parseAds(strings.NewReader(`[{"GlobalJobId": "s#1.2#1000", "ClusterId": 1, "ProcId": 2, `+test.ad+`}]`), columns.attributes, func(a *ad) error {
				j = columns.read(a)
				return nil
			}))
			var f fieldList
			j.fields(&f, nil)
			got := map[string]any{}
			for i, name := range f.names {
				require.NotContains(t, got, name)
				require.Contains(t, jobFields(), name)
				got[name] = f.values[i]
			}
			test.want["id"], test.want["global_job_id"], test.want["af_state"] = "1.2", "s#1.2#1000", "finished"
			require.Equal(t, test.want, got)
			require.Equal(t, test.at, momentOf(j.done, &j.job))
		})
	}
}

func TestFinishedEfficiency(t *testing.T) {
	j := finishedJob{job: job{cpus: 4, memory: 1024, runtime: 100, gpus: absent, wantGPUs: absent}, cpu: 200, resident: 512 << 10}
	var f fieldList
	j.efficiency(&f)
	require.Equal(t, []string{"cpu_seconds", "cpu_efficiency", "memory_peak_bytes", "memory_efficiency"}, f.names)
	require.Equal(t, []any{200., .5, int64(512 << 20), .5}, f.values)
	f.reset()
	(&finishedJob{job: job{cpus: absent, wantCPUs: absent, runtime: 100, memory: absent, wantMemory: absent}, cpu: absent, resident: absent}).efficiency(&f)
	require.Empty(t, f.names)
	require.Equal(t, time.Unix(5, 0), momentOf(5, new(job)))
}
