package migrate

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sensor is one of the tools' sensors, and ours of the same meaning.
type sensor struct{ theirs, ours string }

func sensors() []sensor {
	return []sensor{
		{"CPUPercent", "cpu_percent"}, {"VirtualMemory", "virtual_memory"}, {"CPUTimes", "cpu_times"}, {"CPUTimesPercent", "cpu_times_percent"},
		{"CPUCount", "cpu_count"}, {"CPUStats", "cpu_stats"}, {"CPUFreq", "cpu_freq"}, {"SwapMemory", "swap_memory"},
		{"DiskPartitions", "disk_partitions"}, {"DiskUsage", "disk_usage"}, {"DiskIOCounters", "disk_io_counters"},
		{"NetIOCounters", "net_io_counters"}, {"NetConnections", "net_connections"}, {"NetIFAddrs", "net_if_addrs"},
		{"NetIFStats", "net_if_stats"}, {"SensorsTemperatures", "sensors_temperatures"}, {"SensorsFans", "sensors_fans"},
		{"SensorsBattery", "sensors_battery"}, {"BootTime", "boot_time"}, {"Users", "users"},
	}
}

// shortest is how often Telegraf gathers at most.
const shortest = time.Second

// unknown is the error about a setting that the tool does not have either.
func unknown(name string, s iniSetting) error {
	if s.key == "" {
		return fmt.Errorf("%s: section [%s] is not known", name, s.section)
	}
	return fmt.Errorf("%s: [%s] %s is not known", name, s.section, s.key)
}

// agent reads lagent.conf, and qagent.conf, which is the same with another name of the master.
func (m *migration) agent(source Source, master string) error {
	settings, err := parseINI(source.Name, source.Text)
	if err != nil {
		return err
	}
	a := agentFile{migration: m, name: source.Name, found: map[string]*chosenSensor{}}
	for _, s := range settings {
		kind, sensorName, isSensor := strings.Cut(s.section, ":")
		switch {
		case isSensor && kind == "sensor":
			err = a.sensor(s, sensorName)
		case s.section == master:
			err = a.shared(s, "the agent's own outputs: it writes to the database itself, and needs no master")
		case s.section == "logging":
			err = a.logging(s)
		case s.section == "Graphite":
			err = a.graphite(s)
		default:
			err = unknown(source.Name, s)
		}
		if err != nil {
			return err
		}
	}
	return a.finish()
}

// chosenSensor is a sensor that a file switches on.
type chosenSensor struct {
	ours     string
	interval time.Duration
	path     string
}

// agentFile is one file of an agent.
type agentFile struct {
	*migration
	name  string
	found map[string]*chosenSensor
	order []string
}

func (m *agentFile) from(s iniSetting) string {
	return fmt.Sprintf("%s [%s] %s", m.name, s.section, s.key)
}

func (m *agentFile) sensor(s iniSetting, name string) error {
	if s.key == "" {
		return m.open(s, name)
	}
	c := m.found[name]
	switch {
	case s.key == "time_interval":
		seconds, err := strconv.ParseFloat(s.value, 64)
		if err != nil || seconds <= 0 || math.IsInf(seconds, 0) || seconds > 1e9 {
			return fmt.Errorf("%s: [%s] time_interval: %q is no number of seconds", m.name, s.section, s.value)
		}
		interval := time.Duration(math.Round(seconds*1000)) * time.Millisecond
		if c == nil {
			m.say(Replaced, m.from(s), s.value, "the interval of slurm_load on the head node")
			return nil
		}
		if interval < shortest {
			c.interval = shortest
			m.say(Replaced, m.from(s), s.value, "node_sensors.conf: "+c.ours+" at each gather, every "+shortest.String()+": that is as often as Telegraf goes here")
			return nil
		}
		c.interval = interval
		m.say(Kept, m.from(s), s.value, fmt.Sprintf("node_sensors.conf: [inputs.node_sensors.sensor.%s] interval = %q", c.ours, interval))
	case s.key == "path" && name == "DiskUsage":
		c.path = s.value
		m.say(Kept, m.from(s), s.value, "node_sensors.conf: [inputs.node_sensors.sensor.disk_usage] path = ["+quote(s.value)+"]")
	default:
		return unknown(m.name, s)
	}
	return nil
}

// open takes up a sensor at its section's head.
func (m *agentFile) open(s iniSetting, name string) error {
	at := m.name + " [" + s.section + "]"
	if name == "SlurmJobs" {
		m.say(Replaced, at, "on", "slurm_load, on the head node alone: telegraf-hpc config --role head")
		return nil
	}
	i := slices.IndexFunc(sensors(), func(k sensor) bool { return k.theirs == name })
	if i < 0 {
		return fmt.Errorf("%s: section [%s]: there is no sensor %s", m.name, s.section, name)
	}
	ours := sensors()[i].ours
	m.found[name] = &chosenSensor{ours: ours}
	m.order = append(m.order, name)
	now := "node_sensors.conf: sensor " + ours
	if name == "CPUPercent" {
		now += ", with percpu = true, since it told of each CPU"
	}
	m.say(Kept, at, "on", now)
	return nil
}

// shared is about where agents and master meet.
func (m *agentFile) shared(s iniSetting, by string) error {
	switch s.key {
	case "":
	case "host", "incoming data port":
		m.say(Replaced, m.from(s), s.value, by)
	default:
		return unknown(m.name, s)
	}
	return nil
}

func (m *agentFile) logging(s iniSetting) error {
	switch s.key {
	case "":
	case "filename":
		m.say(Replaced, m.from(s), s.value, "Telegraf's own log: the journal, or [agent] logfile")
	case "maxbytes", "backupcount":
		m.say(Replaced, m.from(s), s.value, "the journal's limits, or [agent] logfile_rotation_max_size and _max_archives")
	case "level":
		m.say(Replaced, m.from(s), s.value, "[agent] debug or quiet, left at their defaults: with debug Telegraf logs each write")
	default:
		return unknown(m.name, s)
	}
	return nil
}

// graphite is in files of agents, too, whose program does not read it.
func (m *agentFile) graphite(s iniSetting) error {
	switch s.key {
	case "":
	case "host", "carbon receiver pickle port":
		m.say(Dropped, m.from(s), s.value, "no agent reads it: it belongs into the master's file")
	default:
		return unknown(m.name, s)
	}
	return nil
}

// finish writes node_sensors.conf.
func (m *agentFile) finish() error {
	var names []string
	var tables strings.Builder
	gather := time.Duration(0)
	for _, name := range m.order {
		c := m.found[name]
		if c.interval == 0 {
			return fmt.Errorf("%s: section [sensor:%s] has no time_interval", m.name, name)
		}
		gather = common(gather, c.interval)
		names = append(names, strconv.Quote(c.ours))
	}
	if len(names) == 0 {
		m.note(m.name + " switches no sensor on that is one of node_sensors")
		return nil
	}
	gather = max(gather, shortest)
	for _, name := range m.order {
		c := m.found[name]
		fmt.Fprintf(&tables, "\n  [inputs.node_sensors.sensor.%s]\n    interval = %q\n", c.ours, c.interval)
		if name == "CPUPercent" {
			tables.WriteString("    percpu = true\n")
		}
		if c.path != "" {
			fmt.Fprintf(&tables, "    path = [%s]\n", quote(c.path))
		}
	}
	text := "[[inputs.node_sensors]]\n  sensors = [\n    " + strings.Join(names, ",\n    ") + ",\n  ]\n" + tables.String()
	return m.program("node_sensors", fmt.Sprintf("  ## The longest interval that all sensors' are multiples of, but no less than a second.\n  interval = %q\n", gather), text)
}

// common gives the longest interval that two are multiples of; 0 is a multiple of all.
func common(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// master reads lmaster.conf and qmaster.conf: where the metrics went.
func (m *migration) master(source Source, section string) error {
	settings, err := parseINI(source.Name, source.Text)
	if err != nil {
		return err
	}
	a := agentFile{migration: m, name: source.Name}
	host := "localhost"
	for _, s := range settings {
		switch {
		case s.section == section:
			err = a.shared(s, "nothing: agents write to the database themselves, and no host gathers for them")
		case s.section == "logging":
			err = a.logging(s)
		case s.section == "Graphite" && s.key == "":
		case s.section == "Graphite" && s.key == "host":
			host = s.value
			m.say(Kept, a.from(s), s.value, "outputs.graphite: servers")
		case s.section == "Graphite" && s.key == "carbon receiver pickle port":
			m.say(Replaced, a.from(s), s.value, "port 2003 of outputs.graphite, which speaks carbon's plaintext protocol: see LINE_RECEIVER_PORT in carbon.conf")
		case s.section == "Redis" && (s.key == "" || s.key == "db"):
			if s.key != "" {
				m.say(Dropped, a.from(s), s.value, "Telegraf keeps what waits in its own memory")
			}
		default:
			err = unknown(source.Name, s)
		}
		if err != nil {
			return err
		}
	}
	text, err := graphiteOutput(m, net.JoinHostPort(host, "2003"))
	if err != nil {
		return err
	}
	m.output(text)
	m.note("paths in Graphite are now HOST.node_SENSOR.TAGS.FIELD, where they were HOST.Sensor.FIELD: dashboards change")
	return nil
}

// graphiteOutput gives sample.conf's table with another server.
func graphiteOutput(m *migration, address string) (string, error) {
	return m.sampleTable("outputs.graphite", change{`["127.0.0.1:2003"]`, "[" + quote(address) + "]"})
}
