package who_users

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRows(t *testing.T) {
	for _, test := range []struct {
		line, host string
		kind       int
		from       string
		remote     bool
	}{
		{"pts/0", "10.0.0.1", login, "10.0.0.1", true},
		{"pts/0", "fe80::1%eth0", login, "fe80::1%eth0", true},
		{"pts/0", "pc.example.org", login, "pc.example.org", true},
		{"tty1", "", login, "", false},
		{"tty2", "tty2", login, "", false},
		{":0", ":0", login, "", false},
		{":0", "", login, "", false},
		{"tty7", ":0", login, "", false},
		{"pts/3", ":0", window, "", false},
		{"pts/3", ":1.0", window, "", false},
		{"pts/3", "localhost:10.0", login, "localhost:10.0", true},
		{"pts/4", "tmux(44).%0", pane, "tmux(44).%0", true},
		{"pts/6", ":pts/5:S.0", window, "", false},
		{"pts/6", "10.0.0.1:S.12", window, "10.0.0.1", true},
		{"pts/6", "10.0.0.1:S.", login, "10.0.0.1:S.", true},
		{"pts/7", "10.0.0.1 via mosh [77]", login, "10.0.0.1", true},
		{"pts/7", "mosh [77]", login, "", true},
	} {
		t.Run(test.line+" "+test.host, func(t *testing.T) {
			r := row{user: "alice", line: test.line, host: test.host}
			require.Equal(t, test.kind, r.kindOf())
			if test.kind == pane {
				return // Nobody asks where it comes from.
			}
			from, remote := r.origin()
			require.Equal(t, test.from, from)
			require.Equal(t, test.remote, remote)
		})
	}
}

func TestSessionsOf(t *testing.T) {
	rows := []row{
		{"alice", "pts/0", "10.0.0.1", 1, time.Time{}},
		{"alice", "pts/1", "10.0.0.1", 2, time.Time{}}, // Two logins are two.
		{"alice", "pts/2", "tmux(9).%0", 3, time.Time{}},
		{"alice", "pts/3", "10.0.0.1:S.0", 4, time.Time{}},
		{"bob", "pts/4", "tmux(8).%0", 5, time.Time{}},     // Left behind: bob has gone.
		{"carol", "pts/5", "10.0.0.7:S.0", 6, time.Time{}}, // Screen took the login's row away.
		{"carol", "pts/6", "10.0.0.7:S.1", 7, time.Time{}},
		{"carol", "pts/7", "10.0.0.8:S.2", 8, time.Time{}},
		{"dave", ":0", ":0", 9, time.Time{}},
		{"dave", "pts/8", ":0", 10, time.Time{}},
	}
	got := make([]string, 0, len(rows))
	for _, s := range sessionsOf(rows, func(string) time.Duration { return unknown }) {
		got = append(got, fmt.Sprintln(s.user, s.tty, s.from, s.remote))
	}
	require.Equal(t, []string{
		"alice pts/0 10.0.0.1 true\n", "alice pts/1 10.0.0.1 true\n", "carol pts/5 10.0.0.7 true\n", "carol pts/7 10.0.0.8 true\n", "dave :0  false\n",
	}, got)
}

func TestCount(t *testing.T) {
	for _, test := range []struct {
		name     string
		sessions []session
		want     map[string]any
	}{
		{"nobody", nil, map[string]any{"users": int64(0), "sessions": int64(0), "remote_sessions": int64(0), "local_sessions": int64(0), "idle_sessions": int64(0)}},
		{"all kinds", []session{
			{user: "a", tty: "pts/0", remote: true, idle: time.Minute}, {user: "a", tty: "pts/1", remote: true, idle: 10 * time.Minute},
			{user: "b", tty: "tty1", idle: unknown}, {user: "b", remote: true, idle: unknown},
		}, map[string]any{"users": int64(2), "sessions": int64(4), "remote_sessions": int64(3), "local_sessions": int64(1), "idle_sessions": int64(1)}},
		{"no terminal can be seen", []session{{user: "a", tty: "pts/0", remote: true, idle: unknown}},
			map[string]any{"users": int64(1), "sessions": int64(1), "remote_sessions": int64(1), "local_sessions": int64(0)}},
		{"no terminal", []session{{user: "a", remote: true, idle: unknown}},
			map[string]any{"users": int64(1), "sessions": int64(1), "remote_sessions": int64(1), "local_sessions": int64(0), "idle_sessions": int64(0)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := count(test.sessions, 10*time.Minute)
			require.Equal(t, test.want, c.fields())
		})
	}
}

func TestMoment(t *testing.T) {
	since := time.Unix(1795282536, 205419000)
	a := session{id: "pts/0 17 1", user: "alice"}
	b := session{id: "pts/1 18 1", user: "alice"}
	require.Equal(t, since.Unix(), a.moment(since).Unix())
	require.Equal(t, a.moment(since), a.moment(since.Truncate(time.Second)), "a repeat is the same point")
	require.NotEqual(t, a.moment(since), b.moment(since))
}

// A session is told of when something becomes of it, and not at each gather.
func TestEvents(t *testing.T) {
	start := time.Unix(1795282500, 0)
	s := session{id: "1", user: "alice", since: start, tty: "pts/0"}
	other := session{id: "2", user: "bob", idle: unknown}
	var v events
	got := make([]string, 0, 10)
	for i, step := range []struct {
		after  time.Duration
		method string
		idle   time.Duration
		there  []*session
	}{
		{0, "utmp", 0, []*session{&s}},
		{10 * time.Second, "utmp", 10 * time.Second, []*session{&s, &other}},
		{20 * time.Second, "utmp", time.Minute, []*session{&s, &other}},    // It has gone idle.
		{30 * time.Second, "utmp", 0, []*session{&s, &other}},              // It has come back.
		{40 * time.Second, "utmp", 5 * time.Second, []*session{&s}},        // bob has left.
		{5 * time.Minute, "utmp", 5 * time.Second, []*session{&s, &other}}, // It is time again; bob is back.
		{310 * time.Second, "logind", 0, []*session{&s}},                   // Another method has other sessions: none has ended.
		{300 * time.Second, "logind", 0, []*session{&s}},                   // The clock was set back.
		{320 * time.Second, "logind", 0, nil},
	} {
		sessions := make([]session, 0, 2)
		for _, p := range step.there {
			one := *p
			if p == &s {
				one.idle = step.idle
			}
			sessions = append(sessions, one)
		}
		for _, e := range v.due(step.method, sessions, start.Add(step.after), time.Minute, 4*time.Minute) {
			got = append(got, fmt.Sprintln(i, e.session.user, e.since().Sub(start), e.idle, !e.ended.IsZero()))
		}
	}
	require.Equal(t, []string{
		"0 alice 0s false false\n", "1 bob 10s false false\n", "2 alice 0s true false\n", "3 alice 0s false false\n", "4 bob 10s false true\n",
		"5 alice 0s false false\n", "5 bob 5m0s false false\n", "6 alice 0s false false\n", "7 alice 0s false false\n", "8 alice 0s false true\n",
	}, got)
	require.Empty(t, v.known)
}
