// Package lustre_jobs runs lustre_jobs under a stock Telegraf in the middle of a site: file servers with a stock Telegraf
// and lustre_jobstats each, which simulated Lustre targets move between, a head node with slurm_load and a real Slurm, and
// a real InfluxDB.
package lustre_jobs

import (
	"fmt"
	"os"
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
	database = "lustre"
	token    = "of-the-site-only"
	// serverBuffer and headBuffer are how many metrics the Telegrafs of file servers and of the head node keep: more than a
	// gather has, and less than there are in an outage.
	serverBuffer, headBuffer = 60, 150
)

// influx is the output of the central Telegrafs.
const influx = `
[[outputs.influxdb]]
  urls = [%q]
  database = "lustre"
  skip_database_creation = true
`

// site is all of it.
type site struct {
	t      testing.TB
	folder string
	bin    string
	db     *harness.InfluxDB
	sim    *harness.Command
	shown  tables

	https, socket string // addresses
	central       *harness.Telegraf
	senders       map[string]*harness.Telegraf
	config        map[string]string // of each Telegraf
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{
		t: t, folder: t.TempDir(), senders: make(map[string]*harness.Telegraf), config: make(map[string]string), shown: shownTables(t),
		bin: harness.Build(t, "./cmd/lustre_jobs", "./cmd/lustre_jobstats", "./cmd/lustresim", "./cmd/slurm_load"),
		db:  harness.StartInfluxDB(t), https: harness.FreeAddress(t), socket: harness.FreeAddress(t),
	}
	s.db.CreateDatabase(database)
	authority := harness.NewAuthority(t, s.folder)
	authority.Issue("server") // The central host's.
	authority.Issue("client") // The file servers'.
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// startCentral starts the central Telegraf, with options of lustre_jobs.
func (s *site) startCentral(options ...string) {
	s.t.Helper()
	key := `"/etc/telegraf/central.key"`
	pem := `"/etc/telegraf/central.pem"`
	listeners := s.table("inputs.influxdb_v2_listener", 0, ":8087", s.https, "${LUSTRE_TOKEN}", token, pem, s.quoted("server.pem"), key, s.quoted("server.key")) +
		s.table("inputs.socket_listener", 0, ":8094", s.socket, pem, s.quoted("server.pem"), key, s.quoted("server.key"), `"/etc/telegraf/ca.pem"`, s.quoted("ca.pem"))
	s.central = s.startProcessor("central", listeners, options...)
}

// startProcessor starts a Telegraf that runs lustre_jobs, with an input and options of the plugin.
func (s *site) startProcessor(name, input string, options ...string) *harness.Telegraf {
	s.t.Helper()
	options = append(options, fmt.Sprintf("state_directory = %q", s.path(name+"-state")))
	s.write(name+".conf", "[[processors.lustre_jobs]]\n  "+strings.Join(options, "\n  ")+"\n")
	s.config[name] = s.table("agent", 0) + fmt.Sprintf("  interval = \"1s\"\n  flush_interval = \"300ms\"\n  hostname = %q\n\n", name) + input +
		s.table("processors.execd", 0, `"/usr/lib/telegraf-hpc/lustre_jobs"`, strconv.Quote(filepath.Join(s.bin, "lustre_jobs")),
			`"/etc/telegraf/lustre_jobs.conf"`, s.quoted(name+".conf"), `restart_delay = "1s"`, `restart_delay = "200ms"`) + fmt.Sprintf(influx, s.db.URL)
	tg := harness.StartTelegraf(s.t, s.mkdir(name), s.config[name])
	tg.Child(name + ".conf")
	return tg
}

// quoted gives the path of a file in the test's folder, in quotes.
func (s *site) quoted(name string) string { return strconv.Quote(s.path(name)) }

// overHTTPS and overSocket give the outputs of those who send to the central Telegraf.
func (s *site) overHTTPS() string {
	return s.table("outputs.influxdb_v2", 0, "central.example.org:8087", s.https, "${LUSTRE_TOKEN}", token, `"/etc/telegraf/ca.pem"`, s.quoted("ca.pem"))
}

func (s *site) overSocket() string {
	return s.table("outputs.socket_writer", 0, "central.example.org:8094", s.socket, `"/etc/telegraf/ca.pem"`, s.quoted("ca.pem"),
		`"/etc/telegraf/oss1.pem"`, s.quoted("client.pem"), `"/etc/telegraf/oss1.key"`, s.quoted("client.key"))
}

// startSender starts a Telegraf that runs an input plugin, and keeps so many metrics while the central host is away.
func (s *site) startSender(host, plugin string, buffer int, output string) {
	s.t.Helper()
	s.config[host] = s.table("agent", 1, `interval = "30s"`, `interval = "1s"`, `"5s"`, `"300ms"`, "200000", strconv.Itoa(buffer)) +
		fmt.Sprintf("  hostname = %q\n  metric_batch_size = 20\n\n", host) +
		s.table("inputs.execd", 0, `"/usr/lib/telegraf-hpc/lustre_jobstats"`, strconv.Quote(filepath.Join(s.bin, plugin)),
			`"/etc/telegraf/lustre_jobstats.conf"`, s.quoted(host+".conf"), `signal = "STDIN"`, "signal = \"STDIN\"\n  restart_delay = \"200ms\"") + output
	s.senders[host] = harness.StartTelegraf(s.t, s.mkdir(host), s.config[host])
	s.senders[host].Child(host + ".conf")
}

func (s *site) mkdir(name string) string {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(s.path(name), 0o750))
	return s.path(name)
}

// startServer starts the Telegraf of a file server that has some targets, with the nth table that is shown of the plugin and
// options to it.
func (s *site) startServer(host string, table int, options, output string, targets ...string) {
	s.t.Helper()
	for _, in := range []string{"proc", "sys"} {
		for _, kind := range []string{"obdfilter", "mdt"} {
			s.mkdir(filepath.Join(host+"-root", in, "fs/lustre", kind))
		}
	}
	for _, target := range targets {
		s.mount(host, target)
	}
	s.write(host+".conf", s.table("inputs.lustre_jobstats", table)+fmt.Sprintf("  root = %s\n  refresh = \"2s\"\n  max_duty = 1.0\n  state_directory = %s\n  %s\n",
		s.quoted(host+"-root"), s.quoted(host+"-state"), options))
	s.startSender(host, "lustre_jobstats", serverBuffer, output)
}

// startHead starts the Telegraf of the head node.
func (s *site) startHead(cluster *harness.Slurm, output string) {
	s.t.Helper()
	s.write("head.conf", s.table("inputs.slurm_load", 0)+fmt.Sprintf("  refresh = \"2s\"\n  finished_interval = \"1s\"\n  command_directory = %q\n  state_directory = %s\n",
		cluster.Bin, s.quoted("head-state")))
	s.startSender("head", "slurm_load", headBuffer, output)
}

// mount gives a target to a server; unmount takes it away. The simulation goes on writing where it does.
func (s *site) mount(host, target string) {
	s.t.Helper()
	for in, file := range map[string]string{"proc": "job_stats", "sys": "job_cleanup_interval"} {
		folder := filepath.Join(in, part(target))
		made := s.mkdir(filepath.Join(host+"-new", folder))
		require.NoError(s.t, os.Symlink(s.path(filepath.Join("sim", folder, file)), filepath.Join(made, file)))
		require.NoError(s.t, os.Rename(made, s.path(filepath.Join(host+"-root", folder))))
	}
}

func (s *site) unmount(host, target string) {
	s.t.Helper()
	for _, in := range []string{"proc", "sys"} {
		folder := s.path(filepath.Join(host+"-root", in, part(target)))
		require.NoError(s.t, os.Rename(folder, filepath.Join(s.t.TempDir(), target)))
	}
}

// part is a target's folder below proc and sys.
func part(target string) string {
	if strings.Contains(target, "-MDT") {
		return filepath.Join("fs/lustre/mdt", target)
	}
	return filepath.Join("fs/lustre/obdfilter", target)
}

// simulate starts the targets.
func (s *site) simulate(args ...string) {
	s.t.Helper()
	args = append([]string{"--root", s.path("sim"), "--truth", s.path("truth.json")}, args...)
	s.sim = harness.StartCommand(s.t, s.folder, filepath.Join(s.bin, "lustresim"), args...)
	harness.Eventually(s.t, harness.Patience, func() error {
		if !strings.Contains(s.sim.Log(), "new files every") {
			return fmt.Errorf("lustresim has not begun: %s", s.sim.Log())
		}
		return nil
	})
}

// finish ends the I/O.
func (s *site) finish() {
	s.t.Helper()
	s.sim.Signal(syscall.SIGTERM)
	require.Zero(s.t, s.sim.Wait(harness.Patience), "exit status of lustresim")
}

// restart kills a Telegraf, waits until its plugin has ended, and starts it again after a while.
func (s *site) restart(tg *harness.Telegraf, name, plugin string, away time.Duration) {
	s.t.Helper()
	child := tg.Child(plugin)
	tg.Kill()
	harness.Gone(s.t, child, harness.Patience)
	s.emissions(0, time.Now().Add(away))
	tg.Restart(s.config[name])
	tg.Child(plugin)
}

// killChild kills a plugin and waits until Telegraf has started it anew.
func (s *site) killChild(tg *harness.Telegraf, plugin string) {
	s.t.Helper()
	child := tg.Child(plugin)
	require.NoError(s.t, syscall.Kill(child, syscall.SIGKILL))
	tg.NewChild(plugin, child)
}

// emissions waits until a time is over, and until so many emissions of lustre_jobs after it are in InfluxDB.
func (s *site) emissions(n int, after time.Time) {
	s.t.Helper()
	harness.Eventually(s.t, time.Until(after)+harness.Patience, func() error {
		if wait := time.Until(after); wait > 0 {
			return fmt.Errorf("%s to go", wait)
		}
		if n == 0 {
			return nil
		}
		got := s.db.Query(database, fmt.Sprintf("SELECT count(lines) FROM lustre_jobs_self WHERE time > %d", after.UnixNano()))
		if len(got) == 0 || got[0].Rows[0].Int64(s.t, "count") < int64(n) {
			return fmt.Errorf("%v emissions in InfluxDB, want %d", got, n)
		}
		return nil
	})
}
