package execd

import (
	"errors"
	"fmt"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
)

const (
	// longestLine is the longest line of stdin, in bytes, that is taken.
	longestLine = 16 << 20
	// openFor is how long a string field may stay open over a newline while nothing more comes: a stray quote would
	// otherwise hold back the lines after it.
	openFor = time.Second
	// quietFor and drainFor are how long after SIGTERM stdin must have been quiet, and may go on, before the rest of it
	// is given up: whoever ends a whole group of processes ends the parent too, and it still has metrics to send.
	quietFor = 500 * time.Millisecond
	drainFor = 2 * time.Second
)

// Why a line of stdin is dropped.
var (
	errTooLong    = fmt.Errorf("it is longer than %d MiB", longestLine>>20)
	errOpenString = errors.New("a string field is not closed in its line")
	errCutOff     = errors.New("standard input ended inside of it")
)

// reader reads metrics from stdin.
type reader struct {
	program  *program
	chunks   <-chan []byte
	split    splitter
	parser   influx.Parser
	complain complaints
	take     func(line []byte) bool // Tells of a line whether the plugin has read it itself; nil where none does.

	stop     <-chan struct{} // Nil once it was seen closed.
	drained  <-chan time.Time
	draining bool
}

func (p *program) newReader() (*reader, error) {
	r := &reader{program: p, chunks: p.feed(), split: splitter{limit: longestLine}, stop: p.stop}
	return r, r.parser.Init()
}

// next gives the next line that holds a metric, and that metric, but for those that the plugin reads itself. Without one
// it gives nil.
func (r *reader) next() ([]byte, telegraf.Metric) {
	for {
		line := r.split.next()
		if line == nil {
			return nil, nil
		}
		if len(line) > r.split.limit {
			r.drop(line, errTooLong)
			continue
		}
		if r.take != nil && r.take(line) {
			continue
		}
		metrics, err := r.parser.Parse(line)
		if err == nil && len(metrics) == 1 {
			return line, metrics[0]
		}
		if err == nil {
			err = fmt.Errorf("%d metrics in one line", len(metrics))
		}
		if dropped, ok := r.split.retry(); ok {
			line, err = dropped, errOpenString
		}
		r.drop(line, err)
	}
}

func (r *reader) drop(line []byte, err error) {
	hidden, ok := r.complain.about(time.Now())
	if !ok {
		return
	}
	var parse *influx.ParseError
	if !errors.As(err, &parse) { // That has the line in it.
		err = fmt.Errorf("%w: %s", err, clip(line))
	}
	r.program.logs.errorf("A line of standard input is dropped: %v%s", err, also(hidden))
}

// more waits for more to read. It tells whether it is worth to call next again: not at the end of stdin, and not when
// timeout fires, which due tells apart.
func (r *reader) more(timeout <-chan time.Time) (open, due bool) {
	for {
		if r.split.tooLong() {
			if dropped := r.split.giveUp(); dropped != nil {
				r.drop(dropped, errTooLong)
			}
			return true, false
		}
		var stray, quiet <-chan time.Time
		if r.split.open() {
			stray = time.After(openFor)
		}
		if r.draining {
			quiet = time.After(quietFor)
		}
		select {
		case chunk, ok := <-r.chunks:
			if !ok {
				return r.ended(), false
			}
			r.split.push(chunk)
			return true, false
		case <-timeout:
			return true, true
		case <-stray:
			r.drop(r.split.giveUp(), errOpenString)
			return true, false
		case <-quiet:
			return false, false
		case <-r.drained:
			return false, false
		case <-r.stop:
			r.stop, r.draining, r.drained = nil, true, time.After(drainFor)
		}
	}
}

// ended handles what comes after the last newline. A metric that was cut off could look whole and be wrong. It tells
// whether there are lines to read again.
func (r *reader) ended() (again bool) {
	if r.split.open() {
		r.drop(r.split.giveUp(), errOpenString)
		return true
	}
	if rest := r.split.rest(); len(rest) > 0 {
		r.drop(rest, errCutOff)
	}
	return false
}

// clip is the beginning of a line for the log.
func clip(line []byte) string {
	return fmt.Sprintf("%q", shorten(string(line[:min(len(line), 1<<10)]), 200))
}
