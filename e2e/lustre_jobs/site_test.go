// Package lustre_jobs runs lustre_jobs under a stock Telegraf in the middle of a site: file servers with a stock Telegraf
// and lustre_jobstats each, which simulated Lustre targets move between, a head node with slurm_load and a real Slurm, and
// a real InfluxDB.
package lustre_jobs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	// patience is how long something may take on a machine that has other things to do.
	patience = 2 * time.Minute
	// senderBuffer is how many metrics the Telegraf of a file server keeps: less than there are in an outage.
	senderBuffer = 60
)

// agentTable is that of all Telegrafs. What the senders keep while the central host is away is little: most of it is
// lost, and comes again.
const agentTable = `
[agent]
  interval = "1s"
  round_interval = true
  flush_interval = "300ms"
  metric_batch_size = 20
  metric_buffer_limit = %d
  hostname = %q
  skip_processors_after_aggregators = true
`

// centralTables take the folder of the certificates, the addresses to listen on, the processor and the database.
const centralTables = `
[[inputs.influxdb_v2_listener]]
  service_address = %[2]q
  token = %[3]q
  tls_cert = "%[1]s/server.pem"
  tls_key = "%[1]s/server.key"

[[inputs.socket_listener]]
  service_address = "tcp://%[4]s"
  data_format = "influx"
  tls_cert = "%[1]s/server.pem"
  tls_key = "%[1]s/server.key"
  tls_allowed_cacerts = ["%[1]s/ca.pem"]

[[processors.execd]]
  namepass = ["lustre_jobstats_epoch", "lustre_jobstats_self", "slurm_job", "slurm_finished"]
  command = [%[5]q, "--config", %[6]q]
  restart_delay = "200ms"

[[outputs.influxdb]]
  urls = [%[7]q]
  database = "lustre"
  skip_database_creation = true
`

const senderInput = `
[[inputs.execd]]
  command = [%q, "--config", %q]
  signal = "STDIN"
  restart_delay = "200ms"
  data_format = "influx"
`

const overHTTPS = `
[[outputs.influxdb_v2]]
  urls = ["https://ADDRESS"]
  token = "TOKEN"
  organization = "site"
  bucket = "lustre"
  tls_ca = "FOLDER/ca.pem"
`

const overSocket = `
[[outputs.socket_writer]]
  address = "tcp://ADDRESS"
  data_format = "influx"
  tls_ca = "FOLDER/ca.pem"
  tls_cert = "FOLDER/client.pem"
  tls_key = "FOLDER/client.key"
`

// site is all of it.
type site struct {
	t      testing.TB
	folder string
	bin    string
	db     *harness.InfluxDB
	sim    *harness.Command

	https, socket string // addresses
	central       *harness.Telegraf
	senders       map[string]*harness.Telegraf
	config        map[string]string // of each Telegraf
	extra         string            // options of lustre_jobstats
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{
		t: t, folder: t.TempDir(), senders: make(map[string]*harness.Telegraf), config: make(map[string]string),
		bin: harness.Build(t, "./cmd/lustre_jobs", "./cmd/lustre_jobstats", "./cmd/lustresim", "./cmd/slurm_load"),
		db:  harness.StartInfluxDB(t), https: freeAddress(t), socket: freeAddress(t),
	}
	s.db.CreateDatabase(database)
	makeCertificates(t, s.folder)
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// startCentral starts the central Telegraf, with options of lustre_jobs.
func (s *site) startCentral(options ...string) {
	s.t.Helper()
	options = append(options, fmt.Sprintf("state_directory = %q", s.path("central-state")))
	s.write("lustre_jobs.conf", "[[processors.lustre_jobs]]\n  "+strings.Join(options, "\n  ")+"\n")
	s.config["central"] = fmt.Sprintf(agentTable, 200000, "central") + fmt.Sprintf(centralTables, s.folder, s.https, token, s.socket,
		filepath.Join(s.bin, "lustre_jobs"), s.path("lustre_jobs.conf"), s.db.URL)
	s.central = harness.StartTelegraf(s.t, s.mkdir("central"), s.config["central"])
	s.central.Child("lustre_jobs.conf")
}

func (s *site) mkdir(name string) string {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(s.path(name), 0o750))
	return s.path(name)
}

// startServer starts the Telegraf of a file server that has some targets.
func (s *site) startServer(host, output, address string, targets ...string) {
	s.t.Helper()
	for _, in := range []string{"proc", "sys"} {
		for _, kind := range []string{"obdfilter", "mdt"} {
			s.mkdir(filepath.Join(host+"-root", in, "fs/lustre", kind))
		}
	}
	for _, target := range targets {
		s.mount(host, target)
	}
	s.write(host+".conf", fmt.Sprintf(`[[inputs.lustre_jobstats]]
  root = %q
  emit = ["epoch"]
  refresh = "2s"
  max_duty = 1.0
  state_directory = %q
%s`, s.path(host+"-root"), s.path(host+"-state"), s.extra))
	s.config[host] = fmt.Sprintf(agentTable, senderBuffer, host) + fmt.Sprintf(senderInput, filepath.Join(s.bin, "lustre_jobstats"), s.path(host+".conf")) +
		s.output(output, address)
	s.senders[host] = harness.StartTelegraf(s.t, s.mkdir(host), s.config[host])
	s.senders[host].Child(host + ".conf")
}

// output gives the table of an output to an address.
func (s *site) output(table, address string) string {
	return strings.NewReplacer("FOLDER", s.folder, "ADDRESS", address, "TOKEN", token).Replace(table)
}

// startHead starts the Telegraf of the head node. What happens once there must not be lost: its buffer holds an outage.
func (s *site) startHead(cluster *harness.Slurm) {
	s.t.Helper()
	s.write("head.conf", fmt.Sprintf(`[[inputs.slurm_load]]
  collect = ["job", "finished"]
  refresh = "2s"
  finished_interval = "1s"
  repeat_for = "1h"
  command_directory = %q
  state_directory = %q
`, cluster.Bin, s.path("head-state")))
	s.config["head"] = fmt.Sprintf(agentTable, 200000, "head") + fmt.Sprintf(senderInput, filepath.Join(s.bin, "slurm_load"), s.path("head.conf")) +
		s.output(overHTTPS, s.https)
	s.senders["head"] = harness.StartTelegraf(s.t, s.mkdir("head"), s.config["head"])
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
	harness.Eventually(s.t, patience, func() error {
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
	require.Zero(s.t, s.sim.Wait(patience), "exit status of lustresim")
}

// restart kills a Telegraf, waits until its plugin has ended, and starts it again after a while.
func (s *site) restart(tg *harness.Telegraf, name, plugin string, away time.Duration) {
	s.t.Helper()
	child := tg.Child(plugin)
	tg.Kill()
	harness.Gone(s.t, child, patience)
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
	harness.Eventually(s.t, time.Until(after)+patience, func() error {
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
