package who_users

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxUtmp is the longest utmp in bytes that is read: more than 40,000 logins.
const maxUtmp = 16 << 20

// absentError says that what a method asks is not on the host.
type absentError struct{ error }

// Unwrap gives why it seems so.
func (e absentError) Unwrap() error { return e.error }

func isAbsent(err error) bool { return errors.As(err, new(absentError)) }

// answer is what a method gave.
type answer struct {
	sessions []session
	stale    int64            // rows of sessions whose process or terminal is gone
	refused  int64            // records that can't be read
	visitors map[visitor]bool // those who logged in since the last answer, where somebody told of it
}

// visitor is somebody who logged in, and may have left.
type visitor struct {
	user   string
	remote bool
}

// utmp reads the sessions from a utmp file.
type utmp struct {
	path   string
	layout layout
	trust  bool // whether the processes are not ours to see
	alive  func(pid int32) bool
	host   terminals
}

func (u *utmp) list(_ context.Context, now time.Time) (answer, error) {
	b, err := readFile(u.path, maxUtmp)
	if errors.Is(err, fs.ErrNotExist) {
		return answer{}, absentError{fmt.Errorf("reading %s: %w", u.path, err)}
	}
	if err != nil {
		return answer{}, fmt.Errorf("reading %s: %w", u.path, err)
	}
	rows, refused := parseUtmp(b, u.layout)
	if err := readable(rows, refused); err != nil {
		return answer{}, fmt.Errorf("reading %s: %w", u.path, err)
	}
	a := answer{refused: int64(refused)}
	if !u.trust {
		there := rows[:0]
		for _, r := range rows {
			if u.alive(r.pid) && !u.host.gone(r.line) {
				there = append(there, r)
			}
		}
		a.stale = int64(len(rows) - len(there))
		rows = there
	}
	a.sessions = sessionsOf(rows, func(line string) time.Duration { return u.host.idle(line, now) })
	return a, nil
}

// readable tells of what has logins none of which can be read. Nobody knows who is there then: that is not nobody.
func readable(rows []row, refused int) error {
	if len(rows) > 0 || refused == 0 {
		return nil
	}
	return fmt.Errorf("none of %d records can be read: is it of this kind of machine?", refused)
}

func (*utmp) close() {}

// readFile reads a file of which anybody may have made something else.
func readFile(path string, most int64) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("longer than %d bytes", most)
	}
	return b, nil
}

// openFile opens a regular file. A pipe in its place must not make the plugin wait.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, cause(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = f.Close() // It was only looked at.
		return nil, err
	}
	return f, nil
}

// cause leaves out the path, which the caller names.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// isAlive tells whether there is a process (kill(2)). One that may not be asked is there.
func isAlive(pid int32) bool { return !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) }

// terminals are the terminals of a host, below /dev in its root folder.
type terminals struct{ root string }

// path gives that of a terminal, unless what utmp has is none.
func (t terminals) path(line string) (string, bool) {
	if line == "" || !filepath.IsLocal(line) {
		return "", false
	}
	return filepath.Join(t.root, "dev", line), true
}

// gone tells that a pseudo-terminal is no more. Without the host's devpts (pts(4)) nobody knows.
func (t terminals) gone(line string) bool {
	path, ok := t.path(line)
	if !ok || !strings.HasPrefix(line, "pts/") {
		return false
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err := os.Lstat(filepath.Join(t.root, "dev/pts/ptmx"))
	return err == nil
}

// idle gives how long nobody has typed at a terminal: since it was last read from, as w(1) and who(1) have it.
func (t terminals) idle(line string, now time.Time) time.Duration {
	path, ok := t.path(line)
	if !ok {
		return unknown
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unknown
	}
	return max(now.Sub(time.Unix(stat.Atim.Unix())), 0)
}
