package slurm

// Fields gives what is told of a job as slurm_job: names and values, each of them always an int64 or always a string.
// Times are seconds since 1970. What is not known is left out; so are start and end while they are estimates.
func (j *Job) Fields() map[string]any {
	fields := map[string]any{
		"job": j.DisplayID(), "job_id": j.ID, "state": string(j.State), "tasks": j.Tasks, "cpus": j.CPUs, "nodes": j.Nodes,
		"gpus": j.GPUCount(),
	}
	putAmount(fields, "memory_bytes", j.Memory)
	putAmount(fields, "limit_seconds", j.TimeLimit)
	putTime(fields, "array_job_id", j.ArrayID)
	putTime(fields, "het_job_id", j.HetID)
	putTime(fields, "submit", j.Submit)
	putTime(fields, "eligible", j.Eligible)
	if class := j.State.Class(); class != JobPending {
		putTime(fields, "start", j.Start)
		if class == JobFinished {
			putTime(fields, "end", j.End)
		}
	}
	putText(fields, "node_list", j.NodeList)
	putText(fields, "reason", j.Reason)
	return fields
}

// Fields gives what is told of a run that ended as slurm_finished: names and values, each of them always an int64, always
// a float64 or always a string. Times are seconds since 1970, efficiencies 0 to 1 of what the run had. What is not known
// is left out: a share of GPUs always, for what Slurm has of them (gres/gpuutil) is a reading, and no sum over time.
func (f *Finished) Fields() map[string]any {
	fields := map[string]any{
		"job": f.Display, "job_id": f.ID, "exit_code": f.ExitCode, "signal": f.Signal, "elapsed_seconds": f.Elapsed,
		"cpus": f.CPUs, "nodes": f.Nodes, "gpus": sumGPUs(f.GPUs),
	}
	putTime(fields, "submit", f.Submit)
	putTime(fields, "start", f.Start)
	putTime(fields, "end", f.End)
	if f.Eligible > 0 && f.Start > 0 {
		fields["wait_seconds"] = f.Wait()
	}
	putAmount(fields, "limit_seconds", f.TimeLimit)
	putAmount(fields, "memory_bytes", f.Memory)
	putAmount(fields, "memory_peak_bytes", f.MemoryPeak)
	putAmount(fields, "energy_joules", f.Energy)
	putText(fields, "node_list", f.NodeList)
	if f.CPUTime != Unknown {
		used := float64(f.CPUTime) / 1e6
		fields["cpu_used_seconds"] = used
		if had := f.Elapsed * f.CPUs; had > 0 {
			fields["cpu_efficiency"] = used / float64(had)
		}
	}
	if f.MemoryPeak != Unknown && f.Memory > 0 {
		fields["memory_efficiency"] = float64(f.MemoryPeak) / float64(f.Memory)
	}
	return fields
}

// Wait gives how long a run waited for its turn, in seconds; 0 where it had none.
func (f *Finished) Wait() int64 {
	if f.Eligible <= 0 || f.Start < f.Eligible {
		return 0
	}
	return f.Start - f.Eligible
}

// putAmount sets a field, but for Unknown and Unlimited.
func putAmount(fields map[string]any, name string, v int64) {
	if v >= 0 {
		fields[name] = v
	}
}

// putTime sets a field, but for 0, which is no time and no id.
func putTime(fields map[string]any, name string, v int64) {
	if v > 0 {
		fields[name] = v
	}
}

func putText(fields map[string]any, name, text string) {
	if text != "" {
		fields[name] = text
	}
}
