package node_sensors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/plugintest"
)

// start is when the first gather of a test is.
var start = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

// rig is a plugin below a folder of its own.
type rig struct {
	t    *testing.T
	p    *NodeSensors
	log  *testutil.CaptureLogger
	root string
	now  time.Time
}

// newRig makes up what no file tells: the kernel's addresses, the sizes of file systems (statfs.txt) and nvidia-smi (the
// folder of that name).
func newRig(t *testing.T, p *NodeSensors) *rig {
	t.Helper()
	r := &rig{t: t, p: p, log: &testutil.CaptureLogger{}, root: t.TempDir(), now: start}
	p.Root, p.Log = r.root, r.log
	p.now = func() time.Time { return r.now }
	p.host = newHost(p.Root, func(string) string { return "" })
	p.host.netlink = func(request int) ([]byte, error) { return recorded(request), nil }
	p.host.statfs = r.statfs
	p.host.command = r.nvidiaSMI
	require.NoError(t, p.Init())
	return r
}

func (r *rig) statfs(path string, into *unix.Statfs_t) error {
	b, err := os.ReadFile(filepath.Join(r.root, "statfs.txt"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		var of string
		var stat unix.Statfs_t
		_, err := fmt.Sscan(line, &of, &stat.Bsize, &stat.Frsize, &stat.Blocks, &stat.Bfree, &stat.Bavail)
		if err == nil && filepath.Join(r.root, of) == path {
			*into = stat
			return nil
		}
	}
	return syscall.ENOENT
}

func (r *rig) nvidiaSMI(_ context.Context, name string, args ...string) (command.Result, error) {
	file := map[string]string{
		"--query-compute-apps=pid,gpu_uuid,used_memory --format=csv,noheader,nounits": "processes.csv",
		"--query-gpu=index,uuid --format=csv,noheader":                                "gpus.csv",
	}[strings.Join(args, " ")]
	b, err := os.ReadFile(filepath.Join(r.root, "nvidia-smi", file))
	if name != "nvidia-smi" || err != nil {
		return command.Result{}, &command.Error{Name: name, Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
	}
	return command.Result{Stdout: b}, nil
}

// write writes a file below the root.
func (r *rig) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
}

// overlay copies a folder over the root. Links are made as links.txt says.
func (r *rig) overlay(folder string) {
	r.t.Helper()
	require.NoError(r.t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(folder, path)
		to := filepath.Join(r.root, rel)
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o750))
		}
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(to, b, 0o600))
	}))
	links, err := os.ReadFile(filepath.Join(folder, "links.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(r.t, err)
	for line := range strings.Lines(string(links)) {
		name, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = filepath.Join(r.root, name)
		require.NoError(r.t, os.MkdirAll(filepath.Dir(name), 0o750))
		if err := os.Symlink(target, name); !errors.Is(err, fs.ErrExist) {
			require.NoError(r.t, err)
		}
	}
}

// gather gathers 10 seconds after the last time, and returns the metrics but that of the plugin itself.
func (r *rig) gather() (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	r.now = r.now.Add(10 * time.Second)
	var acc testutil.Accumulator
	require.NoError(r.t, r.p.Gather(&acc))
	for _, m := range acc.GetTelegrafMetrics() {
		if m.Name() != measurementSelf {
			metrics = append(metrics, m)
		}
	}
	return metrics, acc.Errors
}

// messages gives what was logged.
func (r *rig) messages() []string {
	all := make([]string, 0, len(r.log.Messages()))
	for _, m := range r.log.Messages() {
		all = append(all, strings.Replace(m.String(), " [] ", " ", 1))
	}
	return all
}

// requireDocumented requires that --list knows a metric's tags and fields, with their types.
func requireDocumented(t *testing.T, metrics []telegraf.Metric) {
	t.Helper()
	rows := make(map[string]row)
	for _, s := range catalogue() {
		for _, row := range s.rows {
			rows[row.measurement] = row
		}
	}
	for _, m := range metrics {
		row, ok := rows[m.Name()]
		require.True(t, ok, "%s is not documented", m.Name())
		for _, tag := range m.TagList() {
			require.Contains(t, strings.Fields(row.tags), tag.Key, m.Name())
		}
		for _, f := range m.FieldList() {
			kind := map[string]string{"int64": integer, "float64": float, "string": str}[fmt.Sprintf("%T", f.Value)]
			i := slices.IndexFunc(row.fields, func(d field) bool { return slices.Contains(d.each(), f.Key) })
			require.GreaterOrEqual(t, i, 0, "%s %s is not documented", m.Name(), f.Key)
			require.Equal(t, row.fields[i].kind, kind, "%s %s", m.Name(), f.Key)
		}
	}
}

// A case has a folder for each gather, whose files are new then. The others are still there.
func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*NodeSensors)
		require.True(t, ok)
		r := newRig(t, p)
		steps, err := filepath.Glob(filepath.Join(folder, "[0-9]*"))
		require.NoError(t, err)
		require.NotEmpty(t, steps)
		for _, step := range steps {
			r.overlay(step)
			more, moreErrs := r.gather()
			metrics, errs = append(metrics, more...), append(errs, moreErrs...)
		}
		requireDocumented(t, metrics)
		for i, err := range errs {
			errs[i] = errors.New(strings.ReplaceAll(err.Error(), r.root, "ROOT"))
		}
		plugintest.Golden(t, filepath.Join(folder, "expected.log"), lines(r.messages()))
		return metrics, errs
	})
}

func lines(all []string) string {
	text := strings.Join(all, "\n")
	if text != "" {
		text += "\n"
	}
	return text
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

func TestInitErrors(t *testing.T) {
	for _, test := range []struct{ conf, err string }{
		{`sensors = []`, `option sensors: empty`},
		{`sensors = ["cpu"]`, fmt.Sprintf(`option sensors: "cpu" is none of %q`, sensorNames(false))},
		{`sensors = ["users", "users"]`, `option sensors: "users" is there twice`},
		{`timeout = "0s"`, `option timeout: must be more than 0s`},
		{`timeout = "2s"`, `sensor disk_usage: option timeout: must be less than that of the plugin`},
		{`timeout = "4s"`, `sensor job_cgroups: option timeout: must be less than half of that of the plugin: there are two commands`},
		{`root = "host"`, `option root: "host" is not an absolute path`},
		{"[inputs.node_sensors.sensor.cpu_count]\ninterval = \"-1s\"", `sensor cpu_count: option interval: must not be negative`},
		{"[inputs.node_sensors.sensor.disk_usage]\npath = []", `sensor disk_usage: option path: empty`},
		{"[inputs.node_sensors.sensor.disk_usage]\npath = \"scratch\"", `sensor disk_usage: option path: "scratch" is not an absolute path such as "/scratch"`},
		{"[inputs.node_sensors.sensor.disk_usage]\npath = [\"/\", \"/\"]", `sensor disk_usage: option path: "/" is there twice`},
		{"[inputs.node_sensors.sensor.disk_usage]\ntimeout = \"0s\"", `sensor disk_usage: option timeout: must be more than 0s`},
		{"[inputs.node_sensors.sensor.net_connections]\nkind = \"unix\"", fmt.Sprintf(`sensor net_connections: option kind: "unix" is none of %q`, kinds())},
		{"[inputs.node_sensors.sensor.net_connections]\nmax_rows = 0", `sensor net_connections: option max_rows: must be at least 1`},
		{"[inputs.node_sensors.sensor.users]\nusers = \"all\"", `sensor users: option users: "all" is none of ["name" "pseudonym" "none"]`},
		{"[inputs.node_sensors.sensor.users]\nusers = \"pseudonym\"", `sensor users: option pseudonym_key: must be set with users = "pseudonym"`},
		{"[inputs.node_sensors.sensor.job_cgroups]\nnvidia_smi = \"\"", `sensor job_cgroups: option nvidia_smi: "" is no command`},
		{"[inputs.node_sensors.sensor.job_cgroups]\ntimeout = \"0s\"", `sensor job_cgroups: option timeout: must be more than 0s`},
		{"[inputs.node_sensors.sensor.job_cgroups]\nmountpoint = \"cgroup\"", `sensor job_cgroups: option mountpoint: "cgroup" is not an absolute path`},
		{"[inputs.node_sensors.sensor.net_if_stats]\ninterfaces = [\"[\"]", `sensor net_if_stats: option interfaces or ignore: unexpected end of input`},
	} {
		t.Run(test.conf, func(t *testing.T) {
			p, ok := plugintest.ParseInput(t, []byte("[[inputs.node_sensors]]\n"+test.conf+"\n")).(*NodeSensors)
			require.True(t, ok)
			p.Log = testutil.Logger{}
			require.EqualError(t, p.Init(), test.err)
		})
	}
}

// What neither the plugin nor Telegraf knows is said by name, with the line: internal/execd takes it from UnusedFields.
func TestUnknownOptions(t *testing.T) {
	for _, test := range []struct{ conf, unused string }{
		{"[inputs.node_sensors.sensor.disk_usge]\npath = \"/\"", "disk_usge"},
		{"[inputs.node_sensors.sensor.disk_usage]\npth = \"/\"", "pth"},
		{"[inputs.node_sensors.sensor.cpu_count]\npercpu = true", "percpu"},
	} {
		c := config.NewConfig()
		require.Error(t, c.LoadConfigData([]byte("[[inputs.node_sensors]]\n"+test.conf+"\n"), config.EmptySourcePath))
		require.Contains(t, c.UnusedFields, test.unused)
	}
	c := config.NewConfig()
	err := c.LoadConfigData([]byte("[[inputs.node_sensors]]\n[inputs.node_sensors.sensor.disk_usage]\npath = 7\n"), config.EmptySourcePath)
	require.ErrorContains(t, err, "path: must be a string, or a list of strings")
}

// The sample has every option of every sensor, with its default.
func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, plugintest.Uncommented(sampleConfig)).(*NodeSensors)
	require.True(t, ok)
	usual := newPlugin()
	require.Equal(t, usual.Sensors, p.Sensors)
	require.Equal(t, usual.Timeout, p.Timeout)
	require.Equal(t, usual.Root, p.Root)
	require.Equal(t, len(sensorNames(false)), strings.Count(sampleConfig, "[inputs.node_sensors.sensor."))
	for _, s := range catalogue() {
		require.Equal(t, describe(s.options(&usual.Options)), describe(s.options(&p.Options)), s.name)
		_, table, ok := strings.Cut(sampleConfig, "# [inputs.node_sensors.sensor."+s.name+"]\n")
		require.True(t, ok, s.name)
		table, _, _ = strings.Cut(table, "\n\n")
		options := describe(s.options(&usual.Options))
		for _, o := range options {
			require.Contains(t, table+"\n", "  #   "+o.name+" = "+o.value+"\n", s.name)
			require.NotEmpty(t, o.about, s.name)
		}
		require.Equal(t, len(options), strings.Count(table, "  #   "), "%s: the sample has an option more", s.name)
	}
	log := &testutil.CaptureLogger{}
	p.Log = log
	require.NoError(t, p.Init())
	require.Empty(t, log.Messages())
}

func TestSensorNamesAreThoseOfTheOptions(t *testing.T) {
	var options Options
	names := sensorNames(false)
	require.Len(t, names, 21)
	for name := range options.byName() {
		require.Contains(t, names, name)
	}
	require.Equal(t, []string{"cpu_stats", "cpu_freq", "net_if_addrs", "net_if_stats", "sensors_fans"}, sensorNames(true))
}

func TestOptionsOfASensorThatIsOff(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte("[[inputs.node_sensors]]\n[inputs.node_sensors.sensor.disk_usage]\npath = \"/scratch\"\n")).(*NodeSensors)
	require.True(t, ok)
	require.Equal(t, Paths{"/scratch"}, p.Options.DiskUsage.Path)
	r := newRig(t, p)
	require.Equal(t, []string{"W! Sensor disk_usage has options, but is off: it is not in the option sensors"}, r.messages())
}

// A sensor is measured at its own interval, and one that is asked at each gather at each.
func TestIntervals(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(`[[inputs.node_sensors]]
sensors = ["cpu_stats", "cpu_freq"]
[inputs.node_sensors.sensor.cpu_freq]
interval = "30s"
`)).(*NodeSensors)
	require.True(t, ok)
	r := newRig(t, p)
	r.overlay("testcases/default/1")
	seen := make([]string, 0, 7)
	for range 7 {
		metrics, errs := r.gather()
		require.Empty(t, errs)
		names := make([]string, 0, len(metrics))
		for _, m := range metrics {
			names = append(names, strings.TrimPrefix(m.Name(), "node_cpu_"))
		}
		seen = append(seen, strings.Join(names, " "))
	}
	require.Equal(t, []string{"stats freq", "stats", "stats", "stats freq", "stats", "stats", "stats freq"}, seen)
}

// What a machine lacks is said once.
func TestAbsentIsSaidOnce(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"sensors_fans", "sensors_battery"}
	r := newRig(t, p)
	r.write("sys/class/thing", "")
	for range 3 {
		metrics, errs := r.gather()
		require.Empty(t, metrics)
		require.Empty(t, errs)
	}
	fans := "I! Sensor sensors_fans: there is no fan in /sys/class/hwmon; looking again, in silence"
	battery := "I! Sensor sensors_battery: there is no battery in /sys/class/power_supply; looking again, in silence"
	require.Equal(t, []string{fans, battery}, r.messages())

	r.write("sys/class/hwmon/hwmon0/name", "x")
	r.write("sys/class/hwmon/hwmon0/fan1_input", "900")
	metrics, _ := r.gather()
	require.Len(t, metrics, 1)
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, "sys/class/hwmon")))
	r.gather()
	r.gather()
	require.Equal(t, []string{fans, battery}, r.messages(), "what comes and goes is not said each time")
}

// hanging is a call that does not come back before it is let go.
type hanging struct {
	calls atomic.Int64
	let   chan struct{}
}

func newHanging() *hanging { return &hanging{let: make(chan struct{})} }

func (h *hanging) call() {
	h.calls.Add(1)
	<-h.let
}

// A file system whose server is dead costs one wait and one thread, is said once, and holds up no other.
func TestDeadFileSystem(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"disk_usage", "cpu_stats"}
	p.Options.DiskUsage.Path = Paths{"/dead", "/", "/dead2"}
	p.Options.DiskUsage.Timeout = config.Duration(50 * time.Millisecond)
	r := newRig(t, p)
	r.overlay("testcases/compute_node/1")
	dead := newHanging()
	p.host.statfs = func(path string, into *unix.Statfs_t) error {
		if strings.Contains(path, "dead") {
			dead.call()
		}
		return r.statfs(filepath.Join(r.root, "/"), into)
	}
	want := []string{`sensor disk_usage: path "/dead": hangs; asked again once it answers`, `sensor disk_usage: path "/dead2": hangs; asked again once it answers`}
	for i := range 4 {
		begin := time.Now()
		metrics, errs := r.gather()
		require.Len(t, metrics, 2, "of / and of the CPUs")
		if i == 0 {
			require.Equal(t, want, texts(errs))
		} else {
			require.Empty(t, errs, "it is said once")
		}
		require.Less(t, time.Since(begin), 5*time.Second)
	}
	require.Equal(t, int64(2), dead.calls.Load(), "none is asked again while it hangs")

	close(dead.let)
	require.Eventually(t, func() bool {
		metrics, errs := r.gather()
		require.Empty(t, errs)
		return len(metrics) == 4
	}, 30*time.Second, 10*time.Millisecond)
	dead.let = make(chan struct{})
	defer func() { close(dead.let) }()
	_, errs := r.gather()
	require.Equal(t, want, texts(errs), "a new case is said again")
}

// A sensor that hangs as a whole holds up no other, either.
func TestHangingSensor(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"net_if_addrs", "cpu_stats"}
	p.Options.NetIFAddrs.Interval = 0
	r := newRig(t, p)
	p.Timeout = config.Duration(50 * time.Millisecond)
	r.overlay("testcases/default/1")
	stuck := newHanging()
	p.host.netlink = func(request int) ([]byte, error) {
		if request == syscall.RTM_GETLINK {
			stuck.call()
		}
		return recorded(request), nil
	}
	metrics, errs := r.gather()
	require.Equal(t, []string{"sensor net_if_addrs: hangs; asked again once it answers"}, texts(errs))
	require.Len(t, metrics, 1)
	for range 3 {
		metrics, errs = r.gather()
		require.Empty(t, errs)
		require.Len(t, metrics, 1)
	}
	require.Equal(t, int64(1), stuck.calls.Load())
	var acc testutil.Accumulator
	require.NoError(t, p.Gather(&acc))
	hung, ok := acc.Int64Field(measurementSelf, "hung")
	require.True(t, ok)
	require.Equal(t, int64(1), hung)
	close(stuck.let)
	require.Eventually(t, func() bool {
		metrics, _ = r.gather()
		return len(metrics) > 1
	}, 30*time.Second, 10*time.Millisecond)
}

func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// The environment tells where the folders are, unless there is a root.
func TestFolders(t *testing.T) {
	environment := map[string]string{
		"HOST_PROC": "/h/proc", "HOST_SYS": "/h/sys", "HOST_ETC": "/h/etc", "HOST_RUN": "/h/run", "HOST_MOUNT_PREFIX": "/h",
	}
	getenv := func(name string) string { return environment[name] }
	folders := func(h *host) []string {
		return []string{h.proc, h.sys, h.etc, h.run, h.dev, h.mounts, h.groups("/sys/fs/cgroup"), h.groups("/cgroup")}
	}
	require.Equal(t, []string{"/h/proc", "/h/sys", "/h/etc", "/h/run", "/dev", "/h", "/h/sys/fs/cgroup", "/h/cgroup"}, folders(newHost("", getenv)))
	require.Equal(t, []string{"/r/proc", "/r/sys", "/r/etc", "/r/run", "/r/dev", "/r", "/r/sys/fs/cgroup", "/r/cgroup"}, folders(newHost("/r", getenv)))
	none := newHost("", func(string) string { return "" })
	require.Equal(t, []string{"/proc", "/sys", "/etc", "/run", "/dev", "/", "/sys/fs/cgroup", "/cgroup"}, folders(none))
}

// HOST_PROC and the like lead all sensors to other folders, gopsutil's and procfs's too.
func TestEnvironment(t *testing.T) {
	r := newRig(t, newPlugin())
	r.overlay("testcases/compute_node/1")
	p := newPlugin()
	p.Sensors = []string{"cpu_times", "virtual_memory", "disk_io_counters", "net_io_counters", "boot_time", "sensors_fans", "cpu_count", "users"}
	p.Log = testutil.Logger{}
	p.getenv = func(name string) string {
		folder, ok := strings.CutPrefix(name, "HOST_")
		if !ok || folder == "MOUNT_PREFIX" {
			return ""
		}
		return filepath.Join(r.root, strings.ToLower(folder))
	}
	require.NoError(t, p.Init())
	var acc testutil.Accumulator
	require.NoError(t, p.Gather(&acc))
	require.Empty(t, acc.Errors)
	for _, want := range []struct {
		measurement, field string
		value              any
	}{
		{"node_cpu_times", "user", 18106.19}, {"node_virtual_memory", "total", int64(24684084 << 10)},
		{"node_disk_io_counters", "read_count", int64(4429917 + 100)}, {"node_boot_time", "boot_time", int64(1795258756)},
		{"node_sensors_fans", "current", int64(4200)}, {"node_cpu_count", "physical", int64(2)}, {"node_users", "users", int64(2)},
		{"node_net_io_counters", "bytes_sent", int64(934630733 + 1000 + 500)},
	} {
		require.True(t, acc.HasPoint(want.measurement, tagsOf(&acc, want.measurement), want.field, want.value), want.measurement)
	}
}

// tagsOf gives the tags of the first row of a measurement.
func tagsOf(acc *testutil.Accumulator, measurement string) map[string]string {
	for _, m := range acc.Metrics {
		if m.Measurement == measurement {
			return m.Tags
		}
	}
	return nil
}

// fieldsOf gives the fields of a job.
func fieldsOf(metrics []telegraf.Metric, job string) map[string]any {
	for _, m := range metrics {
		if id, _ := m.GetTag("job"); id == job && m.Name() == "node_job_cgroups" {
			return m.Fields()
		}
	}
	return nil
}

// Pseudonyms are always the same, and no name is told.
func TestPseudonyms(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(`[[inputs.node_sensors]]
sensors = ["users"]
[inputs.node_sensors.sensor.users]
users = "pseudonym"
pseudonym_key = "0123456789abcdef"
`)).(*NodeSensors)
	require.True(t, ok)
	r := newRig(t, p)
	r.overlay("testcases/compute_node/1")
	seen := make(map[any]int)
	for range 2 {
		metrics, errs := r.gather()
		require.Empty(t, errs)
		for _, m := range metrics {
			if m.Name() == "node_user" {
				seen[m.Fields()["name"]]++
			}
		}
	}
	require.Len(t, seen, 2)
	for name, n := range seen {
		require.Regexp(t, `^u[0-9a-f]{12}$`, name)
		require.Zero(t, n%2)
	}
}

// A state of connections that nothing is in any more is told to be empty, for a while.
func TestConnectionsFade(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"net_connections"}
	p.Options.NetConnections.List, p.Options.NetConnections.MaxRows = true, 2
	r := newRig(t, p)
	r.overlay("testcases/compute_node/1")
	metrics, errs := r.gather()
	require.Equal(t, []string{"sensor net_connections: more connections than option max_rows allows to list (2)"}, texts(errs))
	require.Len(t, metrics, 5+2)
	for _, file := range []string{"tcp", "tcp6", "udp"} {
		r.write("proc/net/"+file, "head\n")
	}
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Len(t, metrics, 5)
	for _, m := range metrics {
		require.Equal(t, map[string]any{"connections": int64(0)}, m.Fields())
	}
	r.now = r.now.Add(time.Hour)
	metrics, _ = r.gather()
	require.Empty(t, metrics)
}

// ARM's kernels do not tell the frequency in /proc/cpuinfo; CPUs that are off have none.
func TestFrequenciesWithoutCPUInfo(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"cpu_freq"}
	p.Options.CPUFreq.PerCPU = true
	r := newRig(t, p)
	r.write("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n")
	cpus := "sys/devices/system/cpu/"
	r.write(cpus+"cpu0/cpufreq/scaling_cur_freq", "1400000\n")
	r.write(cpus+"cpu0/cpufreq/scaling_max_freq", "2800000\n")
	r.write(cpus+"cpu1/cpufreq/cpuinfo_cur_freq", "1000000\n")
	r.write(cpus+"cpu2/online", "0\n")
	r.write(cpus+"cpufreq/policy0/scaling_cur_freq", "1\n")
	r.write(cpus+"cpuidle/current_driver", "none\n")
	metrics, errs := r.gather()
	require.Empty(t, errs)
	got := make(map[string]map[string]any)
	for _, m := range metrics {
		cpu, _ := m.GetTag("cpu")
		got[cpu] = m.Fields()
	}
	require.Equal(t, map[string]map[string]any{
		"cpu0": {"current": 1400.0, "max": 2800.0}, "cpu1": {"current": 1000.0}, "cpu-total": {"current": 1200.0, "max": 2800.0},
	}, got)
}

// Who may not look at the first process sees the file systems as this one does.
func TestMountsOfThisProcess(t *testing.T) {
	p := newPlugin()
	p.Sensors = []string{"disk_partitions"}
	r := newRig(t, p)
	r.write("proc/filesystems", "\text4\n")
	r.write("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n")
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Len(t, metrics, 1)
	require.Equal(t, map[string]string{"device": "/dev/sda1", "mountpoint": "/", "fstype": "ext4"}, metrics[0].Tags())
	require.Equal(t, map[string]any{"opts": "rw", "read_only": int64(0)}, metrics[0].Fields())
}
