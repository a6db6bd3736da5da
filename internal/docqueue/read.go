package docqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Read gives documents of a kind that were not delivered yet, the oldest first: at most so many, and bytes of them, but
// at least one if there is any; 0 is no limit. Reading again gives the same ones.
func (q *Queue) Read(kind string, most, bytes int) ([]Entry, error) {
	for {
		r := q.reader(kind, most, bytes)
		err := q.view(r.read)
		if damage, ok := errors.AsType[*damageError](err); ok {
			if err := q.mend(damage); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(r.entries) > 0 || r.damage == nil {
			return r.entries, nil
		}
		if err := q.skip(kind, r.damage); err != nil {
			return nil, err
		}
	}
}

// gap is a range of documents that can't be read.
type gap struct {
	from    uint64 // the first sequence number
	to      mark   // the last
	damaged bool   // something else stands in their place
}

// reader reads documents of one kind in order, up to the first that can't be read.
type reader struct {
	kind    string
	next    uint64 // the sequence number that comes next
	last    mark
	most    int
	room    int // bytes
	entries []Entry
	bad     bool // something in front of next can't be read
	damage  *gap
}

func (q *Queue) reader(name string, most, bytes int) *reader {
	if bytes <= 0 {
		bytes = math.MaxInt
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.kind(name)
	return &reader{kind: name, next: k.delivered.seq + 1, last: k.last, most: most, room: bytes}
}

func (r *reader) read(tx *bbolt.Tx) error {
	if r.next > r.last.seq {
		return nil
	}
	if bucket := tx.Bucket([]byte(bucketBlocks)).Bucket([]byte(r.kind)); bucket != nil {
		c := bucket.Cursor()
		key, data := c.Seek(blockKey(r.next))
		switch { // It is in the block before, if anywhere.
		case key == nil:
			key, data = c.Last()
		case binary.BigEndian.Uint64(key) > r.next:
			if key, data = c.Prev(); key == nil {
				key, data = c.First()
			}
		}
		for ; key != nil; key, data = c.Next() {
			if !r.block(data) {
				return nil
			}
		}
	}
	if r.next <= r.last.seq && len(r.entries) == 0 {
		r.damage = &gap{r.next, r.last, r.bad}
	}
	return nil
}

// block reads what is under one key. It tells whether to go on.
func (r *reader) block(data []byte) bool {
	for len(data) > 0 {
		rec, size, err := readRecord(data)
		if err != nil {
			size = nextRecord(data)
			r.bad = true
			data = data[size:]
			continue
		}
		data = data[size:]
		switch {
		case rec.seq < r.next:
			r.bad = false
			continue
		case rec.seq > r.last.seq:
			return false
		case rec.seq > r.next:
			if len(r.entries) == 0 {
				r.damage = &gap{r.next, mark{rec.seq - 1, rec.end - uint64(size)}, r.bad}
			}
			return false
		}
		if !r.take(&rec, size) {
			return false
		}
	}
	return true
}

// take keeps a document, unless that would be too many.
func (r *reader) take(rec *record, size int) bool {
	if n := len(r.entries); n > 0 && (n == r.most || size > r.room) {
		return false
	}
	r.room -= size
	r.entries = append(r.entries, Entry{r.kind, rec.seq, time.Unix(0, rec.time), slices.Clone(rec.body), rec.end})
	r.next++
	return true
}

// oldest gives when the first document that waits was committed; zero where it can't be read.
func (q *Queue) oldest(kind string) time.Time {
	r := q.reader(kind, 1, 0)
	if err := q.view(r.read); err != nil || len(r.entries) == 0 {
		return time.Time{}
	}
	return r.entries[0].Time
}

// Delivered takes a document, and all of its kind before it, out of the queue.
func (q *Queue) Delivered(e *Entry) error {
	return q.move(e.Kind, mark{e.Seq, e.end}, func(*kindState, uint64) {})
}

// move moves the delivered mark of a kind forward, and hands on by how many documents.
func (q *Queue) move(name string, to mark, count func(k *kindState, documents uint64)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.kind(name)
	if to.seq <= k.delivered.seq || q.closed {
		return nil
	}
	count(k, to.seq-k.delivered.seq)
	k.delivered = to
	if err := q.cursors.set(name, to); err != nil {
		return fmt.Errorf("writing how far kind %q was delivered: %w", name, err)
	}
	return nil
}

// Waits tells whether a document is still in the queue: neither delivered nor dropped.
func (q *Queue) Waits(e *Entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.Seq > q.kind(e.Kind).delivered.seq
}

// skip goes on behind documents that can't be read, once it is sure that they are nowhere in the file.
func (q *Queue) skip(kind string, g *gap) error {
	q.writing.Lock()
	defer q.writing.Unlock()
	if !q.Waits(&Entry{Kind: kind, Seq: g.from}) {
		return nil // It was dropped while it was read.
	}
	lost := fmt.Errorf("%d documents of kind %q can't be read, from number %d on", g.to.seq-g.from+1, kind, g.from)
	if g.damaged || !q.searched {
		return q.salvage(lost, true)
	}
	q.options.Warn(fmt.Errorf("%w: they are lost", lost))
	return q.move(kind, g.to, func(k *kindState, documents uint64) { k.damaged += documents })
}
