package dashboards

func gpuBoard() board {
	return board{
		name: "gpus", title: "HPC: GPUs",
		about: "Whether GPUs are in use, why those that are idle are not while jobs wait, and whether jobs use those that they hold. From " +
			"slurm_load; from node_sensors with job_cgroups, and from stock nvidia_smi, on the nodes.",
		variables: []variable{clusterVariable(), {name: "host", label: "Host", from: "nvidia_smi", field: "utilization_gpu"}},
		rows:      []row{gpusNow(), gpusIdle(), gpusWaiting(), gpusUsed()},
	}
}

func gpusNow() row {
	of := func(v value) query { return ask("slurm_gpu", v).choose("cluster").is("by", "type").sum() }
	return row{"Now", []panel{
		stat("GPUs", "All GPUs of the cluster.", "none", of(last("GPUs", "total"))),
		stat("In use", "GPUs that jobs hold, of all.", "percentunit", of(last("in use", "used").of("total"))),
		stat("Idle and usable", "GPUs that a job could have at once: CPUs and memory are left beside them. While jobs wait for GPUs, this is what limits, "+
			"dependencies or priorities cost.", "none", of(last("idle and usable", "idle_usable"))),
		stat("Stranded", "Idle GPUs on nodes without a free CPU: jobs without GPUs have them.", "none",
			of(last("no CPU left", "idle_stranded_cpus"))).colours(step{0, green}, step{1, orange}),
		stat("Stranded (memory)", "Idle GPUs on nodes without free memory.", "none",
			of(last("no memory left", "idle_stranded_memory"))).colours(step{0, green}, step{1, orange}),
		stat("Waited for", "GPUs of a certain type that waiting tasks ask for.", "none", of(last("waited for", "pending"))),
	}}
}

func gpusIdle() row {
	states := []value{
		last("used", "used"), last("idle, usable", "idle_usable"), last("idle, no CPU left", "idle_stranded_cpus"),
		last("idle, no memory left", "idle_stranded_memory"), last("idle, reserved", "idle_reserved"),
		last("idle, drained", "idle_drained"), last("idle, down", "idle_down"),
	}
	asked := append([]value{last("GPUs", "total")}, states...)
	asked = append(asked, last("waited for", "pending"))
	return row{"Why GPUs are idle", []panel{
		stack("Where the GPUs are", "Each GPU is in one of these. Stranded ones have no CPU or no memory left beside them; reserved ones wait for a reservation.",
			"none", ask("slurm_gpu", states...).choose("cluster").is("by", "type").sum()),
		lines("Idle and usable by type", "GPUs that could run a job now, by type. Above zero while tasks wait for that type, something else holds them back: see "+
			"the reasons below.", "none", ask("slurm_gpu", last("idle", "idle_usable")).choose("cluster").is("by", "type").each("type").sum()),
		tabled("By partition and type", "What each partition's GPUs do. A node in several partitions counts in each.",
			table("slurm_gpu", asked...).choose("cluster").is("by", "partition").each("cluster", "partition", "type"),
			column{name: "idle, no CPU left", steps: warn(1, 1)}, column{name: "idle, no memory left", steps: warn(1, 1)},
			column{name: "idle, down", steps: bad()}).last("10m").most("GPUs"),
	}}
}

func gpusWaiting() row {
	return row{"What waits for GPUs", []panel{
		lines("GPUs waited for by type", "GPUs that waiting tasks ask for by this type.", "none",
			ask("slurm_gpu", last("GPUs", "pending")).choose("cluster").is("by", "type").each("type").sum()),
		lines("GPUs waited for, of any type", "GPUs that waiting tasks ask for without naming a type.", "none",
			ask("slurm_gpu", last("any type", "pending_any_type")).choose("cluster").is("by", "type").highest()),
		stack("GPUs waited for by reason", "Why tasks that want GPUs wait, in Slurm's words, weighted by their GPUs.", "none",
			ask("slurm_pending", last("GPUs", "gpus")).choose("cluster").each("reason").sum()),
		tabled("Reasons now", "Why tasks that want GPUs wait now, by partition and reason, and since when the first does.",
			table("slurm_pending", last("GPUs", "gpus"), last("tasks", "tasks"), last("longest wait", "oldest_wait_seconds")).
				choose("cluster").each("partition", "qos", "reason"),
			as("longest wait", "s")).last("10m").most("GPUs").size(12, 8),
	}}
}

func gpusUsed() row {
	of := func(v value) query { return ask("nvidia_smi", v).choose("host").each("host", "index").average() }
	return row{"Whether jobs use them", []panel{
		tabled("Jobs that hold GPUs without using them", "Jobs with GPUs on which they have no process now. Needs node_sensors with job_cgroups on the nodes.",
			table("node_job_cgroups", last("held", "gpus_allocated"), last("used", "gpus_used"), last("idle", "gpus_idle")).each("job", "host"),
			column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "job")),
			column{name: "idle", steps: []step{{0, plain}, {1, orange}}}).last("10m").most("idle").size(12, 9),
		lines("GPUs held without use", "GPUs that jobs were given and have no process on, by host.", "none",
			ask("node_job_cgroups", last("idle", "gpus_idle")).each("host").sum()).size(12, 9),
		lines("Utilization", "How much of the time a kernel ran on a GPU (stock nvidia_smi). It says nothing of how well the kernel used the GPU.", "percent",
			of(mean("utilization", "utilization_gpu"))).to(100),
		lines("Memory", "Memory of a GPU in use, of all that it has (stock nvidia_smi).", "percentunit",
			of(mean("memory", "memory_used").of("memory_total"))).to(1),
		lines("Temperature", "Of the GPU (stock nvidia_smi). Most throttle from 85 or 90 degrees on.", "celsius",
			of(highest("temperature", "temperature_gpu"))),
		tabled("Processes of jobs on GPUs", "GPUs that jobs hold or use, the processes there, and their memory. Needs node_sensors with job_cgroups.",
			table("node_job_gpu", last("held", "allocated"), last("processes", "processes"), last("memory", "memory_bytes")).
				each("host", "gpu", "job"), as("memory", "bytes")).last("10m").most("memory").size(12, 8),
	}}
}
