package lustre_jobs

import "strings"

// Fields that stand for themselves. The table begins with them.
const (
	fieldEpoch uint16 = iota
	fieldSnapshot
	fieldOps
	fieldBusy
	fieldReadBytes
	fieldWriteBytes
	firstOther
)

const (
	// maxFields bounds the fields that lines may name. Lustre has fewer than a hundred; the bound keeps lines that are
	// not of Lustre from growing the table without end.
	maxFields  = 192
	noField    = uint16(maxFields)
	longestKey = 63
)

// fieldTable numbers the fields that lines have shown. Numbers are never taken back: totals in memory and on disk refer
// to them.
type fieldTable struct {
	fields []field
	index  map[string]uint16
}

// field is one field of lustre_jobstats_epoch.
type field struct {
	name     string
	rate     string // the name of its rate
	requests bool   // a number of requests that no other field counts
	busy     bool   // their service time
	// twin is the field that counts the same requests, if a line has it: read_ops of read. noField is none.
	twin uint16
}

func newFieldTable() *fieldTable {
	t := &fieldTable{index: make(map[string]uint16)}
	for _, name := range []string{"epoch", "snapshot", "ops", "busy_usecs", "read_bytes", "write_bytes"} {
		t.add(name)
	}
	return t
}

func (t *fieldTable) len() int { return len(t.fields) }

func (t *fieldTable) name(i uint16) string { return t.fields[i].name }

// names gives the names of all fields, by their numbers.
func (t *fieldTable) names() []string {
	names := make([]string, len(t.fields))
	for i := range t.fields {
		names[i] = t.fields[i].name
	}
	return names
}

// number gives the number of a field, which is known from now on. It refuses what is no name and what is too much.
func (t *fieldTable) number(name []byte) (uint16, bool) {
	if i, ok := t.index[string(name)]; ok {
		return i, true
	}
	if len(t.fields) == maxFields || len(name) > longestKey || !plainName(name) {
		return 0, false
	}
	return t.add(string(name)), true
}

// add makes a field. The rules are those of lustre_jobstats: NAME counts requests, NAME_usecs is their time; X_ops counts
// what moved X_bytes, and since Lustre 2.14 X counts the same requests again; what is a part of rename counts twice.
func (t *fieldTable) add(name string) uint16 {
	i := uint16(len(t.fields))
	f := field{name: name, rate: name + "_rate", twin: noField}
	base, isTime := strings.CutSuffix(name, "_usecs")
	switch {
	case i < firstOther:
	case partOfRename(base):
	case isTime:
		f.busy = true
	case strings.HasSuffix(name, "_bytes"):
	default:
		f.requests = true
	}
	t.fields = append(t.fields, f)
	t.index[name] = i
	if twin, ok := t.index[name+"_ops"]; ok {
		t.fields[i].twin = twin
	}
	if one, ok := t.index[strings.TrimSuffix(name, "_ops")]; ok && one != i {
		t.fields[one].twin = i
	}
	return i
}

func partOfRename(name string) bool {
	return name == "crossdir_rename" || name == "samedir_rename" || strings.HasPrefix(name, "parallel_rename_")
}

// fieldSet is a set of fields.
type fieldSet [maxFields / 64]uint64

func (s *fieldSet) has(i uint16) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *fieldSet) put(i uint16) { s[i/64] |= 1 << (i % 64) }
