package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// LoginNode is a machine of its own with a real sshd, which keeps /run/utmp and /var/log/wtmp. The users alice, bob and
// carol may log in; their primary group is users, and carol is a member of the group atlas, too.
type LoginNode struct {
	// SSHD is the daemon.
	SSHD *Daemon
	// Bus and Logind are there with LoginOptions.Logind.
	Bus, Logind *Daemon

	t       testing.TB
	machine *machine
	logins  int
}

// LoginOptions say what login node it is.
type LoginOptions struct {
	// Logind has the machine run a real elogind on a D-Bus system bus, to which sshd's sessions are told by PAM.
	Logind bool
	// Users may log in, too. Their primary group is users.
	Users []string
	// WithoutUtmp leaves out /run/utmp, as releases do that have given it up.
	WithoutUtmp bool
}

const (
	sshPort = 22
	sshUtmp = "run/utmp"
	sshWtmp = "run/wtmp" // What the machine has as /var/log/wtmp.
)

// sshdOptions are sshd's; a path must be absolute.
var sshdOptions = []string{
	"-o", "HostKey=/run/ssh/host_key", "-o", "AuthorizedKeysFile=/run/ssh/user_key.pub", "-o", "StrictModes=no",
	"-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "PrintMotd=no", "-o", "PrintLastLog=no", "-o", "UseDNS=no",
}

// StartLoginNode starts a login node and waits until it takes logins.
func StartLoginNode(t testing.TB, options LoginOptions) *LoginNode {
	t.Helper()
	Packages(t, "iproute2")
	m := startMachine(t, loginRoot(t), append([]string{"alice", "bob", "carol"}, options.Users...)...)
	n := &LoginNode{t: t, machine: m}
	m.mkdir("run/sshd", 0o755) // Where it puts itself in prison.
	m.mkdir("run/ssh", 0o755)
	m.mkdir("run/bin", 0o755)
	for _, name := range []string{"host_key", "user_key"} {
		m.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/run/ssh/"+name)
	}
	for _, name := range []string{sshUtmp, sshWtmp} {
		m.write(name, 0o664, "")
		m.run("chgrp", "utmp", "/"+name) // Whose rights tmux and screen get.
	}
	if options.WithoutUtmp {
		require.NoError(t, os.Remove(m.path(sshUtmp)))
	}
	m.run("mount", "--bind", "/run/wtmp", "/var/log/wtmp")
	m.write("run/group", 0o644, m.group()+"users:x:100:\natlas:x:59100:carol\n")
	m.run("mount", "--bind", "/run/group", "/etc/group")
	pam := "no"
	if options.Logind {
		n.startLogind()
		pam = "yes"
	}
	line := append([]string{"/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-o", "UsePAM=" + pam}, sshdOptions...)
	n.SSHD = m.daemon("sshd", func() error { return m.port(sshPort) }, line...)
	n.SSHD.wait()
	return n
}

// group gives the root's groups without those that the machine has of its own.
func (m *machine) group() string {
	m.t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(m.run("cat", "/etc/group")) {
		if !strings.HasPrefix(line, "users:") && !strings.HasPrefix(line, "atlas:") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Root gives the path of the machine's root folder as the test sees it.
func (n *LoginNode) Root() string { return fmt.Sprintf("/proc/%d/root", n.machine.first) }

// UID gives a user's id.
func (n *LoginNode) UID(user string) int {
	n.t.Helper()
	uid, _ := n.machine.user(user)
	return uid
}

// Path gives the path, as the test sees it, of a file below the machine's /run, such as utmp.
func (n *LoginNode) Path(name string) string { return n.machine.path("run/" + name) }

// Tool gives the path of a command that runs a program of the test on the machine, with the machine's processes,
// terminals and files. The one who starts it must be root.
func (n *LoginNode) Tool(program string) string {
	n.t.Helper()
	name := filepath.Base(program)
	inside := "run/bin/" + name
	run(n.t, "", nil, "cp", "--no-clobber", program, n.machine.path(inside)) // One that runs can't be written to.
	// The test's own folder is not on the machine.
	n.machine.write(name, 0o755, fmt.Sprintf("#!/bin/sh\nexec %s --pid /%s \"$@\"\n", strings.Join(n.machine.enter("root"), " "), inside))
	return n.machine.path(name)
}

// Login is a session of a user at the login node, as ssh's client sees it.
type Login struct {
	node   *LoginNode
	client *process
	server int // The process on the test's side that has the session.
}

// Login logs a user in, with or without a terminal, and waits until the user's command runs: with none, one that sleeps.
func (n *LoginNode) Login(user string, terminal bool, command ...string) *Login {
	n.t.Helper()
	n.logins++
	mark := fmt.Sprintf("/tmp/login-%d", n.logins)
	if len(command) == 0 {
		command = []string{"exec sleep 100000"}
	}
	line := append(n.machine.enter("root"), "ssh", "-F", "/dev/null", "-i", "/run/ssh/user_key", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-p", strconv.Itoa(sshPort))
	if terminal {
		line = append(line, "-tt")
	}
	// The parent of the user's shell is the process that has the session.
	line = append(line, user+"@127.0.0.1", "echo $PPID > "+mark+".new; mv "+mark+".new "+mark+"; "+strings.Join(command, " "))
	l := &Login{node: n, client: start(n.t, n.machine.folder, line[0], line[1:]...)}
	Eventually(n.t, time.Minute, func() error {
		text, err := os.ReadFile(n.machine.path(mark[1:]))
		if err != nil {
			if l.client.ended() {
				n.t.Fatalf("ssh of %s ended: %s", user, l.client.Log())
			}
			return err
		}
		inside, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		l.server, err = n.machine.outside(inside)
		return err
	})
	return l
}

// outside gives the id that a process of the machine has on the test's side (proc(5), status: NSpid).
func (m *machine) outside(inside int) (int, error) {
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.first))
	if err != nil {
		return 0, err
	}
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // It ended meanwhile.
		}
		_, rest, _ := strings.Cut(string(text), "\nNSpid:")
		ids, _, _ := strings.Cut(rest, "\n")
		fields := strings.Fields(ids)
		if len(fields) < 2 || fields[len(fields)-1] != strconv.Itoa(inside) {
			continue
		}
		if its, err := os.Readlink(filepath.Join(filepath.Dir(path), "ns/pid")); err == nil && its == space {
			return strconv.Atoi(fields[0])
		}
	}
	return 0, fmt.Errorf("no process %d on the machine", inside)
}

// Logout ends the session as a user does who closes the terminal's window.
func (l *Login) Logout() {
	l.node.t.Helper()
	l.client.Signal(syscall.SIGTERM)
	l.client.Wait(time.Minute)
	Gone(l.node.t, l.server, time.Minute)
}

// Kill kills sshd's processes of the session with SIGKILL, so that nothing of theirs is tidied up.
func (l *Login) Kill() {
	t := l.node.t
	t.Helper()
	// The one with the user's rights would end well if its parent, which has root's, did not take it along.
	parent, err := strconv.Atoi(stat(t, l.server)[1])
	require.NoError(t, err)
	for _, pid := range []int{parent, l.server} {
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			require.NoError(t, err)
		}
		Gone(t, pid, time.Minute)
	}
}
