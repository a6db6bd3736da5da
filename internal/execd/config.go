package execd

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/toml"
	"github.com/influxdata/toml/ast"
)

// secretReference is what Telegraf takes for a reference to a secret store (config/secret.go).
var secretReference = regexp.MustCompile(`@\{\w+:\w+\}`)

// loadConfig reads the plugin's tables with Telegraf's own package, so that they mean what they mean inside Telegraf.
// What Telegraf would let pass in silence, or what belongs in the parent's configuration, is an error that names the
// file and the key. Without a path the plugin gets one table with its defaults.
func loadConfig(path string, p plugin) (*config.Config, error) {
	text := fmt.Appendf(nil, "[[%s]]\n", p)
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil { //nolint:gosec // The administrator names the file.
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	tables, err := checkConfig(text, p)
	if err != nil {
		return nil, inFile(path, err)
	}
	cfg := config.NewConfig()
	// Telegraf's package would set its own host tag, and that would beat the parent's.
	cfg.Agent.OmitHostname = true
	err = cfg.LoadConfigData(text, path)
	if len(cfg.UnusedFields) > 0 {
		return nil, inFile(path, unknownOptions(tables, p, cfg.UnusedFields))
	}
	if err == nil {
		err = cfg.LinkSecrets()
	}
	if err != nil {
		return nil, inFile(path, err)
	}
	sort.Stable(cfg.Processors)
	return cfg, nil
}

// inFile names the file, and the line in the way editors know where there is one.
func inFile(path string, err error) error {
	var at *lineError
	if errors.As(err, &at) {
		return fmt.Errorf("%s:%w", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// lineError is an error with the line of the file it is about.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// checkConfig gives the plugin's tables.
func checkConfig(text []byte, p plugin) ([]*ast.Table, error) {
	bare := stripComments(bytes.TrimPrefix(text, []byte("\ufeff")))
	if at := secretReference.FindIndex(bare); at != nil {
		err := fmt.Errorf("%sthe secret store reference %s cannot be resolved outside of Telegraf: "+
			"use an environment variable", keyAt(bare, at[0]), bare[at[0]:at[1]])
		return nil, &lineError{lineAt(bare, at[0]), err}
	}
	expanded, err := expander{os.LookupEnv}.expand(string(bare), 0)
	var unset *unsetError
	if errors.As(err, &unset) {
		return nil, &lineError{lineAt(bare, unset.offset), fmt.Errorf("%s%w", keyAt(bare, unset.offset), err)}
	}
	root, err := toml.Parse([]byte(expanded))
	var syntax *toml.LineError
	if errors.As(err, &syntax) {
		return nil, &lineError{syntax.Line, fmt.Errorf("invalid TOML: %w", syntax.Err)}
	}
	if err != nil {
		return nil, fmt.Errorf("invalid TOML: %w", err)
	}
	tables, err := pluginTables(root, p)
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		if err := checkCommon(table, p); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:offset], []byte("\n"))
}

var (
	tableLine = regexp.MustCompile(`(?m)^\s*\[+\s*([^\]\n]+?)\s*\]+`)
	keyLine   = regexp.MustCompile(`(?m)^[ \t]*([\w.-]+)\s*=`)
)

// keyAt gives the key that what stands at offset belongs to, as `inputs.x.key: `, as far as it can be seen in text
// that is no TOML yet.
func keyAt(text []byte, offset int) string {
	before := text[:offset]
	var name []string
	if tables := tableLine.FindAllSubmatch(before, -1); len(tables) > 0 {
		name = append(name, string(tables[len(tables)-1][1]))
	}
	if keys := keyLine.FindAllSubmatch(before, -1); len(keys) > 0 {
		name = append(name, string(keys[len(keys)-1][1]))
	}
	if len(name) == 0 {
		return ""
	}
	return strings.Join(name, ".") + ": "
}

// pluginTables gives the tables of the plugin, in no order, and an error if there is any other.
func pluginTables(root *ast.Table, p plugin) ([]*ast.Table, error) {
	for _, kind := range slices.Sorted(maps.Keys(root.Fields)) {
		if kind == p.kind {
			continue
		}
		switch kind {
		case "agent", "global_tags", "tags", "secretstores":
			err := fmt.Errorf("[%s] has no effect here: it belongs in the configuration of the Telegraf that starts %s", kind, p)
			return nil, &lineError{lineOf(root.Fields[kind]), err}
		}
		return nil, notBuiltIn(root.Fields[kind], kind, p)
	}
	group, ok := root.Fields[p.kind].(*ast.Table)
	if !ok {
		return nil, fmt.Errorf("there is no table [[%s]]", p)
	}
	for _, name := range slices.Sorted(maps.Keys(group.Fields)) {
		if name != p.name {
			return nil, notBuiltIn(group.Fields[name], p.kind+"."+name, p)
		}
	}
	switch tables := group.Fields[p.name].(type) {
	case []*ast.Table:
		return tables, nil
	case *ast.Table:
		return []*ast.Table{tables}, nil
	default:
		return nil, fmt.Errorf("there is no table [[%s]]", p)
	}
}

func notBuiltIn(node any, name string, p plugin) error {
	if table, ok := node.(*ast.Table); ok && !strings.Contains(name, ".") && len(table.Fields) == 1 {
		for sub, inner := range table.Fields {
			switch inner.(type) {
			case *ast.Table, []*ast.Table:
				name += "." + sub
				node = inner
			}
		}
	}
	return &lineError{lineOf(node), fmt.Errorf("%s is not in this program, only %s is", name, p)}
}

// lineOf gives the line of a table, tables or key.
func lineOf(node any) int {
	switch n := node.(type) {
	case *ast.Table:
		if n.Line > 0 || len(n.Fields) == 0 {
			return n.Line
		}
		// A table that is only there for its children, such as [inputs], has no line of its own.
		lines := make([]int, 0, len(n.Fields))
		for _, child := range n.Fields {
			lines = append(lines, lineOf(child))
		}
		return slices.Min(lines)
	case []*ast.Table:
		return n[0].Line
	case *ast.KeyValue:
		return n.Line
	default:
		return 0
	}
}

// unknownOptions words what neither the plugin nor Telegraf knows of. Telegraf's own message has the line of the kind.
func unknownOptions(tables []*ast.Table, p plugin, unused map[string]bool) error {
	names := slices.Sorted(maps.Keys(unused))
	err := fmt.Errorf("%s: unknown option %q", p, names[0])
	if len(names) > 1 {
		err = fmt.Errorf("%s: unknown options %q", p, names)
	}
	for _, table := range tables {
		if line, ok := findKey(table, names[0]); ok {
			return &lineError{line, err}
		}
	}
	return err
}

func findKey(table *ast.Table, key string) (line int, ok bool) {
	if node, ok := table.Fields[key]; ok {
		return lineOf(node), true
	}
	for _, node := range table.Fields {
		if sub, ok := node.(*ast.Table); ok {
			if line, ok := findKey(sub, key); ok {
				return line, true
			}
		}
	}
	return 0, false
}

// checkCommon finds options of Telegraf's own that have the wrong type: Telegraf takes them for not set.
func checkCommon(table *ast.Table, p plugin) error {
	texts := []string{"alias", "log_level", "name_override", "name_prefix", "name_suffix", "startup_error_behavior", "time_source"}
	var durations []string
	switch p.kind {
	case kindInput:
		durations = []string{"interval", "precision", "collection_jitter", "collection_offset"}
	case kindProcessor:
		texts = []string{"alias", "log_level"}
	}
	for _, key := range slices.Concat(texts, durations) {
		kv, ok := table.Fields[key].(*ast.KeyValue)
		if !ok {
			continue
		}
		text, ok := kv.Value.(*ast.String)
		if !ok {
			return &lineError{kv.Line, fmt.Errorf("%s.%s: %s is not a string", p, key, kv.Value.Source())}
		}
		if key == "log_level" && telegraf.LogLevelFromString(text.Value) == telegraf.None {
			return &lineError{kv.Line, fmt.Errorf("%s.%s: %q is none of error, warn, info, debug, trace", p, key, text.Value)}
		}
		if d, err := time.ParseDuration(text.Value); slices.Contains(durations, key) && (err != nil || d < 0) {
			return &lineError{kv.Line, fmt.Errorf("%s.%s: %q is not a duration such as \"30s\"", p, key, text.Value)}
		}
	}
	return nil
}
