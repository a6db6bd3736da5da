package dashboards

func clusterVariable() variable {
	return variable{name: "cluster", label: "Cluster", from: "slurm_cluster", field: "up"}
}

func clusterBoard() board {
	return board{
		name: "cluster", title: "HPC: cluster (Slurm)",
		about:     "What a Slurm cluster has, what is in use, what is broken, and how its controller does. From slurm_load.",
		variables: []variable{clusterVariable()},
		rows:      []row{clusterNow(), clusterNodes(), clusterCapacity(), clusterPartitions(), clusterScheduler(), clusterRest()},
	}
}

func clusterNow() row {
	of := func(values ...value) query { return ask("slurm_cluster", values...).choose("cluster").sum() }
	return row{"Now", []panel{
		stat("slurmctld", "Whether slurmctld answers. Of several clusters, the worst.", "none",
			ask("slurm_cluster", last("up", "up")).choose("cluster").lowest()).means(upDown()...),
		stat("Nodes down", "Nodes in state DOWN. They run nothing until an administrator acts.", "none",
			of(last("nodes down", "nodes_down"))).colours(bad()...),
		stat("Nodes drained", "Nodes that an administrator or a health check took out, and that have no jobs left.", "none",
			of(last("nodes drained", "nodes_drained"))).colours(step{0, green}, step{1, yellow}),
		stat("CPUs in use", "Allocated CPUs of all, those of nodes that are down too.", "percentunit",
			of(last("CPUs in use", "cpus_allocated").of("cpus_total"))),
		stat("Tasks running", "Jobs that run, where each task of an array is one.", "none", of(last("running", "tasks_running"))),
		stat("Tasks waiting", "Jobs that wait, where each task of an array is one.", "none", of(last("waiting", "tasks_pending"))),
	}}
}

func clusterNodes() row {
	return row{"Nodes", []panel{
		stack("Nodes by state", "Each node is in one of these states. Draining ones still have jobs.", "none",
			ask("slurm_cluster", last("allocated", "nodes_allocated"), last("mixed", "nodes_mixed"), last("idle", "nodes_idle"),
				last("reserved", "nodes_reserved"), last("maintenance", "nodes_maintenance"), last("draining", "nodes_draining"),
				last("drained", "nodes_drained"), last("down", "nodes_down"), last("other", "nodes_other")).choose("cluster").sum()),
		lines("Nodes with problems by reason", "Nodes that are down, drained, draining, failing or not responding, by the class of their reason.",
			"none", ask("slurm_node_problem", last("nodes", "cpus_allocated")).choose("cluster").each("reason").number().
				beside("node", "problem")),
		tabled("What is broken", "Nodes that are down, drained, draining, failing or not responding now, why, and since when.",
			table("slurm_node_problem", last("state", "state"), last("reason given", "reason_text"), last("by", "user"),
				last("since", "since").times(1000), last("CPUs still in use", "cpus_allocated")).
				choose("cluster").each("cluster", "node", "problem", "reason"),
			as("since", "dateTimeFromNow"), as("CPUs still in use", "none")).last("10m").most("since"),
	}}
}

func clusterCapacity() row {
	of := func(values ...value) query { return ask("slurm_cluster", values...).choose("cluster").sum() }
	return row{"Capacity", []panel{
		stack("CPUs", "CPUs in use, idle, and of nodes that can't be used (down, drained, set aside).", "none",
			of(last("allocated", "cpus_allocated"), last("idle", "cpus_idle"), last("not usable", "cpus_other"))),
		stack("Memory", "Memory that is allocated to jobs, idle, and of nodes that can't be used.", "bytes",
			of(last("allocated", "memory_allocated_bytes"), last("idle", "memory_idle_bytes"), last("not usable", "memory_other_bytes"))),
		stack("GPUs", "GPUs in use, idle, and of nodes that can't be used. The dashboard of GPUs tells why they are idle.", "none",
			of(last("allocated", "gpus_allocated"), last("idle", "gpus_idle"), last("not usable", "gpus_other"))),
		lines("What waits", "CPUs and GPUs that waiting tasks ask for.", "none",
			of(last("CPUs", "cpus_pending"), last("GPUs", "gpus_pending"))),
	}}
}

func clusterPartitions() row {
	return row{"Partitions", []panel{
		lines("CPUs in use by partition", "Allocated CPUs. A node in several partitions counts in each.", "none",
			ask("slurm_partition", last("CPUs", "cpus_allocated")).choose("cluster").each("partition").sum()),
		lines("Tasks waiting by partition", "Waiting tasks, in each partition that they may run in.", "none",
			ask("slurm_partition", last("tasks", "tasks_pending")).choose("cluster").each("partition").sum()),
		tabled("Partitions now", "What each partition has and what of it is in use. What is in several partitions counts in each.",
			table("slurm_partition", last("state", "state"), last("nodes", "nodes_total"), last("nodes down", "nodes_down"),
				last("CPUs", "cpus_total"), last("CPUs in use", "cpus_allocated").of("cpus_total"), last("GPUs", "gpus_total"),
				last("GPUs in use", "gpus_allocated"), last("running", "tasks_running"), last("waiting", "tasks_pending")).
				choose("cluster").each("cluster", "partition"),
			share("CPUs in use"), column{name: "nodes down", steps: bad()}).last("10m").most("CPUs"),
	}}
}

func clusterScheduler() row {
	of := func(values ...value) query {
		return ask("slurm_scheduler", values...).choose("cluster").each("cluster")
	}
	return row{"Controller", []panel{
		lines("Cycles of the schedulers", "How long the latest cycle of the main and of the backfill scheduler took. slurmctld answers slowly meanwhile.",
			"µs", of(last("main", "main_last_cycle_usecs"), last("backfill", "backfill_last_cycle_usecs"))),
		lines("Queues of slurmctld", "What waits inside slurmctld. Growing numbers are messages that nodes or slurmdbd do not take.", "none",
			of(highest("threads", "server_thread_count"), highest("messages to nodes", "agent_queue_size"),
				highest("for slurmdbd", "dbd_agent_queue_size"))),
		lines("Requests by type", "What slurmctld is asked, by the message's type. Many of one kind are often a script in a loop.", "reqps",
			ask("slurm_rpc", perSecond("requests", "count")).choose("cluster").each("rpc").sum()),
		lines("Jobs", "Jobs a second that were submitted, started, and ended, as the controller counts.", "suffix: jobs/s",
			of(perSecond("submitted", "jobs_submitted"), perSecond("started", "jobs_started"), perSecond("completed", "jobs_completed"),
				perSecond("failed", "jobs_failed"))),
		lines("Depth of backfill", "Jobs that the latest backfill cycle looked at, and how many there were.", "none",
			of(last("looked at", "backfill_last_depth_cycle"), last("in the queue", "backfill_last_queue_length"))),
		lines("Time of requests by type", "Share of a second that slurmctld spends on requests, by their type.", "percentunit",
			ask("slurm_rpc", perSecond("busy", "usecs").times(0.000001)).choose("cluster").each("rpc").sum()),
	}}
}

func clusterRest() row {
	return row{"Reservations and licenses", []panel{
		tabled("Reservations", "Reservations that there are, and whether they hold now.",
			table("slurm_reservation", last("active", "active"), last("nodes", "nodes"), last("start", "start").times(1000),
				last("end", "end").times(1000), last("users", "users"), last("accounts", "accounts"), last("flags", "flags"),
				last("node list", "node_list")).choose("cluster").each("cluster", "reservation"),
			as("start", "dateTimeAsIso"), as("end", "dateTimeAsIso")).last("10m").size(12, 8),
		lines("Licenses in use", "Licenses that jobs hold, by license.", "none",
			ask("slurm_license", last("used", "used")).choose("cluster").each("license").sum()).size(6, 8),
		lines("Licenses asked for", "Licenses that waiting tasks ask for, by license.", "none",
			ask("slurm_license", last("pending", "pending")).choose("cluster").each("license").sum()).size(6, 8),
	}}
}

func slurmJobsBoard() board {
	return board{
		name: "slurm-jobs", title: "HPC: jobs and queues (Slurm)",
		about: "Who runs what, who waits and why, how long, and what ended how. From slurm_load; lists of jobs need its option collect to " +
			"have \"job\" and \"finished\".",
		variables: []variable{
			clusterVariable(),
			{name: "partition", label: "Partition", from: "slurm_partition", field: "up", where: []condition{{"cluster", matches, "$cluster"}}},
			{name: "account", label: "Account", from: "slurm_queue", field: "tasks", where: []condition{{"cluster", matches, "$cluster"}, {"by", equal, "account"}}},
			{name: "user", label: "User", from: "slurm_queue", field: "tasks", where: []condition{{"cluster", matches, "$cluster"}, {"by", equal, "user"}}},
		},
		rows: []row{slurmQueue(), slurmWaits(), slurmEnded(), slurmLists()},
	}
}

func slurmQueue() row {
	of := func(tag, state, field string) query {
		return ask("slurm_queue", last(field, field)).choose("cluster", tag).is("by", tag).is("state", state).each(tag).sum()
	}
	to := toBoard("Jobs of the user", "slurm-jobs", "user").with("cluster", "$cluster")
	return row{"Queue", []panel{
		stack("CPUs in use by partition", "CPUs of running tasks.", "none", of("partition", "running", "cpus")),
		stack("CPUs in use by account", "CPUs of running tasks.", "none", of("account", "running", "cpus")),
		stack("Tasks waiting by partition", "Waiting tasks. One that may run in several partitions counts in each.", "none",
			of("partition", "pending", "tasks")),
		stack("CPUs that accounts wait for", "CPUs that waiting tasks ask for.", "none", of("account", "pending", "cpus")),
		tabled("Users now: running", "What users run now.",
			table("slurm_queue", last("tasks", "tasks"), last("CPUs", "cpus"), last("GPUs", "gpus"), last("nodes", "nodes"),
				last("memory", "memory_bytes")).choose("cluster", "user").is("by", "user").is("state", "running").each("user").sum(),
			column{name: "user"}.leads(to), as("memory", "bytes")).last("10m").most("CPUs").size(12, 9),
		tabled("Users now: waiting", "What users wait for now.",
			table("slurm_queue", last("tasks", "tasks"), last("CPUs", "cpus"), last("GPUs", "gpus"), last("nodes", "nodes")).
				choose("cluster", "user").is("by", "user").is("state", "pending").each("user").sum(),
			column{name: "user"}.leads(to)).last("10m").most("CPUs").size(12, 9),
	}}
}

func slurmWaits() row {
	return row{"Waiting", []panel{
		stack("Tasks waiting by reason", "Why tasks wait, in Slurm's words. Priority and Resources are a full cluster; the others are limits, holds and dependencies.",
			"none", ask("slurm_pending", last("tasks", "tasks")).choose("cluster", "partition").each("reason").sum()),
		lines("Longest wait by partition", "Since the task that waits longest became eligible.", "s",
			ask("slurm_pending", highest("wait", "oldest_wait_seconds")).choose("cluster", "partition").each("partition").highest()),
		lines("Mean wait of tasks that started", "From when they became eligible until they started, of those that started in a step of time.", "s",
			ask("slurm_wait", increase("wait", "sum").of("count")).choose("cluster", "partition", "account").is("state", "started").
				each("partition").sum().onlyWith("count")),
		tabled("Tasks that wait, by how long", "How many of the tasks that wait now have waited so long at most.",
			table("slurm_wait", last("tasks", "bucket")).choose("cluster", "partition", "account").is("state", "pending").
				not("le", "+Inf").each("le").sum(), column{name: "le", unit: "s", count: true}).last("10m").size(12, 8),
	}}
}

func slurmEnded() row {
	of := func(v value, by string) query {
		return ask("slurm_finished_total", v).choose("cluster", "partition", "account").each(by).sum()
	}
	return row{"What ended", []panel{
		stack("Runs by how they ended", "Jobs that ended in a step of time, by Slurm's state. Many FAILED at once are a fault of a node or a file system.",
			"none", of(increase("runs", "runs"), "state")),
		stack("CPU hours by account", "Allocated CPU hours of jobs that ended in a step of time: all of a job at its end.", "h",
			of(increase("CPU hours", "cpu_seconds").times(1.0/3600), "account")),
		stack("GPU hours by account", "Allocated GPU hours of jobs that ended in a step of time: all of a job at its end.", "h",
			of(increase("GPU hours", "gpu_seconds").times(1.0/3600), "account")),
		tabled("Fair share", "What accounts are due and what they had. Above 1, an account used less than its share. Needs \"fairshare\" in collect.",
			table("slurm_fairshare", last("share", "norm_shares"), last("used", "effective_usage"), last("fair share", "fairshare"),
				last("due to used", "level_fs")).choose("cluster", "account").each("account", "user"),
			share("share"), share("used")).last("30m").size(12, 8),
	}}
}

func slurmLists() row {
	return row{"Jobs", []panel{
		tabled("Jobs of the queue", "Jobs as they were told of last in the time range: a row for each change of a job. Needs \"job\" in collect.",
			list("slurm_job", "job", "state", "reason", "user", "account", "partition", "qos", "nodes", "cpus", "gpus", "memory_bytes",
				"limit_seconds", "node_list").choose("cluster", "partition", "account", "user"),
			column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "job")), as("memory", "bytes"), as("limit", "s")),
		tabled("Jobs that ended", "The latest runs that ended, and how. Needs \"finished\" in collect.",
			list("slurm_finished", "job", "state", "exit_code", "user", "account", "partition", "nodes", "cpus", "gpus", "wait_seconds",
				"elapsed_seconds", "cpu_efficiency", "memory_efficiency", "node_list").choose("cluster", "partition", "account", "user"),
			column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "job")), as("wait", "s"), as("elapsed", "s"),
			share("cpu efficiency"), share("memory efficiency")),
	}}
}
