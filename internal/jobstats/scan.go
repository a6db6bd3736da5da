package jobstats

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
)

// bufferSize is how much text is held at once. One read(2) of job_stats gives at most about 4 KiB; an entry has
// 840 bytes (2.10) to 3,500 (2.16 MDT).
const bufferSize = 256 << 10

// maxEntry is more than any entry has. What does not end within it is not job_stats.
const maxEntry = bufferSize / 2

// Scanner reads job_stats entry by entry.
type Scanner struct {
	// Bytes counts what was read.
	Bytes int64

	parser     *Parser
	r          io.Reader
	buf        []byte
	start, end int
	eof        bool
	err        error
	text       []byte
}

// NewScanner returns a scanner that parses with p what r gives. buf may be the buffer of a scanner that is done, or nil.
func NewScanner(r io.Reader, p *Parser, buf []byte) *Scanner {
	if cap(buf) < bufferSize {
		buf = make([]byte, bufferSize)
	}
	p.lost = false
	return &Scanner{parser: p, r: r, buf: buf[:cap(buf)]}
}

// Next returns the next entry, which is valid until the next call. At the end it returns io.EOF. An *EntryError tells
// of an entry that was left out, and the scan goes on behind it; any other error ends the scan.
func (s *Scanner) Next() (*Entry, error) {
	for {
		e, n, more, err := s.parser.Next(s.buf[s.start:s.end], s.eof)
		s.text = s.buf[s.start : s.start+n]
		if e != nil {
			s.text = s.text[skipFileHeader(s.text):]
		}
		s.start += n
		switch {
		case err != nil:
			return nil, err
		case e != nil:
			return e, nil
		case n > 0 && more && s.start < s.end && isHead(s.buf[s.start:s.end]):
			continue
		case s.eof && s.start == s.end:
			if s.err != nil {
				return nil, s.err
			}
			return nil, io.EOF
		}
		if s.end-s.start >= maxEntry {
			return nil, fmt.Errorf("an entry of more than %d bytes: not job_stats", maxEntry)
		}
		s.fill()
	}
}

// Text returns the text of the entry that Next returned last.
func (s *Scanner) Text() []byte { return s.text }

// fingerprint tells a text from another one: from its beginning, where an entry says when it counted last, and from all
// of it.
type fingerprint struct {
	head, whole uint64
	size        int32
}

// fingerprintHead is how much of an entry is looked at first: up to the end of its snapshot_time, as a rule.
const fingerprintHead = 96

func fingerprintOf(text []byte, seed maphash.Seed) fingerprint {
	return fingerprint{
		head:  maphash.Bytes(seed, text[:min(len(text), fingerprintHead)]),
		whole: maphash.Bytes(seed, text),
		size:  int32(len(text)),
	}
}

func (f *fingerprint) matches(text []byte, seed maphash.Seed) bool {
	return maphash.Bytes(seed, text[:min(len(text), fingerprintHead)]) == f.head && maphash.Bytes(seed, text) == f.whole
}

// SkipSame passes over the text of this fingerprint if it stands here, and an entry or the end follows: the entry is the
// one that had this text when it was read before.
func (s *Scanner) SkipSame(f *fingerprint, seed maphash.Seed) bool {
	n := int(f.size)
	for s.end-s.start < n+headWidth && !s.eof {
		s.fill()
	}
	b := s.buf[s.start:s.end]
	header := skipFileHeader(b)
	if b = b[header:]; len(b) < n || (len(b) > n && !isHead(b[n:])) || !f.matches(b[:n], seed) {
		return false
	}
	s.text = b[:n]
	s.start += header + n
	return true
}

// fill reads once, and moves what is left to the front of the buffer when it has no room.
func (s *Scanner) fill() {
	if len(s.buf)-s.end < maxEntry/2 {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		s.Bytes += int64(n)
		if err != nil {
			s.eof = true
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			return
		}
		if n > 0 {
			return
		}
	}
	s.eof, s.err = true, io.ErrNoProgress
}
