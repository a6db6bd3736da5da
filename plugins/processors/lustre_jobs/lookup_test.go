package lustre_jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// askedPlugin gives a plugin to which servers told of some ids, and an asker with a Slurm that answers as run says.
func askedPlugin(t *testing.T, run func(name string, args []string) ([]byte, error), ids ...string) (*LustreJobs, *asker, *testutil.Accumulator) {
	t.Helper()
	p := newPlugin()
	p.StateDirectory, p.Slurm, p.Cluster, p.Log = t.TempDir(), "commands", "hpc", testutil.Logger{Quiet: true}
	p.now = func() time.Time { return time.Unix(1767225600, 0) }
	require.NoError(t, p.Init())
	out := &testutil.Accumulator{}
	require.NoError(t, p.open(out, p.now()))
	t.Cleanup(func() {
		p.done.Wait()
		require.NoError(t, p.ledger.store.close())
	})
	for _, id := range ids {
		require.True(t, p.AddLine(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=%s,kind=ost,target=t epoch=1767225500000000000i,ops=2i 1767225600000000000", id)))
	}
	a := newAsker(p)
	a.client.Run = func(_ context.Context, name string, args ...string) ([]byte, error) { return run(name, args) }
	return p, a, out
}

// answers gives a run for asker's client: what a command says that asks for one id, by its name and the id, or for all, by
// its name.
func answers(asked *[]string, texts map[string]string) func(name string, args []string) ([]byte, error) {
	return func(name string, args []string) ([]byte, error) {
		if i := slices.Index(args, "-j"); i >= 0 {
			name += " " + args[i+1]
			*asked = append(*asked, name)
			if _, ok := texts[name]; !ok && strings.HasPrefix(name, "squeue") {
				return nil, errors.New("squeue: slurm_load_jobs error: Invalid job id specified")
			}
		}
		if text, ok := strings.CutPrefix(texts[name], "error "); ok {
			return nil, errors.New(text)
		}
		return []byte(texts[name]), nil
	}
}

func TestLookups(t *testing.T) {
	var asked []string
	p, a, out := askedPlugin(t, answers(&asked, map[string]string{
		"sacct 71": "71|70_1|COMPLETED|cpu|alice|normal|2025-12-31T00:00:00|2025-12-31T00:01:00|2025-12-31T01:00:00|physics\n",
	}), "71", "99", "bash.1000")
	p.emit(time.Unix(1767225600, 0))
	require.Equal(t, []string{"bash.1000 _unknown _unknown "}, jobsIn(out), "no job can have that id")

	require.NoError(t, a.round(t.Context()))
	require.Equal(t, []string{"squeue 71", "sacct 71", "squeue 99", "sacct 99"}, asked)
	p.emit(time.Unix(1767225630, 0))
	require.Equal(t, []string{"70_1 alice physics hpc", "99 _unknown _unknown ", "bash.1000 _unknown _unknown "}, jobsIn(out))

	asked = nil
	require.NoError(t, a.round(t.Context()))
	require.Empty(t, asked, "what is known is asked for once")
	require.Empty(t, p.ledger.slurm.noJobs)
}

// An id that Slurm always fails at does not keep others from being asked for.
func TestLookupsGoOn(t *testing.T) {
	var asked []string
	_, a, _ := askedPlugin(t, answers(&asked, map[string]string{"sacct 71": "nonsense\n"}), "71", "72")
	for range 2 {
		require.EqualError(t, a.round(t.Context()), `job 71: sacct: 1 fields instead of 10: "nonsense"`)
	}
	require.Equal(t, []string{"squeue 71", "sacct 71", "squeue 72", "sacct 72", "squeue 71", "sacct 71"}, asked)
}

// finishedText is what sacct prints of a run, with the step that tells what it used, or without.
func finishedText(mark string, used bool) string {
	job := []string{
		"71", "70_1", "alice", "cpu", "normal", "COMPLETED", "0:0", "2025-12-31T23:58:00", "2025-12-31T23:58:00", "2025-12-31T23:59:00",
		"2026-01-01T00:00:00", "60", "5", "1", "4", "", "billing=4,cpu=4,gres/gpu=2,mem=1000M,node=1", "cpu02", "physics", "", "03:00.000", "",
	}
	step := []string{
		"71.batch", "70_1.batch", "", "", "", "COMPLETED", "0:0", "2025-12-31T23:59:00", "2025-12-31T23:59:00", "2025-12-31T23:59:00",
		"2026-01-01T00:00:00", "60", "", "1", "4", "", "cpu=4,mem=1000M,node=1", "cpu02", "physics", "0", "03:00.000", "",
	}
	if used {
		step[len(step)-1] = "cpu=00:03:00,energy=0,mem=250M,pages=0"
	}
	separator := "|" + mark
	return strings.Join(job, separator) + separator + "\n" + strings.Join(step, separator) + separator + "\n"
}

func reportsIn(out *testutil.Accumulator) (lines []string) {
	for _, m := range out.GetTelegrafMetrics() {
		if m.Name() == measurementReport {
			lines = append(lines, fmt.Sprint(m.Tags(), m.Fields(), m.Time().UnixNano()))
		}
	}
	return lines
}

// What slurmdbd says of a job that ended is in its report as if slurm_load had told it: what it used, too, though slurmdbd
// learns that last.
func TestReportByCommands(t *testing.T) {
	texts := make(map[string]string)
	var asked []string
	p, a, out := askedPlugin(t, answers(&asked, texts), "71")
	clock := time.Unix(1767225630, 0)
	p.now = func() time.Time { return clock }
	for _, text := range []string{finishedText(a.client.Mark, false), finishedText(a.client.Mark, true), finishedText(a.client.Mark, true)} {
		texts["sacct"] = text
		require.NoError(t, a.round(t.Context()))
		p.emit(clock)
		require.Empty(t, reportsIn(out), "before report_delay")
		clock = clock.Add(time.Minute)
	}
	clock = clock.Add(8 * time.Minute)
	p.emit(clock)
	got := reportsIn(out)
	require.Len(t, got, 1)

	q := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm = "stream" })
	q.add(`lustre_jobstats_epoch,fs=s,job=71,kind=ost,target=t epoch=1767225500000000000i,ops=2i 1767225600000000000
slurm_finished,account=physics,cluster=hpc,partition=cpu,qos=normal,state=COMPLETED,user=alice job="70_1",job_id=71i,exit_code=0i,signal=0i,submit=1767225480i,` +
		`start=1767225540i,end=1767225600i,wait_seconds=60i,elapsed_seconds=60i,limit_seconds=300i,cpus=4i,nodes=1i,gpus=2i,memory_bytes=1048576000i,` +
		`memory_peak_bytes=262144000i,memory_efficiency=0.25,cpu_used_seconds=180,cpu_efficiency=0.75,node_list="cpu02" 1767225600000000071`)
	q.next(10 * time.Minute)
	require.Equal(t, reportsIn(q.out), got)
	q.close()

	require.NoError(t, a.round(t.Context()))
	p.emit(clock.Add(time.Hour))
	require.Len(t, reportsIn(out), 1, "it is reported once")
	require.Empty(t, asked, "slurmdbd tells of all jobs at once")
}

// Jobs that ended while the plugin was not running, for days, are asked for an hour at a time; one that Slurm has forgotten is
// lost.
func TestReportByCommandsAfterAnOutage(t *testing.T) {
	var asked, windows []string
	texts := make(map[string]string)
	run := answers(&asked, texts)
	p, a, out := askedPlugin(t, func(name string, args []string) ([]byte, error) {
		if i := slices.Index(args, "-S"); name == "sacct" && i >= 0 {
			windows = append(windows, args[i+1]+" "+args[i+3])
			if len(windows) > 1 {
				return nil, nil
			}
		}
		return run(name, args)
	})
	clock := time.Unix(1767225600, 0)
	p.now = func() time.Time { return clock }
	for _, id := range []int64{71, 72} {
		p.ledger.tell(&row{id: id, display: "x", user: "alice", state: "RUNNING", start: 1767225540}, clock.UnixNano())
	}
	texts["sacct"] = finishedText(a.client.Mark, true)
	clock = clock.Add(150 * time.Minute)
	require.NoError(t, a.round(t.Context()))
	require.Equal(t, []string{"2026-01-01T00:00:00 2026-01-01T01:00:00", "2026-01-01T01:00:00 2026-01-01T02:00:00", "2026-01-01T02:00:00 2026-01-01T02:30:00"}, windows)
	require.Equal(t, []string{"squeue 72", "sacct 72"}, asked)
	p.ledger.store.started = clock.Add(-2 * foldAge)
	p.emit(clock)
	p.done.Wait()
	p.emit(clock.Add(10 * time.Minute))
	require.Len(t, reportsIn(out), 1)
	require.Equal(t, int64(1), p.ledger.stats.lost)
	require.NotContains(t, p.ledger.jobs, int64(72))
}

func TestNoAccounting(t *testing.T) {
	var asked []string
	_, a, out := askedPlugin(t, answers(&asked, map[string]string{
		"sacct": "error sacct: Slurm accounting storage is disabled", "sacct 71": "error sacct: Slurm accounting storage is disabled",
	}), "71")
	log := &testutil.CaptureLogger{}
	a.plugin.Log = log
	for range 2 {
		require.NoError(t, a.round(t.Context()))
	}
	require.Empty(t, out.Errors)
	require.Len(t, log.Messages(), 1)
	require.Equal(t, "This Slurm has no slurmdbd: what jobs used is not known", log.Messages()[0].Text)
}

// While a command hangs lines are taken and sums are emitted.
func TestLookupsHoldUpNothing(t *testing.T) {
	entered, release := make(chan string), make(chan struct{})
	p, a, out := askedPlugin(t, func(name string, _ []string) ([]byte, error) {
		entered <- name
		<-release
		return nil, errors.New(name + " fails")
	}, "71")
	rounds := make(chan error, 1)
	go func() { rounds <- a.round(t.Context()) }()
	for i, name := range []string{"squeue", "sacct"} {
		require.Equal(t, name, <-entered)
		require.True(t, p.AddLine(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=72,kind=ost,target=t epoch=1767225500000000000i,ops=%di 1767225600000000000", i+1)))
		p.emit(time.Unix(1767225630, 0))
		require.True(t, out.HasMeasurement(measurementFS))
		out.ClearMetrics()
		release <- struct{}{}
	}
	require.EqualError(t, <-rounds, "squeue fails\nsacct fails")
}

// While Slurm does not answer, what servers tell of is counted, and jobs are held back.
func TestLookupsWhileSlurmIsAway(t *testing.T) {
	away := errors.New("squeue: Unable to contact slurm controller")
	p, a, out := askedPlugin(t, func(string, []string) ([]byte, error) { return nil, away }, "71")
	require.ErrorIs(t, a.round(t.Context()), away)
	p.emit(time.Unix(1767225630, 0))
	require.Empty(t, jobsIn(out))
	require.Equal(t, int64(2), p.ledger.byID[0].total.total[fieldOps])

	ctx, stop := context.WithCancel(t.Context())
	stop()
	a.run(ctx) // It ends, and a plugin that is stopped complains of nothing.
	require.Empty(t, out.Errors)
}

func jobsIn(out *testutil.Accumulator) (jobs []string) {
	for _, m := range out.GetTelegrafMetrics() {
		if m.Name() == measurementJob && m.Tags()["job"] != other {
			tags := m.Tags()
			jobs = append(jobs, strings.Join([]string{tags["job"], tags["user"], tags["account"], tags["cluster"]}, " "))
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// Of an end that is told more than once, of runs before a job was put back into the queue, and of what was told before the end
// and comes after it: the job is where it is.
func TestTellOutOfOrder(t *testing.T) {
	const (
		waiting  = "slurm_job PENDING"
		running  = "slurm_job RUNNING"
		finished = "slurm_finished COMPLETED"
		requeued = "slurm_finished REQUEUED"
	)
	type told struct {
		what           string
		at, start, end int64
	}
	for name, tt := range map[string]struct {
		rows       []told
		end, start int64
		state      string
	}{
		"it ended":                       {[]told{{running, 20, 10, 0}, {finished, 100, 10, 100}}, 100, 10, "COMPLETED"},
		"told late that it ran":          {[]told{{finished, 100, 10, 100}, {running, 90, 10, 0}}, 100, 10, "COMPLETED"},
		"that it ran, by another clock":  {[]told{{finished, 100, 10, 100}, {running, 101, 10, 0}}, 100, 10, "COMPLETED"},
		"told late that it waited":       {[]told{{finished, 100, 10, 100}, {waiting, 5, 0, 0}}, 100, 10, "COMPLETED"},
		"back in the queue":              {[]told{{requeued, 100, 10, 100}, {waiting, 130, 0, 0}}, 0, 0, "PENDING"},
		"back in the queue, told again":  {[]told{{requeued, 100, 10, 100}, {waiting, 130, 0, 0}, {requeued, 100, 10, 100}}, 0, 0, "PENDING"},
		"it runs again":                  {[]told{{requeued, 100, 10, 100}, {running, 150, 140, 0}, {requeued, 100, 10, 100}}, 0, 140, "RUNNING"},
		"it runs again, told before":     {[]told{{running, 150, 140, 0}, {requeued, 100, 10, 100}}, 0, 140, "RUNNING"},
		"it ran again":                   {[]told{{requeued, 100, 10, 100}, {waiting, 130, 0, 0}, {finished, 200, 140, 200}, {requeued, 100, 10, 100}}, 200, 140, "COMPLETED"},
		"cancelled before it ran":        {[]told{{waiting, 5, 0, 0}, {"slurm_finished CANCELLED", 50, 0, 50}}, 50, 0, "CANCELLED"},
		"slurmctld told of the end, too": {[]told{{finished, 100, 10, 100}, {"slurm_job COMPLETED", 120, 10, 100}}, 100, 10, "COMPLETED"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(1)
			for _, r := range tt.rows {
				measurement, state, _ := strings.Cut(r.what, " ")
				l.tell(&row{finished: measurement == "slurm_finished", at: r.at, id: 7, display: "7", state: state, start: r.start, end: r.end}, 1000)
			}
			require.Equal(t, tt.end, l.jobs[7].End)
			require.Equal(t, tt.start, l.jobs[7].Start)
			require.Equal(t, tt.state, l.jobs[7].State)
		})
	}
}
