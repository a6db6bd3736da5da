package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// freshBound is the most that it may take from the two packages to metrics in the database.
const freshBound = 3 * time.Minute

// freshOutput is where metrics are to go.
const freshOutput = "influxdb=http://127.0.0.1:8086"

// fresh is a host on which nobody has done anything yet, and what an administrator does to it.
type fresh struct {
	name, role string
	start      func(testing.TB) *harness.Host
	prepare    func(*testing.T, *harness.Host) // What makes it a host of its role.
	service    func(t *testing.T, h *harness.Host, role string)
	log        func(*harness.Host) string
	wanted     []string // Statements of InfluxQL, each of which must give something at the end.

	h     *harness.Host
	began time.Time
}

// everyNode are what any role tells at its first gather: of stock Telegraf, of Telegraf itself and of node_sensors.
var everyNode = []string{
	`SELECT last(total) FROM mem`, `SELECT last(load1) FROM system`, `SELECT last(total) FROM processes`,
	`SELECT last(gather_errors) FROM internal_agent`, `SELECT last(version) FROM node_sensors_self`, `SELECT last(interrupts) FROM node_cpu_stats`,
}

// testFresh goes the way of the documentation on fresh hosts: two packages, doctor and its remedies, config, the service; and
// there are metrics in InfluxDB, in less than three minutes. All is as it is shipped, the 30 seconds between gathers, too, so
// that the hosts are set up one after the other and waited for together.
func testFresh(t *testing.T, b *built) {
	hosts := []*fresh{
		{
			name: "systemd", role: "compute", start: harness.StartSystemdHost, prepare: makeComputeNode, service: startBySystemd,
			log:    func(h *harness.Host) string { return h.Run("journalctl", "--unit", "telegraf", "--output", "cat") },
			wanted: everyNode,
		},
		{
			name: "systemd", role: "fileserver", start: harness.StartSystemdHost, prepare: makeFileServer,
			service: func(t *testing.T, h *harness.Host, _ string) { waitOneTelegraf(t, h) }, // A remedy has started it.
			log:     func(h *harness.Host) string { return h.Run("journalctl", "--unit", "telegraf", "--output", "cat") },
			wanted:  append([]string{`SELECT last(write_bytes) FROM lustre_jobstats WHERE job = '77'`}, everyNode...),
		},
		{
			name: "OpenRC", role: "compute", start: startOpenRC, prepare: makeComputeNode, service: startByOpenRC,
			log:    func(h *harness.Host) string { return h.Read(telegrafLog) },
			wanted: everyNode,
		},
		{
			name: "OpenRC", role: "login", start: startOpenRC, prepare: logIn, service: startByOpenRC,
			log:    func(h *harness.Host) string { return h.Read(telegrafLog) },
			wanted: append([]string{`SELECT last("users") FROM who_users WHERE "users" = 1`}, everyNode...),
		},
	}
	telegraf := telegrafPackageWith(t, stockConfiguration(t))
	for _, f := range hosts {
		f.setUp(t, telegraf, b.deb(b.new, newVersion))
	}
	for _, f := range hosts {
		f.finish(t)
	}
}

// stockConfiguration gives the telegraf.conf of Telegraf's own packages, which is what `telegraf config` prints.
func stockConfiguration(t *testing.T) string {
	t.Helper()
	binary, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	text, err := exec.CommandContext(t.Context(), binary, "config").Output()
	require.NoError(t, err)
	require.Contains(t, string(text), "\n[[inputs.cpu]]\n")
	return string(text)
}

// makeComputeNode leaves what slurmd has where it runs.
func makeComputeNode(_ *testing.T, h *harness.Host) {
	h.Write("/var/lib/slurm/slurmd/cred_state", 0o600, "")
}

// makeFileServer gives a host one of Lustre's targets, whose job_stats are for root alone.
func makeFileServer(_ *testing.T, h *harness.Host) {
	const target = "/proc/fs/lustre/obdfilter/scratch-OST0003"
	h.Run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/proc/fs")
	h.Write(target+"/job_stats", 0o600, secretJobStats)
	h.Write(target+"/job_cleanup_interval", 0o644, "600\n")
}

// logIn has somebody log in on a terminal, who stays.
func logIn(t *testing.T, h *harness.Host) {
	t.Helper()
	h.Run("useradd", "--create-home", "alice")
	h.Run("install", "-m", "0664", "-g", "utmp", "/dev/null", "/run/utmp") // As it is made when a host starts.
	h.Run("sh", "-c", `(sleep infinity | setsid script --quiet --command "login -f alice" /dev/null) >/dev/null 2>&1 &`)
	harness.Eventually(t, harness.Patience, func() error {
		if said := h.Run("who"); !strings.HasPrefix(said, "alice ") {
			return fmt.Errorf("who says %q", said)
		}
		return nil
	})
}

// startBySystemd gives Telegraf the rights of its role and starts it, as telegraf-hpc(7) says.
func startBySystemd(t *testing.T, h *harness.Host, role string) {
	t.Helper()
	linkRoles(h, "10-telegraf-hpc", "20-"+role)
	h.Run("systemctl", "restart", "telegraf")
	waitOneTelegraf(t, h)
}

// startOpenRC starts a host as OpenRC has it once it is up.
func startOpenRC(t testing.TB) *harness.Host {
	t.Helper()
	h := harness.StartOpenRCHost(t)
	h.Run("rc-update", "--update")
	return h
}

// startByOpenRC takes our service in place of the one that Telegraf's package has left, as telegraf-hpc(7) says. That may run.
func startByOpenRC(t *testing.T, h *harness.Host, _ string) {
	t.Helper()
	h.Run("/usr/lib/telegraf/scripts/init.sh", "start")
	theirs := waitOneTelegraf(t, h)
	h.Run("sh", "-ec", "mkdir -p /etc/conf.d; cp /usr/share/telegraf-hpc/openrc/init.d/telegraf /etc/init.d/; "+
		"cp /usr/share/telegraf-hpc/openrc/conf.d/telegraf /etc/conf.d/; rc-update add telegraf default; rc-service telegraf restart")
	require.Contains(t, h.Run("rc-service", "telegraf", "status"), "status: started")
	require.NotEqual(t, theirs, waitOneTelegraf(t, h))
}

// waitOneTelegraf waits until one Telegraf runs on a host, and gives its id.
func waitOneTelegraf(t *testing.T, h *harness.Host) int {
	t.Helper()
	var found []int
	harness.Eventually(t, harness.Patience, func() error {
		if found = h.Processes("/usr/bin/telegraf"); len(found) != 1 {
			return fmt.Errorf("processes of Telegraf: %v", found)
		}
		return nil
	})
	return found[0]
}

// named gives each of a test's hosts a name of its own, which those with systemd have in their control groups.
type named struct {
	testing.TB
	name string
}

func (n named) Name() string { return n.TB.Name() + "/" + n.name }

// setUp does all that an administrator does.
func (f *fresh) setUp(t *testing.T, telegraf, ours string) {
	t.Helper()
	f.h = f.start(named{t, f.role})
	f.prepare(t, f.h)
	f.startDatabase(t)
	f.h.Copy(telegraf, "/root/telegraf.deb", 0o644)
	f.h.Copy(ours, "/root/telegraf-hpc.deb", 0o644)

	f.began = time.Now()
	f.h.Run("dpkg", "--install", "/root/telegraf.deb", "/root/telegraf-hpc.deb")
	configure := "telegraf-hpc config --role " + f.role + " --out /etc/telegraf"
	require.Contains(t, remedies(f.doctor(t)), configure, "of role %s", f.role)
	said := f.h.Run("sh", "-ec", configure+" --output "+freshOutput)
	require.Contains(t, said, "wrote /etc/telegraf/telegraf.d/hpc-"+f.role+".conf\n")
	database := regexp.MustCompile(`influx -execute '[^']+'`).FindString(said)
	require.NotEmpty(t, database, said)
	f.h.Run("sh", "-ec", database)
	f.mend(t)
	f.service(t, f.h, f.role)
}

// startDatabase starts InfluxDB as Debian's package has it, but without its script, which wants more files open than a container
// may have. It is not of the three minutes: a site has its database.
func (f *fresh) startDatabase(t *testing.T) {
	t.Helper()
	f.h.Run("sh", "-c", "setsid setpriv --reuid influxdb --regid influxdb --clear-groups "+
		"influxd -config /etc/influxdb/influxdb.conf >/var/log/influxd.log 2>&1 &")
	harness.Eventually(t, harness.Patience, func() error {
		if said, err := f.h.Try("influx", "-execute", "SHOW DATABASES"); err != nil {
			return fmt.Errorf("influx: %w: %s", err, said)
		}
		return nil
	})
}

// finding is one of doctor's, as JSON has it.
type finding struct{ Topic, Level, Text, Remedy string }

// doctor gives all that is not as it should be. Its exit status must say the same.
func (f *fresh) doctor(t *testing.T) []finding {
	t.Helper()
	said, err := f.h.Try("telegraf-hpc", "doctor", "--json")
	status := 0
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, said)
		status = exit.ExitCode()
	}
	var report struct{ Findings []finding }
	require.NoError(t, json.Unmarshal([]byte(said), &report), said)
	require.Greater(t, len(report.Findings), 10)
	worst := 0
	var found []finding
	for _, one := range report.Findings {
		level := slices.Index([]string{"OK", "warning", "error"}, one.Level)
		require.GreaterOrEqual(t, level, 0, one)
		worst = max(worst, level)
		if level > 0 {
			found = append(found, one)
		}
	}
	require.Equal(t, worst, status, said)
	return found
}

// remedies gives the commands that mend what doctor found, but for the clock's: that of a container is its host's, and there
// is no network here that chrony could come from.
func remedies(findings []finding) []string {
	var commands []string
	for _, one := range findings {
		if one.Topic != "clock" && one.Remedy != "" {
			commands = append(commands, one.Remedy)
		}
	}
	return commands
}

// mend runs doctor's remedies until there are none. Nothing but the clock may be left.
func (f *fresh) mend(t *testing.T) {
	t.Helper()
	for range 3 {
		commands := remedies(f.doctor(t))
		if len(commands) == 0 {
			break
		}
		for _, command := range commands {
			t.Logf("%s, %s: %s", f.name, f.role, command)
			f.h.Run("sh", "-ec", command)
		}
	}
	f.requireWell(t)
}

// requireWell has doctor find nothing wrong but the clock, which is the whole machine's.
func (f *fresh) requireWell(t *testing.T) {
	t.Helper()
	for _, one := range f.doctor(t) {
		require.Equal(t, "clock", one.Topic, one)
	}
}

// finish waits for the metrics, and looks whether all is well then.
func (f *fresh) finish(t *testing.T) {
	t.Helper()
	statements := strings.Join(f.wanted, "; ")
	harness.Eventually(t, time.Until(f.began.Add(freshBound)), func() error {
		said, err := f.h.Try("influx", "-database", "hpc", "-format", "csv", "-execute", statements)
		if err != nil {
			return fmt.Errorf("influx: %w: %s", err, said)
		}
		if found := strings.Count(said, "name,time,last\n"); found != len(f.wanted) {
			return errors.New(said + f.log(f.h))
		}
		return nil
	})
	took := time.Since(f.began)
	t.Logf("%s, %s: from packages to metrics in InfluxDB in %s", f.name, f.role, took.Round(100*time.Millisecond))
	require.Less(t, took, freshBound)
	require.NotContains(t, f.log(f.h), "E! ")
	f.requireWell(t)
}
