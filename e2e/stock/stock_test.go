package stock

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTelegrafIsStamped(t *testing.T) {
	path, err := Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	output, err := exec.CommandContext(t.Context(), path, "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "Telegraf 1.37.2\n", string(output))
}

// Our plugins read their configuration with Telegraf's own code, so it has to be the code of the Telegraf above them.
func TestSameTelegrafAsOurPrograms(t *testing.T) {
	root, err := Repository()
	require.NoError(t, err)
	required := func(path string) string {
		mod, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return string(regexp.MustCompile(`github\.com/influxdata/telegraf v\S+`).Find(mod))
	}
	require.Equal(t, "github.com/influxdata/telegraf v1.37.2", required("e2e/telegraf/go.mod"))
	require.Equal(t, required("e2e/telegraf/go.mod"), required("go.mod"))
}

func TestTagsLeavesOutComments(t *testing.T) {
	require.Equal(t, "custom,inputs.cpu,outputs.file", tags("# Inputs.\ninputs.cpu\n\noutputs.file\n"))
}

// Builds at once must neither break each other's binary nor build twice.
func TestTelegrafBuiltAtOnce(t *testing.T) {
	t.Setenv("GOCACHE", goCache(t)) // The cache of packages moves with XDG_CACHE_HOME otherwise.
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var progress [3]bytes.Buffer
	var paths [3]string
	var errs [3]error
	var wait sync.WaitGroup
	for i := range paths {
		wait.Go(func() { paths[i], errs[i] = Telegraf(t.Context(), &progress[i]) })
	}
	wait.Wait()
	builds := 0
	for i := range paths {
		require.NoError(t, errs[i])
		require.Equal(t, paths[0], paths[i])
		builds += bytes.Count(progress[i].Bytes(), []byte("building Telegraf v1.37.2 into "))
	}
	require.Equal(t, 1, builds)
	leftovers, err := filepath.Glob(paths[0] + ".unfinished")
	require.NoError(t, err)
	require.Empty(t, leftovers)
	require.NoError(t, exec.CommandContext(t.Context(), paths[0], "--version").Run())
}

func goCache(t *testing.T) string {
	output, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	return string(bytes.TrimSpace(output))
}
