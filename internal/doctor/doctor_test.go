package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/command"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// file is a file of a host under test: as stat(2) has it, but that the mode may say more than the test's own user could.
type file struct {
	text     string
	mode     fs.FileMode
	uid, gid uint32
}

// world is a host under test.
type world struct {
	files map[string]file
	// tools are what tools print, by their command line. A failed one has an error.
	tools map[string]string
	fails map[string]error
	clock ClockState
}

// host builds the files, and gives the host that has them.
func (w *world) host(t *testing.T) *Host {
	t.Helper()
	root := t.TempDir()
	for name, f := range w.files {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o750))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(f.text), 0o600))
	}
	h := NewHost(root, "v1.0.0")
	h.Clock = func() (ClockState, error) { return w.clock, nil }
	h.Stat = func(path string) (Stat, error) {
		info, err := os.Stat(path)
		if err != nil {
			var failed *fs.PathError
			require.ErrorAs(t, err, &failed)
			failed.Path = strings.TrimPrefix(failed.Path, root)
			return Stat{}, failed
		}
		name := strings.TrimPrefix(path, root)
		for _, key := range []string{name, name + "/"} {
			if f, ok := w.files[key]; ok && f.mode != 0 {
				return Stat{Mode: info.Mode().Type() | f.mode, UID: f.uid, GID: f.gid}, nil
			}
		}
		return Stat{Mode: info.Mode().Type() | 0o755}, nil
	}
	h.Run = func(_ context.Context, name string, args ...string) ([]byte, error) {
		line := strings.ReplaceAll(strings.Join(append([]string{name}, args...), " "), root, "")
		if err, ok := w.fails[line]; ok {
			return nil, err
		}
		if text, ok := w.tools[line]; ok {
			return []byte(text), nil
		}
		return nil, &command.Error{Name: name, Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
	}
	return h
}

// base is a host with Telegraf, and our programs, and nothing else.
func base() *world {
	return &world{
		files: map[string]file{
			"/etc/passwd":                                {text: "root:x:0:0::/root:/bin/sh\ntelegraf:x:999:998::/etc/telegraf:/bin/false\n"},
			"/etc/group":                                 {text: "root:x:0:\ntelegraf:x:998:\nadm:x:4:syslog,telegraf\n"},
			"/lib/systemd/system/telegraf.service":       {text: "[Service]\nUser=telegraf\n"},
			"/usr/lib/telegraf-hpc/slurm_load":           {},
			"/usr/lib/telegraf-hpc/telegraf-hpc":         {},
			"/etc/telegraf/telegraf.conf":                {text: "[agent]\n  metric_buffer_limit = 200000\n"},
			"/etc/telegraf/telegraf.d/hpc.conf":          {text: hpcConf("slurm_load")},
			"/etc/telegraf/slurm_load.conf":              {text: "[[inputs.slurm_load]]\n", mode: 0o640, gid: 998},
			"/var/lib/telegraf-hpc/":                     {mode: 0o750, uid: 999, gid: 998},
			"/var/lib/telegraf-hpc/slurm_load/state.txt": {mode: 0o640, uid: 999, gid: 998},
		},
		tools: map[string]string{
			"telegraf version": "Telegraf 1.37.2 (git: HEAD@0123456)\n",
			"telegraf config check --config /etc/telegraf/telegraf.conf --config-directory /etc/telegraf/telegraf.d": "",
			"/usr/lib/telegraf-hpc/slurm_load --version":                                                             "slurm_load (telegraf-hpc) v1.0.0\n",
			"/usr/lib/telegraf-hpc/slurm_load --check --config /etc/telegraf/slurm_load.conf":                        "OK: inputs.slurm_load, 1 table(s)\n",
		},
		fails: map[string]error{},
		clock: ClockState{Synced: true, MaxError: 12 * time.Millisecond},
	}
}

func hpcConf(name string) string {
	return fmt.Sprintf(`[[inputs.execd]]
  command = ["${TELEGRAF_HPC_BIN:-/usr/lib/telegraf-hpc}/%s", "--config", "${TELEGRAF_HPC_ETC:-/etc/telegraf}/%s.conf"]
  signal = "STDIN"
`, name, name)
}

// The world's state folder has its own entry, whose mode the walk over its files must see, too.
func with(changes func(w *world)) *world {
	w := base()
	w.files["/var/lib/telegraf-hpc/slurm_load/"] = file{mode: 0o750, uid: 999, gid: 998}
	changes(w)
	return w
}

const scontrolConfig = `ClusterName             = hpc
SLURM_VERSION           = 24.11.5
MinJobAge               = 300 sec
AccountingStorageType   = accounting_storage/slurmdbd
PrivateData             = %s
`

// Whole reports, as they are printed.
func TestReports(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{
		"nothing":    {clock: ClockState{}},
		"head":       with(head),
		"fileserver": with(fileServer),
		"compute":    with(compute),
		"broken":     with(broken),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := w.host(t)
			report := h.Examine(t.Context())
			var text bytes.Buffer
			require.NoError(t, report.WriteText(&text))
			golden(t, name+".txt", bytes.ReplaceAll(text.Bytes(), []byte(h.Root), nil)) // Commands lead to where the host's files are.
			text.Reset()
			require.NoError(t, report.WriteJSON(&text))
			require.True(t, json.Valid(text.Bytes()))
			if name == "fileserver" {
				golden(t, name+".json", text.Bytes())
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func head(w *world) {
	w.tools["scontrol show config"] = fmt.Sprintf(scontrolConfig, "jobs")
	w.tools["sacctmgr -n -P show user telegraf format=AdminLevel"] = "Operator\n"
	w.tools["condor_status -schedd -json -attributes Name,CondorVersion"] = `[{"Name": "a", "CondorVersion": "$CondorVersion: 23.9.6 2024-08-08 $"}]`
	w.files["/run/systemd/sessions/"] = file{}
	w.files["/run/dbus/system_bus_socket"] = file{}
}

func fileServer(w *world) {
	w.files["/sys/fs/lustre/version"] = file{text: "2.15.4\n"}
	w.files["/proc/fs/lustre/obdfilter/lustre-OST0000/job_stats"] = file{mode: 0o400}
	w.files["/proc/fs/lustre/obdfilter/lustre-OST0001/job_stats"] = file{mode: 0o400}
	w.files["/proc/fs/lustre/mdt/lustre-MDT0000/job_stats"] = file{mode: 0o644}
	w.files["/sys/fs/lustre/mdt/lustre-MDT0000/job_cleanup_interval"] = file{text: "0\n"}
	w.files["/sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval"] = file{text: "600\n"}
	w.files["/etc/telegraf/telegraf.conf"] = file{text: "[agent]\n  interval = \"10s\"\n[[inputs.cpu]]\n[[inputs.mem]]\n[[inputs.nstat]]\n"}
	delete(w.files, "/etc/telegraf/telegraf.d/hpc.conf")
	w.files["/etc/telegraf/telegraf.d/hpc-fileserver.conf"] = file{text: hpcConf("lustre_jobstats") + "[agent]\n[[inputs.mem]]\n[[inputs.cpu]]\n[[inputs.net]]\n"}
	w.files["/etc/telegraf/lustre_jobstats.conf"] = file{}
	w.files["/usr/lib/telegraf-hpc/lustre_jobstats"] = file{}
	w.tools["/usr/lib/telegraf-hpc/lustre_jobstats --version"] = "lustre_jobstats (telegraf-hpc) v0.9.0\n"
	w.tools["/usr/lib/telegraf-hpc/lustre_jobstats --check --config /etc/telegraf/lustre_jobstats.conf"] = "OK"
}

func compute(w *world) {
	w.files["/lib/systemd/system/telegraf.service"] = file{text: "[Service]\nUser=telegraf\nAmbientCapabilities=CAP_DAC_READ_SEARCH\n"}
	w.files["/var/spool/slurmd/"] = file{}
	w.files["/proc/fs/lustre/llite/lustre-ffff/"] = file{}
	w.files["/sys/fs/lustre/jobid_var"] = file{text: "disable\n"}
	w.files["/proc/fs/lustre/version"] = file{text: "lustre: 2.12.9\nkernel: patchless\n"}
	w.files["/sys/class/hwmon/hwmon0/temp1_input"] = file{text: "42000\n"}
	w.files["/sys/class/hwmon/hwmon0/fan1_input"] = file{text: "900\n"}
	w.files["/dev/nvidia0"] = file{mode: 0o660, gid: 44}
	w.files["/sys/class/drm/card0/device/vendor"] = file{text: "0x1002\n"}
	w.files["/sys/class/drm/card0/device/class"] = file{text: "0x038000\n"}
	w.files["/usr/bin/rocm-smi"] = file{}
	w.files["/run/utmp"] = file{mode: 0o664, gid: 43}
	w.files["/var/run/secrets/kubernetes.io/serviceaccount/token"] = file{mode: 0o600}
	w.files["/run/chrony/"] = file{}
	w.clock = ClockState{Synced: true, MaxError: 2 * time.Second}
}

func broken(w *world) {
	w.tools["telegraf version"] = "Telegraf 1.29.0 (git: HEAD@0123456)\n"
	w.clock = ClockState{}
	w.files["/usr/lib/telegraf-hpc/condor_q"] = file{mode: 0o700}
	w.files["/etc/telegraf/telegraf.d/a.conf"] = file{text: "[[inputs.execd]\n"}
	w.files["/etc/telegraf/telegraf.d/b.conf"] = file{text: hpcConf("who_users"), mode: 0o600}
	w.files["/etc/telegraf/telegraf.d/c.conf"] = file{text: `[[processors.execd]]
  command = ["/usr/lib/telegraf-hpc/slurm_load", "--config", "/etc/telegraf/secret.conf"]
  stop_on_error = true
`}
	w.files["/etc/telegraf/secret.conf"] = file{mode: 0o600}
	w.files["/etc/telegraf/telegraf.d/d.conf"] = file{text: "[[processors.execd]]\n  command = [\"/usr/lib/telegraf-hpc/lustre_jobs\"]\n"}
	w.files["/usr/lib/telegraf-hpc/lustre_jobs"] = file{}
	w.tools["/usr/lib/telegraf-hpc/lustre_jobs --version"] = "lustre_jobs (telegraf-hpc) v1.0.0\n"
	w.fails["/usr/lib/telegraf-hpc/lustre_jobs --check"] = errors.New("lustre_jobs: exit status 1: E! \x1b[2Jbad")
	w.tools["scontrol show config"] = fmt.Sprintf(scontrolConfig, "jobs,usage")
	w.tools["sacctmgr -n -P show user telegraf format=AdminLevel"] = "None\n"
	w.fails["telegraf config check --config /etc/telegraf/telegraf.conf --config-directory /etc/telegraf/telegraf.d"] = errors.New("telegraf: exit status 1")
	w.fails["condor_status -schedd -json -attributes Name,CondorVersion"] = errors.New("condor_status: exit status 1: no configuration")
	w.files["/var/lib/telegraf-hpc/slurm_load/"] = file{mode: 0o700}
	w.files["/run/utmp"] = file{mode: 0o600}
}

// What a mode allows: path_resolution(7), "the first class that fits decides".
func TestAllows(t *testing.T) {
	t.Parallel()
	user := account{known: true, uid: 999, groups: map[uint32]string{998: "telegraf", 4: "adm"}}
	for _, tt := range []struct {
		name string
		who  account
		stat Stat
		want uint32
		ok   bool
	}{
		{"owner reads", user, Stat{Mode: 0o400, UID: 999}, mayRead, true},
		{"owner may not, though others may", user, Stat{Mode: 0o044, UID: 999}, mayRead, false},
		{"group reads", user, Stat{Mode: 0o040, GID: 4}, mayRead, true},
		{"group may not, though others may", user, Stat{Mode: 0o004, GID: 4}, mayRead, false},
		{"others read", user, Stat{Mode: 0o004}, mayRead, true},
		{"others write", user, Stat{Mode: 0o004}, mayWrite, false},
		{"write and enter", user, Stat{Mode: 0o200, UID: 999}, mayWrite | mayEnter, false},
		{"root", account{uid: 0}, Stat{Mode: 0}, mayWrite, true},
		{"capability reads", account{uid: 999, readsAll: true}, Stat{Mode: 0}, mayRead, true},
		{"capability enters folders", account{uid: 999, readsAll: true}, Stat{Mode: fs.ModeDir}, mayEnter, true},
		{"capability runs nothing", account{uid: 999, readsAll: true}, Stat{Mode: 0}, mayEnter, false},
		{"capability writes nothing", account{uid: 999, readsAll: true}, Stat{Mode: 0}, mayWrite, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.ok, tt.who.allows(tt.stat, tt.want))
		})
	}
}

func TestParseTelegrafVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"Telegraf 1.37.2 (git: HEAD@abc)": {1, 37},
		"Telegraf v2.0":                   {2, 0},
		"Telegraf 1.38.0-rc1":             {1, 38},
		"Telegraf unknown":                {},
		"Telegraf":                        {},
		"":                                {},
		"Telegraf 1.x":                    {1, 0},
	} {
		got, ok := parseTelegrafVersion([]byte(text))
		require.Equal(t, want, got, text)
		require.Equal(t, want[0] > 0 && !strings.HasSuffix(text, "x"), ok, text)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"A": "1", "EMPTY": ""}
	for text, want := range map[string]string{
		"${A}/x": "1/x", "${A:-2}": "1", "${B:-2}3": "23", "${EMPTY:-e}": "e", "${B}": "${B}", "a${": "a${", "$A": "$A", "${A}${A}": "11",
	} {
		require.Equal(t, want, expand(text, variables), text)
	}
}

// The last unit file that says something wins, and capabilities can be taken back.
func TestServiceUnit(t *testing.T) {
	t.Parallel()
	w := base()
	w.files["/etc/systemd/system/telegraf.service.d/a.conf"] = file{text: "[Service]\nUser=root\nAmbientCapabilities=CAP_DAC_READ_SEARCH\n"}
	w.files["/etc/systemd/system/telegraf.service.d/b.conf"] = file{text: "[Service]\nAmbientCapabilities=\n"}
	e := &examination{Host: w.host(t)}
	require.Equal(t, unit{file: "/etc/systemd/system/telegraf.service.d/a.conf", user: "root"}, e.serviceUnit())
}

// OpenRC's service has a user and capabilities, too. Where systemd runs, it is not asked.
func TestOpenRCService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		settings, more string
		want           unit
	}{
		{"", "", unit{file: openRCSettings}},
		{"#telegraf_user=\"root:root\"\n#capabilities=\"^cap_dac_read_search\"\n", "", unit{file: openRCSettings}},
		{"telegraf_user=\"metrics:adm\"\ncapabilities='^cap_dac_read_search,^cap_net_raw'\n", "", unit{file: openRCSettings, user: "metrics", readsAll: true}},
		{"capabilities=\"^cap_dac_read_search\"\ncapabilities=\"\"\n", "", unit{file: openRCSettings}},
		{"telegraf_user=\"metrics\"\n", "/run/systemd/system/", unit{file: "/lib/systemd/system/telegraf.service", user: "telegraf"}},
	} {
		w := base()
		w.files["/run/openrc/"] = file{}
		if tt.settings != "" {
			w.files[openRCSettings] = file{text: tt.settings}
		}
		if tt.more != "" {
			w.files[tt.more] = file{}
		}
		e := &examination{Host: w.host(t)}
		require.Equal(t, tt.want, e.service(), tt.settings)
	}
}

// What lets Telegraf read job_stats is what the host has for that.
func TestLetReadAll(t *testing.T) {
	t.Parallel()
	const folder = "/etc/systemd/system/telegraf.service.d"
	for name, want := range map[string]string{
		"/none/": "install -d " + folder + ` && printf '[Service]\nAmbientCapabilities=CAP_DAC_READ_SEARCH\n' >` + folder +
			"/lustre.conf && systemctl daemon-reload && systemctl restart telegraf",
		"/usr/share/telegraf-hpc/systemd/20-fileserver.conf": "install -d " + folder + " && ln -sf /usr/share/telegraf-hpc/systemd/20-fileserver.conf " +
			folder + "/ && systemctl daemon-reload && systemctl restart telegraf",
		"/run/openrc/": `echo 'telegraf_user="root:root"' >>/etc/conf.d/telegraf && rc-service telegraf restart` +
			`   # or capabilities="^cap_dac_read_search", where OpenRC has libcap`,
	} {
		w := with(fileServer)
		w.files[name] = file{}
		report := w.host(t).Examine(t.Context())
		i := slices.IndexFunc(report.Findings, func(f Finding) bool { return f.Topic == "lustre" && f.Level == Error })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, want, report.Findings[i].Remedy)
	}
}

// A container's clock is its host's.
func TestClockOfContainer(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"/run/systemd/container", "/run/.containerenv", "/.dockerenv"} {
		w := base()
		w.clock = ClockState{}
		w.files[mark] = file{}
		e := &examination{Host: w.host(t)}
		e.clock()
		require.Equal(t, []Finding{{Topic: "clock", Level: Warning, Text: "nothing keeps the clock in step, which is that of this container's host: look there"}},
			e.report.Findings)
	}
}

func TestSlurmNode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"/none/": false, "/var/spool/slurmd/": true, "/var/spool/slurm/d/": true, "/run/slurmd.pid": true, "/var/lib/slurm/slurmd/": false,
		"/var/lib/slurm/slurmd/cred_state": true,
	} {
		w := base()
		w.files[name] = file{}
		report := w.host(t).Examine(t.Context())
		require.Equal(t, want, report.Facts.SlurmNode, name)
	}
}

func TestClockFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("adjtimex: %w", unix.EPERM), "the kernel does not tell whether the clock is in step: this is a container; look at its host"},
		{errors.New("adjtimex: bad"), "the kernel does not tell whether the clock is in step: adjtimex: bad"},
	} {
		e := &examination{Host: base().host(t)}
		e.Clock = func() (ClockState, error) { return ClockState{}, tt.err }
		e.clock()
		require.Equal(t, []Finding{{Topic: "clock", Level: Warning, Text: tt.want}}, e.report.Findings)
	}
}

// What is looked for is what the repository builds.
func TestPrograms(t *testing.T) {
	t.Parallel()
	mains, err := filepath.Glob("../../cmd/*/main.go")
	require.NoError(t, err)
	var want []string
	for _, path := range mains {
		if name := filepath.Base(filepath.Dir(path)); name != "telegraf-hpc" && name != "lustresim" {
			want = append(want, name)
		}
	}
	require.Equal(t, want, programs())
}

// Whose user is not known is told nothing about what it may do.
func TestUnknownUser(t *testing.T) {
	t.Parallel()
	w := with(func(w *world) { w.files["/etc/passwd"] = file{text: "root:x:0:0::/root:/bin/sh\n"} })
	report := w.host(t).Examine(t.Context())
	var levels []string
	for _, f := range report.Findings {
		if f.Level != OK {
			levels = append(levels, f.Topic+": "+f.Text)
		}
	}
	require.Equal(t, []string{
		"user: there is no user telegraf in /etc/passwd, whom Telegraf runs as by /lib/systemd/system/telegraf.service: what it may read can't be told",
		"state: /var/lib/telegraf-hpc is there; whether Telegraf may write there can't be told",
	}, levels)
}

// What config wrote for one role after the other gathers twice.
func TestTwoRoles(t *testing.T) {
	t.Parallel()
	const folder = "/etc/telegraf/telegraf.d/"
	w := with(func(w *world) {
		w.files["/etc/telegraf/telegraf.conf"] = file{}
		w.files[folder+"hpc-head.conf"] = file{text: "[agent]\n  metric_buffer_limit = 200000\n[[inputs.mem]]\n[[inputs.cpu]]\n"}
		w.files[folder+"hpc-head-login.conf"] = file{text: "[agent]\n[[inputs.mem]]\n"}
		w.files[folder+"hpc-migrated.conf"] = file{text: "[[inputs.cpu]]\n"}
		w.files[folder+"ours.conf"] = file{text: "[[inputs.mem]]\n"} // Somebody may want another one.
	})
	var found []Finding
	for _, f := range w.host(t).Examine(t.Context()).Findings {
		if f.Level != OK {
			found = append(found, f)
		}
	}
	require.Equal(t, []Finding{
		{
			Topic: "config", Level: Warning,
			Text: "[agent], mem: in " + folder + "hpc-head-login.conf and in " + folder + "hpc-head.conf; inputs gather twice then, and Telegraf wants one [agent]: " +
				"one file can be of all roles, with the --output and --central that these have",
			Remedy: "telegraf-hpc config --role head --role login --out /etc/telegraf && rm " + folder + "hpc-head-login.conf " + folder + "hpc-head.conf",
		},
		{
			Topic: "config", Level: Warning,
			Text: "cpu: in " + folder + "hpc-head.conf and in " + folder + "hpc-migrated.conf; inputs gather twice then, and Telegraf wants one [agent]",
		},
	}, found)
}

// Remedies are those of the host's own kind.
func TestInstall(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/usr/bin/dnf": "dnf install chrony && systemctl enable --now chronyd", "/usr/bin/zypper": "zypper install chrony && systemctl enable --now chronyd",
		"/usr/bin/apt-get": "apt-get install chrony && systemctl enable --now chrony",
		"/run/openrc/":     "apt-get install chrony && rc-update add chrony && rc-service --ifstopped chrony start",
	} {
		w := with(func(w *world) { w.files[name] = file{}; w.clock = ClockState{} })
		e := &examination{Host: w.host(t)}
		e.clock()
		require.Equal(t, want, e.report.Findings[0].Remedy)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for want, facts := range map[string]Facts{
		"fileserver": {LustreTargets: []string{"lustre-OST0000"}, Slurm: true},
		"head":       {Slurm: true},
		"login":      {Sessions: "utmp"},
		"compute":    {SlurmNode: true, Slurm: true},
	} {
		require.Equal(t, want, facts.Role())
	}
	require.Equal(t, "compute", (&Facts{}).Role())
}

// The host that the tests run on can be looked at, whatever it is.
func TestThisHost(t *testing.T) {
	t.Parallel()
	h := NewHost("/", "v1.0.0")
	run := h.Run
	h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "scontrol" { // It waits for a slurmctld that is not there.
			return nil, errors.New("scontrol: timeout")
		}
		return run(ctx, name, args...)
	}
	report := h.Examine(t.Context())
	topics := map[string]bool{}
	for _, f := range report.Findings {
		require.NotEmpty(t, f.Text)
		topics[f.Topic] = true
	}
	for _, topic := range []string{"user", "telegraf", "programs", "state", "clock", "lustre", "slurm", "htcondor", "sessions", "kubernetes", "sensors", "gpus", "config"} {
		require.True(t, topics[topic], topic)
	}
}

// Whatever the files say, nothing panics, and a text without the keys changes nothing.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(hpcConf("slurm_load")))
	f.Add([]byte("[agent]\nmetric_buffer_limit = 5\nskip_processors_after_aggregators = true\n"))
	f.Add([]byte("inputs = 3\n[agent]\nmetric_buffer_limit = \"x\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := settings{buffer: defaultBuffer}
		if s.parse("a", text, nil) != nil {
			require.Empty(t, s.children)
		}
		require.LessOrEqual(t, len(s.agents), 1)
		if !bytes.Contains(text, []byte("metric_buffer_limit")) && !bytes.ContainsAny(text, `\`) {
			require.EqualValues(t, defaultBuffer, s.buffer)
		}
	})
}

func TestParseSchedds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, version string
		schedds       int
		err           string
	}{
		{"", "", 0, ""},
		{"[]", "of a version it does not tell", 0, ""},
		{`[{"CondorVersion": "$CondorVersion: 23.9.6 x $"}, {}]`, "23.9.6", 2, ""},
		{`[{"Name": "a"}]`, "of a version it does not tell", 1, ""},
		{"All queues are empty", "", 0, "not understood: invalid character 'A' looking for beginning of value"},
	} {
		version, schedds, err := parseSchedds([]byte(tt.text))
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.version, version)
		require.Equal(t, tt.schedds, schedds)
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add([]byte("telegraf:x:999:998:::\n"), []byte("adm:x:4:telegraf\n"))
	f.Fuzz(func(t *testing.T, passwd, group []byte) {
		_, gid, found := parsePasswd(passwd, "telegraf")
		groups := parseGroups(group, "telegraf", gid)
		require.Contains(t, groups, gid)
		require.True(t, !found || bytes.Contains(passwd, []byte("telegraf:")))
	})
}
