package dashboards

// reports are rows of job_report.
func reports() query {
	return list("job_report", "job", "state", "user", "account", "partition", "cluster", "wait_seconds", "elapsed_seconds",
		"limit_efficiency", "cpus", "cpu_efficiency", "memory_efficiency", "gpus", "lustre_read_bytes", "lustre_write_bytes",
		"lustre_ops", "lustre_mds_ops", "lustre_filesystems", "exit_code")
}

func reportColumns() []column {
	low := []step{{0, orange}, {0.25, yellow}, {0.5, green}}
	return []column{
		column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "job")),
		column{name: "user"}.leads(toBoard("Reports of the user", "reports", "user")),
		as("wait", "s"), as("elapsed", "s"), share("limit efficiency"), share("cpu efficiency", low...),
		share("memory efficiency", low...), as("lustre read", "bytes"), as("lustre write", "bytes"), as("lustre ops", "short"),
		as("lustre mds ops", "short"),
	}
}

func reportBoard() board {
	tag := func(name, label string) variable {
		return variable{name: name, label: label, from: "job_report", field: "elapsed_seconds", where: []condition{{"cluster", matches, "$cluster"}}}
	}
	return board{
		name: "reports", title: "HPC: reports of finished jobs",
		about: "How well jobs used what they had, and what they did to Lustre: one row for each that ended. From lustre_jobs and slurm_load.",
		variables: []variable{
			{name: "cluster", label: "Cluster", from: "job_report", field: "elapsed_seconds"},
			tag("account", "Account"), tag("user", "User"), tag("partition", "Partition"), tag("state", "State"),
		},
		rows: []row{reportSums(), reportWho(), {"Jobs", []panel{
			tabled("The latest jobs", "Each job that ended, at most 500 of the time range. Efficiencies are of what it had: CPU time of its CPUs, memory of what it "+
				"asked for, elapsed time of its limit.", ofReports(reports()), reportColumns()...).size(24, 14),
		}}},
	}
}

func ofReports(q query) query { return q.choose("cluster", "account", "user", "partition", "state") }

func reportSums() row {
	low := []step{{0, orange}, {0.25, yellow}, {0.5, green}}
	of := func(values ...value) query { return ofReports(ask("job_report", values...)) }
	return row{"Efficiency", []panel{
		lines("Jobs by state", "Jobs that ended in a step of time, by Slurm's state.", "none",
			of(counted("jobs", "elapsed_seconds")).each("state")).size(8, 8),
		lines("Efficiency", "Mean over the jobs that ended in a step of time, each job alike: used CPU time of that of its CPUs, peak of the memory that it asked for, "+
			"elapsed time of its limit.", "percentunit",
			of(mean("CPU", "cpu_efficiency"), mean("memory", "memory_efficiency"), mean("time limit", "limit_efficiency"))).to(1).colours(low...).size(8, 8),
		lines("Lustre bytes of ended jobs", "What the jobs that ended in a step of time had read and written in all.", "bytes",
			of(total("read", "lustre_read_bytes"), total("written", "lustre_write_bytes"))).size(8, 8),
	}}
}

func reportWho() row {
	low := []step{{0, orange}, {0.25, yellow}, {0.5, green}}
	by := func(tag string) panel {
		return tabled("By "+tag, "Jobs that ended in the time range: how many, and means of their efficiencies, each job alike.",
			ofReports(table("job_report", counted("jobs", "elapsed_seconds"), mean("CPU", "cpu_efficiency"), mean("memory", "memory_efficiency"),
				mean("time limit", "limit_efficiency"), mean("wait", "wait_seconds"), total("read", "lustre_read_bytes"),
				total("written", "lustre_write_bytes"), total("MDS requests", "lustre_mds_ops"))).each(tag),
			share("CPU", low...), share("memory", low...), share("time limit"), as("wait", "s"), as("read", "bytes"), as("written", "bytes"),
			as("MDS requests", "short")).most("jobs").size(12, 9)
	}
	return row{"Who", []panel{by("user"), by("account")}}
}
