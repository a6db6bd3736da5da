package node_sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// withGroups makes Slurm put jobs into control groups.
const withGroups = `
ProctrackType=proctrack/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=1
TaskPlugin=task/cgroup
`

// script is a batch job with a process that uses memory and CPU time, and a step that has one of the job's two GPUs.
const script = `#!/bin/sh
/usr/bin/python3 -c 'memory = bytearray(64 << 20)
for i in range(5000000): pass
open("/tmp/ready", "w").close()
import time; time.sleep(3600)' &
exec srun --gres=gpu:1 sleep 3600
`

// Of real jobs of a real Slurm, which makes their control groups, the plugin tells which there are, what they use, which
// GPUs they were given and which is idle.
func TestSlurmJobs(t *testing.T) {
	t.Parallel()
	if !exists(filepath.Join(groups, "freezer")) {
		t.Skip("the harness's Slurm uses control groups of version 1, which this machine does not have")
	}
	harness.Packages(t, "python3-minimal")
	removeSlurmsGroups(t)
	s := harness.StartSlurm(t, harness.SlurmOptions{Extra: withGroups})
	require.NoError(t, os.WriteFile(s.Path("tmp/job.sh"), []byte(script), 0o755))
	gpuJob := s.Submit("alice", "--partition=gpu", "--gres=gpu:a100:2", "/tmp/job.sh")
	array := s.Submit("bob", "--partition=cpu", "--array=1-2", "--wrap=sleep 3600")
	s.WaitState(gpuJob, "RUNNING")
	s.WaitState(array, "RUNNING")
	harness.Eventually(t, harness.Patience, func() error {
		_, err := os.Stat(s.Path("tmp/ready"))
		if err == nil && len(processesOf(t, gpuJob, "step_0")) == 0 {
			err = errors.New("the step has not started")
		}
		return err
	})
	worker := commandOf(t, processesOf(t, gpuJob, "step_batch"), "bytearray")
	ours := startPlugin(t, "", fmt.Sprintf(`sensors = ["job_cgroups"]
[inputs.node_sensors.sensor.job_cgroups]
interval = "0s"
nvidia_smi = %q
`, fakeSMI(t, worker)))

	points := ours.gather()
	require.Equal(t, running(s), jobsIn(points))
	row := find(t, points, "node_job_cgroups", "job", gpuJob)
	t.Log(row)
	pids := slices.Concat(processesOf(t, gpuJob, "step_batch"), processesOf(t, gpuJob, "step_0"))
	require.Equal(t, int64(len(pids)), row["processes"])
	require.Equal(t, int64(2), row["steps"])
	require.GreaterOrEqual(t, floatOf(t, row["cpu_seconds"]), harness.CPUTime(t, worker).Seconds()-0.02)
	resident := harness.Memory(t, worker, "RssAnon")
	require.GreaterOrEqual(t, row["memory_bytes"], int64(resident))
	require.GreaterOrEqual(t, row["memory_peak_bytes"], row["memory_bytes"])
	require.Equal(t, int64(ownerOf(t, worker)), row["uid"])
	require.Equal(t, []any{int64(2), int64(1), int64(1)}, []any{row["gpus_allocated"], row["gpus_used"], row["gpus_idle"]})
	require.Equal(t, int64(0), find(t, points, "node_job_gpu", "job", gpuJob, "gpu", "0")["processes"], "the one that is idle")
	require.Equal(t, int64(1), find(t, points, "node_job_gpu", "job", gpuJob, "gpu", "1")["processes"])
	for _, p := range all(points, "node_job_cgroups") {
		if p.tags["job"] != gpuJob && !strings.HasPrefix(p.tags["node"], "e2e") {
			require.Equal(t, int64(0), p.fields["gpus_allocated"])
		}
	}

	s.Command("scancel", gpuJob)
	harness.Eventually(t, harness.Patience, func() error {
		points := ours.gather()
		if _, there := lookFor(points, "node_job_cgroups", "job", gpuJob); there {
			return errors.New("the job is still there")
		}
		require.Equal(t, running(s), jobsIn(points))
		return nil
	})
	require.Empty(t, ours.complaints())
}

// running gives the jobs that Slurm says are running, each with its node. Tasks of an array have numbers of their own.
func running(s *harness.Slurm) []string {
	jobs := strings.Fields(s.Command("squeue", "--noheader", "--states=RUNNING", "--Format=JobID:@,NodeList:"))
	slices.Sort(jobs)
	return jobs
}

func jobsIn(points []point) []string {
	rows := all(points, "node_job_cgroups")
	jobs := make([]string, 0, len(rows))
	for _, p := range rows {
		if strings.HasPrefix(p.tags["node"], "e2e") {
			continue // Another test's.
		}
		jobs = append(jobs, p.tags["job"]+"@"+p.tags["node"])
	}
	slices.Sort(jobs)
	return jobs
}

// removeSlurmsGroups removes the control groups that Slurm leaves behind, once its machine has ended.
func removeSlurmsGroups(t *testing.T) {
	t.Helper()
	before, err := filepath.Glob(filepath.Join(groups, "*/slurm_*"))
	require.NoError(t, err)
	t.Cleanup(func() {
		after, err := filepath.Glob(filepath.Join(groups, "*/slurm_*"))
		require.NoError(t, err)
		for _, top := range after {
			if slices.Contains(before, top) || strings.Contains(top, "/slurm_e2e") {
				continue // Somebody else's.
			}
			harness.Eventually(t, harness.Patience, func() error { return removeGroups(top) })
		}
	})
}

func removeGroups(top string) error {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	slices.Reverse(folders)
	for _, folder := range folders {
		err = errors.Join(err, syscall.Rmdir(folder))
	}
	return err
}

// processesOf gives the processes that a step of a job has in the control group that Slurm follows it by.
func processesOf(t *testing.T, job, step string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(groups, "freezer/slurm_*/uid_*/job_"+job, step, "cgroup.procs"))
	require.NoError(t, err)
	var pids []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, text := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(text)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandOf gives the one of some processes that has a text in its command line.
func commandOf(t *testing.T, pids []int, containing string) int {
	t.Helper()
	i := slices.IndexFunc(pids, func(pid int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && strings.Contains(string(line), containing) && !strings.Contains(string(line), "slurm_script")
	})
	require.GreaterOrEqual(t, i, 0, "no process with %q", containing)
	return pids[i]
}

// ownerOf gives the user that a process runs as.
func ownerOf(t *testing.T, pid int) int {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Stat(fmt.Sprintf("/proc/%d", pid), &stat))
	return int(stat.Uid)
}
