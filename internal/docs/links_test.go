package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/catalogue"
)

// Every link within the repository leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, p := range all {
		for _, l := range p.links {
			if err := lead(all, p, l.target); err != nil {
				t.Errorf("%s:%d: %v", p.path, l.line, err)
			}
		}
	}
}

// lead tells where a link leads nowhere. Links out of the repository are not followed.
func lead(all map[string]*page, from *page, target string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to := from.path
	if file != "" {
		to = path.Join(path.Dir(from.path), file)
	}
	if to == ".." || strings.HasPrefix(to, "../") || path.IsAbs(file) {
		return fmt.Errorf("link %q leads out of the repository", target)
	}
	if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
		return fmt.Errorf("link %q: there is no %s", target, to)
	}
	if hasAnchor && (all[to] == nil || !all[to].anchors[anchor]) {
		return fmt.Errorf("link %q: %s has no heading of that name", target, to)
	}
	return nil
}

func TestLead(t *testing.T) {
	t.Parallel()
	from := parse("docs/README.md", "# Here\n")
	all := map[string]*page{"docs/README.md": from, "README.md": parse("README.md", "# There\n")}
	for target, want := range map[string]string{
		"#here": "", "../README.md#there": "", "../go.mod": "", "https://example.org/#x": "", "../plugins/": "",
		"#there":          `link "#there": docs/README.md has no heading of that name`,
		"../README.md#no": `link "../README.md#no": README.md has no heading of that name`,
		"../go.mod#there": `link "../go.mod#there": go.mod has no heading of that name`,
		"none.md":         `link "none.md": there is no docs/none.md`,
		"../../etc":       `link "../../etc" leads out of the repository`,
		"/README.md":      `link "/README.md" leads out of the repository`,
	} {
		if err := lead(all, from, target); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

// Every page below docs is found from its index, and the index from the README.
func TestIndex(t *testing.T) {
	t.Parallel()
	all := pages(t)
	leadsTo := func(p *page) []string {
		to := make([]string, 0, len(p.links))
		for _, l := range p.links {
			file, _, _ := strings.Cut(l.target, "#")
			to = append(to, path.Join(path.Dir(p.path), file))
		}
		return to
	}
	require.Contains(t, all, "docs/README.md")
	index := leadsTo(all["docs/README.md"])
	for name := range all {
		if strings.HasPrefix(name, "docs/") && name != "docs/README.md" {
			require.Contains(t, index, name)
		}
		if readme, _ := path.Match("plugins/*/*/README.md", name); readme {
			require.True(t, slices.Contains(index, name) || slices.Contains(leadsTo(all["README.md"]), name), "%s is linked nowhere", name)
		}
	}
}

// What the pages below docs name like a metric of ours is one: a plugin, a measurement or a field.
func TestNames(t *testing.T) {
	t.Parallel()
	measurements, err := catalogue.All()
	require.NoError(t, err)
	known := make(map[string]bool)
	for i := range measurements {
		known[measurements[i].Name] = true
		for _, f := range measurements[i].Fields {
			known[f.Name] = true
		}
	}
	programs, err := filepath.Glob(filepath.Join(repository, "cmd/*"))
	require.NoError(t, err)
	for _, p := range programs {
		known[filepath.Base(p)] = true
	}
	count := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/") || p.path == Reference {
			continue
		}
		for _, s := range p.spans {
			if prefix, _, _ := strings.Cut(s.text, "_"); !slices.Contains([]string{"lustre", "slurm", "condor", "jupyter", "who"}, prefix) ||
				strings.ContainsAny(s.text, ` .*=/"`) || prefix == s.text {
				continue
			}
			count++
			if !known[s.text] {
				t.Errorf("%s:%d: `%s` is no plugin, measurement or field", p.path, s.line, s.text)
			}
		}
	}
	require.Greater(t, count, 20)
}
