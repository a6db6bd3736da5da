package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a machine of its own to the daemons that run on it: namespaces of processes, mounts, network and host
// name. What they leave behind dies with the first process, so that no daemon, no job and no mount outlives the test,
// not even one that is killed. Each machine has all of the ports and the paths below /run and /tmp to itself.
type machine struct {
	*process
	t      testing.TB
	folder string // run, tmp and etc in here are /run, /tmp and /etc/slurm on the machine.
	first  int    // The first process, which adopts those without a parent.
	passwd string // The users.
}

// first is the machine's first process; its arguments are the root and the folder. An address that is not a loopback
// one must be there, since resolvers think of a network that has none as down. Slurm writes a message in two pieces:
// without quickack each one is held up for 40 ms.
const first = `
set -eu
if [ "$1" != / ]; then
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
fi
mkdir -p "$1/etc/slurm"
mount --bind "$2/run" "$1/run"
mount --bind "$2/etc" "$1/etc/slurm"
for file in passwd hosts; do
  : >> "$1/etc/$file" # A bare root may have no hosts.
  mount --bind "$2/$file" "$1/etc/$file"
done
mount --bind "$2/tmp" "$1/tmp" # The last, for the folder may be in there.
ip link set lo up
ip address add 192.0.2.1/32 dev lo
ip route change table local local 192.0.2.1 dev lo proto kernel scope host src 192.0.2.1 quickack 1
echo head > /proc/sys/kernel/hostname
cd "$1/tmp"
echo ready
exec chroot "$1" sh -c 'sleep infinity; exit'
`

const (
	machinePath  = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
	machineHosts = "127.0.0.1 localhost\n192.0.2.1 head\n"
)

// startMachine starts a machine with a root folder and with users beside those that the root's passwd has. Its folder
// has run, tmp and etc.
func startMachine(t testing.TB, root string, users ...string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a machine of its own for the test needs root")
	}
	m := &machine{t: t, folder: t.TempDir()}
	m.mkdir("run", 0o755)
	m.mkdir("etc", 0o755)
	m.mkdir("tmp", 0o777|os.ModeSticky)
	passwd, err := os.ReadFile(filepath.Join(root, "etc", "passwd"))
	require.NoError(t, err)
	m.passwd = string(passwd)
	for i, name := range users {
		if !strings.HasPrefix(m.passwd, name+":") && !strings.Contains(m.passwd, "\n"+name+":") {
			m.passwd += fmt.Sprintf("%s:x:%d:100::/nonexistent:/bin/sh\n", name, 59001+i)
		}
	}
	m.write("passwd", 0o644, m.passwd)
	m.write("hosts", 0o644, machineHosts)
	m.process = start(t, m.folder, "unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc", "--net", "--uts",
		"sh", "-c", first, "first", root, m.folder)
	m.name = "the machine"
	Eventually(t, time.Minute, func() error {
		if m.ended() {
			t.Fatal("the machine ended at its start")
		}
		if !strings.Contains(m.Log(), "ready\n") {
			return errors.New("the machine is not ready")
		}
		return nil
	})
	m.first = m.Child("")
	return m
}

// path gives the path of a file in the machine's folder as the test sees it.
func (m *machine) path(name string) string { return filepath.Join(m.folder, name) }

// mkdir makes a folder in the machine's folder.
func (m *machine) mkdir(name string, mode os.FileMode) {
	m.t.Helper()
	require.NoError(m.t, os.Mkdir(m.path(name), mode))
	require.NoError(m.t, os.Chmod(m.path(name), mode)) // Whatever the umask is.
}

// write writes a file into the machine's folder.
func (m *machine) write(name string, mode os.FileMode, content string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(m.path(name), []byte(content), mode))
	require.NoError(m.t, os.Chmod(m.path(name), mode)) // Whatever the umask is.
}

// give makes a user of the machine the owner of files in its folder.
func (m *machine) give(user string, names ...string) {
	m.t.Helper()
	uid, gid := m.user(user)
	for _, name := range names {
		require.NoError(m.t, os.Chown(m.path(name), uid, gid))
	}
}

// user gives the ids of a user of the machine.
func (m *machine) user(name string) (uid, gid int) {
	m.t.Helper()
	for line := range strings.Lines(m.passwd) {
		fields := strings.Split(line, ":")
		if fields[0] != name {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		require.NoError(m.t, err, line)
		gid, err := strconv.Atoi(fields[3])
		require.NoError(m.t, err, line)
		return uid, gid
	}
	m.t.Fatalf("no user %s on the machine", name)
	return 0, 0
}

// enter gives the command line that runs a program on the machine as a user. It becomes the program, so that a signal
// reaches the program itself.
func (m *machine) enter(user string) []string {
	m.t.Helper()
	line := []string{"nsenter", "--target", strconv.Itoa(m.first), "--mount", "--net", "--uts", "--root", "--wd"}
	if user != "root" {
		uid, gid := m.user(user)
		line = append(line, "setpriv", "--reuid", strconv.Itoa(uid), "--regid", strconv.Itoa(gid), "--init-groups")
	}
	return line
}

// run runs a program on the machine as root, and gives its standard output.
func (m *machine) run(line ...string) string {
	m.t.Helper()
	return output(m.t, append(m.enter("root"), line...)...)
}

// output runs a command, which must succeed, and gives its standard output.
func output(t testing.TB, line ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{machinePath}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(line, " "), err, stdout, stderr.String())
	}
	return string(stdout)
}

// Daemon is a program that runs on a machine in the foreground. Its log is what it wrote to standard output and error.
type Daemon struct {
	*process
	machine *machine
	name    string
	line    []string
	answers func() error // Tells whether it serves.
}

// daemon starts a daemon and does not wait until it serves.
func (m *machine) daemon(name string, answers func() error, line ...string) *Daemon {
	m.t.Helper()
	d := &Daemon{machine: m, name: name, line: line, answers: answers}
	d.run()
	return d
}

func (d *Daemon) run() {
	m := d.machine
	m.t.Helper()
	enter := m.enter("root")
	line := append(enter[1:], "--pid", "env", "-i", machinePath) // With --pid it stays and is the daemon's parent.
	d.process = start(m.t, m.folder, enter[0], append(line, d.line...)...)
	d.process.name = d.name
	m.t.Cleanup(m.end)
}

// end ends the machine. It comes before the ends of its daemons one by one: jobs would hold their logs open.
func (m *machine) end() {
	if !m.ended() { // Or the id may be another's by now.
		_ = syscall.Kill(m.first, syscall.SIGKILL)
	}
	m.Wait(time.Minute)
}

// Start starts the daemon again, after it has ended, and waits until it serves.
func (d *Daemon) Start() {
	d.t.Helper()
	require.True(d.t, d.ended(), "%s still runs", d.name)
	d.run()
	d.wait()
}

func (d *Daemon) wait() {
	d.t.Helper()
	Eventually(d.t, time.Minute, func() error {
		if d.ended() {
			d.t.Fatalf("%s ended at its start", d.name)
		}
		return d.answers()
	})
}

// Stop asks the daemon to stop and waits until it has ended.
func (d *Daemon) Stop() {
	d.t.Helper()
	d.Signal(syscall.SIGTERM)
	d.Wait(time.Minute)
}

// Kill ends the daemon with SIGKILL, also while it is paused.
func (d *Daemon) Kill() {
	d.t.Helper()
	d.Signal(syscall.SIGKILL)
	_ = d.cmd.Process.Signal(syscall.SIGCONT) // Fails where its parent has seen it end, which one that is paused cannot.
	d.Wait(time.Minute)
}

// Pause stops the daemon from running, as a machine without memory does: its ports are open, and nobody answers. Its
// parent stops itself once it has seen this.
func (d *Daemon) Pause() {
	d.t.Helper()
	d.Signal(syscall.SIGSTOP)
	waitStopped(d.t, d.process.Pid(), true)
}

// Continue lets a paused daemon go on, which its parent does when it goes on itself.
func (d *Daemon) Continue() {
	d.t.Helper()
	daemon := d.Pid()
	d.process.Signal(syscall.SIGCONT)
	waitStopped(d.t, d.process.Pid(), false)
	waitStopped(d.t, daemon, false)
}

// waitStopped waits until a process is stopped, or is not (proc(5): the state T).
func waitStopped(t testing.TB, pid int, want bool) {
	t.Helper()
	Eventually(t, time.Minute, func() error {
		if state := stat(t, pid)[0]; (state == "T") != want {
			return fmt.Errorf("process %d is in state %s", pid, state)
		}
		return nil
	})
}

// Pid gives the daemon's own process id as the test sees it.
func (d *Daemon) Pid() int {
	d.t.Helper()
	return d.Child("")
}

// Signal sends the daemon a signal.
func (d *Daemon) Signal(signal syscall.Signal) {
	d.t.Helper()
	require.NoError(d.t, syscall.Kill(d.Pid(), signal))
}

// socket tells whether somebody listens on a Unix socket of the machine.
func (m *machine) socket(path string) error {
	// The path below the test's folder may be longer than a socket's address can be.
	connection, err := net.Dial("unix", fmt.Sprintf("/proc/%d/root%s", m.first, path))
	if err != nil {
		return err
	}
	return connection.Close()
}

// port tells whether somebody listens on a TCP port of the machine (proc(5), /proc/net/tcp: the state 0A is LISTEN).
func (m *machine) port(port int) error {
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", m.first))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) && fields[3] == "0A" {
			return nil
		}
	}
	return fmt.Errorf("nobody listens on port %d", port)
}
