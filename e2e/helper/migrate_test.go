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

// What became of other tools' configurations loads: in the stock Telegraf, and in our programs.
func TestMigratedLoads(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	telegraf, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	repository, err := stock.Repository()
	require.NoError(t, err)
	cases, err := filepath.Glob(filepath.Join(repository, "internal", "migrate", "testdata", "*", "expected.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, path := range cases {
		from := filepath.Dir(path)
		t.Run(filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			args := []string{"migrate", "--programs", bin, "--out", folder}
			influx := filepath.Join(from, ".jobHarvest.influx")
			if _, err := os.Stat(influx); err == nil {
				args = append(args, "--influx", influx)
			}
			if text, err := os.ReadFile(filepath.Join(from, "args")); err == nil {
				words := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
				args = append(append(args, "--from", words[0], "--"), words[1:]...)
			} else {
				for _, pattern := range []string{"*.conf", "config.json"} {
					files, err := filepath.Glob(filepath.Join(from, pattern))
					require.NoError(t, err)
					args = append(args, files...)
				}
			}
			_, stderr, status := helper(t, bin, args...)
			require.Zero(t, status, stderr)
			requireLoads(t, telegraf, bin, folder)
		})
	}
}

// requireLoads checks that the files in a folder load: in Telegraf, and in our programs that it runs.
func requireLoads(t *testing.T, telegraf, bin, folder string) {
	t.Helper()
	environment := append(os.Environ(), "INFLUX_TOKEN=a", "LUSTRE_TOKEN=b", "AF_TOKEN=c", "AF_SALT=d", "HOSTNAME=e")
	cmd := exec.CommandContext(t.Context(), telegraf, "config", "check", "--strict-env-handling", "--config-directory", filepath.Join(folder, "telegraf.d"))
	cmd.Env = environment
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NotContains(t, string(output), "E! ")
	owns, err := filepath.Glob(filepath.Join(folder, "*.conf"))
	require.NoError(t, err)
	for _, own := range owns {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, strings.TrimSuffix(filepath.Base(own), ".conf")), "--config", own, "--check")
		cmd.Env = environment
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", own, output)
	}
}
