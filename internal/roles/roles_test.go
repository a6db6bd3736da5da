package roles

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/influxdata/toml"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/doctor"
)

var update = flag.Bool("update", false, "rewrite the golden files and the embedded copies")

// sources gives the repository's sample configurations by the names they are embedded under.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found, err := filepath.Glob("../../plugins/*/*/sample.conf")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	texts := map[string]string{}
	for _, path := range append(found, "../../sample.conf") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name := filepath.Base(filepath.Dir(path))
		if name == ".." {
			name = "telegraf"
		}
		texts[name+".conf"] = string(text)
	}
	return texts
}

// What is embedded is what the repository has: `go generate ./internal/roles` mends it.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	want := sources(t)
	if *update {
		for name, text := range want {
			require.NoError(t, os.WriteFile(filepath.Join("embedded", name), []byte(text), 0o600))
		}
	}
	entries, err := os.ReadDir("embedded")
	require.NoError(t, err)
	require.Len(t, entries, len(want))
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("embedded", name))
		require.NoError(t, err)
		if text != string(got) {
			t.Errorf("embedded/%s is out of step: go generate ./internal/roles mends it", name)
		}
	}
}

// everything is a host that has all there is.
func everything() doctor.Facts {
	return doctor.Facts{
		Slurm: true, SlurmNode: true, HTCondor: true, Sessions: "logind", Kubernetes: true, NVIDIA: 4, AMD: 2, Chrony: true, NFS: true,
		InfiniBand: true, LustreTargets: []string{"lustre-OST0000"},
	}
}

// tables gives the names of the tables in a configuration, and the programs they run.
func tables(text string) (names []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "[[inputs.execd") && !strings.HasPrefix(line, "[[processors.execd") && !strings.HasPrefix(line, "[[outputs.execd") {
			names = append(names, strings.Trim(line, "[]"))
		}
		if before, ok := strings.CutSuffix(line, `",`); ok && strings.HasPrefix(before, `"/usr/lib/telegraf-hpc/`) {
			names = append(names, filepath.Base(before))
		}
	}
	return names
}

func TestTables(t *testing.T) {
	t.Parallel()
	common := []string{"agent", "inputs.internal", "inputs.cpu", "inputs.mem", "inputs.swap", "inputs.system", "inputs.kernel",
		"inputs.processes", "inputs.temp", "inputs.disk", "inputs.diskio", "inputs.net", "node_sensors"}
	more := append(append([]string{}, common...), "inputs.chrony", "inputs.nfsclient", "inputs.infiniband")
	for _, tt := range []struct {
		name    string
		request Request
		tables  []string
		files   []string
		notes   []string
	}{
		{
			"compute, nothing found", Request{Roles: []string{"compute"}}, append(append([]string{}, common...), "outputs.file"),
			[]string{"telegraf.d/hpc-compute.conf", "node_sensors.conf"},
			[]string{"metrics go to the terminal, or Telegraf's log: choose an output with --output"},
		},
		{
			"compute, all found", Request{Roles: []string{"compute"}, Facts: everything(), Outputs: []string{"influxdb=http://db:8086"}},
			append(append([]string{}, more...), "inputs.nvidia_smi", "inputs.amd_rocm_smi", "outputs.influxdb"),
			[]string{"telegraf.d/hpc-compute.conf", "node_sensors.conf"},
			[]string{"InfluxDB must have the database hpc, which Telegraf does not create: influx -execute 'CREATE DATABASE hpc'"},
		},
		{
			"file server", Request{Roles: []string{"fileserver"}, Central: "https://central:8186"},
			append(append([]string{}, common...), "lustre_jobstats", "outputs.influxdb_v2"),
			[]string{"telegraf.d/hpc-fileserver.conf", "node_sensors.conf", "lustre_jobstats.conf"},
			[]string{"https://central:8186 expects the token LUSTRE_TOKEN: put it into /etc/default/telegraf, here and there; " +
				"where its certificate is of an authority of your own, add tls_ca"},
		},
		{
			"head, Slurm only", Request{Roles: []string{"head"}, Facts: doctor.Facts{Slurm: true}, Outputs: []string{"graphite=g:2003"}},
			append(append([]string{}, common...), "slurm_load", "outputs.graphite"),
			[]string{"telegraf.d/hpc-head.conf", "node_sensors.conf", "slurm_load.conf"}, nil,
		},
		{
			"head, nothing found", Request{Roles: []string{"head"}, Outputs: []string{"file"}},
			append(append([]string{}, common...), "slurm_load", "condor_q", "outputs.file"),
			[]string{"telegraf.d/hpc-head.conf", "node_sensors.conf", "slurm_load.conf", "condor_q.conf"},
			[]string{"neither Slurm nor HTCondor was found on this host: both are left on"},
		},
		{
			"head, all found", Request{Roles: []string{"head"}, Facts: everything(), Outputs: []string{"file"}},
			append(append([]string{}, more...), "slurm_load", "condor_q", "jupyter_users", "outputs.file"),
			[]string{"telegraf.d/hpc-head.conf", "node_sensors.conf", "slurm_load.conf", "condor_q.conf", "jupyter_users.conf"}, nil,
		},
		{
			"login", Request{Roles: []string{"login"}, Outputs: []string{"influxdb_v2"}}, append(append([]string{}, common...), "who_users", "outputs.influxdb_v2"),
			[]string{"telegraf.d/hpc-login.conf", "node_sensors.conf", "who_users.conf"},
			[]string{"put the token INFLUX_TOKEN into /etc/default/telegraf"},
		},
		{
			"central", Request{Roles: []string{"central"}, Outputs: []string{"file"}, Certificate: "/c.crt", Key: "/c.key"},
			append(append([]string{}, common...), "inputs.influxdb_v2_listener", "lustre_jobs", "outputs.file"),
			[]string{"telegraf.d/hpc-central.conf", "node_sensors.conf", "lustre_jobs.conf"},
			[]string{"the listener expects the token LUSTRE_TOKEN: put it into /etc/default/telegraf, here and on the hosts that send"},
		},
		{
			"central, head and file server", Request{Roles: []string{"fileserver", "central", "head"}, Facts: doctor.Facts{Slurm: true}, Outputs: []string{"file"}, Certificate: "/c.crt", Key: "/c.key"},
			append(append([]string{}, common...), "lustre_jobstats", "slurm_load", "inputs.influxdb_v2_listener", "lustre_jobs", "outputs.file"),
			[]string{"telegraf.d/hpc-fileserver-head-central.conf", "node_sensors.conf", "lustre_jobstats.conf", "slurm_load.conf", "lustre_jobs.conf"},
			[]string{"the listener expects the token LUSTRE_TOKEN: put it into /etc/default/telegraf, here and on the hosts that send"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			result, err := Make(tt.request)
			require.NoError(t, err)
			require.Equal(t, tt.tables, tables(result.Files[0].Text))
			var names []string
			for _, f := range result.Files {
				names = append(names, f.Name)
				_, err := toml.Parse([]byte(f.Text))
				require.NoError(t, err, f.Name)
			}
			require.Equal(t, tt.files, names)
			require.Equal(t, tt.notes, result.Notes)
		})
	}
}

// Every table of ours is the one of sample.conf, but for the folders.
func TestTablesAreThoseOfSample(t *testing.T) {
	t.Parallel()
	sampleText := strings.NewReplacer("${TELEGRAF_HPC_BIN:-/usr/lib/telegraf-hpc}", "/opt/bin", "${TELEGRAF_HPC_ETC:-/etc/telegraf}", "/opt/etc").
		Replace(sources(t)["telegraf.conf"])
	for _, name := range Names() {
		result, err := Make(Request{Roles: []string{name}, Facts: everything(), Outputs: []string{"file"}, Certificate: "/etc/telegraf/central.crt", Key: "/etc/telegraf/central.key", Programs: "/opt/bin", Configurations: "/opt/etc"})
		require.NoError(t, err)
		text := result.Files[0].Text
		require.NotContains(t, text, "${TELEGRAF_HPC")
		for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			if strings.HasPrefix(part, "# Telegraf on a host of role") {
				continue
			}
			off := "# " + strings.ReplaceAll(part, "\n", "\n# ")
			off = strings.ReplaceAll(off, "# ##", "##")
			require.True(t, strings.Contains(sampleText, part) || strings.Contains(sampleText, off), "%s: not in sample.conf:\n%s", name, part)
		}
	}
}

// What a role changes of a program's own configuration.
func TestOwnConfigurations(t *testing.T) {
	t.Parallel()
	find := func(r Request, name string) string {
		result, err := Make(r)
		require.NoError(t, err)
		for _, f := range result.Files {
			if f.Name == name {
				return f.Text
			}
		}
		return ""
	}
	text := find(Request{Roles: []string{"fileserver"}, Central: "https://c:8186"}, "lustre_jobstats.conf")
	require.Contains(t, text, "\n  emit = [\"epoch\"]\n")
	text = find(Request{Roles: []string{"head"}, Facts: everything(), Central: "https://c:8186"}, "slurm_load.conf")
	require.Contains(t, text, "\n  repeat_for = \"24h\"\n")
	require.Contains(t, text, "\"job\", \"finished\"]\n\n")
	require.NotContains(t, text, "# collect")
	text = find(Request{Roles: []string{"compute"}, Facts: everything()}, "node_sensors.conf")
	require.Contains(t, text, `"job_cgroups"]`)
	require.Equal(t, sources(t)["node_sensors.conf"], find(Request{Roles: []string{"login"}}, "node_sensors.conf"))
	// A central host sums over what is measured on itself, too.
	both := Request{Roles: []string{"fileserver", "head", "central"}, Facts: everything()}
	require.Contains(t, find(both, "lustre_jobstats.conf"), "\n  emit = [\"epoch\"]\n")
	require.Contains(t, find(both, "slurm_load.conf"), "\"job\", \"finished\"]\n\n")
	text = find(Request{Roles: []string{"fileserver"}, Central: "https://c:8186"}, "telegraf.d/hpc-fileserver.conf")
	require.Contains(t, text, "  urls = [\"https://c:8186\"]\n  token = \"${LUSTRE_TOKEN}\"\n")
}

// Each role has a part of sample.conf.
func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"fileserver", "head", "login", "compute", "central"}, Names())
	for _, name := range Names() {
		require.Contains(t, sources(t)["telegraf.conf"], "- "+section(name)+"\n")
	}
}

// Nobody but this host is heard without TLS.
func TestListener(t *testing.T) {
	t.Parallel()
	const table = "[[inputs.influxdb_v2_listener]]\n  service_address = \"%s:8186\"\n%s  token = \"${LUSTRE_TOKEN}\"\n"
	for _, tt := range []struct{ address, tls, certificate, key string }{
		{"", "  tls_cert = \"/a.crt\"\n  tls_key = \"/a.key\"\n", "/a.crt", "/a.key"},
		{"127.0.0.1", "#  tls_cert = \"/etc/telegraf/central.crt\"\n#  tls_key = \"/etc/telegraf/central.key\"\n", "", ""},
	} {
		result, err := Make(Request{Roles: []string{"central"}, Certificate: tt.certificate, Key: tt.key})
		require.NoError(t, err)
		require.Contains(t, result.Files[0].Text, fmt.Sprintf(table, tt.address, tt.tls))
	}
}

// An output can't tell of itself: with af_https comes what reads its status.
func TestQueueOfDocuments(t *testing.T) {
	t.Parallel()
	for outputs, want := range map[string]int{"file": 0, "af_https": 1} {
		result, err := Make(Request{Roles: []string{"login"}, Outputs: []string{outputs}})
		require.NoError(t, err)
		require.Equal(t, want, strings.Count(result.Files[0].Text, "\n  name_override = \"af_https_status\"\n"), outputs)
	}
}

func TestMakeErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		request Request
		want    string
	}{
		{Request{Roles: []string{"oss"}}, `there is no role "oss": it is one of fileserver, head, login, compute, central`},
		{Request{}, "no role: name one or more of fileserver, head, login, compute, central"},
		{Request{Roles: []string{"login", "central"}, Central: "https://x"}, "a central host sends to no other: leave out https://x"},
		{Request{Roles: []string{"central"}, Central: "https://x"}, "a central host sends to no other: leave out https://x"},
		{Request{Roles: []string{"central"}, Key: "/k"}, "a certificate needs its key, and a key its certificate"},
		{Request{Roles: []string{"login"}, Outputs: []string{"kafka=x"}}, `there is no output "kafka": it is one of file, influxdb, influxdb_v2, graphite, af_https, heartbeat`},
		{Request{Roles: []string{"login"}, Outputs: []string{"execd"}}, `there is no output "execd": it is one of file, influxdb, influxdb_v2, graphite, af_https, heartbeat`},
		{Request{Roles: []string{"login"}, Outputs: []string{"af_https=x"}}, "output af_https takes no address"},
	} {
		_, err := Make(tt.request)
		require.EqualError(t, err, tt.want)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	const text = "[[inputs.x]]\n  ## A.\n  # a = [\"1\",\n  #   \"2\"]\n\n  # b = 3\n"
	got, err := set(text, "a", to(`["4"]`))
	require.NoError(t, err)
	require.Equal(t, "[[inputs.x]]\n  ## A.\n  a = [\"4\"]\n\n  # b = 3\n", got)
	got, err = set(text, "a", more(`"5", "6"`))
	require.NoError(t, err)
	require.Equal(t, "[[inputs.x]]\n  ## A.\n  a = [\"1\",\n    \"2\", \"5\", \"6\"]\n\n  # b = 3\n", got)
	got, err = set(text, "b", to("4"))
	require.NoError(t, err)
	require.Equal(t, "[[inputs.x]]\n  ## A.\n  # a = [\"1\",\n  #   \"2\"]\n\n  b = 4\n", got)
	_, err = set(text, "c", to("4"))
	require.EqualError(t, err, "the sample configuration has no option c")
}

func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := []File{{Name: "telegraf.d/a.conf", Text: "a"}, {Name: "b.conf", Text: "b"}}
	w := Writer{Folder: folder, GID: -1}
	written, err := w.Write(files)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "telegraf.d/a.conf"), filepath.Join(folder, "b.conf")}, written)
	info, err := os.Stat(written[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())

	written, err = w.Write(files)
	require.NoError(t, err)
	require.Empty(t, written)

	files[0].Name, files[1].Text = "telegraf.d/new.conf", "changed"
	_, err = w.Write(files)
	require.EqualError(t, err, filepath.Join(folder, "b.conf")+" is there already, with another text: --force overwrites it")
	require.NoFileExists(t, filepath.Join(folder, "telegraf.d/new.conf"))

	w.Force = true
	written, err = w.Write(files)
	require.NoError(t, err)
	require.Len(t, written, 2)
	text, err := os.ReadFile(filepath.Join(folder, "b.conf"))
	require.NoError(t, err)
	require.Equal(t, "changed", string(text))

	// Somebody else was quicker, between the look and the rename.
	w.Force = false
	require.EqualError(t, w.write(&File{Name: "b.conf", Text: "mine"}, false), "writing "+filepath.Join(folder, "b.conf")+": file exists")
	left, err := filepath.Glob(filepath.Join(folder, ".telegraf-hpc-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// What our packages have put there, and nobody has changed, is no reason to refuse; what somebody has changed is.
func TestWriteOverPackaged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "node_sensors.conf")
	require.NoError(t, os.WriteFile(path, []byte(sources(t)["node_sensors.conf"]), 0o600))
	w := Writer{Folder: folder, GID: -1}
	written, err := w.Write([]File{{Name: "telegraf.d/a.conf", Text: "a"}, {Name: "node_sensors.conf", Text: "mine"}})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "telegraf.d/a.conf"), path}, written)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	_, err = w.Write([]File{{Name: "node_sensors.conf", Text: sources(t)["node_sensors.conf"]}})
	require.EqualError(t, err, path+" is there already, with another text: --force overwrites it")

	path = filepath.Join(folder, "none.conf")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = w.Write([]File{{Name: "none.conf", Text: "mine"}})
	require.EqualError(t, err, path+" is there already, with another text: --force overwrites it")
}

// No line of a configuration that is taken apart is lost, and what is switched on has no comment left that was a line of TOML.
func FuzzBlocks(f *testing.F) {
	f.Add("[a]\n  b = 1\n\n# --- x\n\n# [[c]]\n#   d = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := 0
		for _, b := range parseBlocks(text) {
			lines += len(b.lines)
			require.Len(t, strings.Split(b.text(), "\n"), len(b.lines)+1)
		}
		want := 0
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); line != "" && !strings.HasPrefix(line, "# ---") {
				want++
			}
		}
		require.Equal(t, want, lines)
	})
}
