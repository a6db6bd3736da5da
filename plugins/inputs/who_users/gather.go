package who_users

import (
	"fmt"
	"slices"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/userlist"
	"telegraf-hpc/internal/version"
)

// self is what the plugin tells of itself.
type self struct {
	method string // the one that was asked with success in this gather
	absent bool   // whether there was none to ask
	up     int64  // 1 where who_users was told
	answer answer
	errors int64 // since the start
}

// maxMisses is how many gathers in a row the method that was in use must be missing before another takes its place.
const maxMisses = 3

// Gather finds out who is logged in and tells of it. Where that fails it tells nothing, but why.
func (p *WhoUsers) Gather(acc telegraf.Accumulator) error {
	now := p.now()
	p.self = self{errors: p.self.errors}
	if sessions, ok := p.sessions(acc, now); ok {
		p.tell(acc, sessions, now)
		p.self.up = 1
	}
	p.addSelf(acc, now)
	return nil
}

// sessions gives the sessions that count.
func (p *WhoUsers) sessions(acc telegraf.Accumulator, now time.Time) ([]session, bool) {
	a, err := p.ask(now)
	if p.ctx.Err() != nil {
		return nil, false // We are told to stop: what failed failed by that.
	}
	if err != nil {
		p.fail(acc, "sessions", err)
		return nil, false
	}
	p.said.Mend("sessions")
	if p.self.absent {
		return nil, false
	}
	p.self.answer = a
	wanted := slices.DeleteFunc(a.sessions, func(s session) bool { return !p.wants(s.user, s.remote) })
	p.remember(acc, wanted, a.visitors, now)
	if p.members == nil {
		return wanted, true
	}
	in, err := p.groupMembers(wanted, now)
	if p.ctx.Err() != nil {
		return nil, false
	}
	if err != nil {
		p.fail(acc, "groups", fmt.Errorf("option groups: %w", err))
		return nil, false
	}
	p.said.Mend("groups")
	if p.history != nil {
		for user := range p.history.seen {
			if !in[user] {
				delete(p.history.seen, user)
			}
		}
	}
	return slices.DeleteFunc(wanted, func(s session) bool { return !in[s.user] }), true
}

// remember notes who is and was logged in.
func (p *WhoUsers) remember(acc telegraf.Accumulator, sessions []session, visitors map[visitor]bool, now time.Time) {
	if p.history == nil {
		return
	}
	if err := p.history.catchUp(now); err != nil {
		p.fail(acc, "wtmp", fmt.Errorf("reading %s: %w", p.history.wtmp, err))
	} else {
		p.said.Mend("wtmp")
	}
	for v := range visitors {
		if p.wants(v.user, v.remote) {
			p.history.note(v.user, now)
		}
	}
	p.history.observe(sessions, now)
}

// ask asks the first method that is there. One that has answered is not left at once for another that knows of other
// sessions.
func (p *WhoUsers) ask(now time.Time) (answer, error) {
	var missing []error
	for _, m := range p.methods {
		a, err := m.list(p.ctx, now)
		if err == nil {
			if p.using != m.name {
				p.Log.Infof("Sessions are those of %s", m.name)
			}
			p.using, p.misses, p.self.method = m.name, 0, m.name
			p.said.Mend("absent")
			return a, nil
		}
		if !isAbsent(err) || p.Method != auto {
			return answer{}, err
		}
		if p.using == m.name {
			if p.misses++; p.misses < maxMisses {
				return answer{}, err
			}
		}
		missing = append(missing, err)
	}
	p.using, p.self.absent = "", true
	if p.said.First("absent", "absent") {
		p.Log.Infof("Nobody keeps account of logins on this host; looking again at each gather (%v)", oneLine(missing))
	}
	return answer{}, nil
}

// oneLine puts errors together.
func oneLine(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// wants tells whether a session counts, as far as its user's groups do not matter.
func (p *WhoUsers) wants(user string, isRemote bool) bool {
	origin := local
	if isRemote {
		origin = remote
	}
	return slices.Contains(p.Origins, origin) && (p.excluded == nil || !p.excluded.Match(user))
}

func (p *WhoUsers) wantsRow(r *row) bool {
	_, isRemote := r.origin()
	return p.wants(r.user, isRemote)
}

// groupMembers tells who is a member of the groups, of those that are or were logged in.
func (p *WhoUsers) groupMembers(sessions []session, now time.Time) (map[string]bool, error) {
	distinct := make(map[string]bool)
	for i := range sessions {
		distinct[sessions[i].user] = true
	}
	if p.history != nil {
		for user := range p.history.seen {
			distinct[user] = true
		}
	}
	in, err := p.members.of(p.ctx, sortedKeys(distinct), now)
	if err != nil {
		return nil, err
	}
	if missing := p.members.missing; len(missing) == len(p.Groups) {
		return nil, fmt.Errorf("nobody knows %q", missing)
	} else if len(missing) > 0 && p.said.First("missing groups", fmt.Sprint(missing)) {
		p.Log.Warnf("Option groups: nobody knows %q", missing)
	}
	return in, nil
}

// tell emits what is known.
func (p *WhoUsers) tell(acc telegraf.Accumulator, sessions []session, now time.Time) {
	idleAfter := time.Duration(p.IdleAfter)
	c := count(sessions, idleAfter)
	fields := c.fields()
	if p.ListUsers {
		list, more := p.list(usersOf(sessions))
		fields["user_list"], fields["users_unlisted"] = list, more
	}
	if p.history != nil {
		seen := sortedKeys(p.history.seen)
		fields["users_recent"] = int64(len(seen))
		if p.ListUsers {
			fields["user_list_recent"], _ = p.list(seen)
		}
	}
	acc.AddFields("who_users", fields, nil, now)
	if p.SessionRows {
		for _, row := range p.rows.due(p.self.method, sessions, now, idleAfter, time.Duration(p.Refresh)) {
			acc.AddFields("who_session", p.row(&row), nil, row.session.moment(row.since()))
		}
	}
	if refused := p.self.answer.refused; refused > 0 && p.said.First("refused", "refused") {
		p.Log.Warnf("%d records of %s can't be read and are left out", refused, p.self.method)
	} else if refused == 0 {
		p.said.Mend("refused")
	}
}

// list gives the list of users, each by the name that users are shown by, and how many it leaves out.
func (p *WhoUsers) list(names []string) (list string, more int64) {
	shown := make([]string, 0, len(names))
	for _, user := range names {
		if name, ok := p.users.Name(user); ok {
			shown = append(shown, name)
		}
	}
	slices.Sort(shown)
	if len(shown) > p.MaxUsers {
		more = int64(len(shown) - p.MaxUsers)
		shown = shown[:p.MaxUsers]
	}
	return userlist.Join(shown), more
}

func usersOf(sessions []session) []string {
	distinct := make(map[string]bool)
	for i := range sessions {
		distinct[sessions[i].user] = true
	}
	return sortedKeys(distinct)
}

// fail counts an error, and hands it on unless it was said last time.
func (p *WhoUsers) fail(acc telegraf.Accumulator, subject string, err error) {
	p.self.errors++
	p.said.Fail(acc, subject, err)
}

// addSelf tells of the plugin. Whether it works is not known where there is nobody to ask.
func (p *WhoUsers) addSelf(acc telegraf.Accumulator, begin time.Time) {
	fields := map[string]any{
		"version": version.String(), "errors": p.self.errors, "gather_seconds": p.now().Sub(begin).Seconds(),
	}
	if !p.self.absent {
		fields["up"] = p.self.up
	}
	if p.self.method != "" {
		fields["method"] = p.self.method
		fields["stale_rows"], fields["refused_records"] = p.self.answer.stale, p.self.answer.refused
	}
	acc.AddFields("who_users_self", fields, nil, begin)
}
