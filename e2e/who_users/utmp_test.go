package who_users

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// What sshd, tmux and screen write down becomes the users and sessions that are there; one that was killed is left out.
func TestUtmp(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{})
	early := s.Login("bob", true)
	early.Logout() // Before the plugin runs.
	alice := s.Login("alice", true, "tmux new-session -d 'sleep 100000'; exec sleep 100000")
	carol := s.Login("carol", true)
	s.Login("carol", true, "mkdir -m 700 /tmp/carol; TERM=vt100 SCREENDIR=/tmp/carol exec screen sh -c 'exec sleep 100000'")
	s.Login("bob", false)
	s.watch(`
method = "utmp"
list_users = true
history = "1h"
session_rows = true
refresh = "1s"
`, `
method = "utmp"
list_users = true
groups = ["atlas", "nosuchgroup"]
exclude_users = ["root"]
[inputs.who_users.tags]
  view = "atlas"
`)
	harness.Eventually(t, harness.Patience, func() error { // tmux and screen are there in their time.
		utmp, err := os.ReadFile(s.Path("utmp"))
		if err == nil && (!bytes.Contains(utmp, []byte("tmux(")) || !bytes.Contains(utmp, []byte(":S.0"))) {
			err = os.ErrNotExist
		}
		return err
	})
	site := map[string]string{"view": ""}
	s.Until("who_users", site, harness.Row{
		"users": 2, "sessions": 3, "remote_sessions": 3, "local_sessions": 0, "idle_sessions": 0, "user_list": "alice,carol", "users_unlisted": 0,
		"users_recent": 3, "user_list_recent": "alice,bob,carol",
	})
	s.Until("who_users", map[string]string{"view": "atlas"}, harness.Row{"users": 1, "sessions": 2, "user_list": "carol"})
	s.Until("who_users_self", site, harness.Row{"up": 1, "method": "utmp", "errors": 0, "stale_rows": 0, "refused_records": 0})
	s.SaidOnce("W", `Option groups: nobody knows ["nosuchgroup"]`)

	carol.Kill()
	s.Until("who_users", site, harness.Row{"users": 2, "sessions": 2, "user_list": "alice,carol"})
	s.Until("who_users_self", site, harness.Row{"stale_rows": 1})
	alice.Logout()
	s.Until("who_users", site, harness.Row{"users": 1, "sessions": 1, "user_list": "carol", "user_list_recent": "alice,bob,carol"})

	// Each session is one point, however often it was emitted.
	harness.Eventually(t, harness.Patience, func() error {
		rows := s.DB.Query(database, `SELECT * FROM "who_session"`)
		if len(rows) != 1 || len(rows[0].Rows) != 3 {
			return fmt.Errorf("not three points: %v", rows)
		}
		ended := 0
		for _, row := range rows[0].Rows {
			require.Equal(t, "127.0.0.1", row["from"])
			require.Equal(t, time.Unix(0, row.Int64(t, "time")).Unix(), row.Int64(t, "since"))
			if row["ended"] != nil {
				ended++
				require.GreaterOrEqual(t, row.Int64(t, "ended"), row.Int64(t, "since"))
			}
		}
		if ended != 2 {
			return fmt.Errorf("%d of 2 have ended: %v", ended, rows)
		}
		return nil
	})
	require.Empty(t, s.Telegraf.Lines("E! "))
	s.Telegraf.Stop()
}

// login makes a record as utmp(5) has it on amd64.
func login(pid int, line, user, host string) []byte {
	b := make([]byte, 384)
	b[0] = 7
	binary.LittleEndian.PutUint32(b[4:], uint32(pid))
	copy(b[8:40], line)
	copy(b[44:76], user)
	copy(b[76:332], host)
	binary.LittleEndian.PutUint32(b[340:], uint32(time.Now().Unix()))
	return b
}

// Whatever somebody writes into utmp, or makes of it, the plugin lives, tells what is true, and comes back.
func TestHostileUtmp(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{})
	write := func(b ...[]byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(s.Path("new"), bytes.Join(b, nil), 0o600))
		require.NoError(t, os.Rename(s.Path("new"), s.Path("utmp")))
	}
	ff := bytes.Repeat([]byte{0xff}, 384)
	write(
		login(1, "tty1", "smith, jane", ""), login(1, "tty2", `HPC\100%`, ""), login(1, "../../etc/passwd", "bob", "evil host,x=1 y=2\n"),
		login(1, "tty3", "a\nwho_users users=99i", ""), login(1, "tty4", "-x", ""), login(-1, "tty5", "eve", ""), login(0, "tty6", "eve", ""),
		login(1<<30, "tty7", "gone", ""), ff, make([]byte, 384), []byte("half a record"),
	)
	s.watch("method = \"utmp\"\nlist_users = true\nsession_rows = true")
	s.Until("who_users", nil, harness.Row{"users": 3, "sessions": 3, "remote_sessions": 1, "local_sessions": 2, "user_list": `HPC\100%25,bob,smith%2C jane`})
	s.Until("who_users_self", nil, harness.Row{"up": 1, "stale_rows": 1, "refused_records": 6})
	s.SaidOnce("W", "6 records of utmp can't be read and are left out")

	write(bytes.Repeat(ff, 3000))
	s.Until("who_users_self", nil, harness.Row{"up": 0, "method": nil})
	s.none()
	s.SaidOnce("E", "reading /run/utmp: none of 3000 records can be read: is it of this kind of machine?")

	require.NoError(t, os.Remove(s.Path("utmp")))
	s.Until("who_users_self", nil, harness.Row{"up": 0, "method": nil})
	s.none()
	require.NoError(t, syscall.Mkfifo(s.Path("utmp"), 0o600))
	s.SaidOnce("E", "reading /run/utmp: not a regular file")
	s.SaidOnce("E", "reading /run/utmp: no such file or directory")

	write()
	s.Until("who_users", nil, harness.Row{"users": 0})
	s.Login("alice", true)
	s.Until("who_users", nil, harness.Row{"users": 1, "user_list": "alice"})
	require.Len(t, s.Telegraf.Lines("E! "), 3)
	s.Telegraf.Stop()
}

// Where nobody keeps account of logins, the plugin says so once, and tells nothing. Once somebody does, it does.
func TestNoUtmp(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{WithoutUtmp: true})
	s.Login("alice", true)
	s.watch(`list_users = true`)
	s.Until("who_users_self", nil, harness.Row{"errors": 0, "up": nil, "method": nil})
	s.none()
	s.SaidOnce("I", "Nobody keeps account of logins on this host; looking again at each gather (logind: bus /run/dbus/system_bus_socket: "+
		"no such file or directory; reading /run/utmp: no such file or directory)")
	require.NoError(t, os.WriteFile(s.Path("utmp"), nil, 0o600))
	s.Login("bob", true)
	s.Until("who_users", nil, harness.Row{"users": 1, "user_list": "bob"})
	s.SaidOnce("I", "Sessions are those of utmp")
	require.Empty(t, s.Telegraf.Lines("E! "))
	require.Empty(t, s.Telegraf.Lines("W! [inputs.execd]"))
	s.Telegraf.Stop()
}

// Users that nobody knows are members of nothing, and take nobody with them.
func TestGroups(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{})
	require.NoError(t, os.WriteFile(s.Path("utmp"), bytes.Join([][]byte{
		login(1, "tty1", "smith, jane", ""), login(1, "tty2", "carol", "192.0.2.1"), login(1, "tty3", "alice", "192.0.2.2"),
		login(1, "tty4", "ghost", ""), login(1, "tty5", "svc-backup", ""), login(1, "tty6", "nobody", ""),
	}, nil), 0o600))
	s.watch("groups = [\"atlas\"]\nlist_users = true", "groups = [\"atlas\", \"users\"]\nlist_users = true\n[inputs.who_users.tags]\n  of = \"both\"",
		"exclude_users = [\"svc-*\", \"nobody\"]\norigins = [\"local\"]\nlist_users = true\n[inputs.who_users.tags]\n  of = \"site\"")
	s.Until("who_users", map[string]string{"of": ""}, harness.Row{"users": 1, "user_list": "carol"})
	s.Until("who_users", map[string]string{"of": "both"}, harness.Row{"users": 2, "user_list": "alice,carol"})
	s.Until("who_users", map[string]string{"of": "site"}, harness.Row{"users": 2, "user_list": "ghost,smith%2C jane"})
	require.Empty(t, s.Telegraf.Lines("E! "))
	require.Empty(t, s.Telegraf.Lines("W! [inputs.execd]"))
	s.Telegraf.Stop()
}

// From a container, the host is where its root folder is mounted: its utmp, its bus and its terminals.
func TestHostRoot(t *testing.T) {
	t.Parallel()
	n := harness.StartLoginNode(t, harness.LoginOptions{Logind: true})
	n.Login("alice", true)
	n.Login("bob", false)
	n.Login("carol", true, "tmux new-session -d 'sleep 100000'; exec sleep 100000")
	bin := harness.Build(t, "./cmd/who_users")
	for _, test := range []struct{ options, want string }{
		{"groups = [\"users\"]", `"alice,bob,carol"`},
		{"method = \"utmp\"\ntrust_utmp = true\nhistory = \"1h\"", `"alice,carol"`},
	} {
		path := n.Path("outside.conf")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "[[inputs.who_users]]\nlist_users = true\nhost_root = %q\n%s\n", n.Root(), test.options), 0o600))
		output, err := exec.Command(filepath.Join(bin, "who_users"), "--config", path, "--once").Output()
		require.NoError(t, err)
		require.Contains(t, string(output), "user_list="+test.want)
		require.Contains(t, string(output), "idle_sessions=0i")
		require.Contains(t, string(output), "up=1i")
	}
}

// A command of the site's takes the place of both, and who(1) finds the same sessions as we do.
func TestCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.LoginOptions{})
	s.Login("alice", true)
	s.Login("alice", true, "tmux new-session -d 'sleep 100000'; exec sleep 100000")
	carol := s.Login("carol", true)
	s.watch("method = \"command\"\nlist_users = true\nsession_rows = true\n[inputs.who_users.tags]\n  of = \"who\"", "method = \"utmp\"\nlist_users = true")
	for _, want := range []map[string]any{
		{"users": 2, "sessions": 3, "remote_sessions": 3, "user_list": "alice,carol", "idle_sessions": 0},
		{"users": 1, "sessions": 2, "remote_sessions": 2, "user_list": "alice", "idle_sessions": 0},
	} {
		s.Until("who_users", map[string]string{"of": "who"}, want)
		s.Until("who_users", map[string]string{"of": ""}, want)
		if want["users"] == 2 {
			carol.Kill() // who(1) looks at processes, too.
		}
	}
	require.Empty(t, s.Telegraf.Lines("E! "))
	s.Telegraf.Stop()
}
