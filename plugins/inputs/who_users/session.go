package who_users

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"time"
)

// unknown is an idle time that nobody knows.
const unknown = -1

// session is a login of a user that lasts.
type session struct {
	id      string // unlike that of any other session on this host
	user    string
	tty     string // without /dev/; empty without a terminal
	from    string // host name or address of a remote one
	service string // of PAM, such as sshd; empty where it is not known
	remote  bool
	since   time.Time     // the zero time where it is not known
	idle    time.Duration // since the user last typed; unknown
}

// isIdle tells whether nobody has typed for so long, as far as it is known.
func (s *session) isIdle(after time.Duration) bool { return s.idle != unknown && s.idle >= after }

// counts are what who_users tells.
type counts struct {
	users, sessions, remote, local, idle int64
	idleKnown                            bool
}

func count(sessions []session, idleAfter time.Duration) counts {
	c := counts{sessions: int64(len(sessions)), idleKnown: true}
	users := make(map[string]bool)
	terminals, known := 0, 0
	for i := range sessions {
		s := &sessions[i]
		users[s.user] = true
		if s.remote {
			c.remote++
		} else {
			c.local++
		}
		if s.tty != "" {
			terminals++
		}
		if s.idle != unknown {
			known++
		}
		if s.isIdle(idleAfter) {
			c.idle++
		}
	}
	c.users = int64(len(users))
	c.idleKnown = terminals == 0 || known > 0
	return c
}

// fields gives what is told. Where there are terminals and none can be looked at, nobody knows how many are idle.
func (c *counts) fields() map[string]any {
	fields := map[string]any{
		"users": c.users, "sessions": c.sessions, "remote_sessions": c.remote, "local_sessions": c.local,
	}
	if c.idleKnown {
		fields["idle_sessions"] = c.idle
	}
	return fields
}

// moment gives the event of a session a time of its own within its second: nanoseconds of a hash of what it is, so that
// a row that is emitted again is the same point, and two sessions are not.
func (s *session) moment(since time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%s\x00%s", s.id, s.user)
	return time.Unix(since.Unix(), int64(hash.Sum64()%1e9))
}

// Kinds of rows.
const (
	login  = iota
	window // of a screen that is attached, or of an X display: beside a login, or in its place
	pane   // of tmux: beside a login, or left behind when its user went
)

var screenWindow = regexp.MustCompile(`:S\.[0-9]+$`)

// kindOf tells a login from what its user opened in it: tmux writes the host tmux(PID).%0, screen HOST:S.0 or :TTY:S.0,
// and a terminal of an X display the display, such as :0. Displays themselves have that as the line, too.
func (r *row) kindOf() int {
	switch {
	case strings.HasPrefix(r.host, "tmux("):
		return pane
	case screenWindow.MatchString(r.host), strings.HasPrefix(r.host, ":") && strings.HasPrefix(r.line, "pts/"):
		return window
	}
	return login
}

// origin tells where the user of a row comes from, and whether that is another host.
func (r *row) origin() (from string, remote bool) {
	host := screenWindow.ReplaceAllString(r.host, "")
	if at := strings.Index(host, " via mosh ["); at >= 0 {
		host = host[:at]
	}
	switch {
	case host == "", strings.HasPrefix(host, ":"), host == r.line:
		return "", false
	case strings.HasPrefix(host, "mosh ["): // Its client is away.
		return "", true
	}
	return host, true
}

// sessionsOf gives the sessions that rows of utmp or who tell of. What a user opened within a login counts no second time:
// a window is a session only where the user has no login beside it, since screen takes the login's row away while it is
// attached, and is then one for each host it is used from.
func sessionsOf(rows []row, idle func(line string) time.Duration) []session {
	logins := make(map[string]bool)
	for i := range rows {
		if rows[i].kindOf() == login {
			logins[rows[i].user] = true
		}
	}
	sessions := make([]session, 0, len(rows))
	windows := make(map[[2]string]bool)
	for i := range rows {
		r := &rows[i]
		from, remote := r.origin()
		switch r.kindOf() {
		case pane:
			continue
		case window:
			key := [2]string{r.user, from}
			if logins[r.user] || windows[key] {
				continue
			}
			windows[key] = true
		}
		sessions = append(sessions, session{
			id: r.id(), user: r.user, tty: r.line, from: from, remote: remote, since: r.since, idle: idle(r.line),
		})
	}
	return sessions
}

// id tells a row from all others of its host.
func (r *row) id() string { return fmt.Sprintf("%s %d %d", r.line, r.pid, r.since.UnixMicro()) }
