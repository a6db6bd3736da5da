package who_users

import (
	"maps"
	"slices"
	"time"
)

// events knows which sessions have been told of, to tell of each when something becomes of it. The zero events knows none.
type events struct {
	method string // whose sessions they are: each method has its own ids
	known  map[string]event
}

// event is what was told of a session.
type event struct {
	session session
	first   time.Time // when it was first seen
	told    time.Time
	idle    bool
	ended   time.Time // when it was seen to be gone
}

// since gives when the session began, or was first seen.
func (e *event) since() time.Time {
	if e.session.since.IsZero() {
		return e.first
	}
	return e.session.since
}

// due gives the sessions that are to be told of now, in the order of their ids: those that are new, have gone idle or come
// back, have ended, or were not told of for so long.
func (v *events) due(method string, sessions []session, now time.Time, idleAfter, refresh time.Duration) []event {
	if v.method != method || v.known == nil {
		v.method, v.known = method, make(map[string]event)
	}
	present := make(map[string]bool, len(sessions))
	var due []event
	for i := range sessions {
		s := &sessions[i]
		present[s.id] = true
		e, known := v.known[s.id]
		if !known {
			e.first = now
		}
		idle := s.isIdle(idleAfter)
		e.session = *s
		if age := now.Sub(e.told); !known || idle != e.idle || age >= refresh || age < 0 {
			e.told, e.idle = now, idle
			due = append(due, e)
		}
		v.known[s.id] = e
	}
	for _, id := range slices.Sorted(maps.Keys(v.known)) {
		if e := v.known[id]; !present[id] {
			e.ended = now
			due = append(due, e)
			delete(v.known, id)
		}
	}
	return due
}

// row gives what is told of a session.
func (p *WhoUsers) row(e *event) map[string]any {
	s := &e.session
	fields := make(map[string]any, 8)
	if name, ok := p.users.Name(s.user); ok {
		fields["user"] = name
	}
	for name, value := range map[string]string{"tty": s.tty, "from": s.from, "service": s.service} {
		if value != "" {
			fields[name] = value
		}
	}
	fields["remote"] = int64(0)
	if s.remote {
		fields["remote"] = int64(1)
	}
	if !s.since.IsZero() {
		fields["since"] = s.since.Unix()
	}
	if s.idle != unknown && e.ended.IsZero() {
		fields["idle"] = int64(s.idle / time.Second)
	}
	if !e.ended.IsZero() {
		fields["ended"] = e.ended.Unix()
	}
	return fields
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
