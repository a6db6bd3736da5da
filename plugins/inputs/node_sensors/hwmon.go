package node_sensors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chip is a folder of /sys/class/hwmon (the kernel's Documentation/hwmon/sysfs-interface.rst).
type chip struct {
	folder string
	name   string // Of its driver.
	device string // Where it is, such as 0000:01:00.0 or coretemp.0: unlike hwmon3 the same after each boot.
}

// chips gives the chips that have sensors of a kind, such as temp.
func (h *host) chips(kind string) ([]chip, map[string][]string, error) {
	class := filepath.Join(h.sys, "class/hwmon")
	names, err := list(class)
	if err != nil {
		return nil, nil, err
	}
	var found []chip
	sensors := make(map[string][]string)
	for _, name := range names {
		folder := filepath.Join(class, name)
		ids, err := inputsOf(folder, kind)
		if err != nil {
			return nil, nil, err
		}
		if len(ids) == 0 { // Old kernels have the files with the device.
			folder = filepath.Join(folder, "device")
			if ids, err = inputsOf(folder, kind); err != nil {
				return nil, nil, err
			}
		}
		driver, err := text(folder, "name")
		if len(ids) == 0 || err != nil {
			continue
		}
		device := name
		if target, err := os.Readlink(filepath.Join(class, name, "device")); err == nil {
			device = filepath.Base(target)
		}
		found = append(found, chip{folder, driver, device})
		sensors[folder] = ids
	}
	return found, sensors, nil
}

// inputsOf gives the sensors of a chip, such as temp1, in order.
func inputsOf(folder, kind string) ([]string, error) {
	files, err := list(folder)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, file := range files {
		if id, ok := strings.CutSuffix(file, "_input"); ok && strings.HasPrefix(file, kind) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// hwmon measures the sensors of a kind. Chips with broken sensors are common: what one does not tell is left out, and
// nothing is said of it.
func (h *host) hwmon(kind, absent string, measure func(folder, id string) map[string]any) func(*reading) {
	return func(r *reading) {
		chips, sensors, err := h.chips(kind)
		if err != nil {
			r.fail("", err)
			return
		}
		for _, c := range chips {
			for _, id := range sensors[c.folder] {
				tags := map[string]string{"chip": c.name, "device": c.device, "sensor": id}
				if label, err := text(c.folder, id+"_label"); err == nil && label != "" {
					tags["label"] = label
				}
				r.add(tags, measure(c.folder, id))
			}
		}
		if len(r.points) == 0 {
			r.absent = absent
		}
	}
}

func (h *host) temperatures(*Plain) func(*reading) {
	measure := h.hwmon("temp", "there is no sensor of temperatures in /sys/class/hwmon or /sys/class/thermal",
		func(folder, id string) map[string]any {
			return degrees(folder, map[string]string{"current": id + "_input", "high": id + "_max", "critical": id + "_crit"})
		})
	return func(r *reading) {
		measure(r)
		if r.absent == "" || len(r.troubles) > 0 {
			return
		}
		zones, err := list(filepath.Join(h.sys, "class/thermal"))
		if err != nil {
			r.fail("", err)
			return
		}
		for _, zone := range zones {
			h.zone(r, zone)
		}
		if len(r.points) > 0 {
			r.absent = ""
		}
	}
}

// zone is what machines have whose sensors have no chip in hwmon (Documentation/driver-api/thermal/sysfs-api.rst).
func (h *host) zone(r *reading, name string) {
	folder := filepath.Join(h.sys, "class/thermal", name)
	kind, err := text(folder, "type")
	if err != nil || !strings.HasPrefix(name, "thermal_zone") {
		return
	}
	fields := degrees(folder, map[string]string{"current": "temp"})
	if len(fields) > 0 {
		r.add(map[string]string{"chip": kind, "device": name, "sensor": "temp"}, fields)
	}
}

// degrees reads files of millidegrees. Without the current one there is nothing.
func degrees(folder string, files map[string]string) map[string]any {
	fields := make(map[string]any)
	for name, file := range files {
		if n, err := number(folder, file); err == nil {
			fields[name] = float64(n) / 1000
		}
	}
	if _, ok := fields["current"]; !ok {
		return nil
	}
	return fields
}

func (h *host) fans(*Plain) func(*reading) {
	return h.hwmon("fan", "there is no fan in /sys/class/hwmon", func(folder, id string) map[string]any {
		n, err := number(folder, id+"_input")
		if err != nil {
			return nil
		}
		return map[string]any{"current": n}
	})
}

// battery tells of each battery; psutil does of the first (Documentation/ABI/testing/sysfs-class-power).
func (h *host) battery(*Plain) func(*reading) {
	return func(r *reading) {
		class := filepath.Join(h.sys, "class/power_supply")
		names, err := list(class)
		if err != nil {
			r.fail("", err)
			return
		}
		for _, name := range names {
			if strings.HasPrefix(name, "BAT") || strings.Contains(strings.ToLower(name), "battery") {
				r.add(map[string]string{"battery": name}, batteryFields(class, name))
			}
		}
		if len(r.points) == 0 {
			r.absent = "there is no battery in /sys/class/power_supply"
		}
	}
}

func batteryFields(class, name string) map[string]any {
	folder := filepath.Join(class, name)
	first := func(files ...string) (float64, bool) {
		for _, file := range files {
			if n, err := number(folder, file); err == nil {
				return float64(n), true
			}
		}
		return 0, false
	}
	fields := make(map[string]any)
	now, hasNow := first("energy_now", "charge_now")
	full, hasFull := first("energy_full", "charge_full")
	if capacity, ok := first("capacity"); hasNow && hasFull && full > 0 {
		fields["percent"] = 100 * now / full
	} else if ok && capacity >= 0 {
		fields["percent"] = capacity
	}
	status, _ := text(folder, "status")
	plugged, known := status == "Charging" || status == "Full", status == "Charging" || status == "Full" || status == "Discharging"
	for _, supply := range []string{"AC", "AC0"} {
		if online, err := number(class, supply, "online"); err == nil {
			plugged, known = online == 1, true
		}
	}
	if known {
		fields["power_plugged"] = yes(plugged)
	}
	if known && plugged {
		return fields // It lasts for ever.
	}
	if power, ok := first("power_now", "current_now"); ok && power > 0 && hasNow {
		fields["secsleft"] = int64(now / power * 3600)
	} else if minutes, ok := first("time_to_empty_now"); ok && !hasNow && minutes >= 0 {
		fields["secsleft"] = int64(minutes * 60)
	}
	return fields
}
