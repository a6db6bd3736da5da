// Package docqueue is a durable queue of documents. A document that was taken is on disk; it leaves the queue when it was
// delivered, or by a limit that counts it. Documents of a kind keep their order, and each kind has its own place, so that
// one that can't be delivered is in nobody's way.
//
// A folder has four files. queue.db is a bbolt file with the documents in blocks, each document with a checksum;
// delivered has how far each kind was delivered; reserve is space to go on with when the disk is full; lock is held by the
// process that has the queue. A queue.db in which something is damaged is set aside as queue.db.damaged-*, and all whole
// documents in it go on.
package docqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/filelock"
)

var (
	// ErrFull says that documents were refused because of the limit in bytes.
	ErrFull = errors.New("the queue is full")
	// ErrLocked says that another process has the queue.
	ErrLocked = errors.New("the queue is in use by another process")
	// ErrVersion says that a later version of this program wrote the queue.
	ErrVersion = errors.New("the queue was written by a later version")
)

const (
	version = 1
	// blockSize is about how many bytes of records go under one key: taking and dropping documents then costs little.
	blockSize = 64 << 10
	// trimFrom is how many delivered bytes are worth removing along with new documents.
	trimFrom = 256 << 10
)

// The buckets of queue.db.
const (
	bucketBlocks = "blocks" // per kind a bucket: first sequence number -> records
	bucketState  = "state"  // key -> value, sealed
	bucketMeta   = "meta"   // version, kinds, sealed
)

// Document is what is to be delivered.
type Document struct {
	Kind string // 1 to 64 bytes
	Body []byte // at most 16 MiB
}

// Entry is a document of the queue.
type Entry struct {
	Kind string
	Seq  uint64 // 1 for the first of the kind, then one more for each
	Time time.Time
	Body []byte

	end uint64
}

// Options are what a queue does apart from keeping documents.
type Options struct {
	MaxBytes   int64         // the most that may wait; 0 is no limit
	DropOldest bool          // what is over MaxBytes makes room by dropping the oldest; otherwise it is refused
	MaxAge     time.Duration // what waits longer is dropped; 0 is no limit
	Now        func() time.Time
	Warn       func(error) // is told of damage
}

// Stats is what is known of a kind.
type Stats struct {
	Accepted uint64    // documents ever taken
	Queued   uint64    // documents that wait
	Bytes    uint64    // of these, on disk
	Oldest   time.Time // commit of the first that waits; zero if there is none
	Dropped  uint64    // for room, since the queue was opened
	Expired  uint64    // for age, since the queue was opened
	Damaged  uint64    // set aside, since the queue was opened
}

// kindState is what the queue knows of one kind without reading.
type kindState struct {
	name                      string
	last, delivered, removed  mark
	dropped, expired, damaged uint64
	added                     chan struct{} // has one element when there may be something new
	committed                 uint64        // of a copy: the last sequence number that is in the file
}

// copy gives a copy to change.
func (k *kindState) copy() *kindState {
	c := *k
	c.committed = k.last.seq
	return &c
}

func (k *kindState) bytes() uint64 { return k.last.end - k.delivered.end }

// Queue is an open queue. Its methods may be called at the same time.
type Queue struct {
	dir     string
	options Options
	unlock  func() error

	// writing is held by who changes the bbolt file.
	writing sync.Mutex
	// using is held for writing by who replaces the bbolt file.
	using sync.RWMutex
	db    *bbolt.DB
	// searched says that what is missing in db is nowhere else. It belongs to writing.
	searched bool

	// mu guards what follows; nothing slow happens under it.
	mu      sync.Mutex
	kinds   map[string]*kindState
	cursors *cursors
	closed  bool
}

// Open opens the queue in a folder, or makes one. A damaged one is mended as far as it can be read.
func Open(dir string, o Options) (*Queue, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("creating the queue's folder: %w", err)
	}
	q := &Queue{dir: dir, options: o, kinds: make(map[string]*kindState)}
	var err error
	if q.unlock, err = lockQueue(q.path("lock"), unix.LOCK_EX, time.Second); err == nil {
		if err = q.open(); err != nil {
			err = errors.Join(err, q.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the queue in %s: %w", dir, err)
	}
	return q, nil
}

func (q *Queue) path(name string) string { return filepath.Join(q.dir, name) }

// lockQueue locks the queue's lock file.
func lockQueue(path string, how int, wait time.Duration) (unlock func() error, err error) {
	if unlock, err = filelock.Lock(path, how, wait); errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return unlock, err
}

// open does what Open does once the queue is locked.
func (q *Queue) open() error {
	var marks map[string]mark
	var err error
	if q.cursors, marks, err = openCursors(q.path("delivered")); err != nil {
		return err
	}
	var kinds map[string]*kindState
	q.db, err = openFile(q.path("queue.db"))
	if err == nil {
		err = guard(func() error {
			return q.db.View(func(tx *bbolt.Tx) (err error) { kinds, err = readKinds(tx); return err })
		})
	}
	damage, ok := errors.AsType[*damageError](err)
	if err != nil && !ok {
		return err
	}
	if err == nil {
		q.kinds = kinds
	}
	q.merge(marks)
	if damage != nil {
		if err := q.salvage(damage, false); err != nil {
			return err
		}
	}
	q.compact()
	q.makeReserve()
	return syncFolder(q.dir) // Of new files only their content is on disk yet.
}

// merge moves the kinds on to the delivered marks.
func (q *Queue) merge(marks map[string]mark) {
	for name, m := range marks {
		k := q.kind(name)
		if m.seq > k.delivered.seq {
			k.delivered = m
		}
		if k.last.seq < k.delivered.seq { // The documents' file is new.
			k.last = k.delivered
		}
	}
}

// kind gives a kind, which it makes if it is new. Who calls it holds mu or is alone.
func (q *Queue) kind(name string) *kindState {
	k := q.kinds[name]
	if k == nil {
		k = &kindState{name: name, added: make(chan struct{}, 1)}
		q.kinds[name] = k
	}
	return k
}

// openFile opens the bbolt file. A *damageError says that there is one and that it can't be used as it is.
func openFile(path string) (*bbolt.DB, error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	var db *bbolt.DB
	err := guard(func() (err error) {
		if db, err = bbolt.Open(path, 0o600, boltOptions()); err != nil {
			return err
		}
		// A queue that is there is only read, so that a full disk does not keep it from being delivered.
		if err = db.View(check); errors.Is(err, errNew) {
			err = db.Update(prepare)
		}
		return err
	})
	if err == nil {
		return db, os.Chmod(path, 0o600)
	}
	if db != nil {
		go func() { _ = guard(db.Close) }() // It may hang where pages are damaged.
	}
	return nil, openError(err)
}

// boltOptions have bbolt find its free pages anew when it opens a file: a list of them that was damaged would have it
// write over documents.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoStatistics: true}
}

var errNew = errors.New("the file is new")

// check checks the version. The first transaction of a file is the one that makes its buckets.
func check(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte(bucketMeta))
	switch {
	case meta == nil && tx.ID() <= 1:
		return errNew
	case meta == nil:
		return &damageError{errors.New("a bucket is missing")}
	}
	v, err := unseal("version", meta.Get([]byte("version")))
	if err != nil {
		return err
	}
	if n := binary.BigEndian.Uint64(v); n != version {
		return fmt.Errorf("%w: format %d, known is %d", ErrVersion, n, version)
	}
	return nil
}

// prepare makes the buckets of a new file.
func prepare(tx *bbolt.Tx) error {
	for _, name := range []string{bucketBlocks, bucketState, bucketMeta} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	meta := tx.Bucket([]byte(bucketMeta))
	return errors.Join(meta.Put([]byte("version"), seal("version", blockKey(version))), meta.Put([]byte("kinds"), seal("kinds", nil)))
}

// seal appends a checksum to a value, that of the key it is under included: a page that was damaged may have values under
// other keys, or none.
func seal(key string, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, castagnoli(append([]byte(key), value...)))
}

// unseal gives a value without its checksum.
func unseal(key string, sealed []byte) ([]byte, error) {
	at := len(sealed) - 4
	if at < 0 || castagnoli(append([]byte(key), sealed[:at]...)) != binary.BigEndian.Uint32(sealed[at:]) {
		return nil, &damageError{fmt.Errorf("%q is damaged or missing", key)}
	}
	return sealed[:at], nil
}

// readKinds reads what is known of the kinds: for each the length of its name, the name, and the marks last, delivered and
// removed. All are one value, so that none can be missing.
func readKinds(tx *bbolt.Tx) (map[string]*kindState, error) {
	rest, err := unseal("kinds", tx.Bucket([]byte(bucketMeta)).Get([]byte("kinds")))
	kinds := make(map[string]*kindState)
	for err == nil && len(rest) > 0 {
		length := 1 + int(rest[0])
		if len(rest) < length+3*markSize {
			return nil, &damageError{errors.New("the kinds are cut short")}
		}
		name, marks := string(rest[1:length]), rest[length:]
		kinds[name] = &kindState{
			name: name, last: readMark(marks), delivered: readMark(marks[markSize:]), removed: readMark(marks[2*markSize:]),
			added: make(chan struct{}, 1),
		}
		rest = marks[3*markSize:]
	}
	return kinds, err
}

// putKinds writes what is known of the kinds, with some of them changed.
func (q *Queue) putKinds(tx *bbolt.Tx, changed map[string]*kindState) error {
	q.mu.Lock()
	all := maps.Clone(q.kinds)
	maps.Copy(all, changed)
	var text []byte
	for name, k := range all {
		text = append(append(text, byte(len(name))), name...)
		text = k.removed.append(k.delivered.append(k.last.append(text)))
	}
	q.mu.Unlock()
	return tx.Bucket([]byte(bucketMeta)).Put([]byte("kinds"), seal("kinds", text))
}

// Append commits documents and state, all or nothing. When it returns nil they are on disk. State without a value is
// removed. With ErrFull, and with the error of a full disk, it may be tried again later.
func (q *Queue) Append(docs []Document, state map[string][]byte) error {
	for i := range docs {
		if err := checkDocument(&docs[i]); err != nil {
			return err
		}
	}
	if err := q.makeRoom(docs); err != nil {
		return err
	}
	q.writing.Lock()
	defer q.writing.Unlock()
	err := q.commit(docs, state)
	if isFull(err) && q.useReserve() {
		err = q.commit(docs, state)
	}
	if damage, ok := errors.AsType[*damageError](err); ok {
		if err = q.salvage(damage, true); err == nil {
			err = q.commit(docs, state)
		}
	}
	if err != nil {
		return fmt.Errorf("writing to the queue: %w", err)
	}
	return nil
}

// commit is the transaction of Append.
func (q *Queue) commit(docs []Document, state map[string][]byte) error {
	changed, now := make(map[string]*kindState), q.options.Now().UnixNano()
	blocks := q.blocks(docs, now, changed)
	err := q.update(func(tx *bbolt.Tx) error {
		for _, k := range changed {
			if k.delivered.end-k.removed.end >= trimFrom {
				if _, err := k.trim(tx); err != nil {
					return err
				}
			}
		}
		for _, b := range blocks {
			if err := b.put(tx); err != nil {
				return err
			}
		}
		return errors.Join(q.putKinds(tx, changed), putState(tx, state))
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, c := range changed {
		k := q.kind(name)
		k.last, k.removed = c.last, c.removed
		k.signal()
	}
	return nil
}

func (k *kindState) signal() {
	select {
	case k.added <- struct{}{}:
	default:
	}
}

// block is what goes under one key.
type block struct {
	kind  string
	first uint64
	data  []byte
}

// blocks makes records of documents, and puts copies of the kinds as they will be into changed.
func (q *Queue) blocks(docs []Document, now int64, changed map[string]*kindState) []*block {
	q.mu.Lock()
	defer q.mu.Unlock()
	var blocks []*block
	open := make(map[string]*block)
	for i := range docs {
		d := &docs[i]
		k := changed[d.Kind]
		if k == nil {
			k = q.kind(d.Kind).copy()
			changed[d.Kind] = k
		}
		size := recordSize(d.Kind, d.Body)
		k.last.seq++
		k.last.end += uint64(size)
		b := open[d.Kind]
		if b == nil || len(b.data)+size > blockSize {
			b = &block{kind: d.Kind, first: k.last.seq}
			open[d.Kind] = b
			blocks = append(blocks, b)
		}
		b.data = appendRecord(b.data, &record{k.last.seq, now, k.last.end, d.Kind, d.Body})
	}
	return blocks
}

func (b *block) put(tx *bbolt.Tx) error {
	bucket, err := tx.Bucket([]byte(bucketBlocks)).CreateBucketIfNotExists([]byte(b.kind))
	if err != nil {
		return err
	}
	bucket.FillPercent = 0.95 // Keys only ever come behind the last.
	return bucket.Put(blockKey(b.first), b.data)
}

func putState(tx *bbolt.Tx, state map[string][]byte) error {
	bucket := tx.Bucket([]byte(bucketState))
	for key, value := range state {
		var err error
		if value == nil {
			err = bucket.Delete([]byte(key))
		} else {
			err = bucket.Put([]byte(key), seal(key, slices.Clone(value)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// State gives all of the state whose keys begin so. What is damaged is left out.
func (q *Queue) State(prefix string) (map[string][]byte, error) {
	state := make(map[string][]byte)
	err := q.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(bucketState)).Cursor()
		for k, v := c.Seek([]byte(prefix)); k != nil && len(k) >= len(prefix) && string(k[:len(prefix)]) == prefix; k, v = c.Next() {
			if value, err := unseal(string(k), v); err != nil {
				q.options.Warn(fmt.Errorf("the state is left out: %w", err))
			} else {
				state[string(k)] = slices.Clone(value)
			}
		}
		return nil
	})
	return state, err
}

// Kinds gives the names of all kinds that the queue ever had, sorted.
func (q *Queue) Kinds() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.kinds))
}

// Added gives a channel that has an element after documents of the kind were added.
func (q *Queue) Added(kind string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.kind(kind).added
}

// Stats gives what is known of each kind.
func (q *Queue) Stats() map[string]Stats {
	q.mu.Lock()
	stats := make(map[string]Stats, len(q.kinds))
	for name, k := range q.kinds {
		stats[name] = k.stats()
	}
	q.mu.Unlock()
	for name, s := range stats {
		if s.Queued > 0 {
			s.Oldest = q.oldest(name)
			stats[name] = s
		}
	}
	return stats
}

func (k *kindState) stats() Stats {
	return Stats{
		Accepted: k.last.seq, Queued: k.last.seq - k.delivered.seq, Bytes: k.bytes(),
		Dropped: k.dropped, Expired: k.expired, Damaged: k.damaged,
	}
}

// Size gives how many bytes wait.
func (q *Queue) Size() (bytes uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.kinds {
		bytes += k.bytes()
	}
	return bytes
}

// Close lets others have the queue.
func (q *Queue) Close() error {
	q.writing.Lock()
	defer q.writing.Unlock()
	q.using.Lock()
	defer q.using.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	var err error
	if q.cursors != nil {
		err = errors.Join(q.cursors.file.Sync(), q.cursors.file.Close())
	}
	if q.db != nil {
		err = errors.Join(err, guard(q.db.Close))
	}
	return errors.Join(err, q.unlock())
}
