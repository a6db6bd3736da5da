package node_sensors

import (
	"slices"
	"strings"
)

// sensor is one thing that can be measured, and what --list says of it.
type sensor struct {
	name    string
	help    string
	stock   string // What in stock Telegraf gives the same, and what differs.
	usual   bool   // Whether it is on unless the option sensors says otherwise.
	twice   bool   // Whether it measures what happened between two measurements.
	rows    []row
	options func(o *Options) any
	build   func(h *host, o *Options) func(*reading)
}

// row is one of the measurements that a sensor gives.
type row struct {
	measurement string
	tags        string // Each name with blanks between.
	fields      []field
}

// field is one of a row's. The kinds are those of InfluxDB.
type field struct{ names, kind, unit string }

const (
	integer = "integer"
	float   = "float"
	str     = "string"
)

// Units that say no more than a number does.
const (
	truth = "1 or 0"
	plain = "a number"
)

// each is field for a list of names.
func (f field) each() []string { return strings.Fields(f.names) }

// named gives the sensors of these names, or the first name that none has.
func named(names []string) (list []*sensor, unknown string) {
	all := catalogue()
	for _, name := range names {
		i := slices.IndexFunc(all, func(s *sensor) bool { return s.name == name })
		if i < 0 {
			return nil, name
		}
		list = append(list, all[i])
	}
	return list, ""
}

// sensorNames gives the names of all sensors, or of those that are on by default.
func sensorNames(usualOnly bool) []string {
	var names []string
	for _, s := range catalogue() {
		if s.usual || !usualOnly {
			names = append(names, s.name)
		}
	}
	return names
}

// catalogue has all sensors in the order of the documentation.
func catalogue() []*sensor {
	return slices.Concat(cpuSensors(), memorySensors(), diskSensors(), netSensors(), boardSensors(), systemSensors())
}

func cpuSensors() []*sensor {
	times := "user nice system idle iowait irq softirq steal guest guest_nice"
	return []*sensor{
		{
			name: "cpu_percent", help: "How busy the CPUs were since the measurement before: with neither idle time nor waiting for disks.",
			stock: "cpu: 100 - usage_idle - usage_iowait (its usage_active counts waiting for disks as busy)", twice: true,
			rows:    []row{{"node_cpu_percent", "cpu", []field{{"percent", float, "% of the time"}}}},
			options: func(o *Options) any { return o.CPUPercent },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuPercent(&o.CPUPercent) },
		},
		{
			name: "cpu_times", help: "What the CPUs have spent their time on since the machine started. user has guest in it, nice has guest_nice.",
			stock:   "cpu with collect_cpu_time = true: time_*",
			rows:    []row{{"node_cpu_times", "cpu", []field{{times, float, "seconds"}}}},
			options: func(o *Options) any { return o.CPUTimes },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuTimes(&o.CPUTimes) },
		},
		{
			name: "cpu_times_percent", help: "What the CPUs spent their time on since the measurement before.",
			stock: "cpu: usage_* (its usage_user is without guest)", twice: true,
			rows:    []row{{"node_cpu_times_percent", "cpu", []field{{times, float, "% of the time"}}}},
			options: func(o *Options) any { return o.CPUTimesPercent },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuTimesPercent(&o.CPUTimesPercent) },
		},
		{
			name: "cpu_count", help: "How many CPUs there are: threads and cores.",
			stock:   "system: n_cpus, n_physical_cpus",
			rows:    []row{{"node_cpu_count", "", []field{{"logical physical", integer, "CPUs"}}}},
			options: func(o *Options) any { return o.CPUCount },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuCount(&o.CPUCount) },
		},
		{
			name: "cpu_stats", help: "How often the kernel switched between processes and was interrupted since the machine started.",
			stock: "kernel: context_switches, interrupts; interrupts: soft_interrupts, each on its own", usual: true,
			rows:    []row{{"node_cpu_stats", "", []field{{"ctx_switches interrupts soft_interrupts", integer, plain}}}},
			options: func(o *Options) any { return o.CPUStats },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuStats(&o.CPUStats) },
		},
		{
			name: "cpu_freq", help: "The frequency of the CPUs, their mean under cpu-total, and its limits where there is a driver of cpufreq.",
			stock: "linux_cpu: scaling_*_freq in kHz, each CPU, not in virtual machines", usual: true,
			rows:    []row{{"node_cpu_freq", "cpu", []field{{"current min max", float, "MHz"}}}},
			options: func(o *Options) any { return o.CPUFreq },
			build:   func(h *host, o *Options) func(*reading) { return h.cpuFreq(&o.CPUFreq) },
		},
	}
}

func memorySensors() []*sensor {
	return []*sensor{
		{
			name: "virtual_memory", help: "The memory. percent is what is not available; cached has what the kernel's own caches can give back in it.",
			stock: "mem: 100 - available_percent (its used_percent is another), buffered for buffers",
			rows: []row{{"node_virtual_memory", "", []field{
				{"total available used free active inactive buffers cached shared slab", integer, "bytes"}, {"percent", float, "%"},
			}}},
			options: func(o *Options) any { return o.VirtualMemory },
			build:   func(h *host, o *Options) func(*reading) { return h.virtualMemory(&o.VirtualMemory) },
		},
		{
			name: "swap_memory", help: "The swap space, and what was moved in and out since the machine started.",
			stock:   "swap: total, used, free, used_percent, in, out",
			rows:    []row{{"node_swap_memory", "", []field{{"total used free sin sout", integer, "bytes"}, {"percent", float, "%"}}}},
			options: func(o *Options) any { return o.SwapMemory },
			build:   func(h *host, o *Options) func(*reading) { return h.swapMemory(&o.SwapMemory) },
		},
	}
}

func diskSensors() []*sensor {
	return []*sensor{
		{
			name: "disk_partitions", help: "The file systems on block devices, and those of fstypes, with the options that they are mounted with.",
			stock:   "disk: tags device, path, fstype, mode (rw or ro)",
			rows:    []row{{"node_disk_partitions", "device mountpoint fstype", []field{{"opts", str, "with commas"}, {"read_only", integer, truth}}}},
			options: func(o *Options) any { return o.DiskPartitions },
			build:   func(h *host, o *Options) func(*reading) { return h.diskPartitions(&o.DiskPartitions) },
		},
		{
			name: "disk_usage", help: "How full file systems are. percent is of what users may fill. One whose server is dead holds up no other.",
			stock:   "disk: used_percent and so on; it may hang with a dead server",
			rows:    []row{{"node_disk_usage", "path", []field{{"total used free", integer, "bytes"}, {"percent", float, "%"}}}},
			options: func(o *Options) any { return o.DiskUsage },
			build:   func(h *host, o *Options) func(*reading) { return h.diskUsage(&o.DiskUsage) },
		},
		{
			name: "disk_io_counters", help: "What all disks have done since the machine started: whole ones, also those that are made of others.",
			stock: "diskio: each disk and partition, other names",
			rows: []row{{"node_disk_io_counters", "disk", []field{
				{"read_count write_count read_merged_count write_merged_count", integer, "requests"}, {"read_bytes write_bytes", integer, "bytes"},
				{"read_time write_time busy_time", integer, "ms"},
			}}},
			options: func(o *Options) any { return o.DiskIOCounters },
			build:   func(h *host, o *Options) func(*reading) { return h.diskIOCounters(&o.DiskIOCounters) },
		},
	}
}

func netSensors() []*sensor {
	return []*sensor{
		{
			name: "net_io_counters", help: "What all interfaces, lo too, have sent and received since the machine started.",
			stock: "net: each interface that is up, but lo",
			rows: []row{{"node_net_io_counters", "interface", []field{
				{"bytes_sent bytes_recv", integer, "bytes"}, {"packets_sent packets_recv errin errout dropin dropout", integer, "packets"},
			}}},
			options: func(o *Options) any { return o.NetIOCounters },
			build:   func(h *host, o *Options) func(*reading) { return h.netIOCounters(&o.NetIOCounters) },
		},
		{
			name: "net_connections", help: "How many connections there are; with list = true also which. The processes of others are known to root alone.",
			stock: "netstat: tcp_*, udp_socket; socketstat: each, by the command ss",
			rows: []row{
				{"node_net_connections", "family type status", []field{{"connections", integer, "connections"}}},
				{"node_net_connection", "family type status", []field{{"laddr raddr", str, "address:port"}, {"pid fd", integer, plain}}},
			},
			options: func(o *Options) any { return o.NetConnections },
			build:   func(h *host, o *Options) func(*reading) { return h.netConnections(&o.NetConnections) },
		},
		{
			name: "net_if_addrs", help: "The addresses of the interfaces, but for temporary ones of IPv6.",
			stock: "none", usual: true,
			rows: []row{{"node_net_if_addrs", "interface family address", []field{
				{"netmask broadcast ptp", str, "address"}, {"prefix_length", integer, "bits"}, {"isup", integer, truth},
			}}},
			options: func(o *Options) any { return o.NetIFAddrs },
			build:   func(h *host, o *Options) func(*reading) { return h.netIFAddrs(&o.NetIFAddrs) },
		},
		{
			name: "net_if_stats", help: "Whether the interfaces work, and how: speed and duplex are known of those that are up and have a cable.",
			stock: "net: speed; ethtool: interface_up; duplex, mtu and flags: none", usual: true,
			rows: []row{{"node_net_if_stats", "interface", []field{
				{"isup full_duplex", integer, truth}, {"duplex", str, "full or half"}, {"speed", integer, "Mbit/s"}, {"mtu", integer, "bytes"},
				{"flags", str, "with commas"},
			}}},
			options: func(o *Options) any { return o.NetIFStats },
			build:   func(h *host, o *Options) func(*reading) { return h.netIFStats(&o.NetIFStats) },
		},
	}
}

func boardSensors() []*sensor {
	return []*sensor{
		{
			name: "sensors_temperatures", help: "Temperatures, and from where on they are high or critical.",
			stock:   "temp: each of these as a metric of its own",
			rows:    []row{{"node_sensors_temperatures", "chip device sensor label", []field{{"current high critical", float, "degrees Celsius"}}}},
			options: func(o *Options) any { return o.SensorsTemperatures },
			build:   func(h *host, o *Options) func(*reading) { return h.temperatures(&o.SensorsTemperatures) },
		},
		{
			name: "sensors_fans", help: "How fast the fans turn that the board tells of; those that only the BMC knows of are not here.",
			stock: "sensors, with lm-sensors; ipmi_sensor, of the BMC", usual: true,
			rows:    []row{{"node_sensors_fans", "chip device sensor label", []field{{"current", integer, "turns a minute"}}}},
			options: func(o *Options) any { return o.SensorsFans },
			build:   func(h *host, o *Options) func(*reading) { return h.fans(&o.SensorsFans) },
		},
		{
			name: "sensors_battery", help: "How full batteries are, and how long they last without mains.",
			stock: "none",
			rows: []row{{"node_sensors_battery", "battery", []field{
				{"percent", float, "%"}, {"secsleft", integer, "seconds"}, {"power_plugged", integer, truth},
			}}},
			options: func(o *Options) any { return o.SensorsBattery },
			build:   func(h *host, o *Options) func(*reading) { return h.battery(&o.SensorsBattery) },
		},
	}
}

func systemSensors() []*sensor {
	return []*sensor{
		{
			name: "boot_time", help: "When the machine started.",
			stock:   "kernel: boot_time",
			rows:    []row{{"node_boot_time", "", []field{{"boot_time", integer, "seconds since 1970"}}}},
			options: func(o *Options) any { return o.BootTime },
			build:   func(h *host, o *Options) func(*reading) { return h.bootTime(&o.BootTime) },
		},
		{
			name: "users", help: "How many sessions of how many users utmp has; with the option users also which.",
			stock: "system: n_users, n_unique_users; who_users of telegraf-hpc tells more",
			rows: []row{
				{"node_users", "", []field{{"sessions", integer, "sessions"}, {"users", integer, "users"}}},
				{"node_user", "", []field{{"name terminal host", str, "names"}, {"started", integer, "seconds since 1970"}, {"pid", integer, plain}}},
			},
			options: func(o *Options) any { return o.Users },
			build:   func(h *host, o *Options) func(*reading) { return h.users(&o.Users) },
		},
		{
			name: "job_cgroups", help: "What each Slurm job on this node uses, from its control groups of version 1 and 2, and its GPUs by allocation and by use.",
			stock: "cgroup: files of given groups, as they are; nvidia_smi: GPUs, without jobs",
			rows: []row{
				{"node_job_cgroups", "job node", []field{
					{"cpu_seconds cpu_user_seconds cpu_system_seconds", float, "seconds"},
					{"memory_bytes memory_peak_bytes memory_limit_bytes io_read_bytes io_write_bytes", integer, "bytes"},
					{"processes steps gpus_allocated gpus_used gpus_idle uid", integer, plain},
				}},
				{"node_job_gpu", "job node gpu", []field{
					{"allocated", integer, truth}, {"processes", integer, "processes"}, {"memory_bytes", integer, "bytes"},
				}},
			},
			options: func(o *Options) any { return o.JobCgroups },
			build:   func(h *host, o *Options) func(*reading) { return h.jobCgroups(&o.JobCgroups) },
		},
	}
}
