package durable

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A record is what a log and a store keep under a key: its payload behind the CRC-32C of key and payload. Its numbers
// are varints.

// ErrRecord tells that a record is not as it was written.
var ErrRecord = errors.New("the record is damaged")

// sealHead is the room for the checksum.
const sealHead = 4

// Open begins a record at the end of b.
func Open(b []byte) []byte { return append(b, make([]byte, sealHead)...) }

// Seal puts the checksum in front of the payload at the end of b, where Open began the record at from.
func Seal(b []byte, from int, key string) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum([]byte(key), table), table, b[from+sealHead:])
	binary.LittleEndian.PutUint32(b[from:], sum)
	return b
}

// Unseal returns the payload of a record.
func Unseal(b []byte, key string) (Decoder, error) {
	if len(b) < sealHead {
		return Decoder{}, ErrRecord
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(crc32.Checksum([]byte(key), table), table, b[sealHead:]) != binary.LittleEndian.Uint32(b) {
		return Decoder{}, ErrRecord
	}
	return Decoder{Rest: b[sealHead:]}, nil
}

// AppendString appends a text and, in front of it, its length.
func AppendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Decoder reads what was appended; after an error everything is 0.
type Decoder struct {
	Rest []byte
	Err  error
}

// Uvarint reads what binary.AppendUvarint appended.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 {
		d.Rest, d.Err = nil, ErrRecord
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Varint reads what binary.AppendVarint appended.
func (d *Decoder) Varint() int64 {
	v, n := binary.Varint(d.Rest)
	if n <= 0 {
		d.Rest, d.Err = nil, ErrRecord
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Length reads the length of what follows, of which each element has a byte at least.
func (d *Decoder) Length() int {
	n := d.Uvarint()
	if n > uint64(len(d.Rest)) {
		d.Rest, d.Err = nil, ErrRecord
		return 0
	}
	return int(n)
}

// String reads what AppendString appended.
func (d *Decoder) String() string {
	n := d.Length()
	s := string(d.Rest[:n])
	d.Rest = d.Rest[n:]
	return s
}
