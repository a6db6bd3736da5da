package lustre_jobs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/durable"
)

const (
	storeName    = "ledger.db"
	storeVersion = 1
	// logMagic is the first line of a log. A batch has no head, only records.
	logMagic = "telegraf-hpc lustre_jobs log 1\n"
)

// The store's buckets.
func bucketNames() []string {
	return []string{"meta", "fields", "places", "targets", "servers", "series", "epochs", "sums", "jobs"}
}

// store is the state on disk: what is folded, in a bbolt file, and the logs behind it.
type store struct {
	dir     string
	db      *bbolt.DB
	log     *durable.Log
	gen     uint64    // of the log
	started time.Time // when it was folded last, or opened
	behind  int64     // bytes of logs that were replayed, and are not folded
	base    int64     // bytes of the log that it began with
	frame   []byte
	fault   durable.Faults
	written int64
	warn    func(error)
}

// open opens the state and reads what is needed from it.
func (l *ledger) open(dir string, now time.Time, warn func(error)) error {
	path := filepath.Join(dir, storeName)
	db, warnings, err := durable.OpenStore(path, durable.Format{Version: storeVersion, Buckets: bucketNames()})
	for _, w := range warnings {
		warn(w)
	}
	if err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	l.store = &store{dir: dir, db: db, warn: warn, started: now}
	folded := uint64(0)
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		folded = durable.GetUint(meta, "folded")
		if created := durable.GetUint(meta, "created"); created != 0 {
			l.created = int64(created)
		}
		l.lastID = durable.GetUint(meta, "last")
		return l.load(tx)
	})
	if err == nil {
		err = l.replay(folded)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("state %s: %w", path, err), l.store.close())
	}
	l.changes = changes{fields: l.fields.len(), servers: make(map[*server]struct{})}
	l.awake()
	return nil
}

// awake takes the series into memory that wait for Slurm, or whose jobs go on.
func (l *ledger) awake() {
	for _, p := range l.byID {
		for _, s := range p.series {
			if s.who == nil {
				l.unknown = append(l.unknown, s)
			}
		}
	}
	_ = l.store.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("series")).ForEach(func(k, v []byte) error {
			p := l.byID[binary.BigEndian.Uint32(k)]
			if p.series[string(k[4:])] != nil {
				return nil
			}
			s, err := l.readSeries(p, string(k[4:]), v)
			if err == nil && l.needed(s, 0) { // What is damaged is told when it is used.
				l.adopt(s)
			}
			return nil
		})
	})
}

// load reads the tables, the sums and the jobs. Series stay where they are until a line is of them.
func (l *ledger) load(tx *bbolt.Tx) error {
	for _, b := range []struct {
		name string
		kind byte
	}{{"fields", recordField}, {"places", recordPlace}, {"targets", recordTarget}, {"servers", recordServer}, {"sums", recordSum}, {"jobs", recordJob}} {
		err := tx.Bucket([]byte(b.name)).ForEach(func(k, v []byte) error {
			err := l.apply(b.kind, string(k), v)
			if err == nil {
				return nil
			}
			err = fmt.Errorf("%s %q: %w", b.name, k, err)
			if b.kind == recordSum || b.kind == recordJob || b.kind == recordServer {
				l.store.warn(fmt.Errorf("state: %w; it starts again", err))
				return nil
			}
			return err // What refers to it by its number would be another one's.
		})
		if err != nil {
			return err
		}
	}
	l.shelve()
	return nil
}

// apply applies a record of the store or of a log. A table's record has its number as its key.
func (l *ledger) apply(kind byte, key string, value []byte) error {
	switch kind {
	case recordField:
		name := string(value)
		if have, ok := l.fields.index[name]; ok {
			return checkNumber(key, uint64(have))
		}
		if l.fields.len() == maxFields {
			return durable.ErrRecord
		}
		return checkNumber(key, uint64(l.fields.add(name)))
	case recordPlace:
		name, err := parsePlace(value)
		if err != nil {
			return err
		}
		if have := l.places[name]; have != nil {
			return checkNumber(key, uint64(have.id))
		}
		p := &place{placeName: name, id: uint32(len(l.byID))}
		l.addPlace(p)
		return checkNumber(key, uint64(p.id))
	case recordTarget:
		return l.applyTarget(key, value)
	case recordServer:
		return l.readServer(key, value)
	case recordSum:
		return l.readSum(key, value)
	case recordJob:
		j, err := readJob(key, value)
		if err == nil {
			l.knowJob(j)
		}
		return err
	}
	return durable.ErrRecord
}

func (l *ledger) applyTarget(key string, value []byte) error {
	if len(value) < 4 {
		return durable.ErrRecord
	}
	place := binary.BigEndian.Uint32(value)
	if int(place) >= len(l.byID) {
		return durable.ErrRecord
	}
	name := targetName{place, string(value[4:])}
	if have := l.targets[name]; have != nil {
		return checkNumber(key, uint64(have.id))
	}
	t := &target{id: uint32(len(l.targets)), place: l.byID[place], name: name.name}
	l.targets[name] = t
	return checkNumber(key, uint64(t.id))
}

func checkNumber(key string, n uint64) error {
	if key != uintKey(n) {
		return durable.ErrRecord
	}
	return nil
}

// replay applies the logs behind the store.
func (l *ledger) replay(folded uint64) error {
	gens, err := durable.Logs(l.store.dir)
	if err != nil {
		return err
	}
	l.store.gen = folded
	r := replayer{ledger: l, series: make(map[uint64]*series)}
	for _, gen := range gens {
		path := durable.LogPath(l.store.dir, gen)
		if gen <= folded {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		l.store.gen = gen
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		l.store.behind += info.Size()
		damaged, err := durable.ReplayLog(path, logMagic, r.batch)
		if err != nil {
			return fmt.Errorf("log %s: %w", path, err)
		}
		if damaged {
			warning, err := durable.SetLogAside(l.store.dir, gen)
			if err != nil {
				return err
			}
			l.store.warn(warning)
		}
	}
	return nil
}

type replayer struct {
	*ledger
	series map[uint64]*series
}

func (r *replayer) batch(batch []byte) error {
	d := durable.Decoder{Rest: batch}
	for len(d.Rest) > 0 && d.Err == nil {
		kind := d.Rest[0]
		d.Rest = d.Rest[1:]
		key, value := d.String(), []byte(d.String())
		var err error
		switch kind {
		case recordSeries:
			err = r.replaySeries(key, value)
		case recordEpoch:
			err = r.replayEpoch(key, value)
		default:
			err = r.apply(kind, key, value)
			r.logged(kind, key)
		}
		if err != nil {
			return err
		}
	}
	return d.Err
}

// logged marks what is in a log, and not in the store.
func (r *replayer) logged(kind byte, key string) {
	if name, ok := sumOfKey(key); kind == recordSum && ok && r.sums[name] != nil {
		r.sums[name].marks |= markLogged
	}
	if kind == recordJob && len(key) == 8 {
		if j := r.jobs[int64(binary.BigEndian.Uint64([]byte(key)))]; j != nil {
			j.marks |= markLogged
		}
	}
}

func (r *replayer) replaySeries(key string, value []byte) error {
	if len(key) < 5 || binary.BigEndian.Uint32([]byte(key)) >= uint32(len(r.byID)) {
		return durable.ErrRecord
	}
	p := r.byID[binary.BigEndian.Uint32([]byte(key))]
	s, err := r.readSeries(p, key[4:], value)
	if err != nil {
		return err
	}
	if have := p.series[s.key]; have != nil {
		s.epochs = have.epochs
		if have.id != s.id { // It was another job's under the same id.
			s.epochs = nil
		}
		r.memory--
	}
	s.marks, s.shown.owed = markLogged|markAdopted, true
	p.series[s.key] = s
	r.series[s.id] = s
	r.memory++
	r.lastID = max(r.lastID, s.id)
	return nil
}

func (r *replayer) replayEpoch(key string, value []byte) error {
	if len(key) != len(epochKey{}) {
		return durable.ErrRecord
	}
	k := epochKey([]byte(key))
	id, e := k.ids()
	s := r.series[id]
	d, err := unseal(value, key)
	if err != nil || s == nil || !readValues(string(d.Rest), r.old[:r.fields.len()]) {
		clear(r.old)
		return errors.Join(err, durable.ErrRecord)
	}
	clear(r.old)
	at, found := findEpoch(s, e)
	if !found {
		s.epochs = insert(s.epochs, at, epoch{epochID: e})
		r.lives++
	}
	s.epochs[at].record, s.epochs[at].marks = string(d.Rest), markLogged
	s.epochs[at].changed = uint32(s.changed / int64(time.Second))
	return nil
}

// series reads a series; nil if there is none.
func (s *store) series(p *place, key string, l *ledger) (found *series, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte("series")).Get([]byte(seriesKey(p, key)))
		if v == nil {
			return nil
		}
		found, err = l.readSeries(p, key, v)
		return err
	})
	if err != nil {
		s.warn(fmt.Errorf("state of %q: %w; its totals start again", key, err))
		return nil, nil
	}
	return found, nil
}

// epoch reads the values of an epoch.
func (s *store) epoch(of *series, id epochID) (record string, found bool, err error) {
	k := keyOf(of, id)
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket([]byte("epochs")).Get(k[:])
		if v == nil {
			return nil
		}
		d, err := unseal(v, k[:])
		found = true
		if err == nil {
			record = string(d.Rest)
		}
		return err
	})
	return record, found, err
}

// job reads a job that is not in memory; nil if there is none.
func (s *store) job(id int64) (j *job) {
	if s == nil {
		return nil
	}
	_ = s.db.View(func(tx *bbolt.Tx) error {
		if v := tx.Bucket([]byte("jobs")).Get([]byte(uintKey(uint64(id)))); v != nil {
			j, _ = readJob(uintKey(uint64(id)), v) // What is damaged was told when it was opened.
		}
		return nil
	})
	return j
}

func (s *store) close() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	errs = append(errs, s.db.Close())
	s.log = nil
	return errors.Join(errs...)
}

// save writes what changed since the last batch to the log, and syncs it. After an error the next save writes all of it.
func (l *ledger) save() error {
	s := l.store
	if s == nil {
		l.saved()
		return nil
	}
	if err := s.openLog(); err != nil {
		return err
	}
	w := durable.Batch{Log: s.log, Fault: s.fault, Frame: s.frame}
	w.Start()
	l.writeBatch(&w)
	s.frame = w.Frame
	err := w.Finish()
	if err == nil {
		err = s.log.Sync(time.Now(), 0, s.fault)
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", durable.LogPath(s.dir, s.gen), err)
	}
	s.written += w.Written
	l.saved()
	return nil
}

// openLog makes a log if there is none.
func (s *store) openLog() error {
	if s.log != nil {
		return nil
	}
	if err := s.fault.At("before log"); err != nil {
		return err
	}
	log, err := durable.CreateLog(durable.LogPath(s.dir, s.gen+1), logMagic)
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	s.log, s.base = log, 0
	s.gen++
	return nil
}

func (l *ledger) writeBatch(w *durable.Batch) {
	for i := l.changes.fields; i < l.fields.len(); i++ {
		w.Record(recordField, uintKey(uint64(i)), []byte(l.fields.name(uint16(i))))
	}
	for _, p := range l.changes.places {
		w.Record(recordPlace, uintKey(uint64(p.id)), p.record())
	}
	for _, t := range l.changes.targets {
		w.Record(recordTarget, uintKey(uint64(t.id)), t.record())
	}
	for s := range l.changes.servers {
		w.Record(recordServer, s.host, appendServer(s))
	}
	var value []byte
	for _, s := range l.dirty {
		value = appendSeries(value[:0], s)
		w.Record(recordSeries, seriesKey(s.place, s.key), value)
		for i := range s.epochs {
			if e := &s.epochs[i]; e.marks&markDirty != 0 {
				k := keyOf(s, e.epochID)
				value = appendEpoch(value[:0], e, &k)
				w.Record(recordEpoch, string(k[:]), value)
			}
		}
	}
	for _, s := range l.dirtySum {
		value = appendSum(value[:0], s)
		w.Record(recordSum, sumKey(s.sumName), value)
	}
	for j := range l.unsaved {
		value = appendJob(value[:0], j)
		w.Record(recordJob, uintKey(uint64(j.ID)), value)
	}
}

func appendEpoch(b []byte, e *epoch, k *epochKey) []byte {
	from := len(b)
	return durable.Seal(append(durable.Open(b), e.record...), from, string(k[:]))
}

func (p *place) record() []byte { return []byte(p.fs + "\x00" + p.kind + "\x00" + p.shard) }

func parsePlace(value []byte) (placeName, error) {
	parts := strings.Split(string(value), "\x00")
	if len(parts) != 3 {
		return placeName{}, durable.ErrRecord
	}
	return placeName{parts[0], parts[1], parts[2]}, nil
}

// placeNumber gives the id of the place that a key of the store is of.
func placeNumber(key []byte) uint32 { return uint32(binary.BigEndian.Uint64(key)) }

func (t *target) record() []byte {
	return append(binary.BigEndian.AppendUint32(nil, t.place.id), t.name...)
}

// saved marks all that was to be saved as logged.
func (l *ledger) saved() {
	for i, s := range l.dirty {
		s.marks = s.marks&^markDirty | markLogged
		for i := range s.epochs {
			if e := &s.epochs[i]; e.marks&markDirty != 0 {
				e.marks = e.marks&^markDirty | markLogged
			}
		}
		l.dirty[i] = nil
	}
	for i, s := range l.dirtySum {
		s.marks = s.marks&^markDirty | markLogged
		l.dirtySum[i] = nil
	}
	for j := range l.unsaved {
		j.marks |= markLogged
	}
	l.dirty, l.dirtySum = l.dirty[:0], l.dirtySum[:0]
	clear(l.unsaved)
	clear(l.changes.servers)
	l.changes = changes{fields: l.fields.len(), servers: l.changes.servers}
}

func findEpoch(s *series, id epochID) (at int, found bool) {
	lo, hi := 0, len(s.epochs)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.epochs[mid].compare(id) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(s.epochs) && s.epochs[lo].epochID == id
}
