package lustresim

// pageSize is the size of a seq_file's buffer to start with.
const pageSize = 4096

// headLine is the first line of the file.
const headLine = "job_stats:\n"

// Shown is an entry that a reading has shown.
type Shown struct {
	// JobID is the id as the kernel holds it.
	JobID string
	// Life is the entry's serial number on its target, from 1. It goes on
	// over remounts and failovers.
	Life uint64
}

// Reader is one open file: open(2), read(2)s with a buffer of at least a page,
// close(2). Operations may come between its calls.
type Reader struct {
	t     *Target
	mount int
	size  int // of the seq_file's buffer
	buf   []byte
	shown []Shown

	index      int    // records shown, for walkIndex and walkSaved
	saved      *entry // walkSaved: shown next, if index has not changed since
	savedIndex int
	next       uint64 // walkPosition: the life to go on from
	closed     bool
}

// Open opens the target's job_stats.
func (t *Target) Open() *Reader {
	t.headerDue = true
	return &Reader{t: t, mount: t.mount, size: pageSize}
}

// Read is one read(2): as many whole records as fit into about 4 KiB, one at
// least. It is empty at the end, and valid until the next Read.
func (r *Reader) Read() []byte {
	if r.gone() {
		return nil
	}
	r.begin()
	return r.fill()
}

// ReadTogether is two read(2)s on one target at the same time: both find their
// place before either shows a record. This is how a 2.17 file can come without
// its first line.
func ReadTogether(a, b *Reader) (fromA, fromB []byte) {
	for _, r := range []*Reader{a, b} {
		if !r.gone() {
			r.begin()
		}
	}
	if !a.gone() {
		fromA = a.fill()
	}
	if !b.gone() {
		fromB = b.fill()
	}
	return fromA, fromB
}

// Shown returns the entries shown since Open, in the order of the text.
func (r *Reader) Shown() []Shown { return r.shown }

// Close closes the file. From 2.8 on this runs the clean-up.
func (r *Reader) Close(now int64) {
	if r.gone() {
		return
	}
	r.closed = true
	r.save(nil)
	r.t.release(r.t.clock(now))
}

func (r *Reader) gone() bool { return r.closed || r.mount != r.t.mount }

// begin is what lprocfs_jobstats_seq_start does to others.
func (r *Reader) begin() {
	if r.next == 0 {
		r.t.headerDue = true
	}
}

// fill is seq_read: records until one does not fit. A first record that does
// not fit doubles the buffer.
func (r *Reader) fill() []byte {
	r.buf = r.buf[:0]
	at, head := r.find()
	if head {
		r.buf = append(r.buf, headLine...)
		r.index++
	}
	for ; at < len(r.t.list); at++ {
		if !r.show(r.t.list[at]) {
			r.stop(at)
			return r.buf
		}
	}
	r.stop(at)
	return r.buf
}

// find returns the place in the list to go on from, and whether the head line
// comes first.
func (r *Reader) find() (at int, head bool) {
	switch {
	case r.t.era.walk == walkPosition:
		return r.t.position(r.next), false
	case r.index == 0:
		return 0, true
	case r.saved != nil && r.savedIndex == r.index:
		return r.t.position(r.saved.life), false
	default:
		return r.index - 1, false
	}
}

// show appends an entry if it fits.
func (r *Reader) show(e *entry) bool {
	before := len(r.buf)
	r.buf = r.record(r.buf, e)
	// A buffer that is full to its last byte counts as too small.
	for before == 0 && len(r.buf) >= r.size {
		r.size *= 2
		r.buf = r.record(r.buf[:0], e)
	}
	if len(r.buf) >= r.size {
		r.buf = r.buf[:before]
		return false
	}
	e.markRead()
	r.shown = append(r.shown, Shown{JobID: e.id, Life: e.life})
	r.index++
	r.next = e.life + 1
	return true
}

// record is one show. The shared flag of 2.17 is spent even if the record is
// thrown away for want of room, and its line with it.
func (r *Reader) record(dst []byte, e *entry) []byte {
	if r.t.era.lazyHeader && r.t.headerDue {
		r.t.headerDue = false
		dst = append(dst, headLine...)
	}
	return r.t.appendEntry(dst, e)
}

// stop keeps the place, at the entry that did not fit or at the end.
func (r *Reader) stop(at int) {
	switch {
	case r.t.era.walk != walkSaved:
	case at < len(r.t.list):
		r.save(r.t.list[at])
		r.savedIndex = r.index
	default:
		r.save(nil)
	}
}

// save holds an entry for the next read and lets the last one go.
func (r *Reader) save(e *entry) {
	if e != nil {
		e.refs++
	}
	if r.saved != nil {
		r.t.put(r.saved)
	}
	r.saved = e
}

// Poll opens the file, reads it to its end and closes it, as an agent does.
// The text is appended to dst[:0]; what it shows is valid until the next Poll.
func (t *Target) Poll(now int64, dst []byte) ([]byte, []Shown) {
	dst = dst[:0]
	t.headerDue = true
	t.shown = t.shown[:0]
	if !t.era.lazyHeader {
		dst = append(dst, headLine...)
	}
	for _, e := range t.list {
		if t.era.lazyHeader && t.headerDue {
			t.headerDue = false
			dst = append(dst, headLine...)
		}
		dst = t.appendEntry(dst, e)
		e.markRead()
		t.shown = append(t.shown, Shown{JobID: e.id, Life: e.life})
	}
	t.release(t.clock(now))
	return dst, t.shown
}

// Text returns the file as it is now. It is no reading: nothing is cleaned up
// and nothing counts as read.
func (t *Target) Text() []byte {
	var text []byte
	if !t.era.lazyHeader || len(t.list) > 0 {
		text = append(text, headLine...)
	}
	for _, e := range t.list {
		text = t.appendEntry(text, e)
	}
	return text
}
