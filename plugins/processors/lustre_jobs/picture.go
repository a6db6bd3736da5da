package lustre_jobs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"telegraf-hpc/internal/durable"
)

// picture is what an emission had. It is written no more once it is painted.
type picture struct {
	at    time.Time
	names []string // of the fields, by their numbers
	rows  []pictureRow
}

// pictureRow is a series or a sum.
type pictureRow struct {
	level  string // fs, account, user or job
	place  placeName
	id     string // a job's, as Lustre has it
	tags   []tag
	state  string
	listed fieldSet
	total  []int64
	rates  []float64
	whole  []float64
	rank   float64
}

// paint makes a picture of all that is in memory, before the next window begins.
func (l *ledger) paint(at time.Time) *picture {
	p := &picture{at: at, names: l.fields.names()}
	whole := make(map[*place][]float64, len(l.byID))
	for _, place := range l.byID {
		whole[place] = slices.Clone(place.total.rate)
		for _, s := range place.series {
			if s.total != nil {
				p.rows = append(p.rows, l.paintSeries(s, whole[place], at.UnixNano()))
			}
		}
	}
	for _, s := range l.sums {
		if s.total == nil {
			continue
		}
		r := pictureRow{place: s.place.placeName, listed: s.listed, total: slices.Clone(s.total), rates: slices.Clone(s.rate), whole: whole[s.place]}
		_, r.tags = s.tags()
		r.level = [...]string{levelFS: "fs", levelAccount: "account", levelUser: "user", levelUID: "user"}[s.level]
		if s.level == levelFS {
			r.whole = nil // It is the whole itself.
		}
		p.rows = append(p.rows, r)
	}
	slices.SortFunc(p.rows, func(a, b pictureRow) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), slices.CompareFunc(a.tags, b.tags, func(x, y tag) int { return cmp.Compare(x.value, y.value) }))
	})
	return p
}

// paintSeries paints a series. One that waits for Slurm has no tags of a user: who asks sees what it does all the same.
func (l *ledger) paintSeries(s *series, whole []float64, at int64) pictureRow {
	r := s.row()
	r.total = slices.Clone(s.total)
	r.rates, r.whole, r.rank = s.cur, whole, s.rank()
	if s.who != nil {
		r.state = l.state(s, at)
	}
	return r
}

// row gives a row with what a series is, and its totals.
func (s *series) row() pictureRow {
	r := pictureRow{level: "job", place: s.place.placeName, listed: s.listed, total: s.total}
	r.id, _ = s.job()
	if s.who == nil {
		r.tags = []tag{{"fs", s.place.fs}, {"kind", s.place.kind}, {"job", r.id}}
	} else {
		_, r.tags = s.tags()
	}
	return r
}

// errClosed tells that the store is closed.
var errClosed = errors.New("the plugin is stopping")

// remembered gives rows of what the store has of a job that has left memory, by Lustre's id or Slurm's. It uses nothing but
// the store's file, so that it may run beside the ledger, and holds up nobody.
func (s *store) remembered(id string) (rows []pictureRow, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		key := id
		if strings.ContainsAny(id, "_+") { // As users have it, such as 12345_10: Lustre has a number.
			if j := storedJob(tx, id); j != nil {
				key = strconv.FormatInt(j.ID, 10)
			}
		}
		return tx.Bucket([]byte("places")).ForEach(func(number, value []byte) error {
			r, err := storedRow(tx, number, value, key)
			if r != nil {
				rows = append(rows, *r)
			}
			return err
		})
	})
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		err = errClosed
	}
	return rows, err
}

// storedJob looks for a job by the id that users know. The text of a record is looked at first: there are many.
func storedJob(tx *bbolt.Tx, display string) (found *job) {
	mark := []byte(strconv.Quote(display))
	c := tx.Bucket([]byte("jobs")).Cursor()
	for k, v := c.Last(); k != nil; k, v = c.Prev() { // Those whose id is largest are the latest.
		if !bytes.Contains(v, mark) {
			continue
		}
		if j, err := readJob(string(k), v); err == nil && j.Display == display {
			return j
		}
	}
	return nil
}

// storedRow gives what a job did in a place; nil if it is not there.
func storedRow(tx *bbolt.Tx, number, value []byte, id string) (*pictureRow, error) {
	name, err := parsePlace(value)
	if err != nil || len(number) != 8 {
		return nil, durable.ErrRecord
	}
	p := &place{placeName: name, id: placeNumber(number)}
	v := tx.Bucket([]byte("series")).Get([]byte(seriesKey(p, "j"+id)))
	if v == nil {
		return nil, nil
	}
	s, err := parseSeries(p, "j"+id, v, maxFields)
	if err != nil {
		return nil, fmt.Errorf("state of job %q: %w", id, err)
	}
	r := s.row()
	if s.done || storedEnd(tx, id) {
		r.state = "finished"
	}
	return &r, nil
}

// storedEnd tells whether Slurm has told of the end of a job.
func storedEnd(tx *bbolt.Tx, id string) bool {
	number, ok := jobNumber(id)
	if !ok {
		return false
	}
	key := uintKey(uint64(number))
	j, err := readJob(key, tx.Bucket([]byte("jobs")).Get([]byte(key)))
	return err == nil && j.End != 0
}
