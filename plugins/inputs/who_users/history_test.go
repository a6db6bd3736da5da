package who_users

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func all(*row) bool { return true }

func TestRecentUsers(t *testing.T) {
	const day = "2026-11-21T"
	from, to := at(t, day+"17:30:00Z"), at(t, day+"17:35:00Z")
	for _, test := range []struct {
		name, text string
		want       map[string]string
	}{
		{"nothing", "", nil},
		{"a login within, and one before that lasts", dump(7, 1, "pts/0", "alice", "h", day+"17:00:00") + dump(7, 2, "pts/1", "bob", "h", day+"17:31:00"),
			map[string]string{"bob": "17:31:00"}},
		{"a logout within of a login before", dump(7, 1, "pts/0", "alice", "h", day+"09:00:00") + dump(7, 2, "pts/1", "bob", "h", day+"10:00:00") +
			dump(8, 1, "pts/0", "", "", day+"17:32:00"), map[string]string{"alice": "17:32:00"}},
		{"the last that is known", dump(7, 1, "pts/0", "alice", "h", day+"17:30:00") + dump(8, 1, "pts/0", "", "", day+"17:31:00") +
			dump(7, 1, "pts/1", "alice", "h", day+"17:32:00"), map[string]string{"alice": "17:32:00"}},
		{"a terminal that was used twice", dump(7, 1, "pts/0", "alice", "h", day+"09:00:00") + dump(7, 2, "pts/0", "bob", "h", day+"10:00:00") +
			dump(8, 1, "pts/0", "", "", day+"17:32:00"), map[string]string{"bob": "17:32:00"}},
		{"a reboot between", dump(7, 1, "pts/0", "alice", "h", day+"09:00:00") + dump(2, 0, "~", "reboot", "6.1", day+"17:31:00") +
			dump(8, 1, "pts/0", "", "", day+"17:32:00"), nil},
		{"pseudo-users", dump(2, 0, "~", "reboot", "6.1", day+"17:31:00") + dump(1, 53, "~", "runlevel", "6.1", day+"17:31:00") +
			dump(1, 0, "~", "shutdown", "6.1", day+"17:31:10") + dump(6, 9, "tty1", "LOGIN", "", day+"17:31:20") +
			dump(5, 9, "tty1", "", "", day+"17:31:20"), nil},
		{"tmux", dump(7, 1, "pts/0", "alice", "tmux(44).%0", day+"17:31:00"), nil},
		{"after now", dump(7, 1, "pts/0", "alice", "h", day+"17:36:00"), nil},
		{"a record out of its time does not end the window by itself", dump(7, 1, "pts/0", "alice", "h", day+"17:31:00") +
			dump(7, 2, "pts/1", "bob", "h", "1970-01-01T00:00:00") + dump(77, 2, "pts/1", "bob", "h", day+"10:00:00") +
			dump(7, 3, "pts/2", "carol", "h", day+"17:32:00"), map[string]string{"alice": "17:31:00", "carol": "17:32:00"}},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(test.name+" "+arch, func(t *testing.T) {
				l := layoutOf(arch)
				b := append(records(t, test.text, l), 1, 2, 3) // The last is being written.
				got, err := recentUsers(bytes.NewReader(b), int64(len(b)), l, from, to, all)
				require.NoError(t, err)
				text := make(map[string]string)
				for user, when := range got {
					text[user] = when.UTC().Format("15:04:05")
				}
				if test.want == nil {
					test.want = make(map[string]string)
				}
				require.Equal(t, test.want, text)
			})
		}
	}
}

// counted is a file that tells how much of it was read, and fails beyond a limit.
type counted struct {
	*bytes.Reader
	read, most int
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	if c.read += len(b); c.read > c.most {
		return 0, errors.New("input/output error")
	}
	return c.Reader.ReadAt(b, at)
}

// A long wtmp is read only as far back as need be.
func TestRecentUsersReadsLittle(t *testing.T) {
	l := layoutOf("amd64")
	now := time.Unix(1795282536, 0)
	const n = 50_000
	b := make([]byte, 0, (n+1)*l.size)
	for i := range n {
		b = append(b, record(l, 7, i+1, fmt.Sprintf("pts/%d", i), fmt.Sprintf("user%d", i), "h", now.Add(time.Duration(i-n)*time.Second))...)
	}
	f := &counted{Reader: bytes.NewReader(b), most: len(b)}
	got, err := recentUsers(f, int64(len(b)), l, now.Add(-300*time.Second), now, all)
	require.NoError(t, err)
	require.Len(t, got, 300)
	require.LessOrEqual(t, f.read, 3*entriesAtOnce*l.size)

	// A logout whose login never comes.
	b = append(b, record(l, 8, 1, "pts/x", "", "", now)...)
	f = &counted{Reader: bytes.NewReader(b), most: len(b)}
	_, err = recentUsers(f, int64(len(b)), l, now.Add(-300*time.Second), now, all)
	require.NoError(t, err)
	require.LessOrEqual(t, f.read, maxBefore+4*entriesAtOnce*l.size)

	f.read, f.most = 0, entriesAtOnce*l.size
	_, err = recentUsers(f, int64(len(b)), l, now.Add(-300*time.Second), now, all)
	require.EqualError(t, err, "input/output error")
}

func TestHistory(t *testing.T) {
	l := layoutOf("amd64")
	root := newHost(t, map[string]string{"wtmp": ""})
	h := &history{window: 5 * time.Minute, wtmp: filepath.Join(root, "wtmp"), layout: l, only: func(r *row) bool { return r.user != "root" }}
	begin := time.Unix(1795282500, 0)
	seen := func() string { return strings.Join(slices.Sorted(maps.Keys(h.seen)), " ") }
	write := func(b ...[]byte) {
		require.NoError(t, os.WriteFile(h.wtmp, slices.Concat(b...), 0o600))
	}
	gather := func(after time.Duration, users ...string) string {
		t.Helper()
		sessions := make([]session, 0, len(users))
		for _, user := range users {
			sessions = append(sessions, session{user: user})
		}
		require.NoError(t, h.catchUp(begin.Add(after)))
		h.observe(sessions, begin.Add(after))
		return seen()
	}
	early := record(l, 7, 1, "pts/0", "dave", "h", begin.Add(-time.Minute))
	write(early, record(l, 7, 1, "pts/9", "root", "h", begin.Add(-time.Minute)))
	require.Equal(t, "alice dave", gather(0, "alice", "alice"), "dave was there before the plugin")
	require.Equal(t, "alice bob dave", gather(time.Minute, "bob"))
	write(early, record(l, 7, 1, "pts/1", "erin", "h", begin.Add(70*time.Second)), record(l, 8, 1, "pts/1", "", "", begin.Add(72*time.Second)))
	require.Equal(t, "alice bob dave erin", gather(2*time.Minute), "erin came and went between two gathers")
	require.Equal(t, "alice bob erin", gather(5*time.Minute))
	require.NoError(t, os.Remove(h.wtmp))
	require.Equal(t, "bob erin", gather(301*time.Second))
	require.Empty(t, gather(-time.Hour), "the clock was set back")

	require.NoError(t, os.Mkdir(h.wtmp, 0o750))
	require.EqualError(t, h.catchUp(begin), "not a regular file")
}

// Whatever wtmp holds, who comes out was written in it, within the window.
func FuzzRecentUsers(f *testing.F) {
	wtmp, err := os.ReadFile("testdata/debian12.wtmp")
	require.NoError(f, err)
	f.Add(wtmp, int64(1795282560))
	f.Add(append(wtmp, wtmp...), int64(1795282860))
	f.Fuzz(func(t *testing.T, b []byte, now int64) {
		if now < 0 || now > 1<<33 {
			return
		}
		l := layoutOf("amd64")
		to := time.Unix(now, 0)
		from := to.Add(-5 * time.Minute)
		got, err := recentUsers(bytes.NewReader(b), int64(len(b)), l, from, to, all)
		require.NoError(t, err)
		for user, when := range got {
			require.True(t, validUser(user))
			require.Contains(t, string(b), user)
			require.False(t, when.Before(from) || when.After(to), "%s %s", user, when)
		}
	})
}
