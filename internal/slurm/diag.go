package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Diag is what sdiag prints: slurmctld's own statistics. Slurm sets most of them back to 0 at midnight UTC, at a restart
// and at `sdiag --reset`.
type Diag struct {
	Time  int64 // slurmctld's clock
	Since int64 // when the statistics were last set back

	// Values holds each line of the sections before the RPCs, named after section and line in snake_case: what stands
	// before the first section is as "server_thread_count", "jobs_submitted"; "main_last_cycle" (microseconds),
	// "main_total_cycles", "main_exit_end_of_job_queue", "backfill_last_cycle", "backfill_exit_...". Points in time are
	// seconds since 1970. What is not a whole number is left out, and so is what sdiag does not print: means where there
	// was no cycle, the exits before 23.02.
	Values map[string]int64

	ByType  []RPC
	ByUser  []RPC
	Pending []RPC // Count only: RPCs that wait to be sent (20.11 and later)
}

// RPC is a kind of message, or a user, of sdiag's tables.
type RPC struct {
	ID    int64  // the type's number or the uid
	Name  string // the message's type or the user's name; the uid where this host does not know the user
	Count int64
	Time  int64 // microseconds in all
}

// Diag asks slurmctld for its statistics. It is the cheapest question there is, and so tells whether slurmctld answers.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	text, err := c.Run(ctx, "sdiag")
	if err != nil {
		return Diag{}, err
	}
	diag, err := parseDiag(text)
	if err != nil {
		return Diag{}, fmt.Errorf("sdiag: %w", err)
	}
	return diag, nil
}

// parseDiag reads the sections. Their lines are indented; those before the first, and some that stand alone, are not.
func parseDiag(text []byte) (Diag, error) {
	p := diagParser{diag: Diag{Values: map[string]int64{}}}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, " \r\n")
		if len(line) == 0 || line[0] == '*' {
			continue
		}
		if err := p.line(line); err != nil {
			return Diag{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if p.diag.Time == 0 {
		return Diag{}, errors.New("no line tells when it was made")
	}
	nameByID(p.diag.ByUser)
	return p.diag, nil
}

// diagParser has the section that the lines are of.
type diagParser struct {
	diag   Diag
	prefix string // of the section's names
	table  *[]RPC // nil where the section is none
	skip   bool
}

// line reads one line, not empty.
func (p *diagParser) line(line []byte) error {
	indented := line[0] == '\t' || line[0] == ' '
	switch {
	case bytes.HasPrefix(line, []byte("sdiag output at")):
		return timeAt(&p.diag.Time, line)
	case bytes.HasPrefix(line, []byte("Data since")):
		return timeAt(&p.diag.Since, line)
	case !indented:
		if !p.section(string(line)) {
			p.value("", line)
		}
	case p.table != nil:
		return p.rpc(bytes.TrimSpace(line))
	case !p.skip:
		p.value(p.prefix, line)
	}
	return nil
}

// section tells whether a line begins a section: nothing stands behind a colon of it. The lines of a section that is not
// known are named after it.
func (p *diagParser) section(heading string) bool {
	prefix, table, skip := "", (*[]RPC)(nil), false
	switch {
	case strings.HasPrefix(heading, "Main schedule statistics"):
		prefix = "main_"
	case strings.HasPrefix(heading, "Main scheduler exit"):
		prefix = "main_exit_"
	case strings.HasPrefix(heading, "Backfilling stats"): // there may follow: (WARNING: ...)
		prefix = "backfill_"
	case strings.HasPrefix(heading, "Backfill exit"):
		prefix = "backfill_exit_"
	case strings.HasPrefix(heading, "Remote Procedure Call statistics by message type"):
		table = &p.diag.ByType
	case strings.HasPrefix(heading, "Remote Procedure Call statistics by user"):
		table = &p.diag.ByUser
	case strings.HasPrefix(heading, "Pending RPC statistics"):
		table = &p.diag.Pending
	case strings.HasPrefix(heading, "Pending RPCs"): // each one, and to whom it is to be sent
		skip = true
	case !strings.Contains(strings.TrimSuffix(heading, ":"), ":"):
		prefix = strings.TrimPrefix(snakeCase([]byte(heading))+"_", "_")
	default:
		return false
	}
	p.prefix, p.table, p.skip = prefix, table, skip
	return true
}

// value reads a line such as `Last cycle:   199`, `Last cycle when: Sat Nov 21 09:14:18 2026 (1795252458)` or
// `Latency for 1000 calls to gettimeofday(): 22 microseconds`.
func (p *diagParser) value(prefix string, line []byte) {
	words, value, _ := bytes.Cut(line, []byte(":"))
	name := snakeCase(words)
	value = bytes.TrimSpace(value)
	number, ok := numberAt(value)
	if !ok {
		first, _, _ := bytes.Cut(value, []byte(" "))
		var err error
		number, err = parseInt(first)
		ok = err == nil
	}
	if ok && name != "" {
		p.diag.Values[prefix+name] = number
	}
}

// numberAt reads the number in parentheses at the end of b.
func numberAt(b []byte) (int64, bool) {
	start := bytes.LastIndexByte(b, '(')
	if start < 0 || b[len(b)-1] != ')' {
		return 0, false
	}
	v, err := parseInt(bytes.TrimSpace(b[start+1 : len(b)-1]))
	return v, err == nil
}

// timeAt reads the time that a line gives in parentheses.
func timeAt(field *int64, line []byte) error {
	v, ok := numberAt(line)
	if !ok {
		return fmt.Errorf("%s tells no time", quoted(line))
	}
	*field = v
	return nil
}

// rpc reads a row such as `REQUEST_PING         ( 1008) count:3      ave_time:112    total_time:338`. More may follow
// (23.11 and later, where RPCs are queued). A user's name may hold anything, so the row is read from its end.
func (p *diagParser) rpc(row []byte) error {
	at := bytes.LastIndex(row, []byte(" count:"))
	if at < 0 {
		return nil // there are none, and a sentence says so
	}
	rpc := RPC{}
	name := bytes.TrimSpace(row[:at])
	var ok bool
	if rpc.ID, ok = numberAt(name); !ok {
		return fmt.Errorf("%s has no number", quoted(row))
	}
	rpc.Name = string(bytes.TrimSpace(name[:bytes.LastIndexByte(name, '(')]))
	for field := range bytes.FieldsSeq(row[at:]) {
		key, value, _ := bytes.Cut(field, []byte(":"))
		var err error
		switch string(key) {
		case "count":
			rpc.Count, err = parseInt(value)
		case "total_time":
			rpc.Time, err = parseInt(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", rpc.Name, key, err)
		}
	}
	*p.table = append(*p.table, rpc)
	return nil
}

// nameByID names those users by their numbers of whom the name does not tell which they are: from 23.11 on sdiag gives
// all users whom this host does not know the name nobody.
func nameByID(users []RPC) {
	const nobody = 65534
	seen := map[string]bool{}
	for i := range users {
		u := &users[i]
		if u.Name == "" || seen[u.Name] || u.Name == "nobody" && u.ID != nobody {
			u.Name = strconv.FormatInt(u.ID, 10)
		}
		seen[u.Name] = true
	}
}

// snakeCase makes a name such as last_depth_cycle_try_sched of a line's words.
func snakeCase(words []byte) string {
	name := make([]byte, 0, len(words))
	for _, c := range bytes.ToLower(words) {
		switch {
		case isWordByte(c):
			name = append(name, c)
		case len(name) > 0 && name[len(name)-1] != '_':
			name = append(name, '_')
		}
	}
	return string(bytes.TrimRight(name, "_"))
}
