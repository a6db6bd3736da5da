package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account is a user, as far as it decides what the user may read.
type account struct {
	name   string
	known  bool
	uid    uint32
	groups map[uint32]string
	// readsAll is whether the service may read whatever its modes are: CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE of
	// capabilities(7).
	readsAll bool
}

// The permissions of a class of users in a file's mode.
const (
	mayRead  = 4
	mayWrite = 2
	mayEnter = 1 // And execute.
)

// account finds out whom Telegraf runs as.
func (e *examination) account() {
	unit := e.service()
	name, from := cmp.Or(e.User, unit.user, "telegraf"), "by default"
	switch {
	case e.User != "":
		from = "as asked for"
	case unit.user != "":
		from = "by " + unit.file
	}
	e.who = account{name: name, readsAll: unit.readsAll}
	passwd, err := e.read("/etc/passwd")
	if err != nil {
		e.say(Error, "user", fmt.Sprintf("who %s is can't be read: %v", name, err), "")
		return
	}
	uid, gid, found := parsePasswd(passwd, name)
	if !found {
		e.say(Error, "user", fmt.Sprintf("there is no user %s in /etc/passwd, whom Telegraf runs as %s: what it may read can't be told", name, from),
			"useradd --system --no-create-home --home-dir /etc/telegraf --shell /bin/false "+name)
		return
	}
	groups, err := e.read("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.say(Warning, "user", fmt.Sprintf("groups can't be read: %v", err), "")
	}
	e.who.known, e.who.uid, e.who.groups = true, uid, parseGroups(groups, name, gid)
	text := fmt.Sprintf("Telegraf runs as %s %s: uid %d, groups %s", name, from, uid, e.who.groupNames())
	if e.who.readsAll {
		text += "; its service may read every file (capabilities)"
	}
	e.ok("user", text+"; what it may read is told from modes, owners and groups, not from ACLs")
}

func (a *account) groupNames() string {
	names := make([]string, 0, len(a.groups))
	for gid, name := range a.groups {
		names = append(names, cmp.Or(name, strconv.FormatUint(uint64(gid), 10)))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parsePasswd finds a user in the text of passwd(5).
func parsePasswd(text []byte, name string) (uid, gid uint32, found bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(fields) < 4 || fields[0] != name {
			continue
		}
		u, errUID := strconv.ParseUint(fields[2], 10, 32)
		g, errGID := strconv.ParseUint(fields[3], 10, 32)
		if errUID == nil && errGID == nil {
			return uint32(u), uint32(g), true
		}
	}
	return 0, 0, false
}

// parseGroups gives the groups of a user from the text of group(5), with the one that the user's own entry names.
func parseGroups(text []byte, name string, own uint32) map[uint32]string {
	groups := map[uint32]string{own: ""}
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(fields) < 4 {
			continue
		}
		gid, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			continue
		}
		if uint32(gid) == own || slices.Contains(strings.Split(fields[3], ","), name) {
			groups[uint32(gid)] = fields[0]
		}
	}
	return groups
}

// allows tells whether a file's mode gives a user a permission, as path_resolution(7) has it: the first class that fits
// decides, and root may enter what anybody may.
func (a *account) allows(s Stat, want uint32) bool {
	if a.uid == 0 || a.readsAll && want != mayWrite && (want == mayRead || s.Mode.IsDir()) {
		return true
	}
	bits := uint32(s.Mode.Perm())
	_, member := a.groups[s.GID]
	switch {
	case s.UID == a.uid:
		bits >>= 6
	case member:
		bits >>= 3
	}
	return bits&want == want
}

// barrier tells what keeps the user from a file, named as on the host; empty if nothing does. Who is not known is not kept.
func (e *examination) barrier(name string, want uint32) string {
	if !e.who.known {
		return ""
	}
	parts := strings.Split(strings.Trim(filepath.Clean(name), "/"), "/")
	at := "/"
	for i := 0; i <= len(parts); i++ {
		need := uint32(mayEnter)
		if i == len(parts) {
			need = want
		}
		s, err := e.Stat(e.path(at))
		if err != nil {
			return err.Error()
		}
		if !e.who.allows(s, need) {
			return fmt.Sprintf("%s has mode %04o, owner %d, group %d, and does not let %s %s", at, s.Mode.Perm(), s.UID, s.GID, e.who.name, verb(need, s.Mode.IsDir()))
		}
		if i < len(parts) {
			at = filepath.Join(at, parts[i])
		}
	}
	return ""
}

func verb(want uint32, folder bool) string {
	switch {
	case want == mayRead:
		return "read it"
	case want&mayWrite != 0:
		return "write there"
	case folder:
		return "in"
	}
	return "run it"
}

// unit is what Telegraf's service says of its user.
type unit struct {
	file, user string
	readsAll   bool
}

// openRC tells whether OpenRC runs the host's services (its own folder below /run).
func (e *examination) openRC() bool {
	return e.exists("/run/openrc") && !e.exists("/run/systemd/system")
}

// service gives what the host's system of services says of Telegraf.
func (e *examination) service() unit {
	if e.openRC() {
		return e.openRCService()
	}
	return e.serviceUnit()
}

const openRCSettings = "/etc/conf.d/telegraf"

// openRCService reads the settings of the service that comes with our packages.
func (e *examination) openRCService() unit {
	u := unit{file: openRCSettings}
	text, err := e.read(openRCSettings)
	if err != nil {
		return u
	}
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "telegraf_user":
			u.user, _, _ = strings.Cut(value, ":")
		case "capabilities":
			u.readsAll = strings.Contains(value, "^cap_dac_read_search") || strings.Contains(value, "^cap_dac_override")
		}
	}
	return u
}

// letReadAll gives the command that lets Telegraf and its children read every file: by the drop-in that our packages bring,
// where it is there.
func (e *examination) letReadAll() string {
	const (
		folder   = "/etc/systemd/system/telegraf.service.d"
		packaged = "/usr/share/telegraf-hpc/systemd/20-fileserver.conf"
	)
	switch {
	case e.openRC():
		// Where OpenRC was built without libcap, as Debian's, it starts no service that has capabilities.
		return `echo 'telegraf_user="root:root"' >>` + openRCSettings + " && rc-service telegraf restart" +
			`   # or capabilities="^cap_dac_read_search", where OpenRC has libcap`
	case e.exists(packaged):
		return fmt.Sprintf("install -d %[1]s && ln -sf %[2]s %[1]s/ && systemctl daemon-reload && systemctl restart telegraf", folder, packaged)
	}
	return fmt.Sprintf(`install -d %[1]s && printf '[Service]\nAmbientCapabilities=CAP_DAC_READ_SEARCH\n' >%[1]s/lustre.conf && `+
		"systemctl daemon-reload && systemctl restart telegraf", folder)
}

// serviceUnit reads systemd's unit of Telegraf with its drop-ins, the later of which win (systemd.unit(5)).
func (e *examination) serviceUnit() unit {
	var u unit
	for _, folder := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"} {
		if name := folder + "/telegraf.service"; e.readUnit(name, &u) {
			break
		}
	}
	for _, folder := range []string{"/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system", "/run/systemd/system"} {
		for _, name := range e.glob(folder + "/telegraf.service.d/*.conf") {
			e.readUnit(name, &u)
		}
	}
	return u
}

func (e *examination) readUnit(name string, u *unit) bool {
	text, err := e.read(name)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch strings.TrimSpace(key) {
		case "User":
			u.user, u.file = strings.TrimSpace(value), name
		case "AmbientCapabilities":
			u.readsAll = u.readsAll || strings.Contains(value, "CAP_DAC_READ_SEARCH") || strings.Contains(value, "CAP_DAC_OVERRIDE")
			if strings.TrimSpace(value) == "" {
				u.readsAll = false
			}
		}
	}
	return true
}

// giveToRead gives the command that lets Telegraf's user read a file, and nobody else.
func (e *examination) giveToRead(name string) string {
	return fmt.Sprintf("chgrp %s %s && chmod 0640 %s", e.who.name, name, name)
}
