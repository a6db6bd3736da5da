package condor_q

// slot is what the ad of a slot says. Counts that are not known are absent.
type slot struct {
	state, kind, partition string
	cpus, gpus, memory     int64 // of a partitionable slot what is left of it; memory in MiB
}

// slotColumns tells where in an ad's values a slot's are.
type slotColumns struct {
	*attributes
	state, kind, cpus, gpus, memory, partition int
}

func newSlotColumns(partition string) *slotColumns {
	a := newAttributes()
	c := &slotColumns{
		attributes: a, state: a.place("State"), kind: a.place("SlotType"), cpus: a.place("Cpus"), gpus: a.place("GPUs"),
		memory: a.place("Memory"), partition: -1,
	}
	if partition != "" {
		c.partition = a.place(partition)
	}
	return c
}

func (c *slotColumns) read(a *ad) slot {
	return slot{
		state: a.text(c.state), kind: a.text(c.kind), partition: a.text(c.partition), cpus: a.count(c.cpus),
		gpus:   max(a.count(c.gpus), 0), // A slot that has none need not say so.
		memory: a.count(c.memory),
	}
}

// use tells what a slot's resources are: used, idle, or neither, where the slot takes no jobs.
type use uint8

const (
	usedBy use = iota
	idleIn
	closedIn
	uses
)

func (s *slot) use() use {
	switch {
	case s.kind == "Partitionable": // Its own resources are those that no job has.
		if s.state == "Unclaimed" || s.state == "Claimed" {
			return idleIn
		}
	case s.state == "Claimed" || s.state == "Preempting" || s.state == "Matched":
		return usedBy
	case s.state == "Unclaimed":
		return idleIn
	}
	return closedIn
}

// slotKey is a series of condor_slots.
type slotKey struct{ state, kind, partition string }

// slotSum adds up slots.
type slotSum struct {
	slots  int64
	cpus   [uses]int64
	gpus   [uses]int64
	memory [uses]int64 // MiB
}

func addSlot(sums map[slotKey]*slotSum, s *slot) {
	key := slotKey{s.state, s.kind, s.partition}
	sum := sums[key]
	if sum == nil {
		sum = new(slotSum)
		sums[key] = sum
	}
	u := s.use()
	sum.slots++
	sum.cpus[u] += max(s.cpus, 0)
	sum.gpus[u] += s.gpus
	sum.memory[u] += max(s.memory, 0)
}

func (s *slotSum) fields() map[string]any {
	return map[string]any{
		"slots":      s.slots,
		"cores_used": s.cpus[usedBy], "cores_idle": s.cpus[idleIn], "cores_closed": s.cpus[closedIn],
		"gpus_used": s.gpus[usedBy], "gpus_idle": s.gpus[idleIn], "gpus_closed": s.gpus[closedIn],
		"memory_used_bytes": s.memory[usedBy] * mebibyte, "memory_idle_bytes": s.memory[idleIn] * mebibyte,
		"memory_closed_bytes": s.memory[closedIn] * mebibyte,
	}
}
