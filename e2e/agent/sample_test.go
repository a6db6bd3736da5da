// Package agent runs the repository's sample.conf, which is a whole agent, under the stock Telegraf.
package agent

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// sample gives sample.conf, asked every second, with our programs and with configurations of theirs that keep their state
// in a folder.
func sample(t testing.TB, folder string) string {
	t.Helper()
	repository, err := stock.Repository()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(repository, "sample.conf"))
	require.NoError(t, err)
	for _, plugin := range plugins(t) {
		name := filepath.Base(plugin)
		options := ""
		if name != "jupyter_users" && name != "node_sensors" && name != "who_users" {
			options = fmt.Sprintf("  state_directory = %q\n", filepath.Join(folder, "state", name))
		}
		table := fmt.Sprintf("[[%s.%s]]\n%s", filepath.Base(filepath.Dir(plugin)), name, options)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".conf"), []byte(table), 0o600))
	}
	bin := harness.Build(t, "./cmd/...")
	return strings.NewReplacer(
		"${TELEGRAF_HPC_BIN:-/usr/lib/telegraf-hpc}", bin, "${TELEGRAF_HPC_ETC:-/etc/telegraf}", folder,
		`  interval = "30s"`, `  interval = "1s"`, `  flush_interval = "10s"`, `  flush_interval = "300ms"`, `  flush_jitter = "5s"`, "",
	).Replace(string(text))
}

// plugins gives the folders of our plugins.
func plugins(t testing.TB) []string {
	t.Helper()
	repository, err := stock.Repository()
	require.NoError(t, err)
	samples, err := filepath.Glob(filepath.Join(repository, "plugins", "*", "*", "sample.conf"))
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for i := range samples {
		samples[i] = filepath.Dir(samples[i])
	}
	return samples
}

// enable switches a table of sample.conf on, which is a block of lines that are commented out.
func enable(t testing.TB, configuration, table string) string {
	t.Helper()
	lines := strings.Split(configuration, "\n")
	first := slices.Index(lines, "# "+table)
	require.GreaterOrEqual(t, first, 0, "sample.conf has no %s that is off", table)
	for i := first; i < len(lines) && strings.HasPrefix(lines[i], "# "); i++ {
		lines[i] = strings.TrimPrefix(lines[i], "# ")
	}
	return strings.Join(lines, "\n")
}

// faults gives the errors and warnings in Telegraf's log, but for that of tomorrow's Telegraf, and that of a machine without
// udev.
func faults(tg *harness.Telegraf) []string {
	var all []string
	for _, level := range []string{"E! ", "W! "} {
		for _, line := range tg.Lines(level) {
			if strings.HasPrefix(line, level) && !strings.Contains(line, "will be the new default starting with v1.38.0") &&
				!strings.Contains(line, "[inputs.diskio] Unable to gather disk name") {
				all = append(all, line)
			}
		}
	}
	return all
}

// Each output of sample.conf, switched on as it is there, takes what the inputs give that are on.
func TestSampleOutputs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, table string
		start       func(t *testing.T) (old, replacement string, arrived func() bool)
	}{
		{"file", "", func(*testing.T) (string, string, func() bool) { return "", "", nil }},
		{"influxdb", "[[outputs.influxdb]]", func(t *testing.T) (string, string, func() bool) {
			db := harness.StartInfluxDB(t)
			db.CreateDatabase("hpc")
			return "http://127.0.0.1:8086", db.URL, func() bool { return db.FieldTypes("hpc", "cpu")["usage_idle"] == "float" }
		}},
		{"influxdb_v2", "[[outputs.influxdb_v2]]", func(t *testing.T) (string, string, func() bool) {
			db := harness.StartVictoriaMetrics(t)
			return "http://127.0.0.1:8086", db.URL, func() bool { return slices.Contains(db.Names(), "cpu_usage_idle") }
		}},
		{"graphite", "[[outputs.graphite]]", func(t *testing.T) (string, string, func() bool) {
			db := harness.StartGraphite(t)
			return "127.0.0.1:2003", db.Address, func() bool {
				paths := db.Paths()
				host, err := os.Hostname()
				require.NoError(t, err)
				return slices.Contains(paths, strings.ReplaceAll(host, ".", "_")+".cpu.cpu-total.usage_idle")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			// What this machine has of Slurm and HTCondor is not for this test.
			configuration := strings.ReplaceAll(sample(t, folder), "\n  signal = ", "\n  environment = [\"PATH=/nonexistent\"]\n  signal = ")
			old, replacement, arrived := tt.start(t)
			if tt.table == "" {
				tg := harness.StartTelegraf(t, folder, configuration)
				tg.WaitLines(1, "cpu,cpu=cpu-total,host=", harness.Patience)
				tg.WaitLines(1, "node_", harness.Patience)
				require.Empty(t, faults(tg))
				tg.Stop()
				return
			}
			configuration = enable(t, configuration, tt.table)
			require.Contains(t, configuration, old)
			configuration = strings.NewReplacer(old, replacement, `"${INFLUX_TOKEN}"`, `"none"`, `files = ["stdout"]`, `files = ["metrics.out"]`).Replace(configuration)
			tg := harness.StartTelegraf(t, folder, configuration)
			harness.Eventually(t, harness.Patience, func() error {
				if !arrived() {
					return fmt.Errorf("%s has nothing from inputs.cpu", tt.name)
				}
				return nil
			})
			require.Empty(t, faults(tg))
			tg.Stop()
		})
	}
}

// All that is off in sample.conf is right, too: Telegraf takes it with everything switched on.
func TestSampleWithEverythingOn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	configuration := sample(t, folder)
	for line := range strings.Lines(configuration) {
		if table := strings.TrimSpace(strings.TrimPrefix(line, "# ")); strings.HasPrefix(line, "# [[") {
			configuration = enable(t, configuration, table)
		}
	}
	path := filepath.Join(folder, "telegraf.conf")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(configuration, "/etc/telegraf/central", filepath.Join(folder, "central"))), 0o600))
	server := httptest.NewTLSServer(nil) // Has a certificate with its key.
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"central.crt": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "central.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600))
	}
	binary, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, "config", "check", "--strict-env-handling", "--config", path)
	cmd.Env = append(os.Environ(), "INFLUX_TOKEN=a", "LUSTRE_TOKEN=b", "HOSTNAME=c")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NotContains(t, string(output), "E! ")
	require.NotContains(t, string(output), "deprecated")
}

// The sample.conf of each plugin is right as it is.
func TestPluginSamples(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	for _, plugin := range plugins(t) {
		name := filepath.Base(plugin)
		program := filepath.Join(bin, name)
		printed, err := exec.CommandContext(t.Context(), program, "--sample-config").Output()
		require.NoError(t, err, name)
		written, err := os.ReadFile(filepath.Join(plugin, "sample.conf"))
		require.NoError(t, err)
		require.Equal(t, string(written), string(printed), name)
		output, err := exec.CommandContext(t.Context(), program, "--config", filepath.Join(plugin, "sample.conf"), "--check").CombinedOutput()
		require.NoError(t, err, "%s: %s", name, output)
	}
}
