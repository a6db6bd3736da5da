// Package jobstats reads Lustre's job_stats, decides which counters were started again from zero since they were last
// read, and keeps true totals over all the lives of an entry.
//
// The text is that of lustre/obdclass/lprocfs_jobstats.c from Lustre 2.5 to 2.17. The parser branches on what a line
// shows, never on a version, since vendors carry changes back.
package jobstats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Counter is one operation of an entry.
type Counter struct {
	// Op is the operation's number in the target's OpTable.
	Op uint16
	// Samples is the number of requests.
	Samples int64
	// Sum, Min and Max are over the requests, in the operation's unit; 0 where the line has none.
	Sum, Min, Max int64
}

// Entry is what job_stats says of one job on one target. It is valid until the next one is parsed.
type Entry struct {
	// JobID is the id as Lustre holds it, decoded: at most 31 bytes of any value.
	JobID []byte
	// Snapshot is when the entry last counted, in nanoseconds; up to 2.14 in whole seconds.
	Snapshot int64
	// Start is when the entry was created, in nanoseconds on the clock of Snapshot; 0 where Lustre does not tell.
	Start int64
	// Counters are the operations that have counted, in the order of the text.
	Counters []Counter
	// Shape tells which operations the entry lists, those at zero included.
	Shape *Shape
}

// Shape is the list of operations that the entries of a target show, in the order of the text. Entries of equal lists
// share one Shape.
type Shape struct {
	Ops []uint16

	lines  []shapeLine
	record []byte // as records have it
}

// shapeLine is what the parser remembers of a line to know it again without parsing it.
type shapeLine struct {
	label []byte // `  read_bytes:      { samples:`
	unit  []byte
	zero  []byte // the whole line, newline too, when nothing was counted
	// run is the text of this line and the runLines-1 behind it when all of them counted nothing, as they mostly do:
	// one comparison passes over them all.
	run      []byte
	runLines int
}

// EntryError says what is wrong with an entry that was left out.
type EntryError struct {
	JobID string // as far as it is known
	Line  string // the line that could not be read, cut
	Err   error
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("job id %q: line %q: %v", e.JobID, e.Line, e.Err)
}

func (e *EntryError) Unwrap() error { return e.Err }

// errShort tells that the buffer ends inside of an entry.
type errShort struct{}

func (errShort) Error() string { return "the text ends inside of an entry" }

const (
	headLabel  = "- job_id:"
	headWidth  = 19 // "- %-16s " since 2.5
	maxJobID   = 31 // LUSTRE_JOBID_SIZE - 1
	fileHeader = "job_stats:"

	// Numbers are right-aligned in columns of these widths, the blank before them counted in.
	samplesWidth = 12
	minMaxWidth  = 9
	sumWidth     = 17
)

// Parser parses the text of one target. The zero value with Ops set is ready.
type Parser struct {
	// Ops numbers the operations.
	Ops *OpTable

	entry   Entry
	shape   *Shape
	shapes  []*Shape
	listed  []uint16
	lines   []shapeLine
	decoded []byte
	lost    bool // looking for the next entry behind damage that did not end in the last buffer
}

// Next parses the entry at the start of b, which may begin with the file's header. It returns the entry and the bytes
// it took. With an entry that is damaged the error is an *EntryError, and n leads to the next entry. n without an
// entry and without an error means that no entry is left in b; when b may go on (eof is false) and ends inside of an
// entry, n is what can be given up before it and more is true.
func (p *Parser) Next(b []byte, eof bool) (e *Entry, n int, more bool, err error) {
	if p.lost && !isHead(b) {
		return p.resync(b, eof)
	}
	p.lost = false
	skipped := skipFileHeader(b)
	if !eof && len(b)-skipped < headWidth {
		return nil, skipped, true, nil
	}
	if skipped == len(b) {
		return nil, skipped, false, nil
	}
	used, err := p.parse(b[skipped:], eof)
	if _, short := err.(errShort); short { //nolint:errorlint // Never wrapped, and asked once an entry.
		if !eof {
			return nil, skipped, true, nil
		}
		err = &EntryError{JobID: string(p.entry.JobID), Line: cut(b[skipped:]), Err: err}
		return nil, len(b), false, err
	}
	if err == nil {
		return &p.entry, skipped + used, false, nil
	}
	damage := err
	if used > 0 && isHead(b[skipped+used:]) {
		return nil, skipped + used, false, damage
	}
	_, n, _, _ = p.resync(b[skipped+used:], eof)
	return nil, skipped + used + n, false, damage
}

// resync leads to the next entry behind damage.
func (p *Parser) resync(b []byte, eof bool) (e *Entry, n int, more bool, err error) {
	if next := nextHead(b); next >= 0 {
		p.lost = false
		return nil, next, true, nil
	}
	if eof {
		p.lost = false
		return nil, len(b), false, nil
	}
	// Keep what could be the start of the next head.
	p.lost = true
	return nil, max(0, len(b)-headWidth), true, nil
}

// skipFileHeader returns the length of the header lines and blank lines at the start of b. Since 2.17 readers share the
// flag that it was written, so it may stand anywhere between entries, or be missing.
func skipFileHeader(b []byte) int {
	n := 0
	for {
		switch {
		case n < len(b) && b[n] == '\n':
			n++
		case bytes.HasPrefix(b[n:], []byte(fileHeader+"\n")):
			n += len(fileHeader) + 1
		default:
			return n
		}
	}
}

// nextHead returns where the next entry starts in b after its first byte, or -1.
func nextHead(b []byte) int {
	if i := bytes.Index(b, []byte("\n"+headLabel+"          ")); i >= 0 {
		return i + 1
	}
	return -1
}

// isHead tells whether an entry starts at b.
func isHead(b []byte) bool {
	return len(b) >= headWidth && string(b[:headWidth]) == headLabel+"          "
}

// parse parses the entry at the start of b into p.entry and returns its length. With an error it returns where the
// trouble is.
func (p *Parser) parse(b []byte, eof bool) (int, error) {
	e := &p.entry
	e.JobID, e.Snapshot, e.Start, e.Counters = nil, 0, 0, e.Counters[:0]
	if !isHead(b) {
		return 0, p.damage(b, "", "not the start of an entry")
	}
	idEnd, err := jobIDEnd(b)
	if err != nil {
		if _, short := err.(errShort); short { //nolint:errorlint // Never wrapped.
			return 0, err
		}
		return 0, p.damage(b, cut(b[headWidth:]), err.Error())
	}
	rawID := b[headWidth:idEnd]
	n, escaped := p.usualHeader(b, idEnd+1)
	for {
		used, wall, err := p.header(b[n:], eof)
		if err != nil {
			return p.failed(n, b, rawID, err)
		}
		if used == 0 {
			break
		}
		escaped = escaped || wall
		n += used
	}
	e.JobID = p.decode(rawID, escaped)
	if e.Snapshot == 0 {
		return n, p.damage(b[n:], string(e.JobID), "no snapshot_time")
	}
	used, err := p.counters(b[n:], eof)
	if err != nil {
		return p.failed(n+used, b, rawID, err)
	}
	return n + used, nil
}

func (p *Parser) failed(n int, b, rawID []byte, err error) (int, error) {
	if _, short := err.(errShort); short { //nolint:errorlint // Never wrapped.
		p.entry.JobID = rawID
		return 0, err
	}
	return n, p.damage(b[n:], string(rawID), err.Error())
}

func (p *Parser) damage(b []byte, jobID, what string) error {
	return &EntryError{JobID: jobID, Line: cut(b), Err: parseError(what)}
}

// parseError is what is wrong with a line.
type parseError string

func (e parseError) Error() string { return string(e) }

// cut returns the first line of b, at most 120 bytes of it.
func cut(b []byte) string {
	b = b[:min(len(b), 120)]
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// jobIDEnd returns the end of the id in the entry at the start of b: the newline before snapshot_time. Up to 2.7 an id
// is raw and may hold newlines, and so lines that look like the head of another entry; but 31 bytes are too few to
// forge a head and a snapshot_time of the widths that Lustre prints.
func jobIDEnd(b []byte) (int, error) {
	limit := headWidth + 4*maxJobID + 3 // escaped and quoted
	for at := headWidth; ; {
		i := bytes.IndexByte(b[at:min(len(b), limit)], '\n')
		if i < 0 {
			if len(b) < limit {
				return 0, errShort{}
			}
			return 0, parseError("the job id does not end")
		}
		end := at + i
		if end > headWidth+maxJobID && at > headWidth {
			return 0, parseError("no snapshot_time")
		}
		rest := b[end+1:]
		if bytes.HasPrefix(rest, []byte("  snapshot_time:   ")) || bytes.HasPrefix(rest, []byte("snapshot_time   : ")) {
			return end, nil
		}
		if len(rest) < headWidth {
			return 0, errShort{}
		}
		at = end + 1
	}
}

// usualHeader parses the header lines as 2.15.2 and later print them, which saves most of header's cost. It returns the
// place of the first line that is another.
func (p *Parser) usualHeader(b []byte, i int) (n int, escaped bool) {
	for _, name := range [...]string{"  snapshot_time:   ", "  start_time:      ", "  elapsed_time:    "} {
		at, ok := label(b, i, name)
		if !ok {
			return i, escaped
		}
		secs, at, ok := parseInt(b, at)
		if !ok || secs == 0 || secs >= math.MaxInt64/1_000_000_000 || len(b)-at < len(".000000000 secs.nsecs\n") {
			return i, escaped
		}
		nanos, end, ok := parseInt(b, at+1)
		if !ok || b[at] != '.' || end-at != 10 {
			return i, escaped
		}
		if end, ok = label(b, end, " secs.nsecs\n"); !ok {
			return i, escaped
		}
		i = end
		switch name[3] {
		case 'n':
			p.entry.Snapshot, escaped = secs*1e9+nanos, true
		case 't':
			p.entry.Start = secs*1e9 + nanos
		}
	}
	return i, escaped
}

// header parses one line of snapshot_time, start_time or elapsed_time, or skips a line of another name that has no
// counter. It returns 0 at the first line that is none, and whether the line shows the form since 2.15.2, in which
// ids are escaped.
func (p *Parser) header(b []byte, eof bool) (n int, wall bool, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if eof && len(b) == 0 {
			return 0, false, nil
		}
		return 0, false, errShort{}
	}
	line := b[:end]
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || isHead(b) || bytes.HasPrefix(b, []byte(fileHeader)) {
		return 0, false, nil
	}
	value := bytes.TrimLeft(line[colon+1:], " ")
	if len(value) > 0 && value[0] == '{' {
		return 0, false, nil
	}
	name := bytes.Trim(line[:colon], " ")
	switch string(name) {
	case "snapshot_time":
		p.entry.Snapshot, err = parseTime(value)
		wall = line[0] == ' ' && bytes.IndexByte(value, '.') > 0
	case "start_time":
		p.entry.Start, err = parseTime(value)
	default:
		if !isName(string(name)) {
			err = parseError("not a name")
		}
	}
	return end + 1, wall, err
}

// parseTime parses `1510782606` or `1724140459.176791282 secs.nsecs` to nanoseconds.
func parseTime(b []byte) (int64, error) {
	secs, i, ok := parseInt(b, 0)
	if !ok || secs >= math.MaxInt64/1_000_000_000 {
		return 0, parseError("not a time")
	}
	nanos := int64(0)
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if nanos, i, ok = parseInt(b, from); !ok || i-from > 9 {
			return 0, parseError("not a time")
		}
		for digits := i - from; digits < 9; digits++ {
			nanos *= 10
		}
	}
	if i < len(b) && b[i] != ' ' {
		return 0, parseError("not a time")
	}
	if t := secs*1e9 + nanos; t > 0 {
		return t, nil
	}
	return 0, parseError("not a time")
}

// counters parses the lines of counters up to the next entry.
func (p *Parser) counters(b []byte, eof bool) (int, error) {
	p.listed = p.listed[:0]
	p.lines = p.lines[:0]
	shape, i, n := p.shape, 0, 0
	run := zeroRun{b: b}
	for ; ; i++ {
		rest := b[n:]
		if shape != nil && i < len(shape.lines) {
			known := &shape.lines[i]
			// One look at the last digit of samples spares most comparisons of lines that counted.
			if at := len(known.label) + samplesWidth - 1; at < len(rest) && rest[at] == '0' && len(known.zero) > 0 {
				if known.runLines > 0 && bytes.HasPrefix(rest, known.run) {
					run.join(known)
					n += len(known.run)
					i += known.runLines - 1
					continue
				}
				if bytes.HasPrefix(rest, known.zero) {
					run.add(known, n)
					n += len(known.zero)
					continue
				}
			}
			run.end(n)
			if bytes.HasPrefix(rest, known.label) {
				used, err := p.knownLine(rest, shape, i)
				if err != nil {
					return n, err
				}
				if used > 0 {
					n += used
					continue
				}
			}
		}
		run.end(n)
		done, err := endOfEntry(rest, eof)
		if err != nil {
			return n, err
		}
		if done {
			break
		}
		if shape != nil {
			// From here on the entry lists something else than the one before it.
			p.listed = append(p.listed, shape.Ops[:min(i, len(shape.Ops))]...)
			p.lines = append(p.lines, shape.lines[:min(i, len(shape.lines))]...)
			shape = nil
		}
		used, err := p.newLine(rest)
		if err != nil {
			return n, err
		}
		n += used
	}
	switch {
	case shape == nil:
		p.shape = p.shapeOf(p.listed, p.lines)
	case i < len(shape.Ops):
		p.shape = p.shapeOf(shape.Ops[:i], shape.lines[:i])
	}
	p.entry.Shape = p.shape
	return n, nil
}

// zeroRun gathers lines in a row that counted nothing.
type zeroRun struct {
	b     []byte
	first *shapeLine
	from  int
	lines int
}

func (r *zeroRun) add(line *shapeLine, at int) {
	if r.lines == 0 {
		r.first, r.from = line, at
	}
	r.lines++
}

// join lets a run that is kept already be the end of this one, if one has begun.
func (r *zeroRun) join(line *shapeLine) {
	if r.lines > 0 {
		r.lines += line.runLines
	}
}

// end ends the run before the place at, and keeps it with its first line if there are several lines.
func (r *zeroRun) end(at int) {
	if r.lines > 1 {
		r.first.run, r.first.runLines = append(r.first.run[:0], r.b[r.from:at]...), r.lines
	}
	r.lines = 0
}

// endOfEntry tells whether the lines of an entry end at b.
func endOfEntry(b []byte, eof bool) (bool, error) {
	switch {
	case len(b) == 0:
		if !eof {
			return false, errShort{}
		}
		return true, nil
	case b[0] == ' ':
		return false, nil
	case b[0] == '\n', isHead(b), bytes.HasPrefix(b, []byte(fileHeader)):
		return true, nil
	case len(b) < headWidth && !eof:
		return false, errShort{}
	}
	return false, nil
}

// knownLine parses a line whose label the shape has at place i. It returns 0 when the unit is another.
func (p *Parser) knownLine(b []byte, shape *Shape, i int) (int, error) {
	known := &shape.lines[i]
	c, unit, n, err := parseCounter(b, len(known.label))
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(unit, known.unit) {
		return 0, nil
	}
	if c.Samples == 0 {
		known.zero = append(known.zero[:0], b[:n]...)
		return n, nil
	}
	c.Op = shape.Ops[i]
	p.entry.Counters = append(p.entry.Counters, c)
	return n, nil
}

// newLine parses a line that the shape does not have.
func (p *Parser) newLine(b []byte) (int, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, errShort{}
	}
	brace := bytes.IndexByte(b[:end], '{')
	colon := bytes.IndexByte(b[:end], ':')
	if brace < 0 || colon < 0 || colon > brace || b[0] != ' ' {
		return 0, parseError("not a counter")
	}
	labelEnd, ok := label(b, brace, "{ samples:")
	if !ok {
		return 0, parseError("no samples")
	}
	c, unit, n, err := parseCounter(b, labelEnd)
	if err != nil {
		return 0, err
	}
	name := bytes.TrimLeft(b[:colon], " ")
	if c.Op, err = p.Ops.Add(string(name), string(unit)); err != nil {
		return 0, err
	}
	for _, op := range p.listed {
		if op == c.Op {
			return 0, parseError("an operation stands twice")
		}
	}
	p.listed = append(p.listed, c.Op)
	line := shapeLine{label: bytes.Clone(b[:labelEnd]), unit: bytes.Clone(unit)}
	if c.Samples == 0 {
		line.zero = bytes.Clone(b[:n])
	} else {
		p.entry.Counters = append(p.entry.Counters, c)
	}
	p.lines = append(p.lines, line)
	return n, nil
}

// maxShapes bounds the shapes remembered. A target shows one, two over a change of Lustre.
const maxShapes = 16

func (p *Parser) shapeOf(ops []uint16, lines []shapeLine) *Shape {
	for _, s := range p.shapes {
		if equalShape(s, ops, lines) {
			return s
		}
	}
	s := newShape(append([]uint16(nil), ops...))
	s.lines = append([]shapeLine(nil), lines...)
	for i := range s.lines {
		s.lines[i].zero = bytes.Clone(s.lines[i].zero)
		s.lines[i].run, s.lines[i].runLines = nil, 0
	}
	if len(p.shapes) == maxShapes {
		p.shapes = p.shapes[1:]
	}
	p.shapes = append(p.shapes, s)
	return s
}

func equalShape(s *Shape, ops []uint16, lines []shapeLine) bool {
	if len(s.Ops) != len(ops) {
		return false
	}
	for i := range ops {
		if s.Ops[i] != ops[i] || !bytes.Equal(s.lines[i].label, lines[i].label) || !bytes.Equal(s.lines[i].unit, lines[i].unit) {
			return false
		}
	}
	return true
}

// parseCounter parses `{ samples: 1, unit: bytes, min: 4096, max: 4096, sum: 4096, sumsq: 16777216, hist: { 4K: 1 } }`
// from behind `samples:`, at i, to the newline. A number may stand right behind its label. sumsq wraps at 2^64
// and hist is told by no rule here: both are passed over, and so is what a later Lustre may add behind them.
func parseCounter(b []byte, i int) (c Counter, unit []byte, n int, err error) {
	var ok bool
	if c.Samples, i, ok = column(b, i, samplesWidth); !ok {
		return c, nil, 0, missing(b, "samples is not a number")
	}
	if i, ok = label(b, i, ", unit:"); !ok {
		return c, nil, 0, missing(b, "no unit")
	}
	for i < len(b) && b[i] == ' ' {
		i++
	}
	from := i
	for i < len(b) && b[i] >= 'A' && b[i] <= 'z' {
		i++
	}
	unit = b[from:i]
	if i, ok = label(b, i, ", min:"); ok {
		if c.Min, i, ok = column(b, i, minMaxWidth); !ok {
			return c, nil, 0, missing(b, "min is not a number")
		}
		if i, ok = label(b, i, ", max:"); !ok {
			return c, nil, 0, missing(b, "no max")
		}
		if c.Max, i, ok = column(b, i, minMaxWidth); !ok {
			return c, nil, 0, missing(b, "max is not a number")
		}
		if i, ok = label(b, i, ", sum:"); !ok {
			return c, nil, 0, missing(b, "no sum")
		}
		if c.Sum, i, ok = column(b, i, sumWidth); !ok {
			return c, nil, 0, missing(b, "sum is not a number")
		}
	}
	end := bytes.IndexByte(b[i:], '\n')
	if end < 0 {
		return c, nil, 0, errShort{}
	}
	if end += i; b[end-1] != '}' || (b[i] != ',' && string(b[i:end]) != " }") {
		return c, nil, 0, parseError("the counter does not end with a brace")
	}
	return c, unit, end + 1, nil
}

// missing is errShort when the line is not whole yet.
func missing(b []byte, what string) error {
	if bytes.IndexByte(b, '\n') < 0 {
		return errShort{}
	}
	return parseError(what)
}

// label returns the place behind the label at i.
func label(b []byte, i int, want string) (int, bool) {
	if len(b)-i < len(want) || string(b[i:i+len(want)]) != want {
		return i, false
	}
	return i + len(want), true
}

// column parses the number at i, which Lustre right-aligns in so many columns, the blank behind the label counted in.
// Where the number really ends there, and none of its digits are left of the last sixteen, it is read without a branch
// for each digit: that halves the cost of a line.
func column(b []byte, i, width int) (v int64, end int, ok bool) {
	end = i + width
	if end >= len(b) || b[end] != ',' && b[end] != ' ' {
		return number(b, i)
	}
	v, digits, ok := eight(b[end-8:])
	if width == sumWidth {
		high, highDigits, highOK := eight(b[i+1:])
		if highDigits != 0 {
			if v += high * 1e8; !highOK || digits != ones {
				return number(b, i)
			}
		} else if !blank8(b[i+1:]) {
			return number(b, i)
		}
	}
	if width == samplesWidth && binary.LittleEndian.Uint32(b[i:]) != 0x20202020 || b[i] != ' ' || !ok {
		return number(b, i)
	}
	return v, end, true
}

const ones = 0x0101010101010101

func blank8(b []byte) bool { return binary.LittleEndian.Uint64(b) == ' '*ones }

// eight reads the number that is right-aligned in the first eight bytes of b, and tells which of them are digits, as
// a one in each. ok is false if they are not blanks and then at least one digit.
func eight(b []byte) (v int64, digits uint64, ok bool) {
	x := binary.LittleEndian.Uint64(b)
	digits = x >> 4 & ones
	x ^= ' '*ones | digits<<4 // leaves a digit's value, and 0 of a blank
	ok = (x|(x+6*ones))&(0xf0*ones) == 0 && x&^(digits*0xf) == 0 && digits<<8&^digits == 0 && digits>>56 == 1
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	x = (x*10000 + x>>32) & 0x00000000ffffffff
	return int64(x), digits, ok
}

// number parses the blanks and the digits at i.
func number(b []byte, i int) (int64, int, bool) {
	for i < len(b) && b[i] == ' ' {
		i++
	}
	return parseInt(b, i)
}

// parseInt parses the digits at i; ok is false with none, or with more than an int64 holds.
func parseInt(b []byte, i int) (v int64, end int, ok bool) {
	from := i
	var u uint64
	for i < len(b) {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		u = u*10 + uint64(d)
		i++
	}
	if i-from > 18 {
		return parseLong(b[from:i], i)
	}
	return int64(u), i, i > from
}

// parseLong parses digits that may not fit.
func parseLong(digits []byte, end int) (int64, int, bool) {
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) > 19 {
		return 0, end, false
	}
	var u uint64
	for _, d := range digits {
		u = u*10 + uint64(d-'0')
	}
	return int64(u), end, u <= math.MaxInt64
}
