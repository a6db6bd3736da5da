package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// elogindPackages are Debian's, of systemd's logind without systemd. They can't be installed beside libsystemd, which
// others need: their files are put where they belong, and are no packages to anybody.
var elogindPackages = []string{"elogind", "libelogind0", "libpam-elogind"}

// loginPackages are what a login node needs besides.
var loginPackages = []string{"openssh-server", "openssh-client", "dbus", "tmux", "screen"}

// loginRoot gives a folder with a Debian for login nodes.
func loginRoot(t testing.TB) string {
	t.Helper()
	root := debianRoot(t, "bookworm", loginPackages...)
	unlock, err := stock.Lock(root + ".lock")
	require.NoError(t, err)
	defer unlock()
	if _, err := os.Stat(filepath.Join(root, "usr/lib/elogind/elogind")); err == nil {
		return root
	}
	folder := t.TempDir()
	run(t, folder, nil, "chroot", append([]string{root, "sh", "-c", `rm -rf /var/tmp/elogind && mkdir /var/tmp/elogind && cd /var/tmp/elogind &&
apt-get -q -o APT::Sandbox::User=root download "$@" && for package in *.deb; do dpkg-deb --extract "$package" files; done &&
rm -r files/lib/*/libsystemd.so* && cp -a files/etc/. /etc && cp -a files/usr/. /usr && cp -a files/bin/. /usr/bin &&
rm -rf files/lib/udev && cp -a files/lib/*-linux-gnu /usr/lib && cp -a files/lib/elogind /usr/lib && rm -r /var/tmp/elogind`,
		"sh"}, elogindPackages...)...)
	return root
}

// pamOfLogind is what PAM does for a session of sshd: it lets in whom sshd lets in, and tells logind.
const pamOfLogind = `account required pam_permit.so
session required pam_permit.so
session required pam_elogind.so
`

// startLogind starts the bus and elogind on it, and has sshd's sessions told to it.
func (n *LoginNode) startLogind() {
	n.t.Helper()
	m := n.machine
	m.mkdir("run/dbus", 0o755)
	m.mkdir("run/systemd", 0o755)
	m.write("run/pam-sshd", 0o644, pamOfLogind)
	m.run("mount", "--bind", "/run/pam-sshd", "/etc/pam.d/sshd")
	n.Bus = m.daemon("dbus-daemon", func() error { return m.socket("/run/dbus/system_bus_socket") },
		"dbus-daemon", "--system", "--nofork", "--nopidfile")
	n.Bus.wait()
	n.Logind = m.daemon("elogind", func() error {
		_, err := n.Busctl("status", "org.freedesktop.login1")
		return err
	}, "sh", "-c", "ulimit -n $(ulimit -H -n); exec /usr/lib/elogind/elogind") // Each session has a pipe.
	n.Logind.wait()
}

// LogindSession is a session as PAM tells logind of it.
type LogindSession struct{ User, Service, Type, Class, TTY, From string }

// CreateSessions has logind make sessions, each with a process of its own, which last until the returned function is
// called.
func (n *LoginNode) CreateSessions(sessions ...LogindSession) (end func()) {
	n.t.Helper()
	bin := Build(n.t, "./plugins/inputs/who_users/testdata/session")
	args := make([]string, 0, len(sessions))
	for _, s := range sessions {
		args = append(args, fmt.Sprintf("%d,%s,%s,%s,%s,%s,%s", n.UID(s.User), s.User, s.Service, s.Type, s.Class, s.TTY, s.From))
	}
	cmd := exec.Command(n.Tool(filepath.Join(bin, "session")), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(n.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(n.t, err)
	require.NoError(n.t, cmd.Start())
	end = sync.OnceFunc(func() {
		_ = stdin.Close() // Where it has ended already, it said why.
		_ = cmd.Wait()
	})
	n.t.Cleanup(end)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(n.t, err)
	require.Equal(n.t, "ready\n", line)
	return end
}

// Busctl runs busctl(1) on the machine and gives what it prints.
func (n *LoginNode) Busctl(args ...string) (string, error) {
	n.t.Helper()
	out, err := try(n.t, append(n.machine.enter("root"), append([]string{"busctl"}, args...)...)...)
	if err != nil {
		return "", fmt.Errorf("busctl: %w", err)
	}
	return out, nil
}
