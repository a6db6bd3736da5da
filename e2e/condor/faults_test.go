package condor

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// A schedd that hangs, a collector that hangs or is dead, a constraint that is none, a pool that is not there: each is
// said once, none gives zeros, and what is well goes on.
func TestFaultsHideNothingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.CondorOptions{SecondSchedd: true})
	const submit = "executable = /bin/sleep\narguments = 1000\nrequest_cpus = 64\n"
	s.pool.Submit("alice", submit+"queue 3")
	s.pool.Submit("bob", submit+"queue 2", "-name", secondSchedd)
	const options = `
collect = ["queue", "finished", "slots", "schedd"]
timeout = "2s"
`
	s.watch(options+`
[[inputs.condor_q.queue]]
  name = "all"
[[inputs.condor_q.queue]]
  name = "bad"
  constraint = 'Owner =='
`, `
collect = ["queue", "schedd"]
timeout = "2s"
pools = ["127.0.0.1:9618", "127.0.0.1:1"]
`)
	head := map[string]string{"pool": pool, "schedd": headSchedd}
	second := map[string]string{"pool": pool, "schedd": secondSchedd}
	all := func(of map[string]string) map[string]string {
		return map[string]string{"pool": of["pool"], "schedd": of["schedd"], "queue": "all"}
	}
	start := time.Now()
	s.Until("condor_queue", all(head), harness.Row{"idle": 3})
	s.Until("condor_queue", all(second), harness.Row{"idle": 2})
	byName := map[string]string{"pool": "127.0.0.1:9618", "schedd": headSchedd, "queue": "all"}
	s.Until("condor_queue", byName, harness.Row{"idle": 3})
	s.Until("condor_pool", map[string]string{"pool": "127.0.0.1:1"}, harness.Row{"up": 0})
	s.SaidOnce("E", `schedd "head.pool.test": queue "bad": condor_q: exit status 1: -- Parse error in constraint expression "Owner =="`)
	s.SaidOnce("E", `pool "127.0.0.1:1": condor_status: exit status 1: Error: communication error`)

	s.pool.Signal("schedd", syscall.SIGSTOP)
	s.Until("condor_schedd", head, harness.Row{"up": 0})
	s.Until("condor_queue", all(second), harness.Row{"idle": 2})
	s.SaidOnce("E", "schedd \"head.pool.test\": condor_q: still running after 2s")
	s.pool.Signal("schedd", syscall.SIGCONT)
	s.Until("condor_schedd", head, harness.Row{"up": 1})
	s.Until("condor_queue", all(head), harness.Row{"idle": 3})

	s.pool.Signal("collector", syscall.SIGSTOP)
	s.Until("condor_pool", map[string]string{"pool": pool}, harness.Row{"up": 0})
	s.Until("condor_queue", all(head), harness.Row{"idle": 3})
	hung := time.Now()
	s.Until("condor_pool", map[string]string{"pool": pool}, harness.Row{"up": 0})
	_, err := s.Latest(hung, "condor_queue", all(second))
	require.Error(t, err, "it can't be found without the collector")
	_, err = s.Latest(hung, "condor_schedd", second)
	require.Error(t, err, "nobody knows whether it is up")
	s.pool.Signal("collector", syscall.SIGCONT)
	s.Until("condor_pool", map[string]string{"pool": pool}, harness.Row{"up": 1})
	s.Until("condor_queue", all(second), harness.Row{"idle": 2})

	s.pool.Master.Pause() // It would start the collector again.
	require.NoError(t, syscall.Kill(s.pool.Pid("collector"), syscall.SIGKILL))
	s.Until("condor_pool", map[string]string{"pool": pool}, harness.Row{"up": 0})
	s.Until("condor_queue", all(head), harness.Row{"idle": 3})
	s.pool.Master.Continue()
	s.Until("condor_pool", map[string]string{"pool": pool}, harness.Row{"up": 1})
	s.Until("condor_queue", all(second), harness.Row{"idle": 2})

	// Nothing ever looked like an empty queue.
	for _, series := range s.DB.Query(database, `SELECT idle FROM condor_queue WHERE queue = 'all' GROUP BY *`) {
		want := map[string]int64{headSchedd: 3, secondSchedd: 2}[series.Tags["schedd"]]
		for _, row := range series.Rows {
			require.Equal(t, want, row.Int64(t, "idle"), "%v", series.Tags)
		}
	}
	_, err = s.Latest(start, "condor_queue", map[string]string{"queue": "bad", "schedd": headSchedd})
	require.Error(t, err)
	_, err = s.Latest(start, "condor_queue", map[string]string{"pool": "127.0.0.1:1"})
	require.Error(t, err)
	s.Telegraf.Stop()
}
