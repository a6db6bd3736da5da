package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slurm is a real Slurm cluster that runs under the test, on a machine of its own: munged, mariadbd, slurmdbd, slurmctld
// and a slurmd for each node. Its tools work only as the files in Bin.
type Slurm struct {
	// Bin is a folder of Slurm's tools that work on this cluster and are to be started by root. Each becomes the
	// tool, with the environment that it was started with, but for SLURM_CONF.
	Bin string

	t       testing.TB
	machine *machine
	daemons map[string]*Daemon
}

// SlurmOptions say what cluster it is; the zero value is a small one with nodes of all kinds.
type SlurmOptions struct {
	// Configuration has the lines of slurm.conf for other nodes and partitions. No slurmd is started for them, so
	// that their state should be CLOUD.
	Configuration string
	// Extra are lines that come at the end of slurm.conf. A line here wins over one of the harness.
	Extra string
	// Suite is the Debian release whose Slurm runs; "" means the host's own. The first start makes a folder for it in
	// the user's cache folder, in minutes.
	Suite string
}

// slurmPackages are the Debian packages that a cluster needs, with what they depend on.
var slurmPackages = []string{"munge", "slurm-wlm", "slurmdbd", "mariadb-client-core", "mariadb-server-core"}

// slurmTools are the tools that Bin has.
var slurmTools = []string{
	"sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue", "sreport", "sshare", "sstat",
}

// StartSlurm starts a cluster and waits until its nodes are idle. The users alice, bob and carol may submit jobs.
func StartSlurm(t testing.TB, options SlurmOptions) *Slurm {
	t.Helper()
	Packages(t, "iproute2")
	root := "/"
	if options.Suite == "" {
		Packages(t, slurmPackages...)
	} else {
		root = debianRoot(t, options.Suite, slurmPackages...)
	}
	m := startMachine(t, root, "slurm", "alice", "bob", "carol")
	s := &Slurm{t: t, machine: m, daemons: make(map[string]*Daemon)}
	s.configure(options)
	s.Bin = s.BinAs("root")
	s.start("munged", func() error { return m.socket("/run/munge/munge.socket.2") },
		"munged", "--foreground", "--key-file=/run/munge/munge.key", "--seed-file=/run/munge/seed")
	s.startDatabase()
	s.start("slurmdbd", func() error { return m.port(6819) }, "slurmdbd", "-D")
	for line := range strings.Lines(strings.TrimSpace(slurmAccounts)) {
		s.Command("sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...)
	}
	s.start("slurmctld", s.controllerAnswers, "slurmctld", "-D")
	if options.Configuration == "" {
		s.startNodes()
	}
	return s
}

// configure writes what the daemons read.
func (s *Slurm) configure(options SlurmOptions) {
	s.t.Helper()
	m := s.machine
	for _, name := range []string{"munge", "mysqld", "slurm", "slurm/state", "slurm/spool"} {
		m.mkdir("run/"+name, 0o755)
	}
	nodes := options.Configuration
	if nodes == "" {
		nodes = slurmNodes
	}
	m.write("etc/slurm.conf", 0o644, slurmConfiguration+nodes+options.Extra+"\n")
	m.write("etc/gres.conf", 0o644, gresConfiguration)
	cgroups := "cgroup/v1" // Which looks at no cgroup until it is asked for one.
	if s.Version() >= "24.05" {
		cgroups = "disabled" // Which is not known earlier.
	}
	m.write("etc/cgroup.conf", 0o644, "CgroupPlugin="+cgroups+"\n")
	m.write("etc/slurmdbd.conf", 0o600, slurmdbdConfiguration)
	m.write("run/munge/munge.key", 0o600, strings.Repeat("no secret here. ", 8))
	for gpu := range 4 {
		null := 1<<8 | 3 // The numbers of /dev/null.
		require.NoError(s.t, syscall.Mknod(m.path(fmt.Sprintf("run/gpu%d", gpu)), syscall.S_IFCHR|0o666, null))
	}
	m.give("slurm", "etc/slurmdbd.conf", "run/slurm", "run/slurm/state")
}

// startDatabase starts a MariaDB with the database for slurmdbd, which with some of Debian's libmariadb3 does not get to
// make it by itself. What a power cut would leave of its files matters to nobody.
func (s *Slurm) startDatabase() {
	s.t.Helper()
	const user, folder = "--user=root", "--datadir=/run/mysqld/data"
	s.machine.run("mariadb-install-db", "--no-defaults", user, folder, "--skip-test-db")
	s.machine.write("run/mysqld/init.sql", 0o600, "create database slurm_acct_db;\ngrant all on *.* to slurm@'%' identified by 'slurm';\n")
	s.start("mariadbd", func() error { return s.machine.socket("/run/mysqld/mysqld.sock") },
		"mariadbd", "--no-defaults", user, folder, "--socket=/run/mysqld/mysqld.sock", "--bind-address=127.0.0.1",
		"--init-file=/run/mysqld/init.sql", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")
}

// startNodes starts the slurmds and waits until all of them are idle.
func (s *Slurm) startNodes() {
	s.t.Helper()
	for _, node := range slurmdNodes {
		name := "slurmd-" + node
		s.daemons[name] = s.machine.daemon(name, func() error { return s.nodeAnswers(node) }, "slurmd", "-D", "-N", node)
	}
	for _, node := range slurmdNodes {
		s.daemons["slurmd-"+node].wait()
	}
}

// start starts a daemon and waits until it serves.
func (s *Slurm) start(name string, answers func() error, line ...string) {
	s.t.Helper()
	s.daemons[name] = s.machine.daemon(name, answers, line...)
	s.daemons[name].wait()
}

func (s *Slurm) controllerAnswers() error {
	if err := s.machine.port(6817); err != nil { // Asking where nobody listens takes seconds.
		return err
	}
	if answer := s.Command("scontrol", "ping"); !strings.HasSuffix(answer, " is UP\n") {
		return errors.New(answer)
	}
	return nil
}

func (s *Slurm) nodeAnswers(node string) error {
	s.t.Helper()
	state := s.Command("sinfo", "--all", "--noheader", "--Node", "--format=%T", "--nodes="+node)
	if strings.Contains(state, "unk") || strings.Contains(state, "down") {
		return fmt.Errorf("node %s is %s", node, state)
	}
	return nil
}

// Daemon gives a daemon of the cluster: munged, mariadbd, slurmdbd, slurmctld, or a node's as slurmd-cpu01.
func (s *Slurm) Daemon(name string) *Daemon {
	s.t.Helper()
	require.Contains(s.t, s.daemons, name)
	return s.daemons[name]
}

// Version gives Slurm's version, such as 22.05.8.
func (s *Slurm) Version() string {
	s.t.Helper()
	fields := strings.Fields(s.machine.run("slurmctld", "-V")) // slurm-wlm 22.05.8
	require.NotEmpty(s.t, fields)
	return fields[len(fields)-1]
}

// Command runs a tool of Slurm as root, with nothing of the test's environment, and gives its standard output. The test
// fails where the tool does.
func (s *Slurm) Command(name string, args ...string) string {
	s.t.Helper()
	return s.CommandAs("root", name, args...)
}

// CommandAs is Command as a user of the machine.
func (s *Slurm) CommandAs(user, name string, args ...string) string {
	s.t.Helper()
	return output(s.t, append([]string{filepath.Join(s.BinAs(user), name)}, args...)...)
}

// Enter gives the beginning of a command line that runs any program on the machine as a user of it, with the test's
// environment. Slurm's tools are in PATH there, and the test's own files are not.
func (s *Slurm) Enter(user string) []string { return s.machine.enter(user) }

// BinAs gives a folder like Bin whose tools run as a user of the machine: alice, bob, carol, slurm or one that Debian
// always has, such as nobody. The one who starts them must be root.
func (s *Slurm) BinAs(user string) string {
	s.t.Helper()
	folder := s.machine.path("bin-" + user)
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	s.machine.mkdir("bin-"+user, 0o755)
	enter := strings.Join(s.machine.enter(user), " ")
	for _, tool := range slurmTools {
		s.machine.write(filepath.Join("bin-"+user, tool), 0o755,
			fmt.Sprintf("#!/bin/sh\nexport SLURM_CONF=/etc/slurm/slurm.conf\nexec %s %s \"$@\"\n", enter, tool))
	}
	return folder
}

// Path gives the path, as the test sees it, of a file on the machine: run/x and tmp/x are /run/x and /tmp/x, and
// etc/slurm.conf is /etc/slurm/slurm.conf.
func (s *Slurm) Path(name string) string { return s.machine.path(name) }

// Submit submits a batch job as a user, with the arguments of sbatch, and gives its id.
func (s *Slurm) Submit(user string, args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.CommandAs(user, "sbatch", append([]string{"--parsable", "--output=/dev/null"}, args...)...))
}

// WaitState waits until a job, all tasks of it where it is an array, is in a state such as RUNNING.
func (s *Slurm) WaitState(job, state string) {
	s.t.Helper()
	Eventually(s.t, time.Minute, func() error {
		states := s.Command("squeue", "--all", "--array", "--noheader", "--states=all", "--format=%T", "--jobs="+job)
		if strings.ReplaceAll(states, state+"\n", "") != "" || states == "" {
			return fmt.Errorf("job %s is %q", job, states)
		}
		return nil
	})
}
