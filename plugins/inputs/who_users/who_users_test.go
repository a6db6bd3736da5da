package who_users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/plugintest"
)

// rig is a plugin on a host of its own: a root folder, a bus, commands and a clock.
type rig struct {
	t    *testing.T
	p    *WhoUsers
	log  *testutil.CaptureLogger
	root string
	bus  *bus
	now  time.Time
	dead map[int32]bool

	prints map[string]string // what commands print, by the command line
	broken map[string]error  // commands that fail
	ran    []string
}

// then is when a rig's clock starts.
var then = time.Unix(1795282600, 0).UTC()

func newRig(t *testing.T, change func(p *WhoUsers)) *rig {
	t.Helper()
	p := newPlugin()
	change(p)
	return startRig(t, p)
}

func startRig(t *testing.T, p *WhoUsers) *rig {
	t.Helper()
	r := &rig{
		t: t, p: p, log: &testutil.CaptureLogger{}, root: t.TempDir(), bus: newBus(t), now: then, dead: make(map[int32]bool),
		prints: make(map[string]string), broken: make(map[string]error),
	}
	r.bus.stop() // Until it is asked for.
	p.Log, p.HostRoot = r.log, r.root
	if p.DBusAddress == "" {
		p.DBusAddress = "unix:path=" + r.bus.path
	}
	p.now = func() time.Time { return r.now }
	p.alive = func(pid int32) bool { return !r.dead[pid] }
	p.run = r.run
	require.NoError(t, p.Init())
	if p.members != nil {
		p.members.run = r.run
	}
	if p.history != nil {
		p.history.layout = layoutOf("amd64")
	}
	for _, m := range p.methods {
		if u, ok := m.source.(*utmp); ok {
			u.layout = layoutOf("amd64")
		}
	}
	require.NoError(t, p.Start(nil))
	t.Cleanup(p.Stop)
	return r
}

func (r *rig) run(_ context.Context, name string, args ...string) (command.Result, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	r.ran = append(r.ran, line)
	if err := r.broken[line]; err != nil {
		return command.Result{}, err
	}
	text, ok := r.prints[line]
	if !ok {
		return command.Result{}, &command.Error{Name: name, Reason: command.ErrExit, Status: 2, Err: errors.New("exit status 2")}
	}
	return command.Result{Stdout: []byte(text)}, nil
}

// write writes a file of the host.
func (r *rig) write(name string, content []byte) {
	r.t.Helper()
	path := filepath.Join(r.root, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(r.t, os.WriteFile(path, content, 0o600))
}

// gather gathers once and moves the clock on by ten seconds.
func (r *rig) gather() (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	metrics, failed := plugintest.Gather(r.t, r.p)
	for _, err := range failed {
		errs = append(errs, errors.New(strings.NewReplacer(r.root, "", r.bus.path, "/bus").Replace(err.Error())))
	}
	r.now = r.now.Add(10 * time.Second)
	return metrics, errs
}

// step makes the host what a folder says: utmp and wtmp as utmpdump prints them, terminals with the seconds since
// somebody typed there, processes that are gone, sessions of logind, what commands print, and files of /etc.
func (r *rig) step(folder string) {
	r.t.Helper()
	text := func(name string) (string, bool) {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", false
		}
		require.NoError(r.t, err)
		return string(content), true
	}
	for file, path := range map[string]string{"utmp.txt": "run/utmp", "wtmp.txt": "var/log/wtmp"} {
		if content, ok := text(file); ok {
			r.write(path, records(r.t, content, layoutOf("amd64")))
		}
	}
	for _, file := range []string{"passwd", "group"} {
		if content, ok := text(file); ok {
			r.write("etc/"+file, []byte(content))
		}
	}
	terminals, _ := text("terminals.txt")
	for line := range strings.Lines(terminals) {
		fields := strings.Fields(line)
		r.write("dev/"+fields[0], nil)
		idle, err := strconv.Atoi(fields[1])
		require.NoError(r.t, err)
		require.NoError(r.t, os.Chtimes(filepath.Join(r.root, "dev", fields[0]), r.now.Add(-time.Duration(idle)*time.Second), r.now))
	}
	dead, _ := text("dead.txt")
	for line := range strings.Lines(dead) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(r.t, err)
		r.dead[int32(pid)] = true
	}
	if content, ok := text("commands.json"); ok {
		require.NoError(r.t, json.Unmarshal([]byte(content), &r.prints))
	}
	if content, ok := text("logind.json"); ok {
		r.setSessions(content)
	}
}

// setSessions has logind know sessions, which the text has as its properties.
func (r *rig) setSessions(text string) {
	r.t.Helper()
	var sessions []map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(r.t, decoder.Decode(&sessions))
	known := make([]map[string]dbus.Variant, 0, len(sessions))
	for _, s := range sessions {
		p := make(map[string]dbus.Variant)
		for name, value := range s {
			if number, ok := value.(json.Number); ok {
				n, err := number.Int64()
				require.NoError(r.t, err)
				value = uint64(n)
			}
			p[name] = dbus.MakeVariant(value)
		}
		known = append(known, p)
	}
	r.bus.set(func() { r.bus.sessions = known })
	if _, err := os.Stat(r.bus.path); err != nil {
		r.bus.listen()
	}
}

func TestCases(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("utmp is that of Linux")
	}
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*WhoUsers)
		require.True(t, ok)
		r := startRig(t, p)
		for gather := 1; ; gather++ {
			step := filepath.Join(folder, strconv.Itoa(gather))
			if _, err := os.Stat(step); err != nil {
				require.Greater(t, gather, 1, "no gathers in %s", folder)
				return metrics, errs
			}
			r.step(step)
			more, failed := r.gather()
			metrics, errs = append(metrics, more...), append(errs, failed...)
		}
	})
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

func TestReadmeIsShown(t *testing.T) { plugintest.Shown(t, "who_users_self version") }

func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(sampleConfig)).(*WhoUsers)
	require.True(t, ok)
	require.NoError(t, p.Init())
	all, ok := plugintest.ParseInput(t, plugintest.Uncommented(sampleConfig)).(*WhoUsers)
	require.True(t, ok)
	require.Equal(t, []string{"atlas"}, all.Groups)
	require.Equal(t, []string{"root", "gdm*"}, all.ExcludeUsers)
	options := plugintest.ShowsDefaults(t, sampleConfig, p, all, "command", "dbus_address", "groups", "exclude_users", "pseudonym_key")
	require.Equal(t, 20, options)
	require.NoError(t, all.Init())
}

func TestInitErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *WhoUsers)
		want   string
	}{
		{"method", func(p *WhoUsers) { p.Method = "last" }, `option method: "last" is none of ["auto" "logind" "utmp" "command"]`},
		{"command", func(p *WhoUsers) { p.Command = []string{"", "-q"} }, `option command: "" is no command`},
		{"timeout", func(p *WhoUsers) { p.Timeout = 0 }, "option timeout: must be more than 0s"},
		{"host_root", func(p *WhoUsers) { p.HostRoot = "hostfs" }, `option host_root: the path "hostfs" is not absolute`},
		{"utmp_file", func(p *WhoUsers) { p.UtmpFile = "" }, `option utmp_file: the path "" is not absolute`},
		{"wtmp_file", func(p *WhoUsers) { p.WtmpFile = "wtmp" }, `option wtmp_file: the path "wtmp" is not absolute`},
		{"dbus_address", func(p *WhoUsers) { p.DBusAddress = "tcp:host=x" },
			`option dbus_address: "tcp:host=x" is no address like unix:path=/run/dbus/system_bus_socket`},
		{"no origin", func(p *WhoUsers) { p.Origins = nil }, "option origins: empty"},
		{"origin", func(p *WhoUsers) { p.Origins = []string{"ssh"} }, `option origins: "ssh" is none of ["remote" "local"]`},
		{"origin twice", func(p *WhoUsers) { p.Origins = []string{"local", "local"} }, `option origins: "local" is there twice`},
		{"group", func(p *WhoUsers) { p.Groups = []string{"-s"} }, `option groups: "-s" is no name of a group`},
		{"groups in one", func(p *WhoUsers) { p.Groups = []string{"a,b"} }, `option groups: "a,b" is no name of a group`},
		{"group twice", func(p *WhoUsers) { p.Groups = []string{"a", "a"} }, `option groups: "a" is there twice`},
		{"groups_keep", func(p *WhoUsers) { p.GroupsKeep = 0 }, "option groups_keep: must be more than 0s"},
		{"exclude_users", func(p *WhoUsers) { p.ExcludeUsers = []string{"[a*"} }, "option exclude_users: unexpected end of input"},
		{"idle_after", func(p *WhoUsers) { p.IdleAfter = -1 }, "option idle_after: must be more than 0s"},
		{"max_users", func(p *WhoUsers) { p.MaxUsers = 0 }, "option max_users: must be at least 1"},
		{"history", func(p *WhoUsers) { p.History = -1 }, "option history: must not be negative"},
		{"refresh", func(p *WhoUsers) { p.Refresh = 0 }, "option refresh: must be more than 0s"},
		{"users", func(p *WhoUsers) { p.Users = "uid" }, `option users: "uid" is none of ["name" "pseudonym" "none"]`},
		{"no key", func(p *WhoUsers) { p.Users = "pseudonym" }, `option pseudonym_key: must be set with users = "pseudonym"`},
		{"short key", func(p *WhoUsers) { p.Users, p.PseudonymKey = "pseudonym", config.NewSecret([]byte("short")) },
			"option pseudonym_key: must have at least 16 characters"},
		{"a list of nobody", func(p *WhoUsers) { p.Users, p.ListUsers = "none", true }, `option list_users: can't be with users = "none"`},
		{"two of them", func(p *WhoUsers) { p.Method, p.Refresh = "", 0 },
			"option method: \"\" is none of [\"auto\" \"logind\" \"utmp\" \"command\"]\noption refresh: must be more than 0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlugin()
			test.change(p)
			require.EqualError(t, p.Init(), test.want)
		})
	}
}

func TestSockets(t *testing.T) {
	t.Setenv(busVariable, "unix:path=/tmp/a")
	p := newPlugin()
	sockets, err := p.sockets()
	require.NoError(t, err)
	require.Equal(t, []string{"/tmp/a"}, sockets)
	p.HostRoot = "/hostfs"
	sockets, err = p.sockets()
	require.NoError(t, err)
	require.Equal(t, []string{"/hostfs/run/dbus/system_bus_socket"}, sockets, "the environment is that of the container")
	p.HostRoot = "/"
	t.Setenv(busVariable, "")
	sockets, err = p.sockets()
	require.NoError(t, err)
	require.Equal(t, []string{"/run/dbus/system_bus_socket"}, sockets)
	t.Setenv(busVariable, "autolaunch:")
	require.EqualError(t, p.Init(), `environment variable DBUS_SYSTEM_BUS_ADDRESS: "autolaunch:" is no address like unix:path=/run/dbus/system_bus_socket`)
}

// fields gives those of the one metric of a measurement.
func fields(t *testing.T, metrics []telegraf.Metric, measurement string) map[string]any {
	t.Helper()
	var found []telegraf.Metric
	for _, m := range metrics {
		if m.Name() == measurement {
			found = append(found, m)
		}
	}
	require.Len(t, found, 1, measurement)
	return found[0].Fields()
}

// tells tells whether there is a who_users.
func tells(metrics []telegraf.Metric) bool {
	return slices.ContainsFunc(metrics, func(m telegraf.Metric) bool { return m.Name() == "who_users" })
}

func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

const (
	aliceOnPty = `[{"Id":"c1","Name":"alice","TTY":"pts/0","Remote":true,"RemoteHost":"10.0.0.1","Service":"sshd","Type":"tty","Class":"user","State":"active","Timestamp":1795282500000000}]`
	bobsRow    = "[7] [17] [ts/0] [bob] [pts/1] [10.0.0.2] [0.0.0.0] [2026-11-21T17:00:00,000000+00:00]\n"
)

// With "auto", logind is asked where it is, and what has answered is not left at its first failure.
func TestAuto(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) { p.ListUsers = true })
	list := func() (any, []string) {
		t.Helper()
		metrics, errs := r.gather()
		if !tells(metrics) {
			return nil, texts(errs)
		}
		return fields(t, metrics, "who_users")["user_list"], texts(errs)
	}
	expect := func(want any, errs ...string) {
		t.Helper()
		got, failed := list()
		require.Equal(t, want, got)
		require.ElementsMatch(t, errs, failed)
	}
	expect(nil)
	r.write("run/utmp", records(t, bobsRow, layoutOf("amd64")))
	expect("bob")
	r.setSessions(aliceOnPty)
	expect("alice")
	r.bus.stop()
	expect(nil, "logind: bus /bus: no such file or directory")
	expect(nil)
	expect("bob")
	r.bus.listen()
	expect("alice")
	r.bus.set(func() {
		r.bus.answer = func(*dbus.Message) (any, bool) { return &dbus.Error{Name: "x.Broken", Body: []any{"broken"}}, true }
	})
	for i := range 5 { // It is there, and fails: the other would tell something else.
		var errs []string
		if i == 0 {
			errs = []string{"logind: ListSessions: broken (x.Broken)"}
		}
		expect(nil, errs...)
	}
	require.Equal(t, int64(7), r.p.self.errors)
	require.Equal(t, []string{
		"Nobody keeps account of logins on this host; looking again at each gather (logind: bus /bus: no such file or directory; " +
			"reading /run/utmp: no such file or directory)",
		"Sessions are those of utmp", "Sessions are those of logind", "Sessions are those of utmp", "Sessions are those of logind",
	}, r.logged(testutil.LevelInfo))
}

// What was asked for by name and is not there is an error, once; and a failure is never 0.
func TestMethodsThatFail(t *testing.T) {
	for method, want := range map[string]string{
		"logind": "logind: bus /bus: no such file or directory", "utmp": "reading /run/utmp: no such file or directory",
		"command": "option command: who: exit status 2",
	} {
		t.Run(method, func(t *testing.T) {
			r := newRig(t, func(p *WhoUsers) { p.Method = method })
			metrics, errs := r.gather()
			require.Equal(t, []string{want}, texts(errs))
			require.False(t, tells(metrics))
			require.Equal(t, map[string]any{"up": int64(0), "errors": int64(1), "gather_seconds": 0.}, fields(t, metrics, "who_users_self"))
			metrics, errs = r.gather()
			require.Empty(t, errs)
			require.Equal(t, int64(2), fields(t, metrics, "who_users_self")["errors"])
		})
	}
}

func TestCommandOfAuto(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) { p.Command = []string{"site-who", "-x"} })
	r.prints["site-who -x"] = "alice\nbob\nalice\n"
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, map[string]any{
		"users": int64(2), "sessions": int64(3), "remote_sessions": int64(0), "local_sessions": int64(3), "idle_sessions": int64(0),
	}, fields(t, metrics, "who_users"))
	require.Equal(t, "command", fields(t, metrics, "who_users_self")["method"])

	r.broken["site-who -x"] = &command.Error{Name: "site-who", Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
	_, errs = r.gather()
	require.Equal(t, []string{"option command: site-who: not found in PATH"}, texts(errs))
	_, errs = r.gather()
	require.Empty(t, errs)
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.NotContains(t, fields(t, metrics, "who_users_self"), "up")
	require.Contains(t, r.logged(testutil.LevelInfo)[1], "reading /run/utmp: no such file or directory; option command: site-who: not found in PATH")
}

// A wtmp that can't be read takes nothing with it but what only it knows.
func TestWtmpThatFails(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) { p.Method, p.History = "utmp", config.Duration(time.Minute) })
	r.write("run/utmp", records(t, bobsRow, layoutOf("amd64")))
	r.write("var/log/wtmp/x", nil)
	for i := range 3 {
		metrics, errs := r.gather()
		if i == 0 {
			require.Equal(t, []string{"reading /var/log/wtmp: not a regular file"}, texts(errs))
		} else {
			require.Empty(t, errs)
		}
		require.Equal(t, int64(1), fields(t, metrics, "who_users")["users_recent"])
		require.Equal(t, int64(i+1), fields(t, metrics, "who_users_self")["errors"])
		require.Equal(t, int64(1), fields(t, metrics, "who_users_self")["up"])
	}
}

// A question to NSS that fails makes the gather fail: who is a member is not known. A user or group that it does not know
// is no failure.
func TestGroups(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) {
		p.Method, p.Groups, p.ListUsers, p.History = "utmp", []string{"atlas", "cms"}, true, config.Duration(5*time.Minute)
	})
	utmp := records(t, bobsRow+strings.ReplaceAll(strings.ReplaceAll(bobsRow, "bob", "ghost"), "pts/1", "pts/2"), layoutOf("amd64"))
	r.write("run/utmp", utmp)
	metrics, errs := r.gather()
	require.Equal(t, []string{`option groups: nobody knows ["atlas" "cms"]`}, texts(errs))
	require.False(t, tells(metrics))

	r.now = r.now.Add(time.Hour)
	r.prints["getent group atlas"] = "atlas:*:7:\n"
	r.prints["getent passwd bob"] = "bob:*:1:7::/:\n"
	r.prints["getent initgroups ghost"] = "ghost\n"
	metrics, errs = r.gather()
	require.Empty(t, errs)
	got := fields(t, metrics, "who_users")
	require.Equal(t, "bob", got["user_list"])
	require.Equal(t, "bob", got["user_list_recent"])
	require.Equal(t, int64(1), got["sessions"])
	require.Equal(t, []string{`Option groups: nobody knows ["cms"]`}, r.logged(testutil.LevelWarn))

	r.now = r.now.Add(time.Hour)
	r.broken["getent group atlas"] = &command.Error{Name: "getent", Reason: command.ErrTimeout, Err: errors.New("still running after 5s")}
	metrics, errs = r.gather()
	require.Equal(t, []string{"option groups: getent: still running after 5s"}, texts(errs))
	require.False(t, tells(metrics))
	require.Equal(t, int64(0), fields(t, metrics, "who_users_self")["up"])
}

// logged gives what was logged at a level, without the paths of the test.
func (r *rig) logged(level byte) []string {
	said := make([]string, 0, 5)
	for _, m := range r.log.Messages() {
		if m.Level == level {
			said = append(said, strings.NewReplacer(r.root, "", r.bus.path, "/bus").Replace(m.Text))
		}
	}
	return said
}

func TestMaxUsers(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) {
		p.Method, p.ListUsers, p.MaxUsers, p.SessionRows = "utmp", true, 2, true
	})
	var text strings.Builder
	for i, user := range []string{"dave", "smith, jane", "alice", "bob"} {
		text.WriteString(dump(7, 100+i, fmt.Sprintf("pts/%d", i), user, "h", "2026-11-21T17:00:00"))
	}
	r.write("run/utmp", records(t, text.String(), layoutOf("amd64")))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	got := fields(t, metrics, "who_users")
	require.Equal(t, "alice,bob", got["user_list"])
	require.Equal(t, int64(2), got["users_unlisted"])
	require.Equal(t, int64(4), got["users"])
	r.p.MaxUsers = 4
	metrics, _ = r.gather()
	require.Equal(t, "alice,bob,dave,smith%2C jane", fields(t, metrics, "who_users")["user_list"])
	times := make(map[time.Time]bool)
	for _, m := range metrics {
		if m.Name() == "who_session" {
			times[m.Time()] = true
		}
	}
	require.Empty(t, times, "nothing has become of them")
}

// Sessions of the same second are points of their own, and a plugin that is started again emits the same ones.
func TestSessionPoints(t *testing.T) {
	points := func() []time.Time {
		r := newRig(t, func(p *WhoUsers) { p.Method, p.SessionRows = "utmp", true })
		var text strings.Builder
		for i := range 200 {
			text.WriteString(dump(7, 100+i, fmt.Sprintf("pts/%d", i), "alice", "h", "2026-11-21T17:00:00"))
		}
		r.write("run/utmp", records(t, text.String(), layoutOf("amd64")))
		metrics, errs := r.gather()
		require.Empty(t, errs)
		times := make(map[time.Time]bool)
		for _, m := range metrics {
			if m.Name() == "who_session" {
				require.Empty(t, m.Tags())
				times[m.Time()] = true
			}
		}
		return slices.SortedFunc(maps.Keys(times), time.Time.Compare)
	}
	first := points()
	require.Len(t, first, 200)
	require.Equal(t, first, points())
}

// Who was there between two gathers is in the history, if such users count.
func TestVisitors(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) {
		p.History, p.ListUsers, p.ExcludeUsers, p.Origins = config.Duration(time.Minute), true, []string{"svc*"}, []string{remote}
	})
	r.setSessions("[]")
	recent := func() any {
		t.Helper()
		metrics, errs := r.gather()
		require.Empty(t, errs)
		require.Equal(t, int64(0), fields(t, metrics, "who_users")["users"])
		return fields(t, metrics, "who_users")["user_list_recent"]
	}
	require.Empty(t, recent())
	r.bus.set(func() {
		r.bus.sessions = []map[string]dbus.Variant{person("c1", "svcmon"), person("c2", "carol", "Remote", false), person("c3", "alice")}
	})
	for _, id := range []string{"c1", "c2", "c3"} {
		r.bus.tell(id, sessionPath(id))
	}
	asked, ok := r.p.methods[0].source.(*logind)
	require.True(t, ok)
	require.Eventually(t, func() bool {
		asked.mu.Lock()
		defer asked.mu.Unlock()
		return len(asked.visitors) == 3
	}, time.Minute, time.Millisecond)
	r.bus.set(func() { r.bus.sessions = nil })
	require.Equal(t, "alice", recent())
	r.now = r.now.Add(time.Minute)
	require.Empty(t, recent())
}

func TestUsersAreNotShown(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) {
		p.Method, p.SessionRows, p.Users, p.History = "utmp", true, "none", config.Duration(time.Minute)
	})
	r.write("run/utmp", records(t, bobsRow, layoutOf("amd64")))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"tty": "pts/1", "from": "10.0.0.2", "remote": int64(1), "since": int64(1795280400)}, fields(t, metrics, "who_session"))
	require.Equal(t, map[string]any{
		"users": int64(1), "sessions": int64(1), "remote_sessions": int64(1), "local_sessions": int64(0), "users_recent": int64(1),
	}, fields(t, metrics, "who_users"))
}

func TestRefusedRecordsAreSaidOnce(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) { p.Method = "utmp" })
	r.write("run/utmp", append(records(t, bobsRow, layoutOf("amd64")), 1, 2, 3))
	for range 3 {
		metrics, errs := r.gather()
		require.Empty(t, errs)
		require.Equal(t, int64(1), fields(t, metrics, "who_users_self")["refused_records"])
		require.Equal(t, int64(1), fields(t, metrics, "who_users")["users"])
	}
	require.Equal(t, []string{"1 records of utmp can't be read and are left out"}, r.logged(testutil.LevelWarn))
}

func TestStopWhileAsking(t *testing.T) {
	r := newRig(t, func(p *WhoUsers) { p.Method = "logind" })
	r.setSessions(aliceOnPty)
	asked := make(chan struct{}, 10)
	r.bus.set(func() {
		r.bus.answer = func(m *dbus.Message) (any, bool) {
			if member, _ := m.Headers[dbus.FieldMember].Value().(string); member != "ListSessions" {
				return nil, false
			}
			asked <- struct{}{}
			return nil, true
		}
	})
	go func() {
		<-asked
		r.p.cancel()
	}()
	_, errs := r.gather()
	require.Empty(t, errs, "what failed failed by that")
}
