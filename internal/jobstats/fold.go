package jobstats

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/durable"
)

// absentFor is how long an entry stays in memory that no file shows.
const absentFor = 10 * time.Minute

// fold writes what is in the log to the store, and drops the log and what is too old.
func (l *Ledger) fold() error {
	s := l.store
	if s == nil {
		return nil
	}
	gens, err := durable.Logs(s.dir)
	if err != nil {
		return err
	}
	gone := l.forgetOld()
	if err := s.fault.At("before fold"); err != nil {
		return err
	}
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		if err := errors.Join(l.foldMeta(tx), l.foldEntries(tx), l.foldSums(tx), foldGone(tx, gone), l.forget(tx)); err != nil {
			return err
		}
		return s.fault.At("in fold")
	}); err != nil {
		return fmt.Errorf("state %s: %w", s.path(), err)
	}
	l.wasFolded()
	if err := s.fault.At("after fold"); err != nil {
		return err
	}
	if s.log != nil {
		err = s.log.Close()
		s.log = nil
	}
	for _, gen := range gens {
		if gen <= s.gen {
			err = errors.Join(err, os.Remove(s.logPath(gen)))
		}
	}
	keep := absentFor
	if l.opts.RepeatFor > keep {
		keep = l.opts.RepeatFor
	}
	l.evict(keep)
	return err
}

func (l *Ledger) foldMeta(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte("meta"))
	ops := tx.Bucket([]byte("ops"))
	err := errors.Join(durable.PutUint(meta, "folded", l.store.gen), durable.PutUint(meta, "pass", uint64(l.pass)), durable.PutUint(meta, "looked", uint64(l.looked)),
		durable.PutUint(meta, "interval", uint64(l.interval+1)),
		durable.PutUint(meta, "remounted", uint64(l.resets.remounted)), durable.PutUint(meta, "cleared", uint64(l.resets.cleared)),
		meta.Put([]byte("boot"), []byte(l.boot)))
	for i := range l.ops.Len() {
		op := l.ops.Op(uint16(i))
		err = errors.Join(err, ops.Put(fmt.Appendf(nil, "%05d", i), []byte(op.Name+" "+op.Unit)))
	}
	return err
}

// foldEntries writes the entries that changed in the order of their keys, which saves most of the time.
func (l *Ledger) foldEntries(tx *bbolt.Tx) error {
	var dirty []*entry
	for _, e := range l.entries {
		if e.touched > l.folded {
			dirty = append(dirty, e)
		}
	}
	slices.SortFunc(dirty, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	entries, old := tx.Bucket([]byte("entries")), tx.Bucket([]byte("old"))
	for _, e := range dirty {
		if err := entries.Put([]byte(e.id), appendEntry(nil, e)); err != nil {
			return fmt.Errorf("job id %q: %w", e.id, err)
		}
		if e.past == nil {
			continue
		}
		for _, o := range e.past.old {
			if err := old.Put([]byte(oldKey(e.id, o.epoch)), appendOld(nil, e.id, o)); err != nil {
				return fmt.Errorf("job id %q: %w", e.id, err)
			}
		}
	}
	return nil
}

func (l *Ledger) foldSums(tx *bbolt.Tx) error {
	b := tx.Bucket([]byte("sums"))
	for _, key := range slices.Sorted(maps.Keys(l.sums)) {
		s := l.sums[key]
		switch {
		case s.refs == 0 && l.pass-s.changed > int64(l.opts.ForgetAfter):
			if err := b.Delete([]byte(key)); err != nil {
				return err
			}
		case s.touched > l.folded:
			if err := b.Put([]byte(key), appendSum(nil, s)); err != nil {
				return fmt.Errorf("sum %q: %w", key, err)
			}
		}
	}
	return nil
}

// forgetOld drops closed epochs that are needed no more, and returns their keys.
func (l *Ledger) forgetOld() (keys []string) {
	keep := max(keepOld, l.opts.RepeatFor)
	for _, e := range l.entries {
		for _, o := range e.forgetOld(l.pass, keep) {
			keys = append(keys, oldKey(e.id, o.epoch))
		}
	}
	return keys
}

func foldGone(tx *bbolt.Tx, keys []string) error {
	b := tx.Bucket([]byte("old"))
	for _, key := range keys {
		if err := b.Delete([]byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// forget drops the jobs from the store that did no I/O for long.
func (l *Ledger) forget(tx *bbolt.Tx) error {
	var ids [][]byte
	err := tx.Bucket([]byte("entries")).ForEach(func(k, v []byte) error {
		if _, here := l.entries[string(k)]; here {
			return nil
		}
		d, err := unseal(v, string(k))
		if err != nil {
			return nil //nolint:nilerr // It is told when the job comes back.
		}
		_ = d.Uvarint()
		if l.pass-d.Varint() > int64(l.opts.ForgetAfter) {
			ids = append(ids, slices.Clone(k))
		}
		return nil
	})
	if err != nil {
		return err
	}
	old := tx.Bucket([]byte("old"))
	for _, id := range ids {
		if err := tx.Bucket([]byte("entries")).Delete(id); err != nil {
			return err
		}
		prefix := string(id) + "\x00"
		c := old.Cursor()
		for k, _ := c.Seek([]byte(prefix)); strings.HasPrefix(string(k), prefix); k, _ = c.Seek([]byte(prefix)) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wasFolded marks all as written to the store.
func (l *Ledger) wasFolded() {
	l.folded, l.logged = l.pass, l.pass
	l.store.ops = l.ops.Len()
	for key, s := range l.sums {
		if s.refs == 0 && l.pass-s.changed > int64(l.opts.ForgetAfter) {
			delete(l.sums, key)
		}
	}
}

// evict drops the entries from memory that no file has shown for a time.
func (l *Ledger) evict(after time.Duration) {
	kept := l.absent[:0]
	for _, e := range l.absent {
		if e.touched > l.folded && l.store != nil || l.pass-max(e.last, e.changed) <= int64(after) {
			kept = append(kept, e)
			continue
		}
		l.drop(e)
	}
	clear(l.absent[len(kept):])
	l.absent = kept
	l.evicted = l.pass
}
