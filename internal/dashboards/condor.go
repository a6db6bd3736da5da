package dashboards

func condorBoard() board {
	return board{
		name: "condor", title: "HPC: jobs and queues (HTCondor)",
		about: "Queues, waits, slots, negotiator and priorities of HTCondor pools. From condor_q.",
		variables: []variable{
			{name: "pool", label: "Pool", from: "condor_pool", field: "up"},
			{name: "schedd", label: "Schedd", from: "condor_schedd", field: "up", where: []condition{{"pool", matches, "$pool"}}},
			{name: "queue", label: "Queue", from: "condor_queue", field: "idle", where: []condition{{"pool", matches, "$pool"}}},
		},
		rows: []row{condorNow(), condorQueues(), condorWho(), condorSlots(), condorDaemons(), condorLists()},
	}
}

func condorNow() row {
	of := func(v value) query { return ask("condor_queue", v).choose("pool", "schedd", "queue").sum() }
	return row{"Now", []panel{
		stat("Collector", "Whether the collector answers. Of several pools, the worst.", "none",
			ask("condor_pool", last("up", "up")).choose("pool").lowest()).means(upDown()...),
		stat("Schedds", "Whether the schedds answer: the worst of them.", "none",
			ask("condor_schedd", last("up", "up")).choose("pool", "schedd").lowest()).means(upDown()...),
		stat("Running", "Jobs that run, in the queues chosen.", "none", of(last("running", "running"))),
		stat("Idle", "Jobs that wait, in the queues chosen.", "none", of(last("idle", "idle"))),
		stat("Held", "Jobs that are held: they wait for a person.", "none", of(last("held", "held"))).
			colours(step{0, green}, step{1, yellow}),
		stat("Cores in use", "Cores of slots that jobs have.", "none",
			ask("condor_slots", last("cores in use", "cores_used")).choose("pool").sum()),
	}}
}

func condorQueues() row {
	of := func(v value) query {
		return ask("condor_queue", v).choose("pool", "schedd", "queue").each("queue").sum()
	}
	return row{"Queues", []panel{
		stack("Running jobs by queue", "Jobs that run.", "none", of(last("running", "running"))),
		stack("Idle jobs by queue", "Jobs that wait.", "none", of(last("idle", "idle"))),
		stack("Cores in use by queue", "Cores of jobs on slots.", "none", of(last("cores", "allocated_cores"))),
		lines("Longest wait by queue", "Since the idle job that waits longest became idle.", "s",
			ask("condor_queue", highest("wait", "oldest_wait_seconds")).choose("pool", "schedd", "queue").each("queue").highest()),
		tabled("Jobs that wait, by how long", "How many of the idle jobs have waited so long at most.",
			table("condor_wait", last("jobs", "bucket")).choose("pool", "schedd", "queue").not("le", "+Inf").each("le").sum(),
			column{name: "le", unit: "s", count: true}).last("10m").size(12, 8),
		lines("Mean wait of idle jobs", "How long the jobs that are idle have been waiting.", "s",
			ask("condor_wait", last("wait", "sum").of("count")).choose("pool", "schedd", "queue").each("queue").sum().onlyWith("count")),
	}}
}

func condorWho() row {
	return row{"Users and holds", []panel{
		tabled("Users now", "What users have in the queues, by accounting group.",
			table("condor_user", last("running", "running"), last("idle", "idle"), last("held", "held"), last("cores", "allocated_cores"),
				last("GPUs", "allocated_gpus"), last("memory", "allocated_memory_bytes")).
				choose("pool", "schedd").each("user", "group").sum(), as("memory", "bytes")).last("10m").most("cores").size(12, 9),
		tabled("Priorities", "Effective priority of submitters: the higher, the worse.",
			table("condor_userprio", last("priority", "priority"), last("factor", "priority_factor"), last("slots", "resources_used"),
				last("weighted", "weighted_resources_used")).choose("pool").is("by", "submitter").each("pool", "submitter", "group")).
			last("10m").most("priority").size(12, 9),
		tabled("Held jobs now", "Why jobs are held, and since when the first is.",
			table("condor_hold", last("jobs", "jobs"), last("longest", "oldest_seconds")).choose("pool", "schedd").
				each("schedd", "reason", "code"), as("longest", "s")).last("10m").most("jobs").size(12, 8),
		lines("Held jobs by reason", "How many jobs are held, by HTCondor's label of the reason.", "none",
			ask("condor_hold", last("jobs", "jobs")).choose("pool", "schedd").each("reason").sum()),
	}}
}

func condorSlots() row {
	of := func(values ...value) query { return ask("condor_slots", values...).choose("pool").sum() }
	return row{"Slots", []panel{
		stack("Cores", "Cores in use, idle, and of slots that take no jobs.", "none",
			of(last("used", "cores_used"), last("idle", "cores_idle"), last("closed", "cores_closed"))),
		stack("Memory", "Memory of slots in use, idle, and closed.", "bytes",
			of(last("used", "memory_used_bytes"), last("idle", "memory_idle_bytes"), last("closed", "memory_closed_bytes"))),
		stack("GPUs", "GPUs in use, idle, and of slots that take no jobs.", "none",
			of(last("used", "gpus_used"), last("idle", "gpus_idle"), last("closed", "gpus_closed"))),
		stack("Slots by state", "Slots by HTCondor's state of them.", "none",
			ask("condor_slots", last("slots", "slots")).choose("pool").each("state").sum()),
	}}
}

func condorDaemons() row {
	return row{"Daemons", []panel{
		lines("Duty cycle", "Share of the time that a daemon works. At 1 it can do no more, and answers late.", "percentunit",
			ask("condor_schedd", mean("schedd", "duty_cycle")).choose("pool", "schedd").each("schedd"),
			ask("condor_negotiator", mean("negotiator", "duty_cycle")).choose("pool").each("negotiator")).to(1).colours(warn(0.9, 0.98)...),
		lines("Negotiation cycle", "How long the latest cycle took, and from the end of the one before to its own end.", "s",
			ask("condor_negotiator", last("cycle", "cycle_seconds"), last("period", "cycle_period_seconds")).choose("pool").each("negotiator")),
		lines("Matches and rejections", "What the latest cycle matched and rejected.", "none",
			ask("condor_negotiator", last("matches", "matches"), last("rejections", "rejections")).choose("pool").each("negotiator")),
		lines("Shadows", "Shadows that run, one for each running job.", "none",
			ask("condor_schedd", last("shadows", "shadows_running")).choose("pool", "schedd").each("schedd")),
		lines("Jobs a second", "Jobs that were submitted, started and completed, as the schedd counts.", "suffix: jobs/s",
			ask("condor_schedd", perSecond("submitted", "jobs_submitted"), perSecond("started", "jobs_started"),
				perSecond("completed", "jobs_completed")).choose("pool", "schedd").each("schedd")),
		lines("File transfers", "Transfers of sandboxes that wait and that run.", "none",
			ask("condor_schedd", last("uploading", "transfers_uploading"), last("downloading", "transfers_downloading"),
				last("waiting to upload", "transfers_waiting_to_upload"), last("waiting to download", "transfers_waiting_to_download")).
				choose("pool", "schedd").each("schedd")),
	}}
}

func condorLists() row {
	return row{"Jobs", []panel{
		tabled("Jobs that ended", "The latest jobs that left the queue, and how.",
			list("condor_finished", "id", "state", "exit_code", "remove_reason", "user", "group", "schedd", "cores", "gpus", "wait_seconds",
				"runtime_seconds", "cpu_efficiency", "memory_efficiency", "host").choose("pool", "schedd"),
			as("wait", "s"), as("runtime", "s"), share("cpu efficiency"), share("memory efficiency")),
	}}
}
