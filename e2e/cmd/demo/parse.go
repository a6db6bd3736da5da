package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// lustre is the measurement that the table is of.
const lustre = "lustre_jobstats"

// point is a line of line protocol. Only those of lustre_jobstats have more than a measurement.
type point struct {
	measurement string
	target, job string
	fields      map[string]int64
}

// measurement gives what a line is of.
func measurement(line string) string {
	head := cut(line, ' ')[0]
	return unescape(cut(head, ',')[0])
}

// parsePoint reads a line of line protocol whose fields are integers (InfluxDB, "Line protocol reference").
func parsePoint(line string) (point, error) {
	p := point{measurement: lustre, fields: make(map[string]int64)}
	parts := cut(line, ' ')
	if len(parts) != 3 {
		return p, fmt.Errorf("line %q: %d parts, not 3", line, len(parts))
	}
	for _, tag := range cut(parts[0], ',')[1:] {
		pair := cut(tag, '=')
		if len(pair) != 2 {
			return p, fmt.Errorf("line %q: tag %q", line, tag)
		}
		switch value := unescape(pair[1]); pair[0] {
		case "target":
			p.target = value
		case "job":
			p.job = value
		}
	}
	for _, field := range strings.Split(parts[1], ",") {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(value, "i"), 10, 64)
		if err != nil {
			return p, fmt.Errorf("line %q: field %q: %w", line, key, err)
		}
		p.fields[key] = n
	}
	return p, nil
}

// cut cuts a string at each separator that has no backslash before it.
func cut(s string, separator byte) []string {
	var parts []string
	begin := 0
	for i := range len(s) {
		if s[i] == separator && (i == 0 || s[i-1] != '\\') {
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}

func unescape(s string) string {
	return strings.NewReplacer(`\ `, " ", `\,`, ",", `\=`, "=").Replace(s)
}

// entry is what Lustre says about one job in one reading.
type entry struct {
	snapshot      int64 // Lustre's snapshot_time in nanoseconds.
	read, written int64 // Bytes.
}

// parseEntries reads of job_stats as much as the table shows, in the plainest way: it is there to be compared with the
// plugin, and shares no code with it.
func parseEntries(text string) (map[string]entry, error) {
	entries := make(map[string]entry)
	for _, block := range strings.Split("\n"+text, "\n- job_id:")[1:] {
		lines := strings.Split(block, "\n")
		var e entry
		var errs [3]error
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(key) {
			case "snapshot_time":
				e.snapshot, errs[0] = nanoseconds(value)
			case "read_bytes":
				e.read, errs[1] = sum(value)
			case "write_bytes":
				e.written, errs[2] = sum(value)
			}
		}
		job := strings.Trim(strings.TrimSpace(lines[0]), `"`)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("job %q: %w", job, err)
		}
		entries[job] = e
	}
	return entries, nil
}

// nanoseconds reads "1724140459.176791282 secs.nsecs", or whole seconds alone.
func nanoseconds(value string) (int64, error) {
	seconds, fraction, _ := strings.Cut(strings.TrimSpace(strings.TrimSuffix(value, "secs.nsecs")), ".")
	return strconv.ParseInt(seconds+(fraction + "000000000")[:9], 10, 64)
}

// sum gives the sum of a counter that looks like "{ samples: 2, unit: bytes, min: 1, max: 2, sum: 3 }", 0 where it has none.
func sum(counter string) (int64, error) {
	_, rest, ok := strings.Cut(counter, " sum:")
	if !ok {
		return 0, nil
	}
	digits := strings.TrimSpace(rest)
	if end := strings.IndexAny(digits, ", }"); end >= 0 {
		digits = digits[:end]
	}
	return strconv.ParseInt(digits, 10, 64)
}
