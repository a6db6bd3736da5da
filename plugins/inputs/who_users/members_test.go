package who_users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
)

// nss is a getent with what its databases know.
type nss struct {
	passwd, group, initgroups map[string]string
	broken                    error
	asked                     []string
}

func (n *nss) run(_ context.Context, name string, args ...string) (command.Result, error) {
	n.asked = append(n.asked, name+" "+strings.Join(args, " "))
	if n.broken != nil {
		return command.Result{}, n.broken
	}
	var out strings.Builder
	lost := false
	for _, key := range args[1:] {
		if args[0] == "initgroups" {
			fmt.Fprintf(&out, "%-21s%s\n", key, n.initgroups[key]) // Also for those it does not know.
			continue
		}
		line := map[string]map[string]string{"passwd": n.passwd, "group": n.group}[args[0]][key]
		lost = lost || line == ""
		out.WriteString(line)
	}
	if lost {
		return command.Result{}, &command.Error{Name: name, Reason: command.ErrExit, Status: 2, Err: errors.New("exit status 2")}
	}
	return command.Result{Stdout: []byte(out.String())}, nil
}

func newMembers(t *testing.T, n *nss) *members {
	t.Helper()
	root := newHost(t, map[string]string{
		"etc/passwd": "root:x:0:0::/:\nalice:x:1:100::/:\nbob:x:2:59100::/:\n", "etc/group": "users:x:100:\natlas:x:59100:carol\n",
	})
	m := &members{groups: []string{"atlas", "cms"}, root: root, keep: time.Minute}
	if n != nil {
		m.run = n.run
	}
	return m
}

func TestMembers(t *testing.T) {
	now := time.Unix(1795282536, 0)
	n := &nss{
		passwd: map[string]string{"dave": "dave:*:7:700::/:\n", "erin": "erin:*:8:800::/:\n", "alice": "alice:x:1:100::/:\n"},
		group:  map[string]string{"cms": "cms:*:700:frank\n"}, initgroups: map[string]string{"erin": " 800 59100", "alice": " 5"},
	}
	m := newMembers(t, n)
	in, err := m.of(t.Context(), []string{"alice", "bob", "carol", "dave", "erin", "frank", "ghost"}, now)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{
		"alice": false, "bob": true, "carol": true, "dave": true, "erin": true, "frank": true, "ghost": false,
	}, in, "by the file's primary group, its list, NSS's primary group, initgroups, NSS's list")
	require.Empty(t, m.missing)
	require.Equal(t, []string{
		"getent group atlas", "getent group cms",
		// One that nobody knows makes all fail: the halves are asked for.
		"getent passwd alice dave erin ghost", "getent passwd alice dave", "getent passwd erin ghost", "getent passwd erin", "getent passwd ghost",
		"getent initgroups alice erin ghost",
	}, n.asked)

	n.asked = nil
	in, err = m.of(t.Context(), []string{"ghost", "erin"}, now.Add(59*time.Second))
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"ghost": false, "erin": true}, in)
	require.Empty(t, n.asked, "it is remembered")
	_, err = m.of(t.Context(), []string{"ghost"}, now.Add(60*time.Second))
	require.NoError(t, err)
	require.Equal(t, []string{"getent group atlas", "getent group cms", "getent passwd ghost", "getent initgroups ghost"}, n.asked)
	require.Len(t, m.users, 1, "who has gone is forgotten")

	n.asked = nil
	_, err = m.of(t.Context(), []string{"ghost"}, now.Add(-time.Hour))
	require.NoError(t, err)
	require.Len(t, n.asked, 4, "the clock was set back")
}

func TestMembersOfFiles(t *testing.T) {
	m := newMembers(t, nil)
	in, err := m.of(t.Context(), []string{"alice", "bob", "carol", "ghost"}, time.Now())
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"alice": false, "bob": true, "carol": true, "ghost": false}, in)
	require.Equal(t, []string{"cms"}, m.missing)
}

func TestMembersWhereNSSFails(t *testing.T) {
	now := time.Unix(1795282536, 0)
	n := &nss{broken: &command.Error{Name: "getent", Reason: command.ErrTimeout, Err: errors.New("still running after 5s")}}
	m := newMembers(t, n)
	_, err := m.of(t.Context(), []string{"alice"}, now)
	require.EqualError(t, err, "getent: still running after 5s")
	n.broken = &command.Error{Name: "getent", Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
	in, err := m.of(t.Context(), []string{"alice", "bob"}, now)
	require.NoError(t, err, "without getent there are the files")
	require.Equal(t, map[string]bool{"alice": false, "bob": true}, in)
	n.broken = &command.Error{Name: "getent", Reason: command.ErrExit, Status: 3, Err: errors.New("exit status 3")}
	_, err = m.of(t.Context(), []string{"carol", "dave"}, now)
	require.EqualError(t, err, "getent: exit status 3")
}

// However many users there are, the questions are few, and each user gets the right answer.
func TestMembersOfMany(t *testing.T) {
	n := &nss{passwd: map[string]string{}, group: map[string]string{"atlas": "atlas:*:7:\n", "cms": "cms:*:8:\n"}, initgroups: map[string]string{}}
	users := make([]string, 0, 1000)
	want := make(map[string]bool)
	for i := range 1000 {
		user := "user" + strconv.Itoa(i)
		users = append(users, user)
		want[user] = i%3 == 0
		if i != 500 { // One has been deleted.
			n.passwd[user] = fmt.Sprintf("%s:*:%d:%d::/:\n", user, i, 7+i%3)
		}
		want[user] = (i%3 == 0 || i%3 == 1) && i != 500
	}
	slices.Sort(users)
	m := newMembers(t, n)
	in, err := m.of(t.Context(), users, time.Now())
	require.NoError(t, err)
	require.Equal(t, want, in)
	require.LessOrEqual(t, len(n.asked), 2+5+2*8+2)
}
