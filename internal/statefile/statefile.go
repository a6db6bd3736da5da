// Package statefile keeps a small state on disk: one JSON document, which one process has at a time.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/filelock"
)

// File is an open state. The zero File keeps nothing.
type File struct {
	path   string
	unlock func() error
}

// DamagedError says that a state could not be read, and where it was put for a person to look at.
type DamagedError struct {
	Path, Aside string
	Cause       error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("state %q can't be read: %v: set aside as %q", e.Path, e.Cause, e.Aside)
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Cause }

// Open locks the state of a name in a directory, which it makes, and reads it. Where there is none, the content is zero.
// The document's key version must be the one given. With a *DamagedError the state is open, too.
func Open[C any](directory, name string, version int) (f File, content C, err error) {
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return f, content, fmt.Errorf("creating the state directory: %w", err)
	}
	base := filepath.Join(directory, fileName(name))
	unlock, err := lockFile(base + ".lock")
	if err != nil {
		return f, content, err
	}
	f = File{path: base + ".json", unlock: unlock}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, content, nil
	}
	if err != nil {
		return File{}, content, errors.Join(err, f.Close())
	}
	read, err := parse[C](text, version)
	if err == nil {
		return f, read, nil
	}
	aside := f.path + ".damaged"
	if moved := os.Rename(f.path, aside); moved != nil {
		return File{}, content, errors.Join(err, moved, f.Close())
	}
	return f, content, &DamagedError{f.path, aside, err}
}

func parse[C any](text []byte, version int) (content C, err error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return content, err
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return content, err
	}
	if head.Version != version {
		return content, fmt.Errorf("version %d of the format is not %d", head.Version, version)
	}
	return content, nil
}

// fileName gives a name without what would lead out of the directory.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, name)
}

// lockFile locks a state's lock file. A process that has just been killed may have left a child that has the lock for a moment.
func lockFile(path string) (unlock func() error, err error) {
	if unlock, err = filelock.Lock(path, unix.LOCK_EX, time.Second); errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("state %q is in use by another process: %w", path, err)
	}
	return unlock, err
}

// Keeps tells whether the file keeps what is saved.
func (f *File) Keeps() bool { return f.path != "" }

// Save replaces the state, whole or not at all.
func (f *File) Save(content any) error {
	if !f.Keeps() {
		return nil
	}
	text, err := json.Marshal(content)
	if err == nil {
		err = replaceFile(f.path, text)
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

// Close lets others have the state.
func (f *File) Close() error {
	if f.unlock == nil {
		return nil
	}
	err := f.unlock()
	*f = File{}
	return err
}
