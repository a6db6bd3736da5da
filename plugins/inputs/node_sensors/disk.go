package node_sensors

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v3/disk"
	"golang.org/x/sys/unix"
)

// readMounts gives the file systems as the machine's first process sees them, if we may look, else as we do.
func (h *host) readMounts() ([]mount, error) {
	b, err := os.ReadFile(filepath.Join(h.proc, "1/mounts"))
	if err != nil {
		b, err = os.ReadFile(filepath.Join(h.proc, "self/mounts"))
	}
	return parseMounts(b), err
}

// diskPartitions has no use for gopsutil, which knows the options of the mount, but not those of the file system: one
// that the kernel has made read-only after an error would look well.
func (h *host) diskPartitions(o *Partitions) func(*reading) {
	return func(r *reading) {
		mounts, err := h.readMounts()
		var types []byte
		if err == nil {
			types, err = os.ReadFile(filepath.Join(h.proc, "filesystems"))
		}
		if err != nil {
			r.fail("", err)
			return
		}
		chosen := append(parseFilesystems(types), o.Fstypes...)
		last := make(map[string]mount) // What is mounted last on a folder hides the others.
		for _, m := range mounts {
			if m.device != "none" && slices.Contains(chosen, m.fstype) {
				last[m.folder] = m
			} else {
				delete(last, m.folder)
			}
		}
		for _, m := range last {
			r.add(map[string]string{"device": h.realDevice(m.device), "mountpoint": m.folder, "fstype": m.fstype}, map[string]any{
				"opts": m.options, "read_only": yes(slices.Contains(strings.Split(m.options, ","), "ro")),
			})
		}
		if len(last) == 0 {
			r.absent = "no file system is on a block device"
		}
	}
}

// realDevice gives the name behind a link, such as /dev/mapper/vg-root, and of the root that the kernel mounted itself.
func (h *host) realDevice(device string) string {
	rest, ok := strings.CutPrefix(device, "/dev/")
	if !ok {
		return device
	}
	target, err := filepath.EvalSymlinks(filepath.Join(h.dev, rest))
	if err != nil {
		return device
	}
	if inside, err := filepath.Rel(h.dev, target); err == nil && filepath.IsLocal(inside) {
		return filepath.Join("/dev", inside)
	}
	return device
}

// diskUsage asks for each path on its own, all at once: the server of one may be dead.
func (h *host) diskUsage(o *Usage) func(*reading) {
	return func(r *reading) {
		answers := make([]<-chan error, len(o.Path))
		stats := make([]*unix.Statfs_t, len(o.Path))
		for i, path := range o.Path {
			stat := new(unix.Statfs_t)
			stats[i] = stat
			answers[i] = h.calls.start("path "+path, func() error { return h.statfs(filepath.Join(h.mounts, path), stat) })
		}
		deadline := time.After(time.Duration(o.Timeout))
		late := false
		for i, path := range o.Path {
			err := errHung
			if !late {
				select {
				case err = <-answers[i]:
				case <-deadline:
					late = true
				}
			}
			if late {
				select { // It may have come meanwhile.
				case err = <-answers[i]:
				default:
				}
			}
			if err != nil {
				r.fail(path, fmt.Errorf("path %q: %w", path, err))
				continue
			}
			r.add(map[string]string{"path": path}, usage(stats[i]))
		}
	}
}

// usage gives psutil's figures. Blocks are counted in fragments, which gopsutil takes for as large as blocks.
func usage(s *unix.Statfs_t) map[string]any {
	size := uint64(max(s.Frsize, 0))
	if size == 0 {
		size = uint64(max(s.Bsize, 0))
	}
	fields := make(map[string]any)
	if s.Blocks == 0 || s.Bfree > s.Blocks || s.Blocks > math.MaxInt64/max(size, 1) {
		return fields // A file system that has no size, such as proc.
	}
	used := s.Blocks - s.Bfree
	count(fields, "total", s.Blocks*size)
	count(fields, "used", used*size)
	// Some count below zero what is left once the part for root is in use.
	if s.Bavail <= s.Blocks {
		count(fields, "free", s.Bavail*size)
		if used+s.Bavail > 0 {
			fields["percent"] = 100 * float64(used) / float64(used+s.Bavail)
		}
	}
	return fields
}

// allDisks is the value of the tag disk for their sum.
const allDisks = "all"

func (h *host) diskIOCounters(o *PerDisk) func(*reading) {
	return func(r *reading) {
		disks, err := disk.IOCountersWithContext(h.ctx)
		if err != nil {
			r.fail("", fmt.Errorf("%s: %w", filepath.Join(h.proc, "diskstats"), err))
			return
		}
		var sum disk.IOCountersStat
		whole := 0
		for name, d := range disks {
			if o.PerDisk {
				r.add(map[string]string{"disk": name}, diskFields(&d))
			}
			// As psutil does: partitions are no block devices of their own there. A slash is an exclamation mark in sysfs.
			if _, err := os.Stat(filepath.Join(h.sys, "block", strings.ReplaceAll(name, "/", "!"))); err != nil {
				continue
			}
			whole++
			sum.ReadCount += d.ReadCount
			sum.WriteCount += d.WriteCount
			sum.ReadBytes += d.ReadBytes
			sum.WriteBytes += d.WriteBytes
			sum.ReadTime += d.ReadTime
			sum.WriteTime += d.WriteTime
			sum.MergedReadCount += d.MergedReadCount
			sum.MergedWriteCount += d.MergedWriteCount
			sum.IoTime += d.IoTime
		}
		if whole == 0 {
			r.absent = "no disk has done anything yet"
			return
		}
		r.add(map[string]string{"disk": allDisks}, diskFields(&sum))
	}
}

func diskFields(d *disk.IOCountersStat) map[string]any {
	fields := make(map[string]any)
	count(fields, "read_count", d.ReadCount)
	count(fields, "write_count", d.WriteCount)
	count(fields, "read_bytes", d.ReadBytes)
	count(fields, "write_bytes", d.WriteBytes)
	count(fields, "read_time", d.ReadTime)
	count(fields, "write_time", d.WriteTime)
	count(fields, "read_merged_count", d.MergedReadCount)
	count(fields, "write_merged_count", d.MergedWriteCount)
	count(fields, "busy_time", d.IoTime)
	return fields
}
