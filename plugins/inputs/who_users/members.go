package who_users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"telegraf-hpc/internal/command"
)

const (
	// maxAccounts is the longest passwd or group file in bytes that is read.
	maxAccounts = 64 << 20
	// usersAtOnce are asked for in one command line.
	usersAtOnce = 200
	// notFound is getent's exit status where one of the keys is not known (getent(1)).
	notFound = 2
)

// members knows which users are in one of the groups that are asked for, by their primary group or another: from the
// files and from NSS, which both may know of a group.
type members struct {
	groups []string
	root   string
	keep   time.Duration // how long an answer holds
	run    runFunc       // of getent; nil where NSS is not that of the host

	until   time.Time           // when the groups are asked for again
	ids     map[string]bool     // of the groups
	named   map[string]bool     // the members that the groups' own entries name
	users   map[string]lookedUp // the users so far
	missing []string            // groups that nobody knows
}

type lookedUp struct {
	in    bool
	until time.Time
}

// of tells of each user whether it is a member. A user that nobody knows is none. With an error, nothing is known.
func (m *members) of(ctx context.Context, users []string, now time.Time) (map[string]bool, error) {
	if err := m.refresh(ctx, now); err != nil {
		return nil, err
	}
	in := make(map[string]bool, len(users))
	var unknown []string
	for _, user := range users {
		// A clock that was set back must not keep an answer for ever.
		if u, known := m.users[user]; known && now.Before(u.until) && u.until.Sub(now) <= m.keep {
			in[user] = u.in
		} else {
			unknown = append(unknown, user)
		}
	}
	if len(unknown) == 0 {
		return in, nil
	}
	found, err := m.lookUp(ctx, unknown)
	if err != nil {
		return nil, err
	}
	for _, user := range unknown {
		m.users[user] = lookedUp{in: found[user], until: now.Add(m.keep)}
		in[user] = found[user]
	}
	return in, nil
}

// refresh asks for the groups anew when it is time, and forgets the users with them.
func (m *members) refresh(ctx context.Context, now time.Time) error {
	if now.Before(m.until) && m.until.Sub(now) <= m.keep {
		return nil
	}
	wanted := set(m.groups)
	b, err := m.file("group")
	if err != nil {
		return err
	}
	ids, named, known := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	add := func(groups map[string]group) {
		for name, g := range groups {
			known[name], ids[g.id] = true, true
			for _, user := range g.members {
				named[user] = true
			}
		}
	}
	add(parseGroups(b, wanted))
	for _, name := range m.groups {
		b, err := m.getent(ctx, "group", name)
		if err != nil {
			return err
		}
		add(parseGroups(b, wanted))
	}
	m.ids, m.named, m.until = ids, named, now.Add(m.keep)
	maps.DeleteFunc(m.users, func(_ string, u lookedUp) bool { return !now.Before(u.until) || u.until.Sub(now) > m.keep })
	if m.users == nil {
		m.users = make(map[string]lookedUp)
	}
	m.missing = slices.DeleteFunc(slices.Clone(m.groups), func(name string) bool { return known[name] })
	return nil
}

// lookUp finds out who of the users is a member, and asks only for those of whom it is not known yet.
func (m *members) lookUp(ctx context.Context, users []string) (map[string]bool, error) {
	in := make(map[string]bool)
	var left []string
	keep := func(primary map[string]string) {
		users := left
		left = nil
		for _, user := range users {
			if in[user] = m.ids[primary[user]]; !in[user] {
				left = append(left, user)
			}
		}
	}
	for _, user := range users {
		if in[user] = m.named[user]; !in[user] {
			left = append(left, user)
		}
	}
	b, err := m.file("passwd")
	if err != nil {
		return nil, err
	}
	keep(primaryGroups(b, set(left)))
	if m.run == nil {
		return in, nil
	}
	primary, err := m.primary(ctx, left)
	if err != nil {
		return nil, err
	}
	keep(primary)
	for some := range slices.Chunk(left, usersAtOnce) {
		b, err := m.getent(ctx, "initgroups", some...)
		if err != nil {
			return nil, err
		}
		groups, ok := parseInitgroups(b, some)
		if !ok && len(b) > 0 {
			return nil, errors.New("getent initgroups: it does not tell of each user in a line")
		}
		for user, ids := range groups {
			in[user] = slices.ContainsFunc(ids, func(id string) bool { return m.ids[id] })
		}
	}
	return in, nil
}

// primary asks NSS for the primary groups of users. getent fails as a whole where it does not know one of them: then each
// half is asked for.
func (m *members) primary(ctx context.Context, users []string) (map[string]string, error) {
	groups := make(map[string]string)
	for some := range slices.Chunk(users, usersAtOnce) {
		b, err := m.getent(ctx, "passwd", some...)
		if err != nil {
			return nil, err
		}
		if len(b) > 0 {
			maps.Copy(groups, primaryGroups(b, set(some)))
			continue
		}
		if len(some) == 1 {
			continue
		}
		for half := range slices.Chunk(some, (len(some)+1)/2) {
			more, err := m.primary(ctx, half)
			if err != nil {
				return nil, err
			}
			maps.Copy(groups, more)
		}
	}
	return groups, nil
}

// getent asks NSS; the answer is empty where it does not know one of the keys, or where there is no getent.
func (m *members) getent(ctx context.Context, database string, keys ...string) ([]byte, error) {
	if m.run == nil || len(keys) == 0 {
		return nil, nil
	}
	result, err := m.run(ctx, "getent", append([]string{database}, keys...)...)
	var failure *command.Error
	if errors.As(err, &failure) && (failure.Reason == command.ErrNotFound || failure.Reason == command.ErrExit && failure.Status == notFound) {
		return nil, nil
	}
	return result.Stdout, err
}

// file reads one of the files; one that is not there is empty.
func (m *members) file(name string) ([]byte, error) {
	path := filepath.Join(m.root, "etc", name)
	b, err := readFile(path, maxAccounts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}

func set(names []string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, name := range names {
		s[name] = true
	}
	return s
}

// checkGroup tells why a name can't be that of a group.
func checkGroup(name string) error {
	if !validUser(name) || strings.Contains(name, ",") {
		return errors.New("is no name of a group")
	}
	return nil
}
