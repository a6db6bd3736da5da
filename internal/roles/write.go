package roles

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Writer puts files into a folder.
type Writer struct {
	Folder string
	// Force is whether files that are there are overwritten.
	Force bool
	// GID is the group that may read them; negative leaves it as it is.
	GID int
	// Mode is who may read them: 0 stands for 0640.
	Mode fs.FileMode
}

// Write writes all files, or none where one is there already with another text, unless that is the text our packages bring,
// which nobody has changed. It gives those that were written, in the order they came in. Each appears whole, by a rename.
func (w *Writer) Write(files []File) (written []string, err error) {
	var missing []File
	replace := make(map[string]bool)
	for i := range files {
		f := &files[i]
		old, err := os.ReadFile(f.Path(w.Folder))
		switch {
		case err == nil && bytes.Equal(old, []byte(f.Text)):
			continue
		case err == nil && (w.Force || packaged(f.Name, old)):
			replace[f.Name] = true
		case err == nil:
			return nil, fmt.Errorf("%s is there already, with another text: --force overwrites it", f.Path(w.Folder))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		missing = append(missing, *f)
	}
	for i := range missing {
		if err := w.write(&missing[i], w.Force || replace[missing[i].Name]); err != nil {
			return written, err
		}
		written = append(written, missing[i].Path(w.Folder))
	}
	return written, nil
}

// packaged tells whether a file's text is the one that our packages bring.
func packaged(name string, text []byte) bool {
	brought, err := sample(strings.TrimSuffix(name, ".conf"))
	return err == nil && string(text) == brought
}

func (w *Writer) write(f *File, replace bool) (err error) {
	path := f.Path(w.Folder)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // As Telegraf's own packages have it.
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".telegraf-hpc-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // Fails once it has its name.
	_, err = temporary.WriteString(f.Text)
	if err == nil {
		err = temporary.Chmod(cmp.Or(w.Mode, 0o640))
	}
	if err == nil && w.GID >= 0 {
		err = temporary.Chown(-1, w.GID)
	}
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return rename(temporary.Name(), path, replace)
}

// rename gives a file its name. Without replace it takes nobody's place, not even of one that was written meanwhile.
func rename(from, to string, replace bool) error {
	if replace {
		return os.Rename(from, to)
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // Not on every file system; link(2) is.
		err = os.Link(from, to)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}
