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

	"telegraf-hpc/internal/catalogue"
	"telegraf-hpc/internal/roles"
)

// programs are those of the repository, built once.
type programs struct {
	folder string
	names  []string
	flags  map[string][]string // by program, or "telegraf-hpc COMMAND"
}

// build builds every program.
func build(t *testing.T) *programs {
	t.Helper()
	p := &programs{folder: t.TempDir(), flags: make(map[string][]string)}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", p.folder+"/", "./cmd/...")
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	entries, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	for _, e := range entries {
		p.names = append(p.names, e.Name())
	}
	require.Contains(t, p.names, "telegraf-hpc")
	return p
}

func (p *programs) path(name string) string { return filepath.Join(p.folder, name) }

var flagPattern = regexp.MustCompile(`(?m)^\s+(?:-[a-z], )?--?([a-z][a-z-]*)(?:, -[a-z])?\b`)

// flagsOf gives the flags that a program's --help tells of, without their hyphens; in the form of the package flag or of urfave/cli.
func (p *programs) flagsOf(t *testing.T, args ...string) []string {
	t.Helper()
	key := strings.Join(args, " ")
	if p.flags[key] == nil {
		cmd := exec.CommandContext(t.Context(), p.path(args[0]), slices.Concat(args[1:], []string{"--help"})...)
		out, _ := cmd.CombinedOutput() // Those that use the package flag exit with 2.
		p.flags[key] = []string{"help"}
		for _, found := range flagPattern.FindAllStringSubmatch(string(out), -1) {
			p.flags[key] = append(p.flags[key], found[1])
		}
	}
	return p.flags[key]
}

// words splits a line of a shell into simple commands, as far as documentation needs it: quotes, ends of commands, comments,
// redirections.
func words(line string) (commands [][]string) {
	var current []string
	var word strings.Builder
	quote, inWord := rune(0), false
	end := func() {
		if inWord {
			current = append(current, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		end()
		if len(current) > 0 {
			commands = append(commands, current)
		}
		current = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return commands
		case r == '|' || r == ';' || r == '&':
			endCommand()
		case r == ' ' || r == '\t' || r == '>' || r == '<':
			end()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands
}

// ours gives the commands in a line that are programs of ours, or make, each from its program's name on. What stands before,
// such as sudo -u telegraf, is left out, and what a shell is given (-c) is looked into. Behind three blanks stands what the
// command is for.
func (p *programs) ours(line string) (found [][]string) {
	line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "# ")
	line, _, _ = strings.Cut(line, "   ")
	for _, command := range words(line) {
		if i := slices.Index(command, "-c"); i > 0 && i+1 < len(command) && path.Base(command[0]) == "su" {
			found = append(found, p.ours(command[i+1])...)
			continue
		}
		start := 0
		if command[0] == "sudo" {
			for start = 1; start < len(command) && strings.HasPrefix(command[start], "-"); start += 2 {
			}
		}
		for start < len(command) && regexp.MustCompile(`^[A-Z_]+=`).MatchString(command[start]) {
			start++
		}
		if start >= len(command) {
			continue
		}
		name := path.Base(command[start])
		if name == "make" || slices.Contains(p.names, name) {
			found = append(found, append([]string{name}, command[start+1:]...))
		}
	}
	return found
}

// check tells what in a command is not there: its subcommand, a flag, a target, a role, a measurement.
func (p *programs) check(t *testing.T, command []string) error {
	t.Helper()
	name, args := command[0], command[1:]
	switch {
	case name == "make":
		return checkTargets(t, args)
	case name != "telegraf-hpc":
		return p.checkFlags(t, []string{name}, args)
	case len(args) == 0 || strings.HasPrefix(args[0], "-"):
		return p.checkFlags(t, []string{name}, args)
	case args[0] == strings.ToUpper(args[0]): // It stands for any.
		return nil
	}
	if !slices.Contains([]string{"doctor", "config", "migrate", "dashboards", "list", "top"}, args[0]) {
		return fmt.Errorf("telegraf-hpc has no command %q", args[0])
	}
	if i := slices.Index(args, "--role"); i > 0 && i+1 < len(args) && args[i+1] != "ROLE" && !slices.Contains(roles.Names(), args[i+1]) {
		return fmt.Errorf("there is no role %q", args[i+1])
	}
	if args[0] == "list" {
		if err := checkNames(args[1:]); err != nil {
			return err
		}
	}
	return p.checkFlags(t, []string{name, args[0]}, args[1:])
}

func (p *programs) checkFlags(t *testing.T, program, args []string) error {
	t.Helper()
	for _, arg := range args {
		if arg == "--" { // Another tool's command line.
			return nil
		}
		flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && flag != "" && !slices.Contains(p.flagsOf(t, program...), flag) {
			return fmt.Errorf("%s has no flag %q", strings.Join(program, " "), arg)
		}
	}
	return nil
}

func checkTargets(t *testing.T, args []string) error {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	require.NoError(t, err)
	for _, arg := range args {
		if strings.Contains(arg, "=") {
			continue
		}
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(arg) + `:`).Match(makefile) {
			return fmt.Errorf("make has no target %q", arg)
		}
	}
	return nil
}

// checkNames checks what list is asked for.
func checkNames(args []string) error {
	all, err := catalogue.All()
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	_, err = catalogue.Choose(all, names)
	return err
}

// shell tells whether a block of code may have commands.
func (b *block) shell() bool {
	language, _, _ := strings.Cut(b.info, " ")
	return slices.Contains([]string{"", "sh", "shell", "bash", "console", "text"}, language)
}

// Every command that the documentation shows is there: programs, commands, flags, targets; in blocks of code and in prose.
func TestCommands(t *testing.T) {
	p := build(t)
	t.Run("words", p.testOurs)
	t.Run("mistakes", p.testMistakes)
	t.Run("tables", p.testTables)
	count := 0
	for _, page := range pages(t) {
		if page.path == "CHANGELOG.md" { // It tells of what was.
			continue
		}
		checkLine := func(number int, line string) {
			for _, command := range p.ours(line) {
				count++
				if err := p.check(t, command); err != nil {
					t.Errorf("%s:%d: %v", page.path, number, err)
				}
			}
		}
		for _, b := range page.blocks {
			if !b.shell() {
				continue
			}
			for i, line := range strings.Split(b.text, "\n") {
				checkLine(b.line+i, line)
			}
		}
		for _, s := range page.spans {
			checkLine(s.line, s.text)
		}
	}
	require.Greater(t, count, 100)
}

func (p *programs) testOurs(t *testing.T) {
	for line, want := range map[string][][]string{
		"": nil, "# make test": {{"make", "test"}}, "ls -l | sort": nil,
		"make run # stock Telegraf": {{"make", "run"}}, "make run     stock Telegraf": {{"make", "run"}},
		"$ sudo -u telegraf /usr/lib/telegraf-hpc/af_https --drain": {{"af_https", "--drain"}},
		"KUBE_RECORD=1 make e2e-kube && make check test":            {{"make", "e2e-kube"}, {"make", "check", "test"}},
		`su -s /bin/sh telegraf -c 'who_users --once'`:              {{"who_users", "--once"}},
		`telegraf-hpc migrate --from afmetrics -- -q "a:b c" >out`:  {{"telegraf-hpc", "migrate", "--from", "afmetrics", "--", "-q", "a:b c", "out"}},
	} {
		require.Equal(t, want, p.ours(line), line)
	}
}

func (p *programs) testMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"telegraf-hpc": "", "telegraf-hpc --version": "", "telegraf-hpc COMMAND --help": "", "telegraf-hpc config --role ROLE --out=/x --force": "",
		"lustre_jobstats --config FILE -check": "", "af_https --status": "", "make SOAKTIME=5m e2e-soak": "", "telegraf-hpc list lustre_job --json": "",
		"telegraf-hpc migrate --from afmetrics -- -x": "",
		"telegraf-hpc docter":                         `telegraf-hpc has no command "docter"`,
		"telegraf-hpc doctor --fix":                   `telegraf-hpc doctor has no flag "--fix"`,
		"telegraf-hpc config --role oss":              `there is no role "oss"`,
		"telegraf-hpc list lustre_jobz":               `there is neither a plugin nor a measurement "lustre_jobz"`,
		"telegraf-hpc --check":                        `telegraf-hpc has no flag "--check"`,
		"who_users --status":                          `who_users has no flag "--status"`,
		"make everything":                             `make has no target "everything"`,
	} {
		commands := p.ours(line)
		require.Len(t, commands, 1, line)
		if err := p.check(t, commands[0]); want == "" {
			require.NoError(t, err, line)
		} else {
			require.EqualError(t, err, want)
		}
	}
}
