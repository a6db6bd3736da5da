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

// The log holds what changed since the store was written, a batch a gather: the length and the CRC-32C of the batch,
// 4 bytes each, little-endian, and its records. A batch counts as a whole or not at all.
const (
	logMagic  = "telegraf-hpc jobstats log 1\n"
	frameSize = 8
	maxBatch  = 1 << 30
)

// logFile is an append-only log.
type logFile struct {
	f      *os.File
	size   int64 // up to the end of the last whole batch
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

// append writes a batch, whose first frameSize bytes are free for the frame. After an error the log is as it was
// before, or repaired by the next append.
func (l *logFile) append(batch []byte, fault faults) error {
	if l.broken {
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
		l.broken = false
	}
	payload := batch[frameSize:]
	binary.LittleEndian.PutUint32(batch, uint32(len(payload)))
	binary.LittleEndian.PutUint32(batch[4:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	l.broken = true
	n, err := fault.write(l.f, batch, l.size)
	if err != nil {
		return fmt.Errorf("wrote %d of %d bytes: %w", n, len(batch), err)
	}
	l.broken, l.dirty = false, true
	l.size += int64(len(batch))
	return nil
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
	for left := info.Size() - int64(len(logMagic)); left > 0; {
		batch, torn, err := readBatch(f, left)
		if err != nil || torn {
			return false, err
		}
		if batch == nil || apply(batch) != nil {
			return true, nil
		}
		left -= int64(len(batch)) + frameSize
	}
	return false, nil
}

// readBatch reads the next batch of a log of which so many bytes are left; nil if it is damaged.
func readBatch(f io.Reader, left int64) (batch []byte, torn bool, err error) {
	var frame [frameSize]byte
	if left < frameSize {
		return nil, true, nil
	}
	if _, err := io.ReadFull(f, frame[:]); err != nil {
		return nil, false, err
	}
	size := int64(binary.LittleEndian.Uint32(frame[:]))
	if size > left-frameSize {
		return nil, size <= maxBatch, nil
	}
	batch = make([]byte, size)
	if _, err := io.ReadFull(f, batch); err != nil {
		return nil, false, err
	}
	if crc32.Checksum(batch, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(frame[4:]) {
		// The last batch may have got its length and not all of its bytes, when the power was cut.
		return nil, size == left-frameSize, nil
	}
	return batch, false, nil
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
