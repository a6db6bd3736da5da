package slurm_load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/plugintest"
	"telegraf-hpc/internal/series"
)

// mark ends the rows of the squeue.txt of the test cases.
const mark = "#3f9a1c#"

// rig is a plugin that finds what Slurm's commands print in files.
type rig struct {
	t      *testing.T
	p      *SlurmLoad
	log    *testutil.CaptureLogger
	folder string            // of the files
	change map[string]string // what commands print in place of that, by the file's name
	broken map[string]error  // commands that fail, by the file's name
	ran    []string          // the names of the files that were asked for
}

func newRig(t *testing.T, p *SlurmLoad) *rig {
	t.Helper()
	r := &rig{t: t, p: p, log: &testutil.CaptureLogger{}, change: make(map[string]string), broken: make(map[string]error)}
	if p.StateDirectory != "" {
		p.StateDirectory = filepath.Join(t.TempDir(), "state")
	}
	r.init(p)
	return r
}

func (r *rig) init(p *SlurmLoad) {
	r.t.Helper()
	r.p = p
	p.Log, p.run = r.log, r.run
	p.identity = func() (identity, error) { return identity{uid: 0, name: "root"}, nil }
	p.hostname = func() (string, error) { return "ctl1.example.org", nil }
	p.mark = func() string { return mark }
	require.NoError(r.t, p.Init())
	r.t.Cleanup(p.Stop)
}

// restart goes on with a new process on the same state.
func (r *rig) restart() {
	r.t.Helper()
	r.p.Stop()
	p := newPlugin()
	p.Collect, p.StateDirectory, p.now = r.p.Collect, r.p.StateDirectory, r.p.now
	r.init(p)
}

// fileOf names the file that has what a command prints.
func fileOf(name string, args []string) string {
	if name == "scontrol" {
		for _, arg := range args {
			if slices.Contains([]string{"node", "partition", "config", "lic", "res", "ping"}, arg) {
				return arg
			}
		}
	}
	return name
}

func (r *rig) run(_ context.Context, buffer []byte, name string, args ...string) (command.Result, error) {
	file := fileOf(name, args)
	r.ran = append(r.ran, file)
	if err := r.broken[file]; err != nil {
		return command.Result{}, err
	}
	if text, ok := r.change[file]; ok {
		return command.Result{Stdout: append(buffer[:0], text...)}, nil
	}
	text, err := os.ReadFile(filepath.Join(r.folder, file+".txt"))
	if errors.Is(err, os.ErrNotExist) {
		return command.Result{}, fmt.Errorf("%s: exit status 1: slurm_load_%s error: Unable to contact slurm controller", name, file)
	}
	require.NoError(r.t, err)
	// As from a command, what was in the buffer is gone.
	return command.Result{Stdout: append(buffer[:0], text...)}, nil
}

// gather gathers from a folder, at the time that its sdiag.txt tells.
func (r *rig) gather(folder string) (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	r.folder = folder
	if now, ok := timeOf(filepath.Join(folder, "sdiag.txt")); ok {
		r.p.now = func() time.Time { return now }
	}
	return r.collect()
}

func (r *rig) collect() (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	r.ran = nil
	return plugintest.Gather(r.t, r.p)
}

func timeOf(path string) (time.Time, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, false
	}
	found := regexp.MustCompile(`sdiag output at .* \((\d+)\)`).FindSubmatch(text)
	if found == nil {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(string(found[1]), 10, 64)
	return time.Unix(seconds, 0).UTC(), err == nil
}

func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*SlurmLoad)
		require.True(t, ok)
		p.now = func() time.Time { return time.Unix(1795252472, 0).UTC() }
		r := newRig(t, p)
		return plugintest.Steps(t, folder, func(step string, _ int) ([]telegraf.Metric, []error) { return r.gather(step) })
	})
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

// The captures have none of these: they are of clusters that gather no use of CPUs.
func TestReadmeIsShown(t *testing.T) {
	plugintest.Shown(t, "slurm_scheduler NAME", "slurm_reservation partition", "slurm_reservation licenses",
		"slurm_fairshare partition", "slurm_fairshare level_fs", "slurm_finished cpu_used_seconds", "slurm_finished cpu_efficiency",
		"slurm_finished memory_peak_bytes", "slurm_finished memory_efficiency", "slurm_finished energy_joules",
		"slurm_load_self version")
}

func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(sampleConfig)).(*SlurmLoad)
	require.True(t, ok)
	require.NoError(t, p.Init())
	all, ok := plugintest.ParseInput(t, plugintest.Uncommented(sampleConfig)).(*SlurmLoad)
	require.True(t, ok)
	require.Equal(t, "/opt/slurm/bin", all.CommandDirectory, "the one option that is shown with an example")
	require.Equal(t, 21, plugintest.ShowsDefaults(t, sampleConfig, p, all, "command_directory", "pseudonym_key"))
}

func TestInitErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *SlurmLoad)
		want   string
	}{
		{"no group", func(p *SlurmLoad) { p.Collect = nil }, "option collect: empty"},
		{"unknown group", func(p *SlurmLoad) { p.Collect = []string{"nodes"} }, `option collect: "nodes" is none of ["cluster" ` +
			`"partition" "node_problem" "queue" "pending" "wait" "gpu" "scheduler" "reservation" "license" "finished_total" "node" ` +
			`"fairshare" "job" "finished"]`},
		{"group twice", func(p *SlurmLoad) { p.Collect = []string{"gpu", "wait", "gpu"} }, `option collect: "gpu" is there twice`},
		{"command_directory", func(p *SlurmLoad) { p.CommandDirectory = "bin" }, "option command_directory: must be an absolute path"},
		{"timeout", func(p *SlurmLoad) { p.Timeout = 0 }, "option timeout: must be more than 0s"},
		{"max_output", func(p *SlurmLoad) { p.MaxOutput = 10 }, "option max_output: must be at least 1MiB"},
		{"max_users", func(p *SlurmLoad) { p.MaxUsers = 0 }, "option max_users: must be at least 1"},
		{"refresh", func(p *SlurmLoad) { p.Refresh = -1 }, "option refresh: must be more than 0s"},
		{"gpu_min_cpus", func(p *SlurmLoad) { p.GPUMinCPUs = -1 }, "option gpu_min_cpus: must not be negative"},
		{"finished_lookback", func(p *SlurmLoad) { p.FinishedLookback = 1 }, "option finished_lookback: must be at least 1h"},
		{"no bucket", func(p *SlurmLoad) { p.WaitBuckets = nil }, "option wait_buckets: empty"},
		{"order", func(p *SlurmLoad) { p.WaitBuckets = series.Hours[config.Duration](1, 1) },
			"option wait_buckets: 1h0m0s: must be whole seconds, each more than the one before"},
		{"part of a second", func(p *SlurmLoad) { p.WaitBuckets = []config.Duration{config.Duration(1500 * time.Millisecond)} },
			"option wait_buckets: 1.5s: must be whole seconds, each more than the one before"},
		{"users", func(p *SlurmLoad) { p.Users = "uid" }, `option users: "uid" is none of ["name" "pseudonym" "none"]`},
		{"no key", func(p *SlurmLoad) { p.Users = "pseudonym" }, `option pseudonym_key: must be set with users = "pseudonym"`},
		{"short key", func(p *SlurmLoad) { p.Users, p.PseudonymKey = "pseudonym", config.NewSecret([]byte("short")) },
			"option pseudonym_key: must have at least 16 characters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlugin()
			test.change(p)
			require.EqualError(t, p.Init(), test.want)
		})
	}
}

// where gives the fields of the one row of a measurement that has all of these tags, given as "tag=value".
func where(t *testing.T, metrics []telegraf.Metric, measurement string, tags ...string) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, m := range metrics {
		fits := m.Name() == measurement
		for _, tag := range tags {
			name, want, _ := strings.Cut(tag, "=")
			value, ok := m.GetTag(name)
			fits = fits && ok && value == want
		}
		if fits {
			found = append(found, m.Fields())
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d rows of %s have %q", len(found), measurement, tags)
	}
	return found[0]
}

func names(metrics []telegraf.Metric) []string {
	all := make([]string, 0, len(metrics))
	for _, m := range metrics {
		all = append(all, m.Name())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

const recorded = "testcases/22.05_default/1"

// Slurm away, for whatever reason, is said once, and as up=0 at each gather; nothing else is asked and nothing invented.
func TestSlurmIsDown(t *testing.T) {
	r := newRig(t, newPlugin())
	_, errs := r.gather(recorded)
	require.Empty(t, errs)
	refused := errors.New("sdiag: exit status 255: slurm_get_statistics: Unable to contact slurm controller (connect failure)")
	r.broken["sdiag"] = refused
	for gather := range 3 {
		metrics, errs := r.gather(recorded)
		require.Equal(t, []string{"slurm_cluster", "slurm_load_self"}, names(metrics))
		require.Equal(t, map[string]any{"up": int64(0)}, where(t, metrics, "slurm_cluster", "cluster=hpc"))
		require.Equal(t, []string{"sdiag"}, r.ran)
		if gather == 0 {
			require.Equal(t, []string{refused.Error()}, texts(errs))
		} else {
			require.Empty(t, errs, "said once")
		}
	}
	r.broken["sdiag"] = errors.New("sdiag: still running after 10s")
	_, errs = r.gather(recorded)
	require.Equal(t, []string{"sdiag: still running after 10s"}, texts(errs), "another cause")
	delete(r.broken, "sdiag")
	metrics, errs := r.gather(recorded)
	require.Empty(t, errs)
	require.Equal(t, int64(1), where(t, metrics, "slurm_cluster")["up"])
	require.Contains(t, r.ran, "config", "after an outage it may be another Slurm")
	require.Equal(t, []string{"Slurm answers again"}, messages(r.log))
}

func messages(log *testutil.CaptureLogger) (all []string) {
	for _, m := range log.Messages() {
		all = append(all, m.Text)
	}
	return all
}

func TestNoSlurmOnThisHost(t *testing.T) {
	r := newRig(t, newPlugin())
	r.broken["sdiag"] = &command.Error{Name: "sdiag", Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
	for range 3 {
		metrics, errs := r.gather(recorded)
		require.Equal(t, []string{"slurm_load_self"}, names(metrics))
		require.Empty(t, errs)
	}
	require.Equal(t, []string{"No Slurm on this host (sdiag: not found in PATH); looking again at each gather"}, messages(r.log))
	// It is installed later.
	delete(r.broken, "sdiag")
	metrics, errs := r.gather(recorded)
	require.Empty(t, errs)
	require.Equal(t, int64(1), where(t, metrics, "slurm_cluster")["up"])
}

func TestNoSlurmWhereItIsSaidToBe(t *testing.T) {
	p := newPlugin()
	p.CommandDirectory = "/opt/slurm/bin"
	r := newRig(t, p)
	r.broken["sdiag"] = &command.Error{Name: "sdiag", Reason: command.ErrNotFound, Err: errors.New("not found in /opt/slurm/bin")}
	metrics, errs := r.gather(recorded)
	require.Equal(t, []string{"sdiag: not found in /opt/slurm/bin"}, texts(errs))
	require.Equal(t, map[string]any{"up": int64(0)}, where(t, metrics, "slurm_cluster"))
}

// What one command does not tell is left out; the others go on.
func TestOneCommandFails(t *testing.T) {
	for _, test := range []struct {
		file    string
		change  string
		err     string // what is said, where it is not that the command failed
		missing []string
		fields  []string // of slurm_cluster, which are not there
	}{
		{"squeue", "", "", []string{"slurm_queue", "slurm_pending", "slurm_wait"}, []string{"tasks_pending", "jobs_running", "gpus_pending"}},
		{"squeue", "1|garbage|" + mark + "\n", `squeue: row 1: `, []string{"slurm_queue", "slurm_pending", "slurm_wait"}, []string{"tasks_pending"}},
		{"node", "", "", []string{"slurm_node_problem", "slurm_gpu"}, []string{"nodes_total", "cpus_idle", "memory_idle_bytes"}},
		{"node", "NodeName=a1 CPUTot=many\n", `scontrol show node: row 1: `, []string{"slurm_gpu"}, []string{"nodes_total"}},
		{"partition", "", "", []string{"slurm_partition"}, nil},
		{"res", "", "", []string{"slurm_reservation"}, nil},
		{"lic", "", "", []string{"slurm_license"}, nil},
		{"sacct", "", "", []string{"slurm_finished_total"}, nil},
	} {
		t.Run(test.file+" "+test.change, func(t *testing.T) {
			r := newRig(t, newPlugin())
			start, _ := timeOf(recorded + "/sdiag.txt")
			_, errs := r.gatherAt(start.Add(-time.Hour))
			require.Empty(t, errs)
			if test.change != "" {
				r.change[test.file] = test.change
			} else {
				test.err = test.file + ": exit status 1: refused"
				r.broken[test.file] = errors.New(test.err)
			}
			metrics, errs := r.gather(recorded)
			require.Len(t, errs, 1)
			require.Contains(t, errs[0].Error(), test.err)
			for _, measurement := range test.missing {
				require.NotContains(t, names(metrics), measurement)
			}
			fields := where(t, metrics, "slurm_cluster")
			require.Equal(t, int64(1), fields["up"])
			for _, field := range test.fields {
				require.NotContains(t, fields, field)
			}
			require.Contains(t, names(metrics), "slurm_rpc", "the others go on")
			_, errs = r.gather(recorded)
			require.Empty(t, errs, "said once")
		})
	}
}

// PrivateData makes Slurm leave out rows without a word: sums of what is left would look like the whole.
func TestPrivateData(t *testing.T) {
	config, err := os.ReadFile(recorded + "/config.txt")
	require.NoError(t, err)
	private := regexp.MustCompile(`PrivateData  .*`).ReplaceAllString(string(config), "PrivateData             = jobs,nodes")
	require.NotEqual(t, string(config), private)
	for _, test := range []struct {
		name  string
		uid   int64
		level string
		sees  bool
	}{
		{"root", 0, "None\n", true},
		{"SlurmUser", slurmUserID(t, private), "None\n", true},
		{"operator", 1234, "Operator\n", true},
		{"administrator", 1234, "Administrator\n", true},
		{"anybody", 1234, "None\n", false},
		{"somebody that slurmdbd does not know", 1234, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, newPlugin())
			r.p.identity = func() (identity, error) { return identity{uid: test.uid, name: "telegraf"}, nil }
			r.change["config"], r.change["sacctmgr"] = private, test.level
			metrics, errs := r.gather(recorded)
			if test.sees {
				require.Empty(t, errs)
				require.Contains(t, names(metrics), "slurm_queue")
				return
			}
			require.Equal(t, []string{
				"PrivateData hides jobs from user \"telegraf\": left out; `sacctmgr modify user telegraf set adminlevel=operator` shows them",
				"PrivateData hides nodes from user \"telegraf\": left out; `sacctmgr modify user telegraf set adminlevel=operator` shows them",
			}, texts(errs))
			require.NotContains(t, r.ran, "squeue")
			require.NotContains(t, r.ran, "node")
			require.Equal(t, []string{"up", "version"}, slices.Sorted(maps.Keys(where(t, metrics, "slurm_cluster"))))
			_, errs = r.gather(recorded)
			require.Empty(t, errs, "said once")
		})
	}
}

func slurmUserID(t *testing.T, config string) int64 {
	t.Helper()
	found := regexp.MustCompile(`SlurmUser +=.*\((\d+)\)`).FindStringSubmatch(config)
	require.NotNil(t, found)
	id, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(t, err)
	return id
}

func TestOnlyActiveController(t *testing.T) {
	for ping, active := range map[string]bool{
		"Slurmctld(primary) at ctl1 is UP\n":                                        true,
		"Slurmctld(primary) at ctl0 is UP\nSlurmctld(backup) at ctl1 is UP\n":       false,
		"Slurmctld(primary) at ctl0 is DOWN\nSlurmctld(backup) at CTL1.hpc is UP\n": true,
	} {
		t.Run(ping, func(t *testing.T) {
			p := newPlugin()
			p.OnlyActiveController = true
			r := newRig(t, p)
			r.change["ping"] = ping
			metrics, errs := r.gather(recorded)
			require.Empty(t, errs)
			if active {
				require.Contains(t, names(metrics), "slurm_cluster")
			} else {
				require.Equal(t, []string{"slurm_load_self"}, names(metrics))
				require.NotContains(t, r.ran, "squeue")
			}
		})
	}
}

func TestGroupsOfTheirOwnInterval(t *testing.T) {
	p := newPlugin()
	p.Collect = append(p.Collect, "fairshare")
	r := newRig(t, p)
	start, _ := timeOf(recorded + "/sdiag.txt")
	asked := make(map[string]int)
	for i := range 20 {
		// Telegraf's ticks are a little late or early.
		_, errs := r.gatherAt(start.Add(time.Duration(i)*30*time.Second + time.Duration(i%3)*100*time.Millisecond))
		require.Empty(t, errs)
		for _, file := range r.ran {
			asked[file]++
		}
	}
	require.Equal(t, map[string]int{
		"sdiag": 20, "squeue": 20, "node": 20, "partition": 20, "config": 1, "res": 10, "lic": 10, "sshare": 2,
		"sacct": 9, // Before the first gather no job is ours.
	}, asked)
}

// The most users are in order of their CPUs; the others are one.
func TestMaxUsers(t *testing.T) {
	p := newPlugin()
	p.MaxUsers = 1
	r := newRig(t, p)
	metrics, errs := r.gather(recorded)
	require.Empty(t, errs)
	users := make(map[string]int64)
	var all int64
	for _, m := range metrics {
		if by, _ := m.GetTag("by"); m.Name() == "slurm_queue" && by == "user" {
			user, _ := m.GetTag("user")
			users[user] += m.Fields()["tasks"].(int64)
		} else if m.Name() == "slurm_queue" && by == "account" {
			all += m.Fields()["tasks"].(int64)
		}
	}
	require.Len(t, users, 2)
	require.NotZero(t, users["_other"])
	require.Equal(t, all, users["alice"]+users["bob"]+users["carol"]+users["_other"], "nobody is lost")
}

func TestPseudonyms(t *testing.T) {
	for _, how := range []string{"pseudonym", "none"} {
		p := newPlugin()
		p.Users, p.PseudonymKey, p.RPCUsers = how, config.NewSecret([]byte("0123456789abcdef")), true
		usual, others := groups()
		p.Collect = slices.Concat(usual, others)
		r := newRig(t, p)
		metrics, errs := r.gather(recorded)
		require.Empty(t, errs)
		text := plugintest.Lines(t, metrics)
		for _, user := range []string{"alice", "bob", "carol"} {
			require.NotContains(t, text, "user="+user)
		}
	}
}

// A restart, and one after which the state can't be read, loses and doubles nothing that is still in the queue.
func TestState(t *testing.T) {
	r := newRig(t, newPlugin())
	_, errs := r.gather(recorded)
	require.Empty(t, errs)
	before := r.p.snapshot()
	require.NotZero(t, before.Since)
	r.restart()
	_, errs = r.gather(recorded)
	require.Empty(t, errs)
	after := r.p.snapshot()
	require.Equal(t, before.Since, after.Since)
	require.ElementsMatch(t, before.Counted, after.Counted)
	require.ElementsMatch(t, before.Ends, after.Ends)

	other := newRig(t, newPlugin())
	other.p.StateDirectory = r.p.StateDirectory
	_, errs = other.gather(recorded)
	require.Empty(t, errs)
	require.Len(t, messages(other.log), 1)
	require.Contains(t, messages(other.log)[0], "is in use by another process")
	other.p.Stop()

	r.p.Stop()
	path := filepath.Join(r.p.StateDirectory, "cluster-hpc.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"version": 1, "cluster`), 0o600))
	r.restart()
	_, errs = r.gather(recorded)
	require.Empty(t, errs)
	require.Contains(t, messages(r.log)[len(messages(r.log))-1], "set aside")
	require.FileExists(t, path+".damaged")
	r.p.Stop()
	require.NoError(t, os.WriteFile(path, []byte(`{"version": 2}`), 0o600))
	r.restart()
	_, errs = r.gather(recorded)
	require.Empty(t, errs)
	require.Contains(t, messages(r.log)[len(messages(r.log))-1], "version 2 of the format is not 1")
}

// scontrol show config waits for each slurmctld that is down, one that stands by too: that hides nothing of the others.
func TestConfigFails(t *testing.T) {
	r := newRig(t, newPlugin())
	r.broken["config"] = errors.New("scontrol: still running after 10s")
	metrics, errs := r.gather(recorded)
	require.Equal(t, []string{"scontrol: still running after 10s"}, texts(errs))
	require.Equal(t, []string{"slurm_load_self"}, names(metrics), "without the cluster's name there is nothing to tell it from others by")
	delete(r.broken, "config")
	_, errs = r.gather(recorded)
	require.Empty(t, errs)

	r.broken["config"] = errors.New("scontrol: still running after 10s")
	start, _ := timeOf(recorded + "/sdiag.txt")
	asked := 0
	for minute := range 80 {
		r.p.site.stale = r.p.site.stale || minute == 0
		r.gatherAt(start.Add(time.Duration(minute) * time.Minute))
		if slices.Contains(r.ran, "config") {
			asked++
		}
		require.Contains(t, r.ran, "squeue")
	}
	require.Equal(t, 16, asked, "every five minutes")
}

// gatherAt gathers what is recorded, at another time.
func (r *rig) gatherAt(now time.Time) (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	text, err := os.ReadFile(recorded + "/sdiag.txt")
	require.NoError(r.t, err)
	text = regexp.MustCompile(`(sdiag output at .* )\(\d+\)`).ReplaceAll(text, fmt.Appendf(nil, "${1}(%d)", now.Unix()))
	r.folder, r.p.now = recorded, func() time.Time { return now }
	r.change["sdiag"] = string(text)
	defer delete(r.change, "sdiag")
	return r.collect()
}

// The row of a run waits until its steps have told what they used, but not for ever.
func TestFinishedWaitsForSteps(t *testing.T) {
	config, err := os.ReadFile(recorded + "/config.txt")
	require.NoError(t, err)
	measured := regexp.MustCompile(`JobAcctGatherType  .*`).ReplaceAllString(string(config), "JobAcctGatherType       = jobacct_gather/cgroup")
	start, _ := timeOf(recorded + "/sdiag.txt")
	row := func(id string, end time.Time, total, usage string) string {
		fields := []string{
			id, id, "alice", "cpu", "normal", "COMPLETED", "0:0", stamp(start), stamp(start), stamp(start.Add(time.Second)), stamp(end), "60",
			"60", "1", "2", "", "cpu=2,mem=1G,node=1", "cpu01", "physics", "", total, usage,
		}
		return strings.Join(fields, "|"+mark) + "|" + mark + "\n"
	}
	end := start.Add(61 * time.Second)
	job := row("7", end, "01:00", "")
	for _, test := range []struct {
		name   string
		config string
		sacct  map[int]string // by seconds after the end
		want   int            // seconds after the end
		fields map[string]any
	}{
		{"told at once", measured, map[int]string{10: job + row("7.0", end, "01:00", "cpu=00:01:00,mem=512M")}, 10,
			map[string]any{"cpu_efficiency": 0.5, "memory_peak_bytes": int64(512 << 20), "memory_efficiency": 0.5}},
		{"told later", measured, map[int]string{10: job + row("7.0", end, "00:00", ""), 40: job + row("7.0", end, "01:00", "cpu=00:01:00,mem=512M")}, 40,
			map[string]any{"cpu_efficiency": 0.5, "memory_peak_bytes": int64(512 << 20), "memory_efficiency": 0.5}},
		{"never told", measured, map[int]string{10: job + row("7.0", end, "00:00", "")}, 130,
			map[string]any{"cpu_efficiency": nil, "memory_peak_bytes": nil, "memory_efficiency": nil}},
		{"nothing is measured", string(config), map[int]string{10: job + row("7.0", end, "00:00", "")}, 10,
			map[string]any{"cpu_efficiency": nil, "memory_peak_bytes": nil, "memory_efficiency": nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlugin()
			p.Collect, p.FinishedInterval = []string{"finished", "finished_total"}, 0
			r := newRig(t, p)
			r.change["config"], r.change["sacct"] = test.config, ""
			r.gatherAt(start)
			emitted := 0
			for after := 10; after <= 160; after += 30 {
				if text, ok := test.sacct[after]; ok {
					r.change["sacct"] = text
				}
				metrics, errs := r.gatherAt(end.Add(time.Duration(after) * time.Second))
				require.Empty(t, errs)
				require.Contains(t, names(metrics), "slurm_load_self")
				if !slices.Contains(names(metrics), "slurm_finished") {
					continue
				}
				emitted++
				require.Equal(t, test.want, after)
				got := where(t, metrics, "slurm_finished", "state=COMPLETED", "user=alice")
				for field, want := range test.fields {
					require.Equal(t, want, got[field], field)
				}
			}
			require.Equal(t, 1, emitted)
		})
	}
}

// The repeats are the same point, at growing intervals.
func TestFinishedIsRepeated(t *testing.T) {
	p := newPlugin()
	p.Collect, p.FinishedInterval, p.RepeatFor = []string{"finished"}, 0, config.Duration(20*time.Minute)
	r := newRig(t, p)
	start, _ := timeOf("testcases/22.05/1/sdiag.txt")
	r.gatherAt(start)
	sacct, err := os.ReadFile("testcases/22.05/2/sacct.txt")
	require.NoError(t, err)
	r.change["sacct"] = string(sacct)
	minutes := make(map[string][]int)
	for minute := 1; minute <= 60; minute++ {
		metrics, errs := r.gatherAt(start.Add(time.Duration(minute) * time.Minute))
		require.Empty(t, errs)
		for _, m := range metrics {
			if m.Name() == "slurm_finished" {
				line := plugintest.Lines(t, []telegraf.Metric{m})
				minutes[line] = append(minutes[line], minute)
			}
		}
	}
	require.Len(t, minutes, 9, "runs")
	for line, at := range minutes {
		require.Equal(t, []int{1, 5, 9, 17}, at, line)
	}
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
