package docqueue

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// damageError says that the bbolt file is not as it was written.
type damageError struct{ cause error }

func (e *damageError) Error() string { return fmt.Sprintf("queue.db is damaged: %v", e.cause) }
func (e *damageError) Unwrap() error { return e.cause }

// guard calls what reads a bbolt file. bbolt checks its two first pages only, and panics or reads beyond the file where
// others are damaged: that is a *damageError.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &damageError{fmt.Errorf("%v", p)}
		}
	}()
	return f()
}

func (q *Queue) view(f func(tx *bbolt.Tx) error) error {
	q.using.RLock()
	defer q.using.RUnlock()
	return guard(func() error { return q.db.View(f) })
}

func (q *Queue) update(f func(tx *bbolt.Tx) error) error {
	q.using.RLock()
	defer q.using.RUnlock()
	return guard(func() error { return q.db.Update(f) })
}

func openError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrChecksum):
		return &damageError{err}
	default:
		return err
	}
}

// mend is salvage for those that do not write.
func (q *Queue) mend(damage error) error {
	q.writing.Lock()
	defer q.writing.Unlock()
	return q.salvage(damage, true)
}

// salvage sets the bbolt file aside, and makes a new one with all whole documents that are found in it; where the kinds
// are known, with none that they don't have. Who calls it holds writing.
func (q *Queue) salvage(damage error, known bool) error {
	q.using.Lock()
	defer q.using.Unlock()
	aside := fmt.Sprintf("queue.db.damaged-%d", q.options.Now().UnixNano())
	path := q.path("queue.db")
	var all []found
	state := q.readState()
	err := mapped(path, func(content []byte) error {
		all = q.search(content, known)
		if err := os.Link(path, q.path(aside)); err != nil {
			return err
		}
		return q.replace(func(to *bbolt.DB) error { return q.fill(to, content, all, state) })
	})
	if err != nil {
		return errors.Join(damage, fmt.Errorf("mending it: %w", err))
	}
	q.options.Warn(fmt.Errorf("%w: set aside as %s; %d documents were found in it", damage, q.path(aside), len(all)))
	q.searched = true
	q.forgetAsides()
	return nil
}

// asidesKept is how many damaged files are kept for somebody to look at.
const asidesKept = 3

func (q *Queue) forgetAsides() {
	asides, err := filepath.Glob(q.path("queue.db.damaged-*"))
	if err != nil || len(asides) <= asidesKept {
		return
	}
	slices.Sort(asides) // By the time in their names.
	for _, old := range asides[:len(asides)-asidesKept] {
		_ = os.Remove(old)
	}
}

// readState reads the state of a damaged file as far as that goes.
func (q *Queue) readState() map[string][]byte {
	state := make(map[string][]byte)
	db := q.db
	if db == nil { // Where one of its two first pages is well, bbolt can read it as it was before.
		err := guard(func() (err error) {
			db, err = bbolt.Open(q.path("queue.db"), 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
			return err
		})
		if err != nil {
			return state
		}
		defer func() { go func() { _ = guard(db.Close) }() }()
	}
	_ = guard(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bucketState)).ForEach(func(k, v []byte) error {
				if value, err := unseal(string(k), v); err == nil {
					state[string(k)] = slices.Clone(value)
				}
				return nil
			})
		})
	})
	return state
}

// mapped hands on a file as memory that takes no space.
func mapped(path string, use func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // It was only read.
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return use(nil)
	}
	content, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(content) }()
	return guard(func() error { return use(content) })
}

// found is where a file has a document.
type found struct {
	kind *kindState
	seq  uint64
	time int64
	at   int
}

// search finds each document that was not delivered yet, in order. bbolt leaves old pages in its file, so there may be
// several of one number: the latest counts.
func (q *Queue) search(content []byte, known bool) []found {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []found
	for at := 0; at < len(content); {
		next := bytes.Index(content[at:], []byte(magic))
		if next < 0 {
			break
		}
		at += next
		rec, size, err := readRecord(content[at:])
		if err != nil || rec.kind == "" || len(rec.kind) > longestKind {
			at += len(magic)
			continue
		}
		if k := q.kind(rec.kind); rec.seq > k.delivered.seq && (!known || rec.seq <= k.last.seq) {
			all = append(all, found{k, rec.seq, rec.time, at})
		}
		at += size
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.kind.name, b.kind.name), cmp.Compare(a.seq, b.seq), cmp.Compare(b.time, a.time))
	})
	return slices.CompactFunc(all, func(a, b found) bool { return a.kind == b.kind && a.seq == b.seq })
}

// fill puts documents into a new file.
func (q *Queue) fill(to *bbolt.DB, content []byte, all []found, state map[string][]byte) error {
	err := to.Update(func(tx *bbolt.Tx) error {
		return errors.Join(prepare(tx), putState(tx, state))
	})
	for batch := range slices.Chunk(all, 1000) {
		err = errors.Join(err, to.Update(func(tx *bbolt.Tx) error { return putFound(tx, content, batch) }))
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	for _, f := range all {
		rec, _, err := readRecord(content[f.at:])
		if err == nil && rec.seq >= f.kind.last.seq {
			f.kind.last = mark{rec.seq, rec.end}
		}
	}
	for _, k := range q.kinds {
		k.removed = k.delivered
		k.signal()
	}
	q.mu.Unlock()
	return to.Update(func(tx *bbolt.Tx) error { return q.putKinds(tx, nil) })
}

// putFound makes blocks of documents that follow each other.
func putFound(tx *bbolt.Tx, content []byte, batch []found) error {
	var b *block
	flush := func() error {
		if b == nil {
			return nil
		}
		return b.put(tx)
	}
	next := uint64(0)
	for _, f := range batch {
		_, size, err := readRecord(content[f.at:])
		if err != nil {
			return err // It changed under us.
		}
		if b == nil || b.kind != f.kind.name || f.seq != next || len(b.data)+size > blockSize {
			if err := flush(); err != nil {
				return err
			}
			b = &block{kind: f.kind.name, first: f.seq}
		}
		b.data = append(b.data, content[f.at:f.at+size]...)
		next = f.seq + 1
	}
	return flush()
}
