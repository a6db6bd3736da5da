package agent

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// All plugins together, at 5 s, beside a real Slurm, HTCondor, InfluxDB, VictoriaMetrics and Graphite: nobody complains, no
// metric is dropped, no process grows, and each store has what the README says.
func TestAgent(t *testing.T) {
	t.Parallel()
	newSite(t).run(2 * time.Minute)
}

// settled is when all have done all that they do, and need no more memory from there on.
const settled = 45 * time.Second

const firstJob = 4000000 // The simulation's first job, less one.

// site is a host that is all roles at once.
type site struct {
	t      testing.TB
	folder string
	slurm  *harness.Slurm
	condor *harness.Condor
	influx *harness.InfluxDB
	vm     *harness.VictoriaMetrics
	carbon *harness.Graphite
	tg     *harness.Telegraf

	mu        sync.Mutex
	documents map[string]int // that came to the endpoint, by kind
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{
		t: t, folder: t.TempDir(), documents: make(map[string]int), influx: harness.StartInfluxDB(t), vm: harness.StartVictoriaMetrics(t), carbon: harness.StartGraphite(t),
		slurm:  harness.StartSlurm(t, harness.SlurmOptions{Extra: fmt.Sprintf("FirstJobId=%d\n", firstJob+1)}),
		condor: harness.StartCondor(t, harness.CondorOptions{}),
	}
	s.influx.CreateDatabase("hpc")
	s.simulate()
	configuration := sample(t, s.folder)
	s.configurePlugins()
	for _, table := range []string{"[[processors.execd]]", "[[inputs.file]]", "[[outputs.influxdb]]", "[[outputs.influxdb_v2]]", "[[outputs.graphite]]"} {
		configuration = enable(t, configuration, table)
	}
	configuration = enableAll(t, configuration, "jupyter_users", "af_https")
	configuration = strings.NewReplacer(
		`  interval = "1s"`, `  interval = "5s"`, `flush_interval = "300ms"`, `flush_interval = "5s"`, `files = ["stdout"]`, `files = ["metrics.out"]`, `"${INFLUX_TOKEN}"`, `"none"`,
		"127.0.0.1:2003", s.carbon.Address, "/var/lib/telegraf-hpc/af_https/", s.path("state/af_https")+"/",
	).Replace(configuration)
	// The two have the same address in sample.conf.
	before, after, found := strings.Cut(configuration, "[[outputs.influxdb_v2]]")
	require.True(t, found)
	const address = "http://127.0.0.1:8086"
	configuration = strings.Replace(before, address, s.influx.URL, 1) + "[[outputs.influxdb_v2]]" + strings.Replace(after, address, s.vm.URL, 1)
	s.tg = harness.StartTelegraf(t, s.folder, configuration)
	s.endSome()
	return s
}

// enableAll switches on the execd tables of plugins.
func enableAll(t testing.TB, configuration string, plugins ...string) string {
	t.Helper()
	blocks := strings.Split(configuration, "\n\n")
	for _, plugin := range plugins {
		i := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, "/"+plugin+`",`) })
		require.GreaterOrEqual(t, i, 0, "sample.conf has no %s", plugin)
		lines := strings.Split(blocks[i], "\n")
		for j, line := range lines {
			lines[j] = strings.TrimPrefix(line, "# ")
		}
		blocks[i] = strings.Join(lines, "\n")
	}
	return strings.Join(blocks, "\n\n")
}

// simulate runs simulated Lustre targets whose jobs have the ids of Slurm's, and submits jobs.
func (s *site) simulate() {
	s.t.Helper()
	bin := harness.Build(s.t, "./cmd/lustresim")
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(bin, "lustresim"), "--root", s.path("lustre"),
		"--osts", "3", "--mdts", "1", "--jobs", "20", "--settle", "12s", "--interval", "50s", "--clear-every", "70s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = s.t.Output()
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Wait() }) // It is killed with the test's context.
	s.slurm.Submit("carol", "--partition=gpu", "--gpus=1", "--mem=10", "--wrap=sleep 100000")
	s.slurm.Command("scontrol", "update", "nodename=cpu04", "state=drain", "reason=bad dimm")
	s.slurm.Submit("carol", "--partition=all", "--nodes=9", "--exclusive", "--mem=10", "--wrap=true") // It waits.
	s.condor.Submit("alice", "executable = /bin/sleep\narguments = 100000\nrequest_cpus = 64\nqueue 5")
	s.condor.Submit("carol", "executable = /bin/sleep\narguments = 100000\nhold = true\nqueue 2")
}

// endSome has jobs end, once the plugins have looked: what ended before is not theirs to tell.
func (s *site) endSome() {
	s.t.Helper()
	for _, measurement := range []string{"slurm_load_self", "condor_q_self"} {
		harness.Eventually(s.t, harness.Patience, func() error {
			if len(s.influx.FieldTypes("hpc", measurement)) == 0 {
				return fmt.Errorf("InfluxDB has no %s", measurement)
			}
			return nil
		})
	}
	for _, user := range []string{"alice", "bob"} {
		s.slurm.Submit(user, "--array=1-40", "-n1", "--mem=10", "--wrap=sleep 15")
	}
	s.condor.Submit("bob", "executable = /bin/sleep\narguments = 20\nqueue 10")
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

// configurePlugins writes the plugins' own configurations: all that they can tell.
func (s *site) configurePlugins() {
	s.t.Helper()
	hub, endpoint := s.jupyterHub(), s.endpoint()
	repository, err := stock.Repository()
	require.NoError(s.t, err)
	// This host may keep no account of logins: these are of another one.
	utmp := filepath.Join(repository, "plugins/inputs/who_users/testdata/debian12.utmp")
	for name, options := range map[string]string{
		"inputs.lustre_jobstats": fmt.Sprintf("root = %q\nemit = [\"total\", \"epoch\"]\njobid_name = [\"%%e.%%u\", \"%%j\"]", s.path("lustre")),
		"inputs.slurm_load":      fmt.Sprintf("command_directory = %q\n%s", s.slurm.Bin, slurmOptions),
		"inputs.condor_q": fmt.Sprintf("command_directory = %q\n"+
			`collect = ["queue", "wait", "user", "hold", "finished", "slots", "schedd", "negotiator", "userprio", "job"]`+"\n"+`job_interval = "5s"`, s.condor.Bin),
		"inputs.who_users":       fmt.Sprintf("method = \"utmp\"\nutmp_file = %q\ntrust_utmp = true\nlist_users = true\nsession_rows = true\nhistory = \"5m\"", utmp),
		"inputs.node_sensors":    everySensor,
		"inputs.jupyter_users":   fmt.Sprintf("list_users = true\n[[inputs.jupyter_users.source]]\nname = \"hub\"\nkind = \"jupyterhub\"\nurl = %q\ntoken = \"of-the-hub\"", hub),
		"processors.lustre_jobs": "interval = \"5s\"\nreport_delay = \"10s\"\nunknown_after = \"20s\"",
		"outputs.af_https":       endpoint,
	} {
		kind, plugin, _ := strings.Cut(name, ".")
		text := fmt.Sprintf("[[%s.%s]]\n", kind, plugin)
		if !slices.Contains([]string{"who_users", "node_sensors", "jupyter_users"}, plugin) {
			text += fmt.Sprintf("state_directory = %q\n", s.path("state/"+plugin))
		}
		require.NoError(s.t, os.WriteFile(s.path(plugin+".conf"), []byte(text+options+"\n"), 0o600))
	}
}

const slurmOptions = `collect = ["cluster", "partition", "node_problem", "queue", "pending", "wait", "gpu", "scheduler", "reservation",
  "license", "finished_total", "node", "fairshare", "job", "finished"]
finished_interval = "5s"
fairshare_interval = "5s"`

const everySensor = `sensors = ["cpu_percent", "virtual_memory", "cpu_times", "cpu_times_percent", "cpu_count", "cpu_stats", "cpu_freq", "swap_memory",
  "disk_partitions", "disk_usage", "disk_io_counters", "net_io_counters", "net_connections", "net_if_addrs", "net_if_stats",
  "sensors_temperatures", "sensors_fans", "sensors_battery", "boot_time", "users"]`

// jupyterHub is a JupyterHub with two users, after its REST API's documentation.
func (s *site) jupyterHub() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token of-the-hub" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/jupyterhub-pagination+json")
		_, _ = io.WriteString(w, `{"items": [`+
			`{"kind": "user", "name": "alice", "servers": {"": {"name": "", "ready": true}}}, `+
			`{"kind": "user", "name": "bob", "servers": {"": {"name": "", "ready": true}, "gpu": {"name": "gpu", "ready": true}}}], `+
			`"_pagination": {"offset": 0, "limit": 200, "total": 2, "next": null}}`)
	}))
	s.t.Cleanup(server.Close)
	return server.URL
}

// endpoint is an HTTPS endpoint that takes documents, and gives the options that lead af_https to it.
func (s *site) endpoint() string {
	s.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var document struct{ Kind, Token string }
		if err := json.NewDecoder(r.Body).Decode(&document); err != nil || document.Token != "of-the-endpoint" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.documents[document.Kind]++
	}))
	s.t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(s.t, os.WriteFile(s.path("endpoint.pem"), certificate, 0o600))
	return fmt.Sprintf("url = %q\ntoken = \"of-the-endpoint\"\ntls_ca = %q", server.URL, s.path("endpoint.pem"))
}

// run lets the site live, and then looks at what it has left.
func (s *site) run(duration time.Duration) {
	s.t.Helper()
	end := time.Now().Add(duration)
	time.Sleep(settled)
	before := s.memory()
	peak := maps.Clone(before)
	for time.Now().Before(end) {
		time.Sleep(time.Second)
		for name, bytes := range s.memory() {
			peak[name] = max(peak[name], bytes)
		}
	}
	after := s.memory()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		s.t.Logf("%-16s %3d MB after %s, %3d MB after %s, %3d MB at most", name, before[name]>>20, settled, after[name]>>20, duration, peak[name]>>20)
	}
	require.Equal(s.t, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)), "nobody ended")
	for name, bytes := range after {
		require.Less(s.t, bytes, before[name]*5/4+8<<20, "%s has grown", name)
	}
	require.Empty(s.t, faults(s.tg))
	s.checkAgent()
	s.checkStores()
	s.checkDocuments()
	s.tg.Stop()
}

// memory gives the resident bytes of Telegraf and of our plugins.
func (s *site) memory() map[string]int {
	s.t.Helper()
	processes := map[string]int{"telegraf": s.tg.Pid()}
	for _, plugin := range plugins(s.t) {
		name := filepath.Base(plugin)
		processes[name] = s.tg.Child("/" + name + ".conf")
	}
	resident := make(map[string]int, len(processes))
	for name, pid := range processes {
		resident[name] = harness.Memory(s.t, pid, "VmRSS")
	}
	return resident
}

// checkAgent looks at what Telegraf says of itself.
func (s *site) checkAgent() {
	s.t.Helper()
	for _, series := range s.influx.Query("hpc", `SELECT max(metrics_dropped) AS dropped, max(metrics_rejected) AS rejected, max(errors) AS errors FROM internal_write GROUP BY output`) {
		for _, field := range []string{"dropped", "rejected", "errors"} {
			require.Zero(s.t, series.Rows[0].Int64(s.t, field), "%s of output %s", field, series.Tags["output"])
		}
	}
	for _, series := range s.influx.Query("hpc", `SELECT max(errors) AS errors FROM internal_gather GROUP BY input`) {
		require.Zero(s.t, series.Rows[0].Int64(s.t, "errors"), "errors of input %s", series.Tags["input"])
	}
}

// checkStores looks for all that the READMEs document in each store: each measurement, and each of its fields that InfluxDB
// has, with its type.
func (s *site) checkStores() {
	s.t.Helper()
	harness.Eventually(s.t, harness.Patience, func() error {
		if !slices.Contains(s.vm.Names(), "slurm_cluster_up") {
			return errors.New("VictoriaMetrics has nothing of Slurm")
		}
		return nil
	})
	metrics, paths := s.vm.Names(), s.carbon.Paths()
	host, err := os.Hostname()
	require.NoError(s.t, err)
	var wrong, unseen []string
	for _, m := range s.documented() {
		stored := s.influx.FieldTypes("hpc", m.Measurement)
		if reason, absent := notHere[m.Measurement]; absent {
			require.Empty(s.t, stored, "%s is there, though %s", m.Measurement, reason)
			continue
		}
		if len(stored) == 0 && !m.Optional {
			wrong = append(wrong, "InfluxDB has no "+m.Measurement)
		}
		for _, field := range slices.Sorted(maps.Keys(stored)) {
			name := m.Measurement + "." + field
			if want := m.typeOf(field); want != stored[field] {
				wrong = append(wrong, fmt.Sprintf("%s is of type %s in InfluxDB, and %q in the README", name, stored[field], want))
			}
			if !slices.Contains(metrics, m.Measurement+"_"+field) {
				wrong = append(wrong, "VictoriaMetrics has no "+name)
			}
			inGraphite := slices.ContainsFunc(paths, func(path string) bool {
				parts := strings.Split(path, ".")
				return slices.Contains(parts, m.Measurement) && parts[len(parts)-1] == field
			})
			if should := stored[field] != "string" && !event.MatchString(m.Measurement); inGraphite != should {
				wrong = append(wrong, fmt.Sprintf("Graphite has %s: %v", name, inGraphite))
			}
		}
		for _, f := range m.Fields {
			if strings.ToLower(f.Name) == f.Name && stored[f.Name] == "" {
				unseen = append(unseen, m.Measurement+"."+f.Name)
			}
		}
	}
	require.Empty(s.t, wrong)
	s.t.Logf("fields that this site has no cause for: %s", strings.Join(unseen, " "))
	require.Contains(s.t, paths, strings.ReplaceAll(host, ".", "_")+".mem.available_percent")
	require.False(s.t, slices.ContainsFunc(paths, func(path string) bool { return strings.Contains(path, strconv.Itoa(firstJob)[:5]) }), "a job in Graphite")
}

// event matches measurements of single jobs, sessions and plugins, which have no place in Graphite's paths.
var event = regexp.MustCompile(`^(lustre_jobstats.*|lustre_job|lustre_process|job_report|slurm_job|slurm_finished|condor_job|condor_finished|who_session|.*_self)$`)

// notHere are the measurements that this site has no cause for.
var notHere = map[string]string{
	"lustre_jobstats_epoch": "lustre_jobs takes it",
	"slurm_reservation":     "there is none",
}

// measurement is one that a README documents.
type measurement struct {
	Measurement string
	Optional    bool
	Fields      []struct{ Name, Type string }
}

// documented asks the helper program what the READMEs document. What a machine may lack is optional.
func (s *site) documented() []measurement {
	s.t.Helper()
	bin := harness.Build(s.t, "./cmd/telegraf-hpc")
	text, err := exec.CommandContext(s.t.Context(), filepath.Join(bin, "telegraf-hpc"), "list", "--json").Output()
	require.NoError(s.t, err)
	var all []measurement
	require.NoError(s.t, json.Unmarshal(text, &all))
	require.Greater(s.t, len(all), 40)
	for i := range all {
		all[i].Optional = all[i].Optional || all[i].Measurement == "node_sensors_fans"
	}
	return all
}

// typeOf gives the documented type of a field: that of its name, or of the name with a placeholder such as NAME_rate that
// says most of it.
func (m *measurement) typeOf(field string) string {
	kind, most := "", -1
	for _, f := range m.Fields {
		if f.Name == field {
			return f.Type
		}
		fixed := placeholder.ReplaceAllString(f.Name, "")
		if len(fixed) > most && fixed != f.Name && regexp.MustCompile("^"+placeholder.ReplaceAllString(f.Name, "[a-z0-9_]+")+"$").MatchString(field) {
			kind, most = f.Type, len(fixed)
		}
	}
	return kind
}

var placeholder = regexp.MustCompile("[A-Z]+")

// checkDocuments looks for each kind of document of the Analysis Facility.
func (s *site) checkDocuments() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("documents: %v", s.documents)
	for _, kind := range []string{"ssh", "jupyter-ml", "condorqueue", "condorjob", "CPU", "MEM", "NETWORK", "DISK"} {
		require.NotZero(s.t, s.documents[kind], "documents of kind %s", kind)
	}
}
