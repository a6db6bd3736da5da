package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sink takes what is read from a pipe.
type sink interface {
	// space gives where the next bytes go: never empty without an error, which ends the reading.
	space() ([]byte, error)
	// took tells how many bytes came.
	took(n int)
}

const (
	// pipeSize is how much a pipe holds, where the kernel grants it: by default the most that it grants to anybody (pipe(7)).
	pipeSize = 1 << 20
	// pipeRest is how long the reader lets such a pipe fill between two readings. Tools write in small pieces, and to be
	// woken up for each costs more than what is done with it.
	pipeRest = 5 * time.Millisecond
)

// pipe carries one of a tool's streams into a sink.
type pipe struct {
	r, w  *os.File
	rest  time.Duration // between two readings
	hurry chan struct{} // Closed when there is nothing to wait for.
	done  chan struct{} // Closed when the reading has ended. Then err is set.
	err   error
}

func newPipe() (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// A pipe without deadlines could hold us for ever. It takes the kernel's refusal to poll it to get one.
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		discard(r, w)
		return nil, err
	}
	p := &pipe{r: r, w: w, hurry: make(chan struct{}), done: make(chan struct{})}
	if grow(w, pipeSize) {
		p.rest = pipeRest
	}
	return p, nil
}

// grow makes a pipe hold so many bytes, and tells whether it does.
func grow(f *os.File, size int) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	holds := 0
	err = raw.Control(func(fd uintptr) { holds, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) }) // -1 where it is refused.
	return err == nil && holds >= size
}

// read fills the sink until the stream ends, or finish is called.
func (p *pipe) read(s sink) {
	defer close(p.done)
	for {
		b, err := s.space()
		if err != nil {
			p.err = err
			return
		}
		n, err := p.r.Read(b)
		s.took(n)
		switch {
		case err == nil:
			p.pause()
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.err = p.drain(s)
			return
		default:
			p.err = err
			return
		}
	}
}

// pause lets the pipe fill.
func (p *pipe) pause() {
	if p.rest == 0 {
		return
	}
	select {
	case <-p.hurry:
	case <-time.After(p.rest):
	}
}

// drain reads what is in the pipe now, and no more, since whoever still holds the other end may go on for ever. When
// the tool has ended, all that it wrote is in there: so there is nothing to wait for.
func (p *pipe) drain(s sink) error {
	raw, err := p.r.SyscallConn()
	if err != nil {
		return err
	}
	left, asked := 0, error(nil) // TIOCINQ is Linux's other name of FIONREAD.
	if err := raw.Control(func(fd uintptr) { left, asked = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		return err
	}
	if asked != nil {
		return os.NewSyscallError("ioctl", asked)
	}
	if err := p.r.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		b, err := s.space() // Also behind the last byte, which may have been one too many.
		if err != nil || left == 0 {
			return err
		}
		n, err := p.r.Read(b[:min(len(b), left)])
		s.took(n)
		left -= n
		if err != nil {
			return err
		}
	}
}

// finish ends the reading, with all that was in the pipe when it was called, and closes our end.
func (p *pipe) finish() {
	close(p.hurry)
	_ = p.r.SetReadDeadline(time.Now()) // Fails only for a closed file or one without deadlines; newPipe has seen to that.
	<-p.done
	discard(p.r)
}

// discard closes files that closing cannot harm: nothing was written to them.
func discard(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// chunkSize is how much of the output a chunk holds.
const chunkSize = 1 << 20

// text is the standard output. Its length is not known before its end. A slice that grows would be copied over and
// over, and the collector holds what it grew out of for a while: so chunks are mapped outside of Go's heap, and each is
// given back as soon as it was copied. So no more than the text and one chunk are in memory at any time.
type text struct {
	limit  int // The most bytes.
	size   int
	chunks [][]byte // All are full but the last.
	used   int      // Of the last.
}

func (t *text) space() ([]byte, error) {
	if t.size > t.limit {
		return nil, &Error{Reason: ErrTooLong, Err: fmt.Errorf("more than %d bytes of output", t.limit)}
	}
	if len(t.chunks) == 0 || t.used == chunkSize {
		chunk, err := syscall.Mmap(-1, 0, chunkSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		t.chunks, t.used = append(t.chunks, chunk), 0
	}
	free := t.chunks[len(t.chunks)-1][t.used:]
	// One byte more than the limit tells that it was passed.
	if left := t.limit - t.size; left < len(free) {
		free = free[:left+1]
	}
	return free, nil
}

func (t *text) took(n int) {
	t.size += n
	t.used += n
}

// bytes gives the text, and gives up the chunks.
func (t *text) bytes() []byte {
	b := make([]byte, t.size)
	rest := b
	for i, chunk := range t.chunks {
		rest = rest[copy(rest, chunk):]
		unmap(chunk)
		t.chunks[i] = nil
	}
	t.chunks = nil
	return b
}

// free gives up the chunks that are left.
func (t *text) free() {
	for _, chunk := range t.chunks {
		unmap(chunk)
	}
	t.chunks = nil
}

func unmap(chunk []byte) {
	_ = syscall.Munmap(chunk) // Fails only for what is not mapped.
}

const (
	// headSize is how much of standard error is kept: more than enough to find the first line that says something.
	headSize = 16 << 10
	// restSize is the room in which the rest is read to be thrown away, so that the tool does not wait for us.
	restSize = 16 << 10
)

// head is the start of standard error.
type head struct {
	b    [headSize + restSize]byte
	size int
}

func (h *head) space() ([]byte, error) { return h.b[h.size:], nil }

func (h *head) took(n int) { h.size = min(h.size+n, headSize) }

func (h *head) firstLine() string { return firstLine(h.b[:h.size]) }
