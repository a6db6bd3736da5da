package node_sensors

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"telegraf-hpc/internal/users"
)

// sessions reads utmp (utmp(5)). A session whose process has gone is over, whatever utmp says, and is left out; below
// another root its processes can't be looked for, unless its proc is there.
func (h *host) sessions() ([]session, error) {
	b, err := os.ReadFile(filepath.Join(h.run, "utmp"))
	if err != nil {
		return nil, err
	}
	all, err := parseUtmp(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(h.run, "utmp"), err)
	}
	alive := all[:0]
	for _, s := range all {
		if s.pid > 0 && exists(filepath.Join(h.proc, "1")) && !exists(filepath.Join(h.proc, strconv.FormatInt(s.pid, 10))) {
			continue
		}
		alive = append(alive, s)
	}
	return alive, nil
}

func (h *host) users(o *Users) func(*reading) {
	names, err := users.New(o.Users, &o.PseudonymKey)
	return func(r *reading) {
		if err != nil {
			r.fail("", err)
			return
		}
		all, err := h.sessions()
		if missing(err) {
			r.absent = fmt.Sprintf("there is no %s; plugin who_users asks systemd-logind", filepath.Join(h.run, "utmp"))
			return
		}
		if err != nil {
			r.fail("", err)
			return
		}
		unique := make(map[string]bool)
		for _, s := range all {
			unique[s.name] = true
			name, shown := names.Name(s.name)
			if !shown {
				continue
			}
			p := point{measurement: "node_user", fields: map[string]any{"name": name, "started": s.started}}
			for field, value := range map[string]string{"terminal": s.terminal, "host": s.host} {
				if value != "" {
					p.fields[field] = value
				}
			}
			if s.pid > 0 {
				p.fields["pid"] = s.pid
			}
			p.id = fmt.Sprint(p.fields)
			r.points = append(r.points, p)
		}
		r.add(nil, map[string]any{"sessions": int64(len(all)), "users": int64(len(unique))})
	}
}
