package execd

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/influxdata/telegraf"
	"golang.org/x/sys/unix"
)

const (
	// stopWithin is how long the plugin may take to end. With the linger, and on a busy machine, it stays below the 5 s
	// after which Telegraf sends SIGTERM, and below the 5 s from there to SIGKILL.
	stopWithin = 4 * time.Second
	// linger is how long the parent has to read what is still in the pipes: when a child exits, Telegraf closes them
	// unread.
	linger = 100 * time.Millisecond
)

// program is one run of the plugin: its standard streams, its log and the ways it ends.
type program struct {
	plugin  plugin
	options options
	stdin   *os.File
	stderr  *os.File
	out     *stdout
	logs    *logs

	stop   chan struct{} // Closed when the program is asked to end: by a signal, or because stdout is gone.
	ending chan struct{} // Closed when the time to end runs: by stop, or when the parent has closed stdin.

	stopOnce, endOnce, exitOnce sync.Once

	mu     sync.Mutex
	lines  []*lines
	undone func() string // What is lost if the program ends now, for the log.
	status int
}

func newProgram(plugin plugin, o options) *program {
	p := &program{
		plugin:  plugin,
		options: o,
		stdin:   os.Stdin,
		stderr:  os.Stderr,
		stop:    make(chan struct{}),
		ending:  make(chan struct{}),
		undone:  func() string { return "the plugin has not started yet" },
		// Telegraf sorts out the levels of a child's log itself.
		logs: &logs{err: os.Stderr, source: plugin.String(), level: telegraf.Debug},
	}
	if plugin.kind == kindOutput {
		p.logs.info = os.Stdout
	}
	if plugin.kind == kindOutput || o.once || o.check || o.command != "" {
		p.logs.level = telegraf.Info
	}
	p.out = &stdout{file: os.Stdout, failed: p.stdoutFailed}
	return p
}

// watchSignals ends the program on SIGTERM and SIGINT. A closed stdout must not kill the process either: its plugin
// may have state to save.
func (p *program) watchSignals() {
	// Caught, not ignored: the commands that plugins start would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		p.requestStop()
	}()
}

func (p *program) stdoutFailed(err error) {
	p.mu.Lock()
	p.status = exitFailed
	p.mu.Unlock()
	// In a goroutine, because the log of an output may be on the same stdout.
	go p.logs.errorf("writing to standard output: %v", err)
	p.requestStop()
}

func (p *program) requestStop() {
	p.stopOnce.Do(func() { close(p.stop) })
	p.startEnding()
}

// startEnding gives the plugin stopWithin to end, then ends the process.
func (p *program) startEnding() {
	p.endOnce.Do(func() {
		close(p.ending)
		time.AfterFunc(stopWithin, func() {
			p.mu.Lock()
			undone, status := p.undone, p.status
			p.mu.Unlock()
			// Whatever the plugin hangs in may also hold the log.
			go p.logs.errorf("Not done after %v, giving up: %s", stopWithin, undone())
			p.flushLast()
			p.exit(status)
		})
	})
}

// watchHangup starts the ending as soon as the parent has closed its end of stdin, however much is still to be read.
func (p *program) watchHangup() {
	go func() {
		fds := []unix.PollFd{{Fd: int32(p.stdin.Fd())}}
		for {
			if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
			if fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
				p.startEnding()
				return
			}
			if fds[0].Revents&unix.POLLNVAL != 0 {
				return
			}
		}
	}()
}

// newLines makes the buffer of one table.
func (p *program) newLines(log telegraf.Logger) *lines {
	l := newLines(p.out, log)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l)
	return l
}

func (p *program) setUndone(undone func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undone = undone
}

func (p *program) exitStatus() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// flushLast writes the whole lines that are in the buffers, unless that takes long.
func (p *program) flushLast() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			l.tryFlush()
		}
	}()
	select {
	case <-done:
	case <-time.After(linger):
	}
}

// exit leaves the process such that the parent reads all that was written.
func (p *program) exit(status int) {
	p.exitOnce.Do(func() {
		_ = p.out.file.Close()
		// Not before the log has been written; but a log that is stuck must not keep the process.
		time.Sleep(linger / 2)
		_ = p.stderr.Close()
		time.Sleep(linger / 2)
		os.Exit(status)
	})
}

// guard runs the plugin's code. A panic ends the process: the plugin's state is not to be trusted any more, and
// Telegraf starts it anew.
func (p *program) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			// The log may be what hangs.
			time.AfterFunc(stopWithin, func() { p.exit(exitPanic) })
			p.logs.errorf("panic: %v\n%s", v, debug.Stack())
			p.flushLast()
			p.exit(exitPanic)
		}
	}()
	f()
}

// feed reads stdin in pieces and sends them; the channel is closed at its end. There is one piece under way and one
// being read, so that the parent waits while the plugin does.
func (p *program) feed() <-chan []byte {
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			chunk := make([]byte, bufferSize)
			n, err := p.stdin.Read(chunk)
			if n > 0 {
				chunks <- chunk[:n]
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					p.logs.errorf("reading standard input: %v", err)
				}
				p.startEnding()
				return
			}
		}
	}()
	return chunks
}
