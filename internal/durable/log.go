// Package durable keeps state on disk such that a kill at any moment costs nothing that was said to be written: a log of
// checksummed batches, and behind it a bbolt file that the log is folded into on a slower beat. What a batch or a record
// means is its user's.
package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A log holds what changed since the store was written, in batches, each of frames: the length and the CRC-32C of what
// follows, 4 bytes each, little-endian; a byte that is 1 in the batch's last frame; and records. A batch counts as a
// whole or not at all. In front of all stands a line of the user's, its magic.
const (
	frameHead = 8
	// MaxFrame is about the size at which a batch goes on in another frame, in bytes.
	MaxFrame = 1 << 20
)

// Log is an append-only log.
type Log struct {
	f      *os.File
	size   int64 // up to the end of the last whole batch
	ahead  int64 // the frames behind it
	synced time.Time
	dirty  bool // written since it was synced
	broken bool // the end of the file may be a part of a batch
}

// CreateLog makes an empty log that begins with magic, and makes sure that it is still there after a power cut.
func CreateLog(path, magic string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{f: f, size: int64(len(magic))}
	if _, err = f.WriteString(magic); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Size gives the size of the log up to its last whole batch, in bytes.
func (l *Log) Size() int64 { return l.size }

// append writes a frame, whose head is still free. After an error all frames of the batch are gone, at the next append
// at the latest.
func (l *Log) append(frame []byte, last bool, fault Faults) error {
	if l.broken {
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
		l.broken, l.ahead = false, 0
	}
	payload := frame[frameHead:]
	if last {
		payload[0] = 1
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	l.broken = true
	n, err := fault.write(l.f, frame, l.size+l.ahead)
	if err != nil {
		return fmt.Errorf("wrote %d of %d bytes: %w", n, len(frame), err)
	}
	l.broken, l.dirty = false, true
	l.ahead += int64(len(frame))
	if last {
		l.size, l.ahead = l.size+l.ahead, 0
	}
	return nil
}

// Batch writes the records of a batch into a log. A batch without any is not written.
type Batch struct {
	Log     *Log
	Fault   Faults
	Frame   []byte // the frame that is being made; its memory may be used again for the next batch
	Written int64  // bytes

	records bool
	err     error
}

// Start begins a frame. Before the first Record the user may append a head to Frame.
func (w *Batch) Start() { w.Frame = append(w.Frame[:0], make([]byte, frameHead+1)...) }

// Record adds a record.
func (w *Batch) Record(kind byte, key string, value []byte) {
	w.records = true
	w.Frame = AppendString(AppendString(append(w.Frame, kind), key), value)
	if len(w.Frame) >= MaxFrame {
		w.flush(false)
		w.Start()
	}
}

func (w *Batch) flush(last bool) {
	if w.err == nil {
		w.err = w.Log.append(w.Frame, last, w.Fault)
		w.Written += int64(len(w.Frame))
	}
}

// Finish writes what is left. After an error nothing of the batch counts.
func (w *Batch) Finish() error {
	if w.records {
		w.flush(true)
	}
	if w.err != nil {
		w.Log.broken = true
	}
	return w.err
}

// Sync syncs the log, if it was not synced for an interval.
func (l *Log) Sync(now time.Time, interval time.Duration, fault Faults) error {
	if !l.dirty || interval > 0 && now.Sub(l.synced) < interval && now.After(l.synced) {
		return nil
	}
	if err := fault.At("sync"); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.dirty, l.synced = false, now
	return nil
}

// Close closes the file; it does not sync it.
func (l *Log) Close() error { return l.f.Close() }

// ReplayLog calls apply with the payload of each whole batch. A part of a batch at the end is what a kill leaves, and
// no damage. damaged tells that there is something else behind the last good batch.
func ReplayLog(path, magic string, apply func(batch []byte) error) (damaged bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(f, start); err != nil {
		// It was killed while it made the log.
		return false, nil
	}
	if string(start) != magic {
		return true, nil
	}
	var batch []byte
	for left := info.Size() - int64(len(magic)); left > 0; {
		frame, torn, err := readFrame(f, left)
		if err != nil || torn {
			return false, err
		}
		if frame == nil {
			return true, nil
		}
		left -= int64(len(frame)) + frameHead
		if batch = append(batch, frame[1:]...); frame[0] == 0 {
			continue
		}
		if apply(batch) != nil {
			return true, nil
		}
		batch = batch[:0]
	}
	return false, nil
}

// readFrame reads the next frame of a log of which so many bytes are left; nil if it is damaged.
func readFrame(f io.Reader, left int64) (frame []byte, torn bool, err error) {
	var head [frameHead]byte
	if left < frameHead {
		return nil, true, nil
	}
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil, false, err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > left-frameHead {
		return nil, size <= 2*MaxFrame, nil
	}
	if size == 0 {
		return nil, false, nil
	}
	frame = make([]byte, size)
	if _, err := io.ReadFull(f, frame); err != nil {
		return nil, false, err
	}
	if crc32.Checksum(frame, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(head[4:]) {
		// The last frame may have got its length and not all of its bytes, when the power was cut.
		return nil, size == left-frameHead, nil
	}
	return frame, false, nil
}

// Faults lets a test stop the writer at each point where it could be killed. A nil one does nothing.
type Faults func(point string) error

// At gives the test's error for a point.
func (f Faults) At(point string) error {
	if f == nil {
		return nil
	}
	return f(point)
}

// write writes b at an offset, or, when the test says so, a part of it.
func (f Faults) write(w io.WriterAt, b []byte, at int64) (int, error) {
	if err := f.At("before write"); err != nil {
		return 0, err
	}
	if err := f.At("half write"); err != nil {
		n, _ := w.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	n, err := w.WriteAt(b, at)
	if err != nil {
		return n, err
	}
	return n, f.At("after write")
}
