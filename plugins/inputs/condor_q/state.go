package condor_q

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stateVersion is the version of the state's format.
const stateVersion = 1

// stateFile keeps the cursor of one schedd's history over restarts.
type stateFile struct {
	path string // "" where nothing is kept
	lock *os.File
}

// stateContent is the state as it is on disk.
type stateContent struct {
	Version int `json:"version"`
	cursor
}

// damaged says that a state could not be read, and where it was put for a person to look at.
type damagedError struct {
	path, aside string
	cause       error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("state %q can't be read: %v: set aside as %q", e.path, e.cause, e.aside)
}

func (e *damagedError) Unwrap() error { return e.cause }

// openState locks the state of a schedd and reads it. Where there is none, the cursor is zero. With a *damagedError the
// state is open, too.
func openState(folder, pool, schedd string) (s stateFile, c cursor, err error) {
	if folder == "" {
		return s, c, nil
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return s, c, fmt.Errorf("creating the state directory: %w", err)
	}
	base := filepath.Join(folder, fileName(pool+"-"+schedd))
	lock, err := lockFile(base + ".lock")
	if err != nil {
		return s, c, err
	}
	s = stateFile{path: base + ".json", lock: lock}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, c, nil
	}
	if err != nil {
		return stateFile{}, c, errors.Join(err, s.close())
	}
	var content stateContent
	err = json.Unmarshal(text, &content)
	if err == nil && content.Version != stateVersion {
		err = fmt.Errorf("version %d of the format is not %d", content.Version, stateVersion)
	}
	if err != nil {
		aside := s.path + ".damaged"
		if moved := os.Rename(s.path, aside); moved != nil {
			return stateFile{}, c, errors.Join(err, moved, s.close())
		}
		return s, c, &damagedError{s.path, aside, err}
	}
	return s, content.cursor, nil
}

// fileName gives a name without what would lead out of the folder.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, "schedd-"+name)
}

// lockFile locks a file until it is closed, which the end of the process does too.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state %q is in use by another process: %w", path, err), f.Close())
	}
	return f, nil
}

// save replaces the state, whole or not at all.
func (s *stateFile) save(c *cursor) error {
	if s.path == "" {
		return nil
	}
	text, err := json.Marshal(stateContent{stateVersion, *c})
	if err == nil {
		err = replaceFile(s.path, text)
	}
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, text []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// close lets others have the state.
func (s *stateFile) close() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	*s = stateFile{}
	return err
}
