package af_https

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"telegraf-hpc/internal/command"
)

// hosts tells under which name a host is shown.
type hosts struct {
	obfuscate bool
	domain    string
}

// name is, where hosts are obfuscated, atlas, the digits of the whole name, and the domain. So hosts without digits share
// a name.
func (h *hosts) name(host string) string {
	if !h.obfuscate {
		return host
	}
	digits := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, host)
	return "atlas" + digits + "." + h.domain
}

// userFilter tells which users are shown, and how.
type userFilter struct {
	exclude   []string
	members   *members // nil where no group is asked for
	obfuscate bool
	salt      string
}

func (f *userFilter) filters() bool { return f.members != nil || len(f.exclude) > 0 }

// show gives those of the users that are to be shown, in their order. It is an error when it can't be found out who is.
func (f *userFilter) show(users []string) ([]string, error) {
	shown := make([]string, 0, len(users))
	for _, user := range users {
		if slices.Contains(f.exclude, user) {
			continue
		}
		if f.members != nil {
			in, err := f.members.has(user)
			if err != nil {
				return nil, err
			}
			if !in {
				continue
			}
		}
		if f.obfuscate {
			sum := sha256.Sum256([]byte(f.salt + user))
			user = hex.EncodeToString(sum[:])[:8]
		}
		shown = append(shown, user)
	}
	return shown, nil
}

// keepMembers is how long it is remembered who is in the group.
const keepMembers = 10 * time.Minute

// members knows who is in a group, by its primary group or another, from the system's own tools: these know of all
// directories that the system is configured for.
type members struct {
	group string
	run   func(name string, args ...string) (string, error)
	now   func() time.Time

	mu    sync.Mutex
	until time.Time
	id    string
	in    map[string]bool
}

func newMembers(group string, now func() time.Time) *members {
	// What the tools say is read, and is not to be in the system's language.
	runner := &command.Runner{Timeout: 5 * time.Second, Env: append(os.Environ(), "LC_ALL=C")}
	return &members{group: group, now: now, run: func(name string, args ...string) (string, error) {
		result, err := runner.Run(context.Background(), name, args...)
		return string(result.Stdout), err
	}}
}

// has tells whether a user is in the group. A user whom the system does not know is not.
func (m *members) has(user string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); !now.Before(m.until) || m.until.Sub(now) > keepMembers {
		entry, err := m.run("getent", "--", "group", m.group)
		if err != nil {
			return false, fmt.Errorf("option group: looking up %q: %w", m.group, err)
		}
		parts := strings.Split(entry, ":")
		if len(parts) < 3 {
			return false, fmt.Errorf("option group: looking up %q: getent answered %q", m.group, entry)
		}
		m.id, m.until, m.in = parts[2], now.Add(keepMembers), make(map[string]bool)
	}
	in, known := m.in[user]
	if known {
		return in, nil
	}
	ids, err := m.run("id", "-G", "--", user)
	if err != nil && !unknownUser(err) {
		return false, fmt.Errorf("option group: looking up user %q: %w", user, err)
	}
	in = slices.Contains(strings.Fields(ids), m.id)
	m.in[user] = in
	return in, nil
}

// unknownUser tells whether id says that there is no such user.
func unknownUser(err error) bool {
	failure, ok := errors.AsType[*command.Error](err)
	return ok && failure.Reason == command.ErrExit && strings.HasSuffix(failure.Stderr, "no such user")
}
