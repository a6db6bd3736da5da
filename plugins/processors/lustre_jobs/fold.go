package lustre_jobs

import (
	"bytes"
	"encoding/binary"
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

const (
	// The log is folded when it has this size, or this age: then what is idle goes to the store, and what is live to a
	// new log. To write all of it to the store would take many times as long, and its pages would be in memory twice.
	foldSize = 64 << 20
	foldAge  = time.Hour
	// foldLives is how many bytes of log there may be for each epoch in memory, each of which is in the new log.
	foldLives = 512
	// foldChunk is how many records are written at once: bbolt keeps all of a transaction in memory.
	foldChunk = 20000
	// foldRetry is when it is tried again after it has failed.
	foldRetry = time.Minute
	// idleFor is how long what does nothing stays in memory.
	idleFor = time.Hour
	// forgetChunk is how many series are forgotten at once: the stream waits meanwhile.
	forgetChunk = 500
)

// folding is what is to be written to the store, which is what is idle: a picture of one moment, since it is written while
// lines come.
type folding struct {
	store  *store
	gen    uint64 // of the last log before the one that has what is live
	idle   int64  // what did not change since leaves memory, and
	forget int64  // what did not change since this is forgotten
	meta   map[string]uint64
	tables []foldRecord
	series []foldRecord
	epochs []foldEpoch

	old []string // keys of series that are to be forgotten
}

type foldRecord struct {
	bucket string
	key    string
	value  []byte
}

type foldEpoch struct {
	key    epochKey
	record string
}

// foldDue tells whether it is time to fold.
func (l *ledger) foldDue(now time.Time) bool {
	s := l.store
	if s == nil {
		return false
	}
	size := s.behind
	if s.log != nil {
		size += s.log.Size() - s.base
	}
	return size > max(foldSize, int64(l.lives)*foldLives) || now.Sub(s.started) > foldAge
}

// startFold begins a new log with all that is live, so that the logs before it are needed no more once the rest, of which
// it takes a picture, is in the store. All must be saved. With an error it is to be ended with folded all the same.
func (l *ledger) startFold(now time.Time, forgetBefore int64) (*folding, error) {
	s := l.store
	f := &folding{store: s, gen: s.gen, forget: forgetBefore, idle: now.UnixNano() - int64(idleFor)}
	f.meta = map[string]uint64{"created": uint64(l.created), "last": l.lastID}
	s.started, s.behind = now, 0
	if s.log != nil {
		if err := s.log.Close(); err != nil {
			return f, err
		}
		s.log = nil
	}
	if err := s.openLog(); err != nil {
		return f, err
	}
	f.takeTables(l)
	w := durable.Batch{Log: s.log, Fault: s.fault, Frame: s.frame}
	w.Start()
	for _, p := range l.byID {
		for _, v := range p.series {
			if err := f.take(v, &w); err != nil {
				return f, err
			}
		}
	}
	err := w.Finish()
	s.frame, s.written, s.base = w.Frame, s.written+w.Written, s.log.Size()
	return f, err
}

// takeTables takes what everything refers to, and the sums and jobs that changed.
func (f *folding) takeTables(l *ledger) {
	add := func(bucket, key string, value []byte) { f.tables = append(f.tables, foldRecord{bucket, key, value}) }
	for i := range l.fields.fields {
		add("fields", uintKey(uint64(i)), []byte(l.fields.name(uint16(i))))
	}
	for _, p := range l.byID {
		add("places", uintKey(uint64(p.id)), p.record())
	}
	for _, t := range l.targets {
		add("targets", uintKey(uint64(t.id)), t.record())
	}
	for _, v := range l.servers {
		add("servers", v.host, appendServer(v))
	}
	for _, v := range l.sums {
		if v.marks&markLogged != 0 {
			v.marks = v.marks&^markLogged | markFolding
			add("sums", sumKey(v.sumName), appendSum(nil, v))
		}
	}
	for _, j := range l.jobs {
		if j.marks&markLogged != 0 {
			j.marks = j.marks&^markLogged | markFolding
			add("jobs", uintKey(uint64(j.ID)), appendJob(nil, j))
		}
	}
}

// take takes what is idle of a series, and writes what is live of it to the new log.
func (f *folding) take(s *series, w *durable.Batch) error {
	if s.marks&markLogged == 0 {
		return nil
	}
	value, key := appendSeries(nil, s), seriesKey(s.place, s.key)
	if s.changed < f.idle {
		s.marks = s.marks&^markLogged | markFolding
		f.series = append(f.series, foldRecord{"series", key, value})
	} else {
		w.Record(recordSeries, key, value)
	}
	for i := range s.epochs {
		e := &s.epochs[i]
		if e.marks&markLogged == 0 {
			continue
		}
		k := keyOf(s, e.epochID)
		if int64(e.changed) < f.idle/int64(time.Second) {
			e.marks = e.marks&^markLogged | markFolding
			f.epochs = append(f.epochs, foldEpoch{k, e.record})
			continue
		}
		value = appendEpoch(value[:0], e, &k)
		w.Record(recordEpoch, string(k[:]), value)
	}
	// Each of these batches counts by itself: what they say is in the logs before, too.
	if len(w.Frame) < durable.MaxFrame/2 {
		return nil
	}
	err := w.Finish()
	f.store.written += w.Written
	*w = durable.Batch{Log: w.Log, Fault: w.Fault, Frame: w.Frame}
	w.Start()
	return err
}

// run writes it, in the order of the keys, which saves most of the time. It may run beside the ledger. A part of it that
// is written does no harm: the logs that it is of are there until all of it is.
func (f *folding) run() error {
	slices.SortFunc(f.series, func(a, b foldRecord) int { return strings.Compare(a.key, b.key) })
	slices.SortFunc(f.epochs, func(a, b foldEpoch) int { return bytes.Compare(a.key[:], b.key[:]) })
	if err := f.store.fault.At("before fold"); err != nil {
		return err
	}
	if err := f.syncLog(); err != nil {
		return err
	}
	err := errors.Join(f.put(f.tables), f.put(f.series), f.putEpochs())
	if err != nil {
		return fmt.Errorf("state %s: %w", f.store.db.Path(), err)
	}
	if err := f.store.fault.At("in fold"); err != nil {
		return err
	}
	if err := f.store.db.Update(f.finish); err != nil {
		return fmt.Errorf("state %s: %w", f.store.db.Path(), err)
	}
	if err := f.store.fault.At("after fold"); err != nil {
		return err
	}
	gens, err := durable.Logs(f.store.dir)
	for _, gen := range gens {
		if gen <= f.gen {
			err = errors.Join(err, os.Remove(durable.LogPath(f.store.dir, gen)))
		}
	}
	return errors.Join(err, f.store.db.View(f.findOld))
}

// syncLog syncs what is live to disk. The log itself is being written meanwhile.
func (f *folding) syncLog() error {
	if err := f.store.fault.At("sync"); err != nil {
		return err
	}
	log, err := os.Open(durable.LogPath(f.store.dir, f.gen+1))
	if err != nil {
		return err
	}
	return errors.Join(log.Sync(), log.Close())
}

func (f *folding) finish(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte("meta"))
	err := durable.PutUint(meta, "folded", f.gen)
	for key, v := range f.meta {
		err = errors.Join(err, durable.PutUint(meta, key, v))
	}
	return errors.Join(err, f.forgetJobs(tx))
}

func (f *folding) put(records []foldRecord) error {
	for chunk := range slices.Chunk(records, foldChunk) {
		err := f.store.db.Update(func(tx *bbolt.Tx) error {
			for _, r := range chunk {
				if err := tx.Bucket([]byte(r.bucket)).Put([]byte(r.key), r.value); err != nil {
					return fmt.Errorf("%s %q: %w", r.bucket, r.key, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *folding) putEpochs() error {
	for chunk := range slices.Chunk(f.epochs, foldChunk) {
		err := f.store.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("epochs"))
			for i := range chunk {
				c := &chunk[i]
				if err := b.Put(c.key[:], appendEpoch(nil, &epoch{record: c.record}, &c.key)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetJobs drops the jobs that were reported long ago.
func (f *folding) forgetJobs(tx *bbolt.Tx) error {
	b := tx.Bucket([]byte("jobs"))
	var gone [][]byte
	err := b.ForEach(func(k, v []byte) error {
		if j, err := readJob(string(k), v); err != nil || j.Seen < f.forget/int64(time.Second) {
			gone = append(gone, bytes.Clone(k))
		}
		return nil
	})
	for _, k := range gone {
		err = errors.Join(err, b.Delete(k))
	}
	return err
}

// findOld finds the series that did nothing for long.
func (f *folding) findOld(tx *bbolt.Tx) error {
	return tx.Bucket([]byte("series")).ForEach(func(k, v []byte) error {
		if d, err := unseal(v, k); err == nil && d.Varint() < f.forget {
			f.old = append(f.old, string(k))
		}
		return nil
	})
}

// folded marks what a fold has written, and drops from memory what is idle. With an error it is as if nothing was
// written.
func (l *ledger) folded(f *folding, err error, now int64) {
	settle := func(marks *uint8) {
		if *marks&markFolding == 0 {
			return
		}
		*marks &^= markFolding
		if err != nil {
			*marks |= markLogged
		}
	}
	if err != nil {
		l.store.started = time.Unix(0, now).Add(-foldAge + foldRetry)
	}
	for name, s := range l.sums {
		if settle(&s.marks); err == nil && s.level == levelUID && s.marks == 0 && s.active < f.forget {
			l.oldSums = append(l.oldSums, sumKey(name))
			delete(l.sums, name)
		}
	}
	for _, j := range l.jobs {
		settle(&j.marks)
	}
	l.shelve()
	for _, p := range l.byID {
		for _, s := range p.series {
			settle(&s.marks)
			for i := range s.epochs {
				settle(&s.epochs[i].marks)
			}
			if err == nil {
				l.evict(s, f.idle, f.forget)
			}
		}
	}
	maps.DeleteFunc(l.servers, func(_ string, s *server) bool { return s.latest < f.forget && s != l.lastServer })
	for id, end := range l.reported {
		if max(end, -end) < f.forget/int64(time.Second) {
			delete(l.reported, id)
		}
	}
	if err == nil {
		l.forgetting, l.forgetBefore = append(l.forgetting[:0], f.old...), f.forget
	}
}

// evict drops what is on disk and did not change since from memory.
func (l *ledger) evict(s *series, since, forget int64) {
	kept := s.epochs[:0]
	for _, e := range s.epochs {
		if e.marks == 0 && int64(e.changed) < since/int64(time.Second) {
			l.lives--
			s.stored = true
			continue
		}
		kept = append(kept, e)
	}
	clear(s.epochs[len(kept):])
	s.epochs = slices.Clip(kept)
	if len(kept) > 0 || s.changed >= since || s.marks&^markAdopted != 0 || s.shown.rated || l.needed(s, forget) {
		return
	}
	s.marks = 0
	delete(s.place.series, s.key)
	l.memory--
}

// forget drops some of the series from the store that a fold found to be old, and sums over users of login nodes: anybody
// can make up such users. What came to life meanwhile stays.
func (l *ledger) forget() error {
	n := min(len(l.forgetting), forgetChunk)
	if n == 0 && len(l.oldSums) == 0 {
		return nil
	}
	keys, sums := l.forgetting[:n], l.oldSums
	l.forgetting, l.oldSums = l.forgetting[n:], nil
	return l.store.db.Update(func(tx *bbolt.Tx) error {
		for _, key := range sums {
			if name, _ := sumOfKey(key); l.sums[name] == nil {
				if err := tx.Bucket([]byte("sums")).Delete([]byte(key)); err != nil {
					return err
				}
			}
		}
		all, epochs := tx.Bucket([]byte("series")), tx.Bucket([]byte("epochs"))
		for _, key := range keys {
			p := l.byID[binary.BigEndian.Uint32([]byte(key))]
			if p.series[key[4:]] != nil {
				continue
			}
			d, err := unseal(all.Get([]byte(key)), key)
			if err != nil {
				continue
			}
			if d.Varint() >= l.forgetBefore {
				continue
			}
			prefix := binary.BigEndian.AppendUint64(nil, d.Uvarint())
			c := epochs.Cursor()
			for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Seek(prefix) {
				if err := c.Delete(); err != nil {
					return err
				}
			}
			if err := all.Delete([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
}
