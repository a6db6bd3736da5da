package who_users

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newHost makes a root folder with files in it.
func newHost(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

func newUtmp(root string) *utmp {
	return &utmp{
		path: filepath.Join(root, "run/utmp"), layout: layoutOf("amd64"), host: terminals{root},
		alive: func(pid int32) bool { return pid < 1000 },
	}
}

func TestUtmp(t *testing.T) {
	const when = "2026-11-21T17:35:55"
	text := dump(7, 1, "pts/0", "alice", "10.0.0.1", when) + dump(7, 2, "pts/1", "bob", "10.0.0.2", when) +
		dump(7, 1003, "pts/2", "carol", "10.0.0.3", when) + dump(7, 4, "tty1", "dave", "", when) + dump(9, 4, "x", "", "", when)
	users := func(a answer) (names []string) {
		for _, s := range a.sessions {
			names = append(names, s.user)
		}
		return names
	}
	now := at(t, when+"Z").Add(time.Hour)
	files := map[string]string{"run/utmp": string(records(t, text, layoutOf("amd64"))), "dev/pts/0": "", "dev/pts/2": "", "dev/tty1": ""}
	u := newUtmp(newHost(t, files))
	a, err := u.list(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "bob", "dave"}, users(a), "carol's process is gone")
	require.Equal(t, int64(1), a.stale)
	require.Zero(t, a.refused)
	require.Equal(t, time.Duration(unknown), a.sessions[1].idle)

	files["dev/pts/ptmx"] = ""
	u = newUtmp(newHost(t, files))
	a, err = u.list(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "dave"}, users(a), "bob's terminal is gone")
	require.Equal(t, int64(2), a.stale)

	u.trust = true
	a, err = u.list(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "bob", "carol", "dave"}, users(a))
	require.Zero(t, a.stale)
}

func TestUtmpFails(t *testing.T) {
	root := newHost(t, map[string]string{"run/x": ""})
	u := newUtmp(root)
	_, err := u.list(t.Context(), time.Now())
	require.EqualError(t, err, "reading "+u.path+": no such file or directory")
	require.True(t, isAbsent(err))

	require.NoError(t, syscall.Mkfifo(u.path, 0o600))
	_, err = u.list(t.Context(), time.Now())
	require.EqualError(t, err, "reading "+u.path+": not a regular file")
	require.False(t, isAbsent(err))

	require.NoError(t, os.Remove(u.path))
	require.NoError(t, os.WriteFile(u.path, nil, 0o600))
	require.NoError(t, os.Truncate(u.path, maxUtmp+1))
	_, err = u.list(t.Context(), time.Now())
	require.EqualError(t, err, "reading "+u.path+": longer than 16777216 bytes")

	require.NoError(t, os.Truncate(u.path, 0))
	a, err := u.list(t.Context(), time.Now())
	require.NoError(t, err)
	require.Empty(t, a.sessions)

	// What can't be read is not nobody.
	require.NoError(t, os.WriteFile(u.path, bytes.Repeat([]byte{7, 0, 0, 0}, 96), 0o600))
	_, err = u.list(t.Context(), time.Now())
	require.EqualError(t, err, "reading "+u.path+": none of 1 records can be read: is it of this kind of machine?")
	require.False(t, isAbsent(err))
}

func TestTerminals(t *testing.T) {
	root := newHost(t, map[string]string{"dev/pts/0": "", "secret": ""})
	now := time.Unix(1795282536, 0)
	require.NoError(t, os.Chtimes(filepath.Join(root, "dev/pts/0"), now.Add(-90*time.Second), now))
	host := terminals{root}
	require.Equal(t, 90*time.Second, host.idle("pts/0", now))
	require.Equal(t, time.Duration(0), host.idle("pts/0", now.Add(-time.Hour)), "the clock was set back")
	for _, line := range []string{"", ":0", "pts/1", "pts", "../secret", "/dev/pts/0", "pts/../../secret", "pts/0\x00"} {
		require.Equal(t, time.Duration(unknown), host.idle(line, now), line)
		require.False(t, host.gone(line), line)
	}
}

func TestIsAlive(t *testing.T) {
	require.True(t, isAlive(int32(os.Getpid())))
	require.True(t, isAlive(1), "one that may not be asked is there")
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	require.False(t, isAlive(int32(cmd.Process.Pid)))
}
