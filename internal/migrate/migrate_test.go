package migrate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/influxdata/toml"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/roles"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sourcesOf reads a case: files that have a tool's usual name, and args, with the tool and its command line, a word a line.
func sourcesOf(t *testing.T, folder string) (sources []Source) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		require.NoError(t, err)
		if e.Name() == "args" {
			words := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			sources = append(sources, Source{Tool: words[0], Args: words[1:]})
		} else if tool, err := ToolOf(e.Name()); err == nil {
			sources = append(sources, Source{Tool: tool, Name: e.Name(), Text: text})
		}
	}
	require.NotEmpty(t, sources)
	return sources
}

// changed gives a file without the lines that are sample.conf's, but for the heads of tables: so a change there is none here.
func changed(t *testing.T, f roles.File) string {
	t.Helper()
	if !strings.HasPrefix(f.Name, "telegraf.d/") {
		return f.Text
	}
	sample, err := os.ReadFile("../../sample.conf")
	require.NoError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(strings.NewReplacer("${TELEGRAF_HPC_BIN:-", "", "${TELEGRAF_HPC_ETC:-", "", "}/", "/").Replace(string(sample))) {
		lines[strings.TrimPrefix(line, "# ")] = true
	}
	var b strings.Builder
	for line := range strings.Lines(f.Text) {
		if strings.HasPrefix(line, "[") || !lines[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestCases(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/*/expected.txt")
	require.NoError(t, err)
	require.Len(t, folders, 9)
	for _, path := range folders {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			result, err := Run(sourcesOf(t, filepath.Dir(path)), Options{})
			require.NoError(t, err)
			var got bytes.Buffer
			require.NoError(t, result.WriteText(&got))
			for _, f := range result.Files {
				fmt.Fprintf(&got, "\n==> %s <==\n%s", f.Name, changed(t, f))
				if strings.HasSuffix(f.Name, ".conf") {
					_, err := toml.Parse([]byte(f.Text))
					require.NoError(t, err, f.Name)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(path, got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
		})
	}
}

// Secrets are in the environment file alone.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for folder, secret := range map[string]string{"harvest_server": "s3cret-token==", "afmetrics_all": "tok3n", "tmpload": "s3cret-word"} {
		result, err := Run(sourcesOf(t, filepath.Join("testdata", folder)), Options{})
		require.NoError(t, err)
		var account bytes.Buffer
		require.NoError(t, result.WriteText(&account))
		require.NotContains(t, account.String(), secret)
		for _, f := range result.Files {
			require.Equal(t, f.Name == "migrated.env", strings.Contains(f.Text, secret), f.Name) // tmp-load's is in none.
		}
	}
}

// What is not known, or not whole, is an error that names file and key.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tool, text string
		args       []string
		want       string
	}{
		{"lagent", "[lmaster]\nhosts = a\n", nil, "f: [lmaster] hosts is not known"},
		{"lagent", "[qmaster]\nhost = a\n", nil, "f: section [qmaster] is not known"},
		{"lagent", "[Redis]\n", nil, "f: section [Redis] is not known"},
		{"lagent", "[logging]\nfile = a\n", nil, "f: [logging] file is not known"},
		{"lagent", "[Graphite]\nport = 1\n", nil, "f: [Graphite] port is not known"},
		{"lagent", "[sensor:GPU]\ntime_interval = 1\n", nil, "f: section [sensor:GPU]: there is no sensor GPU"},
		{"lagent", "[sensor:Users]\n", nil, "f: section [sensor:Users] has no time_interval"},
		{"lagent", "[sensor:Users]\ntime_interval = often\n", nil, `f: [sensor:Users] time_interval: "often" is no number of seconds`},
		{"lagent", "[sensor:Users]\ntime_interval = 0\n", nil, `f: [sensor:Users] time_interval: "0" is no number of seconds`},
		{"lagent", "[sensor:Users]\npath = /\n", nil, "f: [sensor:Users] path is not known"},
		{"lagent", "[lmaster]\nhost = %(x)s\n", nil, "f: [lmaster] host refers to another value with %, which is not understood here"},
		{"lagent", "host = a\n", nil, `f: line 1: "host = a" stands before any section`},
		{"lagent", "[lmaster]\nhost\n", nil, `f: line 2: "host" is neither a section nor a key with a value`},
		{"lagent", "[lmaster]\nhost = a\nHOST = b\n", nil, "f: line 3: [lmaster] host stands there twice"},
		{"lagent", "[lmaster]\n[lmaster]\n", nil, "f: line 2: section [lmaster] stands there twice"},
		{"lagent", "[DEFAULT]\n", nil, "f: line 1: section [DEFAULT], of defaults for all others, is not understood here"},
		{"lagent", "", nil, "nothing in there turns into a configuration of ours"},
		{"lmaster", "[Graphite]\ncarbon port = 1\n", nil, "f: [Graphite] carbon port is not known"},
		{"qmaster", "[lmaster]\n", nil, "f: section [lmaster] is not known"},
		{"jobharvest-influx", "http://a:1\norg\nbucket\n", nil, "f: line 4: the token is missing"},
		{"jobharvest-influx", "http://a:1\n\nbucket\ntoken\n", nil, "f: line 2: the organisation is missing"},
		{"jobharvest-influx", "http://a:1\no\nb\nt\nmore\n", nil, "f: line 5: only 4 lines are known: server, organisation, bucket, token"},
		{"jobharvest-influx", "a:1\no\nb\nt\n", nil, `f: line 1: "a:1" is no URL of a server`},
		{"jobharvest-influx", "http://a:1\no\nb\nt'\n", nil, "f: line 4: a quote, a blank or a line's end in it can't be part of an environment file"},
		{"tmp-load", `{"graphite": {"host": ["a"]}}`, nil, `f graphite.host: ["a"] is neither a text nor a number`},
		{"tmp-load", `{"carbon_host": "http://a/"}`, nil, `f carbon_host: "http://a/" is no host`},
		{"tmp-load", `{"port": 65536}`, nil, `f port: "65536" is no port`},
		{"tmp-load", `{"interval": "5m"}`, nil, `f interval: "5m" is no number of seconds, of one or more`},
		{"tmp-load", `{"interval": 0}`, nil, `f interval: "0" is no number of seconds, of one or more`},
		{"tmp-load", `{"prefix": "$X", "host": "a"}`, nil, `telegraf.d/hpc-migrated.conf: Telegraf takes the $ for a variable of its environment: prefix = "$X"`},
		{"tmp-load", "[]", nil, "f: not a JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"},
		{"jobharvest", "", []string{"--ports", "1"}, "f: option --ports is not known"},
		{"jobharvest", "", []string{"--port"}, "f: --port has no value"},
		{"jobharvest", "", []string{"--port", "x"}, `f: --port: "x" is no port`},
		{"jobharvest", "", []string{"jobHarvest.py", "server"}, `f: a client needs the server and the names of file systems: only "server" is there`},
		{"jobharvest", "", []string{"server", "fs", "--interface", "a"}, "f: --interface is an option for the server only"},
		{"jobharvest", "", []string{"server", "f*s"}, `file system "f*s": no name of one`},
		{"afmetrics", "", []string{"-v"}, "f: it collects nothing: none of --ssh, --jupyter, --batch, --host is there"},
		{"afmetrics", "", []string{"--help"}, "f: with --help or --version it collects nothing"},
		{"afmetrics", "", []string{"--obfuscate"}, "f: option --obfuscate is not known"},
		{"afmetrics", "", []string{"-s", "-q", "all"}, `f: -q: "all" is no NAME:CONSTRAINT`},
		{"afmetrics", "", []string{"-s", "-t"}, "f: --token has no value"},
		{"afmetrics", "", []string{"-s", "-c", "$X"}, `af_https.conf: Telegraf takes the $ for a variable of its environment: cluster = "$X"`},
		{"carbon", "", nil, `there is no tool "carbon": it is one of lagent, lmaster, qagent, qmaster, jobharvest-influx, tmp-load, jobharvest, afmetrics`},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			_, err := Run([]Source{{Tool: tt.tool, Name: "f", Text: []byte(tt.text), Args: tt.args}}, Options{})
			if tt.want == "f: option --obfuscate is not known" {
				tt.want = "f: option --obfuscate may be --obfuscate-users or --obfuscate-hosts"
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestToolOf(t *testing.T) {
	t.Parallel()
	tool, err := ToolOf("/root/.jobHarvest.influx")
	require.NoError(t, err)
	require.Equal(t, "jobharvest-influx", tool)
	_, err = ToolOf("/etc/x.conf")
	require.EqualError(t, err, "/etc/x.conf is none of lagent.conf, lmaster.conf, qagent.conf, qmaster.conf, .jobHarvest.influx, config.json: say with --from which tool's it is")
	require.True(t, TakesArgs("afmetrics"))
	require.False(t, TakesArgs("lagent"))
}

// As Python's own parser reads them.
func TestParseINI(t *testing.T) {
	t.Parallel()
	got, err := parseINI("f", []byte("# c\n[A]\n  Key One = 1\n    more\n\n    yet\n; c\n b:2=3\n[b:c] x\nk = 50%%\n"))
	require.NoError(t, err)
	require.Equal(t, []iniSetting{
		{section: "A"}, {section: "A", key: "key one", value: "1\nmore\n\nyet", line: 3}, {section: "A", key: "b", value: "2=3", line: 8},
		{section: "b:c"}, {section: "b:c", key: "k", value: "50%", line: 10},
	}, got)
}

func TestParseArgs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want []given
		err  string
	}{
		{[]string{"-sjb"}, []given{{"--ssh", ""}, {"--jupyter", ""}, {"--batch", ""}}, ""},
		{[]string{"-vv", "-v"}, []given{{"--very-verbose", ""}, {"--verbose", ""}}, ""},
		{[]string{"-st", "x"}, []given{{"--ssh", ""}, {"--token", "x"}}, ""},
		{[]string{"-tx", "-t=y", "--tok", "z"}, []given{{"--token", "x"}, {"--token", "y"}, {"--token", "z"}}, ""},
		{[]string{"-t", "-5"}, []given{{"--token", "-5"}}, ""},
		{[]string{"-t", "-a b"}, []given{{"--token", "-a b"}}, ""},
		{[]string{"--ssh"}, []given{{"--ssh", ""}}, ""},
		{[]string{"-t", "-s"}, nil, "--token has no value"},
		{[]string{"--ssh=1"}, nil, "--ssh takes no value"},
		{[]string{"--s"}, nil, "option --s may be --ssh or --ssh-history"},
		{[]string{"-x"}, nil, "option -x is not known"},
		{[]string{"x"}, nil, `"x" is not known`},
		{[]string{"--"}, nil, `"--" is not known`},
	} {
		got, err := parseArgs(tt.args, afOptions())
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err, tt.args)
		require.Equal(t, tt.want, got)
	}
}

// Each section and each key of the text is there, in order, and no other.
func FuzzINI(f *testing.F) {
	for _, name := range []string{"fructosa/lagent.conf", "qulo/qagent.conf"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := parseINI("f", text)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "f: "))
			return
		}
		seen := map[string]bool{}
		for _, s := range settings {
			id := s.section + "\x00" + s.key
			require.False(t, seen[id], id)
			seen[id] = true
			require.Contains(t, strings.ToLower(string(text)), s.key)
		}
	})
}

// Whatever a file says, each setting is accounted for, or the error names the file.
func FuzzFiles(f *testing.F) {
	f.Add("lagent", []byte("[sensor:Users]\ntime_interval = 1\n"))
	f.Add("lmaster", []byte("[Graphite]\nhost = a\"b\n"))
	f.Add("jobharvest-influx", []byte("http://a:1\no\nb\nt\n"))
	f.Add("tmp-load", []byte(`{"graphite": {"host": "a:1", "port": 2}, "interval": 1.5, "cluster": "c", "prefix": "p", "x": null}`))
	f.Fuzz(func(t *testing.T, tool string, text []byte) {
		if TakesArgs(tool) {
			return
		}
		result, err := Run([]Source{{Tool: tool, Name: "f", Text: text}}, Options{})
		if err != nil {
			return
		}
		require.NotEmpty(t, result.Files)
		for _, file := range result.Files {
			if strings.HasSuffix(file.Name, ".conf") {
				_, err := toml.Parse([]byte(file.Text))
				require.NoError(t, err, "%s:\n%s", file.Name, file.Text)
			}
		}
	})
}

// Whatever a command line says, what comes out is TOML.
func FuzzArgs(f *testing.F) {
	f.Add("afmetrics", "-s\x00-t\x00a\x00-q\x00a:b")
	f.Add("jobharvest", "server\x00fs")
	f.Fuzz(func(t *testing.T, tool, words string) {
		if !TakesArgs(tool) {
			return
		}
		result, err := Run([]Source{{Tool: tool, Args: strings.Split(words, "\x00")}}, Options{})
		if err != nil {
			return
		}
		for _, file := range result.Files {
			if strings.HasSuffix(file.Name, ".conf") {
				_, err := toml.Parse([]byte(file.Text))
				require.NoError(t, err, "%s:\n%s", file.Name, file.Text)
			}
		}
	})
}
