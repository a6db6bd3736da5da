package lustre_jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// tables are those of the configurations that the plugin's README shows, in their order, by name: what is tested is what is
// shown there.
type tables map[string][]string

func shownTables(t testing.TB) tables {
	t.Helper()
	root, err := stock.Repository()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "plugins", "processors", "lustre_jobs", "README.md"))
	require.NoError(t, err)
	all := make(tables)
	for _, block := range strings.Split(string(text), "\n```toml\n")[1:] {
		block, _, ok := strings.Cut(block, "\n```\n")
		require.True(t, ok)
		for table := range strings.SplitSeq("\n"+block, "\n[") {
			if name, _, ok := strings.Cut(strings.TrimPrefix(table, "["), "]"); ok {
				all[name] = append(all[name], "["+table+"\n")
			}
		}
	}
	return all
}

// table gives the nth table of a name, with some of its text changed: each pair is what is there and what is to be there.
func (s *site) table(name string, n int, pairs ...string) string {
	s.t.Helper()
	require.Greater(s.t, len(s.shown[name]), n, "the README shows no %s", name)
	text := s.shown[name][n]
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(s.t, text, pairs[i])
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	require.NotContains(s.t, text, "example.org")
	require.NotContains(s.t, text, "/etc/telegraf")
	return text + "\n"
}
