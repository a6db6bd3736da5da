package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	tablePattern   = regexp.MustCompile(`(?m)^\s*\[\[?([a-z_0-9.]+)\]\]?`)
	commandPattern = regexp.MustCompile(`(?m)^\s*command = \[([^\]]*)\]`)
	stringPattern  = regexp.MustCompile(`"([^"]*)"`)
	envPattern     = regexp.MustCompile(`\$\{([A-Z_]+)`)
)

// testTables requires that each whole configuration of a plugin of ours loads in that plugin, and that each table that runs
// one of our programs runs one that is there, with flags that it has.
func (p *programs) testTables(t *testing.T) {
	loaded := 0
	for _, page := range pages(t) {
		for i := range page.blocks {
			b := &page.blocks[i]
			if language, _, _ := strings.Cut(b.info, " "); language != "toml" {
				continue
			}
			if err := p.checkRuns(t, b.text); err != nil {
				t.Errorf("%s:%d: %v", page.path, b.line, err)
			}
			plugin := p.pluginOf(b.text)
			if plugin == "" || strings.Contains(b.info, "@sample.conf") { // Those have tests of their own.
				continue
			}
			loaded++
			if err := p.load(t, plugin, b.text); err != nil {
				t.Errorf("%s:%d: %v", page.path, b.line, err)
			}
		}
	}
	require.Greater(t, loaded, 2)
	require.Equal(t, "who_users", p.pluginOf("[[inputs.who_users]]\n  [inputs.who_users.tags]\n"))
	require.Empty(t, p.pluginOf("[[inputs.who_users]]\n[agent]\n"))
	require.Empty(t, p.pluginOf("[[inputs.mem]]\n"))
	require.ErrorContains(t, p.load(t, "who_users", "[[inputs.who_users]]\n  list_user = true\n"), "list_user")
	require.EqualError(t, p.checkRuns(t, "[[inputs.execd]]\n  command = [\"/usr/lib/telegraf-hpc/lustre_stats\", \"--config\", \"x\"]\n"),
		`there is no program "/usr/lib/telegraf-hpc/lustre_stats"`)
	require.EqualError(t, p.checkRuns(t, "[[inputs.execd]]\n  command = [\n  \"/usr/lib/telegraf-hpc/who_users\", \"--conf\", \"x\"]\n"),
		`who_users has no flag "--conf"`)
}

// pluginOf gives the plugin that all tables of a configuration are of; empty where they are others', too.
func (p *programs) pluginOf(text string) string {
	plugin := ""
	for _, found := range tablePattern.FindAllStringSubmatch(text, -1) {
		parts := strings.Split(found[1], ".")
		if len(parts) < 2 || !slices.Contains(p.names, parts[1]) || plugin != "" && plugin != parts[1] {
			return ""
		}
		plugin = parts[1]
	}
	return plugin
}

// load has a plugin check a configuration. Variables of the environment are set.
func (p *programs) load(t *testing.T, plugin, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), plugin+".conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), p.path(plugin), "--config", file, "--check")
	cmd.Env = os.Environ()
	for _, found := range envPattern.FindAllStringSubmatch(text, -1) {
		cmd.Env = append(cmd.Env, found[1]+"=0123456789abcdef")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s --check: %s", plugin, strings.TrimSpace(string(out)))
	}
	return nil
}

// checkRuns checks the commands of execd tables that are in the packages' folder.
func (p *programs) checkRuns(t *testing.T, text string) error {
	t.Helper()
	for _, found := range commandPattern.FindAllStringSubmatch(text, -1) {
		quoted := stringPattern.FindAllStringSubmatch(found[1], -1)
		command := make([]string, 0, len(quoted))
		for _, word := range quoted {
			command = append(command, word[1])
		}
		if len(command) == 0 || path.Dir(command[0]) != "/usr/lib/telegraf-hpc" {
			continue
		}
		name := path.Base(command[0])
		if !slices.Contains(p.names, name) {
			return fmt.Errorf("there is no program %q", command[0])
		}
		if err := p.checkFlags(t, []string{name}, command[1:]); err != nil {
			return err
		}
	}
	return nil
}
