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

	"telegraf-hpc/internal/slurm"
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
	t.Cleanup(func() { require.NoError(t, p.ledger.store.close()) })
	for _, id := range ids {
		require.True(t, p.AddLine(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=%s,kind=ost,target=t epoch=1767225500000000000i,ops=2i 1767225600000000000", id)))
	}
	a := newAsker(p)
	a.client.Run = func(_ context.Context, name string, args ...string) ([]byte, error) { return run(name, args) }
	return p, a, out
}

func TestLookups(t *testing.T) {
	var asked []string
	run := func(name string, args []string) ([]byte, error) {
		i := slices.Index(args, "-j")
		switch {
		case name == "squeue" && i < 0:
			return nil, nil // The queue is empty.
		case name == "squeue":
			asked = append(asked, "squeue "+args[i+1])
			return nil, errors.New("squeue: slurm_load_jobs error: Invalid job id specified")
		case args[i+1] == "71":
			asked = append(asked, "sacct 71")
			return []byte("71|70_1|COMPLETED|cpu|alice|normal|2025-12-31T00:00:00|2025-12-31T00:01:00|2025-12-31T01:00:00|physics\n"), nil
		}
		asked = append(asked, "sacct "+args[i+1])
		return nil, nil
	}
	p, a, out := askedPlugin(t, run, "71", "99", "bash.1000")
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

func TestRowOf(t *testing.T) {
	require.Equal(t, row{
		id: 7, display: "5_2", user: "alice", account: "physics", partition: "cpu", qos: "high", state: "COMPLETED", submit: 1, start: 2, end: 9,
		ints:  map[string]int64{"cpus": 4, "nodes": 1, "gpus": 2, "limit_seconds": 60, "memory_bytes": 1024},
		texts: map[string]string{"node_list": "n1"},
	}, rowOf(&slurm.Job{
		ID: 7, ArrayID: 5, ArrayTask: "2", State: "COMPLETED", Partition: "cpu,all", User: "alice", Account: "physics", QOS: "high", CPUs: 4, Nodes: 1,
		Memory: 1024, GPUs: []slurm.GPUs{{Count: 2}}, Submit: 1, Start: 2, End: 9, TimeLimit: 60, NodeList: "n1",
	}))
}
