package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// afOptions are afmetrics_collector's. Of -q the long name is not told anywhere.
func afOptions() []option {
	return []option{
		{name: "--help", short: []string{"-h"}}, {name: "--version"}, {name: "--host"}, {name: "--ssh", short: []string{"-s"}},
		{name: "--ssh-history", short: []string{"-S"}}, {name: "--jupyter", short: []string{"-j"}}, {name: "--batch", short: []string{"-b"}},
		{name: "--namespace", short: []string{"-n"}, takes: true}, {name: "--label", short: []string{"-l"}, takes: true},
		{name: "--token", short: []string{"-t"}, takes: true}, {name: "--cluster", short: []string{"-c"}, takes: true},
		{name: "--url", short: []string{"-u"}, takes: true}, {name: "--verbose", short: []string{"-v"}},
		{name: "--very-verbose", short: []string{"-vv"}}, {name: "--obfuscate-users", short: []string{"-o"}},
		{name: "--obfuscate-hosts", short: []string{"-O"}, takes: true}, {name: "--debug", short: []string{"-d"}},
		{name: "--salt", short: []string{"-z"}, takes: true}, {name: "--group", short: []string{"-g"}, takes: true},
		{name: "-q", short: []string{"-q"}, takes: true},
	}
}

// af is one command line of afmetrics_collector.
type af struct {
	*migration
	name   string
	values map[string]string
	on     map[string]bool
	queues []given // Names and constraints.
	// options are the lines of af_https.conf.
	options []string
}

// afmetrics reads afmetrics_collector's command line.
func (m *migration) afmetrics(s Source) error {
	parsed, err := parseArgs(programArgs(s.Args, "afmetrics_collector"), afOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	a := af{migration: m, name: s.Name, on: map[string]bool{}, values: map[string]string{
		"--namespace": "af-jupyter", "--label": "owner", "--cluster": "UC-AF", "--url": "https://af.atlas-ml.org/",
	}}
	for _, g := range parsed {
		if g.name == "-q" {
			name, constraint, ok := strings.Cut(g.value, ":")
			if !ok || name == "" {
				return fmt.Errorf("%s: -q: %q is no NAME:CONSTRAINT", s.Name, g.value)
			}
			a.queues = append(a.queues, given{name, constraint})
			continue
		}
		if g.value == "" && slices.Contains([]string{"--token", "--group", "--obfuscate-hosts", "--salt"}, g.name) {
			m.say(Dropped, g.name, "", "it is empty, as without it")
			a.on[g.name] = false
			continue
		}
		a.on[g.name], a.values[g.name] = true, g.value
	}
	if a.on["--help"] || a.on["--version"] {
		return errors.New(s.Name + ": with --help or --version it collects nothing")
	}
	for _, step := range []func() error{a.sshUsers, a.jupyterUsers, a.batchJobs, a.hostLoad} {
		if err := step(); err != nil {
			return err
		}
	}
	return a.endpoint()
}

// has takes note of an option that is on, and says what became of it.
func (a *af) has(name string, v Verdict, now string) bool {
	if a.on[name] {
		a.say(v, name, a.values[name], now)
	}
	return a.on[name]
}

func (a *af) sshUsers() error {
	if a.on["--ssh-history"] && !a.on["--ssh"] {
		a.say(Dropped, "--ssh-history", "", "without --ssh it does nothing")
	}
	if !a.has("--ssh", Kept, "who_users, and af_https.conf: kinds has ssh") {
		return nil
	}
	text := "[[inputs.who_users]]\n  list_users = true\n"
	if a.has("--ssh-history", Kept, `who_users.conf: history = "5m"`) {
		text += "  history = \"5m\"\n"
	}
	return a.program("who_users", "", text)
}

func (a *af) jupyterUsers() error {
	const by = "without --jupyter it does nothing"
	if !a.has("--jupyter", Kept, "jupyter_users, and af_https.conf: kinds has jupyter-ml, jupyter-coffea") {
		a.has("--namespace", Dropped, by)
		a.has("--label", Dropped, by)
		return nil
	}
	a.has("--namespace", Kept, "jupyter_users.conf: namespaces")
	a.has("--label", Kept, "jupyter_users.conf: label")
	text := "[[inputs.jupyter_users]]\n  list_users = true\n"
	source := func(namespace, label string) string {
		return fmt.Sprintf("\n  [[inputs.jupyter_users.source]]\n    name = %[1]s\n    kind = \"kubernetes\"\n    namespaces = [%[1]s]\n"+
			"    label = %[2]s\n    kubeconfig = \"/etc/telegraf/jupyter_users.kubeconfig\"\n", quote(namespace), quote(label))
	}
	text += source(a.values["--namespace"], a.values["--label"])
	if a.values["--namespace"] != "coffea-casa" {
		text += source("coffea-casa", "jhub_user")
	}
	a.note("jupyter_users reads /etc/telegraf/jupyter_users.kubeconfig: give it a service account that may list pods, and nothing else")
	return a.program("jupyter_users", "", text)
}

func (a *af) batchJobs() error {
	if !a.has("--batch", Kept, "condor_q, and af_https.conf: kinds has condorjob") {
		for _, q := range a.queues {
			a.say(Dropped, "-q", q.name+":"+q.value, "without --batch it does nothing")
		}
		return nil
	}
	var text strings.Builder
	text.WriteString("[[inputs.condor_q]]\n  collect = [\"queue\", \"job\", \"finished\"]\n")
	for _, q := range a.queues {
		fmt.Fprintf(&text, "\n  [[inputs.condor_q.queue]]\n    name = %s\n    constraint = %s\n", quote(q.name), quote(q.value))
		a.say(Kept, "-q", q.name+":"+q.value, "condor_q.conf: a table queue, and af_https.conf: kinds has condorqueue")
	}
	return a.program("condor_q", "", text.String())
}

func (a *af) hostLoad() error {
	if !a.has("--host", Kept, "inputs.system, mem, disk and net, and af_https.conf: kinds has DISK, CPU, NETWORK, MEM") {
		return nil
	}
	for _, table := range []string{"inputs.mem", "inputs.net"} {
		if err := a.table(table, ""); err != nil {
			return err
		}
	}
	a.tables = append(a.tables, "disk of afmetrics")
	a.texts["disk of afmetrics"] = "## The folders that afmetrics_collector told of, where something is mounted on them.\n" +
		"[[inputs.disk]]\n  mount_points = [\"/home\", \"/data\", \"/scratch\"]\n"
	return nil
}

// endpoint writes the output.
func (a *af) endpoint() error {
	var kinds []string
	for _, k := range []struct{ option, kinds string }{
		{"--ssh", `"ssh"`}, {"--batch", `"condorjob"`}, {"--jupyter", `"jupyter-ml", "jupyter-coffea"`}, {"--host", `"DISK", "CPU", "NETWORK", "MEM"`},
	} {
		if a.on[k.option] {
			kinds = append(kinds, k.kinds)
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("%s: it collects nothing: none of --ssh, --jupyter, --batch, --host is there", a.name)
	}
	if a.on["--batch"] && len(a.queues) > 0 {
		kinds = slices.Insert(kinds, slices.Index(kinds, `"condorjob"`)+1, `"condorqueue"`)
	}
	a.has("--verbose", Dropped, "Telegraf and the plugins tell of what fails; [agent] debug tells more")
	a.has("--very-verbose", Dropped, "Telegraf and the plugins tell of what fails; [agent] debug tells more")
	a.has("--url", Kept, "af_https.conf: url")
	a.quoted("--url", "url")
	a.options = append(a.options, "kinds = ["+strings.Join(kinds, ", ")+"]")
	a.quoted("--cluster", "cluster")
	a.has("--cluster", Kept, "af_https.conf: cluster")
	if err := a.secrets(); err != nil {
		return err
	}
	if a.has("--group", Kept, "af_https.conf: group") {
		a.quoted("--group", "group")
	}
	if a.has("--obfuscate-hosts", Kept, "af_https.conf: obfuscate_hosts, domain") {
		a.options = append(a.options, "obfuscate_hosts = true")
		a.quoted("--obfuscate-hosts", "domain")
	}
	if a.has("--debug", Replaced, "af_https.conf: dry_run, one file for all kinds, one document a line, without the token") {
		a.options = append(a.options, `dry_run = "/var/lib/telegraf-hpc/af_https/documents.jsonl"`)
	}
	return a.finishEndpoint()
}

// secrets are what must not be in a file that others may read.
func (a *af) secrets() error {
	if a.on["--token"] {
		a.say(Kept, "--token", "(secret)", "migrated.env: AF_TOKEN, which af_https.conf takes from the environment")
		if err := a.secret("--token", "AF_TOKEN", a.values["--token"]); err != nil {
			return err
		}
		a.options = append(a.options, `token = "${AF_TOKEN}"`)
	} else {
		a.note("there was no token: set token in af_https.conf")
	}
	switch {
	case a.has("--obfuscate-users", Kept, "af_https.conf: obfuscate_users"):
		a.options = append(a.options, "obfuscate_users = true")
		if a.on["--salt"] {
			a.say(Kept, "--salt", "(secret)", "migrated.env: AF_SALT, which af_https.conf takes from the environment")
			a.options = append(a.options, `salt = "${AF_SALT}"`)
			return a.secret("--salt", "AF_SALT", a.values["--salt"])
		}
	case a.on["--salt"]:
		a.say(Dropped, "--salt", "(secret)", "without --obfuscate-users it does nothing")
	}
	return nil
}

// quoted adds an option of af_https that has the value of one of theirs.
func (a *af) quoted(theirs, ours string) {
	a.options = append(a.options, ours+" = "+quote(a.values[theirs]))
}

func (a *af) finishEndpoint() error {
	if err := a.program("af_https", "", "[[outputs.af_https]]\n  "+strings.Join(a.options, "\n  ")+"\n"); err != nil {
		return err
	}
	if err := a.table("agent", ""); err != nil {
		return err
	}
	const every = "  interval = \"30s\"\n"
	if strings.Count(a.texts["agent"], every) != 1 {
		return errors.New("sample.conf's table agent has no interval of 30s")
	}
	a.texts["agent"] = strings.Replace(a.texts["agent"], every, "  interval = \"5m\"\n", 1)
	// It is an output, though it is one of our programs.
	i := slices.Index(a.tables, "af_https")
	a.tables = slices.Delete(a.tables, i, i+1)
	a.output(a.texts["af_https"])
	a.note("documents are made every 5 minutes, as its cron entry had it: change [agent] interval where yours is another")
	return nil
}
