package slurm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// equalShares compares rows, in which NaN is equal to NaN.
func equalShares(t *testing.T, want, got []Share) {
	t.Helper()
	require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
}

func TestRealShares(t *testing.T) {
	nan := math.NaN()
	want := []Share{
		{"root", "", "", "", Unknown, 0, 172480, nan, 1, nan, nan},
		{"root", "root", "", "", 1, 0.032258, 0, 0, 0, 1, math.Inf(1)},
		{"chem", "", "", "root", 20, 0.645161, 74560, 0.432289, 0.432289, nan, 1.492431},
		{"chem", "bob", "", "root", 1, 0.1, 62812, 0.364175, 0.842435, 0.666667, 0.593518},
		{"chem", "carol", "", "root", 1, 0.1, 11748, 0.068114, 0.157565, 0.833333, 3.173294},
		{"a|b c", "", "", "chem", Unknown, 0.645161, 0, nan, 0, nan, nan},
		{"a|b c", "bob", "cpu", "chem", 1, 0.1, 0, nan, 0, 0, 0},
		{"a|b c", "bob", "gpu", "chem", 7, 0.7, 0, nan, 0, 0, 0},
		{"physics", "", "", "root", 10, 0.322581, 97919, 0.567711, 0.567711, nan, 0.568213},
		{"physics", "alice", "", "root", 1, 0.333333, 26137, 0.151531, 0.266916, 0.333333, 1.248833},
		{"physics", "root", "", "root", 1, 0.333333, 0, 0, 0, 0.5, math.Inf(1)},
		{"lattice", "", "", "physics", 1, 0.333333, 71782, 0.41618, 0.733084, nan, 0.4547},
		{"lattice", "alice", "", "physics", 1, 1, 71782, 0.41618, 1, 0.166667, 1},
	}
	const command = "sshare -a -P -n -o Account,User,Partition,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS"
	shares, err := runs(t, command, string(readFile(t, "26.05/sshare.txt"))).Shares(t.Context())
	require.NoError(t, err)
	equalShares(t, want, shares)

	for version, usage := range map[string]int64{"22.05": 400247, "24.11": 356} {
		shares, err := parseShares(readFile(t, version+"/sshare.txt"))
		require.NoError(t, err)
		require.Len(t, shares, 10)
		require.Equal(t, usage, shares[0].RawUsage)
		var users int64 // those that are in the tree add up to root's usage, but for what was rounded
		for i := range shares {
			if shares[i].User != "" {
				users += shares[i].RawUsage
			}
		}
		require.InDelta(t, usage, users, 10)
	}
	_, err = failing().Shares(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestShares(t *testing.T) {
	nan := math.NaN()
	rest := func(account, user, parent string) Share {
		return Share{account, user, "", parent, 1, nan, Unknown, nan, nan, nan, nan}
	}
	for text, want := range map[string][]Share{
		"": nil,
		// Of one who may see no more than his own there is no tree.
		"physics|alice||1||||||\n": {rest("physics", "alice", "")},
		"root|||1||||||\n a|||1||||||\n  b|||1||||||\n   b|u||1||||||\n  a|u||1||||||\n c|||1||||||\n root|u||1||||||\n": {
			rest("root", "", ""), rest("a", "", "root"), rest("b", "", "a"), rest("b", "u", "a"), rest("a", "u", "root"),
			rest("c", "", "root"), rest("root", "u", ""),
		},
	} {
		shares, err := parseShares([]byte(text))
		require.NoError(t, err)
		equalShares(t, want, shares)
	}
	for text, want := range map[string]string{
		"root|||1|||||\n":                              `row 1: 9 fields instead of 10: "root|||1|||||"`,
		"sorry\n":                                      `row 1: 1 fields instead of 10: "sorry"`,
		"root|||1||||||\n a|||x||||||\n":               `row 2: account "a": RawShares: "x" is no number`,
		"root|||1||-1||||\n":                           `row 1: account "root": RawUsage: "-1" is no number`,
		"root|||1|||||high|\n":                         `row 1: account "root": FairShare: "high" is no number`,
		"root|||1||||||\n a|||1":                       `the text is cut off: " a|||1"`,
		"root|||1||||||\n nl\n4|x|||1||||||\n b|||1\n": `row 2: 1 fields instead of 10: " nl"`,
	} {
		_, err := parseShares([]byte(text))
		require.EqualError(t, err, want)
	}
}

// finishedRow gives a row of an ordinary job, changed where changes say: a field and its text by turns.
func finishedRow(changes ...any) string {
	fields := [finishedFields]any{
		12345, 12345, "alice", "cpu", "normal", "COMPLETED", "0:0", "2026-11-21T14:46:11", "2026-11-21T14:46:11",
		"2026-11-21T14:46:26", "2026-11-21T14:46:37", 11, 5, 2, 4, "billing=4,cpu=4,mem=1000M,node=2",
		"billing=4,cpu=4,mem=1000M,node=2", "cpu[02-03]", "physics", "", "00:03.417", "",
	}
	return sacctRow(fields, changes)
}

// stepRow gives a row of one of its steps.
func stepRow(changes ...any) string {
	fields := [finishedFields]any{
		"12345.batch", "12345.batch", "", "", "", "COMPLETED", "0:0", "2026-11-21T14:46:26", "2026-11-21T14:46:26",
		"2026-11-21T14:46:26", "2026-11-21T14:46:37", 11, "", 1, 2, "", "cpu=2,mem=500M,node=1", "cpu02", "physics", 0,
		"00:00.030", "cpu=00:00:00,energy=0,fs/disk=55595,mem=12952K,pages=0,vmem=831264K",
	}
	return sacctRow(fields, changes)
}

func sacctRow(fields [finishedFields]any, changes []any) string {
	for i := 0; i < len(changes); i += 2 {
		fields[changes[i].(int)] = changes[i+1]
	}
	var row strings.Builder
	for _, field := range fields {
		fmt.Fprintf(&row, "%v|%s", field, testMark)
	}
	return row.String() + "\n"
}

// plainFinished is finishedRow without changes, and without steps.
func plainFinished() Finished {
	return Finished{
		ID: 12345, Display: "12345", Tasks: 1, User: "alice", Account: "physics", Partition: "cpu", QOS: "normal",
		State: "COMPLETED", Submit: 1795272371, Eligible: 1795272371, Start: 1795272386, End: 1795272397, Elapsed: 11,
		TimeLimit: 300, Nodes: 2, CPUs: 4, Memory: 1000 << 20, NodeList: "cpu[02-03]",
		CPUTime: Unknown, MemoryPeak: Unknown, Energy: Unknown,
	}
}

func TestFinished(t *testing.T) {
	never := []any{finishedState, "CANCELLED by 1001", finishedEligible, "Unknown", finishedStart, "None", finishedElapsed, 0,
		finishedTimeLimit, "Partition_Limit", finishedCPUs, 0, finishedAllocTRES, "", finishedNodeList, "None assigned",
		finishedReqTRES, "billing=3,cpu=3,gres/gpu:a100=1,gres/gpu=1,mem=1G,node=1", finishedTotalCPU, "00:00:00", finishedEnergy, 0}
	neverRan := func(f *Finished) {
		f.State, f.Eligible, f.Start, f.Elapsed, f.TimeLimit, f.NodeList = "CANCELLED", 0, 0, 0, Unknown, ""
		f.CPUs, f.Nodes, f.Memory, f.GPUs = 3, 1, 1<<30, []GPUs{{"a100", 1}}
	}
	for name, test := range map[string]struct {
		text string
		want func(f *Finished)
	}{
		"plain": {finishedRow(), func(*Finished) {}},
		"with steps": {finishedRow() + stepRow() + stepRow(finishedJobIDRaw, "12345.0", finishedUsage,
			"cpu=00:00:02,energy=0,fs/disk=23508,mem=227252K,pages=0,vmem=2164384K"), func(f *Finished) {
			f.CPUTime, f.MemoryPeak = 3417000, 227252<<10
		}},
		"steps that tell nothing": {finishedRow(finishedTotalCPU, "00:00:00") + stepRow(finishedUsage, ""), func(f *Finished) {
			f.StepsUntold = true
		}},
		"a step that has not told yet": {finishedRow(finishedTotalCPU, "00:00.030") + stepRow(finishedJobIDRaw, "12345.extern") +
			stepRow(finishedUsage, ""), func(f *Finished) { f.StepsUntold = true }},
		"a step that runs": {finishedRow() + stepRow(finishedUsage, "", finishedEnd, "Unknown"), func(f *Finished) { f.StepsUntold = true }},
		"a step that was never launched": {finishedRow() + stepRow(finishedUsage, "", finishedEnd, "2026-11-21T14:46:30") + stepRow(), func(f *Finished) {
			f.CPUTime, f.MemoryPeak = 3417000, 12952<<10
		}},
		"usage without memory": {finishedRow() + stepRow(finishedUsage, "cpu=00:00:01"), func(f *Finished) { f.CPUTime = 3417000 }},
		"never ran":            {finishedRow(never...), neverRan},
		"tasks that never ran": {finishedRow(append([]any{finishedJobID, "12345_[1,3,7-9:2,20-29%4]"}, never...)...), func(f *Finished) {
			neverRan(f)
			f.Display, f.Tasks = "12345_[1,3,7-9:2,20-29%4]", 14
		}},
		"cancelled again": {finishedRow(append(never, finishedStart, "2026-11-21T14:46:37", finishedEligible, "2026-11-21T14:50:51")...), func(f *Finished) {
			neverRan(f)
			f.Eligible = 1795272651
		}},
		"task":                             {finishedRow(finishedJobID, "12300_7"), func(f *Finished) { f.Display = "12300_7" }},
		"component":                        {finishedRow(finishedJobID, "12344+1"), func(f *Finished) { f.Display = "12344+1" }},
		"exit code":                        {finishedRow(finishedExitCode, "3:0", finishedState, "FAILED"), func(f *Finished) { f.ExitCode, f.State = 3, "FAILED" }},
		"signal":                           {finishedRow(finishedExitCode, "0:9"), func(f *Finished) { f.Signal = 9 }},
		"no limit":                         {finishedRow(finishedTimeLimit, "UNLIMITED"), func(f *Finished) { f.TimeLimit = Unlimited }},
		"energy":                           {finishedRow(finishedEnergy, 123456), func(f *Finished) { f.Energy = 123456 }},
		"no energy":                        {finishedRow(finishedEnergy, 0), func(*Finished) {}},
		"of nobody":                        {finishedRow(finishedUser, "", finishedQOS, "Unknown"), func(f *Finished) { f.User, f.QOS = "", "" }},
		"GPUs":                             {finishedRow(finishedAllocTRES, "cpu=4,energy=7,gres/gpu:a100=2,gres/gpu=3,mem=62.50G,node=2"), func(f *Finished) { f.GPUs, f.Memory = []GPUs{{"a100", 2}, {"", 1}}, 62<<30+512<<20 }},
		"no resources":                     {finishedRow(finishedAllocTRES, "", finishedReqTRES, ""), func(f *Finished) { f.Memory = Unknown }},
		"odd account":                      {finishedRow(finishedAccount, "nl\n4|x"), func(f *Finished) { f.Account = "nl\n4|x" }},
		"an account like the end of a row": {finishedRow(finishedAccount, "\nx|y|\n"), func(f *Finished) { f.Account = "\nx|y|\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			want := plainFinished()
			test.want(&want)
			runs, err := parseFinished([]byte(test.text+finishedRow(finishedJobIDRaw, 7, finishedJobID, 7)), testMark)
			require.NoError(t, err)
			after := plainFinished()
			after.ID, after.Display = 7, "7"
			require.Equal(t, []Finished{want, after}, runs)
		})
	}
}

func TestFinishedErrors(t *testing.T) {
	cut := strings.TrimSuffix(finishedRow(), "\n")
	for name, test := range map[string]struct{ text, err string }{
		"no mark":    {"1|2|3\n", `row 1: 0 fields instead of 22: "1|2|3\n"`},
		"too few":    {"1|" + testMark + "2|" + testMark + "\n", `row 1: 2 fields instead of 22: "1|#3f9a1c#2|#3f9a1c#\n"`},
		"cut off":    {finishedRow() + cut[:120], `row 2: 7 fields instead of 22: "12345|#3f9a1c#12345|#3f9a1c#alice|#3f9a1c#cpu|#3f9a1c#normal|#3f9a1c#COMPLETED|#"...`},
		"no end":     {cut, `row 1: no line ends behind 22 fields: "12345|#3f9a1c#12345|#3f9a1c#alice|#3f9a1c#cpu|#3f9a1c#normal|#3f9a1c#COMPLETED|#"...`},
		"too many":   {cut + "x|" + testMark + "\n", `row 1: no line ends behind 22 fields: "12345|#3f9a1c#12345|#3f9a1c#alice|#3f9a1c#cpu|#3f9a1c#normal|#3f9a1c#COMPLETED|#"...`},
		"id":         {finishedRow(finishedJobIDRaw, "x"), `row 1: JobIDRaw: "x" is no number`},
		"time":       {finishedRow(finishedEnd, "now"), `row 1: job 12345: End: "now" is no time`},
		"exit code":  {finishedRow(finishedExitCode, "3"), `row 1: job 12345: ExitCode: "3" is no exit code`},
		"limit":      {finishedRow(finishedTimeLimit, "x"), `row 1: job 12345: TimelimitRaw: "x" is no time span`},
		"long limit": {finishedRow(finishedTimeLimit, "9223372036854775807"), `row 1: job 12345: TimelimitRaw: "9223372036854775807" is no time span`},
		"elapsed":    {finishedRow(finishedElapsed, ""), `row 1: job 12345: ElapsedRaw: "" is no number`},
		"resources":  {finishedRow(finishedAllocTRES, "cpu"), `row 1: job 12345: AllocTRES: "cpu" has no amount`},
		"tasks":      {finishedRow(finishedJobID, "12345_[1,3...]"), `row 1: job 12345: JobID: "1,3...": no list of tasks`},
		"energy":     {finishedRow(finishedEnergy, "1K"), `row 1: job 12345: ConsumedEnergyRaw: "1K" is no number`},
		"CPU time":   {finishedRow(finishedTotalCPU, "00:03.x"), `row 1: job 12345: TotalCPU: "00:03.x" is no time span`},
		"lost step":  {stepRow(), `row 1: step "batch" of job 12345 is not behind its job`},
		"other step": {finishedRow() + stepRow(finishedJobIDRaw, "7.0"), `row 2: step "0" of job 7 is not behind its job`},
		"usage":      {finishedRow() + stepRow(finishedUsage, "mem=x"), `row 2: job 12345.batch: TRESUsageInTot: "x" is no number`},
		"step's end": {finishedRow() + stepRow(finishedEnd, "x"), `row 2: job 12345.batch: End: "x" is no time`},
	} {
		t.Run(name, func(t *testing.T) {
			runs, err := parseFinished([]byte(test.text), testMark)
			require.EqualError(t, err, test.err)
			require.Nil(t, runs)
		})
	}
}

func TestParseCPUTime(t *testing.T) {
	for text, want := range map[string]int64{
		"":               Unknown,
		"00:00:00":       0,
		"00:00.001":      1_000,
		"03:04.567":      184_567_000,
		"00:03:04":       184_000_000,
		"02:03:04":       7_384_000_000,
		"1-02:03:04":     93_784_000_000,
		"00:01.5":        1_500_000,
		"00:01.123456":   1_123_456,
		"12345-00:00:00": 12345 * 86400 * 1_000_000,
	} {
		got, err := parseCPUTime([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"x", "1", "00:01.", "00:01.1234567", "00:01.1x", "213503982-00:00"} {
		_, err := parseCPUTime([]byte(text))
		require.EqualError(t, err, fmt.Sprintf("%q is no time span", text))
	}
}

func TestRealFinished(t *testing.T) {
	find := func(path string, id int64) (found []Finished) {
		runs, err := parseFinished(readFile(t, path), testMark)
		require.NoError(t, err)
		for _, r := range runs {
			if r.ID == id {
				found = append(found, r)
			}
		}
		return found
	}
	steps := plainFinished()
	steps.ID, steps.Display, steps.CPUTime, steps.MemoryPeak, steps.Energy = 54, "54", 3417000, 227252<<10, Unknown
	require.Equal(t, []Finished{steps}, find("26.05/sacct.txt", 54))
	steps.CPUTime, steps.MemoryPeak = Unknown, Unknown
	require.Equal(t, []Finished{steps}, find("26.05/sacct-x.txt", 54), "without steps")

	steps.Submit, steps.Eligible, steps.Start, steps.End, steps.Elapsed = 1795273659, 1795273659, 1795273662, 1795273674, 12
	steps.CPUTime, steps.MemoryPeak = 4728000, 430684<<10
	require.Equal(t, []Finished{steps}, find("24.11/sacct.txt", 54))

	requeued := plainFinished()
	requeued.ID, requeued.Display, requeued.State, requeued.NodeList = 97, "97", "REQUEUED", "cpu04"
	requeued.Submit, requeued.Eligible, requeued.Start, requeued.End, requeued.Elapsed = 1795272517, 1795272517, 1795272525, 1795272526, 1
	requeued.Nodes, requeued.CPUs, requeued.Memory, requeued.StepsUntold = 1, 2, 100<<20, true
	again := requeued
	again.State, again.NodeList, again.Submit, again.Eligible, again.Start, again.End = "CANCELLED", "", 1795272530, 1795272651, 0, 1795272532
	again.Elapsed, again.CPUs, again.StepsUntold = 0, 1, false
	require.Equal(t, []Finished{requeued, again}, find("22.05/sacct-requeued.txt", 97))

	for path, id := range map[string]int64{"22.05/sacct-requeued.txt": 99, "24.11/sacct.txt": 57, "26.05/sacct.txt": 57} {
		cancelled := find(path, id)
		require.Len(t, cancelled, 1)
		require.Equal(t, int64(306), cancelled[0].Tasks, "as asked for: 1-2000:7 and 20 more")
	}

	// Just after the end of 65 its batch step had not told, and 63 and 64 are of odd accounts.
	untold := find("26.05/sacct-untold.txt", 65)
	require.Len(t, untold, 1)
	require.True(t, untold[0].StepsUntold)
	require.Equal(t, []int64{Unknown, Unknown}, []int64{untold[0].CPUTime, untold[0].MemoryPeak})
	require.Equal(t, "nl\n4|x", find("26.05/sacct-untold.txt", 63)[0].Account)
	require.Equal(t, "a|b c", find("26.05/sacct-untold.txt", 64)[0].Account)
}

// What the rows say of states and exit codes is what the jobs were made to do.
func TestRealFinishedStates(t *testing.T) {
	want := map[string]string{
		"4": "FAILED 3:0", "5": "COMPLETED 0:0", "8": "CANCELLED 0:0", "31": "FAILED 1:0", "6_1": "FAILED 1:0",
		"6_2": "COMPLETED 0:0", "6_3": "FAILED 0:9",
	}
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		runs, err := parseFinished(readFile(t, version+"/sacct.txt"), testMark)
		require.NoError(t, err)
		got := map[string]string{}
		for _, r := range runs {
			if want[r.Display] != "" {
				got[r.Display] = fmt.Sprintf("%s %d:%d", r.State, r.ExitCode, r.Signal)
			}
			require.Equal(t, r.NodeList != "", r.Start > 0, r.Display)
			require.GreaterOrEqual(t, r.End, r.Start, r.Display)
			require.Positive(t, r.CPUs, r.Display)
			require.Positive(t, r.Memory, r.Display)
		}
		require.Equal(t, want, got, version)
	}
}

func TestClientFinished(t *testing.T) {
	const fields = "JobIDRaw,JobID,User,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS," +
		"ReqTRES,AllocTRES,NodeList,Account,ConsumedEnergyRaw,TotalCPU,TRESUsageInTot"
	const command = "sacct --local -a -D -p -n --delimiter=|" + testMark + " -S 2026-11-21T14:46:37 -E 2026-11-21T14:46:38 " +
		"--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO -o " + fields
	text := finishedRow(finishedEnd, "2026-11-21T14:46:36") + finishedRow() + finishedRow(finishedEnd, "2026-11-21T14:46:38")
	runs1, err := runs(t, command, text).Finished(t.Context(), 1795272397, 1795272398, true)
	require.NoError(t, err)
	require.Equal(t, []Finished{plainFinished()}, runs1, "sacct gives those that ended at until, too")
	runs1, err = runs(t, command+" -X", "").Finished(t.Context(), 1795272397, 1795272398, false)
	require.NoError(t, err)
	require.Empty(t, runs1)
	_, err = runs(t, command, "x").Finished(t.Context(), 1795272397, 1795272398, true)
	require.EqualError(t, err, `sacct: row 1: 0 fields instead of 22: "x"`)
	_, err = failing().Finished(t.Context(), 0, 1, true)
	require.ErrorIs(t, err, errUnreachable)
	_, err = (&Client{}).Finished(t.Context(), 0, 1, true)
	require.EqualError(t, err, `sacct: the mark "" cannot end rows`)
}

// FuzzFinished renders a run and its step, and finds them again.
func FuzzFinished(f *testing.F) {
	f.Add("alice", "physics", int64(1), uint32(11), uint16(4), uint32(3417), uint32(12952), uint16(3))
	f.Add("", "nl\n4|x", int64(0), uint32(0), uint16(0), uint32(0), uint32(0), uint16(0))
	f.Fuzz(func(t *testing.T, user, account string, id int64, elapsed uint32, cpus uint16, millis, memory uint32, gpus uint16) {
		if id < 0 || strings.Contains(user+account, testMark) || strings.HasSuffix(user, "|") || strings.HasSuffix(account, "|") {
			return
		}
		end := int64(1795272386) + int64(elapsed)
		stamp := time.Unix(end, 0).UTC().Format("2006-01-02T15:04:05")
		hours := millis / 3600000
		cpu := fmt.Sprintf("%02d:%02d.%03d", millis/60000%60, millis/1000%60, millis%1000)
		want := plainFinished()
		want.CPUTime = int64(millis) * 1000
		if hours > 0 {
			cpu = fmt.Sprintf("%d-%02d:%02d:%02d", hours/24, hours%24, millis/60000%60, millis/1000%60)
			want.CPUTime = int64(millis) / 1000 * 1000_000
		}
		text := finishedRow(finishedJobIDRaw, id, finishedJobID, id, finishedUser, user, finishedAccount, account, finishedEnd, stamp,
			finishedElapsed, elapsed, finishedAllocTRES, fmt.Sprintf("cpu=%d,mem=1000M,node=2,gres/gpu=%d", cpus, gpus), finishedTotalCPU, cpu) +
			stepRow(finishedJobIDRaw, fmt.Sprintf("%d.0", id), finishedAccount, account, finishedEnd, stamp, finishedUsage,
				fmt.Sprintf("cpu=00:00:00,mem=%dK,vmem=9K", memory))
		want.ID, want.Display, want.End, want.Elapsed, want.CPUs = id, strconv.FormatInt(id, 10), end, int64(elapsed), int64(cpus)
		want.User, want.Account, want.MemoryPeak = textOf([]byte(user)), textOf([]byte(account)), int64(memory)<<10
		if gpus > 0 {
			want.GPUs = []GPUs{{"", int64(gpus)}}
		}
		runs, err := parseFinished([]byte(text+text), testMark)
		require.NoError(t, err)
		require.Equal(t, []Finished{want, want}, runs)
	})
}

// FuzzFinishedText makes sure that each sound row is a run or a step.
func FuzzFinishedText(f *testing.F) {
	f.Add(readFile(f, "22.05/sacct-requeued.txt"))
	f.Add(readFile(f, "26.05/sacct-untold.txt"))
	f.Fuzz(func(t *testing.T, text []byte) {
		runs, err := parseFinished(text, testMark)
		if err != nil {
			require.Nil(t, runs)
			return
		}
		require.LessOrEqual(t, len(runs), strings.Count(string(text), "|"+testMark+"\n"))
		for _, r := range runs {
			require.Positive(t, r.Tasks)
			require.GreaterOrEqual(t, r.End, int64(0))
			if r.StepsUntold {
				require.Equal(t, []int64{Unknown, Unknown}, []int64{r.CPUTime, r.MemoryPeak})
			}
		}
	})
}

// The shares of a tree of accounts, rendered as sshare does, come back as they were.
func FuzzShares(f *testing.F) {
	f.Add("physics", "alice", uint8(3), int64(7), 0.25)
	f.Add("a|b c", "", uint8(0), int64(0), math.Inf(1))
	f.Fuzz(func(t *testing.T, account, user string, depth uint8, usage int64, level float64) {
		if usage < 0 || strings.ContainsAny(account, "\n") || strings.ContainsAny(user, "\n|") || strings.HasPrefix(account, " ") {
			return
		}
		var text strings.Builder
		want := make([]Share, 0, int(depth)+2)
		parent, blanks := "", ""
		row := func(account, user string) {
			fmt.Fprintf(&text, "%s%s|%s||1|%f|%d|%f|%f||%f\n", blanks, account, user, level, usage, level, level, level)
			printed, err := parseShareOf(fmt.Appendf(nil, "%f", level))
			require.NoError(t, err)
			want = append(want, Share{account, user, "", parent, 1, printed, usage, printed, printed, math.NaN(), printed})
			blanks += " "
		}
		for i := range depth {
			above := fmt.Sprint("above", i)
			row(above, "")
			parent = above
		}
		row(account, "")
		if user != "" {
			row(account, user)
		}
		shares, err := parseShares([]byte(text.String()))
		require.NoError(t, err)
		equalShares(t, want, shares)
	})
}

// Parsing what ended on a large site, each with its batch step, its extern step and one more; and without steps.
func BenchmarkFinished(b *testing.B) {
	for _, steps := range []bool{false, true} {
		b.Run(map[bool]string{false: "jobs", true: "steps"}[steps], func(b *testing.B) {
			var text strings.Builder
			for i := range 10000 {
				text.WriteString(finishedRow(finishedJobIDRaw, i, finishedJobID, i, finishedUser, fmt.Sprintf("user%d", i%300),
					finishedNodeList, fmt.Sprintf("cpu%04d", i%2000), finishedAllocTRES,
					fmt.Sprintf("billing=4,cpu=4,gres/gpu:a100=%d,gres/gpu=%d,mem=62.50G,node=2", i%5, i%5)))
				for _, step := range []string{"batch", "extern", "0"} {
					if steps {
						text.WriteString(stepRow(finishedJobIDRaw, fmt.Sprintf("%d.%s", i, step)))
					}
				}
			}
			rows := []byte(text.String())
			b.SetBytes(int64(len(rows)))
			b.ReportAllocs()
			for b.Loop() {
				runs, err := parseFinished(rows, testMark)
				if err != nil || len(runs) != 10000 {
					b.Fatal(len(runs), err)
				}
			}
		})
	}
}
