// Package helper runs telegraf-hpc as an administrator does: what it writes is what the stock Telegraf and our programs take.
package helper

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// helper runs telegraf-hpc from the folder of our programs, and gives what it printed to both outputs and its exit status.
func helper(t *testing.T, bin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "telegraf-hpc"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// everything makes the files of a host that has all there is to measure.
func everything(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"usr/bin/scontrol": "#!/bin/sh\necho ClusterName = hpc\necho SLURM_VERSION = 24.11.5\necho MinJobAge = 300 sec\n" +
			"echo AccountingStorageType = accounting_storage/slurmdbd\necho PrivateData = none\n",
		"usr/bin/condor_status": "#!/bin/sh\n",
		"dev/nvidia0":           "", "run/chrony/x": "", "proc/net/rpc/nfs": "", "sys/class/infiniband/mlx5_0/x": "",
		"sys/class/drm/card0/device/vendor": "0x1002\n", "sys/class/drm/card0/device/class": "0x038000\n",
		"var/spool/slurmd/x": "", "var/run/secrets/kubernetes.io/serviceaccount/token": "x",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	}
	return root
}

// The configuration of each role loads as it was written: in the stock Telegraf, and in our programs. So it does on a host
// that has nothing, and on one that has everything.
func TestConfigLoads(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	telegraf, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	full, empty := everything(t), t.TempDir()
	for _, role := range []string{"fileserver", "head", "login", "compute", "central", "fileserver head login compute", "head login central"} {
		for name, root := range map[string]string{"empty": empty, "full": full} {
			t.Run(role+"_"+name, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				args := []string{"config", "--root", root, "--programs", bin, "--out", folder,
					"--output", "influxdb=http://127.0.0.1:8086", "--output", "influxdb_v2=http://127.0.0.1:8086", "--output", "graphite=127.0.0.1:2003",
					"--output", "af_https", "--output", "file=stdout", "--output", "heartbeat=https://monitoring.example.org/"}
				for _, one := range strings.Fields(role) {
					args = append(args, "--role", one)
				}
				if !strings.Contains(role, "central") {
					args = append(args, "--central", "https://central.example.org:8186")
				}
				_, stderr, status := helper(t, bin, args...)
				require.Zero(t, status, stderr)
				requireLoads(t, telegraf, bin, folder)
			})
		}
	}
}

// From nothing to metrics: config writes, Telegraf runs it, and doctor finds nothing wrong with it.
func TestConfigRuns(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	folder := t.TempDir()
	_, stderr, status := helper(t, bin, "config", "--role", "compute", "--root", t.TempDir(), "--programs", bin, "--out", folder)
	require.Zero(t, status, stderr)
	text, err := os.ReadFile(filepath.Join(folder, "telegraf.d", "hpc-compute.conf"))
	require.NoError(t, err)
	quick := strings.NewReplacer(`  interval = "30s"`, `  interval = "1s"`, `  flush_interval = "10s"`, `  flush_interval = "300ms"`, `  flush_jitter = "5s"`, "")
	tg := harness.StartTelegraf(t, folder, quick.Replace(string(text)))
	tg.WaitLines(1, "cpu,cpu=cpu-total,host=", harness.Patience)
	tg.WaitLines(1, "node_", harness.Patience)
	tg.Stop()

	_, stderr, status = helper(t, bin, "config", "--role", "compute", "--root", t.TempDir(), "--programs", bin, "--out", folder, "--output", "graphite=g:2003")
	require.Equal(t, 2, status)
	require.Equal(t, "telegraf-hpc: "+filepath.Join(folder, "telegraf.d", "hpc-compute.conf")+" is there already, with another text: --force overwrites it\n", stderr)
}
