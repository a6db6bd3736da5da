package catalogue

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/metricdoc"
)

var update = flag.Bool("update", false, "rewrite the embedded copies and the golden files")

// What is embedded is what the READMEs say: `go generate ./internal/catalogue` mends it.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	readmes, err := filepath.Glob("../../plugins/*/*/README.md")
	require.NoError(t, err)
	require.NotEmpty(t, readmes)
	count := 0
	for _, path := range readmes {
		name := filepath.Base(filepath.Dir(path))
		readme, err := os.ReadFile(path)
		require.NoError(t, err)
		doc, err := metricdoc.Parse(readme)
		if errors.Is(err, metricdoc.ErrNoMetrics) { // An output has none.
			continue
		}
		count++
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want := "# " + name + "\n\n## Metrics\n\n" + doc.String()
		copied := filepath.Join("embedded", name+".md")
		if *update {
			require.NoError(t, os.WriteFile(copied, []byte(want), 0o600))
		}
		got, err := os.ReadFile(copied)
		require.NoError(t, err)
		if string(got) != want {
			t.Errorf("%s is out of step: go generate ./internal/catalogue mends it", copied)
		}
	}
	entries, err := os.ReadDir("embedded")
	require.NoError(t, err)
	require.Len(t, entries, count)
}

// Every field has a type, and no measurement belongs to two plugins.
func TestAll(t *testing.T) {
	t.Parallel()
	all, err := All()
	require.NoError(t, err)
	require.Greater(t, len(all), 50)
	of := map[string]string{}
	for _, m := range all {
		require.Empty(t, of[m.Name], "%s is of %s, too", m.Name, m.Plugin)
		of[m.Name] = m.Plugin
		require.NotEmpty(t, m.Fields, m.Name)
		for _, f := range m.Fields {
			require.Contains(t, []string{"integer", "float", "string", "boolean"}, f.Type, "%s %s", m.Name, f.Name)
		}
	}
	require.Equal(t, "lustre_jobs", of["lustre_user"])
}

func example() []Measurement {
	return []Measurement{
		{Plugin: "a", Name: "a_one", Text: "the first", Tags: []Tag{{Name: "host", Text: "this one"}}, Fields: []Field{
			{Name: "bytes", Type: "integer", Unit: "bytes", Text: "all"}, {Name: "up", Type: "boolean"},
		}},
		{Plugin: "a", Name: "a_two", Text: "another", Optional: true, Tags: []Tag{}, Fields: []Field{{Name: "NAME_rate", Type: "float", Unit: "per second"}}},
		{Plugin: "b", Name: "b", Tags: []Tag{}, Fields: []Field{{Name: "x", Type: "string"}}},
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"short.txt": func(b *bytes.Buffer) error { return WriteShort(b, example()) },
		"long.txt":  func(b *bytes.Buffer) error { return WriteLong(b, example()) },
		"all.json":  func(b *bytes.Buffer) error { return WriteJSON(b, example()) },
	} {
		var got bytes.Buffer
		require.NoError(t, write(&got))
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o750))
			require.NoError(t, os.WriteFile(path, got.Bytes(), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got.String())
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	names := func(wanted ...string) (all []string) {
		chosen, err := Choose(example(), wanted)
		require.NoError(t, err)
		for _, m := range chosen {
			all = append(all, m.Name)
		}
		return all
	}
	require.Equal(t, []string{"a_one", "a_two", "b"}, names())
	require.Equal(t, []string{"a_one", "a_two"}, names("a"))
	require.Equal(t, []string{"a_two", "b"}, names("b", "a_two"))
	_, err := Choose(example(), []string{"a", "c"})
	require.EqualError(t, err, `there is neither a plugin nor a measurement "c"`)
}
