package node_sensors

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"telegraf-hpc/internal/command"
)

// gpus finds out which GPUs jobs were given, and which they use.
type gpus struct {
	h     *host
	o     *JobCgroups
	index map[string]string // Of each GPU by its UUID, as nvidia-smi told it last.
}

func newGPUs(h *host, o *JobCgroups) *gpus {
	if h.command == nil {
		h.command = (&command.Runner{Timeout: time.Duration(o.Timeout)}).Run
	}
	return &gpus{h: h, o: o}
}

// allocation is what a job was given on this node.
type allocation struct {
	known bool
	count int
	ids   []string // As nvidia-smi numbers them; none where they are numbered within the job.
}

// held is what a job has on one GPU.
type held struct {
	processes int64
	memory    int64 // Bytes, -1 where one process's is not known.
}

// measure adds to the jobs' rows how many GPUs they were given and use, and a row for each GPU.
func (g *gpus) measure(r *reading, all []*job, rows map[*job]map[string]any) {
	given := make(map[*job]allocation, len(all))
	anyGPU := false
	for _, j := range all {
		given[j] = g.allocated(j)
		anyGPU = anyGPU || given[j].count > 0
	}
	used, known := g.used(r, all, anyGPU)
	for _, j := range all {
		a := given[j]
		if a.known {
			rows[j]["gpus_allocated"] = int64(a.count)
		}
		if known {
			rows[j]["gpus_used"] = int64(len(used[j]))
			if a.known {
				rows[j]["gpus_idle"] = idle(a, used[j])
			}
		}
		if j.there() {
			addGPUs(r, j, a, used[j], known)
		}
	}
}

// idle counts the GPUs that were given and that no process of the job uses.
func idle(a allocation, used map[string]*held) int64 {
	if len(a.ids) == 0 {
		return int64(max(0, a.count-len(used)))
	}
	var n int64
	for _, id := range a.ids {
		if used[id] == nil {
			n++
		}
	}
	return n
}

// addGPUs tells of each GPU that a job was given or uses.
func addGPUs(r *reading, j *job, a allocation, used map[string]*held, known bool) {
	ids := slices.AppendSeq(slices.Clone(a.ids), maps.Keys(used))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		fields := make(map[string]any)
		if a.known && (len(a.ids) > 0 || a.count == 0) {
			fields["allocated"] = yes(slices.Contains(a.ids, id))
		}
		if known {
			use := used[id]
			if use == nil {
				use = new(held)
			}
			fields["processes"] = use.processes
			if use.memory >= 0 {
				fields["memory_bytes"] = use.memory
			}
		}
		tags := j.tags()
		tags["gpu"] = id
		r.addTo("node_job_gpu", tags, fields)
	}
}

// Slurm's variables (srun(1), sbatch(1)). The first is of the job's GPUs on the node where its script runs, and is passed
// on to other nodes, where it means nothing; the second is of a step's GPUs on the process's own node. Both are numbered
// by the node, unlike the third where Slurm confines devices.
const (
	jobGPUs     = "SLURM_JOB_GPUS"
	stepGPUs    = "SLURM_STEP_GPUS"
	visibleGPUs = "CUDA_VISIBLE_DEVICES"
)

// mostEnvirons is how many processes of a step are looked at: as a rule all have the same.
const mostEnvirons = 16

// allocated finds the GPUs that a job was given: in the environment of its processes, which root may read, else in the
// list of devices of version 1.
func (g *gpus) allocated(j *job) allocation {
	var ids []string
	visible := 0
	known := false
	for _, step := range slices.Sorted(maps.Keys(j.steps)) {
		isScript := step == "batch" || step == "interactive"
		for i, pid := range j.steps[step] {
			if i == mostEnvirons {
				break
			}
			b, err := os.ReadFile(filepath.Join(g.h.proc, strconv.FormatInt(pid, 10), "environ"))
			if err != nil || len(b) == 0 {
				continue
			}
			values := variables(b, jobGPUs, stepGPUs, visibleGPUs)
			known = known || isScript
			visible = max(visible, len(parseGPUList(values[visibleGPUs])))
			if found := parseGPUList(values[map[bool]string{true: jobGPUs, false: stepGPUs}[isScript]]); len(found) > 0 {
				ids = append(ids, found...)
				break
			}
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > 0 {
		return allocation{known: true, count: len(ids), ids: ids}
	}
	if path, ok := j.file("devices", "devices.list"); ok {
		if b, err := os.ReadFile(path); err == nil {
			if ids, ok := parseDevices(b); ok {
				return allocation{known: true, count: len(ids), ids: ids}
			}
		}
	}
	return allocation{known: known || visible > 0, count: visible}
}

// used asks nvidia-smi which processes use which GPU. A machine without that command has no such GPUs, unless Slurm gave
// some away.
func (g *gpus) used(r *reading, all []*job, anyGPU bool) (map[*job]map[string]*held, bool) {
	uses, err := g.ask()
	if errors.Is(err, command.ErrNotFound) && !anyGPU {
		return nil, false
	}
	if err != nil {
		r.fail("nvidia_smi", err)
		return nil, false
	}
	owner := make(map[int64]*job)
	for _, j := range all {
		for _, pids := range j.steps {
			for _, pid := range pids {
				owner[pid] = j
			}
		}
	}
	used := make(map[*job]map[string]*held)
	for _, u := range uses {
		j := owner[u.pid]
		if j == nil || u.pid == 0 {
			continue
		}
		if used[j] == nil {
			used[j] = make(map[string]*held)
		}
		id := u.gpu
		if index, ok := g.index[u.gpu]; ok {
			id = index
		}
		if used[j][id] == nil {
			used[j][id] = new(held)
		}
		used[j][id].add(u)
	}
	return used, true
}

func (t *held) add(u use) {
	t.processes++
	if u.memory < 0 || t.memory < 0 {
		t.memory = -1
		return
	}
	t.memory += u.memory
}

// ask gives what processes use. It asks for the GPUs' numbers, too, when it meets one that it does not know.
func (g *gpus) ask() ([]use, error) {
	result, err := g.h.command(g.h.ctx, g.o.NvidiaSMI, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	uses, err := parseUses(result.Stdout)
	if err != nil {
		return nil, fmt.Errorf("%s: processes: %w", g.o.NvidiaSMI, err)
	}
	if slices.ContainsFunc(uses, func(u use) bool { return g.index[u.gpu] == "" }) {
		if result, err = g.h.command(g.h.ctx, g.o.NvidiaSMI, "--query-gpu=index,uuid", "--format=csv,noheader"); err != nil {
			return nil, err
		}
		if g.index, err = parseGPUs(result.Stdout); err != nil {
			return nil, fmt.Errorf("%s: GPUs: %w", g.o.NvidiaSMI, err)
		}
	}
	return uses, nil
}
