package node_sensors

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// groups is where the control groups are mounted.
const groups = "/sys/fs/cgroup"

// tree is where Slurm's jobs have their control groups on a real machine, for a slurmd of a name of its own.
type tree struct {
	t       *testing.T
	version int
	node    string
	bases   map[string]string // The folder of the jobs by the controller of version 1; "" with version 2.
}

// trees gives one of each version that this machine has.
func trees(t *testing.T) []*tree {
	t.Helper()
	node := fmt.Sprintf("e2e%d", os.Getpid())
	var found []*tree
	for _, unified := range []string{groups, filepath.Join(groups, "unified")} {
		if exists(filepath.Join(unified, "cgroup.controllers")) {
			scope := filepath.Join(unified, "system.slice", node+"_slurmstepd.scope")
			found = append(found, &tree{t: t, version: 2, node: node, bases: map[string]string{"": scope}})
		}
	}
	v1 := &tree{t: t, version: 1, node: node, bases: make(map[string]string)}
	for _, controller := range []string{"cpuacct", "memory", "blkio", "devices", "freezer"} {
		if exists(filepath.Join(groups, controller, "cgroup.procs")) && !exists(filepath.Join(groups, "cgroup.controllers")) {
			v1.bases[controller] = filepath.Join(groups, controller, "slurm_"+node, "uid_1000")
		}
	}
	if len(v1.bases) > 0 {
		found = append(found, v1)
	}
	require.NotEmpty(t, found, "this machine has no control groups")
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// step makes the folders of a step as Slurm does, and gives those that processes go into.
func (tr *tree) step(job, step string) []string {
	tr.t.Helper()
	leaves := make([]string, 0, len(tr.bases))
	for controller, base := range tr.bases {
		leaf := filepath.Join(base, "job_"+job, "step_"+step, "task_0")
		if tr.version == 2 {
			leaf = filepath.Join(base, "job_"+job, "step_"+step, "user", "task_0")
		}
		tr.make(leaf, controller)
		if controller == "blkio" {
			// Since Linux 6.10 version 1 counts only where there is a limit: one that nothing reaches.
			for _, file := range []string{"read", "write"} {
				limit := filepath.Join(leaf, "blkio.throttle."+file+"_bps_device")
				require.NoError(tr.t, os.WriteFile(limit, []byte(diskOf(tr.t)+" 1000000000000"), 0o600))
			}
		}
		leaves = append(leaves, leaf)
	}
	return leaves
}

// diskOf gives the device that temporary files are on, as 254:0.
func diskOf(t *testing.T) string {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Stat(t.TempDir(), &stat))
	return fmt.Sprintf("%d:%d", stat.Dev>>8&0xfff, stat.Dev&0xff)
}

// make makes a folder and those above it, and removes them when the test is over. With version 2 the controllers that
// there are go down with it, as far as they can.
func (tr *tree) make(folder, controller string) {
	tr.t.Helper()
	if exists(folder) {
		return
	}
	parent := filepath.Dir(folder)
	tr.make(parent, controller)
	if controller == "" {
		for _, name := range []string{"memory", "io", "pids"} {
			// It fails where the machine does not have it in version 2.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0o600)
		}
	}
	require.NoError(tr.t, os.Mkdir(folder, 0o755))
	tr.t.Cleanup(func() {
		harness.Eventually(tr.t, harness.Patience, func() error { return syscall.Rmdir(folder) })
	})
}

// work is a process of a job. It uses memory, CPU time and a disk, then says so and waits.
const work = `
import os, sys, time
for leaf in sys.argv[2:]:
    with open(leaf + "/cgroup.procs", "w") as f:
        f.write(str(os.getpid()))
memory = bytearray(64 << 20)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
import mmap
page = mmap.mmap(-1, 1 << 20)
page.write(b"x" * (1 << 20))
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for i in range(8):
    os.pwrite(fd, page, i << 20)
os.fsync(fd)
for i in range(4):
    os.preadv(fd, [page], i << 20)
print("ready", flush=True)
time.sleep(3600)
`

// start starts a process in a step, with an environment, and waits until it has worked.
func (tr *tree) start(job, step string, environment ...string) (pid int) {
	tr.t.Helper()
	leaves := tr.step(job, step)
	file := filepath.Join(tr.t.TempDir(), "data")
	cmd := exec.CommandContext(tr.t.Context(), "/usr/bin/python3", append([]string{"-c", work, file}, leaves...)...)
	cmd.Env = environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(tr.t, err)
	require.NoError(tr.t, cmd.Start())
	tr.t.Cleanup(func() {
		_ = cmd.Process.Kill() // It may have ended.
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(tr.t, err)
	require.Equal(tr.t, "ready\n", line)
	return cmd.Process.Pid
}

// fakeSMI makes a command that speaks as nvidia-smi does (its --help-query-compute-apps): a process uses GPU 1 of two.
func fakeSMI(t *testing.T, pid int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	script := fmt.Sprintf(`#!/bin/sh
case "$1 $2" in
"--query-compute-apps=pid,gpu_uuid,used_memory --format=csv,noheader,nounits")
  echo "%d, GPU-22222222-2222-3333-4444-555555555555, 512" ;;
"--query-gpu=index,uuid --format=csv,noheader")
  echo "0, GPU-11111111-2222-3333-4444-555555555555"; echo "1, GPU-22222222-2222-3333-4444-555555555555" ;;
*) echo "ERROR: Option $1 is not recognized." >&2; exit 2 ;;
esac
`, pid)
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// Of real control groups, of each version that the machine has, the plugin tells what the job's processes truly did, which
// GPU they were given and which one is idle.
func TestRealControlGroups(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("only root can make control groups")
	}
	harness.Packages(t, "python3-minimal")
	for _, tr := range trees(t) {
		t.Run(fmt.Sprintf("version %d", tr.version), func(t *testing.T) {
			tr.t = t
			batch := tr.start("4001", "batch", "SLURM_JOB_GPUS=0,1")
			step := tr.start("4001", "0", "SLURM_STEP_GPUS=1")
			tr.step("4002", "batch")
			ours := startPlugin(t, "", fmt.Sprintf(`sensors = ["job_cgroups"]
[inputs.node_sensors.sensor.job_cgroups]
interval = "0s"
nvidia_smi = %q
`, fakeSMI(t, step)))
			points := ours.gather()
			row := find(t, points, "node_job_cgroups", "job", "4001", "node", tr.node)
			t.Log(row)
			tr.requireFigures(row, batch, step)

			for gpu, want := range map[string]map[string]any{
				"0": {"allocated": int64(1), "processes": int64(0), "memory_bytes": int64(0)},
				"1": {"allocated": int64(1), "processes": int64(1), "memory_bytes": int64(512 << 20)},
			} {
				require.Equal(t, want, find(t, points, "node_job_gpu", "job", "4001", "node", tr.node, "gpu", gpu))
			}
			require.Equal(t, int64(0), find(t, points, "node_job_cgroups", "job", "4002", "node", tr.node)["processes"])

			// When its processes have ended the job has done what it did, and when its groups are gone it is gone.
			require.NoError(t, syscall.Kill(step, syscall.SIGKILL))
			harness.Eventually(t, harness.Patience, func() error {
				later := find(t, ours.gather(), "node_job_cgroups", "job", "4001", "node", tr.node)
				if later["processes"] != int64(1) {
					return fmt.Errorf("%v processes", later["processes"])
				}
				require.GreaterOrEqual(t, later["cpu_seconds"], row["cpu_seconds"])
				return nil
			})
		})
	}
}

// requireFigures compares a job's row with what the kernel says of its processes.
func (tr *tree) requireFigures(row map[string]any, pids ...int) {
	t := tr.t
	t.Helper()
	require.Equal(t, int64(len(pids)), row["processes"])
	require.Equal(t, int64(2), row["steps"])
	require.Equal(t, int64(2), row["gpus_allocated"])
	require.Equal(t, int64(1), row["gpus_used"])
	require.Equal(t, int64(1), row["gpus_idle"])
	var cpu time.Duration
	resident := 0
	var read, written int64
	for _, pid := range pids {
		cpu += harness.CPUTime(t, pid)
		resident += harness.Memory(t, pid, "RssAnon")
		r, w := ioOf(t, pid)
		read, written = read+r, written+w
	}
	// What a process did before it went into the group is not the group's, nor what the kernel rounds to ticks of 10 ms.
	seconds := floatOf(t, row["cpu_seconds"])
	require.InDelta(t, cpu.Seconds(), seconds, 0.35)
	require.GreaterOrEqual(t, seconds, 0.5)
	// Version 1 samples the two, and measures their sum.
	require.InDelta(t, seconds, floatOf(t, row["cpu_user_seconds"])+floatOf(t, row["cpu_system_seconds"]), 0.4)
	if tr.has("memory") {
		require.InEpsilon(t, resident, row["memory_bytes"], 0.15)
		require.GreaterOrEqual(t, row["memory_peak_bytes"], row["memory_bytes"])
	}
	if tr.has("blkio") || tr.has("io") {
		require.GreaterOrEqual(t, row["io_write_bytes"], int64(16<<20))
		require.LessOrEqual(t, row["io_write_bytes"], written+(4<<20), "what the file system itself wrote is little")
		require.InDelta(t, read, row["io_read_bytes"], 1<<20)
	}
	if tr.version == 1 {
		require.Equal(t, int64(1000), row["uid"])
	}
}

// has tells whether the machine has a controller in this version.
func (tr *tree) has(controller string) bool {
	if tr.version == 1 {
		return tr.bases[controller] != ""
	}
	b, _ := os.ReadFile(filepath.Join(tr.bases[""], "job_4001", "cgroup.controllers"))
	return strings.Contains(" "+strings.TrimSpace(string(b))+" ", " "+controller+" ")
}

// ioOf gives what a process moved to and from disks (proc(5): io).
func ioOf(t *testing.T, pid int) (read, written int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		switch name {
		case "read_bytes":
			read = n
		case "write_bytes":
			written = n
		}
	}
	return read, written
}
