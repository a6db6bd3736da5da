package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/influxdata/toml"
	"github.com/influxdata/toml/ast"

	"telegraf-hpc/internal/command"
)

const (
	// defaultBuffer is Telegraf's metric_buffer_limit where none is set (its docs/CONFIGURATION.md), and wantedBuffer one
	// that holds two gathers of a busy file server.
	defaultBuffer = 10000
	wantedBuffer  = 200000
	bufferKey     = "metric_buffer_limit"
	skipKey       = "skip_processors_after_aggregators"
	// testedMajor and testedMinor are of the Telegraf that this was tested with.
	testedMajor, testedMinor = 1, 37
)

// programs are ours, but for this helper.
func programs() []string {
	return []string{"af_https", "condor_q", "jupyter_users", "lustre_jobs", "lustre_jobstats", "node_sensors", "slurm_load", "who_users"}
}

// busy are the programs whose gathers can be larger than Telegraf's default buffer.
func busy() []string { return []string{"lustre_jobstats", "lustre_jobs", "slurm_load", "condor_q"} }

// telegraf looks for the agent itself.
func (e *examination) telegraf(ctx context.Context) {
	remedy := e.install("telegraf")
	text, err := e.Run(ctx, "telegraf", "version")
	if err != nil {
		e.say(Error, "telegraf", fmt.Sprintf("Telegraf does not run: %v", err), remedy)
		return
	}
	version, ok := parseTelegrafVersion(text)
	switch {
	case !ok:
		e.say(Warning, "telegraf", fmt.Sprintf("Telegraf says %q of its version", strings.TrimSpace(string(text))), "")
	case version[0] < testedMajor || version[0] == testedMajor && version[1] < testedMinor:
		e.say(Warning, "telegraf", fmt.Sprintf("Telegraf is %d.%d: 1.37 is the one that was tested", version[0], version[1]), remedy)
	default:
		e.ok("telegraf", fmt.Sprintf("Telegraf %d.%d", version[0], version[1]))
	}
}

// install gives the command that installs a package on this host.
func (e *examination) install(name string) string {
	for _, tool := range []string{"dnf", "zypper"} {
		if e.exists("/usr/bin/" + tool) {
			return tool + " install " + name
		}
	}
	return "apt-get install " + name
}

// parseTelegrafVersion reads `Telegraf 1.37.2 (git: HEAD@abc)`.
func parseTelegrafVersion(text []byte) (version [2]int, ok bool) {
	words := strings.Fields(string(text))
	if len(words) < 2 || words[0] != "Telegraf" {
		return version, false
	}
	numbers := strings.SplitN(strings.TrimPrefix(words[1], "v"), ".", 3)
	if len(numbers) < 2 {
		return version, false
	}
	for i := range version {
		n, err := strconv.ParseUint(strings.SplitN(numbers[i], "-", 2)[0], 10, 16)
		if err != nil {
			return version, false
		}
		version[i] = int(n)
	}
	return version, true
}

// programs looks at our programs.
func (e *examination) programs(ctx context.Context) {
	folder := e.programFolder()
	var found, others []string
	for _, base := range programs() {
		name := folder + "/" + base
		if !e.exists(name) {
			continue
		}
		if barrier := e.barrier(name, mayEnter); barrier != "" {
			e.say(Error, "programs", fmt.Sprintf("%s can't be run: %s", name, barrier), "chmod 0755 "+name)
			continue
		}
		found = append(found, base)
		text, err := e.Run(ctx, e.path(name), "--version")
		if err != nil {
			e.say(Error, "programs", fmt.Sprintf("%s does not run: %v", name, err), "")
			continue
		}
		if want := base + " (telegraf-hpc) " + e.Version; strings.TrimSpace(string(text)) != want {
			others = append(others, strings.TrimSpace(string(text)))
		}
	}
	switch {
	case len(found) == 0:
		e.say(Error, "programs", "none of our programs is in "+folder, "")
	case len(others) > 0:
		e.say(Warning, "programs", fmt.Sprintf("of other versions than this helper (%s): %s", e.Version, strings.Join(others, "; ")), "")
	default:
		e.ok("programs", fmt.Sprintf("%s in %s, version %s", strings.Join(found, ", "), folder, e.Version))
	}
}

// settings are what matters here of Telegraf's configuration.
type settings struct {
	buffer   int64
	skip     bool // skip_processors_after_aggregators
	children []child
	// agents are the files with a table agent, and agentKeys the last of them that sets a key.
	agents    []string
	agentKeys map[string]string
	// inputs are the files that each input stands in, but for those that run programs.
	inputs map[string][]string
}

// child is a program that Telegraf runs.
type child struct {
	file, plugin string // The file it stands in, and such as inputs.execd.
	command      []string
	stopOnError  bool
}

// ours tells whether it is one of our programs, in the folder that they are in.
func (c *child) ours(folder string) bool {
	return len(c.command) > 0 && filepath.Dir(c.command[0]) == folder
}

// configuration looks at what Telegraf is told.
func (e *examination) configuration(ctx context.Context) {
	folder := e.configurationFolder()
	files := e.glob(folder + "/telegraf.conf")
	files = append(files, e.glob(folder+"/telegraf.d/*.conf")...)
	write := "telegraf-hpc config --role " + e.report.Facts.Role() + " --out " + folder
	if len(files) == 0 {
		e.say(Error, "config", "Telegraf has no configuration in "+folder, write)
		return
	}
	s := settings{buffer: defaultBuffer}
	variables := e.environment()
	for _, name := range files {
		if barrier := e.barrier(name, mayRead); barrier != "" {
			e.say(Error, "config", fmt.Sprintf("Telegraf can't read %s: %s", name, barrier), e.giveToRead(name))
		}
		text, err := e.read(name)
		if err == nil {
			err = s.parse(name, text, variables)
		}
		if err != nil {
			e.say(Error, "config", fmt.Sprintf("%s: %v", name, err), "")
		}
	}
	e.children(ctx, &s, write)
	e.buffer(&s)
	e.twice(&s)
	e.wholeConfiguration(ctx)
}

// wholeConfiguration asks Telegraf itself what it thinks of all files together.
func (e *examination) wholeConfiguration(ctx context.Context) {
	args := []string{"config", "check"}
	for _, part := range [][2]string{{"--config", "/telegraf.conf"}, {"--config-directory", "/telegraf.d"}} {
		if name := e.configurationFolder() + part[1]; e.exists(name) {
			args = append(args, part[0], e.path(name))
		}
	}
	_, err := e.Run(ctx, "telegraf", args...)
	switch {
	case err == nil:
		e.ok("config", "Telegraf takes its configuration")
	case !errors.Is(err, command.ErrNotFound): // Else that is what was said already.
		e.say(Error, "config", "Telegraf does not take its configuration: the command below tells why", "telegraf "+strings.Join(args, " "))
	}
}

// environment gives the variables that Telegraf's service has (/etc/default/telegraf).
func (e *examination) environment() map[string]string {
	variables := map[string]string{}
	text, err := e.read("/etc/default/telegraf")
	if err != nil {
		return variables
	}
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		if ok && !strings.HasPrefix(key, "#") {
			variables[strings.TrimPrefix(key, "export ")] = strings.Trim(value, `"'`)
		}
	}
	return variables
}

// parse adds what a file says. Later files win, as Telegraf has it.
func (s *settings) parse(name string, text []byte, variables map[string]string) error {
	table, err := toml.Parse(text)
	if err != nil {
		return fmt.Errorf("not understood: %w", err)
	}
	s.addAgent(name, table)
	s.addInputs(name, table)
	for _, kind := range []string{"inputs", "processors", "outputs"} {
		plugins, ok := table.Fields[kind].(*ast.Table)
		if !ok {
			continue
		}
		tables, ok := plugins.Fields["execd"].([]*ast.Table)
		if !ok {
			continue
		}
		for _, t := range tables {
			c := child{file: name, plugin: kind + ".execd", command: texts(t, "command", variables)}
			if v, ok := value(t, "stop_on_error").(*ast.Boolean); ok {
				c.stopOnError = v.Value == "true"
			}
			s.children = append(s.children, c)
		}
	}
	return nil
}

// addAgent takes note of a file's table agent. Of several, Telegraf takes each option from the last that has it.
func (s *settings) addAgent(name string, table *ast.Table) {
	agent, ok := table.Fields["agent"].(*ast.Table)
	if !ok {
		return
	}
	s.agents = append(s.agents, name)
	if s.agentKeys == nil {
		s.agentKeys = map[string]string{}
	}
	for key := range agent.Fields {
		s.agentKeys[key] = name
	}
	if v, ok := value(agent, bufferKey).(*ast.Integer); ok {
		if n, err := v.Int(); err == nil {
			s.buffer = n
		}
	}
	if v, ok := value(agent, skipKey).(*ast.Boolean); ok {
		s.skip = v.Value == "true"
	}
}

// addInputs takes note of a file's inputs.
func (s *settings) addInputs(name string, table *ast.Table) {
	inputs, ok := table.Fields["inputs"].(*ast.Table)
	if !ok {
		return
	}
	if s.inputs == nil {
		s.inputs = map[string][]string{}
	}
	for plugin := range inputs.Fields {
		if plugin != "execd" && plugin != "exec" {
			s.inputs[plugin] = append(s.inputs[plugin], name)
		}
	}
}

func value(t *ast.Table, key string) ast.Value {
	if kv, ok := t.Fields[key].(*ast.KeyValue); ok {
		return kv.Value
	}
	return nil
}

func texts(t *ast.Table, key string, variables map[string]string) []string {
	array, ok := value(t, key).(*ast.Array)
	if !ok {
		return nil
	}
	var all []string
	for _, v := range array.Value {
		if s, ok := v.(*ast.String); ok {
			all = append(all, expand(s.Value, variables))
		}
	}
	return all
}

// expand puts the values of variables into a text: ${NAME}, and ${NAME:-DEFAULT} where there is none. What has no value
// stays as it is.
func expand(text string, variables map[string]string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before)
		name, fallback, hasFallback := strings.Cut(name, ":-")
		switch v := variables[name]; {
		case v != "":
			b.WriteString(v)
		case hasFallback:
			b.WriteString(fallback)
		default:
			b.WriteString("${" + name + "}")
		}
		text = after
	}
}

// children looks at our programs that Telegraf is told to run.
func (e *examination) children(ctx context.Context, s *settings, write string) {
	ours := 0
	for i := range s.children {
		c := &s.children[i]
		if !c.ours(e.programFolder()) {
			continue
		}
		ours++
		e.child(ctx, c)
		if filepath.Base(c.command[0]) == "lustre_jobs" && !s.skip {
			e.say(Error, "config", "[agent] has no skip_processors_after_aggregators = true: Telegraf starts lustre_jobs twice, and the second finds its state in use",
				e.setAgent(s, skipKey, "true"))
		}
	}
	if ours == 0 {
		e.say(Warning, "config", "Telegraf runs none of our programs", write)
	}
}

func (e *examination) child(ctx context.Context, c *child) {
	program := c.command[0]
	name := filepath.Base(program)
	if !e.exists(program) {
		e.say(Error, "config", fmt.Sprintf("%s: %s runs %s, which is not there: Telegraf ends when it starts", c.file, c.plugin, program), "")
		return
	}
	if c.stopOnError {
		e.say(Warning, "config", fmt.Sprintf("%s: %s of %s has stop_on_error: once %s ended it is not started again", c.file, c.plugin, name, name),
			"sed -i '/stop_on_error/d' "+c.file)
	}
	check := []string{"--check"}
	if i := slices.IndexFunc(c.command, func(a string) bool { return a == "--config" || a == "-config" }); i >= 0 && i+1 < len(c.command) {
		file := c.command[i+1]
		if barrier := e.barrier(file, mayRead); barrier != "" {
			e.say(Error, "config", fmt.Sprintf("%s can't read its configuration: %s", name, barrier), e.giveToRead(file))
			return
		}
		check = append(check, "--config", e.path(file))
	}
	if _, err := e.Run(ctx, e.path(program), check...); err != nil {
		e.say(Error, "config", fmt.Sprintf("%s: %s does not start: %v", c.file, name, err), strings.Join(append([]string{program}, check...), " "))
		return
	}
	e.ok("config", fmt.Sprintf("%s runs %s", c.file, name))
}

// twice looks for inputs that stand in a file of config's and in another, and for the agent.
func (e *examination) twice(s *settings) {
	main := e.configurationFolder() + "/telegraf.conf"
	tables := maps.Clone(s.inputs)
	if tables == nil {
		tables = map[string][]string{}
	}
	tables["[agent]"] = s.agents
	names := make(map[[2]string][]string) // by the two files
	for plugin, files := range tables {
		files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f != main && !strings.HasPrefix(filepath.Base(f), "hpc-") })
		for _, other := range files[min(len(files), 1):] {
			names[[2]string{files[0], other}] = append(names[[2]string{files[0], other}], plugin)
		}
	}
	for _, pair := range slices.SortedFunc(maps.Keys(names), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		slices.Sort(names[pair])
		text := fmt.Sprintf("%s: in %s and in %s; inputs gather twice then, and Telegraf wants one [agent]", strings.Join(names[pair], ", "), pair[0], pair[1])
		roles := slices.Compact(slices.Sorted(slices.Values(slices.Concat(rolesOf(pair[0]), rolesOf(pair[1])))))
		switch {
		case pair[0] == main:
			e.say(Warning, "config", text, fmt.Sprintf("mv %[1]s %[1]s.package && echo '# All is in telegraf.d.' >%[1]s", main))
		case slices.ContainsFunc(roles, func(r string) bool { return !slices.Contains(Roles(), r) }): // Such as hpc-migrated.conf.
			e.say(Warning, "config", text, "")
		default:
			e.say(Warning, "config", text+": one file can be of all roles, with the --output and --central that these have",
				fmt.Sprintf("telegraf-hpc config --role %s --out %s && rm %s %s", strings.Join(roles, " --role "), e.configurationFolder(), pair[0], pair[1]))
		}
	}
}

// rolesOf gives the roles that a file of config's is of, as its name has them.
func rolesOf(name string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "hpc-"), ".conf"), "-")
}

// buffer looks at what Telegraf keeps for outputs that are slower than the plugins.
func (e *examination) buffer(s *settings) {
	for i := range s.children {
		c := &s.children[i]
		if !c.ours(e.programFolder()) || !slices.Contains(busy(), filepath.Base(c.command[0])) || s.buffer >= wantedBuffer {
			continue
		}
		from := "Telegraf's default"
		if file := s.agentKeys[bufferKey]; file != "" {
			from = "in " + file
		}
		e.say(Warning, "buffer", fmt.Sprintf("metric_buffer_limit is %d (%s): a gather of %s may be larger, and what is past it is dropped",
			s.buffer, from, filepath.Base(c.command[0])), e.setAgent(s, bufferKey, strconv.Itoa(wantedBuffer)))
		return
	}
	e.ok("buffer", fmt.Sprintf("metric_buffer_limit is %d", s.buffer))
}

// setAgent gives the command that sets an option of the agent: where it is set now, else in the last [agent], for Telegraf
// wants one only.
func (e *examination) setAgent(s *settings, key, value string) string {
	if file := s.agentKeys[key]; file != "" {
		return fmt.Sprintf(`sed -i 's/^ *%[1]s *=.*/  %[1]s = %[2]s/' %[3]s`, key, value, file)
	}
	if len(s.agents) > 0 {
		return fmt.Sprintf(`sed -i 's/^\[agent\].*/&\n  %s = %s/' %s`, key, value, s.agents[len(s.agents)-1])
	}
	return fmt.Sprintf(`printf '[agent]\n  metric_buffer_limit = %d\n  skip_processors_after_aggregators = true\n' >%s/telegraf.d/agent.conf`,
		wantedBuffer, e.configurationFolder())
}

// stateFolders looks at where our programs keep what they know.
func (e *examination) stateFolders() {
	const folder = "/var/lib/telegraf-hpc"
	create := fmt.Sprintf("install -d -o %s -g %s -m 0750 %s", e.who.name, e.who.name, folder)
	s, err := e.Stat(e.path(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.say(Error, "state", folder+" is missing: totals can't be kept", create)
		return
	case err != nil:
		e.say(Error, "state", err.Error(), "")
		return
	}
	if barrier := e.barrier(folder, mayWrite|mayEnter); barrier != "" {
		e.say(Error, "state", barrier, create)
		return
	}
	if s.Mode.Perm()&0o007 != 0 {
		e.say(Warning, "state", fmt.Sprintf("%s has mode %04o: everybody may look into it", folder, s.Mode.Perm()), "chmod 0750 "+folder)
		return
	}
	for _, name := range e.glob(folder + "/*") {
		if barrier := e.barrier(name, mayWrite|mayEnter); barrier != "" {
			e.say(Error, "state", barrier, fmt.Sprintf("chown -R %s: %s", e.who.name, name))
			return
		}
	}
	if !e.who.known {
		e.say(Warning, "state", folder+" is there; whether Telegraf may write there can't be told", "")
		return
	}
	e.ok("state", folder+" can be written")
}
