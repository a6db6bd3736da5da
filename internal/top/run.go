package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Screen is how top is run.
type Screen struct {
	Source Source
	Every  time.Duration
	By     Grouping
	Sort   Column
	Filter string
	// Rows is how many rows are printed where there is no terminal; 0 is all.
	Rows int
	// Once is to print one table, and no more.
	Once    bool
	In, Out *os.File
}

// Run shows the source until the context is done or somebody quits: on a terminal as a screen, else as one table after the
// other.
func (s *Screen) Run(ctx context.Context) error {
	if s.Every < 100*time.Millisecond {
		return fmt.Errorf("an interval of %s is too short: 100ms at least", s.Every)
	}
	if s.Once || !isTerminal(s.In) || !isTerminal(s.Out) {
		return s.print(ctx, s.Out)
	}
	return s.interact(ctx)
}

func (s *Screen) view() *view {
	return &view{source: s.Source.Name(), every: s.Every, by: s.By, sort: s.Sort, filter: s.Filter, width: 120, height: 24}
}

// print writes tables. The first comes when rates are known.
func (s *Screen) print(ctx context.Context, out io.Writer) error {
	v := s.view()
	for {
		snapshot, ready, err := s.Source.Sample(ctx, s.By)
		if err != nil && s.Once {
			return err
		}
		v.sampled(snapshot, ready, err)
		if ready || err != nil {
			if _, err := io.WriteString(out, v.table(s.Rows)); err != nil || s.Once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.Every):
		}
	}
}

// table gives the rows as text of any length.
func (v *view) table(most int) string {
	rows := arrange(v.shown.Rows, v.sort, v.filter)
	lines := []string{v.status(), v.sums(rows)}
	if p := v.problem(); p != "" {
		lines = append(lines, p)
	}
	lines = append(lines, v.heading())
	left := 0
	if most > 0 && len(rows) > most {
		left, rows = len(rows)-most, rows[:most]
	}
	for i := range rows {
		lines = append(lines, v.row(&rows[i]))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n\n"
}

// sample is what came of asking the source.
type sample struct {
	by       Grouping
	snapshot Snapshot
	ready    bool
	err      error
}

// interact shows the screen. Keys are answered at once, also while the source is being asked.
func (s *Screen) interact(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := openTerminal(s.In, s.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	v := s.view()
	v.width, v.height = t.size()
	asked, samples := make(chan Grouping, 1), make(chan sample, 1)
	go s.ask(ctx, asked, samples)
	asked <- v.by
	busy := true
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	again := false // Asked for once the source has answered.
	for {
		if err := t.draw(v.lines()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.resized:
			v.width, v.height = t.size()
		case keys, ok := <-t.keys:
			if !ok {
				return nil // The terminal is gone.
			}
			for _, k := range keys {
				switch v.key(k) {
				case quit:
					return nil
				case resample:
					again = true
				}
			}
		case result := <-samples:
			busy = false
			if result.by == v.by {
				v.sampled(result.snapshot, result.ready, result.err)
			}
		case <-tick.C:
			again = true
		}
		if again && !busy {
			asked <- v.by
			busy, again = true, false
		}
	}
}

// ask asks the source whenever it is told to.
func (s *Screen) ask(ctx context.Context, asked <-chan Grouping, samples chan<- sample) {
	for {
		select {
		case <-ctx.Done():
			return
		case by := <-asked:
			result := sample{by: by}
			result.snapshot, result.ready, result.err = s.Source.Sample(ctx, by)
			samples <- result // There is room: it is asked again only once this was taken.
		}
	}
}
