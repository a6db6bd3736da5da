package condor_q

import (
	"fmt"
	"slices"
	"strings"
)

// HTCondor appends a job's record to its history file when the job leaves the queue, and condor_history reads the file
// from its end. The order in the file is the order of leaving; no time in the record is in order: a job may stay in the
// queue for days after it completed. So the file is read back to a record that is known, which GlobalJobId and
// JobFinishedHookDone name. A schedd that was killed writes its last records again: how many is bounded by what its
// log buffers, 4 KiB at 20 bytes a job. So records are looked for that are further back than that, and ids that were
// seen are dropped.
const (
	// anchorDepth is how many records the file is read back behind the newest known one.
	anchorDepth = 256
	// seenIDs is how many jobs are remembered that left.
	seenIDs = 10_000
)

// record names one record of a history file.
type record struct {
	ID   string `json:"id"`   // GlobalJobId
	Done int64  `json:"done"` // JobFinishedHookDone; absent where the record has none
}

// cursor knows how far a schedd's history was read. The zero cursor has read nothing.
type cursor struct {
	Started bool     `json:"started"` // it knows where it began, even if the history was empty then
	Tail    []record `json:"tail"`    // the newest records that were read, newest first
	Seen    []string `json:"seen"`    // GlobalJobIds of those, and of more before them, oldest first
}

// since gives the expression at which reading back ends; "" where all of the file is to be read, since it is short.
func (c *cursor) since() string {
	if len(c.Tail) <= anchorDepth {
		return ""
	}
	anchor := c.Tail[len(c.Tail)-1]
	id := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(anchor.ID)
	if anchor.Done == absent {
		return fmt.Sprintf(`GlobalJobId == "%s" && JobFinishedHookDone =?= undefined`, id)
	}
	return fmt.Sprintf(`GlobalJobId == "%s" && JobFinishedHookDone == %d`, id, anchor.Done)
}

// start takes the newest records, newest first, for read: those jobs are not ours.
func (c *cursor) start(records []record) *cursor {
	next := &cursor{Started: true}
	next.remember(records)
	for i := len(records) - 1; i >= 0; i-- {
		next.Seen = append(next.Seen, records[i].ID)
	}
	next.Seen = newest(next.Seen)
	return next
}

// advance takes what was read back to since(), newest first. It gives the cursor behind it, the places of the records
// that are new, oldest first, and whether some may be missing, because the file does not reach back to what was read.
//
// All that was not seen is new, and not only what is behind the newest known record: condor_history that runs while the
// file is rotated may leave out a whole file, which the next one shows.
func (c *cursor) advance(records []record) (next *cursor, fresh []int, gap bool) {
	seen := make(map[string]bool, len(c.Seen))
	for _, id := range c.Seen {
		seen[id] = true
	}
	known := make(map[record]bool, len(c.Tail))
	for _, r := range c.Tail {
		known[r] = true
	}
	oldest := len(records) - 1
	for oldest >= 0 && !known[records[oldest]] {
		oldest--
	}
	gap = oldest < 0 && len(c.Tail) > 0
	from := len(records) - 1
	if len(c.Seen) == seenIDs && !gap {
		from = oldest // What comes before all that is known may be older than what is remembered.
	}
	next = &cursor{Started: true, Seen: slices.Clone(c.Seen)}
	for i := from; i >= 0; i-- {
		if id := records[i].ID; !seen[id] {
			seen[id] = true
			fresh = append(fresh, i)
			next.Seen = append(next.Seen, id)
		}
	}
	next.Seen = newest(next.Seen)
	if c.since() != "" && !gap {
		records = append(records[:len(records):len(records)], c.Tail[len(c.Tail)-1]) // Which is not told.
	}
	next.remember(records)
	return next, fresh, gap
}

// remember makes records, newest first, the tail. Reading back ends at the newest of those that are the same.
func (c *cursor) remember(records []record) {
	c.Tail = nil
	there := make(map[record]bool, anchorDepth+1)
	for _, r := range records {
		if len(c.Tail) > anchorDepth {
			return
		}
		if !there[r] {
			there[r] = true
			c.Tail = append(c.Tail, r)
		}
	}
}

func newest(ids []string) []string { return ids[max(len(ids)-seenIDs, 0):] }
