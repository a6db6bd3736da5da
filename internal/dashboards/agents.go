package dashboards

func agentsBoard() board {
	return board{
		name: "agents", title: "HPC: agents",
		about: "Whether the agents live, lose nothing, and keep up: stock Telegraf about itself, and telegraf-hpc's plugins about " +
			"themselves.",
		variables: []variable{{name: "host", label: "Host", from: "internal_agent", field: "metrics_gathered"}},
		rows:      []row{agentsNow(), agentsGather(), agentsWrite(), agentsPlugins(), agentsLustre()},
	}
}

func agentsNow() row {
	sum := func(measurement string, v value) query { return ask(measurement, v).choose("host").sum() }
	return row{"Now", []panel{
		stat("Agents", "Agents that have told of themselves in the latest step of time.", "none",
			ask("internal_agent", last("agents", "metrics_gathered")).choose("host").number()),
		stat("Metrics gathered", "Metrics a second of all agents that are chosen.", "cps", sum("internal_agent", perSecond("gathered", "metrics_gathered"))),
		stat("Metrics lost", "Metrics in a step of time that agents dropped because an output did not take them and the buffer was full.", "none",
			sum("internal_write", increase("lost", "metrics_dropped"))).colours(bad()...),
		stat("Errors of inputs", "Errors in a step of time while gathering: their text is in the agents' logs.", "none",
			sum("internal_agent", increase("errors", "gather_errors"))).colours(step{0, green}, step{1, yellow}),
		stat("Fullest buffer", "How full the fullest buffer of an output is. At 100 % metrics are lost.", "percentunit",
			ask("internal_write", last("fullest", "buffer_size").of("buffer_limit")).choose("host").highest()).colours(warn(0.5, 0.8)...),
		stat("Undecided resets", "Decisions of lustre_jobstats in a step of time, whether a counter started again, that may be wrong.", "none",
			sum("lustre_jobstats_self", increase("undecided", "undecided"))).colours(step{0, green}, step{1, orange}),
	}}
}

func agentsGather() row {
	return row{"Gathering", []panel{
		lines("Metrics gathered by host", "Metrics a second. A line that ends is an agent that is silent.", "cps",
			ask("internal_agent", perSecond("metrics", "metrics_gathered")).choose("host").each("host").sum()),
		lines("Errors by host", "Errors of inputs in a step of time.", "none",
			ask("internal_agent", increase("errors", "gather_errors")).choose("host").each("host").sum()),
		lines("Time of a gather by input", "How long inputs took, the longest of the hosts that are chosen. execd answers later, and is not in here: see below.", "ns",
			ask("internal_gather", highest("took", "gather_time_ns")).choose("host").each("input").highest()),
		tabled("Agents", "Versions of Telegraf, and what it has gathered, written and dropped since its start.",
			table("internal_agent", last("gathered", "metrics_gathered"), last("written", "metrics_written"), last("dropped", "metrics_dropped"),
				last("errors", "gather_errors")).choose("host").each("host", "version"),
			column{name: "dropped", steps: bad()}).last("10m").most("dropped").size(12, 8),
	}}
}

func agentsWrite() row {
	return row{"Writing", []panel{
		lines("Metrics written", "Metrics a second that outputs took.", "cps",
			ask("internal_write", perSecond("metrics", "metrics_written")).choose("host").each("host", "output").sum()),
		lines("Metrics lost", "Metrics in a step of time that a full buffer dropped. They are gone.", "none",
			ask("internal_write", increase("metrics", "metrics_dropped")).choose("host").each("host", "output").sum()),
		lines("Buffers", "How full the outputs' buffers are. They fill while an output does not answer.", "percentunit",
			ask("internal_write", highest("buffer", "buffer_size").of("buffer_limit")).choose("host").each("host", "output").highest()).
			to(1).colours(warn(0.5, 0.8)...),
		lines("Time of a write", "How long the latest batch took.", "ns",
			ask("internal_write", highest("took", "write_time_ns")).choose("host").each("host", "output").highest()),
	}}
}

// selfPlugins are the plugins whose measurement NAME_self has errors and gather_seconds.
func selfPlugins() []string {
	return []string{"slurm_load", "condor_q", "node_sensors", "who_users", "jupyter_users"}
}

func agentsPlugins() row {
	plugins := selfPlugins()
	errors, times := make([]query, 0, len(plugins)), make([]query, 0, len(plugins))
	for _, name := range plugins {
		errors = append(errors, labelled(name, ask(name+"_self", increase("errors", "errors")).choose("host").each("host").sum()))
		times = append(times, labelled(name, ask(name+"_self", highest("took", "gather_seconds")).choose("host").each("host").highest()))
	}
	return row{"Plugins of telegraf-hpc", []panel{
		lines("Errors", "Errors of a plugin in a step of time: their text is in the agent's log, once for each cause.", "none", errors...),
		lines("Time of a gather", "How long plugins took, with the commands that they ran.", "s", times...),
		lines("Commands", "Time that Slurm's and HTCondor's commands took in a gather.", "s",
			labelled("Slurm", ask("slurm_load_self", highest("took", "commands_seconds")).choose("host").each("host").highest()),
			labelled("HTCondor", ask("condor_q_self", highest("took", "commands_seconds")).choose("host").each("host").highest())),
		lines("Calls that hang", "Calls of node_sensors that have not come back: as a rule a dead file system of the network.", "none",
			ask("node_sensors_self", last("hang", "hung")).choose("host").each("host").highest()),
	}}
}

func labelled(label string, q query) query {
	q.label = label
	return q
}

func agentsLustre() row {
	of := func(v value) query { return ask("lustre_jobstats_self", v).choose("host").each("host", "target").sum() }
	central := func(values ...value) query { return ask("lustre_jobs_self", values...).each("host").sum() }
	return row{"Lustre", []panel{
		lines("Undecided resets", "Decisions in a step of time, whether a counter started again, that may be wrong. Many at once are a server without start_time "+
			"(before Lustre 2.15) that was restarted.", "none", of(increase("undecided", "undecided"))),
		lines("Jobs in job_stats", "Entries of job_stats by target.", "none", of(last("entries", "entries"))),
		lines("Time of reading", "How long reading a target's job_stats took. Up to Lustre 2.15 it grows with the square of the entries.", "s",
			of(highest("took", "read_seconds"))),
		lines("Entries that could not be read", "Entries in a step of time that were left out.", "none", of(increase("entries", "parse_errors"))),
		lines("Central: lines", "Lines a second that lustre_jobs takes, and those of them that told nothing new.", "cps",
			central(perSecond("lines", "lines"), perSecond("nothing new", "repeated"))),
		lines("Central: trouble", "Lines in a step of time that lustre_jobs refused, that came too late for rates, and epochs that came after their job's report.", "none",
			central(increase("refused", "refused"), increase("too late", "stale"), increase("after the report", "late_epochs"))),
		lines("Central: memory", "Epochs and series that lustre_jobs keeps, and ids for which Slurm has not said yet who they are.", "none",
			central(last("epochs", "epochs_in_memory"), last("series", "series_in_memory"), last("waiting", "waiting"))),
		lines("Central: jobs", "Jobs of Slurm that lustre_jobs knows.", "none", central(last("jobs", "jobs"))),
	}}
}
