package dashboards

// Lustre's metadata operations (struct mdt_device's statistics, lustre/mdt/mdt_lproc.c) and those of its object servers
// (lustre/ofd/lproc_ofd.c), as job_stats names them.
func metadataOperations() []string {
	return []string{
		"open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr", "setxattr", "statfs",
		"sync",
	}
}

func objectOperations() []string {
	return []string{"read", "write", "punch", "sync", "getattr", "setattr", "create", "destroy", "prealloc", "statfs"}
}

// rates asks for the rates of operations.
func rates(operations []string) []value {
	values := make([]value, 0, len(operations))
	for _, name := range operations {
		values = append(values, mean(name, name+"_rate"))
	}
	return values
}

func fsVariable() variable {
	return variable{name: "fs", label: "File system", from: "lustre_fs", field: "ops"}
}

func lustreVariable(tag, label, measurement string) variable {
	return variable{name: tag, label: label, from: measurement, field: "ops", where: []condition{{"fs", matches, "$fs"}}}
}

const serviceTime = "Service time a second: how many threads of the servers work on it at once. Lustre 2.14 and later."

func lustreBoard() board {
	return board{
		name: "lustre", title: "HPC: Lustre",
		about:     "What file systems do, and who makes them do it: accounts, users, jobs; each leads on to its own dashboard. From lustre_jobs.",
		variables: []variable{fsVariable()},
		rows:      []row{lustreNow(), lustreLoad(), lustreMDS(), lustreWho("account"), lustreWho("user"), lustreJobs("fs"), lustreProcesses()},
	}
}

func lustreNow() row {
	of := func(kind string, v value) query {
		return ask("lustre_fs", v).choose("fs").is("kind", kind).holding().sum()
	}
	return row{"Now", []panel{
		stat("Read", "Bytes a second that clients read.", "Bps", of("ost", mean("read", "read_bytes_rate"))),
		stat("Written", "Bytes a second that clients write.", "Bps", of("ost", mean("written", "write_bytes_rate"))),
		stat("Requests to OSTs", "Requests a second to object storage targets.", "reqps", of("ost", mean("requests", "ops_rate"))),
		stat("Requests to MDTs", "Requests a second to metadata targets.", "reqps", of("mdt", mean("requests", "ops_rate"))),
		stat("OST threads busy", serviceTime, "none", of("ost", mean("busy", "busy_usecs_rate").times(0.000001))),
		stat("MDT threads busy", serviceTime, "none", of("mdt", mean("busy", "busy_usecs_rate").times(0.000001))),
	}}
}

func lustreLoad() row {
	of := func(kind string, values ...value) query {
		return ask("lustre_fs", values...).choose("fs").is("kind", kind).each("fs").holding().sum()
	}
	return row{"Load", []panel{
		lines("Bytes", "Bytes a second that clients read and write.", "Bps",
			of("ost", mean("read", "read_bytes_rate"), mean("written", "write_bytes_rate"))),
		lines("Requests", "Requests a second, to object storage and to metadata targets.", "reqps",
			ask("lustre_fs", mean("requests", "ops_rate")).choose("fs").each("fs", "kind").holding().sum()),
		stack("Metadata operations", "Requests a second to metadata targets, by operation.", "reqps",
			ask("lustre_fs", rates(metadataOperations())...).choose("fs").is("kind", "mdt").holding().sum()),
		stack("Object operations", "Requests a second to object storage targets, by operation.", "reqps",
			ask("lustre_fs", rates(objectOperations())...).choose("fs").is("kind", "ost").holding().sum()),
	}}
}

func lustreMDS() row {
	toUser := toBoard("I/O of the user", "lustre-user", "fs", "user")
	return row{"Who holds the MDS now", []panel{
		tabled("Jobs on the metadata servers", "Jobs that ask the metadata servers now, and their shares of all requests and of all service time "+
			"(Lustre 2.14 and later). _other are those that are not among the top.",
			table("lustre_job", last("requests/s", "ops_rate"), last("share of requests", "ops_share"),
				last("threads busy", "busy_usecs_rate").times(0.000001), last("share of time", "busy_share"), last("state", "state")).
				choose("fs").is("kind", "mdt").each("fs", "job", "user", "account", "partition").latest().onlyWith("ops_rate"),
			share("share of requests", warn(0.3, 0.6)...), share("share of time", warn(0.3, 0.6)...), as("requests/s", "reqps"),
			column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "fs", "job")), column{name: "user"}.leads(toUser)).
			last("10m").most("requests/s").size(16, 10),
		bars("Users on the metadata servers", "Users by their requests to the metadata servers now; processes of login nodes by their user id.", "reqps",
			ask("lustre_user", last("requests", "ops_rate")).choose("fs").is("kind", "mdt").each("user", "uid").holding().sum()).
			last("10m").size(8, 10),
		stack("Service time of metadata by user", serviceTime, "none",
			ask("lustre_user", mean("busy", "busy_usecs_rate").times(0.000001)).choose("fs").is("kind", "mdt").each("user", "uid").holding().sum()),
		stack("Requests for metadata by user", "Requests a second to metadata targets, by user.", "reqps",
			ask("lustre_user", mean("requests", "ops_rate")).choose("fs").is("kind", "mdt").each("user", "uid").holding().sum()),
	}}
}

// lustreWho shows accounts, or users, of a file system.
func lustreWho(tag string) row {
	to := toBoard("I/O of the "+tag, "lustre-"+tag, "fs", tag)
	onLine := toBoard("I/O of the "+tag, "lustre-"+tag, tag).with("fs", "$fs") // Lines are of all file systems.
	measurement, by := "lustre_"+tag, []string{tag}
	if tag == "user" { // Processes of login nodes have a user id instead.
		by = append(by, "uid")
	}
	of := func(field string) query {
		return ask(measurement, mean(field, field)).choose("fs").is("kind", "ost").each(by...).holding().sum()
	}
	return row{"By " + tag, []panel{
		stack("Read by "+tag, "Bytes a second that each "+tag+" reads.", "Bps", of("read_bytes_rate")).leads(onLine).size(8, 8),
		stack("Written by "+tag, "Bytes a second that each "+tag+" writes.", "Bps", of("write_bytes_rate")).leads(onLine).size(8, 8),
		tabled("Moved in the time range, by "+tag, "Bytes and requests of each "+tag+" in the time range that is chosen, on object storage targets.",
			table(measurement, grown("read", "read_bytes"), grown("written", "write_bytes"), grown("requests", "ops")).choose("fs").
				is("kind", "ost").each(append([]string{"fs"}, by...)...).sum(),
			column{name: tag}.leads(to), as("read", "bytes"), as("written", "bytes"), as("requests", "short")).most("written").size(8, 8),
	}}
}

// lustreJobs shows the jobs of what the variables say.
func lustreJobs(by ...string) row {
	of := func(kind string, v value) query {
		return ask("lustre_job", v).choose(by...).is("kind", kind).each("job", "user").holding().sum()
	}
	to := toBoard("I/O of the job", "lustre-job", "fs", "job")
	return row{"By job", []panel{
		stack("Read by job", "Bytes a second that each job reads. _other are the jobs that are not among the top.", "Bps",
			of("ost", mean("read", "read_bytes_rate"))),
		stack("Written by job", "Bytes a second that each job writes. _other are the jobs that are not among the top.", "Bps",
			of("ost", mean("written", "write_bytes_rate"))),
		tabled("Jobs in the time range: data", "Bytes and requests of each job in the time range, on object storage targets, and what it does.",
			table("lustre_job", grown("read", "read_bytes"), grown("written", "write_bytes"), grown("requests", "ops"),
				last("latest share", "bytes_share"), last("state", "state")).choose(by...).is("kind", "ost").not("job", "_other").
				each("fs", "job", "user", "account", "partition"),
			column{name: "job"}.leads(to), as("read", "bytes"), as("written", "bytes"), as("requests", "short"), share("latest share")).
			most("written").size(12, 9),
		tabled("Jobs in the time range: metadata", "Requests and service time of each job in the time range, on metadata targets.",
			table("lustre_job", grown("requests", "ops"), grown("service time", "busy_usecs"), last("latest share", "busy_share"),
				last("state", "state")).choose(by...).is("kind", "mdt").not("job", "_other").
				each("fs", "job", "user", "account", "partition"),
			column{name: "job"}.leads(to), as("requests", "short"), as("service time", "µs"), share("latest share")).
			most("requests").size(12, 9),
	}}
}

func lustreProcesses() row {
	return row{"Processes of login nodes", []panel{
		tabled("Programs in the time range", "What programs that belong to no job did, by user id and program. Needs jobid_name of lustre_jobstats to tell them.",
			table("lustre_process", grown("read", "read_bytes"), grown("written", "write_bytes"), grown("requests", "ops"),
				last("requests/s", "ops_rate")).choose("fs").each("fs", "kind", "uid", "exe"),
			as("read", "bytes"), as("written", "bytes"), as("requests", "short"), as("requests/s", "reqps")).most("requests").size(24, 8),
	}}
}

// lustreLevel shows an account or a user.
func lustreLevel(tag string) row {
	measurement := "lustre_" + tag
	of := func(kind string, values ...value) query {
		return ask(measurement, values...).choose("fs", tag).is("kind", kind).each("fs", tag).holding().sum()
	}
	shares := func(kind string, values ...value) query { // There are none where nobody does anything: nothing is held.
		return ask(measurement, values...).choose("fs", tag).is("kind", kind).each("fs", tag).average()
	}
	return row{"Load", []panel{
		lines("Bytes", "Bytes a second that are read and written.", "Bps",
			of("ost", mean("read", "read_bytes_rate"), mean("written", "write_bytes_rate"))),
		lines("Share of the file system", "Share of the bytes, and of the service time of object storage and of metadata targets, while anybody has any.",
			"percentunit", shares("ost", mean("bytes", "bytes_share"), mean("OST time", "busy_share")),
			shares("mdt", mean("MDT time", "busy_share"))).to(1),
		stack("Metadata operations", "Requests a second to metadata targets, by operation.", "reqps", of("mdt", rates(metadataOperations())...)),
		lines("Requests", "Requests a second, to object storage and to metadata targets.", "reqps",
			ask(measurement, mean("requests", "ops_rate")).choose("fs", tag).each(tag, "kind").holding().sum()),
	}}
}

func lustreAccountBoard() board {
	toUser := toBoard("I/O of the user", "lustre-user", "fs", "user")
	onLine := toBoard("I/O of the user", "lustre-user", "user").with("fs", "$fs") // Lines are of all file systems.
	users := row{"Its users", []panel{
		stack("Read by user", "Bytes a second that the account's users read, by those of its jobs that are among the top.", "Bps",
			ask("lustre_job", mean("read", "read_bytes_rate")).choose("fs", "account").is("kind", "ost").each("user").holding().sum()).
			leads(onLine).size(8, 8),
		stack("Written by user", "Bytes a second that the account's users write, by those of its jobs that are among the top.", "Bps",
			ask("lustre_job", mean("written", "write_bytes_rate")).choose("fs", "account").is("kind", "ost").each("user").holding().sum()).
			leads(onLine).size(8, 8),
		tabled("Users in the time range", "What the account's users moved, by those of its jobs that are among the top.",
			table("lustre_job", grown("read", "read_bytes"), grown("written", "write_bytes"), grown("requests", "ops")).
				choose("fs", "account").is("kind", "ost").each("fs", "user").sum(),
			column{name: "user"}.leads(toUser), as("read", "bytes"), as("written", "bytes"), as("requests", "short")).most("written").size(8, 8),
	}}
	return board{
		name: "lustre-account", title: "HPC: Lustre: an account",
		about:     "What an account does to Lustre, and which of its users and jobs. From lustre_jobs.",
		variables: []variable{fsVariable(), lustreVariable("account", "Account", "lustre_account")},
		rows:      []row{lustreLevel("account"), users, lustreJobs("fs", "account")},
	}
}

func lustreUserBoard() board {
	return board{
		name: "lustre-user", title: "HPC: Lustre: a user",
		about:     "What a user does to Lustre, and which jobs. From lustre_jobs.",
		variables: []variable{fsVariable(), lustreVariable("user", "User", "lustre_user")},
		rows:      []row{lustreLevel("user"), lustreJobs("fs", "user")},
	}
}

func lustreJobBoard() board {
	of := func(kind string, values ...value) query {
		return ask("lustre_job", values...).choose("fs").is("job", "$job").is("kind", kind).each("fs").holding()
	}
	shares := func(kind string, values ...value) query { // There are none where nobody does anything: nothing is held.
		return ask("lustre_job", values...).choose("fs").is("job", "$job").is("kind", kind).each("fs")
	}
	load := row{"Load", []panel{
		lines("Bytes", "Bytes a second that the job reads and writes.", "Bps",
			of("ost", mean("read", "read_bytes_rate"), mean("written", "write_bytes_rate"))),
		lines("Share of the file system", "Share of the bytes, and of the service time of object storage and of metadata targets, while anybody has any.",
			"percentunit", shares("ost", mean("bytes", "bytes_share"), mean("OST time", "busy_share")),
			shares("mdt", mean("MDT time", "busy_share"))).to(1),
		stack("Metadata operations", "Requests a second to metadata targets, by operation.", "reqps", of("mdt", rates(metadataOperations())...)),
		stack("Object operations", "Requests a second to object storage targets, by operation.", "reqps", of("ost", rates(objectOperations())...)),
		lines("Bytes since its start", "All that the job has read and written.", "bytes",
			of("ost", last("read", "read_bytes"), last("written", "write_bytes"))),
		lines("Requests since its start", "All of the job's requests, to object storage and to metadata targets.", "short",
			ask("lustre_job", last("requests", "ops")).choose("fs").is("job", "$job").each("fs", "kind").holding()),
	}}
	who := row{"The job", []panel{
		tabled("Whose it is", "User, account and partition of the job, and all that it has read and written so far.",
			table("lustre_job", last("state", "state"), last("read", "read_bytes"), last("written", "write_bytes"), last("requests", "ops"),
				last("service time", "busy_usecs")).choose("fs").is("job", "$job").
				each("fs", "kind", "job", "user", "account", "partition", "cluster"),
			as("read", "bytes"), as("written", "bytes"), as("requests", "short"), as("service time", "µs"),
			column{name: "user"}.leads(toBoard("I/O of the user", "lustre-user", "fs", "user")),
			column{name: "account"}.leads(toBoard("I/O of the account", "lustre-account", "fs", "account"))).size(24, 6),
		tabled("Its report", "How it ended: a row once it has.", reports().is("job", "$job"), reportColumns()...).size(24, 5),
	}}
	return board{
		name: "lustre-job", title: "HPC: Lustre: a job",
		about:     "What one job does to Lustre. Type in its id, as Slurm shows it (12345, 12345_10), or come here by a link. From lustre_jobs.",
		variables: []variable{fsVariable(), {name: "job", label: "Job"}},
		rows:      []row{who, load},
	}
}
