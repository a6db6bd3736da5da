package node_sensors

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// job is one of Slurm's on this node, with its control groups (https://slurm.schedmd.com/cgroups.html).
type job struct {
	id      string
	node    string            // Of several slurmd on one machine; "" where there is one.
	uid     int64             // -1 where the folders do not tell: those of version 2.
	folders map[string]string // By the controller of version 1; that of version 2 is "".
	steps   map[string][]int64
}

// jobKey tells jobs apart: two slurmd on one machine may run the same job.
type jobKey struct{ id, node string }

type jobs map[jobKey]*job

// groups gives the folder of the control groups.
func (h *host) groups(mountPoint string) string {
	if rest, ok := strings.CutPrefix(mountPoint, "/sys/"); ok {
		return filepath.Join(h.sys, rest)
	}
	return filepath.Join(h.mounts, mountPoint)
}

// findJobs looks for jobs in both versions: a machine may have both mounted.
func findJobs(base string) (jobs, error) {
	found := make(jobs)
	if exists(filepath.Join(base, "cgroup.controllers")) {
		return found, found.findUnified(base)
	}
	names, err := os.ReadDir(base)
	if missing(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range names {
		folder := filepath.Join(base, entry.Name())
		if exists(filepath.Join(folder, "cgroup.controllers")) {
			err = found.findUnified(folder)
		} else if entry.IsDir() { // The links lead to the same folders, such as cpuacct to cpu,cpuacct.
			for controller := range strings.SplitSeq(entry.Name(), ",") {
				if err == nil {
					err = found.findController(folder, controller)
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// findController looks for slurm/uid_1000/job_1, or slurm_NODE/..., of version 1.
func (j jobs) findController(base, controller string) error {
	return walk(base, "slurm", func(folder, node string) error {
		if node != "" && !strings.HasPrefix(node, "_") {
			return nil // Such as slurm.service.
		}
		return walk(folder, "uid_", func(folder, uid string) error {
			return walk(folder, "job_", func(folder, id string) error {
				j.put(id, strings.TrimPrefix(node, "_"), controller, folder, uid)
				return nil
			})
		})
	})
}

// scope is what the names of Slurm's folders end in with version 2.
const scope = "slurmstepd.scope"

// findUnified looks for system.slice/slurmstepd.scope/job_1, or NODE_slurmstepd.scope/..., of version 2.
func (j jobs) findUnified(base string) error {
	names, err := list(base)
	if err != nil {
		return err
	}
	for _, slice := range names {
		if !strings.HasSuffix(slice, ".slice") {
			continue
		}
		err := walk(filepath.Join(base, slice), "", func(folder, name string) error {
			node, ok := strings.CutSuffix(name, scope)
			if !ok || node != "" && !strings.HasSuffix(node, "_") {
				return nil
			}
			return walk(folder, "job_", func(folder, id string) error {
				j.put(id, strings.TrimSuffix(node, "_"), "", folder, "")
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk calls do for each folder in a folder whose name starts with a prefix, with the rest of its name. What has gone
// meanwhile is none.
func walk(folder, prefix string, do func(folder, rest string) error) error {
	entries, err := os.ReadDir(folder)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if rest, ok := strings.CutPrefix(entry.Name(), prefix); ok && entry.IsDir() {
			if err := do(filepath.Join(folder, entry.Name()), rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// put notes a folder of a job. What is no number is no job of Slurm's.
func (j jobs) put(id, node, controller, folder, uid string) {
	if _, err := strconv.ParseUint(id, 10, 32); err != nil {
		return
	}
	key := jobKey{id, node}
	if j[key] == nil {
		j[key] = &job{id: id, node: node, uid: -1, folders: make(map[string]string), steps: make(map[string][]int64)}
	}
	j[key].folders[controller] = folder
	if n, err := strconv.ParseUint(uid, 10, 32); err == nil {
		j[key].uid = int64(n)
	}
}

// sorted gives the jobs in the order of their ids.
func (j jobs) sorted() []*job {
	return slices.SortedFunc(maps.Values(j), func(a, b *job) int {
		return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id), cmp.Compare(a.node, b.node))
	})
}

// file gives the path of a file of a controller of version 1, or of version 2.
func (j *job) file(controller, name string) (string, bool) {
	folder, ok := j.folders[controller]
	return filepath.Join(folder, name), ok
}

// readSteps finds the job's processes by the step that they are of: in the first of its folders that has any.
func (j *job) readSteps() {
	for _, controller := range []string{"", "freezer", "memory", "cpuacct", "cpuset", "devices", "pids", "blkio"} {
		folder, ok := j.folders[controller]
		if !ok {
			continue
		}
		steps := make(map[string][]int64)
		found := false
		_ = walk(folder, "step_", func(folder, step string) error { // It fails where the job ends just now.
			steps[step] = processes(folder, 0)
			found = found || len(steps[step]) > 0
			return nil
		})
		if len(steps) > len(j.steps) || found {
			j.steps = steps
		}
		if found {
			return
		}
	}
}

// processes gives those below a folder. The folder slurm of version 2 has Slurm's own process, which is no part of the
// job.
func processes(folder string, depth int) []int64 {
	var all []int64
	if b, err := os.ReadFile(filepath.Join(folder, "cgroup.procs")); err == nil {
		all = parsePIDs(b)
	}
	const deepest = 8 // A container in a task has folders of its own.
	if depth == deepest {
		return all
	}
	_ = walk(folder, "", func(inner, name string) error { // It fails where the step ends just now.
		if depth > 0 || name != "slurm" {
			all = append(all, processes(inner, depth+1)...)
		}
		return nil
	})
	return all
}

// unlimited is what memory without a limit has in version 1, give or take a page.
const unlimited = math.MaxInt64 - 1<<20

// fields reads the job's figures. What one file does not tell is left out.
func (j *job) fields(r *reading) map[string]any {
	fields := map[string]any{"steps": int64(len(j.steps))}
	var n int64
	for _, pids := range j.steps {
		n += int64(len(pids))
	}
	fields["processes"] = n
	if j.uid >= 0 {
		fields["uid"] = j.uid
	}
	j.cpu(r, fields)
	j.io(r, fields)
	for _, f := range []struct{ field, v1, v2 string }{
		{"memory_bytes", "memory.usage_in_bytes", "memory.current"},
		{"memory_peak_bytes", "memory.max_usage_in_bytes", "memory.peak"},
		{"memory_limit_bytes", "memory.limit_in_bytes", "memory.max"},
	} {
		value, ok := j.number(r, "memory", f.v1)
		if !ok {
			value, ok = j.number(r, "", f.v2)
		}
		if ok && value < unlimited {
			fields[f.field] = int64(value)
		}
	}
	return fields
}

// number reads a file of one number. The word max is none.
func (j *job) number(r *reading, controller, name string) (uint64, bool) {
	b, ok := j.read(r, controller, name)
	s := strings.TrimSpace(string(b))
	if !ok || s == "max" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		r.fail(name, fmt.Errorf("job %s: %s: %w", j.id, name, err))
		return 0, false
	}
	return n, true
}

// read reads a file that may not be there.
func (j *job) read(r *reading, controller, name string) ([]byte, bool) {
	path, ok := j.file(controller, name)
	if !ok {
		return nil, false
	}
	b, err := os.ReadFile(path)
	if err != nil && !missing(err) {
		r.fail(name, fmt.Errorf("job %s: %w", j.id, err))
	}
	return b, err == nil
}

// cpu reads the job's CPU time, whatever its steps have become.
func (j *job) cpu(r *reading, fields map[string]any) {
	seconds := func(field string, n uint64, ok bool, per float64) {
		if ok {
			fields[field] = float64(n) / per
		}
	}
	if _, ok := j.folders["cpuacct"]; ok {
		all, ok := j.number(r, "cpuacct", "cpuacct.usage")
		seconds("cpu_seconds", all, ok, 1e9)
		user, ok := j.number(r, "cpuacct", "cpuacct.usage_user")
		system, both := j.number(r, "cpuacct", "cpuacct.usage_sys")
		per := 1e9
		if !ok || !both { // Before Linux 4.7.
			b, _ := j.read(r, "cpuacct", "cpuacct.stat")
			pairs := parsePairs(b)
			user, ok = pairs["user"]
			system, both = pairs["system"]
			per = 100 // USER_HZ, the same on all of Linux but for old Alphas.
		}
		seconds("cpu_user_seconds", user, ok, per)
		seconds("cpu_system_seconds", system, both, per)
		return
	}
	if b, ok := j.read(r, "", "cpu.stat"); ok {
		pairs := parsePairs(b)
		for field, key := range map[string]string{
			"cpu_seconds": "usage_usec", "cpu_user_seconds": "user_usec", "cpu_system_seconds": "system_usec",
		} {
			n, ok := pairs[key]
			seconds(field, n, ok, 1e6)
		}
	}
}

// io reads what the job moved to and from block devices: not to NFS or Lustre. Slurm makes no control groups for it with
// version 1; those that have them have them from elsewhere.
func (j *job) io(r *reading, fields map[string]any) {
	if b, ok := j.read(r, "", "io.stat"); ok {
		read, written := parseIOStat(b)
		count(fields, "io_read_bytes", read)
		count(fields, "io_write_bytes", written)
		return
	}
	for _, name := range []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"} {
		if b, ok := j.read(r, "blkio", name); ok {
			if read, written, known := parseServiceBytes(b); known {
				count(fields, "io_read_bytes", read)
				count(fields, "io_write_bytes", written)
			}
			return
		}
	}
}

// there tells whether the job has not ended meanwhile.
func (j *job) there() bool {
	for _, folder := range j.folders {
		if exists(folder) {
			return true
		}
	}
	return false
}

func (j *job) tags() map[string]string {
	tags := map[string]string{"job": j.id}
	if j.node != "" {
		tags["node"] = j.node
	}
	return tags
}

func (h *host) jobCgroups(o *JobCgroups) func(*reading) {
	gpus := newGPUs(h, o)
	return func(r *reading) {
		found, err := findJobs(h.groups(o.MountPoint))
		if err != nil {
			r.fail("", err)
			return
		}
		all := found.sorted()
		for _, j := range all {
			j.readSteps()
		}
		rows := make(map[*job]map[string]any, len(all))
		for _, j := range all {
			rows[j] = j.fields(r)
		}
		if o.GPUs && len(all) > 0 {
			gpus.measure(r, all, rows)
		}
		for _, j := range all {
			if j.there() {
				r.add(j.tags(), rows[j])
			}
		}
		if len(all) == 0 {
			r.absent = "there is no control group of a Slurm job"
		}
	}
}
