package execd

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/logger"
)

// longestLogLine is how many bytes of a line are logged. Telegraf stops reading a child's stderr for good at a line of
// 64 KiB; the child would then hang in its next message.
const longestLogLine = 8 << 10

// logs writes log lines as Telegraf reads them from a child's stderr: each line starts with its level, then the
// plugin's name, so that continuation lines keep both.
type logs struct {
	err    io.Writer
	info   io.Writer // If not nil, information goes here, without a level: all that an output's stderr says is an error to Telegraf.
	source string    // Named in messages that are not a plugin's own.

	level  telegraf.LogLevel            // Of plugins whose table has no log_level.
	levels map[string]telegraf.LogLevel // By source.
	errors atomic.Int64                 // Messages of level error so far.

	mu sync.Mutex
}

// install makes Telegraf's logger, and with it the standard library's, write here. The logger must be redirected too:
// without set-up it keeps every message in memory.
func (l *logs) install() error {
	logger.RedirectLogging(io.Discard)
	_, err := logger.AddCallback(func(level telegraf.LogLevel, _ time.Time, source string, _ map[string]any, args ...any) {
		l.print(level, source, fmt.Sprint(args...))
	})
	return err
}

// setLevel is called for each table that has a log_level. Tables of one name share the most talkative.
func (l *logs) setLevel(source string, level telegraf.LogLevel) {
	if level == telegraf.None {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.levels == nil {
		l.levels = make(map[string]telegraf.LogLevel)
	}
	l.levels[source] = max(l.levels[source], level)
}

func (l *logs) errorf(format string, args ...any) {
	l.print(telegraf.Error, "", fmt.Sprintf(format, args...))
}

func (l *logs) print(level telegraf.LogLevel, source, message string) {
	if level == telegraf.Error {
		l.errors.Add(1)
	}
	if source == "" {
		source = l.source
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, ok := l.levels[source]
	if !ok {
		limit = l.level
	}
	if !limit.Includes(level) {
		return
	}
	to, prefix := l.err, level.Indicator()+" ["+source+"] "
	if l.info != nil && level >= telegraf.Info {
		to, prefix = l.info, "["+source+"] "
	}
	var text bytes.Buffer
	for line := range strings.SplitSeq(strings.TrimRight(message, "\r\n"), "\n") {
		text.WriteString(prefix)
		text.WriteString(shorten(strings.TrimRight(line, "\r"), longestLogLine))
		text.WriteByte('\n')
	}
	// There is nowhere left to report that the log cannot be written.
	_, _ = to.Write(text.Bytes())
}

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return fmt.Sprintf("%s ... (%d bytes more)", strings.ToValidUTF8(s[:limit], ""), len(s)-limit)
}

// complaints keeps a cause that comes again and again from filling the log: it lets ten messages a minute through.
type complaints struct {
	since  time.Time
	count  int
	hidden int
}

const complaintsPerMinute = 10

// about tells whether to log this one, and how many were held back since the last that was logged.
func (c *complaints) about(now time.Time) (hidden int, ok bool) {
	if now.Sub(c.since) >= time.Minute {
		c.since, c.count = now, 0
	}
	c.count++
	if c.count > complaintsPerMinute {
		c.hidden++
		return 0, false
	}
	hidden, c.hidden = c.hidden, 0
	return hidden, true
}

// also words how many messages were held back.
func also(hidden int) string {
	if hidden == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d like it since)", hidden)
}
