package lustresim

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// histBuckets is OBD_HIST_MAX.
const histBuckets = 32

// minInit is LC_MIN_INIT, the minimum of a counter that has no value yet.
const minInit = 1<<63 - 1

// counter is struct lprocfs_counter.
type counter struct {
	count, sum, min, max, sumsq uint64
}

// histogram is struct obd_histogram.
type histogram [histBuckets]uint64

// bucket is lprocfs_oh_tally_log2: the power of two that value fits into.
func bucket(value uint64) int {
	if value == 0 {
		return 0
	}
	return min(bits.Len64(value-1), histBuckets-1)
}

// line is the fixed text of one counter, made once for a target.
type line struct {
	head  string // up to the number of samples
	unit  string // up to the minimum
	max   string
	sum   string
	zero  string // the whole line of a counter without samples
	stats bool
	sumsq bool
	hist  bool
}

// newLines makes the text of lprocfs_jobstats_seq_show for every counter.
func newLines(e Era, ops []OpInfo) []line {
	gap := " "
	if e.glued {
		gap = ""
	}
	lines := make([]line, 0, len(ops))
	for _, op := range ops {
		l := line{
			head:  fmt.Sprintf("  %s:%s { samples: ", op.Name, strings.Repeat(" ", max(0, 15-len(op.Name)))),
			unit:  fmt.Sprintf(", unit: %5s", op.Unit),
			stats: op.HasSum,
			sumsq: op.sumsq,
			hist:  op.hist,
		}
		if l.stats {
			l.unit += ", min:" + gap
			l.max, l.sum = ", max:"+gap, ", sum:"+gap
		}
		l.zero = string(l.append(nil, &counter{}, &histogram{}))
		lines = append(lines, l)
	}
	return lines
}

func (l *line) append(dst []byte, c *counter, h *histogram) []byte {
	if c.count == 0 && l.zero != "" {
		return append(dst, l.zero...)
	}
	dst = append(dst, l.head...)
	dst = appendPadded(dst, c.count, 11)
	dst = append(dst, l.unit...)
	if l.stats {
		dst = appendPadded(dst, c.min, 8)
		dst = append(dst, l.max...)
		dst = appendPadded(dst, c.max, 8)
		dst = append(dst, l.sum...)
		dst = appendPadded(dst, c.sum, 16)
	}
	if l.sumsq {
		dst = append(dst, ", sumsq: "...)
		dst = appendPadded(dst, c.sumsq, 18)
	}
	if l.hist {
		dst = appendHist(dst, h)
	}
	return append(dst, " }\n"...)
}

func appendHist(dst []byte, h *histogram) []byte {
	const units = "\x00KMG"
	dst = append(dst, ", hist: { "...)
	first := true
	for i, n := range h {
		if n == 0 {
			continue
		}
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = strconv.AppendUint(dst, 1<<(i%10), 10)
		if i >= 10 {
			dst = append(dst, units[i/10])
		}
		dst = append(dst, ": "...)
		dst = strconv.AppendUint(dst, n, 10)
	}
	return append(dst, " }"...)
}

// appendPadded is printf's %*llu.
func appendPadded(dst []byte, v uint64, width int) []byte {
	const blanks = "                    "
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	if pad := width - len(d); pad > 0 {
		dst = append(dst, blanks[:pad]...)
	}
	return append(dst, d...)
}

// appendEntry is one call of lprocfs_jobstats_seq_show.
func (t *Target) appendEntry(dst []byte, e *entry) []byte {
	dst = append(dst, "- job_id:          "...)
	dst = appendID(dst, t.era.ids, e.id)
	dst = append(dst, '\n')
	dst = appendTimes(dst, t.era.header, e.latest, e.born)
	histAt := 0
	for i := range t.lines {
		l := &t.lines[i]
		var h *histogram
		if l.hist {
			h = &e.hist[histAt]
			histAt++
		}
		dst = l.append(dst, &e.counters[i], h)
	}
	return dst
}

func appendTimes(dst []byte, h header, latest, born int64) []byte {
	switch h {
	case headerSnapshot:
		dst = append(dst, "  snapshot_time:   "...)
		dst = strconv.AppendInt(dst, latest/1e9, 10)
		return append(dst, '\n')
	case headerColumnZero:
		dst = appendTime(dst, "snapshot_time   : ", latest)
		dst = appendTime(dst, "start_time      : ", born)
		return appendTime(dst, "elapsed_time    : ", latest-born)
	case headerFull:
		dst = appendTime(dst, "  snapshot_time:   ", latest)
		dst = appendTime(dst, "  start_time:      ", born)
		return appendTime(dst, "  elapsed_time:    ", latest-born)
	default:
		return appendTime(dst, "  snapshot_time:   ", latest)
	}
}

// appendTime prints a ktime_t as lprocfs_stats_header does: the seconds with
// %llu, so that a time before zero (a clock that stepped back) is very large.
func appendTime(dst []byte, label string, ns int64) []byte {
	sec, frac := ns/1e9, ns%1e9
	if frac < 0 {
		sec, frac = sec-1, frac+1e9
	}
	dst = append(dst, label...)
	dst = strconv.AppendUint(dst, uint64(sec), 10)
	// A leading 1 keeps the zeros of the fraction, and its place gets the point.
	point := len(dst)
	dst = strconv.AppendInt(dst, frac+1e9, 10)
	dst[point] = '.'
	return append(dst, " secs.nsecs\n"...)
}

func appendID(dst []byte, style idStyle, id string) []byte {
	switch style {
	case idRaw:
		return append(dst, id...)
	case idPrintable:
		return appendPrintable(dst, id)
	case idEscaped:
		return appendEscaped(dst, id, ".@-_", "")
	default:
		return appendEscaped(dst, id, ".@-_:/", ":")
	}
}

func appendPrintable(dst []byte, id string) []byte {
	for i := range len(id) {
		c := id[i]
		// The kernel's isprint() knows Latin-1.
		if c < ' ' || (c >= 0x7f && c < 0xa0) {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// appendEscaped writes every byte as \xHH that is neither alphanumeric nor in
// keep. Such a byte, one that is in quoting, and with a quoting style a
// leading '@', puts the id into double quotes.
func appendEscaped(dst []byte, id, keep, quoting string) []byte {
	const hex = "0123456789ABCDEF"
	quote := quoting != "" && strings.HasPrefix(id, "@")
	start := len(dst)
	dst = append(dst, '"')
	for i := range len(id) {
		c := id[i]
		switch {
		case isAlnum(c):
			dst = append(dst, c)
		case strings.IndexByte(keep, c) >= 0:
			quote = quote || strings.IndexByte(quoting, c) >= 0
			dst = append(dst, c)
		default:
			quote = true
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	if quote {
		return append(dst, '"')
	}
	return append(dst[:start], dst[start+1:]...)
}

// isAlnum is the kernel's isalnum(), which knows Latin-1.
func isAlnum(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
		return true
	default:
		return c >= 0xc0 && c != 0xd7 && c != 0xf7
	}
}
