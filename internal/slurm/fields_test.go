package slurm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJobFields(t *testing.T) {
	running := Job{
		ID: 7, ArrayID: 5, ArrayTask: "2", State: "RUNNING", Tasks: 1, CPUs: 4, Nodes: 2, Memory: 1024, GPUs: []GPUs{{"a100", 2}, {"", 1}},
		Submit: 1, Eligible: 2, Start: 3, End: 9, TimeLimit: 60, NodeList: "n[1-2]",
	}
	require.Equal(t, map[string]any{
		"job": "5_2", "job_id": int64(7), "array_job_id": int64(5), "state": "RUNNING", "tasks": int64(1), "cpus": int64(4), "nodes": int64(2),
		"memory_bytes": int64(1024), "gpus": int64(3), "submit": int64(1), "eligible": int64(2), "start": int64(3), "limit_seconds": int64(60),
		"node_list": "n[1-2]",
	}, running.Fields(), "its end is when the limit is reached")
	pending := Job{ID: 8, HetID: 8, State: "PENDING", Tasks: 1, CPUs: 1, Nodes: 1, Memory: Unknown, TimeLimit: Unlimited, Start: 99, Reason: "Priority"}
	require.Equal(t, map[string]any{
		"job": "8+0", "job_id": int64(8), "het_job_id": int64(8), "state": "PENDING", "tasks": int64(1), "cpus": int64(1), "nodes": int64(1),
		"gpus": int64(0), "reason": "Priority",
	}, pending.Fields(), "its start is an estimate")
	ended := Job{ID: 9, State: "FAILED", Tasks: 1, Memory: Unknown, TimeLimit: Unknown, Start: 5, End: 6}
	require.Equal(t, map[string]any{
		"job": "9", "job_id": int64(9), "state": "FAILED", "tasks": int64(1), "cpus": int64(0), "nodes": int64(0), "gpus": int64(0), "start": int64(5),
		"end": int64(6),
	}, ended.Fields())
}

func TestFinishedFields(t *testing.T) {
	run := Finished{
		ID: 7, Display: "5_2", State: "FAILED", ExitCode: 3, Signal: 9, Submit: 1, Eligible: 100, Start: 130, End: 140, Elapsed: 10, TimeLimit: 60,
		Nodes: 2, CPUs: 4, Memory: 1000, GPUs: []GPUs{{"a100", 2}}, NodeList: "n[1-2]", Energy: 5, CPUTime: 30_500_000, MemoryPeak: 250,
	}
	require.Equal(t, map[string]any{
		"job": "5_2", "job_id": int64(7), "exit_code": int64(3), "signal": int64(9), "submit": int64(1), "start": int64(130), "end": int64(140),
		"wait_seconds": int64(30), "elapsed_seconds": int64(10), "limit_seconds": int64(60), "cpus": int64(4), "nodes": int64(2), "gpus": int64(2),
		"memory_bytes": int64(1000), "memory_peak_bytes": int64(250), "memory_efficiency": 0.25, "cpu_used_seconds": 30.5, "cpu_efficiency": 0.7625,
		"energy_joules": int64(5), "node_list": "n[1-2]",
	}, run.Fields())
	never := Finished{ID: 8, Display: "8_[3-9]", Submit: 1, End: 140, TimeLimit: Unlimited, CPUs: 1, Nodes: 1, Memory: Unknown, Energy: Unknown, CPUTime: Unknown, MemoryPeak: Unknown}
	require.Equal(t, map[string]any{
		"job": "8_[3-9]", "job_id": int64(8), "exit_code": int64(0), "signal": int64(0), "submit": int64(1), "end": int64(140), "elapsed_seconds": int64(0),
		"cpus": int64(1), "nodes": int64(1), "gpus": int64(0),
	}, never.Fields(), "what is not known is left out")
	require.Zero(t, (&Finished{Eligible: 9, Start: 5}).Wait(), "it was changed while it ran")
}

func TestFinishedWithoutAccounting(t *testing.T) {
	c := Client{Mark: testMark, Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errNoSacct }}
	_, err := c.Finished(t.Context(), 0, 1, true)
	require.ErrorIs(t, err, ErrNoAccounting)
	require.EqualError(t, err, "no accounting: sacct: exit status 1: Slurm accounting storage is disabled")
}
