package helper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// The commands that doctor names for Telegraf's configuration mend it: run by a shell, one after the other, they leave a
// configuration that Telegraf takes, and that doctor finds nothing wrong with.
func TestRemedies(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	telegraf, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	require.NoError(t, os.Symlink(telegraf, filepath.Join(root, "usr/bin/telegraf")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/lib/telegraf-hpc"), 0o755))
	for _, name := range []string{"lustre_jobs", "slurm_load"} {
		require.NoError(t, os.Symlink(filepath.Join(bin, name), filepath.Join(root, "usr/lib/telegraf-hpc", name)))
	}
	write("etc/telegraf/telegraf.conf", "[agent]\n  interval = \"10s\"\n[[inputs.cpu]]\n[[outputs.discard]]\n")
	write("etc/telegraf/telegraf.d/hpc-central.conf", `[agent]
  metric_buffer_limit = 10000
[[inputs.cpu]]
[[inputs.execd]]
  command = ["/usr/lib/telegraf-hpc/slurm_load"]
  stop_on_error = true
[[processors.execd]]
  command = ["/usr/lib/telegraf-hpc/lustre_jobs"]
[[outputs.discard]]
`)
	configFindings := func() (remedies, texts []string) {
		stdout, _, _ := helper(t, bin, "doctor", "--root", root)
		lines := strings.Split(stdout, "\n")
		for i, line := range lines {
			if fields := strings.Fields(line); len(fields) < 2 || fields[1] != "config" && fields[1] != "buffer" || fields[0] == "OK" {
				continue
			}
			texts = append(texts, line)
			if remedy, ok := strings.CutPrefix(strings.TrimSpace(lines[i+1]), "$ "); ok {
				remedies = append(remedies, remedy)
			}
		}
		return remedies, texts
	}
	remedies, texts := configFindings()
	require.Len(t, remedies, 4, texts) // stop_on_error, skip_processors_after_aggregators, the buffer, cpu twice.
	for _, remedy := range remedies {
		remedy = strings.ReplaceAll(remedy, "/etc/telegraf", filepath.Join(root, "etc/telegraf"))
		output, err := exec.CommandContext(t.Context(), "sh", "-ec", remedy).CombinedOutput()
		require.NoError(t, err, "%s: %s", remedy, output)
	}
	remedies, texts = configFindings()
	require.Empty(t, remedies)
	require.Empty(t, texts)
	text, err := os.ReadFile(filepath.Join(root, "etc/telegraf/telegraf.d/hpc-central.conf"))
	require.NoError(t, err)
	require.Contains(t, string(text), "[agent]\n  skip_processors_after_aggregators = true\n  metric_buffer_limit = 200000\n")
}
