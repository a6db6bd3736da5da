package docqueue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

const (
	// trimBlocks is how many blocks of a kind one transaction removes at most.
	trimBlocks = 256
	// reserveSize is what a full disk has left for removing what was delivered: bbolt writes new pages to do so.
	reserveSize = 1 << 20
	// compactFrom is the size of a file that is made small again when it is opened with little in it.
	compactFrom = 64 << 20
)

// makeRoom sees to the limit in bytes. What is larger than the limit on its own is let into an empty queue.
func (q *Queue) makeRoom(docs []Document) error {
	if q.options.MaxBytes <= 0 {
		return nil
	}
	need := 0
	for i := range docs {
		need += recordSize(docs[i].Kind, docs[i].Body)
	}
	for {
		size := q.Size()
		if size == 0 || size+uint64(need) <= uint64(q.options.MaxBytes) {
			return nil
		}
		if !q.options.DropOldest {
			return fmt.Errorf("%w: its limit is %d bytes", ErrFull, q.options.MaxBytes) // Always the same text.
		}
		over := int(min(size+uint64(need)-uint64(q.options.MaxBytes), blockSize))
		if err := q.dropOldest(over); err != nil {
			return err
		}
	}
}

// dropOldest drops about so many bytes of the kind whose first document waits longest.
func (q *Queue) dropOldest(over int) error {
	var oldest []Entry
	for _, name := range q.Kinds() {
		head, err := q.Read(name, 0, over)
		if err != nil {
			return err
		}
		if len(head) > 0 && (oldest == nil || head[0].Time.Before(oldest[0].Time)) {
			oldest = head
		}
	}
	if oldest == nil {
		return nil // The last went out meanwhile.
	}
	last := oldest[len(oldest)-1]
	return q.move(last.Kind, mark{last.Seq, last.end}, func(k *kindState, documents uint64) { k.dropped += documents })
}

// expire drops what waits for too long.
func (q *Queue) expire() error {
	if q.options.MaxAge <= 0 {
		return nil
	}
	before := q.options.Now().Add(-q.options.MaxAge)
	for _, name := range q.Kinds() {
		for {
			entries, err := q.Read(name, 0, blockSize)
			if err != nil {
				return err
			}
			old := 0
			for old < len(entries) && entries[old].Time.Before(before) {
				old++
			}
			if old == 0 {
				break
			}
			last := entries[old-1]
			err = q.move(name, mark{last.Seq, last.end}, func(k *kindState, documents uint64) { k.expired += documents })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Maintain drops what is too old, gives the space of what was delivered back to the queue, and sees to it that a power
// cut does not make it deliver much again. It is to be called every few seconds.
func (q *Queue) Maintain() error {
	err := q.expire()
	q.writing.Lock()
	defer q.writing.Unlock()
	trimErr := q.trimAll()
	if isFull(trimErr) && q.useReserve() {
		trimErr = nil
	}
	if !isFull(trimErr) {
		q.makeReserve()
	}
	return errors.Join(err, trimErr, q.syncCursors())
}

func (q *Queue) syncCursors() error {
	q.mu.Lock()
	dirty, file := q.cursors.dirty && !q.closed, q.cursors.file
	q.cursors.dirty = false
	q.mu.Unlock()
	if !dirty {
		return nil
	}
	return file.Sync()
}

// trimAll removes what was delivered.
func (q *Queue) trimAll() error {
	for {
		trimmed := make(map[string]*kindState)
		q.mu.Lock()
		for name, k := range q.kinds {
			if k.delivered.seq > k.removed.seq {
				trimmed[name] = k.copy()
			}
		}
		q.mu.Unlock()
		if len(trimmed) == 0 {
			return nil
		}
		more := false
		err := q.update(func(tx *bbolt.Tx) error {
			for _, k := range trimmed {
				rest, err := k.trim(tx)
				if err != nil {
					return err
				}
				more = more || rest
			}
			return q.putKinds(tx, trimmed)
		})
		if err != nil {
			return fmt.Errorf("removing what was delivered: %w", err)
		}
		q.mu.Lock()
		for _, c := range trimmed {
			q.kinds[c.name].removed = c.removed
		}
		q.mu.Unlock()
		if !more {
			return nil
		}
	}
}

// trim removes blocks all of which was delivered, but not all at once. It tells whether there are more.
func (k *kindState) trim(tx *bbolt.Tx) (more bool, err error) {
	bucket := tx.Bucket([]byte(bucketBlocks)).Bucket([]byte(k.name))
	if bucket == nil {
		k.removed = k.delivered
		return false, nil
	}
	var keys [][]byte
	c := bucket.Cursor()
	key, _ := c.First()
	for key != nil && len(keys) < trimBlocks {
		next, _ := c.Next()
		last := k.committed
		if next != nil {
			last = binary.BigEndian.Uint64(next) - 1
		}
		if last > k.delivered.seq {
			break
		}
		keys = append(keys, key)
		key = next
	}
	for _, key := range keys {
		if err := bucket.Delete(key); err != nil {
			return false, err
		}
	}
	if len(keys) == trimBlocks {
		return true, nil
	}
	k.removed = k.delivered
	return false, nil
}

// makeReserve takes the reserve's space, as far as there is any.
func (q *Queue) makeReserve() {
	f, err := os.OpenFile(q.path("reserve"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // What it has got it has got.
	info, err := f.Stat()
	if err != nil || info.Size() >= reserveSize {
		return
	}
	// Not zeros: some file systems would keep them as a hole.
	text := bytes.Repeat([]byte("space for a full disk\n"), int(reserveSize-info.Size())/22+1)
	_, _ = f.WriteAt(text, info.Size()) // What does not fit has no place.
}

// useReserve removes what was delivered with the reserve's space. It tells whether that helped. Nobody else gets that
// space: it is taken again at once.
func (q *Queue) useReserve() bool {
	if os.Remove(q.path("reserve")) != nil {
		return false
	}
	err := q.trimAll()
	q.makeReserve()
	return err == nil
}

// isFull tells whether an error says that there is no space left. bbolt hands on some causes as text only.
func isFull(err error) bool {
	return err != nil && slices.ContainsFunc([]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, func(cause syscall.Errno) bool {
		return errors.Is(err, cause) || strings.Contains(err.Error(), cause.Error())
	})
}

// compact writes a large file with little in it anew: bbolt's files never shrink. Where that fails the old one stays.
func (q *Queue) compact() {
	info, err := os.Stat(q.path("queue.db"))
	if err != nil || info.Size() < compactFrom || q.Size()+trimFrom > uint64(info.Size())/8 {
		return
	}
	err = q.trimAll()
	if err == nil {
		err = q.replace(func(to *bbolt.DB) error { return bbolt.Compact(to, q.db, 1<<20) })
	}
	if err != nil {
		q.options.Warn(fmt.Errorf("making the queue's file small again: %w", err))
	}
}

// replace puts a new bbolt file in the place of the old one, which is closed.
func (q *Queue) replace(fill func(to *bbolt.DB) error) error {
	path := q.path("queue.db.new")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return err
	}
	db.NoSync = true // All of it is synced at once.
	err = fill(db)
	db.NoSync = false
	if err == nil {
		err = db.Sync()
	}
	if err == nil {
		err = os.Rename(path, q.path("queue.db"))
	}
	if err == nil {
		err = syncFolder(q.dir)
	}
	if err != nil {
		return errors.Join(err, db.Close(), os.Remove(path))
	}
	old := q.db
	q.db = db
	if old != nil {
		go func() { _ = guard(old.Close) }() // It may hang where pages are damaged.
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Inspect gives what is known of each kind of a queue that no process has open, and changes nothing.
func Inspect(dir string) (map[string]Stats, error) {
	q := &Queue{dir: dir, kinds: make(map[string]*kindState), closed: true}
	if _, err := os.Stat(q.path("queue.db")); err != nil {
		return nil, err
	}
	unlock, err := lockQueue(q.path("lock"), unix.LOCK_SH, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }()
	err = guard(func() (err error) {
		if q.db, err = bbolt.Open(q.path("queue.db"), 0o600, &bbolt.Options{ReadOnly: true}); err != nil {
			return openError(err)
		}
		return q.db.View(func(tx *bbolt.Tx) (err error) { q.kinds, err = readKinds(tx); return err })
	})
	if q.db != nil {
		defer func() { _ = guard(q.db.Close) }()
	}
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(q.path("delivered"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	marks, _ := readSlots(content)
	q.merge(marks)
	return q.Stats(), nil
}
