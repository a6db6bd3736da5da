package jobstats

import (
	"fmt"
	"slices"
	"strings"
)

// maxOps bounds the operations one target may name. Lustre 2.17 has fewer than thirty; the bound keeps text that is
// not job_stats from growing the table without end.
const maxOps = 256

// Op is one operation that job_stats counts, as one kind of line shows it.
type Op struct {
	// Name is the operation as Lustre calls it, but for the byte counters that Lustre 2.5 calls read and write:
	// they are read_bytes and write_bytes as from 2.6 on.
	Name string
	// Unit is the unit of the line's min, max and sum: bytes, usecs or reqs.
	Unit string
	// Count is the name of the field that holds the number of requests.
	Count string
	// Sum is the name of the field that holds the sum, empty where the line has none that means anything.
	Sum string
}

// OpTable numbers the operations that one target has shown. Numbers are never taken back: counters in memory and on
// disk refer to them.
type OpTable struct {
	ops    []Op
	index  map[Op]uint16
	fields []field
	count  []int // of each op: the place of its Count in fields
	sum    []int // of each op: the place of its Sum in fields, -1 without one
}

// field is a field that the operations are emitted as.
type field struct {
	name     string
	requests bool // a number of requests that no other field has
	busy     bool // their service time
	// twin is the field that counts the same requests: read_ops of read. From 2.14 on both have them. -1 is none.
	twin int
}

// NewOpTable returns an empty table.
func NewOpTable() *OpTable {
	return &OpTable{index: make(map[Op]uint16)}
}

// Len returns how many operations are known.
func (t *OpTable) Len() int { return len(t.ops) }

// Op returns the operation with the number i.
func (t *OpTable) Op(i uint16) Op { return t.ops[i] }

// Add returns the number of the operation on a line with this name and unit, as the line has them, and knows it from
// now on.
func (t *OpTable) Add(name, unit string) (uint16, error) {
	op := newOp(name, unit)
	if i, ok := t.index[op]; ok {
		return i, nil
	}
	if !isName(op.Name) || !isName(op.Unit) {
		return 0, fmt.Errorf("operation %q with unit %q: not a name", name, unit)
	}
	if len(t.ops) == maxOps {
		return 0, fmt.Errorf("operation %q: more than %d operations", name, maxOps)
	}
	i := uint16(len(t.ops))
	t.ops = append(t.ops, op)
	t.index[op] = i
	t.count = append(t.count, t.field(op.Count, op, false))
	t.sum = append(t.sum, -1)
	if op.Sum != "" {
		t.sum[i] = t.field(op.Sum, op, true)
	}
	return i, nil
}

// field returns the place of a field, and makes it if there is none. Two operations may share one: getattr counts
// requests whether a line says reqs (to 2.12) or usecs (from 2.14).
func (t *OpTable) field(name string, op Op, isSum bool) int {
	if i := slices.IndexFunc(t.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return i
	}
	whole := !partOfRename(op.Name)
	t.fields = append(t.fields, field{
		name: name, requests: !isSum && whole, busy: isSum && whole && op.Unit == "usecs", twin: -1,
	})
	for i := range t.fields {
		twin := t.fields[i].name + "_ops"
		t.fields[i].twin = slices.IndexFunc(t.fields, func(f field) bool { return f.name == twin })
	}
	return len(t.fields) - 1
}

func newOp(name, unit string) Op {
	base, isBytes := strings.CutSuffix(name, "_bytes")
	switch {
	case isBytes || unit == "bytes":
		// A 2.12 MDT says reqs beside read_bytes and write_bytes, and means bytes.
		return Op{Name: base + "_bytes", Unit: "bytes", Count: base + "_ops", Sum: base + "_bytes"}
	case unit == "reqs":
		return Op{Name: name, Unit: unit, Count: name}
	case unit == "usec":
		unit = "usecs"
	}
	return Op{Name: name, Unit: unit, Count: name, Sum: name + "_" + unit}
}

// isName tells whether s is made of the letters that Lustre's names are made of.
func isName(s string) bool {
	if s == "" || len(s) > 31 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// partOfRename tells whether a name counts requests that rename counts too (lustre/mdt/mdt_reint.c counts both).
func partOfRename(name string) bool {
	switch name {
	case "crossdir_rename", "samedir_rename", "parallel_rename_file", "parallel_rename_dir":
		return true
	}
	return strings.HasPrefix(name, "parallel_rename_")
}
