package docqueue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record is one document on disk: magic (4 bytes), CRC-32C of all that follows it (4), length of all that follows it
// (4), sequence number (8), time of commit in ns since 1970 (8), bytes of the kind's records up to the end of this one
// (8), length of the kind (1), the kind, the document. Numbers are big endian. It says all about itself, so that records
// can be found in a file whose pages are damaged.
type record struct {
	seq  uint64
	time int64
	end  uint64
	kind string
	body []byte
}

const (
	// magic is no part of any UTF-8 text, so no document has it.
	magic      = "\xd0\xc5q1"
	recordHead = len(magic) + 4 + 4
	recordMeta = 8 + 8 + 8 + 1
	// longestKind and longestBody are the most bytes of a document's kind and of the document.
	longestKind = 64
	longestBody = 16 << 20
)

var errRecord = errors.New("the record is damaged")

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// recordSize gives how many bytes a document takes.
func recordSize(kind string, body []byte) int {
	return recordHead + recordMeta + len(kind) + len(body)
}

func appendRecord(b []byte, r *record) []byte {
	start := len(b)
	b = append(b, magic...)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(recordMeta+len(r.kind)+len(r.body)))
	b = binary.BigEndian.AppendUint64(b, r.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.time))
	b = binary.BigEndian.AppendUint64(b, r.end)
	b = append(b, byte(len(r.kind)))
	b = append(b, r.kind...)
	b = append(b, r.body...)
	sum := castagnoli(b[start+len(magic)+4:])
	binary.BigEndian.PutUint32(b[start+len(magic):], sum)
	return b
}

// readRecord reads the record that b begins with, and gives its size. The body is a part of b.
func readRecord(b []byte) (r record, size int, err error) {
	if len(b) < recordHead+recordMeta || string(b[:len(magic)]) != magic {
		return r, 0, errRecord
	}
	sum := binary.BigEndian.Uint32(b[len(magic):])
	length := int(binary.BigEndian.Uint32(b[len(magic)+4:]))
	size = recordHead + length
	if length < recordMeta || size > len(b) || castagnoli(b[len(magic)+4:size]) != sum {
		return r, 0, errRecord
	}
	rest := b[recordHead:size]
	r.seq = binary.BigEndian.Uint64(rest)
	r.time = int64(binary.BigEndian.Uint64(rest[8:]))
	r.end = binary.BigEndian.Uint64(rest[16:])
	kind := int(rest[24])
	rest = rest[recordMeta:]
	if kind > len(rest) {
		return r, 0, errRecord
	}
	r.kind, r.body = string(rest[:kind]), rest[kind:]
	return r, size, nil
}

// nextRecord gives where, behind its first byte, b may have a record; len(b) if nowhere.
func nextRecord(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if at := bytes.Index(b[1:], []byte(magic)); at >= 0 {
		return at + 1
	}
	return len(b)
}

func checkDocument(d *Document) error {
	if d.Kind == "" || len(d.Kind) > longestKind {
		return fmt.Errorf("the kind %q of a document must have 1 to %d bytes", d.Kind, longestKind)
	}
	if len(d.Body) > longestBody {
		return fmt.Errorf("a document of kind %q has %d bytes: at most %d can be kept", d.Kind, len(d.Body), longestBody)
	}
	return nil
}

// mark is a kind's place: the last sequence number, and the bytes of the kind's records up to there.
type mark struct{ seq, end uint64 }

func (m mark) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, m.seq), m.end)
}

const markSize = 16

func readMark(b []byte) mark {
	return mark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func blockKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
