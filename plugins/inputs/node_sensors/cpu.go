package node_sensors

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v3/cpu"
)

// allCPUs is the value of the tag cpu for the whole machine: that of Telegraf's own cpu.
const allCPUs = "cpu-total"

// timesNames are psutil's names of what a CPU spends its time on.
func timesNames() []string {
	return []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}
}

// cpuTimes are seconds in the order of timesNames. Guests' time is part of user's and nice's.
type cpuTimes [10]float64

const (
	idleTime   = 3
	iowaitTime = 4
	guestTime  = 8
)

// readTimes gives the times by the tag cpu.
func (h *host) readTimes(perCPU bool) (map[string]cpuTimes, error) {
	all := make(map[string]cpuTimes)
	for _, each := range []bool{false, true} {
		if each && !perCPU {
			continue
		}
		rows, err := cpu.TimesWithContext(h.ctx, each)
		if err != nil {
			return nil, err
		}
		for _, t := range rows {
			all[t.CPU] = cpuTimes{t.User, t.Nice, t.System, t.Idle, t.Iowait, t.Irq, t.Softirq, t.Steal, t.Guest, t.GuestNice}
		}
	}
	if _, ok := all[allCPUs]; !ok {
		return nil, fmt.Errorf("%s has no times of the CPUs", filepath.Join(h.proc, "stat"))
	}
	return all, nil
}

// since gives what was spent since a reading before, and the sum. A counter that went back, as iowait may, spent nothing.
func (t cpuTimes) since(before cpuTimes) (spent cpuTimes, all float64) {
	for i := range t {
		spent[i] = max(0, t[i]-before[i])
		if i < guestTime {
			all += spent[i]
		}
	}
	return spent, all
}

// spending measures what the CPUs spent their time on between two measurements. The first gives nothing.
func (h *host) spending(perCPU bool, fields func(spent cpuTimes, all float64) map[string]any) func(*reading) {
	var before map[string]cpuTimes
	return func(r *reading) {
		now, err := h.readTimes(perCPU)
		if err != nil {
			r.fail("", err)
			return
		}
		for name, t := range now {
			then, ok := before[name]
			if spent, all := t.since(then); ok && all > 0 {
				r.add(map[string]string{"cpu": name}, fields(spent, all))
			}
		}
		before = now
	}
}

func (h *host) cpuPercent(o *PerCPU) func(*reading) {
	return h.spending(o.PerCPU, func(spent cpuTimes, all float64) map[string]any {
		return map[string]any{"percent": 100 * (all - spent[idleTime] - spent[iowaitTime]) / all}
	})
}

func (h *host) cpuTimesPercent(o *PerCPU) func(*reading) {
	return h.spending(o.PerCPU, func(spent cpuTimes, all float64) map[string]any {
		return timesFields(func(i int) float64 { return min(100, 100*spent[i]/all) })
	})
}

func (h *host) cpuTimes(o *PerCPU) func(*reading) {
	return func(r *reading) {
		now, err := h.readTimes(o.PerCPU)
		if err != nil {
			r.fail("", err)
			return
		}
		for name, t := range now {
			r.add(map[string]string{"cpu": name}, timesFields(func(i int) float64 { return t[i] }))
		}
	}
}

func timesFields(value func(i int) float64) map[string]any {
	fields := make(map[string]any)
	for i, name := range timesNames() {
		fields[name] = value(i)
	}
	return fields
}

func (h *host) cpuCount(*Plain) func(*reading) {
	return func(r *reading) {
		fields := make(map[string]any)
		for name, logical := range map[string]bool{"logical": true, "physical": false} {
			n, err := cpu.CountsWithContext(h.ctx, logical)
			if err != nil {
				r.fail(name, fmt.Errorf("%s: %w", name, err))
			} else if n > 0 {
				fields[name] = int64(n)
			}
		}
		r.add(nil, fields)
	}
}

// cpuStats has no syscalls: Linux does not count them, and psutil's 0 is not known to be 0.
func (h *host) cpuStats(*Plain) func(*reading) {
	return func(r *reading) {
		stat, err := h.stat()
		if err != nil {
			r.fail("", err)
			return
		}
		fields := make(map[string]any)
		count(fields, "ctx_switches", stat.ContextSwitches)
		count(fields, "interrupts", stat.IRQTotal)
		count(fields, "soft_interrupts", stat.SoftIRQTotal)
		r.add(nil, fields)
	}
}

// bootTime is what the kernel says: gopsutil's own differs by a second now and then.
func (h *host) bootTime(*Plain) func(*reading) {
	return func(r *reading) {
		stat, err := h.stat()
		if err != nil {
			r.fail("", err)
			return
		}
		if stat.BootTime > 0 {
			fields := make(map[string]any)
			count(fields, "boot_time", stat.BootTime)
			r.add(nil, fields)
		}
	}
}

func (h *host) stat() (procfs.Stat, error) {
	path := filepath.Join(h.proc, "stat")
	fs, err := procfs.NewFS(h.proc)
	if err != nil {
		return procfs.Stat{}, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return stat, fmt.Errorf("%s: %w", path, err)
	}
	if stat.BootTime == 0 && stat.ContextSwitches == 0 {
		return stat, fmt.Errorf("%s has no counters", path)
	}
	return stat, nil
}

// frequency is that of a CPU in MHz, -1 where it is not known.
type frequency struct{ current, low, high float64 }

// readFrequencies gives those of the CPUs by number. The kernel tells the frequency at little cost in /proc/cpuinfo;
// ARM's kernels do so only in sysfs. Limits are known where there is a driver of cpufreq.
func (h *host) readFrequencies() (map[int]frequency, error) {
	all := make(map[int]frequency)
	b, err := os.ReadFile(filepath.Join(h.proc, "cpuinfo"))
	if err != nil {
		return nil, err
	}
	for n, mhz := range parseMHz(b) {
		all[n] = frequency{mhz, -1, -1}
	}
	folder := filepath.Join(h.sys, "devices/system/cpu")
	names, err := list(folder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "cpu"))
		if err != nil || !strings.HasPrefix(name, "cpu") {
			continue
		}
		f, ok := all[n]
		if !ok {
			f.current = kHz(folder, name, "cpufreq/scaling_cur_freq", "cpufreq/cpuinfo_cur_freq")
		}
		f.low = kHz(folder, name, "cpufreq/scaling_min_freq")
		f.high = kHz(folder, name, "cpufreq/scaling_max_freq")
		if f != (frequency{-1, -1, -1}) {
			all[n] = f
		}
	}
	return all, nil
}

// kHz gives in MHz what the first of the files has in kHz, or -1.
func kHz(folder, name string, files ...string) float64 {
	for _, file := range files {
		if n, err := number(folder, name, file); err == nil && n > 0 {
			return float64(n) / 1000
		}
	}
	return -1
}

func (h *host) cpuFreq(o *PerCPU) func(*reading) {
	return func(r *reading) {
		all, err := h.readFrequencies()
		if err != nil {
			r.fail("", err)
			return
		}
		sums, counts := make(map[string]float64), make(map[string]int)
		for n, f := range all {
			fields := make(map[string]any)
			for name, mhz := range map[string]float64{"current": f.current, "min": f.low, "max": f.high} {
				if mhz > 0 && !math.IsInf(mhz, 0) {
					fields[name] = mhz
					sums[name] += mhz
					counts[name]++
				}
			}
			if o.PerCPU {
				r.add(map[string]string{"cpu": "cpu" + strconv.Itoa(n)}, fields)
			}
		}
		means := make(map[string]any)
		for name, sum := range sums {
			means[name] = sum / float64(counts[name])
		}
		r.add(map[string]string{"cpu": allCPUs}, means)
		if len(means) == 0 {
			r.absent = "the frequency of the CPUs is not known"
		}
	}
}

// errNoMemory is what a file without figures gives.
var errNoMemory = errors.New("no total of the memory")
