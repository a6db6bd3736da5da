package dashboards

func hostVariable() variable {
	return variable{name: "host", label: "Host", from: "system", field: "load1"}
}

func nodeBoard() board {
	return board{
		name: "node", title: "HPC: nodes",
		about: "CPUs, memory, disks, network, sensors, and jobs of hosts. From stock inputs as in sample.conf, and from " +
			"node_sensors.",
		variables: []variable{hostVariable()},
		rows:      []row{nodeCPU(), nodeMemory(), nodeDisks(), nodeNetwork(), nodeHardware(), nodeJobs()},
	}
}

func ofHost(measurement string, values ...value) query {
	return ask(measurement, values...).choose("host").each("host")
}

func nodeCPU() row {
	return row{"CPUs", []panel{
		lines("CPUs busy", "Share of the time in which CPUs are not idle, waiting for disks with it.", "percent",
			ofHost("cpu", mean("busy", "usage_idle").outOf100()).is("cpu", "cpu-total")).to(100),
		stack("What CPUs do", "Share of the time by what it is spent on, the mean of the hosts that are chosen.", "percent",
			ask("cpu", mean("user", "usage_user"), mean("nice", "usage_nice"), mean("system", "usage_system"), mean("irq", "usage_irq"),
				mean("softirq", "usage_softirq"), mean("steal", "usage_steal"), mean("iowait", "usage_iowait")).
				choose("host").is("cpu", "cpu-total").average()).to(100),
		lines("Load", "Processes that run, wait to run, or wait for a disk, or for a file system such as Lustre: the mean of 1 minute.", "none",
			ofHost("system", mean("load", "load1"))),
		lines("Processes", "Processes that run, that are blocked in the kernel (as a rule by a disk or a file system), and zombies.", "none",
			ofHost("processes", mean("running", "running"), mean("blocked", "blocked"), mean("zombies", "zombies"))),
		lines("Context switches", "Context switches a second.", "ops", ofHost("kernel", perSecond("switches", "context_switches"))),
		lines("Frequency", "Frequency of the CPUs, the mean (node_sensors).", "suffix: MHz",
			ofHost("node_cpu_freq", mean("frequency", "current")).is("cpu", "cpu-total")),
	}}
}

func nodeMemory() row {
	return row{"Memory", []panel{
		lines("Memory in use", "Share of the memory that is neither free nor can be freed at once.", "percent",
			ofHost("mem", mean("used", "available_percent").outOf100())).to(100).colours(warn(90, 97)...),
		lines("Memory that is available", "What programs can have without swapping.", "bytes", ofHost("mem", mean("available", "available"))),
		lines("Caches", "What the page cache and buffers hold, and what waits to be written.", "bytes",
			ofHost("mem", mean("cached", "cached"), mean("buffered", "buffered"), mean("dirty", "dirty"))),
		lines("Swap in use", "Share of the swap space.", "percent", ofHost("swap", mean("used", "used_percent"))).to(100),
	}}
}

func nodeDisks() row {
	disk := func(v value) query {
		return ask("disk", v).choose("host").each("host", "path").beside("device", "fstype", "mode").maybeBeside("label").highest()
	}
	io := func(values ...value) query {
		return ask("diskio", values...).choose("host").each("host", "name").maybeBeside("serial", "wwid").sum()
	}
	return row{"Disks", []panel{
		lines("File systems in use", "How full local file systems are.", "percent", disk(mean("used", "used_percent"))).to(100).
			colours(warn(85, 95)...),
		lines("Inodes in use", "Share of the inodes of local file systems.", "percent", disk(mean("used", "inodes_used_percent"))).to(100).
			colours(warn(85, 95)...),
		lines("Disk bytes", "Bytes a second that disks read and write.", "Bps",
			io(perSecond("read", "read_bytes"), perSecond("written", "write_bytes"))),
		lines("Disks busy", "Share of the time in which a disk has requests.", "percentunit",
			io(perSecond("busy", "io_time").times(0.001))).to(1),
	}}
}

func nodeNetwork() row {
	of := func(values ...value) query {
		return ask("net", values...).choose("host").each("host", "interface")
	}
	return row{"Network", []panel{
		lines("Bytes", "Bytes a second that interfaces receive and send.", "Bps",
			of(perSecond("received", "bytes_recv"), perSecond("sent", "bytes_sent"))),
		lines("Errors and drops", "Packets a second that were lost to errors or for room.", "pps",
			of(perSecond("errors in", "err_in"), perSecond("errors out", "err_out"), perSecond("drops in", "drop_in"),
				perSecond("drops out", "drop_out"))),
		lines("Interfaces up", "Whether interfaces are up and have a carrier (node_sensors).", "none",
			ask("node_net_if_stats", last("up", "isup")).choose("host").each("host", "interface")).to(1),
		lines("Speed", "Speed that interfaces have agreed on (node_sensors). One below the others is a bad cable or port.", "Mbits",
			ask("node_net_if_stats", last("speed", "speed")).choose("host").each("host", "interface")),
	}}
}

func nodeHardware() row {
	return row{"Hardware", []panel{
		lines("Temperatures", "Sensors of the host (stock temp).", "celsius",
			ask("temp", highest("temperature", "temp")).choose("host").each("host", "sensor")),
		lines("Fans", "Turns a minute (node_sensors). A fan at 0 is broken, or rests.", "rotrpm",
			ask("node_sensors_fans", mean("fan", "current")).choose("host").each("host", "sensor").beside("chip", "device").
				maybeBeside("label").average()),
		lines("Up since", "How long ago hosts started.", "s", ofHost("system", last("up", "uptime"))),
		lines("Users logged in", "Users in utmp (stock system). The dashboard of users knows more.", "none",
			ofHost("system", last("users", "n_unique_users"))),
	}}
}

func nodeJobs() row {
	return row{"Jobs on the node", []panel{
		tabled("Jobs now", "What the processes of each job of Slurm use on the node. Needs node_sensors with job_cgroups.",
			table("node_job_cgroups", last("memory", "memory_bytes"), last("peak", "memory_peak_bytes"), last("limit", "memory_limit_bytes"),
				last("processes", "processes"), last("GPUs", "gpus_allocated"), last("GPUs idle", "gpus_idle")).choose("host").each("host", "job"),
			column{name: "job"}.leads(toBoard("I/O of the job", "lustre-job", "job")), as("memory", "bytes"), as("peak", "bytes"),
			as("limit", "bytes")).last("10m").most("memory").size(12, 9),
		lines("CPUs in use by job", "CPU seconds a second of each job on the node. Needs node_sensors with job_cgroups.", "none",
			ask("node_job_cgroups", perSecond("CPUs", "cpu_seconds")).choose("host").each("host", "job").sum()).size(12, 9),
	}}
}
