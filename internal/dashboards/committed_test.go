package dashboards

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the repository's folder dashboards anew")

const committed = "../../dashboards"

// generated gives what the folder holds: the dashboards of each store in a folder of its own, and the provisioning of all.
func generated(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, store := range []Store{InfluxQL, Graphite} {
		files, err := Files(Request{Store: store})
		require.NoError(t, err)
		for _, f := range files {
			name := f.Name
			if board, ok := strings.CutPrefix(name, "dashboards/"); ok {
				name = string(store) + "/" + board
			}
			require.NotContains(t, texts, name)
			texts[name] = f.Text
		}
	}
	return texts
}

// What is committed is what the generator gives: `go generate ./internal/dashboards` mends it.
func TestCommitted(t *testing.T) {
	t.Parallel()
	want := generated(t)
	if *update {
		for _, folder := range []string{"influxql", "graphite", "provisioning"} {
			require.NoError(t, os.RemoveAll(filepath.Join(committed, folder)))
		}
		for name, text := range want {
			path := filepath.Join(committed, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
	for _, folder := range []string{"influxql", "graphite", "provisioning"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(committed, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(committed, path)
			require.NoError(t, err)
			require.Contains(t, want, name, "%s is not generated any more: run go generate ./internal/dashboards", path)
			return nil
		}))
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(committed, name))
		require.NoError(t, err, "run go generate ./internal/dashboards")
		if text != string(got) { // Not by Equal, which would print both.
			t.Errorf("%s is out of step: run go generate ./internal/dashboards", name)
		}
	}
}
