package lustre_jobs

// window is the time whose rates are emitted next. It ends an interval before they are: by then what the servers
// gathered up to its end has come from all of them, so that the rates of all servers, and the shares made of them, are of
// the same time.
type window struct{ start, edge int64 }

// rate notes that a series grew by l.grown from since until until, evenly: as much of it as is of the window goes to the
// window's rates, and what is after it to those of the next.
func (l *ledger) rate(s *series, since, until int64) {
	if until <= since || len(l.grown) == 0 {
		return
	}
	span := float64(until - since)
	now := float64(min(until, l.window.edge)-max(since, l.window.start)) / span
	later := float64(until-max(since, l.window.edge)) / span
	if now <= 0 && later <= 0 {
		l.stats.stale++
		return
	}
	if now > 0 {
		s.cur = l.addRates(s.cur, now)
	}
	if later > 0 {
		s.nxt = l.addRates(s.nxt, later)
	}
	if s.marks&markActive == 0 {
		s.marks |= markActive
		l.active = append(l.active, s)
	}
}

// addRates adds a part of l.grown.
func (l *ledger) addRates(to []float64, part float64) []float64 {
	if n := l.fields.len(); len(to) < n {
		to = append(make([]float64, 0, n), to...)[:n]
	}
	for _, g := range l.grown {
		to[g.field] += float64(g.by) * part
	}
	return to
}

// closeWindow ends the window at edge, or later if moments were missed, and gives how long it was, in seconds. What is in
// s.cur of the active series is what they did in it.
func (l *ledger) closeWindow(edge int64) (seconds float64) {
	if edge > l.window.edge {
		for _, s := range l.active {
			s.cur, s.nxt = addFloats(s.cur, s.nxt), nil
		}
		l.window.edge = edge
	}
	return float64(l.window.edge-l.window.start) / 1e9
}

func addFloats(a, b []float64) []float64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	for i, v := range b {
		a[i] += v
	}
	return a
}

// nextWindow begins the window up to edge.
func (l *ledger) nextWindow(edge int64) {
	kept := l.active[:0]
	for _, s := range l.active {
		if s.cur, s.nxt = s.nxt, nil; s.cur == nil {
			s.marks &^= markActive
			continue
		}
		kept = append(kept, s)
	}
	clear(l.active[len(kept):])
	l.active = kept
	l.window = window{min(l.window.edge, edge), edge} // The clock may have been set back.
}
