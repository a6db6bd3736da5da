package who_users

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

func newLogind(t testing.TB, b *bus) *logind {
	t.Helper()
	l := &logind{sockets: []string{b.path}, timeout: 30 * time.Second, host: terminals{t.TempDir()}}
	t.Cleanup(l.close)
	return l
}

func TestLogind(t *testing.T) {
	b := newBus(t)
	since := uint64(1795282536157017)
	now := time.Unix(1795282600, 0)
	micros := func(before time.Duration) uint64 { return uint64(now.Add(-before).UnixMicro()) }
	b.sessions = []map[string]dbus.Variant{
		person("c9", "alice"),
		person("c1", "bob", "TTY", ""), // scp, or an editor's remote side
		person("c2", "carol", "Remote", false, "RemoteHost", "", "TTY", "/dev/tty1", "Service", "login", "IdleHint", true, "IdleSinceHint", micros(time.Hour)),
		person("c3", "dave", "Remote", false, "RemoteHost", "", "TTY", "tty2", "Service", "gdm-password", "Type", "x11", "State", "online"),
		person("c4", "erin", "Remote", false, "TTY", "", "Type", "wayland", "IdleHint", true, "IdleSinceHint", micros(time.Minute)),
		person("c5", "gdm", "Class", "greeter"),
		person("c6", "root", "Class", "manager"),
		person("c7", "cron", "Class", "background"),
		person("c8", "alice", "State", "closing"),
		person("ca", "alice", "State", "opening"),
		person("cb", "root", "Class", "user-early", "TTY", "", "RemoteHost", "\xf0h\n"[1:]),
		person("cc", "-x"),
		person("cd", ""),
		person("ce", "frank"),
		person("cf", "grace", "IdleHint", true),
		{"Id": dbus.MakeVariant("cg"), "Name": dbus.MakeVariant(7), "Class": dbus.MakeVariant([]string{"user"})},
	}
	b.gone["ce"] = true
	a, err := newLogind(t, b).list(t.Context(), now)
	require.NoError(t, err)
	begin := time.UnixMicro(int64(since))
	require.Equal(t, []session{
		{id: "logind c1", user: "bob", from: "10.0.0.1", service: "sshd", remote: true, since: begin, idle: unknown},
		{id: "logind c2", user: "carol", tty: "tty1", service: "login", since: begin, idle: time.Hour},
		{id: "logind c3", user: "dave", tty: "tty2", service: "gdm-password", since: begin, idle: 0},
		{id: "logind c4", user: "erin", service: "sshd", since: begin, idle: time.Minute},
		{id: "logind c9", user: "alice", tty: "pts/0", from: "10.0.0.1", service: "sshd", remote: true, since: begin, idle: 0},
		{id: "logind cb", user: "root", from: "h\ufffd", service: "sshd", remote: true, since: begin, idle: unknown},
		{id: "logind cf", user: "grace", tty: "pts/0", from: "10.0.0.1", service: "sshd", remote: true, since: begin, idle: unknown},
	}, a.sessions)
	require.Zero(t, a.stale+a.refused)
}

// A bus that is started again is asked again, and the old connection is not in the way.
func TestLogindReconnects(t *testing.T) {
	b := newBus(t)
	b.sessions = append(b.sessions, person("c1", "alice"))
	l := newLogind(t, b)
	one := func() {
		t.Helper()
		a, err := l.list(t.Context(), time.Now())
		require.NoError(t, err)
		require.Len(t, a.sessions, 1)
	}
	one()
	one()
	b.set(func() { require.Equal(t, 1, b.connects, "one connection serves") })
	b.hangUp()
	one()
	b.set(func() { require.Equal(t, 2, b.connects) })
	b.stop()
	_, err := l.list(t.Context(), time.Now())
	require.EqualError(t, err, "logind: bus "+b.path+": no such file or directory")
	require.True(t, isAbsent(err))
	b.listen()
	one()
}

// Wherever the bus hangs, a gather ends.
func TestLogindHangs(t *testing.T) {
	for _, where := range []string{"connect", "auth", "Hello", "AddMatch", "ListSessions", "GetAll"} {
		t.Run(where, func(t *testing.T) {
			b := newBus(t)
			b.sessions = append(b.sessions, person("c1", "alice"), person("c2", "bob"))
			b.set(func() {
				b.silent = where
				b.answer = func(m *dbus.Message) (any, bool) {
					member, _ := m.Headers[dbus.FieldMember].Value().(string)
					return nil, member == where
				}
			})
			l := newLogind(t, b)
			l.timeout, l.follow = 50*time.Millisecond, true
			for range 2 {
				_, err := l.list(t.Context(), time.Now())
				require.EqualError(t, err, "logind: no answer after 50ms")
				require.False(t, isAbsent(err))
			}
			b.set(func() { b.silent, b.answer = "", nil })
			l.timeout = 30 * time.Second
			a, err := l.list(t.Context(), time.Now())
			require.NoError(t, err)
			require.Len(t, a.sessions, 2)
		})
	}
}

func TestLogindRefuses(t *testing.T) {
	b := newBus(t)
	b.sessions = append(b.sessions, person("c1", "alice"))
	l := newLogind(t, b)
	for _, test := range []struct {
		member string
		reply  any
		want   string
		absent bool
	}{
		{"ListSessions", &dbus.Error{Name: "org.freedesktop.DBus.Error.ServiceUnknown", Body: []any{"The name is not activatable"}},
			"logind: org.freedesktop.login1 has no owner on the bus", true},
		{"ListSessions", &dbus.Error{Name: "org.freedesktop.DBus.Error.NameHasNoOwner"}, "logind: org.freedesktop.login1 has no owner on the bus", true},
		{"ListSessions", &dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"no"}},
			"logind: ListSessions: no (org.freedesktop.DBus.Error.AccessDenied)", false},
		{"ListSessions", "sessions", "logind: ListSessions: dbus.Store: type mismatch: cannot convert string to []who_users.listing", false},
		{"GetAll", &dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"no"}},
			`logind: session "c1": no (org.freedesktop.DBus.Error.AccessDenied)`, false},
	} {
		t.Run(test.want, func(t *testing.T) {
			b.set(func() {
				b.answer = func(m *dbus.Message) (any, bool) {
					member, _ := m.Headers[dbus.FieldMember].Value().(string)
					return test.reply, member == test.member
				}
			})
			_, err := l.list(t.Context(), time.Now())
			require.EqualError(t, err, test.want)
			require.Equal(t, test.absent, isAbsent(err))
		})
	}
}

// However many sessions there are, no more questions wait than a bus allows.
func TestLogindAsksInParts(t *testing.T) {
	b := newBus(t)
	for i := range 1000 {
		b.sessions = append(b.sessions, person(fmt.Sprintf("c%04d", i), fmt.Sprintf("user%d", i%700)))
	}
	l := newLogind(t, b)
	a, err := l.list(t.Context(), time.Now())
	require.NoError(t, err)
	require.Len(t, a.sessions, 1000)
	for i, s := range a.sessions {
		require.Equal(t, fmt.Sprintf("logind c%04d", i), s.id)
	}
	b.set(func() {
		require.LessOrEqual(t, b.most, outstanding)
		require.Equal(t, 1002, b.asked)
	})
}

func TestLogindStops(t *testing.T) {
	b := newBus(t)
	asked := make(chan struct{}, 10)
	b.answer = func(m *dbus.Message) (any, bool) {
		if member, _ := m.Headers[dbus.FieldMember].Value().(string); member != "ListSessions" {
			return nil, false
		}
		asked <- struct{}{}
		return nil, true
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := newLogind(t, b).list(ctx, time.Now())
	require.ErrorIs(t, err, context.Canceled)
}

// Who came and went between two gathers is known of, if logind tells of it and they are people.
func TestLogindVisitors(t *testing.T) {
	b := newBus(t)
	l := newLogind(t, b)
	l.follow = true
	list := func() map[visitor]bool {
		t.Helper()
		a, err := l.list(t.Context(), time.Now())
		require.NoError(t, err)
		require.Empty(t, a.sessions)
		return a.visitors
	}
	require.Empty(t, list())
	b.set(func() {
		require.Equal(t, 1, b.matches)
		b.sessions = append(b.sessions, person("c1", "alice", "State", "opening"), person("c2", "gdm", "Class", "greeter"),
			person("c3", "bob", "Remote", false, "State", "closing"))
	})
	begun := []string{"c1", "c2", "c9", "c3"}
	b.tell("nonsense")
	b.tell(uint32(7), dbus.ObjectPath("/"))
	for _, id := range begun {
		b.tell(id, sessionPath(id))
	}
	require.Eventually(t, func() bool { // They are asked for one after the other.
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.visitors[visitor{"bob", false}]
	}, time.Minute, time.Millisecond)
	require.Equal(t, map[visitor]bool{{"alice", true}: true, {"bob", false}: true}, list())
	require.Empty(t, list())

	b.hangUp()
	require.Empty(t, list())
	b.set(func() { require.Equal(t, 2, b.matches, "the new connection is told, too") })

	// A bus that refuses this is good enough for the list.
	refusing := newBus(t)
	refusing.answer = func(m *dbus.Message) (any, bool) {
		member, _ := m.Headers[dbus.FieldMember].Value().(string)
		return &dbus.Error{Name: "org.freedesktop.DBus.Error.LimitsExceeded"}, member == "AddMatch"
	}
	l = newLogind(t, refusing)
	l.follow = true
	require.Empty(t, list())
	require.NotNil(t, l.conn)
}

func TestBusSockets(t *testing.T) {
	for address, want := range map[string][]string{
		"unix:path=/run/dbus/system_bus_socket":                       {"/run/dbus/system_bus_socket"},
		"unix:path=/run/a%20b,guid=00;unix:abstract=/tmp/x;":          {"/run/a b", "@/tmp/x"},
		"unix:guid=1,path=/run/dbus/system_bus_socket;unix:path=/var": {"/run/dbus/system_bus_socket", "/var"},
	} {
		got, err := busSockets(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got)
	}
	for address, want := range map[string]string{
		"":                     "empty",
		";":                    "empty",
		"/run/dbus/socket":     `"/run/dbus/socket" is no address like unix:path=/run/dbus/system_bus_socket`,
		"unix:path=":           `"unix:path=" is no address like unix:path=/run/dbus/system_bus_socket`,
		"unix:abstract=":       `"unix:abstract=" is no address like unix:path=/run/dbus/system_bus_socket`,
		"tcp:host=h,path=/run": `"tcp:host=h,path=/run" is no address like unix:path=/run/dbus/system_bus_socket`,
		"unix:path=/a%zz":      `"unix:path=/a%zz": invalid URL escape "%zz"`,
	} {
		_, err := busSockets(address)
		require.EqualError(t, err, want, address)
	}
}

func FuzzBusSockets(f *testing.F) {
	f.Add("unix:path=/run/a%20b,guid=00;unix:abstract=/tmp/x;")
	f.Fuzz(func(t *testing.T, address string) {
		sockets, err := busSockets(address)
		require.Equal(t, err == nil, len(sockets) > 0)
		for _, s := range sockets {
			require.NotEmpty(t, s)
			again, err := busSockets("unix:path=" + dbus.EscapeBusAddressValue(s))
			require.NoError(t, err)
			require.Equal(t, []string{s}, again)
		}
	})
}

func TestLogindWithoutBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l := &logind{sockets: []string{"/nonexistent/bus", path}, timeout: time.Second}
	_, err := l.list(t.Context(), time.Now())
	require.EqualError(t, err, "logind: bus "+path+": no such file or directory")
	require.True(t, isAbsent(err))
	require.True(t, isAbsent(fmt.Errorf("x: %w", errors.Join(err))))
}
