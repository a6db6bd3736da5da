package condor_q

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/statefile"
)

const (
	// forgetAfter is how long a schedd that the collector names no more is told of as one that is not up.
	forgetAfter = 24 * time.Hour
	// localLife is how long it is believed that this host has no schedd.
	localLife = 10 * time.Minute
)

// pool is a collector, and the schedds that it names.
type pool struct {
	address string // "" is the one that HTCondor is configured for
	tag     string
	local   string    // the name of this host's schedd; "" where there is none, or in other pools
	looked  time.Time // for it
	schedds map[string]*schedd

	shownSlots series.Fading[slotKey]
}

// schedd is what is remembered of a schedd from gather to gather.
type schedd struct {
	name   string
	listed time.Time // when the collector named it last; zero where only the options do

	shownUsers series.Fading[userKey]
	shownHolds series.Fading[int64]

	state   statefile.File
	opened  bool
	cursor  cursor  // what is known to have left
	pending *cursor // what has left if the gather was not cut off
}

// failure is what could not be done, by subject; without an error the subject is well.
type failure struct {
	subject string
	err     error
}

// poolAnswer is what was asked of a pool in one gather.
type poolAnswer struct {
	*pool
	absent   bool // there is no HTCondor on this host
	up       bool // its collector answers
	fails    []failure
	schedds  []*scheddAnswer
	slots    map[slotKey]*slotSum // nil where unknown
	managers []named
	prios    []priority
}

// named are the numbers of a daemon.
type named struct {
	name   string
	fields map[string]any
}

// scheddAnswer is what was asked of a schedd in one gather.
type scheddAnswer struct {
	*schedd
	fails    []failure
	numbers  map[string]any // of its ad; nil where the collector has none
	asked    bool
	up       bool
	tally    *jobTally     // nil where unknown
	queues   []*queueTally // in the order of the option; nil where unknown
	finished []finishedJob
}

func (a *poolAnswer) note(subject string, err error) error {
	a.fails = append(a.fails, failure{subject, err})
	return err
}

func (a *scheddAnswer) note(subject string, err error) error {
	if err != nil {
		err = fmt.Errorf("schedd %q: %w", a.name, err)
	}
	a.fails = append(a.fails, failure{"schedd " + a.name + " " + subject, err})
	return err
}

// askPool asks a pool's collector for its schedds, and then those, and at the same time the collector for the rest.
func (p *CondorQ) askPool(pool *pool, now time.Time, details jobDetail) *poolAnswer {
	answer := &poolAnswer{pool: pool}
	if err := p.know(pool, now); err != nil {
		if isMissing(err) {
			answer.absent = true
		} else {
			_ = answer.note("pool", err)
		}
		return answer
	}
	schedds, err := p.scheddAds(pool)
	answer.up = err == nil
	if isMissing(err) {
		answer.absent = true
		return answer
	}
	_ = answer.note("collector", err)
	answer.schedds = p.choose(answer, schedds, now)
	work := make([]func(), 0, len(answer.schedds)+1)
	if answer.up {
		work = append(work, func() { p.askCollector(answer) })
	}
	for _, s := range answer.schedds {
		if s.asked {
			work = append(work, func() { p.askSchedd(pool, s, details) })
		}
	}
	p.parallel(work)
	return answer
}

// know finds out what seldom changes: the pool's name, and whether this host has a schedd.
func (p *CondorQ) know(pool *pool, now time.Time) error {
	if pool.tag == "" {
		text, err := p.read("condor_config_val", "COLLECTOR_HOST")
		if err != nil {
			return err
		}
		if pool.tag = hostOf(text); pool.tag == "" {
			return errors.New("condor_config_val: HTCondor is configured for no pool: COLLECTOR_HOST is empty")
		}
	}
	if age := now.Sub(pool.looked); pool.address != "" || pool.local != "" || age >= 0 && age < localLife {
		return nil
	}
	pool.looked = now
	pool.local = p.localSchedd()
	return nil
}

// hostOf gives the first host of a COLLECTOR_HOST such as cm.example.org:9618?sock=collector,other.example.org.
func hostOf(text string) string {
	first := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	if len(first) == 0 {
		return ""
	}
	host, _, _ := strings.Cut(first[0], "?")
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host = host[:at]
	}
	return host
}

// localSchedd gives the name of this host's schedd, from the ad that it leaves in a file; "" without one. This schedd is
// asked without its name, which works without a collector, too.
func (p *CondorQ) localSchedd() string {
	path, err := p.read("condor_config_val", "SCHEDD_DAEMON_AD_FILE")
	if err != nil {
		return "" // This HTCondor is not configured for a schedd.
	}
	attributes := newAttributes("Name")
	name := ""
	err = p.ask(func(r io.Reader) error {
		return parseAds(r, attributes, func(a *ad) error {
			name = a.text(0)
			return nil
		})
	}, "condor_status", "-schedd", "-ads", strings.TrimSpace(path), "-json", "-attributes", "Name")
	if err != nil {
		return ""
	}
	return name
}

// scheddAds asks the collector for its schedds.
func (p *CondorQ) scheddAds(pool *pool) ([]named, error) {
	return p.daemons(pool, "-schedd", scheddNumbers())
}

// daemons asks the collector for daemons of a kind.
func (p *CondorQ) daemons(pool *pool, kind string, columns []numberColumn) ([]named, error) {
	attributes := newAttributes("Name")
	numbers := newNumberColumns(attributes, columns)
	var found []named
	err := p.askIn(pool, func(r io.Reader) error {
		return parseAds(r, attributes, func(a *ad) error {
			if name := a.text(0); name != "" {
				found = append(found, named{name, numbers.read(a)})
			}
			return nil
		})
	}, "condor_status", kind, "-json", "-attributes", attributes.list())
	return found, err
}

// choose gives the schedds to tell of, and which of them to ask.
func (p *CondorQ) choose(answer *poolAnswer, ads []named, now time.Time) []*scheddAnswer {
	pool := answer.pool
	numbers := make(map[string]map[string]any, len(ads))
	for _, ad := range ads {
		numbers[ad.name] = ad.fields
	}
	names := p.scheddNames(answer, numbers, now)
	chosen := make([]*scheddAnswer, 0, len(names))
	for _, name := range names {
		s := pool.schedds[name]
		if s == nil {
			s = &schedd{name: name}
			pool.schedds[name] = s
		}
		a := &scheddAnswer{schedd: s, numbers: numbers[name]}
		switch {
		case a.numbers != nil:
			s.listed, a.asked = now, true
		case name == pool.local:
			a.asked = true
		case answer.up:
			_ = a.note("", errors.New("the collector does not know it"))
		}
		chosen = append(chosen, a)
	}
	return chosen
}

// scheddNames gives the schedds that options ask for, or those that the collector names or named not long ago.
func (p *CondorQ) scheddNames(answer *poolAnswer, listed map[string]map[string]any, now time.Time) []string {
	pool := answer.pool
	if len(p.Schedds) > 0 {
		names := make([]string, 0, len(p.Schedds))
		for _, name := range p.Schedds {
			if name == local {
				name = pool.local
			}
			if name == "" {
				_ = answer.note("local", errors.New(`option schedds: "local": there is no schedd on this host`))
				continue
			}
			_ = answer.note("local", nil)
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names
	}
	names := slices.Collect(maps.Keys(listed))
	for name, s := range pool.schedds {
		if listed[name] != nil {
			continue
		}
		if age := now.Sub(s.listed); name != pool.local && (age > forgetAfter || age < 0) {
			p.forget(s)
			delete(pool.schedds, name)
			continue
		}
		names = append(names, name)
	}
	if pool.local != "" && !slices.Contains(names, pool.local) {
		names = append(names, pool.local)
	}
	slices.Sort(names)
	return names
}

// askCollector asks for what is not of a schedd.
func (p *CondorQ) askCollector(answer *poolAnswer) {
	pool := answer.pool
	if p.collects("slots") {
		slots, err := p.slotAds(pool)
		if answer.note("slots", err) == nil {
			answer.slots = slots
		}
	}
	if p.collects("negotiator") {
		managers, err := p.daemons(pool, "-negotiator", negotiatorNumbers())
		if answer.note("negotiator", err) == nil {
			answer.managers = managers
		}
	}
	if p.collects("userprio") {
		prios, err := p.priorities(pool)
		if answer.note("userprio", err) == nil {
			answer.prios = prios
		}
	}
}

func (p *CondorQ) slotAds(pool *pool) (map[slotKey]*slotSum, error) {
	columns := newSlotColumns(p.PartitionAttribute)
	sums := make(map[slotKey]*slotSum)
	err := p.askIn(pool, func(r io.Reader) error {
		return parseAds(r, columns.attributes, func(a *ad) error {
			s := columns.read(a)
			addSlot(sums, &s)
			return nil
		})
	}, "condor_status", "-json", "-attributes", columns.list())
	return sums, err
}

func (p *CondorQ) priorities(pool *pool) (rows []priority, err error) {
	err = p.askIn(pool, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		rows, err = parseUserprio(text)
		return err
	}, "condor_userprio", append([]string{"-af"}, userprioColumns()...)...)
	return rows, err
}

// forget lets go of a schedd.
func (p *CondorQ) forget(s *schedd) {
	if err := s.state.Close(); err != nil {
		p.Log.Errorf("Closing the state of schedd %q: %v", s.name, err)
	}
}
