package node_sensors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
)

func newJobRig(t *testing.T) *rig {
	t.Helper()
	p := newPlugin()
	p.Sensors = []string{"job_cgroups"}
	p.Options.JobCgroups.Interval = 0
	return newRig(t, p)
}

// Jobs start and end all the time while they are read: nobody is told of errors, and no row is of anything but a job.
func TestJobsThatVanish(t *testing.T) {
	r := newJobRig(t)
	r.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
	scopeFolder := filepath.Join(r.root, "sys/fs/cgroup/system.slice", scope)
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for worker := range 3 {
		churn.Go(func() {
			for i := worker; ; i += 3 {
				select {
				case <-stop:
					return
				default:
				}
				folder := filepath.Join(scopeFolder, fmt.Sprintf("job_%d", 1+i%9))
				for _, file := range []string{"cpu.stat", "memory.current", "step_0/user/task_0/cgroup.procs", "step_batch/cgroup.procs"} {
					path := filepath.Join(folder, file)
					_ = os.MkdirAll(filepath.Dir(path), 0o750)
					_ = os.WriteFile(path, []byte("12\n"), 0o600)
				}
				_ = os.RemoveAll(folder)
			}
		})
	}
	rows, most := 0, 300
	if testing.Short() {
		most = 50
	}
	deadline := time.Now().Add(30 * time.Second)
	for gathers := 0; gathers < most || rows == 0; gathers++ {
		require.Less(t, time.Now(), deadline, "no job was ever seen")
		metrics, errs := r.gather()
		for _, err := range errs {
			// The file is there, but nothing has been written to it yet: a kernel's files are never so.
			require.ErrorContains(t, err, `parsing "": invalid syntax`)
		}
		rows += len(metrics)
		for _, m := range metrics {
			id, _ := m.GetTag("job")
			require.Regexp(t, `^[1-9]$`, id)
		}
	}
	close(stop)
	churn.Wait()
}

// A tree that nobody would make does not make the plugin fail, nor read for ever.
func TestHostileTree(t *testing.T) {
	r := newJobRig(t)
	deep := "sys/fs/cgroup/memory/slurm/uid_5/job_8/step_0/" + strings.Repeat("d/", 40)
	r.write(deep+"cgroup.procs", "5\n")
	r.write("sys/fs/cgroup/memory/slurm/uid_5/job_8/step_0/cgroup.procs", "4\nnone\n-1\n99999999999999999999\n\x00\n")
	r.write("sys/fs/cgroup/memory/slurm/uid_5/job_8/memory.usage_in_bytes", "18446744073709551615\n")
	r.write("sys/fs/cgroup/memory/slurm/uid_5/job_8/memory.max_usage_in_bytes", "9223372036854775807\n")
	r.write("sys/fs/cgroup/cpuacct/slurm/uid_5/job_8/cpuacct.usage", "18446744073709551615\n")
	r.write("sys/fs/cgroup/memory/slurm/uid_nobody/job_9/memory.usage_in_bytes", "1\n")
	r.write("sys/fs/cgroup/memory/slurm/uid_-1/job_10/memory.usage_in_bytes", "1\n")
	for _, name := range []string{"job_", "job_-1", "job_1.2", "job_99999999999999999999", "job_1 2", "jobs_1"} {
		r.write("sys/fs/cgroup/memory/slurm/uid_5/"+name+"/memory.usage_in_bytes", "1\n")
	}
	r.write("sys/fs/cgroup/memory/slurm/uid_5/job_11", "a file")
	require.NoError(t, os.Symlink(".", filepath.Join(r.root, "sys/fs/cgroup/memory/slurm/uid_5/job_8/step_0/loop")))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	got := make([]string, 0, len(metrics))
	for _, m := range metrics {
		got = append(got, fmt.Sprint(m.Tags(), m.Fields()))
	}
	require.Equal(t, []string{
		"map[job:8] map[cpu_seconds:1.8446744073709553e+10 processes:1 steps:1 uid:5]",
		"map[job:9] map[memory_bytes:1 processes:0 steps:0]",
		"map[job:10] map[memory_bytes:1 processes:0 steps:0]",
	}, got)
}

// GPUs that Slurm gave away can't be looked at without nvidia-smi, or with one that fails: that is said once, and the rest
// is told.
func TestGPUsWithoutNvidiaSMI(t *testing.T) {
	r := newJobRig(t)
	r.overlay("testcases/cgroup_v1/1")
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, "nvidia-smi")))
	metrics, errs := r.gather()
	require.Equal(t, []string{"sensor job_cgroups: nvidia-smi: not found in PATH"}, texts(errs))
	for _, m := range metrics {
		require.NotContains(t, m.Fields(), "gpus_used")
		require.NotContains(t, m.Fields(), "gpus_idle")
		if m.Name() == "node_job_gpu" {
			require.Equal(t, map[string]any{"allocated": int64(1)}, m.Fields())
		}
	}
	require.Equal(t, map[string]any{
		"cpu_seconds": 123.456789012, "cpu_user_seconds": 100.0, "cpu_system_seconds": 23.456789012, "gpus_allocated": int64(2),
		"io_read_bytes": int64(4097), "io_write_bytes": int64(8192), "memory_bytes": int64(3 << 30), "memory_limit_bytes": int64(8 << 30),
		"memory_peak_bytes": int64(5 << 30), "processes": int64(3), "steps": int64(2), "uid": int64(1000),
	}, fieldsOf(metrics, "4001"))
	_, errs = r.gather()
	require.Empty(t, errs)

	r.p.host.command = func(_ context.Context, name string, _ ...string) (command.Result, error) {
		return command.Result{}, &command.Error{Name: name, Reason: command.ErrExit, Status: 9, Err: errors.New("exit status 9")}
	}
	_, errs = r.gather()
	require.Equal(t, []string{"sensor job_cgroups: nvidia-smi: exit status 9"}, texts(errs))
	r.p.host.command = func(context.Context, string, ...string) (command.Result, error) {
		return command.Result{Stdout: []byte("Failed to initialize NVML: Driver/library version mismatch\n")}, nil
	}
	_, errs = r.gather()
	require.Equal(t, []string{"sensor job_cgroups: nvidia-smi: processes: line 1: 1 columns, not 3"}, texts(errs))
}

// Where no job was given a GPU, there need be no nvidia-smi. With gpus = false none is asked.
func TestNoGPUs(t *testing.T) {
	r := newJobRig(t)
	r.overlay("testcases/cgroup_v1/1")
	for _, folder := range []string{"nvidia-smi", "proc", "sys/fs/cgroup/devices"} {
		require.NoError(t, os.RemoveAll(filepath.Join(r.root, folder)))
	}
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Len(t, metrics, 4)
	for _, m := range metrics {
		for _, field := range []string{"gpus_allocated", "gpus_used", "gpus_idle"} {
			require.NotContains(t, m.Fields(), field, "it is not known")
		}
	}
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, "sys")))
	r.overlay("testcases/cgroup_v1/1")
	r.p.Options.JobCgroups.GPUs = false
	r.p.host.command = func(context.Context, string, ...string) (command.Result, error) {
		t.Error("nvidia-smi was run")
		return command.Result{}, nil
	}
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.NotContains(t, fieldsOf(metrics, "4001"), "gpus_allocated")
}

// The GPUs' numbers are asked for once, and again when there is one that is not known.
func TestGPUNumbersAreKept(t *testing.T) {
	r := newJobRig(t)
	r.overlay("testcases/cgroup_v1/1")
	asked := 0
	r.p.host.command = func(ctx context.Context, name string, args ...string) (command.Result, error) {
		if strings.HasPrefix(args[0], "--query-gpu") {
			asked++
		}
		return r.nvidiaSMI(ctx, name, args...)
	}
	for range 3 {
		_, errs := r.gather()
		require.Empty(t, errs)
	}
	require.Equal(t, 1, asked)
	r.write("nvidia-smi/processes.csv", "101, GPU-cccccccc-2222-3333-4444-555555555555, 1\n")
	metrics, _ := r.gather()
	require.Equal(t, 2, asked)
	found := false
	for _, m := range metrics {
		gpu, _ := m.GetTag("gpu")
		found = found || gpu == "GPU-cccccccc-2222-3333-4444-555555555555" && m.Fields()["allocated"] == int64(0)
	}
	require.True(t, found, "a GPU that is used without having been given")
}
