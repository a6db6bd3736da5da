package node_sensors

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// deadFileSystem mounts a file system whose server never answers (fuse(4)), as NFS does when its server has died. The
// server is the file that is returned: once it is closed the kernel gives an error instead.
func deadFileSystem(t *testing.T) (folder string, server *os.File) {
	t.Helper()
	folder = t.TempDir()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	require.NoError(t, err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())
	require.NoError(t, syscall.Mount("dead", folder, "fuse", 0, options))
	t.Cleanup(func() {
		_ = server.Close()                              // The test may have done so.
		_ = syscall.Unmount(folder, syscall.MNT_DETACH) // And this.
	})
	return folder, server
}

// A file system that truly hangs costs one wait and one thread, is said once, and holds up nothing else. Once it answers
// again it is told again.
func TestDeadFileSystem(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("only root can mount file systems")
	}
	folder, server := deadFileSystem(t)
	ours := startPlugin(t, "", fmt.Sprintf(`sensors = ["disk_usage", "cpu_stats"]
[inputs.node_sensors.sensor.disk_usage]
path = ["/", %q]
timeout = "500ms"
`, folder))
	hangs := fmt.Sprintf("E! [inputs.node_sensors] sensor disk_usage: path %q: hangs; asked again once it answers\n", folder)
	begin := time.Now()
	ours.gather()
	require.GreaterOrEqual(t, time.Since(begin), 500*time.Millisecond)
	threads := threadsOf(t, ours.pid)
	for range 20 {
		begin = time.Now()
		points := ours.gather()
		require.Less(t, time.Since(begin), 10*time.Second)
		find(t, points, "node_disk_usage", "path", "/")
		find(t, points, "node_cpu_stats")
		require.Len(t, all(points, "node_disk_usage"), 1)
		require.Equal(t, int64(1), find(t, points, "node_sensors_self")["hung"])
	}
	require.Equal(t, hangs, ours.complaints())
	require.LessOrEqual(t, threadsOf(t, ours.pid), threads+4, "each call that hangs takes a thread")

	require.NoError(t, server.Close())
	harness.Eventually(t, harness.Patience, func() error {
		ours.gather()
		if !strings.Contains(ours.complaints(), "transport endpoint is not connected") {
			return errors.New("it still hangs")
		}
		return nil
	})
	require.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH))
	points := ours.gather()
	find(t, points, "node_disk_usage", "path", folder)
	require.Zero(t, find(t, points, "node_sensors_self")["hung"])
	require.Equal(t, hangs+fmt.Sprintf("E! [inputs.node_sensors] sensor disk_usage: path %q: transport endpoint is not connected\n", folder),
		ours.complaints())
}

// complaints gives what the plugin has said, but for gathers that this test has asked for too early.
func (p *plugin) complaints() string {
	var said strings.Builder
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, "is still running: this one is skipped") {
			said.WriteString(line)
		}
	}
	return said.String()
}

// threadsOf gives how many threads a process has.
func threadsOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	return len(tasks)
}
