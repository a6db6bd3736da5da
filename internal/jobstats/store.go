package jobstats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/durable"
)

// storeVersion is the version of the format. A store of a later one is refused, never guessed at.
const storeVersion = 1

const (
	storeName = "ledger.db"
	// logMagic is the first line of a log. A batch has a head, and then records.
	logMagic = "telegraf-hpc jobstats log 1\n"
	// A log is folded into the store when it has this size, or this age: late enough that a record that changes with
	// each gather is written to the store only seldom.
	foldSize = 64 << 20
	foldAge  = time.Hour
)

// The store's buckets.
func bucketNames() []string { return []string{"meta", "ops", "entries", "old", "sums"} }

// ErrVersion says that the state was written by a later version.
var ErrVersion = durable.ErrVersion

// store is the state on disk: what is folded, in a bbolt file, and the log behind it.
type store struct {
	dir     string
	db      *bbolt.DB
	log     *durable.Log
	gen     uint64 // of the log
	started time.Time
	ops     int // operations in the log or the store
	batch   []byte
	fault   durable.Faults
	written int64

	setAside bool // what was there was damaged
}

func (s *store) path() string { return filepath.Join(s.dir, storeName) }

func (s *store) logPath(gen uint64) string { return durable.LogPath(s.dir, gen) }

// open opens the bbolt file, and makes one if there is none. A damaged one is set aside.
func (s *store) open() (warnings []error, err error) {
	s.db, warnings, err = durable.OpenStore(s.path(), durable.Format{Version: storeVersion, Buckets: bucketNames()})
	s.setAside = len(warnings) > 0
	return warnings, err
}

func (s *store) close() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	s.log, s.db = nil, nil
	return errors.Join(errs...)
}

// view reads in one transaction.
func (s *store) view(read func(tx *bbolt.Tx) error) error { return s.db.View(read) }

// load reads the state and replays the log over it.
func (l *Ledger) load() (warnings []error, err error) {
	s := l.store
	if warnings, err = s.open(); err != nil {
		return warnings, fmt.Errorf("state %s: %w", s.path(), err)
	}
	var folded uint64 // the generation of the latest log in the store
	err = s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		folded = durable.GetUint(meta, "folded")
		l.pass, l.looked = int64(durable.GetUint(meta, "pass")), int64(durable.GetUint(meta, "looked"))
		l.interval = int64(durable.GetUint(meta, "interval")) - 1
		l.folded = l.pass
		l.boot = string(meta.Get([]byte("boot")))
		l.resets = resets{remounted: int64(durable.GetUint(meta, "remounted")), cleared: int64(durable.GetUint(meta, "cleared"))}
		return errors.Join(l.loadOps(tx), l.loadSums(tx, &warnings))
	})
	if err != nil {
		return warnings, fmt.Errorf("state %s: %w", s.path(), err)
	}
	gens, err := durable.Logs(s.dir)
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
		damaged, err := durable.ReplayLog(path, logMagic, l.replay)
		if err != nil {
			return warnings, fmt.Errorf("log %s: %w", path, err)
		}
		if damaged {
			warning, err := durable.SetLogAside(s.dir, gen)
			if err != nil {
				return warnings, err
			}
			warnings = append(warnings, warning)
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
				_ = d.Uvarint()
				if l.pass-d.Varint() <= int64(l.opts.RepeatFor) && l.entries[string(k)] == nil {
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
	w := durable.Batch{Log: s.log, Fault: s.fault, Frame: s.batch}
	l.writeBatch(&w)
	s.batch = w.Frame
	if err := w.Finish(); err != nil {
		return fmt.Errorf("log %s: %w", s.logPath(s.gen), err)
	}
	s.written += w.Written
	s.ops, l.logged = l.ops.Len(), l.pass
	if err := s.log.Sync(time.Now(), l.opts.SyncInterval, s.fault); err != nil {
		return fmt.Errorf("log %s: %w", s.logPath(s.gen), err)
	}
	if s.log.Size() > foldSize || time.Since(s.started) > foldAge {
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
	if err := s.fault.At("before log"); err != nil {
		return err
	}
	s.log, err = durable.CreateLog(s.logPath(s.gen+1), logMagic)
	if err == nil {
		s.gen++
		s.started = time.Now()
	}
	return err
}

// writeBatch writes what changed since the last batch.
func (l *Ledger) writeBatch(w *durable.Batch) {
	w.Start()
	w.Frame = binary.AppendVarint(w.Frame, l.pass)
	w.Frame = binary.AppendVarint(w.Frame, l.looked)
	w.Frame = binary.AppendVarint(w.Frame, l.interval)
	w.Frame = durable.AppendString(w.Frame, l.boot)
	w.Frame = binary.AppendVarint(w.Frame, l.resets.remounted)
	w.Frame = binary.AppendVarint(w.Frame, l.resets.cleared)
	for i := l.store.ops; i < l.ops.Len(); i++ {
		op := l.ops.Op(uint16(i))
		w.Record(recordOp, op.Name+" "+op.Unit, nil)
	}
	var value []byte
	l.eachFresh(func(e *entry) {
		value = appendEntry(value[:0], e)
		w.Record(recordEntry, e.id, value)
		if e.past == nil {
			return
		}
		for _, o := range e.past.old {
			if o.touched > l.logged {
				value = appendOld(value[:0], e.id, o)
				w.Record(recordOld, oldKey(e.id, o.epoch), value)
			}
		}
	})
	for _, s := range l.sums {
		if s.touched > l.logged {
			value = appendSum(value[:0], s)
			w.Record(recordSum, s.key, value)
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
	d := durable.Decoder{Rest: batch}
	l.pass, l.looked, l.interval, l.boot = d.Varint(), d.Varint(), d.Varint(), d.String()
	l.resets = resets{remounted: d.Varint(), cleared: d.Varint()}
	for len(d.Rest) > 0 && d.Err == nil {
		kind := d.Rest[0]
		d.Rest = d.Rest[1:]
		key, value := d.String(), []byte(d.String())
		if err := l.replayRecord(kind, key, value); err != nil {
			return err
		}
	}
	return d.Err
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
		return durable.ErrRecord
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
