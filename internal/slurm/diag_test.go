package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const diagHead = "*******\nsdiag output at Sat Nov 21 09:14:32 2026 (1795252472)\nData since      Sat Nov 21 09:13:34 2026 (1795252414)\n*******\n"

func TestRealDiag(t *testing.T) {
	// What 22.05 prints, and what came with 24.11.
	old := map[string]int64{
		"server_thread_count": 3, "agent_queue_size": 0, "agent_count": 0, "agent_thread_count": 0, "dbd_agent_queue_size": 0,
		"jobs_submitted": 1576, "jobs_started": 27, "jobs_completed": 34, "jobs_canceled": 58, "jobs_failed": 0,
		"job_states_ts": 1795273787, "jobs_pending": 551, "jobs_running": 8,
		"main_last_cycle": 158, "main_max_cycle": 72180, "main_total_cycles": 450, "main_mean_cycle": 434,
		"main_mean_depth_cycle": 8, "main_cycles_per_minute": 12, "main_last_queue_length": 6,
		"backfill_total_backfilled_jobs_since_last_slurm_start":       18,
		"backfill_total_backfilled_jobs_since_last_stats_cycle_start": 18,
		"backfill_total_backfilled_heterogeneous_job_components":      2,
		"backfill_total_cycles":                                       142, "backfill_last_cycle_when": 1795273801, "backfill_last_cycle": 4798,
		"backfill_max_cycle": 219343, "backfill_mean_cycle": 7150, "backfill_last_depth_cycle": 37,
		"backfill_last_depth_cycle_try_sched": 35, "backfill_depth_mean": 35, "backfill_depth_mean_try_depth": 32,
		"backfill_last_queue_length": 6, "backfill_queue_length_mean": 8, "backfill_last_table_size": 28,
		"backfill_mean_table_size": 25, "latency_for_1000_calls_to_gettimeofday": 27,
	}
	diag, err := parseDiag(readFile(t, "22.05/sdiag.txt"))
	require.NoError(t, err)
	require.Equal(t, int64(1795273810), diag.Time)
	require.Equal(t, int64(1795271674), diag.Since)
	require.Equal(t, old, diag.Values)
	require.Len(t, diag.ByType, 21)
	require.Equal(t, RPC{2009, "REQUEST_PARTITION_INFO", 118, 40241}, diag.ByType[0])
	require.Equal(t, RPC{10001, "ACCOUNTING_UPDATE_MSG", 6, 2331}, diag.ByType[14])
	require.Equal(t, []RPC{{0, "root", 537, 1793605}, {1001, "alice", 71, 63874}, {64030, "slurm", 6, 2331}, {1002, "bob", 1, 580}}, diag.ByUser)
	require.Empty(t, diag.Pending)

	for _, version := range []string{"24.11", "26.05"} {
		newer, err := parseDiag(readFile(t, version+"/sdiag.txt"))
		require.NoError(t, err)
		for name := range old {
			require.Contains(t, newer.Values, name, version)
			delete(newer.Values, name)
		}
		if version == "26.05" {
			require.Equal(t, map[string]int64{
				"rpc_queue_enabled": 0, "main_exit_end_of_job_queue": 43, "main_exit_hit_default_queue_depth": 0,
				"main_exit_hit_sched_max_job_start": 0, "main_exit_blocked_on_licenses": 0, "main_exit_hit_max_rpc_cnt": 0,
				"main_exit_timeout_max_sched_time": 0, "backfill_exit_end_of_job_queue": 13, "backfill_exit_hit_bf_max_job_start": 0,
				"backfill_exit_hit_bf_max_job_test": 0, "backfill_exit_system_state_changed": 0,
				"backfill_exit_hit_table_size_limit_bf_node_space_size": 0, "backfill_exit_timeout_bf_max_time": 0,
			}, newer.Values)
		}
		require.Len(t, newer.Values, 13, version)
	}
}

// Each RPC is of one type and of one user.
func TestRealRPCs(t *testing.T) {
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		diag, err := parseDiag(readFile(t, version+"/sdiag.txt"))
		require.NoError(t, err)
		sum := func(rpcs []RPC) (count, usecs int64) {
			for _, r := range rpcs {
				count, usecs = count+r.Count, usecs+r.Time
			}
			return count, usecs
		}
		types, typeTime := sum(diag.ByType)
		users, userTime := sum(diag.ByUser)
		require.Positive(t, types)
		require.Equal(t, types, users, version)
		require.Equal(t, typeTime, userTime, version)
	}
}

func TestDiag(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Diag
	}{
		"nothing more": {"", Diag{}},
		"no cycle yet": {"Main schedule statistics (microseconds):\n\tLast cycle:   0\n\nBackfilling stats\n\tLast cycle when: N/A\n", Diag{
			Values: map[string]int64{"main_last_cycle": 0},
		}},
		"in the middle of a cycle": {"Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)\n\tLast cycle: 3\n", Diag{
			Values: map[string]int64{"backfill_last_cycle": 3},
		}},
		"a section that is not known": {"Power saving:\n\tNodes up:  7\n\tLoad: 0.5\n\tMode: fast\nPer-node things\n  Longest wait: 3 seconds\n", Diag{
			Values: map[string]int64{"power_saving_nodes_up": 7, "per_node_things_longest_wait": 3},
		}},
		"alone behind a section": {"Backfill exit\n\tSystem state changed: 0\n\nBytes sent: 17\nQueues: none\n", Diag{
			Values: map[string]int64{"backfill_exit_system_state_changed": 0, "bytes_sent": 17},
		}},
		"RPCs that are queued": {"Remote Procedure Call statistics by message type\n" +
			"\tREQUEST_PING                            ( 1008) count:3      ave_time:112    total_time:338          queued:2      cycle_last:1      cycle_max:5      dropped:0\n", Diag{
			ByType: []RPC{{1008, "REQUEST_PING", 3, 338}},
		}},
		"no RPCs": {"Remote Procedure Call statistics by message type\n\tNo RPCs recorded yet.\n\nRemote Procedure Call statistics by user\n", Diag{}},
		"users of odd names": {"Remote Procedure Call statistics by user\n" +
			"\tfirstname.familyname@EXAMPLE.ORG(  100001) count:1      ave_time:1      total_time:1\n" +
			"\tcount:9 (0) a   (  100002) count:2      ave_time:1      total_time:2\n" +
			"\tnobody          (   65534) count:3      ave_time:1      total_time:3\n" +
			"\tnobody          (    1003) count:4      ave_time:1      total_time:4\n" +
			"\t                (    1004) count:5      ave_time:1      total_time:5\n" +
			"\talice           (    1005) count:6      ave_time:1      total_time:6\n" +
			"\talice           (   66541) count:7      ave_time:1      total_time:7\n", Diag{ByUser: []RPC{
			{100001, "firstname.familyname@EXAMPLE.ORG", 1, 1}, {100002, "count:9 (0) a", 2, 2}, {65534, "nobody", 3, 3},
			{1003, "1003", 4, 4}, {1004, "1004", 5, 5}, {1005, "alice", 6, 6}, {66541, "66541", 7, 7},
		}}},
		"RPCs that wait to be sent": {"Pending RPC statistics\n\tREQUEST_TERMINATE_JOB                   ( 6011) count:12    \n" +
			"\tREQUEST_PING                            ( 1008) count:1     \n\nPending RPCs\n" +
			"\t 1: REQUEST_TERMINATE_JOB                cpu01,count:7\n\t 2: REQUEST_PING                         cpu[01-04]\n", Diag{
			Pending: []RPC{{6011, "REQUEST_TERMINATE_JOB", 12, 0}, {1008, "REQUEST_PING", 1, 0}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.Time, test.want.Since = 1795252472, 1795252414
			if test.want.Values == nil {
				test.want.Values = map[string]int64{}
			}
			diag, err := parseDiag([]byte(diagHead + test.text))
			require.NoError(t, err)
			require.Equal(t, test.want, diag)
		})
	}
}

func TestDiagErrors(t *testing.T) {
	const types = "Remote Procedure Call statistics by message type\n"
	for name, test := range map[string]struct{ text, err string }{
		"nothing":    {"", "no line tells when it was made"},
		"a sentence": {"No data available. Probably slurmctld is not working\n", "no line tells when it was made"},
		"no time":    {"sdiag output at Sat Nov 21\n", `line 1: "sdiag output at Sat Nov 21" tells no time`},
		"odd since":  {"sdiag output at x (1)\nData since y (z)\n", `line 2: "Data since y (z)" tells no time`},
		"no number":  {diagHead + types + "\tREQUEST_PING count:3\n", `line 6: "REQUEST_PING count:3" has no number`},
		"no count":   {diagHead + types + "\tREQUEST_PING ( 1008) count:x total_time:1\n", `line 6: REQUEST_PING: count: "x" is no number`},
		"no sum":     {diagHead + types + "\tREQUEST_PING ( 1008) count:1 total_time:-1\n", `line 6: REQUEST_PING: total_time: "-1" is no number`},
	} {
		t.Run(name, func(t *testing.T) {
			diag, err := parseDiag([]byte(test.text))
			require.EqualError(t, err, test.err)
			require.Equal(t, Diag{}, diag)
		})
	}
}

func TestClientDiag(t *testing.T) {
	diag, err := runs(t, "sdiag", diagHead).Diag(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1795252472), diag.Time)
	_, err = runs(t, "sdiag", "x\n").Diag(t.Context())
	require.EqualError(t, err, "sdiag: no line tells when it was made")
	_, err = failing().Diag(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

// Whatever users are called, their RPCs are counted.
func FuzzDiagUsers(f *testing.F) {
	f.Add("alice", int64(1000), int64(3), int64(7))
	f.Add("a (1) count:2 b", int64(0), int64(0), int64(0))
	f.Add("", int64(1), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, name string, id, count, usecs int64) {
		if id < 0 || count < 0 || usecs < 0 || strings.ContainsAny(name, "\n\r") {
			return
		}
		text := diagHead + "Remote Procedure Call statistics by user\n" +
			fmt.Sprintf("\t%-16s(%8d) count:%-6d ave_time:%-6d total_time:%d\n", name, id, count, usecs/max(count, 1), usecs) +
			"\nPending RPC statistics\n\tNo pending RPCs\n"
		diag, err := parseDiag([]byte(text))
		require.NoError(t, err)
		require.Len(t, diag.ByUser, 1)
		want := RPC{id, strings.TrimSpace(name), count, usecs}
		if want.Name == "" || want.Name == "nobody" && id != 65534 {
			want.Name = strconv.FormatInt(id, 10)
		}
		require.Equal(t, want, diag.ByUser[0])
	})
}

// Each value is named after a line of the text that has that number.
func FuzzDiag(f *testing.F) {
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		f.Add(string(readFile(f, version+"/sdiag.txt")))
	}
	f.Add(diagHead + "Foo (x):\n\ta b: 1 c\n")
	f.Fuzz(func(t *testing.T, text string) {
		diag, err := parseDiag([]byte(text))
		if err != nil {
			return
		}
		require.NotZero(t, diag.Time)
		for name, value := range diag.Values {
			require.Equal(t, name, snakeCase([]byte(name)), "%q", name)
			require.Contains(t, strings.NewReplacer("0", "", " ", "").Replace(text), strings.ReplaceAll(strconv.FormatInt(value, 10), "0", ""))
		}
		for _, rpc := range append(append(diag.ByType, diag.ByUser...), diag.Pending...) {
			require.GreaterOrEqual(t, rpc.Count, int64(0))
			require.GreaterOrEqual(t, rpc.Time, int64(0))
		}
	})
}

func BenchmarkDiag(b *testing.B) {
	text := readFile(b, "24.11/sdiag.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseDiag(text); err != nil {
			b.Fatal(err)
		}
	}
}
