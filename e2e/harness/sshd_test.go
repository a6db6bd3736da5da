package harness

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What sshd writes down of sessions and what logind knows of them is that of real ones.
func TestLoginNode(t *testing.T) {
	begin := time.Now()
	n := StartLoginNode(t, LoginOptions{Logind: true})
	t.Logf("up after %s", time.Since(begin))
	has := func(user string) bool {
		t.Helper()
		list, err := n.Busctl("call", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "ListSessions")
		require.NoError(t, err)
		return strings.Contains(list, `"`+user+`"`)
	}
	gone := func(user string) {
		t.Helper()
		Eventually(t, time.Minute, func() error {
			if has(user) {
				return os.ErrExist
			}
			return nil
		})
	}
	utmp := func() string {
		t.Helper()
		content, err := os.ReadFile(n.Path("utmp"))
		require.NoError(t, err)
		return string(content)
	}
	alice := n.Login("alice", true)
	bob := n.Login("bob", false)
	end := n.CreateSessions(LogindSession{User: "carol", Service: "gdm-password", Type: "x11", Class: "user"})
	for _, user := range []string{"alice", "bob", "carol"} {
		require.True(t, has(user), user)
	}
	require.Contains(t, utmp(), "alice\x00")
	require.NotContains(t, utmp(), "bob\x00", "a session without a terminal is not in utmp")
	end()
	gone("carol")
	bob.Logout()
	gone("bob")
	alice.Kill()
	gone("alice")
	require.Contains(t, utmp(), "alice\x00", "nobody tidies up after one that was killed")
}
