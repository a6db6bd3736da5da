package node_sensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const everySensor = `sensors = ["cpu_times", "cpu_count", "cpu_stats", "cpu_freq", "virtual_memory", "swap_memory", "disk_partitions",
  "disk_usage", "disk_io_counters", "net_io_counters", "net_connections", "net_if_addrs", "net_if_stats", "boot_time"]
[inputs.node_sensors.sensor.cpu_times]
percpu = true
[inputs.node_sensors.sensor.cpu_count]
interval = "0s"
[inputs.node_sensors.sensor.cpu_freq]
percpu = true
[inputs.node_sensors.sensor.disk_partitions]
interval = "0s"
[inputs.node_sensors.sensor.disk_io_counters]
perdisk = true
[inputs.node_sensors.sensor.net_io_counters]
pernic = true
ignore = []
[inputs.node_sensors.sensor.net_connections]
list = true
[inputs.node_sensors.sensor.net_if_addrs]
interval = "0s"
ignore = []
[inputs.node_sensors.sensor.net_if_stats]
ignore = []
[inputs.node_sensors.sensor.boot_time]
interval = "0s"
`

// fields are ours or psutil's of one thing.
type fields = map[string]any

// notKnown is what psutil gives where ours leave a field out.
const notKnown = 0

// counters requires that each counter of ours lies between the two readings of psutil's, to the last digit.
func counters(before, ours, after fields) error {
	var errs []error
	for name := range before {
		if name == "syscalls" {
			continue // Linux does not count them: psutil's is always 0.
		}
		low, high, value := before[name].(float64), after[name].(float64), asFloat(ours[name])
		// Time without work is an estimate of the kernel, and may go back.
		slack := 0.0
		if name == "idle" || name == "iowait" {
			slack = 0.01 * high
		}
		const rounding = 1e-6
		if !(value >= low-slack-rounding && value <= high+slack+rounding) {
			errs = append(errs, fmt.Errorf("%s: %v is not between %v and %v", name, value, low, high))
		}
	}
	if len(before) == 0 {
		errs = append(errs, errors.New("psutil gave nothing"))
	}
	return errors.Join(errs...)
}

func asFloat(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		return math.NaN()
	}
}

// gauges requires that each of psutil's figures is within 1 % in ours, or as near as psutil's rounding of percentages
// lets it be.
func gauges(before, ours, after fields) error {
	var errs []error
	for name := range before {
		low, high := before[name].(float64), after[name].(float64)
		value, ok := ours[name]
		if !ok && low == notKnown && high == notKnown {
			continue
		}
		slack := 0.01 * math.Max(math.Abs(low), math.Abs(high))
		if name == "percent" {
			slack += 0.05
		}
		if got := asFloat(value); !(got >= min(low, high)-slack && got <= max(low, high)+slack) {
			errs = append(errs, fmt.Errorf("%s: %v is not within 1 %% of %v and %v", name, value, low, high))
		}
	}
	for name := range ours {
		if _, ok := before[name]; !ok {
			errs = append(errs, fmt.Errorf("%s: psutil does not have it", name))
		}
	}
	return errors.Join(errs...)
}

// Every figure of psutil's is in ours, of the same moment: between two readings of psutil's where it counts, else within
// 1 %. The machine does other things meanwhile: what jumped is measured again.
func TestAgainstPsutil(t *testing.T) {
	t.Parallel()
	theirs := startPsutil(t, "")
	ours := startPlugin(t, "", everySensor)
	harness.Eventually(t, harness.Patience, func() error {
		before := theirs.ask("")
		points := ours.gather()
		after := theirs.ask("")
		var errs []error
		check := func(what string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
		}
		both := func(name string) (fields, fields) { return before[name].(fields), after[name].(fields) }
		compareCounters(t, check, before, points, after)
		for _, name := range []string{"virtual_memory", "disk_usage", "cpu_count"} {
			low, high := both(name)
			check(name, gauges(low, find(t, points, "node_"+name), high))
		}
		low, high := both("cpu_freq")
		check("cpu_freq", gauges(low, find(t, points, "node_cpu_freq", "cpu", "cpu-total"), high))
		for i, each := range before["cpu_freq_percpu"].([]any) {
			row := find(t, points, "node_cpu_freq", "cpu", fmt.Sprintf("cpu%d", i))
			check("cpu_freq", gauges(each.(fields), row, after["cpu_freq_percpu"].([]any)[i].(fields)))
		}
		require.InDelta(t, before["boot_time"], floatOf(t, find(t, points, "node_boot_time")["boot_time"]), 0)
		check("net_connections", compareConnections(before["net_connections"], points, after["net_connections"]))
		return errors.Join(errs...)
	})
	requireAddresses(t, theirs, ours)
	requireInterfaces(t, theirs, ours)
	requirePartitions(t, theirs, ours)
}

func compareCounters(t *testing.T, check func(string, error), before map[string]any, points []point, after map[string]any) {
	t.Helper()
	both := func(name string) (fields, fields) { return before[name].(fields), after[name].(fields) }
	low, high := both("cpu_times")
	check("cpu_times", counters(low, find(t, points, "node_cpu_times", "cpu", "cpu-total"), high))
	for i, each := range before["cpu_times_percpu"].([]any) {
		row := find(t, points, "node_cpu_times", "cpu", fmt.Sprintf("cpu%d", i))
		check("cpu_times", counters(each.(fields), row, after["cpu_times_percpu"].([]any)[i].(fields)))
	}
	low, high = both("cpu_stats")
	check("cpu_stats", counters(low, find(t, points, "node_cpu_stats"), high))
	low, high = both("disk_io_counters")
	check("disk_io_counters", counters(low, find(t, points, "node_disk_io_counters", "disk", "all"), high))
	disks, later := both("disk_io_counters_perdisk")
	for disk, each := range disks {
		if row, ok := lookFor(points, "node_disk_io_counters", "disk", disk); ok {
			check("disk "+disk, counters(each.(fields), row, later[disk].(fields)))
		} else {
			require.Zero(t, each.(fields)["read_count"], "%s has done something", disk)
		}
	}
	low, high = both("net_io_counters")
	check("net_io_counters", counters(low, find(t, points, "node_net_io_counters", "interface", "all"), high))
	nics, later := both("net_io_counters_pernic")
	for nic, each := range nics {
		check("interface "+nic, counters(each.(fields), find(t, points, "node_net_io_counters", "interface", nic), later[nic].(fields)))
	}
	low, high = both("swap_memory")
	row := maps.Clone(find(t, points, "node_swap_memory"))
	moved := func(f fields) fields { return fields{"sin": f["sin"], "sout": f["sout"]} }
	check("swap_memory", counters(moved(low), row, moved(high)))
	for _, f := range []fields{low, row, high} {
		delete(f, "sin")
		delete(f, "sout")
	}
	check("swap_memory", gauges(low, row, high))
}

// compareConnections requires the same connections as psutil saw, where it saw the same before and after.
func compareConnections(before any, points []point, after any) error {
	rows := func(list any) []string {
		all := make([]string, 0, len(list.([]any)))
		for _, c := range list.([]any) {
			c := c.(fields)
			row := fmt.Sprint(c["family"], c["type"], c["status"], " ", endpoint(c["laddr"]), " ", endpoint(c["raddr"]))
			if c["pid"] != nil {
				row += fmt.Sprint(" ", c["pid"], " ", c["fd"])
			}
			all = append(all, row)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	theirs := rows(before)
	if !slices.Equal(theirs, rows(after)) {
		return errors.New("they come and go")
	}
	var ours []string
	counts := make(map[string]int64)
	for _, p := range all(points, "node_net_connection") {
		kind := p.tags["family"] + p.tags["type"] + p.tags["status"]
		counts[kind]++
		row := fmt.Sprint(kind, " ", orEmpty(p.fields["laddr"]), " ", orEmpty(p.fields["raddr"]))
		if p.fields["pid"] != nil {
			row += fmt.Sprint(" ", p.fields["pid"], " ", p.fields["fd"])
		}
		ours = append(ours, row)
	}
	slices.Sort(ours)
	ours = slices.Compact(ours)
	if !slices.Equal(theirs, ours) {
		return fmt.Errorf("psutil has\n%s\nwe have\n%s", strings.Join(theirs, "\n"), strings.Join(ours, "\n"))
	}
	for _, p := range all(points, "node_net_connections") {
		if n := counts[p.tags["family"]+p.tags["type"]+p.tags["status"]]; p.fields["connections"] != n {
			return fmt.Errorf("%v: %v connections, but %d are listed", p.tags, p.fields["connections"], n)
		}
	}
	return nil
}

func orEmpty(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// endpoint gives an address of psutil's as ours are.
func endpoint(address any) string {
	a, ok := address.(fields)
	if !ok {
		return ""
	}
	ip := a["ip"].(string)
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return fmt.Sprintf("%s:%v", ip, a["port"])
}

func requireAddresses(t *testing.T, theirs *psutil, ours *plugin) {
	t.Helper()
	want := make(map[string]fields)
	for device, list := range theirs.ask("")["net_if_addrs"].(fields) {
		for _, each := range list.([]any) {
			a := each.(fields)
			ip, _, _ := strings.Cut(a["address"].(string), "%") // The interface is a tag of ours.
			row := fields{}
			for _, name := range []string{"netmask", "broadcast", "ptp"} {
				if a[name] != nil {
					row[name] = a[name]
				}
			}
			want[fmt.Sprint(device, a["family"], ip)] = row
		}
	}
	got := make(map[string]fields)
	for _, p := range all(ours.gather(), "node_net_if_addrs") {
		row := maps.Clone(p.fields)
		delete(row, "prefix_length")
		delete(row, "isup")
		got[p.tags["interface"]+p.tags["family"]+p.tags["address"]] = row
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

func requireInterfaces(t *testing.T, theirs *psutil, ours *plugin) {
	t.Helper()
	points := ours.gather()
	want := theirs.ask("")["net_if_stats"].(fields)
	require.Len(t, all(points, "node_net_if_stats"), len(want))
	for device, each := range want {
		w, got := each.(fields), find(t, points, "node_net_if_stats", "interface", device)
		require.Equal(t, w["flags"], got["flags"], device)
		require.Equal(t, w["isup"].(bool), got["isup"] == int64(1), device)
		require.InDelta(t, w["mtu"], floatOf(t, got["mtu"]), 0, device)
		if speed := w["speed"].(float64); speed == notKnown {
			require.NotContains(t, got, "speed", device)
		} else {
			require.InDelta(t, speed, floatOf(t, got["speed"]), 0, device)
		}
		duplex := map[any]any{"NIC_DUPLEX_FULL": "full", "NIC_DUPLEX_HALF": "half"}[w["duplex"]]
		require.Equal(t, duplex, got["duplex"], device)
	}
}

func requirePartitions(t *testing.T, theirs *psutil, ours *plugin) {
	t.Helper()
	points := ours.gather()
	list := theirs.ask("")["disk_partitions"].([]any)
	want := make(map[any]fields)
	for _, each := range list {
		want[each.(fields)["mountpoint"]] = each.(fields) // The last hides the others, as with us.
	}
	require.Len(t, all(points, "node_disk_partitions"), len(want))
	for folder, w := range want {
		got := find(t, points, "node_disk_partitions", "mountpoint", folder.(string), "device", w["device"].(string), "fstype", w["fstype"].(string))
		require.Equal(t, w["opts"], got["opts"])
	}
}

// How busy the CPUs were is what psutil says of the same time, within 1 %. What psutil counted before and after our two
// readings says how far apart the two can be at most.
func TestCPUPercentAgainstPsutil(t *testing.T) {
	t.Parallel()
	theirs := startPsutil(t, "")
	ours := startPlugin(t, "", "sensors = [\"cpu_percent\", \"cpu_times_percent\"]\n")
	harness.Eventually(t, 2*harness.Patience, func() error {
		theirs.ask("cpu")
		ours.gather()
		begin := theirs.ask("cpu")
		time.Sleep(3 * time.Second) // Of which both are to say how busy the CPUs were.
		end := theirs.ask("cpu")
		points := ours.gather()
		late := theirs.ask("cpu")
		// psutil's percentages at `end` are since `begin`. What happened outside of that is what the two may differ by.
		inside := spent(begin, end)
		outside := spent(end, late)
		if outside > 0.01*inside {
			return fmt.Errorf("the machine is too busy to read both at the same moment: %.2f s of %.2f s between", outside, inside)
		}
		var errs []error
		compare := func(name string, want, got any) {
			// 1 % of the whole, as psutil's are rounded to a tenth, and of small ones 1 % is less than a tick of the clock.
			if diff := math.Abs(want.(float64) - got.(float64)); !(diff <= 1) {
				errs = append(errs, fmt.Errorf("%s: psutil %.1f, we %.3f", name, want, got))
			}
		}
		compare("cpu_percent", end["cpu_percent"], find(t, points, "node_cpu_percent")["percent"])
		row := find(t, points, "node_cpu_times_percent")
		for name, want := range end["cpu_times_percent"].(fields) {
			compare(name, want, row[name])
		}
		return errors.Join(errs...)
	})
}

// spent gives the seconds of all CPUs between two answers.
func spent(from, to map[string]any) float64 {
	sum := 0.0
	for name, value := range to["cpu_times"].(fields) {
		if !strings.HasPrefix(name, "guest") {
			sum += value.(float64) - from["cpu_times"].(fields)[name].(float64)
		}
	}
	return sum
}

// Temperatures, fans, the battery, limits of frequencies and sessions are as psutil has them of the same files, which both
// see in place of this machine's.
func TestBoardAgainstPsutil(t *testing.T) {
	t.Parallel()
	board := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(board, "utmp"), utmp(t), 0o644))
	setup := fmt.Sprintf(`mount -t tmpfs none /sys/class
cp -r %[1]q/sys/class/. /sys/class/
rm /sys/class/hwmon/hwmon3/device/fan3_input # Which psutil fails at as a whole.
mount -t tmpfs none /sys/devices/system/cpu
cp -r %[1]q/sys/devices/system/cpu/. /sys/devices/system/cpu/
cp %[2]q/utmp /tmp/utmp.$$
mount -t tmpfs none /run
mv /tmp/utmp.$$ /run/utmp
`, testcase(t, "compute_node/1"), board)
	theirs := startPsutil(t, setup).ask("")
	points := startPlugin(t, setup, `sensors = ["sensors_temperatures", "sensors_fans", "sensors_battery", "cpu_freq", "cpu_count", "users"]
[inputs.node_sensors.sensor.users]
users = "name"
`).gather()

	require.Equal(t, wantTemperatures(theirs["sensors_temperatures"].(fields)), gotTemperatures(points))
	fans := theirs["sensors_fans"].(fields)["w83627ehf"].([]any)
	rows := all(points, "node_sensors_fans")
	require.Len(t, rows, len(fans))
	for i, fan := range fans {
		require.InDelta(t, fan.(fields)["current"], floatOf(t, rows[i].fields["current"]), 0)
		require.Equal(t, fan.(fields)["label"], rows[i].tags["label"])
	}
	battery := theirs["sensors_battery"].(fields)
	row := find(t, points, "node_sensors_battery", "battery", "BAT0")
	require.InDelta(t, battery["percent"], row["percent"], 1e-9)
	require.InDelta(t, battery["secsleft"], floatOf(t, row["secsleft"]), 0)
	require.Equal(t, battery["power_plugged"], row["power_plugged"] == int64(1))
	freq := find(t, points, "node_cpu_freq", "cpu", "cpu-total")
	for _, name := range []string{"min", "max"} {
		require.InDelta(t, theirs["cpu_freq"].(fields)[name], freq[name], 1e-9, name)
	}
	require.InDelta(t, theirs["cpu_count"].(fields)["physical"], floatOf(t, find(t, points, "node_cpu_count")["physical"]), 0)

	want, got := make([]string, 0, 3), make([]string, 0, 3)
	var started float64
	for _, each := range theirs["users"].([]any) {
		u := each.(fields)
		started = u["started"].(float64)
		want = append(want, fmt.Sprint(u["name"], " ", u["terminal"], " ", u["host"], " ", u["pid"]))
	}
	for _, p := range all(points, "node_user") {
		got = append(got, fmt.Sprint(p.fields["name"], " ", p.fields["terminal"], " ", orEmpty(p.fields["host"]), " ", p.fields["pid"]))
		// psutil's has gone through a float of 32 bits, which rounds it to 128 seconds.
		require.InDelta(t, started, floatOf(t, p.fields["started"]), 64)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Len(t, want, 3)
	require.Equal(t, want, got)
}

// wantTemperatures gives psutil's, without its guess that a sensor with one limit has the other at the same height.
func wantTemperatures(chips fields) (all []string) {
	for chip, list := range chips {
		for _, each := range list.([]any) {
			s := each.(fields)
			all = append(all, fmt.Sprint(chip, " ", s["label"], " ", s["current"], " ", s["high"], " ", s["critical"]))
		}
	}
	slices.Sort(all)
	return all
}

func gotTemperatures(points []point) (rows []string) {
	for _, p := range all(points, "node_sensors_temperatures") {
		rows = append(rows, fmt.Sprint(p.tags["chip"], " ", p.tags["label"], " ", p.fields["current"], " ", p.fields["high"], " ", p.fields["critical"]))
	}
	slices.Sort(rows)
	return rows
}

// utmp makes records (utmp(5)) of sessions of this test's own process, which lives.
func utmp(t *testing.T) []byte {
	t.Helper()
	all := make([]byte, 0, 3*384)
	for i, s := range []struct{ line, user, host string }{{"pts/0", "alice", "login.example.org"}, {"tty1", "bob", ""}, {":0", "carol", ":0"}} {
		record := make([]byte, 384)
		binary.LittleEndian.PutUint16(record, 7)
		binary.LittleEndian.PutUint32(record[4:], uint32(os.Getpid()))
		copy(record[8:], s.line)
		copy(record[44:], s.user)
		copy(record[76:], s.host)
		binary.LittleEndian.PutUint32(record[340:], uint32(1795260000+i))
		all = append(all, record...)
	}
	return all
}
