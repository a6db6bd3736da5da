package node_sensors

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/shirou/gopsutil/v3/mem"
)

// readMemory gives gopsutil's figures, and which of them the kernel has told: gopsutil takes the others for 0.
func (h *host) readMemory() (*mem.VirtualMemoryStat, map[string]bool, error) {
	path := filepath.Join(h.proc, "meminfo")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := mem.VirtualMemoryWithContext(h.ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	known := keys(b)
	if !known["MemTotal"] || m.Total == 0 {
		return nil, nil, fmt.Errorf("%s: %w", path, errNoMemory)
	}
	return m, known, nil
}

func (h *host) virtualMemory(*Plain) func(*reading) {
	return func(r *reading) {
		m, known, err := h.readMemory()
		if err != nil {
			r.fail("", err)
			return
		}
		fields := make(map[string]any)
		for _, f := range []struct {
			name, key string
			value     uint64
		}{
			{"total", "MemTotal", m.Total}, {"free", "MemFree", m.Free}, {"active", "Active", m.Active},
			{"inactive", "Inactive", m.Inactive}, {"buffers", "Buffers", m.Buffers}, {"cached", "Cached", m.Cached},
			{"shared", "Shmem", m.Shared}, {"slab", "Slab", m.Slab},
		} {
			if known[f.key] {
				count(fields, f.name, f.value)
			}
		}
		if known["MemFree"] {
			available := m.Available
			// A container may be told of more than it has (psutil, issue 1042 of its tracker).
			if available > m.Total {
				available = m.Free
			}
			used := m.Total - m.Free - m.Cached - m.Buffers
			if m.Free+m.Cached+m.Buffers > m.Total {
				used = m.Total - min(m.Free, m.Total)
			}
			count(fields, "available", available)
			count(fields, "used", used)
			fields["percent"] = 100 * (float64(m.Total) - float64(available)) / float64(m.Total)
		}
		r.add(nil, fields)
	}
}

// swapMemory takes the sizes from /proc/meminfo, as psutil does: gopsutil's own are those of this machine whatever
// HOST_PROC says.
func (h *host) swapMemory(*Plain) func(*reading) {
	return func(r *reading) {
		m, known, err := h.readMemory()
		if err != nil {
			r.fail("", err)
			return
		}
		fields := make(map[string]any)
		if known["SwapTotal"] && known["SwapFree"] && m.SwapFree <= m.SwapTotal {
			used := m.SwapTotal - m.SwapFree
			count(fields, "total", m.SwapTotal)
			count(fields, "free", m.SwapFree)
			count(fields, "used", used)
			fields["percent"] = 100 * float64(used) / math.Max(1, float64(m.SwapTotal))
		}
		if b, err := os.ReadFile(filepath.Join(h.proc, "vmstat")); err != nil {
			r.fail("vmstat", err)
		} else if s, err := mem.SwapMemoryWithContext(h.ctx); err != nil {
			r.fail("vmstat", err)
		} else {
			known := keys(b)
			if known["pswpin"] {
				count(fields, "sin", s.Sin)
			}
			if known["pswpout"] {
				count(fields, "sout", s.Sout)
			}
		}
		r.add(nil, fields)
	}
}
