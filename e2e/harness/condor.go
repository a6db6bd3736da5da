package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Condor is a real HTCondor pool that runs under the test, on a machine of its own: a collector, a negotiator, a schedd
// and a startd with 16 cores and 2 GPUs, all below a condor_master.
type Condor struct {
	// Bin is a folder of HTCondor's tools that work on this pool, run by root.
	Bin string
	// Master is the condor_master, which starts what has died after a second.
	Master *Daemon

	t       testing.TB
	machine *machine
}

// CondorOptions say what pool it is; the zero value is a small one.
type CondorOptions struct {
	// Extra are lines that come at the end of HTCondor's configuration. A line here wins over one of the harness.
	Extra string
	// SecondSchedd has the machine run another schedd, second@head.pool.test.
	SecondSchedd bool
}

const (
	// CondorSchedd is the name of the pool's schedd.
	CondorSchedd = "head.pool.test"
	// CondorSecondSchedd is the name of the one that comes with CondorOptions.SecondSchedd.
	CondorSecondSchedd = "second@head.pool.test"
)

// StartCondor starts a pool and waits until it takes jobs. The users alice, bob and carol may submit.
func StartCondor(t testing.TB, options CondorOptions) *Condor {
	t.Helper()
	Packages(t, "iproute2")
	m := startMachine(t, debianRoot(t, "trixie", "condor"), condorUsers...)
	c := &Condor{t: t, machine: m}
	configuration := condorConfiguration
	folders := []string{"condor", "condor/log", "condor/lock", "condor/spool", "condor/execute"}
	if options.SecondSchedd {
		configuration += condorSecondSchedd
		folders = append(folders, "condor/second")
	}
	for _, name := range folders {
		require.NoError(t, os.Mkdir(m.path("run/"+name), 0o755)) //nolint:gosec // For all of the machine's users.
		m.give("condor", "run/"+name)
	}
	require.NoError(t, os.Mkdir(m.path("run/jobs"), 0o755)) //nolint:gosec // For all of the machine's users.
	require.NoError(t, os.Chmod(m.path("run/jobs"), 0o777|os.ModeSticky))
	m.write("run/condor/condor_config", 0o644, configuration+options.Extra+"\n")
	c.Bin = c.BinAs("root")
	c.Master = m.daemon("condor_master", func() error { return c.answers(options) }, "env", condorConfigVariable, "condor_master", "-f")
	c.Master.wait()
	return c
}

const condorConfigVariable = "CONDOR_CONFIG=/run/condor/condor_config"

// answers tells whether the pool is complete.
func (c *Condor) answers(options CondorOptions) error {
	schedds := []string{CondorSchedd}
	if options.SecondSchedd {
		schedds = append(schedds, CondorSecondSchedd)
	}
	for _, question := range [][]string{
		{"condor_status", "-schedd", "-af", "Name"}, {"condor_status", "-af", "Name"}, {"condor_q"}, {"condor_status", "-negotiator", "-af", "Name"},
	} {
		answer, err := c.Try(question[0], question[1:]...)
		if err != nil {
			return err
		}
		names := strings.Fields(answer)
		if len(names) == 0 {
			return fmt.Errorf("%s: nothing yet", strings.Join(question, " "))
		}
		for _, name := range schedds {
			if slices.Contains(question, "-schedd") && !slices.Contains(names, name) {
				return fmt.Errorf("the collector knows no schedd %s yet", name)
			}
		}
	}
	return nil
}

// BinAs gives a folder like Bin whose tools run as a user of the machine: alice, bob, carol, condor or one that Debian
// always has, such as nobody. The one who starts them must be root.
func (c *Condor) BinAs(user string) string {
	c.t.Helper()
	folder := c.machine.path("bin-" + user)
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	require.NoError(c.t, os.Mkdir(folder, 0o755)) //nolint:gosec // As /usr/bin.
	enter := strings.Join(c.machine.enter(user), " ")
	for _, tool := range condorTools {
		c.machine.write(filepath.Join("bin-"+user, tool), 0o755,
			fmt.Sprintf("#!/bin/sh\nexport %s\nexec %s %s \"$@\"\n", condorConfigVariable, enter, tool))
	}
	return folder
}

// Try runs a tool of HTCondor as root and gives its standard output.
func (c *Condor) Try(name string, args ...string) (string, error) {
	return try(c.t, append([]string{filepath.Join(c.Bin, name)}, args...)...)
}

// Command is Try, and the test fails where the tool does.
func (c *Condor) Command(name string, args ...string) string {
	c.t.Helper()
	return c.CommandAs("root", name, args...)
}

// CommandAs is Command as a user of the machine.
func (c *Condor) CommandAs(user, name string, args ...string) string {
	c.t.Helper()
	return output(c.t, append([]string{filepath.Join(c.BinAs(user), name)}, args...)...)
}

// Path gives the path, as the test sees it, of a file below /run/condor on the machine, such as log/SchedLog.
func (c *Condor) Path(name string) string { return c.machine.path("run/condor/" + name) }

var submitted = regexp.MustCompile(`submitted to cluster (\d+)\.`)

// Submit submits what a submit description says, as a user, and gives the cluster's id. Jobs get no files and little
// memory unless the description asks for more.
func (c *Condor) Submit(user, description string, args ...string) string {
	c.t.Helper()
	const usual = "universe = vanilla\nrequest_memory = 64\nrequest_disk = 1MB\nshould_transfer_files = NO\ninitialdir = /tmp\n"
	file, err := os.CreateTemp(c.machine.path("run/jobs"), "*.sub")
	require.NoError(c.t, err)
	_, err = file.WriteString(usual + description + "\n")
	require.NoError(c.t, errors.Join(err, file.Chmod(0o644), file.Close()))
	args = append(args, "/run/jobs/"+filepath.Base(file.Name()))
	answer := c.CommandAs(user, "condor_submit", args...)
	found := submitted.FindStringSubmatch(answer)
	require.NotNil(c.t, found, answer)
	return found[1]
}

// WaitJobs waits until so many jobs that a constraint holds for are in the queue.
func (c *Condor) WaitJobs(n int, constraint string) {
	c.t.Helper()
	Eventually(c.t, 3*time.Minute, func() error {
		answer, err := c.Try("condor_q", "-all", "-af:j", "JobStatus", "-limit", strconv.Itoa(n+1), "-constraint", constraint)
		if err != nil {
			return err
		}
		if got := strings.Count(answer, "\n"); got != n {
			return fmt.Errorf("%d (or more) of %d jobs with %s", got, n, constraint)
		}
		return nil
	})
}

// Pid gives the process id, as the test sees it, of a daemon below the master: collector, negotiator, schedd, startd,
// or of the second schedd: second. It waits until there is one.
func (c *Condor) Pid(daemon string) int {
	c.t.Helper()
	var pid int
	Eventually(c.t, time.Minute, func() error {
		name, second := "condor_"+daemon, daemon == "second"
		if second {
			name = "condor_schedd"
		}
		pids, err := children(c.Master.Pid(), name)
		if err != nil {
			return err
		}
		for _, candidate := range pids {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", candidate))
			if err == nil && strings.Contains(string(line), "-local-name") == second {
				pid = candidate
				return nil
			}
		}
		return fmt.Errorf("the master has no %s", daemon)
	})
	return pid
}

// Signal sends a daemon below the master a signal. What SIGKILL ended is waited for, and the master starts it again.
func (c *Condor) Signal(daemon string, signal syscall.Signal) {
	c.t.Helper()
	pid := c.Pid(daemon)
	require.NoError(c.t, syscall.Kill(pid, signal))
	if signal == syscall.SIGKILL {
		Gone(c.t, pid, time.Minute)
	}
}

// try runs a command and gives its standard output.
func try(t testing.TB, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{machinePath}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(stdout), err
}
