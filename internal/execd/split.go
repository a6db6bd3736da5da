package execd

import "bytes"

// Where in a line the splitter is. A newline ends a line everywhere but inside a quoted string field, where Telegraf
// writes it as it is.
const (
	atStart = iota
	inComment
	inSeries
	inFields
	afterEquals
	inQuotes
	inGarbage // The rest of a line that was too long.
)

// keepBuffer is how much memory, in bytes, the splitter keeps after a long line.
const keepBuffer = 1 << 20

// splitter cuts a stream of line protocol into lines. It follows the grammar of Telegraf's parser
// (plugins/parsers/influx/machine.go.rl) as far as is needed to know which newlines end a line.
type splitter struct {
	limit int // Longest line, in bytes.

	buf   []byte
	last  int // Where the line that next gave last begins.
	start int // Where the line being read begins.
	pos   int // All before it has been looked at.
	state int
	skip  bool // The byte at pos is escaped.
}

// push adds what was read. Lines that next gave before are no longer valid.
func (s *splitter) push(data []byte) {
	n := copy(s.buf, s.buf[s.start:])
	s.buf = append(s.buf[:n], data...)
	if cap(s.buf) > keepBuffer && len(s.buf) < keepBuffer/2 {
		s.buf = bytes.Clone(s.buf)
	}
	s.pos -= s.start
	s.start = 0
}

// next gives the next whole line without its newline, or nil when more must be read first. Blank lines and comments
// are passed over.
func (s *splitter) next() []byte {
	for s.pos < len(s.buf) {
		if s.state == atStart {
			if line, ok := s.plain(); ok {
				return line
			}
		}
		c := s.buf[s.pos]
		s.pos++
		if c != '\n' || s.state == inQuotes {
			s.step(c)
			continue
		}
		ended := s.state
		line := s.buf[s.start : s.pos-1]
		s.begin()
		if ended != atStart && ended != inComment && ended != inGarbage {
			return line
		}
	}
	return nil
}

// plain finds the end of a line that has no quotes and is no comment: nearly all are such.
func (s *splitter) plain() ([]byte, bool) {
	rest := s.buf[s.pos:]
	end := bytes.IndexByte(rest, '\n')
	if end <= 0 || !begins(rest[0]) || bytes.IndexByte(rest[:end], '"') >= 0 {
		return nil, false
	}
	line := s.buf[s.start : s.pos+end]
	s.pos += end + 1
	s.begin()
	return line, true
}

func begins(c byte) bool {
	return c != '#' && c != ' ' && c != '\t' && c != '\v' && c != '\f' && c != '\r'
}

func (s *splitter) begin() {
	s.last, s.start, s.state, s.skip = s.start, s.pos, atStart, false
}

func (s *splitter) step(c byte) {
	if s.skip {
		s.skip = false
		return
	}
	switch s.state {
	case atStart:
		switch {
		case c == '#':
			s.state = inComment
		case begins(c):
			s.state = inSeries
			s.skip = c == '\\'
		}
	case inSeries:
		s.skip = c == '\\'
		if c == ' ' || c == '\t' || c == '\v' || c == '\f' {
			s.state = inFields
		}
	case inFields, afterEquals:
		s.skip = c == '\\'
		switch {
		case c == '=':
			s.state = afterEquals
		case c == '"' && s.state == afterEquals:
			s.state = inQuotes
		default:
			s.state = inFields
		}
	case inQuotes:
		s.skip = c == '\\'
		if c == '"' {
			s.state = inFields
		}
	}
}

// retry takes back what next gave last, but for its first physical line: a stray quote had swallowed the lines that
// follow. It tells whether there was more than that one line, and gives it.
func (s *splitter) retry() (dropped []byte, ok bool) {
	end := bytes.IndexByte(s.buf[s.last:max(s.start-1, s.last)], '\n')
	if end < 0 {
		return nil, false
	}
	dropped = s.buf[s.last : s.last+end]
	s.pos = s.last + end + 1
	s.start = s.pos
	s.begin()
	return dropped, true
}

// open tells whether what waits has a newline in it, that is, whether a string field was opened in one physical line
// and not closed in it.
func (s *splitter) open() bool {
	return s.state == inQuotes && bytes.IndexByte(s.buf[s.start:], '\n') >= 0
}

// tooLong tells whether the line being read is over the limit.
func (s *splitter) tooLong() bool {
	return len(s.buf)-s.start > s.limit
}

// giveUp drops the first physical line of what waits, up to a newline yet to come if there is none. It gives what it
// dropped, and nil for more of the same line.
func (s *splitter) giveUp() []byte {
	if s.state == inGarbage {
		s.start = s.pos
		return nil
	}
	end := bytes.IndexByte(s.buf[s.start:], '\n')
	if end < 0 {
		dropped := s.buf[s.start:]
		s.pos = len(s.buf)
		s.start = s.pos
		s.begin()
		s.state = inGarbage
		return dropped
	}
	dropped := s.buf[s.start : s.start+end]
	s.pos = s.start + end + 1
	s.start = s.pos
	s.begin()
	return dropped
}

// rest gives what was read after the last newline.
func (s *splitter) rest() []byte {
	if s.state == inGarbage {
		return nil
	}
	return bytes.TrimSpace(s.buf[s.start:])
}
