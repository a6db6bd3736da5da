package node_sensors

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/version"
)

const measurementSelf = "node_sensors_self"

// Gather measures what is due, one sensor after the other. One that fails or hangs does not keep the others from it.
func (p *NodeSensors) Gather(acc telegraf.Accumulator) error {
	now := p.now()
	measured := int64(0)
	for _, m := range p.meters {
		if !m.due(now) {
			continue
		}
		m.last = now
		if p.tell(acc, m, p.measure(m, now), now) {
			measured++
		}
	}
	fields := map[string]any{
		"sensors": measured, "errors": p.errors, "hung": int64(p.host.calls.running()),
		"gather_seconds": p.now().Sub(now).Seconds(), "version": version.String(),
	}
	acc.AddFields(measurementSelf, fields, nil, now)
	return nil
}

// due tells whether a sensor with an interval of its own is to be measured now.
func (m *meter) due(now time.Time) bool {
	// Telegraf's ticks are a little early or late.
	age := now.Sub(m.last)
	return age < 0 || age >= m.every-m.every/20
}

// measure measures a sensor, but waits no longer than the timeout.
func (p *NodeSensors) measure(m *meter, now time.Time) *reading {
	r := &reading{name: "node_" + m.name, now: now}
	answer := p.host.calls.start(m.name, func() error {
		return guard(func() { m.measure(r) })
	})
	timer := time.NewTimer(time.Duration(p.Timeout))
	defer timer.Stop()
	select {
	case err := <-answer:
		if err != nil {
			return &reading{troubles: append(troublesOf(r, err), trouble{"", err})}
		}
		return r
	case <-timer.C:
		// What it still measures goes nowhere: r is no longer ours.
		return &reading{troubles: []trouble{{"", errHung}}}
	}
}

// troublesOf gives what a measurement that was not finished says; nothing where it has not come back.
func troublesOf(r *reading, err error) []trouble {
	if errors.Is(err, errHung) {
		return nil
	}
	return r.troubles
}

// guard makes an error of a panic: the libraries that read /proc take its format for granted.
func guard(measure func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a file has another format than is expected: %v", v)
		}
	}()
	measure()
	return nil
}

// tell emits what was measured. It says whether anything was.
func (p *NodeSensors) tell(acc telegraf.Accumulator, m *meter, r *reading, now time.Time) bool {
	for i := range r.points {
		pt := &r.points[i]
		acc.AddFields(pt.measurement, pt.fields, pt.tags, now.Add(pt.shift()))
	}
	unwell := make(map[string]bool)
	for _, t := range r.troubles {
		if unwell[t.subject] {
			continue
		}
		unwell[t.subject] = true
		p.errors++
		p.said.Fail(acc, m.name+"/"+t.subject, fmt.Errorf("sensor %s: %w", m.name, t.err))
	}
	for subject := range m.troubles {
		if !unwell[subject] {
			p.said.Mend(m.name + "/" + subject)
		}
	}
	m.troubles = unwell
	// Said for good: jobs, connections and users come and go all day.
	if r.absent != "" && len(unwell) == 0 && p.said.First(m.name, r.absent) {
		p.Log.Infof("Sensor %s: %s; looking again, in silence", m.name, r.absent)
	}
	return len(r.points) > 0
}

// shift gives nanoseconds for a row that has the tags of others: the same for the same row.
func (p *point) shift() time.Duration {
	if p.id == "" {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(p.id)) // It never fails.
	return time.Duration(hash.Sum64() % uint64(time.Second))
}
