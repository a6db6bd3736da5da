package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files and what the documentation shows of them")

// call runs the program as from a shell, with nothing to read from. One at a time: the package cli has variables of its own.
func call(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	require.NoError(t, err)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	var errs bytes.Buffer
	status = run(t.Context(), append([]string{"telegraf-hpc"}, args...), in, out, &errs)
	require.NoError(t, in.Close())
	require.NoError(t, out.Close())
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text), errs.String(), status
}

// host makes a file server without anything to ask Slurm or Telegraf with.
func host(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, "proc/fs/lustre/obdfilter/lustre-OST0000/job_stats")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte("job_stats:\n"), 0o600))
	return root
}

// Mistakes are one line, and exit status 2.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"nothing":                                `there is no command "nothing": see telegraf-hpc --help`,
		"doctor now":                             `doctor: unexpected argument "now"`,
		"doctor --fix":                           "flag provided but not defined: -fix",
		"config":                                 `Required flag "role" not set`,
		"config --role oss":                      `there is no role "oss": it is one of fileserver, head, login, compute, central`,
		"config --role login x":                  `config: unexpected argument "x"`,
		"config --role login --plugin a":         `this role runs no program "a"`,
		"config --role head --output x":          `there is no output "x": it is one of file, influxdb, influxdb_v2, graphite, af_https, heartbeat`,
		"config --role login --out x --plugin a": "--plugin prints one file, --out writes all: choose one",
		"migrate":                                "migrate: no file was given: see telegraf-hpc migrate --help",
		"migrate /none/lagent.conf":              "open /none/lagent.conf: no such file or directory",
		"migrate --from x /dev/null":             `there is no tool "x": it is one of lagent, lmaster, qagent, qmaster, jobharvest-influx, tmp-load, jobharvest, afmetrics`,
		"migrate --from afmetrics -- -x":         "afmetrics: option -x is not known",
		"list nobody":                            `there is neither a plugin nor a measurement "nobody"`,
		"top --by node":                          "top: --by node: it is job or user",
		"top --sort size":                        "top: --sort size: it is one of bytes, read, write, ops, meta, total, name",
		"top --rows -1":                          "top: --rows: want 0 or more",
		"top --interval 1ms":                     "an interval of 1ms is too short: 100ms at least",
		"top --from central:8095":                `top: "central:8095" is neither a URL nor unix:PATH`,
		"top --from http://a --token-file /none": "top: open /none: no such file or directory",
		"top --jobid-name %z":                    "",
		"dashboards --out /none --store flux":    `dashboards: there is no store "flux": choose one of influxql, graphite`,
		"dashboards --out /none more":            `dashboards: unexpected argument "more"`,
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			if strings.HasPrefix(line, "config") || strings.HasPrefix(line, "doctor") && !strings.Contains(line, "fix") {
				args = append([]string{args[0], "--root", host(t)}, args[1:]...)
			}
			_, stderr, status := call(t, args...)
			require.Equal(t, exitFailed, status)
			if want != "" {
				require.Equal(t, "telegraf-hpc: "+want+"\n", stderr)
			}
			require.Equal(t, 1, strings.Count(stderr, "\n"))
		})
	}
}

func TestHelp(t *testing.T) {
	stdout, stderr, status := call(t, "--help")
	require.Zero(t, status)
	require.Empty(t, stderr)
	for _, command := range []string{"doctor", "config", "migrate", "dashboards", "list", "top"} {
		require.Contains(t, stdout, "\n   "+command+" ")
		help, stderr, status := call(t, command, "--help")
		require.Zero(t, status)
		require.Empty(t, stderr)
		require.Contains(t, help, "telegraf-hpc "+command)
	}
}

// The exit status is that of the worst finding.
func TestDoctorStatus(t *testing.T) {
	stdout, stderr, status := call(t, "doctor", "--root", host(t))
	require.Equal(t, 2, status)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "Telegraf has no configuration in /etc/telegraf\n                    $ telegraf-hpc config --role fileserver --out /etc/telegraf\n")
}

// What config says when it writes, as the documentation shows it. With -update it comes before TestDocumentation.
func TestConfigOut(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "telegraf.conf"), nil, 0o600))
	stdout, stderr, status := call(t, "config", "--role", "fileserver", "--central", "https://central.example.org:8186", "--root", host(t), "--out", folder)
	require.Zero(t, status)
	golden(t, "config.txt", strings.ReplaceAll(stdout+stderr, folder, "/etc/telegraf"))
	text, err := os.ReadFile(filepath.Join(folder, "lustre_jobstats.conf"))
	require.NoError(t, err)
	printed, _, status := call(t, "config", "--role", "fileserver", "--central", "https://central.example.org:8186", "--root", host(t), "--plugin", "lustre_jobstats")
	require.Zero(t, status)
	require.Equal(t, string(text), printed)
	stdout, _, status = call(t, "config", "--role", "fileserver", "--central", "https://central.example.org:8186", "--root", host(t), "--out", folder)
	require.Zero(t, status)
	require.Equal(t, "everything is there already\n", stdout)
}

// A host of several roles has one file, whatever order they are named in; one of an earlier call is named.
func TestConfigOfSeveralRoles(t *testing.T) {
	folder := t.TempDir()
	root := host(t)
	_, _, status := call(t, "config", "--role", "login", "--output", "file", "--root", root, "--out", folder)
	require.Zero(t, status)
	stdout, stderr, status := call(t, "config", "--role", "login", "--role", "fileserver", "--output", "file", "--root", root, "--out", folder)
	require.Zero(t, status)
	require.Equal(t, "wrote "+folder+"/telegraf.d/hpc-fileserver-login.conf\nwrote "+folder+"/lustre_jobstats.conf\n", stdout)
	require.Equal(t, "telegraf-hpc: "+folder+"/telegraf.d/hpc-login.conf is read as well: telegraf-hpc doctor tells what stands in both\n", stderr)
	text, err := os.ReadFile(folder + "/telegraf.d/hpc-fileserver-login.conf")
	require.NoError(t, err)
	for _, once := range []string{"[agent]", "[[inputs.cpu]]", "/who_users\"", "/lustre_jobstats\""} {
		require.Equal(t, 1, strings.Count(string(text), once), once)
	}
}

func TestMigrateOut(t *testing.T) {
	folder := t.TempDir()
	influx := filepath.Join(folder, ".jobHarvest.influx")
	require.NoError(t, os.WriteFile(influx, []byte("http://a:1\no\nb\ns3cret\n"), 0o600))
	args := []string{"migrate", "--from", "jobharvest", "--influx", influx}
	stdout, _, status := call(t, append(args, "--", "jobHarvest.py")...)
	require.Zero(t, status)
	require.NotContains(t, stdout, "s3cret")
	require.Contains(t, stdout, "\n==> migrated.env <==\n(secrets: --out writes them)\n")
	stdout, _, status = call(t, append(args, "--out", folder, "--", "jobHarvest.py")...)
	require.Zero(t, status)
	require.Contains(t, stdout, "wrote "+filepath.Join(folder, "migrated.env")+"\n")
	text, err := os.ReadFile(filepath.Join(folder, "migrated.env"))
	require.NoError(t, err)
	require.Equal(t, "INFLUX_TOKEN='s3cret'\n", string(text))
}

// Dashboards for the hosts that are named, which Grafana's own user can read.
func TestDashboards(t *testing.T) {
	folder := t.TempDir()
	args := []string{"dashboards", "--store", "graphite", "--host", "node1.example.org", "--host", "node2", "--out", folder}
	stdout, stderr, status := call(t, args...)
	require.Zero(t, status, stderr)
	board := filepath.Join(folder, "dashboards", "node.json")
	require.Contains(t, stdout, "wrote "+board+"\n")
	text, err := os.ReadFile(board)
	require.NoError(t, err)
	require.Contains(t, string(text), "node1_example_org,node2")
	info, err := os.Stat(board)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	stdout, _, status = call(t, args...)
	require.Zero(t, status)
	require.Equal(t, "everything is there already\n", stdout)
	_, stderr, status = call(t, "dashboards", "--store", "graphite", "--out", folder)
	require.Equal(t, exitFailed, status)
	require.Regexp(t, `^telegraf-hpc: .+ is there already, with another text: --force overwrites it\n$`, stderr)
}

// A measurement as list shows it.
func TestList(t *testing.T) {
	stdout, stderr, status := call(t, "list", "jupyter_users_source")
	require.Zero(t, status, stderr)
	golden(t, "list.txt", stdout)
}

func TestTopOnce(t *testing.T) {
	stdout, stderr, status := call(t, "top", "--root", host(t), "--once", "--interval", "100ms")
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "0 jobs: reading 0B/s, writing 0B/s, 0 requests/s to OSTs, 0 to MDTs\n")
	_, stderr, status = call(t, "top", "--root", t.TempDir(), "--once")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "this host is no file server\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// What the documentation shows is what tests have seen: blocks that begin with ```text @FILE are that file of the repository.
func TestDocumentation(t *testing.T) {
	const document = "../../docs/telegraf-hpc.md"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var want strings.Builder
	rest, blocks := string(text), 0
	for ; ; blocks++ {
		head, after, found := strings.Cut(rest, "\n```text @")
		want.WriteString(head)
		if !found {
			break
		}
		name, _, _ := strings.Cut(after, "\n")
		shown, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		_, tail, ok := strings.Cut(after, "\n```\n")
		require.True(t, ok, "the block of %s has no end", name)
		want.WriteString("\n```text @" + name + "\n" + strings.TrimRight(string(shown), "\n") + "\n```\n")
		rest = tail
	}
	require.Equal(t, 6, blocks)
	if *update && want.String() != string(text) {
		require.NoError(t, os.WriteFile(document, []byte(want.String()), 0o600))
		return
	}
	require.Equal(t, want.String(), string(text), "docs/telegraf-hpc.md is not in step: go generate ./cmd/telegraf-hpc writes it anew")
}
