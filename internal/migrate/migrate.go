// Package migrate turns the configurations of five other tools into ours, and accounts for each of their settings: what it
// became, or why it is gone.
//
// The tools and where their settings are told: QULo and FrUCToSA (fructosa/conf.py, constants.py and README.rst of
// https://github.com/palao/FrUCToSA; QULo has the same under other names), jobHarvest (jobHarvest.py and README.md of
// https://github.com/conradtchan/jobHarvest), afmetrics_collector (src/afmetrics_collector/skeleton.py of
// https://github.com/maniaclab/afmetrics_collector). Of tmp-load no text is public: keys of its config.json are taken for what they
// are called.
package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"telegraf-hpc/internal/roles"
)

// Verdict is what became of a setting.
type Verdict string

// The verdicts.
const (
	Kept     Verdict = "kept"     // One of ours says the same.
	Replaced Verdict = "replaced" // Something else does what it was for.
	Dropped  Verdict = "dropped"  // Nothing needs it.
)

// Setting is one setting of another tool.
type Setting struct {
	// From is where it stood, such as "lagent.conf [sensor:Users] time_interval"; Value is what it said, a secret's excepted.
	From, Value string
	Verdict     Verdict
	// Now is what it became, or why it is gone.
	Now string
}

// Result is what a migration gave.
type Result struct {
	Settings []Setting
	Files    []roles.File
	// Notes are what is left to do by hand.
	Notes []string
}

// Source is one configuration of another tool.
type Source struct {
	// Tool is one of Tools.
	Tool string
	// Name is the file's, for messages.
	Name string
	// Text is the file's; Args is a command line, where that is the configuration.
	Text []byte
	Args []string
}

// tool reads one kind of configuration.
type tool struct {
	name string
	// file is the name that its configuration has as a rule; empty where it is a command line.
	file string
	read func(m *migration, s Source) error
}

func tools() []tool {
	return []tool{
		{"lagent", "lagent.conf", func(m *migration, s Source) error { return m.agent(s, "lmaster") }},
		{"lmaster", "lmaster.conf", func(m *migration, s Source) error { return m.master(s, "lmaster") }},
		{"qagent", "qagent.conf", func(m *migration, s Source) error { return m.agent(s, "qmaster") }},
		{"qmaster", "qmaster.conf", func(m *migration, s Source) error { return m.master(s, "qmaster") }},
		{"jobharvest-influx", ".jobHarvest.influx", (*migration).harvestInflux},
		{"tmp-load", "config.json", (*migration).tmpLoad},
		{"jobharvest", "", (*migration).harvest},
		{"afmetrics", "", (*migration).afmetrics},
	}
}

// Tools gives the names of what can be read, files first.
func Tools() []string {
	all := tools()
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.name
	}
	return names
}

// TakesArgs tells whether a tool's configuration is its command line.
func TakesArgs(name string) bool {
	i := slices.IndexFunc(tools(), func(t tool) bool { return t.name == name })
	return i >= 0 && tools()[i].file == ""
}

// ToolOf gives the tool whose configuration has this file name as a rule.
func ToolOf(path string) (string, error) {
	var known []string
	for _, t := range tools() {
		if t.file != "" && t.file == filepath.Base(path) {
			return t.name, nil
		}
		if t.file != "" {
			known = append(known, t.file)
		}
	}
	return "", fmt.Errorf("%s is none of %s: say with --from which tool's it is", path, strings.Join(known, ", "))
}

// Options are what our side needs to know.
type Options struct {
	// Programs and Configurations are as in roles.Request.
	Programs, Configurations string
}

// Run reads configurations of one host, and gives ours for that host. Errors name the file and the key.
func Run(sources []Source, o Options) (Result, error) {
	m := &migration{request: roles.Request{Programs: o.Programs, Configurations: o.Configurations}, own: map[string]string{}}
	for _, s := range sources {
		i := slices.IndexFunc(tools(), func(t tool) bool { return t.name == s.Tool })
		if i < 0 {
			return Result{}, fmt.Errorf("there is no tool %q: it is one of %s", s.Tool, strings.Join(Tools(), ", "))
		}
		s.Name = cmp.Or(s.Name, s.Tool)
		if err := tools()[i].read(m, s); err != nil {
			return Result{}, err
		}
	}
	return m.finish()
}

// migration is one Run.
type migration struct {
	request roles.Request
	result  Result
	// tables are the tables for Telegraf in order, by the name roles.Table has for them; some were changed.
	tables  []string
	texts   map[string]string
	outputs []string
	// own are the configurations of our programs, and programs is their order.
	own      map[string]string
	programs []string
	// variables are what Telegraf's service needs in its environment.
	variables []string
}

func (m *migration) say(v Verdict, from, value, now string) {
	m.result.Settings = append(m.result.Settings, Setting{From: from, Value: value, Verdict: v, Now: now})
}

func (m *migration) note(text string) {
	if !slices.Contains(m.result.Notes, text) {
		m.result.Notes = append(m.result.Notes, text)
	}
}

// table adds a table for Telegraf. With extra, that stands below its first line.
func (m *migration) table(name, extra string) error {
	if slices.Contains(m.tables, name) {
		return nil
	}
	text, err := roles.Table(m.request, name)
	if err != nil {
		return err
	}
	if extra != "" {
		lines := strings.SplitAfter(text, "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "[[") })
		text = strings.Join(slices.Insert(lines, i+1, extra), "")
	}
	if m.texts == nil {
		m.texts = map[string]string{}
	}
	m.tables, m.texts[name] = append(m.tables, name), text
	return nil
}

// program adds the table that runs a program of ours, and the program's own configuration.
func (m *migration) program(name, extra, configuration string) error {
	if err := m.table(name, extra); err != nil {
		return err
	}
	if _, known := m.own[name]; !known {
		m.programs = append(m.programs, name)
	}
	m.own[name] = configuration
	return nil
}

// output adds the table of an output, whose text is ours.
func (m *migration) output(text string) {
	if !slices.Contains(m.outputs, text) {
		m.outputs = append(m.outputs, text)
	}
}

// finish puts the files together.
func (m *migration) finish() (Result, error) {
	if len(m.tables) == 0 && len(m.outputs) == 0 {
		return m.result, errors.New("nothing in there turns into a configuration of ours")
	}
	if err := m.table("agent", ""); err != nil {
		return Result{}, err
	}
	parts := []string{"# As telegraf-hpc migrate wrote it.\n", m.texts["agent"]}
	for _, name := range m.tables {
		if name != "agent" {
			parts = append(parts, m.texts[name])
		}
	}
	if len(m.outputs) == 0 {
		m.note("no output: add one, as in sample.conf")
	}
	parts = append(parts, m.outputs...)
	m.result.Files = append(m.result.Files, roles.File{Name: "telegraf.d/hpc-migrated.conf", Text: strings.Join(parts, "\n")})
	for _, name := range m.programs {
		text := "# As telegraf-hpc migrate wrote it. `" + name + " --sample-config` shows all options.\n" + m.own[name]
		m.result.Files = append(m.result.Files, roles.File{Name: name + ".conf", Text: text})
	}
	if err := m.noVariables(); err != nil {
		return Result{}, err
	}
	if len(m.variables) > 0 {
		m.result.Files = append(m.result.Files, roles.File{Name: "migrated.env", Text: strings.Join(m.variables, "")})
		m.note("add migrated.env to /etc/default/telegraf, which Telegraf's service reads, and remove it: it holds secrets")
	}
	return m.result, nil
}

// noVariables refuses what Telegraf would take for a variable of its environment, but for ours.
func (m *migration) noVariables() error {
	ours := strings.NewReplacer("${INFLUX_TOKEN}", "", "${LUSTRE_TOKEN}", "", "${AF_TOKEN}", "", "${AF_SALT}", "")
	for i := range m.result.Files {
		for line := range strings.Lines(m.result.Files[i].Text) {
			if strings.Contains(ours.Replace(line), "$") {
				return fmt.Errorf("%s: Telegraf takes the $ for a variable of its environment: %s", m.result.Files[i].Name, strings.TrimSpace(line))
			}
		}
	}
	return nil
}
