package slurm_load

import (
	"telegraf-hpc/internal/slurm"
)

// gpuUse is what becomes of a node's GPUs of one type: total = used + the idle ones.
type gpuUse struct {
	kind                                             string
	total, used                                      int64
	usable, noCPU, noMemory, reserved, drained, down int64 // idle, by why nobody has them
}

// gpuUses tells why GPUs of a node are idle. A free GPU is of use only with CPUs and memory beside it: what is left of
// them is dealt out to the free ones, in Slurm's order of types.
func gpuUses(n *slurm.Node, class nodeClass, minCPUs, minMemory int64) []gpuUse {
	if len(n.GPUs) == 0 {
		return nil
	}
	uses := make([]gpuUse, 0, len(n.GPUs))
	cpus, memory := max(n.CPUsUsable-n.CPUsUsed, 0), max(n.Memory-n.MemorySpec-n.MemoryUsed, 0)
	used := usedByKind(n)
	for i, g := range n.GPUs {
		use := gpuUse{kind: g.Type, total: g.Count, used: used[i]}
		idle := use.total - use.used
		switch class {
		case nodeDown, nodeOther:
			use.down = idle
		case nodeDrained, nodeDraining:
			use.drained = idle
		default:
			if n.State.Has("RESERVED", "MAINTENANCE") {
				use.reserved = idle
				break
			}
			withCPU := atMost(idle, cpus, minCPUs)
			use.noCPU = idle - withCPU
			use.usable = atMost(withCPU, memory, minMemory)
			use.noMemory = withCPU - use.usable
			cpus -= use.usable * minCPUs
			memory -= use.usable * minMemory
		}
		uses = append(uses, use)
	}
	return uses
}

// usedByKind gives how many GPUs of each of the node's kinds are in use. Where Slurm names the type in one of its two
// lists only, those in use are of the first kinds that have room.
func usedByKind(n *slurm.Node) []int64 {
	used := make([]int64, len(n.GPUs))
	for _, u := range n.GPUsUsed {
		left := u.Count
		take := func(i int) {
			taken := min(left, n.GPUs[i].Count-used[i])
			used[i] += taken
			left -= taken
		}
		for i, g := range n.GPUs {
			if g.Type == u.Type {
				take(i)
			}
		}
		for i := range n.GPUs {
			take(i)
		}
	}
	return used
}

// atMost gives how many of n can have each their share of what there is.
func atMost(n, there, each int64) int64 {
	if each <= 0 {
		return n
	}
	return min(n, there/each)
}

// gpuSum adds up GPUs of one type.
type gpuSum struct{ gpuUse }

func (s *gpuSum) add(g gpuUse) {
	s.total += g.total
	s.used += g.used
	s.usable += g.usable
	s.noCPU += g.noCPU
	s.noMemory += g.noMemory
	s.reserved += g.reserved
	s.drained += g.drained
	s.down += g.down
}

// addGPUs emits what GPUs there are, of all of the cluster and of each partition.
func addGPUs(o *out, nodes *nodeSums, jobs *tally) {
	if nodes == nil {
		return
	}
	addKinds(o, "", nodes.cluster.kinds, jobs)
	for partition, sum := range nodes.partitions {
		addKinds(o, partition, sum.kinds, jobs)
	}
}

func addKinds(o *out, partition string, kinds map[string]*gpuSum, jobs *tally) {
	for kind, s := range kinds {
		fields := map[string]any{
			"total": s.total, "used": s.used, "idle_usable": s.usable, "idle_stranded_cpus": s.noCPU,
			"idle_stranded_memory": s.noMemory, "idle_reserved": s.reserved, "idle_drained": s.drained, "idle_down": s.down,
		}
		if jobs != nil {
			fields["pending"] = jobs.gpus[gpuKey{partition, kind}]
			fields["pending_any_type"] = jobs.gpus[gpuKey{partition, anyKind}]
		}
		tags := map[string]string{"by": "type", "type": kind}
		if kind == "" {
			tags["type"] = "_untyped"
		}
		if partition != "" {
			tags["by"], tags["partition"] = "partition", partition
		}
		o.add("slurm_gpu", tags, fields)
	}
}
