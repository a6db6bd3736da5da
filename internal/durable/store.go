package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

var (
	// ErrLocked says that another process has the store open.
	ErrLocked = errors.New("the state is in use by another process")
	// ErrVersion says that the state was written by a later version.
	ErrVersion = errors.New("the state was written by a later version")

	errNew = errors.New("the state is new")
)

// Format is what a store has in it. The bucket "meta" holds the version.
type Format struct {
	Version uint64 // a store of another one is refused, never guessed at
	Buckets []string
}

// OpenStore opens a bbolt file, and makes one if there is none. A damaged one is set aside: then there is a warning, and
// the store is empty.
func OpenStore(path string, format Format) (db *bbolt.DB, warnings []error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, nil, err
	}
	for {
		db, err := format.open(path)
		if err == nil || errors.Is(err, ErrLocked) || errors.Is(err, ErrVersion) || errors.Is(err, os.ErrPermission) || len(warnings) > 0 {
			return db, warnings, err
		}
		if _, statErr := os.Stat(path); statErr != nil {
			return nil, nil, err
		}
		aside := fmt.Sprintf("%s.damaged-%d", path, time.Now().UnixNano())
		if renameErr := os.Rename(path, aside); renameErr != nil {
			return nil, nil, errors.Join(err, renameErr)
		}
		warnings = append(warnings, fmt.Errorf("%s is damaged (%w) and was set aside as %s: totals start again from the log", path, err, aside))
	}
}

func (f *Format) open(path string) (db *bbolt.DB, err error) {
	// A file that was cut short faults when it is read through memory: an error here, not the end of the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("reading it: %v", p)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		if strings.Contains(err.Error(), "timeout") {
			return nil, ErrLocked
		}
		return nil, err
	}
	err = db.View(f.check)
	if errors.Is(err, errNew) {
		// A new one. One that is there is only read, so that a full disk is no obstacle.
		err = db.Update(f.prepare)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// check checks the version, and reads every page.
func (f *Format) check(tx *bbolt.Tx) error {
	for _, name := range f.Buckets {
		b := tx.Bucket([]byte(name))
		if b == nil {
			return errNew
		}
		if err := b.ForEach(func(_, _ []byte) error { return nil }); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
	}
	if version := GetUint(tx.Bucket([]byte("meta")), "version"); version != f.Version {
		return fmt.Errorf("%w: format %d, known is %d", ErrVersion, version, f.Version)
	}
	return nil
}

// prepare makes the buckets.
func (f *Format) prepare(tx *bbolt.Tx) error {
	for _, name := range f.Buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
	}
	return PutUint(tx.Bucket([]byte("meta")), "version", f.Version)
}

// GetUint reads what PutUint wrote; 0 if there is none.
func GetUint(b *bbolt.Bucket, key string) uint64 {
	if v := b.Get([]byte(key)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// PutUint writes a number.
func PutUint(b *bbolt.Bucket, key string, v uint64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, v))
}

// LogPath gives the path of the log of a generation in a folder: log.1, log.2 ...
func LogPath(dir string, gen uint64) string { return filepath.Join(dir, fmt.Sprintf("log.%d", gen)) }

// Logs gives the generations of the logs there are in a folder, ascending.
func Logs(dir string) ([]uint64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return nil, err
	}
	var gens []uint64
	for _, name := range names {
		var gen uint64
		if n, err := fmt.Sscanf(filepath.Base(name), "log.%d", &gen); n == 1 && err == nil && LogPath(dir, gen) == name {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	return gens, nil
}

// SetLogAside keeps a copy of a damaged log for somebody to look at, since it will be folded and removed.
func SetLogAside(dir string, gen uint64) (warning, err error) {
	path, aside := LogPath(dir, gen), filepath.Join(dir, fmt.Sprintf("old-log.damaged-%d", gen))
	if err := os.Link(path, aside); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return fmt.Errorf("log %s is damaged: what it has behind the damage is lost; a copy is %s", path, aside), nil
}
