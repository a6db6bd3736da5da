package who_users

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// layout tells where the parts of a record of utmp and wtmp are (utmp(5); glibc's bits/utmp.h). They are the same up to
// the exit status of a process; what follows depends on how long a long is said to be.
type layout struct {
	size    int // of a record, bytes
	seconds int // where the time is
	wide    bool
}

// layoutOf gives that of an architecture by Go's name. Most 64-bit ones keep the 32-bit times of their predecessors, for
// programs of both kinds to share the files; those without predecessors do not (glibc's __WORDSIZE_TIME64_COMPAT32).
func layoutOf(architecture string) layout {
	switch architecture {
	case "arm64", "loong64":
		return layout{size: 400, seconds: 344, wide: true}
	}
	return layout{size: 384, seconds: 340}
}

// The kinds of records (utmp(5), ut_type).
const (
	bootTime    = 2
	userProcess = 7
	deadProcess = 8
	accounting  = 9 // The last of them.
)

// entry is a record of utmp or wtmp. Its texts are parts of what was read, and may hold any bytes.
type entry struct {
	kind    int16
	pid     int32
	line    []byte
	user    []byte // At most 32 bytes: a longer name is cut.
	host    []byte
	seconds int64 // since 1970
	micros  int64
}

// parseEntry reads a record; b must hold as many bytes as the layout says.
func parseEntry(b []byte, l layout) entry {
	e := entry{
		kind: int16(binary.NativeEndian.Uint16(b)), pid: int32(binary.NativeEndian.Uint32(b[4:])),
		line: text(b[8:40]), user: text(b[44:76]), host: text(b[76:332]),
	}
	if l.wide {
		e.seconds, e.micros = int64(binary.NativeEndian.Uint64(b[l.seconds:])), int64(binary.NativeEndian.Uint64(b[l.seconds+8:]))
	} else {
		// Read as unsigned, 32 bits last until 2106: what the kernel's clock has after 2038 is written with its high bits cut.
		e.seconds, e.micros = int64(binary.NativeEndian.Uint32(b[l.seconds:])), int64(binary.NativeEndian.Uint32(b[l.seconds+4:]))
	}
	return e
}

// text gives what is before the first zero byte.
func text(b []byte) []byte {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		return b[:end]
	}
	return b
}

// row is a login as utmp and who(1) show it.
type row struct {
	user  string
	line  string // the terminal below /dev, or an X display such as :0
	host  string // where the user comes from; empty for a local login
	pid   int32  // 0 where it is not known
	since time.Time
}

// parseUtmp gives the logins of a utmp file. Refused are records that can't be one, and a last one that is not whole.
func parseUtmp(b []byte, l layout) (rows []row, refused int) {
	for ; len(b) >= l.size; b = b[l.size:] {
		e := parseEntry(b, l)
		if e.kind != userProcess {
			if e.kind < 0 || e.kind > accounting {
				refused++
			}
			continue
		}
		if r, ok := e.row(); ok {
			rows = append(rows, r)
		} else {
			refused++
		}
	}
	if len(b) > 0 {
		refused++
	}
	return rows, refused
}

// row gives the login that an entry tells of, if it can be one.
func (e entry) row() (row, bool) {
	r := row{user: e.name(), line: printable(string(e.line)), host: printable(string(e.host)), pid: e.pid, since: e.time()}
	return r, validUser(r.user) && r.line != "" && r.pid > 0
}

// name gives the user's name, without what was left of a character when it was cut.
func (e entry) name() string {
	name := string(e.user)
	if len(name) < 32 || utf8.ValidString(name) {
		return name
	}
	for n := len(name) - 1; n >= len(name)-utf8.UTFMax; n-- {
		if utf8.RuneStart(name[n]) {
			return name[:n]
		}
	}
	return name
}

// time gives when the entry was written; the zero time where it can't be so.
func (e entry) time() time.Time {
	if e.seconds <= 0 || e.seconds > 1<<33 || e.micros < 0 || e.micros >= 1e6 {
		return time.Time{}
	}
	return time.Unix(e.seconds, e.micros*1000)
}

// validUser tells whether a text can be the name of a user. A first dash would make it an option of getent.
func validUser(name string) bool {
	if name == "" || name[0] == '-' || !utf8.ValidString(name) || strings.ContainsAny(name, ":/") {
		return false
	}
	return !strings.ContainsFunc(name, unicode.IsControl) && strings.TrimSpace(name) == name
}

// printable gives a text with a replacement for what no text should have.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// parseWho gives the logins in the output of who(1), or of a command that prints as much of a line as it knows: user,
// terminal, date and time, and in parentheses where the user comes from. Refused are lines without a user.
func parseWho(b []byte, now time.Time) (rows []row, refused int) {
	for line := range bytes.Lines(b) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		if !validUser(fields[0]) {
			refused++
			continue
		}
		r := row{user: fields[0]}
		if last := fields[len(fields)-1]; len(fields) > 1 && strings.HasSuffix(last, ")") {
			whole := strings.TrimSpace(string(line))
			if at := strings.LastIndex(whole, " ("); at > 0 {
				r.host = printable(whole[at+2 : len(whole)-1])
				fields = strings.Fields(whole[:at])
			}
		}
		if len(fields) > 1 {
			r.line = printable(fields[1])
			r.since = whoTime(fields[2:], now)
		}
		rows = append(rows, r)
	}
	return rows, refused
}

// whoTime reads the time of a login as coreutils' who prints it: with a year, or as the C locale has it without. Other
// columns may follow.
func whoTime(fields []string, now time.Time) time.Time {
	if len(fields) >= 2 {
		if t, err := time.ParseInLocation("2006-01-02 15:04", fields[0]+" "+fields[1], now.Location()); err == nil {
			return t
		}
	}
	if len(fields) < 3 {
		return time.Time{}
	}
	for year := now.Year() + 1; year >= now.Year()-8; year-- { // 29 February is not in every year.
		value := strconv.Itoa(year) + " " + strings.Join(fields[:3], " ")
		t, err := time.ParseInLocation("2006 Jan _2 15:04", value, now.Location())
		if err == nil && !t.After(now.Add(24*time.Hour)) {
			return t
		}
	}
	return time.Time{}
}

// primaryGroups gives the ids of the primary groups of users, as far as a file like /etc/passwd knows them (passwd(5)).
func primaryGroups(b []byte, users map[string]bool) map[string]string {
	groups := make(map[string]string)
	for line := range bytes.Lines(b) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 5)
		if len(fields) < 4 || !users[fields[0]] {
			continue
		}
		if _, known := groups[fields[0]]; !known { // The first one counts, as it does for getpwnam(3).
			groups[fields[0]] = fields[3]
		}
	}
	return groups
}

// group is an entry of a file like /etc/group (group(5)).
type group struct {
	id      string
	members []string
}

// parseGroups gives those of the groups that are asked for.
func parseGroups(b []byte, names map[string]bool) map[string]group {
	groups := make(map[string]group)
	for line := range bytes.Lines(b) {
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(fields) != 4 || !names[fields[0]] || fields[2] == "" {
			continue
		}
		if _, known := groups[fields[0]]; known {
			continue
		}
		groups[fields[0]] = group{id: fields[2], members: strings.FieldsFunc(fields[3], func(r rune) bool { return r == ',' })}
	}
	return groups
}

// parseInitgroups gives the ids of the groups that each user is in, from the output of getent initgroups: a line for each
// user that was asked for, in the same order. It tells false where the output is not that.
func parseInitgroups(b []byte, users []string) (map[string][]string, bool) {
	groups := make(map[string][]string, len(users))
	i := 0
	for line := range bytes.Lines(b) {
		if i == len(users) {
			return nil, false
		}
		ids, ok := strings.CutPrefix(string(line), users[i])
		if !ok {
			return nil, false
		}
		groups[users[i]] = strings.Fields(ids)
		i++
	}
	return groups, i == len(users)
}
