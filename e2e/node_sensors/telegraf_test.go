package node_sensors

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// documented gives the types of the fields of each measurement, as --list tells them.
func documented(t *testing.T) map[string]map[string]string {
	t.Helper()
	binary := program(t)
	list := func(args ...string) string {
		output, err := exec.CommandContext(t.Context(), binary, append([]string{"--list"}, args...)...).Output()
		if err != nil {
			t.Errorf("--list %v: %v", args, err)
		}
		return string(output)
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	measurements := make(map[string]map[string]string)
	sensors := 0
	for line := range strings.Lines(list()) {
		// The table has a sensor's name at the start of a line; the rest of its lines are indented.
		name := strings.Fields(line + " .")[0]
		if strings.HasPrefix(line, " ") || name != strings.ToLower(name) || name == "*" || name == "." {
			continue
		}
		sensors++
		asking.Go(func() {
			text := list(name)
			mu.Lock()
			defer mu.Unlock()
			fieldsIn(text, measurements)
		})
	}
	asking.Wait()
	require.Equal(t, 21, sensors)
	return measurements
}

// fieldsIn reads what --list tells of one sensor.
func fieldsIn(text string, measurements map[string]map[string]string) {
	measurement := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "Measurement":
			measurement = words[1]
			measurements[measurement] = make(map[string]string)
		case len(words) > 2 && slices.Contains([]string{"integer", "float", "string"}, words[1]):
			measurements[measurement][words[0]] = words[1]
		}
	}
}

// Under the stock Telegraf each measurement that --list documents is stored by InfluxDB, with all its fields and their
// types: of this machine, and of the recorded one for what this one has not got.
func TestUnderTelegraf(t *testing.T) {
	t.Parallel()
	want := documented(t)
	db := harness.StartInfluxDB(t)
	db.CreateDatabase("node")
	folder := t.TempDir()
	root := recordedNode(t)
	names := []string{
		"cpu_percent", "cpu_times", "cpu_times_percent", "cpu_count", "cpu_stats", "cpu_freq", "virtual_memory", "swap_memory",
		"disk_partitions", "disk_usage", "disk_io_counters", "net_io_counters", "net_connections", "net_if_addrs", "net_if_stats", "boot_time",
	}
	configuration := fmt.Sprintf(`
[[inputs.node_sensors]]
  sensors = %s
  [inputs.node_sensors.sensor.net_connections]
    list = true
[[inputs.node_sensors]]
  root = %q
  sensors = ["cpu_freq", "net_if_stats", "sensors_temperatures", "sensors_fans", "sensors_battery", "users", "job_cgroups"]
  [inputs.node_sensors.sensor.users]
    users = "name"
  [inputs.node_sensors.sensor.job_cgroups]
    nvidia_smi = %q
`, strings.ReplaceAll(fmt.Sprintf("%q", names), " ", ", "), root, fakeSMI(t, 101))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "node_sensors.conf"), []byte(configuration), 0o600))
	tg := harness.StartTelegraf(t, folder, db.Input("node", program(t), "node_sensors.conf", `interval = "1s"`, "omit_hostname = true"))
	want["node_sensors_self"] = map[string]string{
		"sensors": "integer", "errors": "integer", "hung": "integer", "gather_seconds": "float", "version": "string",
	}
	delete(want["node_net_if_addrs"], "ptp") // This machine has no interface with a peer.
	harness.Eventually(t, harness.Patience, func() error {
		var errs []error
		for measurement, fields := range want {
			got := db.FieldTypes("node", measurement)
			if !maps.Equal(fields, got) {
				errs = append(errs, fmt.Errorf("%s: stored %v, documented %v", measurement, got, fields))
			}
		}
		return errors.Join(errs...)
	})
	require.Empty(t, tg.Lines("E! "), "errors in Telegraf's log")
	require.Empty(t, tg.Lines("W! [inputs.execd]"), "warnings in Telegraf's log")
	// What hardly ever changes came once, the rest each second.
	count := func(measurement, field string) int64 {
		series := db.Query("node", fmt.Sprintf("SELECT count(%q) FROM %q", field, measurement))
		require.Len(t, series, 1)
		return series[0].Rows[0].Int64(t, "count")
	}
	harness.Eventually(t, harness.Patience, func() error {
		if n := count("node_cpu_stats", "interrupts"); n < 4 {
			return fmt.Errorf("%d rows of node_cpu_stats", n)
		}
		return nil
	})
	require.Equal(t, int64(1), count("node_boot_time", "boot_time"))
	tg.Stop()
}

// recordedNode puts test cases of the plugin together to one machine.
func recordedNode(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"compute_node/1", "cgroup_v1/1"} {
		output, err := exec.CommandContext(t.Context(), "cp", "-r", testcase(t, folder)+"/.", root).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	// A job of a slurmd with a name, for the tag, and sessions of a process that is there.
	require.NoError(t, os.Rename(filepath.Join(root, "sys/fs/cgroup/devices/slurm"), filepath.Join(root, "sys/fs/cgroup/devices/slurm_n2")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "run/utmp"), utmp(t), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, fmt.Sprintf("proc/%d", os.Getpid())), 0o755))
	return root
}

// What is not known is said with the file, the line and its name, before anything runs; what is known is tried.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	run := func(configuration string, args ...string) (string, error) {
		path := filepath.Join(t.TempDir(), "x.conf")
		require.NoError(t, os.WriteFile(path, []byte(configuration), 0o600))
		output, err := exec.CommandContext(t.Context(), program(t), append(args, "--config", path)...).CombinedOutput()
		return strings.ReplaceAll(string(output), path, "x.conf"), err
	}
	for _, test := range []struct{ configuration, says string }{
		{"[inputs.node_sensors.sensor.disk_usge]\n  path = \"/\"\n", "x.conf:2: inputs.node_sensors: unknown option \"disk_usge\"\n"},
		{"[inputs.node_sensors.sensor.disk_usage]\n  paht = \"/\"\n", "x.conf:3: inputs.node_sensors: unknown option \"paht\"\n"},
		{"sensors = [\"load\"]\n", "x.conf: initialising inputs.node_sensors: option sensors: \"load\" is none of "},
	} {
		output, err := run("[[inputs.node_sensors]]\n"+test.configuration, "--check")
		require.EqualError(t, err, "exit status 1")
		require.Contains(t, output, "E! [inputs.node_sensors] "+test.says)
	}
	output, err := run("[[inputs.node_sensors]]\n[inputs.node_sensors.sensor.disk_usage]\n  path = \"/proc/sys\"\n", "--try", "disk_usage")
	require.NoError(t, err, output)
	begin := time.Now()
	output, err = run("[[inputs.node_sensors]]\n", "--try", "cpu_percent")
	require.NoError(t, err, output)
	require.Regexp(t, `^node_cpu_percent cpu=cpu-total\n  percent +[0-9.]+ % of the time\n$`, output)
	require.GreaterOrEqual(t, time.Since(begin), time.Second)
}
