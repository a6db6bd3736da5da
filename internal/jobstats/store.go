package jobstats

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

// storeVersion is the version of the format. A store of a later one is refused, never guessed at.
const storeVersion = 1

const (
	storeName = "ledger.db"
	logPrefix = "log."
	// A log is folded into the store when it has this size, or this age: late enough that a record that changes with
	// each gather is written to the store only seldom.
	foldSize = 64 << 20
	foldAge  = time.Hour
)

// The store's buckets.
func bucketNames() []string { return []string{"meta", "ops", "entries", "old", "sums"} }

var (
	errLocked = errors.New("the state is in use by another process")
	errNew    = errors.New("the state is new")
	// ErrVersion says that the state was written by a later version.
	ErrVersion = errors.New("the state was written by a later version")
)

// store is the state on disk: what is folded, in a bbolt file, and the log behind it.
type store struct {
	dir     string
	db      *bbolt.DB
	log     *logFile
	gen     uint64 // of the log
	started time.Time
	ops     int // operations in the log or the store
	batch   []byte
	fault   faults
	written int64

	setAside bool // what was there was damaged
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *store) logPath(gen uint64) string { return s.path(fmt.Sprintf("%s%d", logPrefix, gen)) }

// open opens the bbolt file, and makes one if there is none. A damaged one is set aside.
func (s *store) open() (warnings []error, err error) {
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, err
	}
	for {
		err := s.tryOpen()
		if err == nil || errors.Is(err, errLocked) || errors.Is(err, ErrVersion) || errors.Is(err, os.ErrPermission) || len(warnings) > 0 {
			return warnings, err
		}
		path := s.path(storeName)
		if _, statErr := os.Stat(path); statErr != nil {
			return nil, err
		}
		aside := fmt.Sprintf("%s.damaged-%d", path, time.Now().UnixNano())
		if renameErr := os.Rename(path, aside); renameErr != nil {
			return nil, errors.Join(err, renameErr)
		}
		s.setAside = true
		warnings = append(warnings, fmt.Errorf("%s is damaged (%w) and was set aside as %s: totals start again from the log", path, err, aside))
	}
}

func (s *store) tryOpen() (err error) {
	// A file that was cut short faults when it is read through memory: an error here, not the end of the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading it: %v", p)
			s.db = nil
		}
	}()
	db, err := bbolt.Open(s.path(storeName), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		if strings.Contains(err.Error(), "timeout") {
			return errLocked
		}
		return err
	}
	err = db.View(check)
	if errors.Is(err, errNew) {
		// A new one. One that is there is only read, so that a full disk is no obstacle.
		err = db.Update(prepare)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db = db
	return nil
}

// check checks the version, and reads every page.
func check(tx *bbolt.Tx) error {
	for _, name := range bucketNames() {
		b := tx.Bucket([]byte(name))
		if b == nil {
			return errNew
		}
		if err := b.ForEach(func(_, _ []byte) error { return nil }); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
	}
	if version := getUint(tx.Bucket([]byte("meta")), "version"); version != storeVersion {
		return fmt.Errorf("%w: format %d, known is %d", ErrVersion, version, storeVersion)
	}
	return nil
}

// prepare makes the buckets.
func prepare(tx *bbolt.Tx) error {
	for _, name := range bucketNames() {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
	}
	return putUint(tx.Bucket([]byte("meta")), "version", storeVersion)
}

func getUint(b *bbolt.Bucket, key string) uint64 {
	if v := b.Get([]byte(key)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func putUint(b *bbolt.Bucket, key string, v uint64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, v))
}

func (s *store) close() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	s.log, s.db = nil, nil
	return errors.Join(errs...)
}

// logs returns the generations of the logs there are, ascending.
func (s *store) logs() ([]uint64, error) {
	names, err := filepath.Glob(s.path(logPrefix + "*"))
	if err != nil {
		return nil, err
	}
	var gens []uint64
	for _, name := range names {
		var gen uint64
		if n, err := fmt.Sscanf(filepath.Base(name), logPrefix+"%d", &gen); n == 1 && err == nil && s.logPath(gen) == name {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	return gens, nil
}

// view reads in one transaction.
func (s *store) view(read func(tx *bbolt.Tx) error) error { return s.db.View(read) }

// load reads the state and replays the log over it.
func (l *Ledger) load() (warnings []error, err error) {
	s := l.store
	if warnings, err = s.open(); err != nil {
		return warnings, fmt.Errorf("state %s: %w", s.path(storeName), err)
	}
	var folded uint64 // the generation of the latest log in the store
	err = s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		folded = getUint(meta, "folded")
		l.pass, l.looked = int64(getUint(meta, "pass")), int64(getUint(meta, "looked"))
		l.interval = int64(getUint(meta, "interval")) - 1
		l.folded = l.pass
		l.boot = string(meta.Get([]byte("boot")))
		l.resets = resets{remounted: int64(getUint(meta, "remounted")), cleared: int64(getUint(meta, "cleared"))}
		return errors.Join(l.loadOps(tx), l.loadSums(tx, &warnings))
	})
	if err != nil {
		return warnings, fmt.Errorf("state %s: %w", s.path(storeName), err)
	}
	gens, err := s.logs()
	if err != nil {
		return warnings, err
	}
	s.gen = folded
	for _, gen := range gens {
		if gen <= folded {
			continue
		}
		s.gen = gen
		path := s.logPath(gen)
		damaged, err := replayLog(path, l.replay)
		if err != nil {
			return warnings, fmt.Errorf("log %s: %w", path, err)
		}
		if damaged {
			aside := fmt.Sprintf("%s.damaged-%d", s.path("old-log"), gen)
			if err := os.Link(path, aside); err != nil && !errors.Is(err, os.ErrExist) {
				return warnings, err
			}
			warnings = append(warnings, fmt.Errorf("log %s is damaged: what it has behind the damage is lost; a copy is %s", path, aside))
		}
	}
	l.loaded, l.logged = l.pass, l.pass
	l.remount = l.boot != "" && l.opts.Boot != "" && l.boot != l.opts.Boot
	l.reopenAbsent(&warnings)
	if err := l.fold(); err != nil {
		// What was read is in memory, and still in the log.
		warnings = append(warnings, err)
	}
	return warnings, nil
}

func (l *Ledger) loadOps(tx *bbolt.Tx) error {
	return tx.Bucket([]byte("ops")).ForEach(func(_, v []byte) error {
		name, unit, _ := strings.Cut(string(v), " ")
		_, err := l.ops.Add(name, unit)
		l.store.ops = l.ops.Len()
		return err
	})
}

func (l *Ledger) loadSums(tx *bbolt.Tx, warnings *[]error) error {
	return tx.Bucket([]byte("sums")).ForEach(func(k, v []byte) error {
		s, err := readSum(string(k), v)
		if err != nil {
			*warnings = append(*warnings, fmt.Errorf("state of sum %q: %w; its totals start again", k, err))
			return nil
		}
		l.sums[s.key] = s
		return nil
	})
}

// sumByKey finds the sum that an entry on disk adds to. One whose record was lost starts again.
func (l *Ledger) sumByKey(key string) *sum {
	s := l.sums[key]
	if s == nil {
		parts := append(strings.Split(key, "\x00"), make([]string, 5)...)
		s = &sum{key: key, labels: Labels{parts[0], parts[1], parts[2], parts[3], parts[4]}, created: max(l.pass, 1), epoch: max(l.pass, 1)}
		l.sums[key] = s
	}
	return s
}

// entry reads an entry and its closed epochs; nil if there is none.
func (s *store) entry(id string, l *Ledger) (e *entry, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte("entries")).Get([]byte(id))
		if v == nil {
			return nil
		}
		if e, err = readEntry(id, v, l.sumByKey); err != nil {
			e = nil
			return err
		}
		if e.past == nil {
			return nil
		}
		prefix := id + "\x00"
		c := tx.Bucket([]byte("old")).Cursor()
		for k, v := c.Seek([]byte(prefix)); strings.HasPrefix(string(k), prefix); k, v = c.Next() {
			o, err := readOld(string(k), v)
			if err != nil {
				return err
			}
			e.past.old = append(e.past.old, o)
		}
		return nil
	})
	return e, err
}

// reopenAbsent takes the entries into memory whose epochs are still to be sent again.
func (l *Ledger) reopenAbsent(warnings *[]error) {
	if l.opts.RepeatFor == 0 {
		return
	}
	var ids []string
	_ = l.store.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("entries")).ForEach(func(k, v []byte) error {
			if d, err := unseal(v, string(k)); err == nil {
				_ = d.uvarint()
				if l.pass-d.varint() <= int64(l.opts.RepeatFor) && l.entries[string(k)] == nil {
					ids = append(ids, string(k))
				}
			}
			return nil
		})
	})
	for _, id := range ids {
		e, err := l.store.entry(id, l)
		if err != nil {
			*warnings = append(*warnings, fmt.Errorf("state of job id %q: %w; its totals start again", id, err))
			continue
		}
		l.adopt(e)
	}
}

// adopt takes an entry from disk into memory that no file showed yet.
func (l *Ledger) adopt(e *entry) {
	if have := l.entries[e.id]; have != nil {
		l.drop(have)
	}
	l.entries[e.id] = e
	l.own += ownSeries(e)
	if e.sum == nil {
		if labels, _ := l.opts.Patterns.Labels(e.id); labels != (Labels{Job: e.id}) {
			e.labels = &labels
		}
	}
	l.absent = append(l.absent, e)
}

// drop takes an entry out of memory.
func (l *Ledger) drop(e *entry) {
	delete(l.entries, e.id)
	if e.sum != nil {
		e.sum.refs--
		return
	}
	l.own--
}

// The kinds of records in a batch.
const (
	recordOp = iota + 1
	recordEntry
	recordOld
	recordSum
)

// logBatch writes what changed to the log, and syncs it.
func (l *Ledger) logBatch() error {
	s := l.store
	if s == nil {
		return nil
	}
	if err := s.openLog(); err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	w := batchWriter{log: s.log, fault: s.fault, b: s.batch}
	l.writeBatch(&w)
	s.batch = w.b
	if err := w.finish(); err != nil {
		return fmt.Errorf("log %s: %w", s.logPath(s.gen), err)
	}
	s.written += w.written
	s.ops, l.logged = l.ops.Len(), l.pass
	if err := s.log.sync(time.Now(), l.opts.SyncInterval, s.fault); err != nil {
		return fmt.Errorf("log %s: %w", s.logPath(s.gen), err)
	}
	if s.log.size > foldSize || time.Since(s.started) > foldAge {
		// What is in the log is safe: a store that can't be written is told, and tried again.
		l.report(l.fold())
	}
	return nil
}

// report tells of an error beside the gather's result.
func (l *Ledger) report(err error) {
	if err != nil {
		l.stats.ErrorCount++
		l.stats.Errors = append(l.stats.Errors, err)
	}
}

func (s *store) openLog() (err error) {
	if s.log != nil {
		return nil
	}
	if err := s.fault.at("before log"); err != nil {
		return err
	}
	s.log, err = createLog(s.logPath(s.gen + 1))
	if err == nil {
		s.gen++
		s.started = time.Now()
	}
	return err
}

// writeBatch writes what changed since the last batch.
func (l *Ledger) writeBatch(w *batchWriter) {
	w.start()
	w.b = binary.AppendVarint(w.b, l.pass)
	w.b = binary.AppendVarint(w.b, l.looked)
	w.b = binary.AppendVarint(w.b, l.interval)
	w.b = appendString(w.b, l.boot)
	w.b = binary.AppendVarint(w.b, l.resets.remounted)
	w.b = binary.AppendVarint(w.b, l.resets.cleared)
	for i := l.store.ops; i < l.ops.Len(); i++ {
		op := l.ops.Op(uint16(i))
		w.record(recordOp, op.Name+" "+op.Unit, nil)
	}
	var value []byte
	l.eachFresh(func(e *entry) {
		value = appendEntry(value[:0], e)
		w.record(recordEntry, e.id, value)
		if e.past == nil {
			return
		}
		for _, o := range e.past.old {
			if o.touched > l.logged {
				value = appendOld(value[:0], e.id, o)
				w.record(recordOld, oldKey(e.id, o.epoch), value)
			}
		}
	})
	for _, s := range l.sums {
		if s.touched > l.logged {
			value = appendSum(value[:0], s)
			w.record(recordSum, s.key, value)
		}
	}
}

// eachFresh visits the entries that changed since the last batch, in the order of the file.
func (l *Ledger) eachFresh(visit func(e *entry)) {
	for _, s := range l.order {
		if s.e.touched > l.logged {
			visit(s.e)
		}
	}
	for _, e := range l.absent {
		if e.touched > l.logged {
			visit(e)
		}
	}
}

// replay applies a batch of the log.
func (l *Ledger) replay(batch []byte) error {
	d := &decoder{b: batch}
	l.pass, l.looked, l.interval, l.boot = d.varint(), d.varint(), d.varint(), d.string()
	l.resets = resets{remounted: d.varint(), cleared: d.varint()}
	for len(d.b) > 0 && d.err == nil {
		kind := d.b[0]
		d.b = d.b[1:]
		key, value := d.string(), []byte(d.string())
		if err := l.replayRecord(kind, key, value); err != nil {
			return err
		}
	}
	return d.err
}

func (l *Ledger) replayRecord(kind byte, key string, value []byte) error {
	switch kind {
	case recordOp:
		name, unit, _ := strings.Cut(key, " ")
		_, err := l.ops.Add(name, unit)
		return err
	case recordEntry:
		e, err := readEntry(key, value, l.sumByKey)
		if err != nil {
			return err
		}
		l.replayEntry(e)
	case recordOld:
		o, err := readOld(key, value)
		if err != nil {
			return err
		}
		l.replayOld(key, o)
	case recordSum:
		s, err := readSum(key, value)
		if err != nil {
			return err
		}
		if have := l.sums[key]; have != nil {
			s.refs = have.refs
			*have = *s
			s = have
		}
		s.touched = l.pass
		l.sums[key] = s
	default:
		return errRecord
	}
	return nil
}

func (l *Ledger) replayEntry(e *entry) {
	e.touched = l.pass
	have := l.entries[e.id]
	if have == nil {
		// A stored record that is damaged is no loss: this one takes its place.
		if have, _ = l.store.entry(e.id, l); have == nil {
			l.adopt(e)
			return
		}
		l.adopt(have)
	}
	if e.past != nil && have.past != nil {
		e.past.old = have.past.old
	}
	if have.sum == nil && e.sum != nil {
		l.own--
		e.sum.refs++
	}
	e.labels = have.labels
	*have = *e
}

func (l *Ledger) replayOld(key string, o *oldEpoch) {
	id := key[:max(0, len(key)-9)]
	e := l.entries[id]
	if e == nil || e.past == nil {
		return
	}
	e.touched = l.pass
	for i, have := range e.past.old {
		if have.epoch == o.epoch {
			e.past.old[i] = o
			return
		}
	}
	e.past.old = append(e.past.old, o)
}
