// Package lustresim simulates the job_stats of a Lustre file server and knows
// the true sums beside it. It follows Lustre's own source
// (lustre/obdclass/lprocfs_jobstats.c, lustre/ofd/lproc_ofd.c,
// lustre/mdt/mdt_lproc.c of 2.5 to 2.17) in what creates an entry, what drops
// it, how a reader walks the list, and what the text looks like.
//
// Time is virtual: every call takes it as nanoseconds since the Unix epoch. A
// Target is not safe for concurrent use.
package lustresim

import (
	"fmt"
	"strings"
)

// Kind is the kind of a target: an object storage target or a metadata target.
type Kind string

// The kinds of targets that have job_stats.
const (
	OST Kind = "ost"
	MDT Kind = "mdt"
)

// OpInfo describes one counter of an entry.
type OpInfo struct {
	// Name as printed, such as "write_bytes".
	Name string
	// Unit as printed: "reqs", "bytes" or "usecs".
	Unit string
	// HasSum says whether min, max and sum are kept and printed.
	HasSum bool
	sumsq  bool
	hist   bool
}

// idStyle is how a job id is printed.
type idStyle int

const (
	idRaw       idStyle = iota // as it is, newlines too
	idPrintable                // what the kernel's isprint() refuses becomes '?'
	idEscaped                  // all but alphanumerics and .@-_ as \xHH, then quoted
	idEscapedV2                // ':' and '/' stay too; ':' or a leading '@' quotes
)

// clock is what a target takes its times from.
type clock int

const (
	wallSeconds clock = iota
	bootNanos
	wallNanos
)

// header is how an entry's times are printed.
type header int

const (
	headerSnapshot    header = iota // one line of whole seconds
	headerColumnZero                // three lines that are not indented
	headerFull                      // three indented lines
	headerNoStartTime               // enable_stats_header=0: the snapshot_time only
)

// walk is how a reader finds its place again at the next read(2).
type walk int

const (
	walkIndex    walk = iota // by counting entries from the head of the list
	walkSaved                // by the entry kept, and referenced, since the last read
	walkPosition             // by the entry's number, in a tree
)

// Era is what one range of Lustre versions does. It is plain data: the rest of
// the package asks it and never compares versions.
type Era struct {
	// Name is the first version of the range, such as "2.15.2".
	Name string
	// IntervalInSys says that job_cleanup_interval is under
	// /sys/fs/lustre, not beside job_stats under /proc/fs/lustre.
	IntervalInSys bool

	ids    idStyle
	clock  clock
	header header
	walk   walk
	// glued is "min:%8llu" in place of "min: %8llu".
	glued bool
	// cleanEveryOp: every operation runs the clean-up first, at most once an
	// interval, and a reader never does. Else an unknown job id and the close
	// of the file run it, at most twice an interval.
	cleanEveryOp bool
	// halved: the interval is stored as half of its whole seconds.
	halved bool
	// clearSparesRecent: "clear" drops only what has expired (a bug of 2.15.0 to 2.15.5).
	clearSparesRecent bool
	// lazyHeader: the line "job_stats:" is printed with the first entry shown
	// after any reader set a flag that all readers share.
	lazyHeader bool

	ost, mdt []OpInfo
}

// HasStartTime says whether entries show the start_time of their life.
func (e Era) HasStartTime() bool {
	return e.header == headerColumnZero || e.header == headerFull
}

// Ops returns the counters of an entry in the order they are printed.
func (e Era) Ops(k Kind) []OpInfo {
	if k == MDT {
		return e.mdt
	}
	return e.ost
}

// Visible returns what a perfect parser can know of a job id: the id itself,
// or the id with '?' for what the era does not print.
func (e Era) Visible(id string) string {
	if e.ids != idPrintable {
		return id
	}
	return string(appendPrintable(nil, id))
}

// Eras returns every era, the oldest first.
func Eras() []Era {
	v5 := Era{
		Name: "2.5", ids: idRaw, clock: wallSeconds, header: headerSnapshot, walk: walkIndex,
		glued: true, cleanEveryOp: true, ost: ost25(), mdt: reqs(mdtNames()...),
	}
	v7 := v5
	v7.Name, v7.ost = "2.7", ost27()

	v10 := v7
	v10.Name, v10.ids, v10.cleanEveryOp = "2.10", idPrintable, false

	v12 := v10
	v12.Name, v12.mdt = "2.12", mdt212()

	v14 := v12
	v14.Name, v14.IntervalInSys, v14.ost, v14.mdt = "2.14", true, ost214(false), mdt214()

	v150 := v14
	v150.Name, v150.clock, v150.header, v150.mdt = "2.15.0", bootNanos, headerColumnZero, mdt215(false)
	v150.glued, v150.halved, v150.clearSparesRecent = false, true, true

	v152 := v150
	v152.Name, v152.clock, v152.header, v152.ids = "2.15.2", wallNanos, headerFull, idEscaped

	v156 := v152
	v156.Name, v156.clearSparesRecent = "2.15.6", false

	v16 := v156
	v16.Name, v16.ids, v16.walk = "2.16", idEscapedV2, walkSaved
	v16.ost, v16.mdt = ost214(true), mdt215(true)

	v16bare := v16
	v16bare.Name, v16bare.header = "2.16-noheader", headerNoStartTime

	v17 := v16
	v17.Name, v17.walk, v17.lazyHeader = "2.17", walkPosition, true
	v17.mdt = append(v17.mdt[:len(v17.mdt):len(v17.mdt)], usecs("fallocate")...)

	return []Era{v5, v7, v10, v12, v14, v150, v152, v156, v16, v16bare, v17}
}

// EraNamed returns the era of that name. "2.8" is 2.10, and "2.15" is 2.15.6.
func EraNamed(name string) (Era, error) {
	wanted := name
	switch name {
	case "2.8":
		wanted = "2.10"
	case "2.15":
		wanted = "2.15.6"
	}
	var known []string
	for _, e := range Eras() {
		if e.Name == wanted {
			return e, nil
		}
		known = append(known, e.Name)
	}
	return Era{}, fmt.Errorf("unknown era %q: want one of %s", name, strings.Join(known, ", "))
}

func reqs(names ...string) []OpInfo {
	ops := make([]OpInfo, 0, len(names))
	for _, n := range names {
		ops = append(ops, OpInfo{Name: n, Unit: "reqs"})
	}
	return ops
}

func usecs(names ...string) []OpInfo {
	ops := make([]OpInfo, 0, len(names))
	for _, n := range names {
		ops = append(ops, OpInfo{Name: n, Unit: "usecs", HasSum: true, sumsq: true})
	}
	return ops
}

func ost25() []OpInfo {
	return append([]OpInfo{
		{Name: "read", Unit: "bytes", HasSum: true},
		{Name: "write", Unit: "bytes", HasSum: true},
	}, reqs("setattr", "punch", "sync")...)
}

func ostNames() []string {
	return []string{
		"getattr", "setattr", "punch", "sync", "destroy", "create", "statfs", "get_info", "set_info", "quotactl",
	}
}

func ost27() []OpInfo {
	return append([]OpInfo{
		{Name: "read_bytes", Unit: "bytes", HasSum: true},
		{Name: "write_bytes", Unit: "bytes", HasSum: true},
	}, reqs(ostNames()...)...)
}

func fullBytes(hist bool) []OpInfo {
	return []OpInfo{
		{Name: "read_bytes", Unit: "bytes", HasSum: true, sumsq: true, hist: hist},
		{Name: "write_bytes", Unit: "bytes", HasSum: true, sumsq: true, hist: hist},
	}
}

func ost214(hist bool) []OpInfo {
	ops := append(fullBytes(hist), usecs("read", "write")...)
	ops = append(ops, usecs(ostNames()...)...)
	return append(ops, usecs("prealloc")...)
}

func mdtNames() []string {
	return []string{
		"open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr",
		"getxattr", "setxattr", "statfs", "sync", "samedir_rename", "crossdir_rename",
	}
}

// mdt212 has the counters of data on MDT, whose bytes are said to be requests.
func mdt212() []OpInfo {
	ops := append(reqs(mdtNames()...),
		OpInfo{Name: "read_bytes", Unit: "reqs", HasSum: true},
		OpInfo{Name: "write_bytes", Unit: "reqs", HasSum: true})
	return append(ops, reqs("punch")...)
}

func mdt214() []OpInfo {
	ops := append(usecs(mdtNames()...), fullBytes(false)...)
	return append(ops, usecs("punch", "migrate")...)
}

func mdt215(hist bool) []OpInfo {
	names := mdtNames()
	ops := usecs(names[:len(names)-1]...)
	ops = append(ops, usecs("parallel_rename_file", "parallel_rename_dir", "crossdir_rename", "read", "write")...)
	ops = append(ops, fullBytes(hist)...)
	return append(ops, usecs("punch", "migrate")...)
}
