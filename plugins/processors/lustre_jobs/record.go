package lustre_jobs

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"

	"telegraf-hpc/internal/durable"
)

// The kinds of records in a batch of the log.
const (
	recordField = iota + 1
	recordPlace
	recordTarget
	recordServer
	recordSeries
	recordEpoch
	recordSum
	recordJob
)

// The keys of records stand in the store in the order in which they are read: the epochs of a series together.

func uintKey(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }

func seriesKey(p *place, key string) string {
	return string(append(binary.BigEndian.AppendUint32(nil, p.id), key...))
}

// epochKey is a record's key of fixed length.
type epochKey [24]byte

func keyOf(s *series, id epochID) (k epochKey) {
	binary.BigEndian.PutUint64(k[:], s.id)
	binary.BigEndian.PutUint32(k[8:], id.target)
	binary.BigEndian.PutUint32(k[12:], id.part)
	binary.BigEndian.PutUint64(k[16:], uint64(id.start))
	return k
}

func (k *epochKey) ids() (series uint64, id epochID) {
	return binary.BigEndian.Uint64(k[:]), epochID{
		binary.BigEndian.Uint32(k[8:]), binary.BigEndian.Uint32(k[12:]), int64(binary.BigEndian.Uint64(k[16:])),
	}
}

func sumKey(n sumName) string {
	b := binary.BigEndian.AppendUint32([]byte{n.level}, n.place)
	return string(append(append(append(b, n.cluster...), 0), n.name...))
}

func sumOfKey(key string) (n sumName, ok bool) {
	if len(key) < 5 {
		return n, false
	}
	n.level, n.place = key[0], binary.BigEndian.Uint32([]byte(key[1:5]))
	n.cluster, n.name, ok = strings.Cut(key[5:], "\x00")
	return n, ok
}

func appendStrings(b []byte, texts ...string) []byte {
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, text := range texts {
		b = durable.AppendString(b, text)
	}
	return b
}

// decoder reads records.
type decoder struct{ durable.Decoder }

func unseal[T string | []byte](value []byte, key T) (*decoder, error) {
	d, err := durable.Unseal(value, string(key))
	if err != nil {
		return nil, err
	}
	return &decoder{d}, nil
}

func (d *decoder) strings() []string {
	texts := make([]string, d.Length())
	for i := range texts {
		texts[i] = d.String()
	}
	return texts
}

// end checks that a record is no longer than it should be.
func (d *decoder) end() error {
	if d.Err == nil && len(d.Rest) > 0 {
		d.Err = durable.ErrRecord
	}
	return d.Err
}

// appendTotals appends the fields that are listed, and their totals.
func appendTotals(b []byte, total []int64, listed *fieldSet) []byte {
	n := 0
	for _, word := range listed {
		n += bits.OnesCount64(word)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for i := range uint16(maxFields) {
		if !listed.has(i) {
			continue
		}
		v := int64(0)
		if int(i) < len(total) {
			v = total[i]
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i)), uint64(v))
	}
	return b
}

func (d *decoder) totals(fields int) (total []int64, listed fieldSet) {
	n := d.Length()
	total = make([]int64, fields)
	for range n {
		i, v := d.Uvarint(), d.Uvarint()
		if i >= uint64(fields) {
			d.Rest, d.Err = nil, durable.ErrRecord
			return nil, fieldSet{}
		}
		listed.put(uint16(i))
		total[i] = int64(v)
	}
	return total, listed
}

// The flags of a series' record.
const (
	flagKnown = 1 << iota // who it is follows
	flagReported
	flagShown
)

func appendSeries(b []byte, s *series) []byte {
	from := len(b)
	b = durable.Open(b)
	b = binary.AppendVarint(b, s.changed) // First, for the one who looks for what to forget.
	b = binary.AppendUvarint(b, s.id)
	b = binary.AppendVarint(b, s.created)
	b = binary.AppendVarint(b, s.first)
	b = binary.AppendVarint(b, s.last)
	b = binary.AppendVarint(b, s.zero)
	b = appendStrings(b, s.parts...)
	b = appendTotals(b, s.total, &s.listed)
	flags := uint64(0)
	if s.who != nil {
		flags |= flagKnown
	}
	if s.done {
		flags |= flagReported
	}
	if s.shown.at != 0 {
		flags |= flagShown
	}
	b = binary.AppendUvarint(b, flags)
	if w := s.who; w != nil {
		b = appendStrings(b, w.job, w.user, w.account, w.partition, w.cluster)
		b = append(b, byte(w.kind))
	}
	return durable.Seal(b, from, seriesKey(s.place, s.key))
}

// readSeries reads a series; its sums are joined to it.
func (l *ledger) readSeries(p *place, key string, value []byte) (*series, error) {
	s, err := parseSeries(p, key, value, l.fields.len())
	if err == nil && s.who != nil {
		l.identify(s, *s.who)
	}
	return s, err
}

// parseSeries reads a series, which may have so many fields.
func parseSeries(p *place, key string, value []byte, fields int) (*series, error) {
	d, err := unseal(value, seriesKey(p, key))
	if err != nil {
		return nil, err
	}
	s := &series{place: p, key: key, stored: true}
	s.changed, s.id = d.Varint(), d.Uvarint()
	s.created, s.first, s.last, s.zero = d.Varint(), d.Varint(), d.Varint(), d.Varint()
	s.parts = d.strings()
	s.total, s.listed = d.totals(fields)
	flags := d.Uvarint()
	s.done = flags&flagReported != 0
	if flags&flagShown != 0 {
		s.shown.at = 1
	}
	if flags&flagKnown != 0 {
		w := d.strings()
		if len(w) != 5 || len(d.Rest) != 1 {
			return nil, durable.ErrRecord
		}
		s.who = &identity{job: w[0], user: w[1], account: w[2], partition: w[3], cluster: w[4], kind: who(d.Rest[0])}
		d.Rest = nil
	}
	return s, d.end()
}

func appendSum(b []byte, s *sum) []byte {
	from := len(b)
	b = durable.Open(b)
	b = binary.AppendVarint(b, s.zero)
	b = binary.AppendVarint(b, s.active)
	shown := byte(0)
	if s.shown.at != 0 {
		shown = 1
	}
	b = append(b, shown)
	b = appendTotals(b, s.total, &s.listed)
	return durable.Seal(b, from, sumKey(s.sumName))
}

func (l *ledger) readSum(key string, value []byte) error {
	d, err := unseal(value, key)
	if err != nil {
		return err
	}
	name, ok := sumOfKey(key)
	if !ok || int(name.place) >= len(l.byID) {
		return durable.ErrRecord
	}
	s := l.sum(name.level, l.byID[name.place], name.cluster, name.name)
	s.zero, s.active = d.Varint(), d.Varint()
	if len(d.Rest) == 0 {
		return durable.ErrRecord
	}
	if d.Rest[0] == 1 {
		s.shown.at = 1
	}
	d.Rest = d.Rest[1:]
	s.total, s.listed = d.totals(l.fields.len())
	s.shown.owed = true
	return d.end()
}

func appendJob(b []byte, j *job) []byte {
	from := len(b)
	b = durable.Open(b)
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // A job is made of numbers and texts.
	}
	return durable.Seal(append(b, text...), from, uintKey(uint64(j.ID)))
}

func readJob(key string, value []byte) (*job, error) {
	d, err := unseal(value, key)
	if err != nil {
		return nil, err
	}
	j := new(job)
	if err := json.Unmarshal(d.Rest, j); err != nil || uintKey(uint64(j.ID)) != key {
		return nil, durable.ErrRecord
	}
	return j, nil
}

func appendServer(s *server) []byte {
	return durable.Seal(binary.AppendVarint(binary.AppendVarint(durable.Open(nil), s.latest), s.before), 0, s.host)
}

func (l *ledger) readServer(host string, value []byte) error {
	d, err := unseal(value, host)
	if err != nil {
		return err
	}
	s := &server{host: host, latest: d.Varint(), before: d.Varint()}
	l.servers[host] = s
	return d.end()
}
