package execd

import (
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/models"
)

// lineProcessor is a processor that reads lines of its own itself, and leaves alone what it does not take. It is asked in
// place of its Add where it is the only one, and its table has no filters.
type lineProcessor interface {
	// AddLine takes a line as it came, without its newline, and does not keep it. It tells whether it did: any other line
	// is parsed.
	AddLine(line []byte) bool
	// Take reads a metric. It tells whether it has taken it: any other passes on as the bytes that it came as.
	Take(m telegraf.Metric) bool
}

// processorChain is the tables of a processor plugin, each of which works on what the one before it gives.
type processorChain struct {
	program *program
	chain   []*models.RunningProcessor
	accs    []*accumulator // What each hands its metrics to.
	lines   *lines
	direct  lineProcessor // Nil where there is none.
}

func (p *program) newChain(chain []*models.RunningProcessor) *processorChain {
	c := &processorChain{program: p, chain: chain, accs: make([]*accumulator, len(chain))}
	c.lines = p.newLines(chain[0].Log())
	if direct, ok := chain[0].Processor.(lineProcessor); ok && len(chain) == 1 && !chain[0].Config.Filter.IsActive() {
		c.direct = direct
	}
	next := c.lines.add
	for i := len(chain) - 1; i >= 0; i-- {
		c.accs[i] = newAccumulator(chain[i].Log(), next)
		next = func(m telegraf.Metric, _ bool) { c.give(i, m) }
	}
	return c
}

// give hands m to processor i, which passes it on itself if its filters do not take it.
func (c *processorChain) give(i int, m telegraf.Metric) {
	if err := c.chain[i].Add(m, c.accs[i]); err != nil {
		c.chain[i].Log().Errorf("Metric %q: %v", m.Name(), err)
	}
}

// process hands the metric to the first processor that takes it. A line that none takes passes on as it came.
func (c *processorChain) process(line []byte, m telegraf.Metric) {
	if c.direct != nil {
		if !c.direct.Take(m) {
			c.lines.addRaw(line)
		}
		return
	}
	for i, rp := range c.chain {
		if ok, err := rp.Config.Filter.Select(m); ok || err != nil {
			c.give(i, m)
			return
		}
	}
	c.lines.addRaw(line)
}

func (p *program) runProcessors(chain []*models.RunningProcessor) int {
	c := p.newChain(chain)
	// From the last to the first, because a start may already emit.
	for i := len(chain) - 1; i >= 0; i-- {
		var err error
		p.guard(func() { err = chain[i].Start(c.accs[i]) })
		if err != nil {
			p.logs.errorf("starting %s: %v", chain[i].LogName(), err)
			return exitFailed
		}
	}
	p.setUndone(func() string { return "lines of standard input may be lost" })
	r, err := p.newReader()
	if err != nil {
		p.logs.errorf("making the parser: %v", err)
		return exitFailed
	}
	if c.direct != nil {
		r.take = c.direct.AddLine
	}
	p.guard(func() {
		for open := true; open; open, _ = r.more(nil) {
			c.lines.hold()
			for line, m := r.next(); m != nil; line, m = r.next() {
				c.process(line, m)
			}
			c.lines.flush()
		}
		for _, rp := range chain {
			rp.Stop()
		}
	})
	c.lines.flush()
	return p.exitStatus()
}
