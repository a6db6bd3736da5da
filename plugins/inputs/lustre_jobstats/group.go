package lustre_jobstats

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/jobstats"
)

// member is a series of one target that is part of a sum over the targets of a file system.
type member struct {
	id   jobstats.SeriesID
	zero int64 // when it was created now: the time of its point of zeros
	born bool
}

func newMember(pt *jobstats.Point) member {
	return member{id: pt.ID, zero: pt.Time, born: pt.What == jobstats.Zeros}
}

// group is the targets of one kind of a file system.
type group struct{ fs, kind string }

// reopen opens the state of all targets that have one.
func (p *LustreJobstats) reopen() error {
	if p.StateDirectory == "" {
		return nil
	}
	entries, err := os.ReadDir(p.StateDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("option state_directory: %w", err)
	}
	for _, e := range entries {
		name, err := url.PathUnescape(e.Name())
		if err != nil || !e.IsDir() || !p.wants(name) {
			continue
		}
		kind := "ost"
		if strings.Contains(name, "-MDT") {
			kind = "mdt"
		}
		w := &watched{target: target{name: name, fs: fileSystem(name), kind: kind}}
		if err := p.open(w); err != nil {
			p.Log.Errorf("Target %q: %v", name, err)
			continue
		}
		p.watched[name] = w
	}
	return nil
}

// emitGroups emits the sums over targets of which a part is new.
func (p *LustreJobstats) emitGroups(acc telegraf.Accumulator, now time.Time) {
	groups := make(map[group][]*watched)
	for _, w := range p.watched {
		if w.ledger != nil {
			g := group{w.fs, w.kind}
			groups[g] = append(groups[g], w)
		}
	}
	for g, parts := range groups {
		// A part that is not on disk must not be emitted: the sum waits for it.
		if !slices.ContainsFunc(parts, func(w *watched) bool { return w.unsaved }) {
			emitGroup(p.newPoints(acc, map[string]string{"fs": g.fs, "kind": g.kind}), now, parts)
		}
	}
}

func emitGroup(points *points, now time.Time, parts []*watched) {
	var ids []jobstats.SeriesID
	born := make(map[jobstats.SeriesID][]int64)
	seen := make(map[jobstats.SeriesID]bool)
	ledgers := make([]*jobstats.Ledger, 0, len(parts))
	for _, w := range parts {
		ledgers = append(ledgers, w.ledger)
		for _, m := range w.grouped {
			if m.born {
				born[m.id] = append(born[m.id], m.zero)
			}
			if !seen[m.id] {
				seen[m.id] = true
				ids = append(ids, m.id)
			}
		}
		w.grouped = nil
	}
	for _, id := range ids {
		emitSum(points, now, ledgers, id, born[id])
	}
}

// emitSum emits the sum of a series over ledgers; born are the times of the points of zeros of those that are new.
func emitSum(points *points, now time.Time, ledgers []*jobstats.Ledger, id jobstats.SeriesID, born []int64) {
	var sum jobstats.Point
	parts := 0
	for _, l := range ledgers {
		if l.Total(id, func(pt *jobstats.Point) { addPoint(&sum, pt) }) {
			parts++
		}
	}
	sum.What = jobstats.Total
	if parts > 0 && parts == len(born) {
		zeros := jobstats.Point{What: jobstats.Zeros, Time: slices.Min(born), Labels: sum.Labels, Timed: sum.Timed}
		for _, f := range sum.Fields {
			zeros.Fields = append(zeros.Fields, jobstats.Field{Name: f.Name})
		}
		points.emit(now, &zeros)
	}
	points.emit(now, &sum)
}

func addPoint(sum, pt *jobstats.Point) {
	sum.Labels = pt.Labels
	sum.Epochs += pt.Epochs
	sum.Snapshot = max(sum.Snapshot, pt.Snapshot)
	sum.Ops += pt.Ops
	sum.BusyUsecs += pt.BusyUsecs
	sum.Timed = sum.Timed || pt.Timed
	for _, f := range pt.Fields {
		i := slices.IndexFunc(sum.Fields, func(have jobstats.Field) bool { return have.Name == f.Name })
		if i < 0 {
			sum.Fields = append(sum.Fields, f)
			continue
		}
		sum.Fields[i].Value += f.Value
	}
}
