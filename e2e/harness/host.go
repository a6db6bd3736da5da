package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Host is a machine of its own with a Debian of its own, in which packages are installed and services run. All that
// changes in there is in memory, and gone with the test.
type Host struct {
	t       testing.TB
	machine *machine
}

// hostRoot is how a host's first process begins; its arguments are the Debian, which stays as it is, and an empty folder.
// What of /proc/sys and /sys belongs to the whole machine can't be changed.
const hostRoot = `
set -eu
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
cd "$2/root"
ip link set lo up
echo host > /proc/sys/kernel/hostname
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
rm -f usr/sbin/policy-rc.d
echo "127.0.0.1 localhost" > etc/hosts
`

// openrcFirst goes on as a host that OpenRC takes for one that is up already.
const openrcFirst = hostRoot + `
mount --rbind /dev dev
mkdir run/openrc run/lock
: > run/openrc/softlevel
echo ready
mkdir -p old
pivot_root . old
umount -l old
exec chroot . sh -c 'sleep infinity; exit'
`

// systemdFirst goes on as a container does (https://systemd.io/CONTAINER_INTERFACE), in a control group of its own, whose
// name is the third argument.
const systemdFirst = hostRoot + `
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  : > "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
: > dev/console
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir "sys/fs/cgroup/$3"
echo $$ > "sys/fs/cgroup/$3/cgroup.procs"
umount sys/fs/cgroup
exec unshare --cgroup sh -eu -c '
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir -p old
pivot_root . old
umount -l old
echo ready
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target --show-status=false
'
`

// hostPackages are what a host has of Debian 12 besides: both systems of services, the databases, rpm, and readers of
// manual pages.
var hostPackages = []string{
	"openrc", "rpm", "systemd", "influxdb", "influxdb-client", "graphite-carbon", "graphite-web", "gunicorn", "mandoc",
}

// StartOpenRCHost starts a host whose services are OpenRC's. None of them runs yet.
func StartOpenRCHost(t testing.TB) *Host {
	t.Helper()
	return startHost(t, openrcFirst, "")
}

// StartSystemdHost starts a host with a real systemd as its first process. It has reached basic.target: nothing runs yet
// that multi-user.target would start.
func StartSystemdHost(t testing.TB) *Host {
	t.Helper()
	group := fmt.Sprintf("telegraf-hpc-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	h := startHost(t, systemdFirst, group)
	Eventually(t, time.Minute, func() error {
		_, err := h.Try("systemctl", "is-active", "--quiet", "basic.target")
		return err
	})
	return h
}

func startHost(t testing.TB, script, group string) *Host {
	t.Helper()
	Packages(t, "iproute2")
	m := &machine{t: t, folder: t.TempDir()}
	root := debianRoot(t, "bookworm", hostPackages...)
	if group != "" {
		t.Cleanup(func() { removeControlGroup(t, group) })
	}
	m.process = start(t, m.folder, "unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc", "--net", "--uts", "--ipc",
		"sh", "-c", script, "first", root, m.folder, group)
	m.name = "the host"
	Eventually(t, time.Minute, func() error {
		if m.ended() {
			t.Fatalf("the host ended at its start: %s", m.Log())
		}
		if !strings.Contains(m.Log(), "ready\n") {
			return errors.New("the host is not ready")
		}
		return nil
	})
	m.first = m.Child("")
	t.Cleanup(m.end)
	return &Host{t: t, machine: m}
}

// removeControlGroup removes a control group of a host that has ended, with those below it.
func removeControlGroup(t testing.TB, name string) {
	t.Helper()
	script := `mount -t cgroup2 cgroup2 "$1" && if [ -d "$1/$2" ]; then find "$1/$2" -depth -type d -exec rmdir {} +; fi`
	folder := t.TempDir()
	Eventually(t, time.Minute, func() error { // Processes take a moment to be gone.
		output, err := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", folder, name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// Path gives the path of one of the host's files as the test sees it. A symbolic link to an absolute path leads astray.
func (h *Host) Path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", h.machine.first), name)
}

// Read gives the content of one of the host's files.
func (h *Host) Read(name string) string {
	h.t.Helper()
	content, err := os.ReadFile(h.Path(name))
	require.NoError(h.t, err)
	return string(content)
}

// Write writes a file of the host.
func (h *Host) Write(name string, mode os.FileMode, content string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.Path(name)), 0o755))    //nolint:gosec // As such folders are.
	require.NoError(h.t, os.WriteFile(h.Path(name), []byte(content), mode)) //nolint:gosec // Names are the tests'.
	require.NoError(h.t, os.Chmod(h.Path(name), mode))                      // Whatever the umask is.
}

// Copy copies a file to the host.
func (h *Host) Copy(from, to string, mode os.FileMode) {
	h.t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(h.t, err)
	h.Write(to, mode, string(content))
}

// Run runs a program on the host as root. It must succeed; the result is its standard output and error together.
func (h *Host) Run(line ...string) string {
	h.t.Helper()
	said, err := h.Try(line...)
	require.NoError(h.t, err, "%s\n%s", strings.Join(line, " "), said)
	return said
}

// Try is Run for what may fail.
func (h *Host) Try(line ...string) (said string, err error) {
	h.t.Helper()
	enter := append(h.machine.enter("root"), "--pid", "--ipc", "env", "-i", machinePath, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	enter = append(enter, line...)
	cmd := exec.CommandContext(h.t.Context(), enter[0], enter[1:]...)
	// A service that it started may hold its output open.
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return string(output), err
}

// Port tells whether somebody listens on a TCP port of the host.
func (h *Host) Port(port int) error { return h.machine.port(port) }

// Processes gives the ids, as the test sees them, of the host's processes that run a program.
func (h *Host) Processes(program string) []int {
	h.t.Helper()
	var found []int
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(h.t, err)
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.machine.first))
	require.NoError(h.t, err)
	for _, folder := range folders {
		exe, err := os.Readlink(folder + "/exe")
		if err != nil || strings.TrimSuffix(exe, " (deleted)") != program {
			continue // Of another program, or it ended meanwhile.
		}
		var pid int
		if own, err := os.Readlink(folder + "/ns/pid"); err != nil || own != space {
			continue
		}
		if _, err := fmt.Sscanf(folder, "/proc/%d", &pid); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
