package node_sensors

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/filter"

	"telegraf-hpc/internal/users"
)

// Options are the options of each sensor, each in a table with its name. The tag about is what --list says of one.
type Options struct {
	CPUPercent          PerCPU      `toml:"cpu_percent"`
	VirtualMemory       Plain       `toml:"virtual_memory"`
	CPUTimes            PerCPU      `toml:"cpu_times"`
	CPUTimesPercent     PerCPU      `toml:"cpu_times_percent"`
	CPUCount            Plain       `toml:"cpu_count"`
	CPUStats            Plain       `toml:"cpu_stats"`
	CPUFreq             PerCPU      `toml:"cpu_freq"`
	SwapMemory          Plain       `toml:"swap_memory"`
	DiskPartitions      Partitions  `toml:"disk_partitions"`
	DiskUsage           Usage       `toml:"disk_usage"`
	DiskIOCounters      PerDisk     `toml:"disk_io_counters"`
	NetIOCounters       PerNIC      `toml:"net_io_counters"`
	NetConnections      Connections `toml:"net_connections"`
	NetIFAddrs          Interfaces  `toml:"net_if_addrs"`
	NetIFStats          Interfaces  `toml:"net_if_stats"`
	SensorsTemperatures Plain       `toml:"sensors_temperatures"`
	SensorsFans         Plain       `toml:"sensors_fans"`
	SensorsBattery      Plain       `toml:"sensors_battery"`
	BootTime            Plain       `toml:"boot_time"`
	Users               Users       `toml:"users"`
	JobCgroups          JobCgroups  `toml:"job_cgroups"`
}

// Plain are the options of a sensor that has no others.
type Plain struct {
	Interval config.Duration `toml:"interval" about:"measure no more often than this; 0s is at each gather"`
}

func (o Plain) every() time.Duration { return time.Duration(o.Interval) }

// PerCPU are the options of what each CPU has.
type PerCPU struct {
	Plain
	PerCPU bool `toml:"percpu" about:"tell of each CPU, too"`
}

// PerDisk are the options of disk_io_counters.
type PerDisk struct {
	Plain
	PerDisk bool `toml:"perdisk" about:"tell of each disk and partition, too"`
}

// Interfaces chooses network interfaces.
type Interfaces struct {
	Plain
	Interfaces []string `toml:"interfaces" about:"patterns of the interfaces to tell of"`
	Ignore     []string `toml:"ignore" about:"patterns of those to leave out: a container's come and go"`
}

// PerNIC are the options of net_io_counters.
type PerNIC struct {
	Interfaces
	PerNIC bool `toml:"pernic" about:"tell of each interface, too"`
}

// Partitions are the options of disk_partitions.
type Partitions struct {
	Plain
	Fstypes []string `toml:"fstypes" about:"types of file systems to tell of that no block device holds, such as nfs4, lustre"`
}

// Usage are the options of disk_usage.
type Usage struct {
	Plain
	Path    Paths           `toml:"path" about:"the file systems, each by a path on it"`
	Timeout config.Duration `toml:"timeout" about:"how long to wait for one path"`
}

// Connections are the options of net_connections.
type Connections struct {
	Plain
	Kind    string `toml:"kind" about:"which connections: inet, inet4, inet6, tcp, tcp4, tcp6, udp, udp4 or udp6"`
	List    bool   `toml:"list" about:"tell of each connection, too, in node_net_connection"`
	MaxRows int    `toml:"max_rows" about:"the most connections to list"`
}

// Users are the options of users.
type Users struct {
	Plain
	Users        string        `toml:"users" about:"\"name\" or \"pseudonym\" tell of each session, too, in node_user; \"none\" does not"`
	PseudonymKey config.Secret `toml:"pseudonym_key" about:"key of the pseudonyms, at least 16 characters"`
}

// JobCgroups are the options of job_cgroups.
type JobCgroups struct {
	Plain
	GPUs       bool            `toml:"gpus" about:"tell of the jobs' GPUs, too, in node_job_gpu"`
	NvidiaSMI  string          `toml:"nvidia_smi" about:"the command that tells which processes use which GPU"`
	Timeout    config.Duration `toml:"timeout" about:"how long that command may take"`
	MountPoint string          `toml:"mountpoint" about:"where the control groups are mounted"`
}

// Paths is one path, or a list of some.
type Paths []string

// UnmarshalTOML takes a string for a list of one.
func (p *Paths) UnmarshalTOML(decode func(any) error) error {
	var one string
	if err := decode(&one); err == nil {
		*p = Paths{one}
		return nil
	}
	var list []string
	if err := decode(&list); err != nil {
		return errors.New("path: must be a string, or a list of strings")
	}
	*p = list
	return nil
}

// newOptions gives the defaults. What hardly ever changes is told every 4 minutes: databases such as Prometheus look no
// further back than 5.
func newOptions() Options {
	still := Plain{Interval: config.Duration(4 * time.Minute)}
	// The ends of containers' and virtual machines' networks.
	interfaces := Interfaces{Interfaces: []string{"*"}, Ignore: []string{"veth*", "cali*", "lxc*", "tap*", "vnet*"}}
	addresses := interfaces
	addresses.Plain = still
	return Options{
		CPUCount: still, DiskPartitions: Partitions{Plain: still}, BootTime: still,
		DiskUsage:      Usage{Path: Paths{"/"}, Timeout: config.Duration(2 * time.Second)},
		NetIOCounters:  PerNIC{Interfaces: interfaces},
		NetIFAddrs:     addresses,
		NetIFStats:     interfaces,
		NetConnections: Connections{Kind: "inet", MaxRows: 1000},
		Users:          Users{Users: "none"},
		JobCgroups: JobCgroups{
			Plain: Plain{Interval: config.Duration(30 * time.Second)},
			GPUs:  true, NvidiaSMI: "nvidia-smi", Timeout: config.Duration(2 * time.Second), MountPoint: "/sys/fs/cgroup",
		},
	}
}

// check checks the options of all sensors, used or not. timeout is what a sensor has in all.
func (o *Options) check(timeout time.Duration) error {
	for name, options := range o.byName() {
		if options.every() < 0 {
			return fmt.Errorf("sensor %s: option interval: must not be negative", name)
		}
	}
	if time.Duration(o.DiskUsage.Timeout) >= timeout {
		return errors.New("sensor disk_usage: option timeout: must be less than that of the plugin")
	}
	if 2*time.Duration(o.JobCgroups.Timeout) >= timeout {
		return errors.New("sensor job_cgroups: option timeout: must be less than half of that of the plugin: there are two commands")
	}
	return errors.Join(o.DiskUsage.check(), o.NetConnections.check(), o.Users.check(), o.JobCgroups.check(),
		o.NetIOCounters.check("net_io_counters"), o.NetIFAddrs.check("net_if_addrs"), o.NetIFStats.check("net_if_stats"))
}

func (o *Usage) check() error {
	if len(o.Path) == 0 {
		return errors.New("sensor disk_usage: option path: empty")
	}
	for i, p := range o.Path {
		if !filepath.IsAbs(p) || path.Clean(p) != p {
			return fmt.Errorf("sensor disk_usage: option path: %q is not an absolute path such as \"/scratch\"", p)
		}
		if slices.Contains(o.Path[:i], p) {
			return fmt.Errorf("sensor disk_usage: option path: %q is there twice", p)
		}
	}
	if o.Timeout <= 0 {
		return errors.New("sensor disk_usage: option timeout: must be more than 0s")
	}
	return nil
}

// kinds are what psutil and gopsutil call kinds, but for those with UNIX sockets, which have no addresses.
func kinds() []string {
	return []string{"inet", "inet4", "inet6", "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}
}

func (o *Connections) check() error {
	if !slices.Contains(kinds(), o.Kind) {
		return fmt.Errorf("sensor net_connections: option kind: %q is none of %q", o.Kind, kinds())
	}
	if o.MaxRows < 1 {
		return errors.New("sensor net_connections: option max_rows: must be at least 1")
	}
	return nil
}

func (o *Users) check() error {
	if _, err := users.New(o.Users, &o.PseudonymKey); err != nil {
		return fmt.Errorf("sensor users: %w", err)
	}
	return nil
}

func (o *JobCgroups) check() error {
	switch {
	case o.NvidiaSMI == "" || o.NvidiaSMI[0] == '-':
		return fmt.Errorf("sensor job_cgroups: option nvidia_smi: %q is no command", o.NvidiaSMI)
	case o.Timeout <= 0:
		return errors.New("sensor job_cgroups: option timeout: must be more than 0s")
	case !filepath.IsAbs(o.MountPoint):
		return fmt.Errorf("sensor job_cgroups: option mountpoint: %q is not an absolute path", o.MountPoint)
	}
	return nil
}

func (o *Interfaces) check(sensor string) error {
	if _, err := o.filter(); err != nil {
		return fmt.Errorf("sensor %s: option interfaces or ignore: %w", sensor, err)
	}
	return nil
}

func (o *Interfaces) filter() (filter.Filter, error) {
	return filter.NewIncludeExcludeFilter(o.Interfaces, o.Ignore)
}

// byName gives the options of each sensor by its name.
func (o *Options) byName() map[string]interface{ every() time.Duration } {
	all := make(map[string]interface{ every() time.Duration })
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		all[v.Type().Field(i).Tag.Get("toml")] = v.Field(i).Interface().(interface{ every() time.Duration })
	}
	return all
}

// described is what --list tells of an option.
type described struct{ name, value, about string }

// describe gives the options of a sensor with their values.
func describe(options any) []described {
	var all []described
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			all = append(all, describe(v.Field(i).Interface())...)
			continue
		}
		all = append(all, described{field.Tag.Get("toml"), literal(v.Field(i).Interface()), field.Tag.Get("about")})
	}
	return all
}

// literal gives a value as TOML has it.
func literal(value any) string {
	switch v := value.(type) {
	case config.Duration:
		return fmt.Sprintf("%q", short(time.Duration(v)))
	case config.Secret:
		return `""`
	case Paths:
		return literal([]string(v))
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case string:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

// short gives 4m0s as 4m.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
