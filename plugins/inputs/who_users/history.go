package who_users

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// history knows who was logged in not long ago.
type history struct {
	window time.Duration
	wtmp   string
	layout layout
	only   func(r *row) bool // whose logins count

	seen map[string]time.Time // when each user was last logged in, as far as that is within the window
	read stamp                // what wtmp was like when it was read last
}

// stamp tells whether a file has changed.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(info os.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// observe notes who is logged in now, and forgets who has not been for too long.
func (h *history) observe(sessions []session, now time.Time) {
	for i := range sessions {
		h.note(sessions[i].user, now)
	}
	for user, last := range h.seen {
		if now.Sub(last) > h.window || last.After(now) {
			delete(h.seen, user) // The latter where the clock was set back.
		}
	}
}

func (h *history) note(user string, t time.Time) {
	if h.seen == nil {
		h.seen = make(map[string]time.Time)
	}
	if t.After(h.seen[user]) {
		h.seen[user] = t
	}
}

// catchUp reads from wtmp who was logged in within the window and that nobody saw: before the plugin was started, and
// between two gathers. Without a wtmp there is nothing to read.
func (h *history) catchUp(now time.Time) error {
	f, err := openFile(h.wtmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if h.read.same(info) {
		return nil
	}
	found, err := recentUsers(f, info.Size(), h.layout, now.Add(-h.window), now, h.only)
	if err != nil {
		return err
	}
	for user, last := range found {
		h.note(user, last)
	}
	h.read.info = info
	return nil
}

const (
	// maxWindow is how many bytes of wtmp are read for the window: 43,000 records.
	maxWindow = 16 << 20
	// maxBefore is how many bytes more are read for the logins of those who have logged out in it.
	maxBefore = 4 << 20
	// entriesAtOnce are read from wtmp at once.
	entriesAtOnce = 128
)

// recentUsers reads a wtmp file backwards (wtmp(5)), and gives who was logged in between two times, with the last time
// that is known of. A record of a logout has no name: whose it is tells the login before it on the same terminal.
func recentUsers(f io.ReaderAt, size int64, l layout, from, to time.Time, only func(r *row) bool) (map[string]time.Time, error) {
	users := make(map[string]time.Time)
	open := make(map[string]time.Time) // logouts by terminal whose login has not come yet
	note := func(user string, t time.Time) {
		if t.After(users[user]) {
			users[user] = t
		}
	}
	before := int64(0)
	err := readBack(f, size, l, func(b []byte, read int64) bool {
		e := parseEntry(b, l)
		t := e.time()
		// A record that is out of its time does not end the reading.
		if !t.IsZero() && t.Before(from) && e.kind > 0 && e.kind <= accounting && before == 0 {
			before = read
		}
		switch logout, ended := open[string(e.line)], false; {
		case e.kind == bootTime:
			clear(open) // Terminals of another life.
		case e.kind == deadProcess && !t.Before(from) && !t.After(to):
			open[string(e.line)] = t
		case e.kind == userProcess:
			_, ended = open[string(e.line)]
			delete(open, string(e.line))
			r, ok := e.row()
			if !ok || r.kindOf() == pane || !only(&r) {
				break
			}
			if ended {
				note(r.user, logout)
			}
			if !t.Before(from) && !t.After(to) {
				note(r.user, t)
			}
		}
		if before > 0 {
			return len(open) > 0 && read-before < maxBefore
		}
		return read < maxWindow
	})
	return users, err
}

// readBack hands on the records of a file from the last to the first, and how many bytes have been read, until visit has
// enough. What follows the last whole record is being written.
func readBack(f io.ReaderAt, size int64, l layout, visit func(b []byte, read int64) bool) error {
	length := int64(l.size)
	end := size - size%length
	chunk := make([]byte, min(end, entriesAtOnce*length))
	for at := end; at > 0; {
		n := min(at, int64(len(chunk)))
		if _, err := f.ReadAt(chunk[:n], at-n); err != nil {
			return err
		}
		for n > 0 {
			n -= length
			at -= length
			if !visit(chunk[n:n+length], end-at) {
				return nil
			}
		}
	}
	return nil
}
