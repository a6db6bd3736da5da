package who_users

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// A real logind tells of sessions without a terminal, too; what is no user's own does not count; and a bus that hangs, or
// is gone for a while, costs the time that it takes and nothing else.
func TestLogind(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{Logind: true})
	alice := s.Login("alice", true)
	bob := s.Login("bob", false)
	end := s.CreateSessions(
		harness.LogindSession{User: "carol", Service: "gdm-password", Type: "x11", Class: "user"},
		harness.LogindSession{User: "carol", Service: "gdm-launch-environment", Type: "x11", Class: "greeter"},
		harness.LogindSession{User: "alice", Service: "cron", Type: "unspecified", Class: "background"},
	)
	s.watch("timeout = \"2s\"\nlist_users = true\nsession_rows = true\nrefresh = \"1s\"")
	all := map[string]any{
		"users": 3, "sessions": 3, "remote_sessions": 2, "local_sessions": 1, "idle_sessions": 0, "user_list": "alice,bob,carol",
	}
	s.Until("who_users", nil, all)
	s.Until("who_users_self", nil, harness.Row{"up": 1, "method": "logind", "errors": 0})
	s.Until("who_users", nil, all)
	for user, want := range map[string]map[string]any{
		"alice": {"from": "127.0.0.1", "service": "sshd"}, "bob": {"tty": nil, "from": "127.0.0.1", "service": "sshd"},
		"carol": {"tty": nil, "from": nil, "service": "gdm-password"},
	} {
		s.rows(user, want)
	}
	require.NotEmpty(t, s.DB.Query(database, `SELECT * FROM "who_session" WHERE "user" = 'alice' AND "tty" =~ /^pts.[0-9]+$/`))

	end()
	bob.Logout()
	s.Until("who_users", nil, harness.Row{"users": 1, "sessions": 1, "user_list": "alice"})
	dave := s.Login("carol", true)
	s.Until("who_users", nil, harness.Row{"users": 2, "sessions": 2})
	dave.Kill() // Its pipe closes, and logind knows.
	s.Until("who_users", nil, harness.Row{"users": 1, "sessions": 1, "user_list": "alice"})

	s.Bus.Pause()
	s.Until("who_users_self", nil, harness.Row{"up": 0, "method": nil})
	s.none()
	s.Bus.Continue()
	s.Until("who_users", nil, harness.Row{"users": 1})
	s.SaidOnce("E", "logind: no answer after 2s")

	// utmp takes over when there is no logind, and knows of those with a terminal.
	bob = s.Login("bob", false)
	s.Until("who_users", nil, harness.Row{"users": 2})
	s.Logind.Kill()
	s.Until("who_users_self", nil, harness.Row{"up": 1, "method": "utmp"})
	const noOwner = "logind: org.freedesktop.login1 has no owner on the bus"
	s.SaidOnce("E", noOwner)
	s.Until("who_users", nil, harness.Row{"users": 1, "user_list": "alice"})
	s.Logind.Start()
	s.Until("who_users_self", nil, harness.Row{"up": 1, "method": "logind"})
	s.Until("who_users", nil, harness.Row{"users": 2, "user_list": "alice,bob"})
	bob.Logout()
	alice.Logout()
	s.Until("who_users", nil, harness.Row{"users": 0, "user_list": ""})

	told := s.Said("E")
	require.Equal(t, []string{"logind: no answer after 2s", noOwner}, told)

	// The bus itself is started again.
	s.Logind.Kill()
	s.Bus.Kill()
	s.Until("who_users_self", nil, harness.Row{"up": 1, "method": "utmp"})
	s.SaidOnce("E", "logind: bus /run/dbus/system_bus_socket: connection refused")
	s.Bus.Start()
	s.Logind.Start()
	s.Until("who_users_self", nil, harness.Row{"up": 1, "method": "logind"})
	// Between them there was no owner again, which a gather may have seen.
	require.Subset(t, append(told, "logind: bus /run/dbus/system_bus_socket: connection refused", noOwner), s.Said("E"))
	require.LessOrEqual(t, len(s.Said("E")), 4)
	require.Len(t, s.Telegraf.Lines("E! "), len(s.Said("E")))
	s.Telegraf.Stop()
}

// Somebody whose session is shorter than the interval was there all the same: logind tells of it, and sshd writes those with
// a terminal into wtmp.
func TestVisitors(t *testing.T) {
	t.Parallel()
	n := harness.StartLoginNode(t, harness.LoginOptions{Logind: true})
	early := n.Login("alice", true)
	early.Logout()
	p := startPlugin(t, n, "list_users = true\nhistory = \"1h\"\n")
	gather := func(want string) {
		t.Helper()
		harness.Eventually(t, harness.Patience, func() error {
			if got := p.gather(); !strings.Contains(got, "users=0i") || !strings.Contains(got, want) {
				return errors.New(got)
			}
			return nil
		})
	}
	gather(`user_list_recent="alice"`)
	n.Login("bob", false).Logout()
	gather(`user_list_recent="alice,bob"`)
	n.Login("carol", true).Logout()
	gather(`user_list_recent="alice,bob,carol"`)
}

// rows waits until the latest row of a user's session has these fields.
func (s *site) rows(user string, want map[string]any) {
	s.t.Helper()
	harness.Eventually(s.t, harness.Patience, func() error {
		series := s.DB.Query(database, `SELECT * FROM "who_session" WHERE "user" = '`+user+`'`)
		if len(series) == 0 {
			return fmt.Errorf("no row of %s", user)
		}
		row := series[0].Rows[len(series[0].Rows)-1]
		for field, value := range want {
			if row[field] != value {
				return fmt.Errorf("%s of %s is %v, not %v: %v", field, user, row[field], value, row)
			}
		}
		return nil
	})
}
