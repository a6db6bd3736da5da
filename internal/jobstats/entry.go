package jobstats

import "time"

// entry is what is kept of one job id on one target.
type entry struct {
	id     string
	values Values // of the open epoch
	epoch  int64  // the open epoch's identity

	first, last int64 // the readings that showed this epoch first, and latest
	waits       int64 // the reading in which it waits for a decision, or did
	touched     int64 // the reading that changed what its record says
	changed     int64 // the reading that saw it count last
	created     int64 // the reading that made the entry
	zero        int64 // the time of the point of zeros that precedes the totals; 0 is none

	labels *Labels // nil: the job is the id as it stands
	sum    *sum    // the series that the entry is summed into; nil: it is a series of its own
	past   *past   // nil while the first epoch lasts

	sent  sending // of the series' total
	epoSt sending // of the open epoch
	pos   int32   // place in the latest file that showed it
	lost  bool    // its record was damaged: nothing tells when it started
}

// past is what went before the open epoch.
type past struct {
	closed []Counter // the sum over all epochs but the open one
	lives  int64     // how many those are
	// old are the epochs that a file may still show, or that are still to be sent again.
	old []*oldEpoch
}

// oldEpoch is a closed epoch.
type oldEpoch struct {
	values  Values
	epoch   int64
	last    int64 // the reading that showed it last
	changed int64
	sent    sending
	touched int64
}

// sending is when something was emitted. The zero value is never.
type sending struct {
	at   int64
	step uint8 // how often it was sent again since it changed
}

// due tells whether something that changed at the reading changed is to be emitted at now: when it changed, and again
// each refresh, or sooner when the next chance, a gap later, would be too late.
func (s *sending) due(now, changed, gap, refresh int64) bool {
	return s.at < changed || s.at == 0 || now-s.at+gap > refresh
}

// repeatDue is due for an epoch, which is sent again at intervals of refresh, 2 refresh, 4 refresh ... until repeatFor
// after it changed.
func (s *sending) repeatDue(now, changed, refresh, repeatFor int64) bool {
	if s.at < changed || s.at == 0 {
		return true
	}
	wait := refresh << min(s.step, 20)
	return now-s.at >= wait && s.at-changed < repeatFor
}

func (s *sending) mark(now, changed int64) {
	if s.at == 0 || s.at < changed {
		s.step = 0
	} else {
		s.step++
	}
	s.at = now
}

// sum is a series that several entries are summed into.
type sum struct {
	key      string
	labels   Labels
	total    []Counter
	shape    *Shape
	lives    int64
	snapshot int64
	created  int64
	changed  int64
	zero     int64
	epoch    int64 // the identity of the sum in epoch mode: when and where it was made

	sent    sending
	epoSt   sending
	refs    int // entries in memory that add to it
	touched int64
}

func (e *entry) lives() int64 {
	if e.past == nil {
		return 1
	}
	return e.past.lives + 1
}

// findOld returns the closed epoch with this start_time.
func (e *entry) findOld(start int64) *oldEpoch {
	if e.past == nil || start == 0 {
		return nil
	}
	for _, o := range e.past.old {
		if o.values.Start == start {
			return o
		}
	}
	return nil
}

// closeEpoch makes the open epoch a closed one.
func (e *entry) closeEpoch(pass int64) {
	if e.past == nil {
		e.past = &past{}
	}
	e.past.closed = add(e.past.closed, e.values.Counters)
	e.past.lives++
	e.past.old = append(e.past.old, &oldEpoch{
		values: e.values, epoch: e.epoch, last: e.last, changed: e.changed, sent: e.epoSt, touched: pass,
	})
	e.values = Values{}
	e.epoSt = sending{}
}

// forgetOld drops closed epochs that no file showed for a time and that were sent often enough, and returns them.
func (e *entry) forgetOld(now int64, keep time.Duration) []*oldEpoch {
	if e.past == nil {
		return nil
	}
	var gone []*oldEpoch
	kept := e.past.old[:0]
	for _, o := range e.past.old {
		if now-max(o.last, o.changed) > int64(keep) {
			gone = append(gone, o)
		} else {
			kept = append(kept, o)
		}
	}
	clear(e.past.old[len(kept):])
	e.past.old = kept
	return gone
}
