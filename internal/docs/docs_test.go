package docs

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/catalogue"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

// repository is the root, from here.
const repository = "../.."

// The reference is what the READMEs say: `go generate ./internal/docs` mends it.
func TestReference(t *testing.T) {
	t.Parallel()
	all, err := catalogue.All()
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(repository, "plugins/*/*/README.md"))
	require.NoError(t, err)
	readmes := make(map[string]string)
	for _, path := range paths {
		link, err := filepath.Rel(filepath.Join(repository, "docs"), path)
		require.NoError(t, err)
		readmes[filepath.Base(filepath.Dir(path))] = filepath.ToSlash(link)
	}
	for i := range all {
		require.NotEmpty(t, readmes[all[i].Plugin], all[i].Plugin)
	}
	var want bytes.Buffer
	require.NoError(t, WriteReference(&want, all, readmes))
	path := filepath.Join(repository, Reference)
	if *update {
		require.NoError(t, os.WriteFile(path, want.Bytes(), 0o600))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want.Bytes(), got), "%s is out of step: go generate ./internal/docs mends it", Reference)
}

func TestWriteReference(t *testing.T) {
	t.Parallel()
	all := []catalogue.Measurement{
		{
			Plugin: "first", Name: "first", Text: "what it is", Optional: true,
			Tags:   []catalogue.Tag{{Name: "fs", Text: "one | two"}, {Name: "by_WHAT"}},
			Fields: []catalogue.Field{{Name: "bytes", Type: "integer", Unit: "bytes", Text: "all"}, {Name: "up", Type: "boolean"}},
		},
		{Plugin: "first", Name: "first_self", Text: "the plugin.", Fields: []catalogue.Field{{Name: "version", Type: "string"}}},
		{Plugin: "other", Name: "more", Fields: []catalogue.Field{{Name: "x", Type: "float", Text: "`a|b`"}}},
	}
	var out strings.Builder
	require.NoError(t, WriteReference(&out, all, map[string]string{"first": "../a.md", "other": "../b.md"}))
	text, ok := strings.CutPrefix(out.String(), introduction)
	require.True(t, ok)
	require.Equal(t, `| plugin | measurements |
|---|---|
| [first](#first) | [first](#first-1), [first_self](#first_self) |
| [other](#other) | [more](#more) |

## first

[What it is, and how it is configured.](../a.md)

### first

What it is. Not by default.

| tag | |
|---|---|
| `+"`fs`"+` | one \| two |
| `+"`by_WHAT`"+` |  |

| field | type | unit | |
|---|---|---|---|
| `+"`bytes`"+` | integer | bytes | all |
| `+"`up`"+` | boolean |  |  |

### first_self

The plugin.

| field | type | unit | |
|---|---|---|---|
| `+"`version`"+` | string |  |  |

## other

[What it is, and how it is configured.](../b.md)

### more



| field | type | unit | |
|---|---|---|---|
| `+"`x`"+` | float |  | `+"`a\\|b`"+` |
`, text)
	// Every anchor of the index is there.
	page := parse("metrics.md", out.String())
	for _, l := range page.links {
		if anchor, ok := strings.CutPrefix(l.target, "#"); ok {
			require.Contains(t, page.anchors, anchor)
		}
	}
	require.EqualError(t, WriteReference(broken{}, all, nil), "no room")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }
