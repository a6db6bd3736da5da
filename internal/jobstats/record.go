package jobstats

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A record is what the log and the store keep under a key: its payload behind the CRC-32C of key and payload. Numbers
// are varints; times are relative to the record's first one, which keeps them short.

var errRecord = errors.New("the record is damaged")

const (
	flagSummed = 1 << iota // the entry adds to a sum, whose key follows
	flagPast
	flagStart // has a start_time
	flagZero
)

// seal puts the checksum in front of the payload at the end of b, which starts at from.
func seal(b []byte, from int, key string) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum([]byte(key), table), table, b[from+4:])
	binary.LittleEndian.PutUint32(b[from:], sum)
	return b
}

// unseal returns the payload of a record.
func unseal(b []byte, key string) (*decoder, error) {
	if len(b) < 4 {
		return nil, errRecord
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(crc32.Checksum([]byte(key), table), table, b[4:]) != binary.LittleEndian.Uint32(b) {
		return nil, errRecord
	}
	return &decoder{b: b[4:]}, nil
}

func appendEntry(b []byte, e *entry) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	flags := uint64(0)
	for _, f := range []struct {
		on   bool
		flag uint64
	}{{e.sum != nil, flagSummed}, {e.past != nil, flagPast}, {e.values.Start != 0, flagStart}, {e.zero != 0, flagZero}} {
		if f.on {
			flags |= f.flag
		}
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendVarint(b, e.changed)
	b = binary.AppendVarint(b, e.created-e.changed)
	b = binary.AppendVarint(b, e.last-e.changed)
	b = binary.AppendVarint(b, e.first-e.changed)
	b = appendEpoch(b, &e.values, e.epoch, e.changed)
	if e.sum != nil {
		b = appendString(b, e.sum.key)
	}
	if e.past != nil {
		b = binary.AppendVarint(b, e.past.lives)
		b = appendCounters(b, e.past.closed, false)
	}
	if e.zero != 0 {
		b = binary.AppendVarint(b, e.zero-e.changed)
	}
	return seal(b, from, e.id)
}

func readEntry(id string, value []byte, sums func(key string) *sum) (*entry, error) {
	d, err := unseal(value, id)
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, pos: -1}
	flags := d.uvarint()
	e.changed = d.varint()
	e.created = e.changed + d.varint()
	e.last = e.changed + d.varint()
	e.first = e.changed + d.varint()
	e.epoch = d.epoch(&e.values, flags&flagStart != 0, e.changed)
	if flags&flagSummed != 0 {
		e.sum = sums(d.string())
	}
	if flags&flagPast != 0 {
		e.past = &past{lives: d.varint(), closed: d.counters(false)}
	}
	if flags&flagZero != 0 {
		e.zero = e.changed + d.varint()
	}
	return e, d.err
}

// appendEpoch appends the values of an epoch and its identity. min and max are needed only where no start_time tells.
func appendEpoch(b []byte, v *Values, epoch, base int64) []byte {
	b = binary.AppendVarint(b, v.Snapshot-base)
	if v.Start != 0 {
		b = binary.AppendVarint(b, v.Start-base)
		b = binary.AppendVarint(b, epoch-v.Start)
	} else {
		b = binary.AppendVarint(b, epoch-base)
	}
	b = appendCounters(b, v.Counters, v.Start == 0)
	return appendShape(b, v.Shape)
}

func (d *decoder) epoch(v *Values, hasStart bool, base int64) (epoch int64) {
	v.Snapshot = base + d.varint()
	if hasStart {
		v.Start = base + d.varint()
		epoch = v.Start + d.varint()
	} else {
		epoch = base + d.varint()
	}
	v.Counters = d.counters(!hasStart)
	d.shape(v)
	return epoch
}

// appendShape appends which operations the text listed, so that those at zero are known as zero after a restart too.
func appendShape(b []byte, s *Shape) []byte {
	if s == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(b, s.record...)
}

func newShape(ops []uint16) *Shape {
	s := &Shape{Ops: ops, record: binary.AppendUvarint(nil, uint64(len(ops)))}
	for _, op := range ops {
		s.record = binary.AppendUvarint(s.record, uint64(op))
	}
	return s
}

func (d *decoder) shape(v *Values) {
	n := d.length()
	if n == 0 {
		return
	}
	ops := make([]uint16, n)
	for i := range ops {
		ops[i] = uint16(d.uvarint())
	}
	v.Shape = newShape(ops)
}

func appendCounters(b []byte, counters []Counter, minMax bool) []byte {
	b = binary.AppendUvarint(b, uint64(len(counters)))
	for i := range counters {
		c := &counters[i]
		b = binary.AppendUvarint(b, uint64(c.Op))
		b = binary.AppendUvarint(b, uint64(c.Samples))
		b = binary.AppendUvarint(b, uint64(c.Sum))
		if minMax {
			b = binary.AppendUvarint(b, uint64(c.Min))
			b = binary.AppendUvarint(b, uint64(c.Max))
		}
	}
	return b
}

func (d *decoder) counters(minMax bool) []Counter {
	n := d.length()
	if n == 0 {
		return nil
	}
	counters := make([]Counter, n)
	for i := range counters {
		c := &counters[i]
		c.Op, c.Samples, c.Sum = uint16(d.uvarint()), int64(d.uvarint()), int64(d.uvarint())
		if minMax {
			c.Min, c.Max = int64(d.uvarint()), int64(d.uvarint())
		}
	}
	return counters
}

// oldKey is the key of a closed epoch: they stand in the order of their entries. A job id has no NUL.
func oldKey(id string, epoch int64) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(id), 0), uint64(epoch)))
}

func appendOld(b []byte, id string, o *oldEpoch) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	flags := uint64(0)
	if o.values.Start != 0 {
		flags = flagStart
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendVarint(b, o.changed)
	b = binary.AppendVarint(b, o.last-o.changed)
	b = appendEpoch(b, &o.values, o.epoch, o.changed)
	return seal(b, from, oldKey(id, o.epoch))
}

func readOld(key string, value []byte) (*oldEpoch, error) {
	d, err := unseal(value, key)
	if err != nil {
		return nil, err
	}
	o := &oldEpoch{}
	flags := d.uvarint()
	o.changed = d.varint()
	o.last = o.changed + d.varint()
	o.epoch = d.epoch(&o.values, flags&flagStart != 0, o.changed)
	return o, d.err
}

func appendSum(b []byte, s *sum) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendVarint(b, s.changed)
	b = binary.AppendVarint(b, s.created-s.changed)
	b = binary.AppendVarint(b, s.epoch-s.changed)
	b = binary.AppendVarint(b, s.zero)
	b = binary.AppendVarint(b, s.snapshot-s.changed)
	b = binary.AppendVarint(b, s.lives)
	b = appendCounters(b, s.total, false)
	b = appendShape(b, s.shape)
	for _, part := range []string{s.labels.Job, s.labels.UID, s.labels.GID, s.labels.Exe, s.labels.Client} {
		b = appendString(b, part)
	}
	return seal(b, from, s.key)
}

func readSum(key string, value []byte) (*sum, error) {
	d, err := unseal(value, key)
	if err != nil {
		return nil, err
	}
	s := &sum{key: key}
	s.changed = d.varint()
	s.created = s.changed + d.varint()
	s.epoch = s.changed + d.varint()
	s.zero = d.varint()
	s.snapshot = s.changed + d.varint()
	s.lives = d.varint()
	s.total = d.counters(false)
	var v Values
	d.shape(&v)
	s.shape = v.Shape
	for _, part := range []*string{&s.labels.Job, &s.labels.UID, &s.labels.GID, &s.labels.Exe, &s.labels.Client} {
		*part = d.string()
	}
	return s, d.err
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads varints; after an error everything is 0.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.err = nil, errRecord
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.b, d.err = nil, errRecord
		return 0
	}
	d.b = d.b[n:]
	return v
}

// length reads the length of what follows, of which each element has a byte at least.
func (d *decoder) length() int {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.b, d.err = nil, errRecord
		return 0
	}
	return int(n)
}

func (d *decoder) string() string {
	n := d.length()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
