package jobstats

import (
	"encoding/binary"

	"telegraf-hpc/internal/durable"
)

// Times in a record are relative to the record's first one, which keeps them short.

const (
	flagSummed = 1 << iota // the entry adds to a sum, whose key follows
	flagPast
	flagStart // has a start_time
	flagZero
)

func appendEntry(b []byte, e *entry) []byte {
	from := len(b)
	b = durable.Open(b)
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
		b = durable.AppendString(b, e.sum.key)
	}
	if e.past != nil {
		b = binary.AppendVarint(b, e.past.lives)
		b = appendCounters(b, e.past.closed, false)
	}
	if e.zero != 0 {
		b = binary.AppendVarint(b, e.zero-e.changed)
	}
	return durable.Seal(b, from, e.id)
}

func readEntry(id string, value []byte, sums func(key string) *sum) (*entry, error) {
	d, err := unseal(value, id)
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, pos: -1}
	flags := d.Uvarint()
	e.changed = d.Varint()
	e.created = e.changed + d.Varint()
	e.last = e.changed + d.Varint()
	e.first = e.changed + d.Varint()
	e.epoch = d.epoch(&e.values, flags&flagStart != 0, e.changed)
	if flags&flagSummed != 0 {
		e.sum = sums(d.String())
	}
	if flags&flagPast != 0 {
		e.past = &past{lives: d.Varint(), closed: d.counters(false)}
	}
	if flags&flagZero != 0 {
		e.zero = e.changed + d.Varint()
	}
	return e, d.Err
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
	v.Snapshot = base + d.Varint()
	if hasStart {
		v.Start = base + d.Varint()
		epoch = v.Start + d.Varint()
	} else {
		epoch = base + d.Varint()
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
	n := d.Length()
	if n == 0 {
		return
	}
	ops := make([]uint16, n)
	for i := range ops {
		ops[i] = uint16(d.Uvarint())
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
	n := d.Length()
	if n == 0 {
		return nil
	}
	counters := make([]Counter, n)
	for i := range counters {
		c := &counters[i]
		c.Op, c.Samples, c.Sum = uint16(d.Uvarint()), int64(d.Uvarint()), int64(d.Uvarint())
		if minMax {
			c.Min, c.Max = int64(d.Uvarint()), int64(d.Uvarint())
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
	b = durable.Open(b)
	flags := uint64(0)
	if o.values.Start != 0 {
		flags = flagStart
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendVarint(b, o.changed)
	b = binary.AppendVarint(b, o.last-o.changed)
	b = appendEpoch(b, &o.values, o.epoch, o.changed)
	return durable.Seal(b, from, oldKey(id, o.epoch))
}

func readOld(key string, value []byte) (*oldEpoch, error) {
	d, err := unseal(value, key)
	if err != nil {
		return nil, err
	}
	o := &oldEpoch{}
	flags := d.Uvarint()
	o.changed = d.Varint()
	o.last = o.changed + d.Varint()
	o.epoch = d.epoch(&o.values, flags&flagStart != 0, o.changed)
	return o, d.Err
}

func appendSum(b []byte, s *sum) []byte {
	from := len(b)
	b = durable.Open(b)
	b = binary.AppendVarint(b, s.changed)
	b = binary.AppendVarint(b, s.created-s.changed)
	b = binary.AppendVarint(b, s.epoch-s.changed)
	b = binary.AppendVarint(b, s.zero)
	b = binary.AppendVarint(b, s.snapshot-s.changed)
	b = binary.AppendVarint(b, s.lives)
	b = appendCounters(b, s.total, false)
	b = appendShape(b, s.shape)
	for _, part := range []string{s.labels.Job, s.labels.UID, s.labels.GID, s.labels.Exe, s.labels.Client} {
		b = durable.AppendString(b, part)
	}
	return durable.Seal(b, from, s.key)
}

func readSum(key string, value []byte) (*sum, error) {
	d, err := unseal(value, key)
	if err != nil {
		return nil, err
	}
	s := &sum{key: key}
	s.changed = d.Varint()
	s.created = s.changed + d.Varint()
	s.epoch = s.changed + d.Varint()
	s.zero = d.Varint()
	s.snapshot = s.changed + d.Varint()
	s.lives = d.Varint()
	s.total = d.counters(false)
	var v Values
	d.shape(&v)
	s.shape = v.Shape
	for _, part := range []*string{&s.labels.Job, &s.labels.UID, &s.labels.GID, &s.labels.Exe, &s.labels.Client} {
		*part = d.String()
	}
	return s, d.Err
}

// decoder reads records.
type decoder struct{ durable.Decoder }

// unseal returns the payload of a record.
func unseal(b []byte, key string) (*decoder, error) {
	d, err := durable.Unseal(b, key)
	if err != nil {
		return nil, err
	}
	return &decoder{d}, nil
}
