package who_users

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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

const (
	manyUsers = 1000
	// mostMemory is the most resident memory in bytes with so many users.
	mostMemory = 45 << 20
	// mostCPU is the most CPU time in seconds for a gather.
	mostCPU = 0.3
)

// plugin is our program on its own, which is asked to gather as Telegraf asks it.
type plugin struct {
	t      testing.TB
	pid    int
	stdin  io.Writer
	pipe   *os.File // the standard output
	stdout *bufio.Reader
}

// startPlugin starts the plugin on a login node.
func startPlugin(t testing.TB, n *harness.LoginNode, options string) *plugin {
	t.Helper()
	require.NoError(t, os.WriteFile(n.Path("figures.conf"), []byte("[[inputs.who_users]]\n"+options), 0o600))
	bin := harness.Build(t, "./cmd/who_users")
	cmd := exec.CommandContext(t.Context(), n.Tool(filepath.Join(bin, "who_users")), "--config", "/run/figures.conf")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, output, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = output
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, output.Close())
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		_ = cmd.Wait() // The test is about what it printed.
		require.NoError(t, stdout.Close())
	})
	p := &plugin{t: t, stdin: stdin, pipe: stdout, stdout: bufio.NewReaderSize(stdout, 1<<20)}
	// What enters the machine stays there, as the parent of what it runs.
	harness.Eventually(t, harness.Patience, func() error {
		ids, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if err == nil {
			p.pid, err = strconv.Atoi(strings.TrimSpace(string(ids)))
		}
		return err
	})
	return p
}

// gather gathers once, and gives the line of who_users.
func (p *plugin) gather() string {
	p.t.Helper()
	time.Sleep(30 * time.Millisecond) // Or it would mostly have to be asked again, below.
	found, part := "", ""
	for asked := false; ; {
		if !asked {
			_, err := p.stdin.Write([]byte("\n"))
			require.NoError(p.t, err)
			asked = true
		}
		// A gather ends a moment after its last line, and until then the plugin skips what it is asked.
		require.NoError(p.t, p.pipe.SetReadDeadline(time.Now().Add(time.Second)))
		line, err := p.stdout.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			part += line
			asked = part != "" || found != ""
			continue
		}
		require.NoError(p.t, err)
		line, part = part+line, ""
		if strings.HasPrefix(line, "who_users ") {
			found = line
		}
		if strings.HasPrefix(line, "who_users_self ") {
			return found
		}
	}
}

// measure gathers many times, and requires that this costs little.
func (p *plugin) measure(want string) {
	p.t.Helper()
	require.Contains(p.t, p.gather(), want)
	before := harness.CPUTime(p.t, p.pid).Seconds()
	const gathers = 10
	for range gathers {
		require.Contains(p.t, p.gather(), want)
	}
	cpu := (harness.CPUTime(p.t, p.pid).Seconds() - before) / gathers
	most := harness.Memory(p.t, p.pid, "VmHWM")
	p.t.Logf("a gather: %.4f s of CPU; memory: %.1f MB at most", cpu, float64(most)/1e6)
	require.LessOrEqual(p.t, cpu, mostCPU, "CPU")
	require.LessOrEqual(p.t, most, mostMemory, "memory")
}

const everything = "list_users = true\nhistory = \"5m\"\nsession_rows = true\nrefresh = \"1ns\"\n"

// With 1,000 users, utmp and a real logind cost little.
func TestCostOf1000Users(t *testing.T) {
	t.Parallel()
	users := make([]string, manyUsers)
	sessions := make([]harness.LogindSession, manyUsers)
	utmp := make([][]byte, manyUsers)
	for i := range users {
		users[i] = fmt.Sprintf("user%04d", i)
		from := fmt.Sprintf("192.0.2.%d", i%250)
		sessions[i] = harness.LogindSession{User: users[i], Service: "sshd", Type: "tty", Class: "user", TTY: fmt.Sprintf("pts/%d", i), From: from}
		utmp[i] = login(1, fmt.Sprintf("pts/%d", i), users[i], from)
	}
	n := harness.StartLoginNode(t, harness.LoginOptions{Logind: true, Users: users})
	require.NoError(t, os.WriteFile(n.Path("utmp"), bytes.Join(utmp, nil), 0o600))
	t.Run("utmp", func(t *testing.T) {
		startPlugin(t, n, everything+"method = \"utmp\"\ntrust_utmp = true\n").measure("sessions=1000i")
	})
	t.Run("groups", func(t *testing.T) {
		startPlugin(t, n, everything+"method = \"utmp\"\ntrust_utmp = true\ngroups = [\"users\"]\n").measure("sessions=1000i")
	})
	n.CreateSessions(sessions...)
	t.Run("logind", func(t *testing.T) {
		startPlugin(t, n, everything+"method = \"logind\"\n").measure("sessions=1000i")
	})
}
