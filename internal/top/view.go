package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// view is what is on the screen, and what the keys have chosen.
type view struct {
	source string
	every  time.Duration
	by     Grouping
	sort   Column
	filter string
	// editing is whether keys go into draft, which becomes the filter.
	editing bool
	draft   string
	paused  bool
	offset  int
	// last is the newest sample, shown the one on the screen: an older one while it is paused.
	last, shown Snapshot
	ready       bool
	failed      error
	width       int
	height      int
}

// sampled takes a sample.
func (v *view) sampled(s Snapshot, ready bool, err error) {
	v.failed = err
	if err != nil {
		return
	}
	v.last = s
	if !v.paused {
		v.shown, v.ready = s, ready
	}
}

// effect is what a key asks of whoever has the terminal.
type effect int

const (
	nothing effect = iota
	quit
	resample
)

// key does what a key is for.
func (v *view) key(k key) effect {
	if v.editing {
		v.edit(k)
		return nothing
	}
	switch k {
	case 'q', 'Q':
		return quit
	case 'p', ' ':
		if v.paused = !v.paused; !v.paused {
			v.shown = v.last
		}
	case 'j', 'u':
		by := ByJob
		if k == 'u' {
			by = ByUser
		}
		if by == v.by {
			return nothing
		}
		v.by, v.offset, v.paused, v.shown, v.ready = by, 0, false, Snapshot{}, false
		return resample
	case '/':
		v.editing, v.draft = true, v.filter
	case keyEscape:
		v.filter, v.offset = "", 0
	case 's':
		columns := Columns()
		v.sort = columns[(slices.Index(columns, v.sort)+1)%len(columns)]
	default:
		v.choose(k)
	}
	return nothing
}

// choose takes the keys that choose a column, or move.
func (v *view) choose(k key) {
	switch k {
	case 'b':
		v.sort = SortBytes
	case 'r':
		v.sort = SortRead
	case 'w':
		v.sort = SortWrite
	case 'o':
		v.sort = SortOps
	case 'm':
		v.sort = SortMeta
	case 't':
		v.sort = SortTotal
	case 'n':
		v.sort = SortName
	case keyUp:
		v.offset--
	case keyDown:
		v.offset++
	case keyPageUp:
		v.offset -= v.room()
	case keyPageDown:
		v.offset += v.room()
	case keyHome:
		v.offset = 0
	}
	v.offset = max(v.offset, 0)
}

// mostFilter is how long a filter may be.
const mostFilter = 64

// edit takes the keys of a filter that is being written.
func (v *view) edit(k key) {
	switch {
	case k == keyEnter:
		v.filter, v.editing, v.offset = v.draft, false, 0
	case k == keyEscape:
		v.editing = false
	case k == keyBackspace && v.draft != "":
		v.draft = v.draft[:len(v.draft)-1]
	case k >= ' ' && k <= '~' && len(v.draft) < mostFilter:
		v.draft += string(rune(k))
	}
}

// room is how many rows there are on the screen.
func (v *view) room() int { return max(v.height-5, 1) }

// lines draws the screen: as many lines as it is high, none wider than it.
func (v *view) lines() []string {
	rows := arrange(v.shown.Rows, v.sort, v.filter)
	v.offset = max(min(v.offset, len(rows)-v.room()), 0)
	lines := []string{v.status(), v.sums(rows), v.problem(), v.heading()}
	for _, r := range rows[v.offset:min(v.offset+v.room(), len(rows))] {
		lines = append(lines, v.row(&r))
	}
	for len(lines) < v.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(v.height-1, 0)], v.help())
	for i := range lines {
		lines[i] = strings.TrimRight(fit(lines[i], v.width), " ")
	}
	return lines
}

func (v *view) status() string {
	at := "waiting for the first figures"
	if !v.shown.At.IsZero() {
		at = v.shown.At.Format("15:04:05")
	}
	text := fmt.Sprintf("%s, %s, every %s, by %s, sorted by %s", plain(v.source), at, v.every, v.by, v.sort)
	if v.filter != "" {
		text += ", with " + v.filter
	}
	if v.paused {
		text += ", PAUSED"
	}
	return text
}

func (v *view) sums(rows []Row) string {
	if v.shown.At.IsZero() {
		return ""
	}
	if !v.ready {
		return "rates come with the second reading"
	}
	total := sum(rows)
	return fmt.Sprintf("%d %ss: reading %sB/s, writing %sB/s, %s requests/s to OSTs, %s to MDTs", len(rows), v.by,
		short(total.ReadRate), short(total.WriteRate), short(total.OpsRate), short(total.MetaRate))
}

func (v *view) problem() string {
	switch {
	case v.failed != nil:
		return "! " + plain(v.failed.Error())
	case len(v.shown.Problems) > 0:
		return fmt.Sprintf("! %s (%d problems)", plain(v.shown.Problems[0]), len(v.shown.Problems))
	}
	return ""
}

func (v *view) help() string {
	if v.editing {
		return "filter: " + v.draft + "_   Enter takes it, Esc leaves it"
	}
	return "q quit  p pause  j jobs  u users  / filter  s sort: b bytes r read w write o ops m meta t total n name"
}

// widths are those of the texts in a row; the figures have 8 each. The name has what is left, and 10 at least.
const (
	fsWidth      = 8
	userWidth    = 10
	stateWidth   = 8
	figureWidth  = 8
	figures      = 6
	leastForName = 10
)

func (v *view) nameWidth() int {
	return max(v.width-fsWidth-userWidth-stateWidth-figures*figureWidth-4, leastForName)
}

func (v *view) heading() string {
	name, user := "JOB", "USER"
	if v.by == ByUser {
		name, user = "USER", ""
	}
	return v.cells("FS", name, user, "STATE", "READ/s", "WRITE/s", "OPS/s", "META/s", "READ", "WRITE")
}

func (v *view) row(r *Row) string {
	return v.cells(plain(r.FS), plain(r.Name), plain(r.User), plain(r.State), short(r.ReadRate), short(r.WriteRate), short(r.OpsRate),
		short(r.MetaRate), short(float64(r.Read)), short(float64(r.Write)))
}

func (v *view) cells(fs, name, user, state string, numbers ...string) string {
	var b strings.Builder
	b.WriteString(fit(fs, fsWidth) + " " + fit(name, v.nameWidth()) + " " + fit(user, userWidth))
	for _, n := range numbers {
		fmt.Fprintf(&b, "%*s", figureWidth, n)
	}
	return b.String() + "  " + fit(state, stateWidth)
}
