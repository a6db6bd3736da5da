package lustre_jobs

import (
	"bytes"
	"math"
)

// measurementEpoch is the measurement that the processor takes.
const measurementEpoch = "lustre_jobstats_epoch"

// epochLine is one line of lustre_jobstats_epoch: what a server saw of one life of a job's counters on a target. Its
// texts are those of the line and live no longer than it.
type epochLine struct {
	fs, target, kind, shard, host []byte
	job, uid, gid, exe, client    []byte

	epoch    int64 // the identity of the life
	snapshot int64 // when the job counted last, nanoseconds; 0 where it is not told
	time     int64 // of the gather, nanoseconds

	fields []uint16 // numbers in the table of fields, each once
	values []int64  // of the fields; none is negative
}

// complete tells whether the line says of what it is.
func (l *epochLine) complete() bool {
	return len(l.fs) > 0 && len(l.target) > 0 && len(l.kind) > 0 && l.epoch != 0 &&
		len(l.job)+len(l.uid)+len(l.gid)+len(l.exe)+len(l.client) > 0
}

// setTag keeps a tag; those that tell nothing of whose line it is are passed over.
func (l *epochLine) setTag(key, value []byte) {
	switch string(key) {
	case "fs":
		l.fs = value
	case "target":
		l.target = value
	case "kind":
		l.kind = value
	case "shard":
		l.shard = value
	case "host":
		l.host = value
	case "job":
		l.job = value
	case "uid":
		l.uid = value
	case "gid":
		l.gid = value
	case "exe":
		l.exe = value
	case "client":
		l.client = value
	}
}

// scanner reads the lines that lustre_jobstats writes, several times as fast as a parser for all of line protocol
// (https://docs.influxdata.com/influxdb/v1/write_protocols/line_protocol_reference/).
type scanner struct {
	table *fieldTable
	line  epochLine

	used  []uint32 // the line in which a field was seen last, by its number
	count uint32   // of lines
	next  []uint16 // the field that stood behind a field last, by its number; behind none is at 0
	clean []byte   // tag values without their escapes
}

func newScanner(table *fieldTable) *scanner {
	return &scanner{table: table, used: make([]uint32, maxFields), next: make([]uint16, maxFields+1)}
}

// scan reads a line. It tells whether the line is one of lustre_jobstats_epoch as lustre_jobstats writes it. Any other,
// however sound, it leaves to a parser that knows everything.
func (s *scanner) scan(text []byte) bool {
	const head = measurementEpoch + ","
	if len(text) < len(head) || string(text[:len(head)]) != head {
		return false
	}
	l := &s.line
	*l = epochLine{fields: l.fields[:0], values: l.values[:0]}
	if s.count++; s.count == math.MaxUint32 {
		clear(s.used)
		s.count = 1
	}
	rest, ok := s.tags(text[len(head):])
	if !ok {
		return false
	}
	if rest, ok = s.fields(rest); !ok {
		return false
	}
	l.time, rest, ok = integer(rest)
	return ok && len(rest) == 0 && l.complete()
}

// tags reads tags up to the blank behind them.
func (s *scanner) tags(b []byte) (rest []byte, ok bool) {
	s.clean = s.clean[:0]
	for {
		end := bytes.IndexByte(b, '=')
		if end < 1 || !plainName(b[:end]) {
			return nil, false
		}
		key, value := b[:end], b[end+1:]
		n, escaped := 0, false
		for ; n < len(value) && value[n] != ',' && value[n] != ' '; n++ {
			switch c := value[n]; {
			case c < ' ' || c == '=' || c == 0x7f:
				return nil, false
			case c == '\\':
				if n++; n == len(value) || value[n] < ' ' || value[n] == '\\' || value[n] == '"' {
					return nil, false
				}
				escaped = true
			}
		}
		if n == 0 || n == len(value) {
			return nil, false
		}
		end, b = n, value[n:]
		if value = value[:end]; escaped {
			value = s.unescape(value)
		}
		s.line.setTag(key, value)
		if b[0] == ' ' {
			return b[1:], true
		}
		b = b[1:]
	}
}

// unescape takes the backslash away in front of a comma, a blank or an equals sign. Any other stands for itself.
func (s *scanner) unescape(value []byte) []byte {
	from := len(s.clean)
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && (value[i+1] == ',' || value[i+1] == ' ' || value[i+1] == '=') {
			i++
		}
		s.clean = append(s.clean, value[i])
	}
	return s.clean[from:]
}

func plainName(b []byte) bool {
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(b) > 0
}

// fields reads fields up to the blank behind them.
func (s *scanner) fields(b []byte) (rest []byte, ok bool) {
	l := &s.line
	last := uint16(0)
	for {
		field, n, ok := s.name(b, last)
		if !ok || s.used[field] == s.count {
			return nil, false
		}
		s.used[field] = s.count
		last = field + 1
		var value int64
		if value, b, ok = integer(b[n:]); !ok || len(b) < 2 || b[0] != 'i' {
			return nil, false
		}
		switch {
		case field == fieldEpoch:
			l.epoch = value
		case field == fieldSnapshot:
			l.snapshot = value
		case value >= 0:
			l.fields = append(l.fields, field)
			l.values = append(l.values, value)
		default:
			return nil, false
		}
		if b[1] == ' ' {
			return b[2:], true
		}
		if b[1] != ',' {
			return nil, false
		}
		b = b[2:]
	}
}

// name reads a field's name and the equals sign behind it, and gives the field's number and the length of both. Lines
// have their fields in the same order, as a rule: what stood behind the last one before is tried first.
func (s *scanner) name(b []byte, last uint16) (field uint16, n int, ok bool) {
	if guess := s.next[last]; int(guess) < s.table.len() {
		name := s.table.name(guess)
		if len(b) > len(name) && b[len(name)] == '=' && string(b[:len(name)]) == name {
			return guess, len(name) + 1, true
		}
	}
	end := bytes.IndexByte(b, '=')
	if end < 1 {
		return 0, 0, false
	}
	field, ok = s.table.number(b[:end])
	s.next[last] = field
	return field, end + 1, ok
}

// integer reads an integer and gives what stands behind it.
func integer(b []byte) (value int64, rest []byte, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var v uint64
	n := 0
	for ; n < len(b) && b[n] >= '0' && b[n] <= '9'; n++ {
		v = v*10 + uint64(b[n]-'0')
	}
	if n == 0 || n > 19 || v > math.MaxInt64 || n > 1 && b[0] == '0' {
		return 0, nil, false
	}
	if negative {
		return -int64(v), b[n:], true
	}
	return int64(v), b[n:], true
}
