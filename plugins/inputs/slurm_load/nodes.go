package slurm_load

import (
	"telegraf-hpc/internal/slurm"
)

// nodeClass is what a node is good for. Each node has one.
type nodeClass uint8

const (
	nodeOther       nodeClass = iota // a state that we do not know
	nodeAllocated                    // all of its CPUs are
	nodeMixed                        // some of its CPUs are
	nodeIdle                         // free, also where it is powered down until it is needed
	nodeReserved                     // free, and kept for a reservation
	nodeMaintenance                  // free, and in a reservation for maintenance
	nodeDraining                     // takes no more jobs, and still has some
	nodeDrained                      // takes no jobs, and has none
	nodeDown
	nodeClasses
)

func (c nodeClass) String() string {
	return [...]string{"other", "allocated", "mixed", "idle", "reserved", "maintenance", "draining", "drained", "down"}[c]
}

func classOf(n *slurm.Node) nodeClass {
	s := n.State
	busy := n.CPUsUsed > 0 || s.Base == "ALLOCATED" || s.Base == "MIXED" || s.Has("COMPLETING")
	switch {
	case s.Base == "DOWN" || s.Base == "ERROR" || s.Has("FAIL", "INVALID_REG"):
		return nodeDown
	case s.Has("DRAIN") && busy:
		return nodeDraining
	case s.Has("DRAIN"):
		return nodeDrained
	case s.Base == "ALLOCATED":
		return nodeAllocated
	case s.Base == "MIXED":
		return nodeMixed
	case s.Has("MAINTENANCE"):
		return nodeMaintenance
	case s.Has("RESERVED"):
		return nodeReserved
	case s.Base == "IDLE":
		return nodeIdle
	}
	return nodeOther
}

// usable tells whether the scheduler may give the node's free CPUs to jobs.
func (c nodeClass) usable() bool {
	return c != nodeDown && c != nodeDrained && c != nodeDraining && c != nodeOther
}

// capacity is how much there is of something: total = allocated + idle + other. Other is what nobody can get.
type capacity struct{ total, allocated, idle, other int64 }

// add adds a node's: what is free of usable is idle if the node takes jobs.
func (c *capacity) add(total, usable, used int64, takesJobs bool) {
	used = min(used, total)
	free := max(usable-used, 0)
	if !takesJobs {
		free = 0
	}
	c.total += total
	c.allocated += used
	c.idle += free
	c.other += total - used - free
}

func (c *capacity) set(fields map[string]any, prefix, suffix string) {
	fields[prefix+"_total"+suffix] = c.total
	fields[prefix+"_allocated"+suffix] = c.allocated
	fields[prefix+"_idle"+suffix] = c.idle
	fields[prefix+"_other"+suffix] = c.other
}

// nodeSum adds up nodes.
type nodeSum struct {
	classes                               [nodeClasses]int64
	notResponding                         int64
	poweredDown, poweringDown, poweringUp int64
	cpus, memory, gpus                    capacity
	kinds                                 map[string]*gpuSum
}

func (s *nodeSum) add(n *slurm.Node, class nodeClass, gpus []gpuUse) {
	s.classes[class]++
	usable := class.usable()
	s.cpus.add(n.CPUs, n.CPUsUsable, n.CPUsUsed, usable)
	s.memory.add(n.Memory, n.Memory-n.MemorySpec, n.MemoryUsed, usable)
	for _, g := range gpus {
		s.gpus.add(g.total, g.total, g.used, usable)
		if s.kinds == nil {
			s.kinds = make(map[string]*gpuSum)
		}
		if s.kinds[g.kind] == nil {
			s.kinds[g.kind] = new(gpuSum)
		}
		s.kinds[g.kind].add(g)
	}
	for _, flag := range n.State.Flags {
		switch flag {
		case "NOT_RESPONDING":
			s.notResponding++
		case "POWERED_DOWN":
			s.poweredDown++
		case "POWERING_DOWN":
			s.poweringDown++
		case "POWERING_UP":
			s.poweringUp++
		}
	}
}

func (s *nodeSum) set(fields map[string]any) {
	var total int64
	for class, n := range s.classes {
		fields["nodes_"+nodeClass(class).String()] = n
		total += n
	}
	fields["nodes_total"] = total
	fields["nodes_not_responding"] = s.notResponding
	fields["nodes_powered_down"] = s.poweredDown
	fields["nodes_powering_down"] = s.poweringDown
	fields["nodes_powering_up"] = s.poweringUp
	s.cpus.set(fields, "cpus", "")
	s.memory.set(fields, "memory", "_bytes")
	s.gpus.set(fields, "gpus", "")
}

// nodeSums are the sums over all nodes and over those of each partition.
type nodeSums struct {
	cluster    nodeSum
	partitions map[string]*nodeSum
}

// gatherNodes makes the one pass over the nodes. Without a sound answer it is nil.
func (p *SlurmLoad) gatherNodes(o *out) *nodeSums {
	if !p.collects("cluster", "partition", "node", "node_problem", "gpu") || !p.shown(o.acc, "nodes") {
		return nil
	}
	nodes, err := p.client.Nodes(p.ctx)
	p.fail(o.acc, "nodes", err)
	if err != nil {
		return nil
	}
	sums := &nodeSums{partitions: make(map[string]*nodeSum)}
	for i := range nodes {
		n := &nodes[i]
		if n.State.Base == "FUTURE" {
			continue // It is not there, only planned.
		}
		class := classOf(n)
		gpus := gpuUses(n, class, p.GPUMinCPUs, int64(p.GPUMinMemory))
		sums.cluster.add(n, class, gpus)
		for _, name := range n.Partitions {
			sum := sums.partitions[name]
			if sum == nil {
				sum = new(nodeSum)
				sums.partitions[name] = sum
			}
			sum.add(n, class, gpus)
		}
		if p.collects("node") {
			addNode(o, n, class)
		}
		if p.collects("node_problem") {
			addProblem(o, n, class)
		}
	}
	return sums
}

func addNode(o *out, n *slurm.Node, class nodeClass) {
	up := int64(1)
	if class == nodeDown {
		up = 0
	}
	fields := map[string]any{
		"state": n.State.String(), "class": class.String(), "up": up,
		"cpus_total": n.CPUs, "cpus_allocated": n.CPUsUsed,
		"memory_total_bytes": n.Memory, "memory_allocated_bytes": n.MemoryUsed,
	}
	if n.HasLoad {
		fields["cpu_load"] = n.CPULoad
	}
	setKnown(fields, "memory_free_bytes", n.MemoryFree)
	setTime(fields, "boot_time", n.BootTime)
	if n.Version != "" {
		fields["version"] = n.Version
	}
	if len(n.GPUs) > 0 {
		fields["gpus_total"], fields["gpus_allocated"] = countGPUs(n.GPUs), countGPUs(n.GPUsUsed)
	}
	o.add("slurm_node", map[string]string{"node": n.Name}, fields)
}

// addCluster emits the totals of what is known of nodes and jobs.
func addCluster(o *out, config *slurm.Config, nodes *nodeSums, jobs *tally) {
	fields := map[string]any{"up": int64(1), "version": config.Version}
	if nodes != nil {
		nodes.cluster.set(fields)
	}
	if jobs != nil {
		for class := slurm.JobPending; class <= slurm.JobCompleting; class++ {
			fields["jobs_"+class.String()] = jobs.jobs[class]
			fields["tasks_"+class.String()] = jobs.classes[class].tasks
		}
		other := jobs.classes[slurm.JobOther].tasks
		fields["tasks_other"] = other
		fields["cpus_pending"] = jobs.classes[slurm.JobPending].cpus
		fields["gpus_pending"] = jobs.classes[slurm.JobPending].gpus
	}
	o.add("slurm_cluster", nil, fields)
}

// gatherPartitions asks for the partitions themselves.
func (p *SlurmLoad) gatherPartitions(o *out) []slurm.Partition {
	if !p.collects("partition") || !p.shown(o.acc, "partitions") {
		return nil
	}
	partitions, err := p.client.Partitions(p.ctx)
	p.fail(o.acc, "partitions", err)
	return partitions
}

func addPartitions(o *out, partitions []slurm.Partition, nodes *nodeSums, jobs *tally) {
	for i := range partitions {
		q := &partitions[i]
		up := int64(0)
		if q.State == "UP" {
			up = 1
		}
		fields := map[string]any{"up": up, "state": q.State, "default": q.Default, "priority_tier": q.PriorityTier}
		setKnown(fields, "max_time_seconds", q.MaxTime)
		if nodes != nil {
			sum := nodes.partitions[q.Name]
			if sum == nil {
				sum = new(nodeSum)
			}
			sum.set(fields)
		}
		if jobs != nil {
			for class := slurm.JobPending; class <= slurm.JobCompleting; class++ {
				a := jobs.queue[queueKey{"partition", q.Name, class}]
				if a == nil {
					a = new(amounts)
				}
				fields["tasks_"+class.String()] = a.tasks
				if class == slurm.JobPending {
					fields["cpus_pending"], fields["gpus_pending"] = a.cpus, a.gpus
				}
			}
		}
		o.add("slurm_partition", map[string]string{"partition": q.Name}, fields)
	}
}

// addProblem emits a row for a node that is not as it should be.
func addProblem(o *out, n *slurm.Node, class nodeClass) {
	state := class.String()
	switch {
	case n.State.Has("FAIL") && n.State.Base != "DOWN":
		state = "failing"
	case class == nodeDown || class == nodeDrained || class == nodeDraining:
	case n.State.Has("NOT_RESPONDING") && !n.State.Has("POWERING_UP", "POWERED_DOWN", "POWERING_DOWN"):
		state = "not_responding"
	default:
		return
	}
	fields := map[string]any{"state": n.State.String(), "cpus_allocated": n.CPUsUsed}
	if n.Reason != "" {
		fields["reason_text"] = n.Reason
	}
	if n.ReasonUser != "" {
		fields["user"] = n.ReasonUser
	}
	setTime(fields, "since", n.ReasonSince)
	o.add("slurm_node_problem", map[string]string{
		"node": n.Name, "problem": state, "reason": string(classifyReason(n.Reason)),
	}, fields)
}

func countGPUs(gpus []slurm.GPUs) int64 {
	var n int64
	for _, g := range gpus {
		n += g.Count
	}
	return n
}
