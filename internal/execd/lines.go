package execd

import (
	"os"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
)

const (
	// bufferSize is how much of a gather waits for one write(2): what a Linux pipe holds by default.
	bufferSize = 64 << 10
	// flushDelay is how long a line waits that came outside of a gather, from a plugin's own goroutine.
	flushDelay = 10 * time.Millisecond
)

// stdout is the program's standard output, shared by all tables of the plugin. Each write is of whole lines.
type stdout struct {
	file   *os.File
	failed func(error) // Told once, of the first failure.

	mu   sync.Mutex
	dead bool
}

// write tells whether data went out. After a failure nothing is written any more.
func (s *stdout) write(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return false
	}
	if _, err := s.file.Write(data); err != nil {
		s.dead = true
		s.failed(err)
	}
	return !s.dead
}

// lines turns the metrics of one table into lines and writes them in large pieces.
type lines struct {
	out *stdout
	log telegraf.Logger

	mu       sync.Mutex
	buf      []byte
	tracked  []telegraf.Metric // Whose lines are in buf.
	held     bool              // Somebody will call flush: no timer is needed.
	timer    *time.Timer
	armed    bool
	complain complaints
}

func newLines(out *stdout, log telegraf.Logger) *lines {
	l := &lines{out: out, log: log, buf: make([]byte, 0, bufferSize+bufferSize/8)}
	l.timer = time.AfterFunc(time.Hour, l.due)
	l.timer.Stop()
	return l
}

// add writes m into the buffer and does not keep it, unless it is tracked: then it is accepted or rejected once its
// line has been written.
func (l *lines) add(m telegraf.Metric, tracked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A metric of the plugin's own type may panic half-way: l.buf must hold whole lines at all times.
	buf, err := appendMetric(l.buf, m)
	if err != nil {
		if hidden, ok := l.complain.about(time.Now()); ok {
			l.log.Errorf("Metric %q cannot be written: %v%s", m.Name(), err, also(hidden))
		}
		m.Reject()
		return
	}
	l.buf = buf
	if tracked {
		l.tracked = append(l.tracked, m)
	}
	l.added(tracked)
}

// addRaw passes a line on as it is. It has no newline yet.
func (l *lines) addRaw(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(append(l.buf, line...), '\n')
	l.added(false)
}

// added sees to it that what was added is written. Who tracks a metric may wait for it before the flush.
func (l *lines) added(tracked bool) {
	switch {
	case len(l.buf) >= bufferSize:
		l.write()
	case (tracked || !l.held) && !l.armed:
		l.armed = true
		l.timer.Reset(flushDelay)
	}
}

func (l *lines) due() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.write()
}

// hold says that a flush will follow, so that lines need not be written in small pieces meanwhile.
func (l *lines) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// flush ends a hold and writes what is in the buffer.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.write()
}

// tryFlush is flush for a last goodbye: it does not wait for one who is stuck in a write.
func (l *lines) tryFlush() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	l.write()
}

func (l *lines) write() {
	if len(l.buf) == 0 {
		return
	}
	ok := l.out.write(l.buf)
	l.buf = l.buf[:0]
	for i, m := range l.tracked {
		if ok {
			m.Accept()
		} else {
			m.Reject()
		}
		l.tracked[i] = nil
	}
	l.tracked = l.tracked[:0]
}
