package helper

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// finding is one of doctor's, as JSON has it.
type finding struct{ Topic, Level, Text, Remedy string }

// doctor looks at a host, and gives what it found by topic, with the worst of each.
func doctor(t *testing.T, bin, root string, more ...string) (map[string]finding, int) {
	t.Helper()
	stdout, stderr, status := helper(t, bin, append([]string{"doctor", "--json", "--root", root}, more...)...)
	require.Empty(t, stderr)
	var report struct{ Findings []finding }
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	worst := map[string]finding{}
	for _, f := range report.Findings {
		if old, known := worst[f.Topic]; !known || old.Level == "OK" || f.Level == "error" {
			worst[f.Topic] = f
		}
	}
	return worst, status
}

// A host that config has set up is well, but for a clock that nobody keeps; one thing after the other goes wrong, and is said.
func TestDoctor(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	telegraf, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	require.NoError(t, os.Chmod(root, 0o755))
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	link := func(target, name string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Symlink(target, path))
	}
	write("etc/passwd", fmt.Sprintf("telegraf:x:%d:%d::/:/bin/false\n", os.Getuid(), os.Getgid()), 0o644)
	write("etc/group", fmt.Sprintf("telegraf:x:%d:\n", os.Getgid()), 0o644)
	write("var/lib/telegraf-hpc/x/state", "", 0o600)
	require.NoError(t, os.Chmod(filepath.Join(root, "var/lib/telegraf-hpc"), 0o750))
	link(telegraf, "usr/bin/telegraf")
	link(filepath.Join(bin, "node_sensors"), "usr/lib/telegraf-hpc/node_sensors")
	for _, name := range []string{"", "node_sensors"} {
		args := []string{"config", "--role", "compute", "--root", root}
		path := "etc/telegraf/telegraf.d/hpc-compute.conf"
		if name != "" {
			args, path = append(args, "--plugin", name), "etc/telegraf/"+name+".conf"
		}
		stdout, stderr, status := helper(t, bin, args...)
		require.Zero(t, status, stderr)
		write(path, stdout, 0o640)
	}

	found, status := doctor(t, bin, root)
	for topic, f := range found {
		if topic != "clock" {
			require.Equal(t, "OK", f.Level, f)
		}
	}
	require.Equal(t, found["clock"].Level == "error", status == 2)

	write("etc/telegraf/node_sensors.conf", "[[inputs.node_sensors]]\n  sensor = 3\n", 0o640)
	found, status = doctor(t, bin, root)
	require.Equal(t, 2, status)
	require.Equal(t, "error", found["config"].Level)
	require.Contains(t, found["config"].Text, "/etc/telegraf/telegraf.d/hpc-compute.conf: node_sensors does not start: ")

	require.NoError(t, os.Remove(filepath.Join(root, "usr/lib/telegraf-hpc/node_sensors")))
	found, _ = doctor(t, bin, root)
	require.Equal(t, "/etc/telegraf/telegraf.d/hpc-compute.conf: inputs.execd runs /usr/lib/telegraf-hpc/node_sensors, which is not there: "+
		"Telegraf ends when it starts", found["config"].Text)
	require.Equal(t, "error", found["programs"].Level)

	require.NoError(t, os.Remove(filepath.Join(root, "usr/bin/telegraf")))
	found, _ = doctor(t, bin, root)
	require.Equal(t, finding{"telegraf", "error", "Telegraf does not run: telegraf: not found in " + root + "/usr/bin",
		"apt-get install telegraf"}, found["telegraf"])
}

// Beside a real Slurm and a real HTCondor: what they are is told, who may see what, and when they are gone.
func TestDoctorOfClusters(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	tools := func(folder string) {
		found, err := filepath.Glob(filepath.Join(folder, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, tool := range found {
			require.NoError(t, os.Symlink(tool, filepath.Join(root, "usr/bin", filepath.Base(tool))))
		}
	}
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Extra: "PrivateData=jobs"})
	tools(cluster.Bin)
	condor := harness.StartCondor(t, harness.CondorOptions{})
	tools(condor.BinAs("root"))
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("bob:x:4242:4242::/:/bin/false\n"), 0o600))

	look := func() map[string]finding {
		found, status := doctor(t, bin, root, "--user", "bob")
		require.Equal(t, 2, status) // There is no Telegraf.
		return found
	}
	found := look()
	require.Equal(t, finding{"slurm", "error", "PrivateData is jobs, and bob is no operator: it sees its own jobs only",
		"sacctmgr -i add user bob account=root adminlevel=Operator"}, found["slurm"])
	require.Equal(t, "OK", found["htcondor"].Level, found["htcondor"].Text)
	require.Regexp(t, `^HTCondor 23\.`, found["htcondor"].Text)

	cluster.Command("sacctmgr", "--immediate", "modify", "user", "bob", "set", "adminlevel=Operator")
	found = look()
	require.Equal(t, finding{"slurm", "OK", "PrivateData is jobs, and bob is Operator: it sees all jobs", ""}, found["slurm"])

	cluster.Daemon("slurmctld").Kill()
	found = look()
	require.Equal(t, "error", found["slurm"].Level)
	require.Contains(t, found["slurm"].Text, "its commands are here, and slurmctld does not answer: scontrol: ")
}
