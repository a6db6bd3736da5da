package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRows is how many jobs fit on a screen.
	maxRows = 12
	// keptReadings is how many values of an entry are remembered until the plugin's point for one of them comes.
	keptReadings = 64
	// quietFor is how long a job is shown after it was last heard of.
	quietFor = 2 * time.Minute
)

// key names a job on a target.
type key struct{ target, job string }

// row is a job on a target: one point of the plugin, and what Lustre said at the same moment.
type row struct {
	total  map[string]int64
	lustre entry
	at     time.Time
}

// table puts what the plugin says beside what Lustre says.
type table struct {
	root string
	rows map[key]row
	// readings holds what Lustre says of each entry that is there now, and what it said before, the latest last: a point
	// comes some seconds after the reading that it is from.
	readings map[key][]entry
	others   map[string]int // How many points there were of each other measurement.
}

func newTable(root string) *table {
	return &table{root: root, rows: make(map[key]row), others: make(map[string]int)}
}

// jobStats lists the files that Lustre servers have, under a root.
func jobStats(root string) ([]string, error) {
	return filepath.Glob(filepath.Join(root, "proc/fs/lustre/*/*/job_stats"))
}

// look reads what Lustre says now. A target that goes away meanwhile is left out.
func (t *table) look() error {
	files, err := jobStats(t.root)
	if err != nil {
		return err
	}
	readings := make(map[key][]entry)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		entries, err := parseEntries(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for job, e := range entries {
			k := key{filepath.Base(filepath.Dir(file)), job}
			r := t.readings[k]
			if len(r) == 0 || r[len(r)-1] != e {
				r = append(r[max(0, len(r)-keptReadings):], e)
			}
			readings[k] = r
		}
	}
	t.readings = readings
	return nil
}

// add takes a point. One that is from no reading, a total's zero before its first value, is not shown.
func (t *table) add(p point, now time.Time) {
	if p.measurement != lustre {
		t.others[p.measurement]++
		return
	}
	snapshot, ok := p.fields["snapshot"]
	if !ok {
		return
	}
	k := key{p.target, p.job}
	r := row{total: p.fields, at: now}
	for _, e := range t.readings[k] {
		r.lustre = e
		if e.snapshot == snapshot {
			break
		}
	}
	t.rows[k] = r
}

// print shows the jobs whose counters have begun again from zero, then the others, both by bytes.
func (t *table) print(out io.Writer, now time.Time) {
	maps.DeleteFunc(t.rows, func(_ key, r row) bool { return now.Sub(r.at) > quietFor })
	if len(t.rows) == 0 {
		t.printOthers(out)
		return
	}
	keys := slices.SortedFunc(maps.Keys(t.rows), func(a, b key) int {
		ra, rb := t.rows[a], t.rows[b]
		return cmp.Or(cmp.Compare(min(rb.lives(), 2), min(ra.lives(), 2)), cmp.Compare(rb.bytes(), ra.bytes()),
			strings.Compare(a.target, b.target), strings.Compare(a.job, b.job))
	})
	const columns = "%-16s %-14s %6s %14s %14s %14s %14s\n"
	fmt.Fprintf(out, "\n%-38s %29s %29s\n", now.Format(time.TimeOnly), "bytes read", "bytes written")
	fmt.Fprintf(out, columns, "target", "job", "lives", "Lustre says", "true total", "Lustre says", "true total")
	for _, k := range keys[:min(len(keys), maxRows)] {
		r := t.rows[k]
		read, written := "gone", "gone"
		if len(t.readings[k]) > 0 {
			read, written = grouped(r.lustre.read), grouped(r.lustre.written)
		}
		fmt.Fprintf(out, columns, k.target, printable(k.job), strconv.FormatInt(r.lives(), 10),
			read, grouped(r.total["read_bytes"]), written, grouped(r.total["write_bytes"]))
	}
	t.printOthers(out)
}

// printOthers shows how many points there were of each other measurement, in lines as wide as the table.
func (t *table) printOthers(out io.Writer) {
	const width = 98
	line := "Points of other measurements:"
	for _, name := range slices.Sorted(maps.Keys(t.others)) {
		part := fmt.Sprintf(" %s %d", printable(name), t.others[name])
		if len(line)+len(part) > width {
			fmt.Fprintln(out, line)
			line = " "
		}
		line += part
	}
	if len(t.others) > 0 {
		fmt.Fprintln(out, line)
	}
}

// lives is how often Lustre's counters have begun at zero.
func (r row) lives() int64 { return r.total["epochs"] }

func (r row) bytes() int64 { return r.total["read_bytes"] + r.total["write_bytes"] }

// printable keeps a job id, which any user can choose, from writing to the terminal.
func printable(job string) string {
	if quoted := strconv.Quote(job); quoted != `"`+job+`"` {
		return quoted
	}
	return job
}

// grouped writes a number as 1,234,567.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
