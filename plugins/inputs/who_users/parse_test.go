package who_users

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return when
}

// What Debian 12's sshd, tmux and screen wrote.
func TestParseUtmpOfDebian12(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the files are those of amd64")
	}
	b, err := os.ReadFile("testdata/debian12.utmp")
	require.NoError(t, err)
	rows, refused := parseUtmp(b, layoutOf("amd64"))
	require.Zero(t, refused)
	for i := range rows {
		rows[i].since = rows[i].since.UTC()
	}
	day := "2026-11-21T17:3"
	require.Equal(t, []row{
		{"alice", "pts/0", "127.0.0.1", 17, at(t, day+"5:55.709457Z")},
		{"bob", "pts/1", "127.0.0.1", 22, at(t, day+"5:55.973401Z")},
		{"carol", "pts/2", "127.0.0.1", 32, at(t, day+"5:56.569660Z")},
		{"alice", "pts/3", "127.0.0.1", 37, at(t, day+"5:56.885296Z")},
		{"alice", "pts/4", "tmux(44).%0", 44, at(t, day+"5:56.906315Z")},
		{"carol", "pts/5", "127.0.0.1", 49, at(t, day+"5:59.213353Z")},
		{"carol", "pts/6", ":pts/5:S.0", 56, at(t, day+"5:59.227451Z")},
	}, rows)
}

func TestParseUtmp(t *testing.T) {
	when := time.Unix(1795282536, 205419000)
	for _, arch := range []string{"amd64", "arm64"} {
		l := layoutOf(arch)
		for _, test := range []struct {
			name    string
			bytes   []byte
			rows    []row
			refused int
		}{
			{"nothing", nil, nil, 0},
			{"a login", record(l, 7, 17, "pts/0", "alice", "10.0.0.1", when), []row{{"alice", "pts/0", "10.0.0.1", 17, when}}, 0},
			{"boot, run level, getty, logout", bytes.Join([][]byte{
				record(l, 2, 0, "~", "reboot", "6.1.0", when), record(l, 1, 53, "~", "runlevel", "6.1.0", when),
				record(l, 6, 99, "tty1", "LOGIN", "", when), record(l, 8, 99, "pts/0", "", "", when), make([]byte, l.size),
			}, nil), nil, 0},
			{"half a record", append(record(l, 7, 17, "pts/0", "alice", "", when), 7, 0, 0), []row{{"alice", "pts/0", "", 17, when}}, 1},
			{"no such kind", record(l, 99, 17, "pts/0", "alice", "", when), nil, 1},
			{"no user", record(l, 7, 17, "pts/0", "", "", when), nil, 1},
			{"no terminal", record(l, 7, 17, "", "alice", "", when), nil, 1},
			{"no process", record(l, 7, 0, "pts/0", "alice", "", when), nil, 1},
			{"a process group", record(l, 7, -5, "pts/0", "alice", "", when), nil, 1},
			{"a user that would be an option", record(l, 7, 17, "pts/0", "-s", "", when), nil, 1},
			{"a user with a newline", record(l, 7, 17, "pts/0", "a\nb", "", when), nil, 1},
			{"a user with other bytes", record(l, 7, 17, "pts/0", "a\xff", "", when), nil, 1},
			{"names as long as can be", record(l, 7, 17, strings.Repeat("l", 32), strings.Repeat("u", 32), strings.Repeat("h", 256), when),
				[]row{{strings.Repeat("u", 32), strings.Repeat("l", 32), strings.Repeat("h", 256), 17, when}}, 0},
			{"a name cut within a letter", record(l, 7, 17, "pts/0", strings.Repeat("u", 31)+"é", "", when),
				[]row{{strings.Repeat("u", 31), "pts/0", "", 17, when}}, 0},
			{"bytes in the other texts", record(l, 7, 17, "p\x1b[2J", "alice", "\xffh\n", when), []row{{"alice", "p\ufffd[2J", "\ufffdh\ufffd", 17, when}}, 0},
			{"no time", record(l, 7, 17, "pts/0", "alice", "", time.Unix(0, 0)), []row{{"alice", "pts/0", "", 17, time.Time{}}}, 0},
			{"after 2038", record(l, 7, 17, "pts/0", "alice", "", time.Unix(1<<31+5, 0)), []row{{"alice", "pts/0", "", 17, time.Unix(1<<31+5, 0)}}, 0},
		} {
			t.Run(arch+" "+test.name, func(t *testing.T) {
				rows, refused := parseUtmp(test.bytes, l)
				require.Equal(t, test.rows, rows)
				require.Equal(t, test.refused, refused)
			})
		}
	}
}

func TestParseWho(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, zone)
	for _, test := range []struct {
		line string
		row  row
	}{
		{"root     pts/0        2026-02-27 17:18 (10.0.0.1)", row{"root", "pts/0", "10.0.0.1", 0, time.Date(2026, 2, 27, 17, 18, 0, 0, zone)}},
		{"root     pts/0        Feb 27 17:18 (login.example.org)", row{"root", "pts/0", "login.example.org", 0, time.Date(2026, 2, 27, 17, 18, 0, 0, zone)}},
		{"alice    tty1         Dec 31 23:59", row{"alice", "tty1", "", 0, time.Date(2025, 12, 31, 23, 59, 0, 0, zone)}},
		{"alice    tty1         Feb 29 01:00", row{"alice", "tty1", "", 0, time.Date(2024, 2, 29, 1, 0, 0, 0, zone)}},
		{"alice    pts/3        Mar  2 11:00 (tmux(44).%0)", row{"alice", "pts/3", "tmux(44).%0", 0, time.Date(2026, 3, 2, 11, 0, 0, 0, zone)}},
		{"alice    :0           2026-02-27 17:18 (:0)", row{"alice", ":0", ":0", 0, time.Date(2026, 2, 27, 17, 18, 0, 0, zone)}},
		{"bob      pts/4        2026-02-27 17:18 00:05        4711 (host with mosh [7])",
			row{"bob", "pts/4", "host with mosh [7]", 0, time.Date(2026, 2, 27, 17, 18, 0, 0, zone)}},
		{"bob pts/4 yesterday", row{"bob", "pts/4", "", 0, time.Time{}}},
		{"bob", row{user: "bob"}},
		{"  HPC\\bob  ", row{user: `HPC\bob`}},
	} {
		t.Run(test.line, func(t *testing.T) {
			rows, refused := parseWho([]byte(test.line+"\n"), now)
			require.Equal(t, []row{test.row}, rows)
			require.Zero(t, refused)
		})
	}
	rows, refused := parseWho([]byte("\n-bad pts/0\na:b pts/1\n\xff pts/2\ncarol"), now)
	require.Equal(t, []row{{user: "carol"}}, rows)
	require.Equal(t, 3, refused)
}

func TestPrimaryGroups(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nalice:x:1:100:A: :\nalice:x:2:200::\n+@netgroup\nbob:x:3\n:x:4:4::\ncarol:x:5:300"
	require.Equal(t, map[string]string{"alice": "100", "carol": "300"},
		primaryGroups([]byte(passwd), map[string]bool{"alice": true, "bob": true, "carol": true, "dave": true}))
}

func TestParseGroups(t *testing.T) {
	const groups = "root:x:0:\natlas:x:59100:carol,,bob\natlas:x:1:eve\nempty:x::eve\ncms:x:7\nusers:x:100:\n"
	require.Equal(t, map[string]group{"atlas": {"59100", []string{"carol", "bob"}}, "users": {"100", []string{}}},
		parseGroups([]byte(groups), map[string]bool{"atlas": true, "empty": true, "cms": true, "users": true}))
}

func TestParseInitgroups(t *testing.T) {
	users := []string{"alice", "HPC\\dom users"}
	groups, ok := parseInitgroups([]byte("alice                 100 59100\nHPC\\dom users         7\n"), users)
	require.True(t, ok)
	require.Equal(t, map[string][]string{"alice": {"100", "59100"}, "HPC\\dom users": {"7"}}, groups)
	for _, text := range []string{"", "alice 100\n", "bob 100\nalice 1\n", "alice 1\nHPC\\dom users 7\ncarol 1\n"} {
		_, ok := parseInitgroups([]byte(text), users)
		require.False(t, ok, text)
	}
}

// Whatever the bytes are: each record is a login, refused or of another kind; what comes out can be shown; and the same
// records in reverse are the same logins in reverse.
func FuzzParseUtmp(f *testing.F) {
	for _, arch := range []string{"amd64", "arm64"} {
		l := layoutOf(arch)
		f.Add(record(l, 7, 17, "pts/0", "alice", "10.0.0.1", time.Unix(1795282536, 0)), l.wide)
		f.Add(append(record(l, 8, 17, "pts/0", "", "", time.Unix(1795282536, 0)), record(l, 7, -1, "\xff", "a\n", "%", time.Unix(0, 0))...), l.wide)
	}
	utmp, err := os.ReadFile("testdata/debian12.utmp")
	require.NoError(f, err)
	f.Add(utmp, false)
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		l := layoutOf("amd64")
		if wide {
			l = layoutOf("arm64")
		}
		rows, refused := parseUtmp(b, l)
		require.LessOrEqual(t, len(rows)+refused, (len(b)+l.size-1)/l.size)
		for _, r := range rows {
			require.True(t, validUser(r.user))
			require.LessOrEqual(t, len(r.user), 32)
			require.Equal(t, r.line, printable(r.line))
			require.Equal(t, r.host, printable(r.host))
			require.NotEmpty(t, r.line)
			require.Positive(t, r.pid)
		}
		whole := b[:len(b)-len(b)%l.size]
		var reversed []byte
		require.NoError(t, readBack(bytes.NewReader(b), int64(len(b)), l, func(one []byte, read int64) bool {
			reversed = append(reversed, one...)
			require.Equal(t, int64(len(reversed)), read)
			return true
		}))
		require.Len(t, reversed, len(whole))
		back, _ := parseUtmp(reversed, l)
		require.Len(t, back, len(rows))
		for i := range back {
			require.Equal(t, rows[len(rows)-1-i], back[i])
		}
		sessions := sessionsOf(rows, func(string) time.Duration { return unknown })
		require.LessOrEqual(t, len(sessions), len(rows))
	})
}

// Each line with text is a login or refused, and each login is what who would print for it again.
func FuzzParseWho(f *testing.F) {
	for _, seed := range []string{"root pts/0 2026-02-27 17:18 (10.0.0.1)\n", "a\nb pts/1 Feb 29 01:00 (tmux(1).%0)", "x ( )\n(", "\xff\n-\n"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		rows, refused := parseWho([]byte(text), now)
		lines := 0
		for line := range strings.Lines(text) {
			if len(strings.Fields(line)) > 0 {
				lines++
			}
		}
		require.Equal(t, lines, len(rows)+refused)
		for _, r := range rows {
			require.True(t, validUser(r.user))
			require.False(t, r.since.After(now.AddDate(8000, 0, 0)))
			if strings.ContainsAny(r.line, "()") || strings.ContainsAny(r.host, "() ") || r.line == "" || r.host == "" || r.since.IsZero() || r.since.Year() > 9999 {
				continue
			}
			again, _ := parseWho([]byte(r.user+" "+r.line+" "+r.since.Format("2006-01-02 15:04")+" ("+r.host+")\n"), now)
			require.Equal(t, []row{r}, again)
		}
	})
}

// Whatever the files and getent give, who comes out was asked for, and was there.
func FuzzAccounts(f *testing.F) {
	f.Add("alice:x:1:100::/:\nbob:x:2:59100::/:\n", "alice", "bob")
	f.Add("users:x:100:\natlas:x:59100:carol,alice,\natlas:x:7:\n", "atlas", "users")
	f.Add("alice                 100 59100\nbob\n", "alice", "bob")
	f.Add("::::\n:::\n\r\n", "", ":")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		wanted := map[string]bool{one: true, two: true}
		for user, id := range primaryGroups([]byte(text), wanted) {
			require.True(t, wanted[user])
			require.Contains(t, text, user+":")
			require.NotContains(t, id, ":")
			require.NotContains(t, id, "\n")
		}
		for name, g := range parseGroups([]byte(text), wanted) {
			require.True(t, wanted[name])
			require.NotEmpty(t, g.id)
			for _, member := range g.members {
				require.NotEmpty(t, member)
				require.NotContains(t, member, ",")
				require.Contains(t, text, member)
			}
		}
		if groups, ok := parseInitgroups([]byte(text), []string{one, two}); ok {
			require.Len(t, strings.Split(strings.TrimSuffix(text, "\n"), "\n"), 2)
			for _, ids := range groups {
				for _, id := range ids {
					require.Contains(t, text, id)
				}
			}
		}
	})
}
