package jobstats

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

// The log holds what changed since the store was written, a batch a gather, in frames: the length and the CRC-32C of
// what follows, 4 bytes each, little-endian; a byte that is 1 in the batch's last frame; and records. A batch counts as
// a whole or not at all.
const (
	logMagic  = "telegraf-hpc jobstats log 1\n"
	frameHead = 8
	maxFrame  = 1 << 20 // about
)

// logFile is an append-only log.
type logFile struct {
	f      *os.File
	size   int64 // up to the end of the last whole batch
	ahead  int64 // the frames behind it
	synced time.Time
	dirty  bool // written since it was synced
	broken bool // the end of the file may be a part of a batch
}

// createLog makes an empty log, and makes sure that it is still there after a power cut.
func createLog(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	l := &logFile{f: f, size: int64(len(logMagic))}
	if _, err = f.WriteString(logMagic); err == nil {
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

// append writes a frame, whose head is still free. After an error all frames of the batch are gone, at the next append
// at the latest.
func (l *logFile) append(frame []byte, last bool, fault faults) error {
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

// batchWriter writes the records of a batch. A batch without any is not written.
type batchWriter struct {
	log     *logFile
	fault   faults
	b       []byte // the frame
	records bool
	written int64
	err     error
}

func (w *batchWriter) start() { w.b = append(w.b[:0], make([]byte, frameHead+1)...) }

func (w *batchWriter) record(kind byte, key string, value []byte) {
	w.records = true
	w.b = appendString(appendString(append(w.b, kind), key), value)
	if len(w.b) >= maxFrame {
		w.flush(false)
		w.start()
	}
}

func (w *batchWriter) flush(last bool) {
	if w.err == nil {
		w.err = w.log.append(w.b, last, w.fault)
		w.written += int64(len(w.b))
	}
}

func (w *batchWriter) finish() error {
	if w.records {
		w.flush(true)
	}
	if w.err != nil {
		w.log.broken = true
	}
	return w.err
}

// sync syncs the log, if it was not synced for an interval.
func (l *logFile) sync(now time.Time, interval time.Duration, fault faults) error {
	if !l.dirty || interval > 0 && now.Sub(l.synced) < interval && now.After(l.synced) {
		return nil
	}
	if err := fault.at("sync"); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.dirty, l.synced = false, now
	return nil
}

func (l *logFile) close() error { return l.f.Close() }

// replayLog calls apply with the payload of each whole batch. A part of a batch at the end is what a kill leaves, and
// no damage. damaged tells that there is something else behind the last good batch.
func replayLog(path string, apply func(batch []byte) error) (damaged bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	magic := make([]byte, len(logMagic))
	if _, err := io.ReadFull(f, magic); err != nil {
		// It was killed while it made the log.
		return false, nil
	}
	if string(magic) != logMagic {
		return true, nil
	}
	var batch []byte
	for left := info.Size() - int64(len(logMagic)); left > 0; {
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
		return nil, size <= 2*maxFrame, nil
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

// faults lets a test stop the writer at each point where it could be killed. A nil one does nothing.
type faults func(point string) error

func (f faults) at(point string) error {
	if f == nil {
		return nil
	}
	return f(point)
}

// write writes b at an offset, or, when the test says so, a part of it.
func (f faults) write(w io.WriterAt, b []byte, at int64) (int, error) {
	if err := f.at("before write"); err != nil {
		return 0, err
	}
	if err := f.at("half write"); err != nil {
		n, _ := w.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	n, err := w.WriteAt(b, at)
	if err != nil {
		return n, err
	}
	return n, f.at("after write")
}
