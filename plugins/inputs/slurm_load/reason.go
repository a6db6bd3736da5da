package slurm_load

import (
	"strings"
	"unicode"
)

// reasonClass is what kind of reason a node is down or drained for. The text is free, so that it can be no tag.
type reasonClass string

// reasons are the words that tell a class, in the order in which they are looked for: what Slurm itself writes first,
// then what is broken, then what is being done. A word stands for words that begin with it.
func reasons() []struct {
	class reasonClass
	words []string
} {
	return []struct {
		class reasonClass
		words []string
	}{
		{"not_responding", []string{"not responding", "no response", "unreachable", "did not respond", "not contacted"}},
		{"kill_failed", []string{"kill task failed", "kill failed", "unkillable", "duplicate jobid"}},
		{"prolog_epilog", []string{"prolog", "epilog"}},
		{"reboot", []string{"unexpectedly rebooted", "reboot", "rebooting", "boot failure"}},
		{"configuration", []string{
			"low realmemory", "low tmpdisk", "low socket", "low cpucount", "low cores", "count reported lower", "config", "invalid",
		}},
		{"power", []string{"psu", "pdu", "power", "ups", "resumetimeout"}},
		{"cooling", []string{"temperature", "temp", "thermal", "overheat", "overheating", "fan", "fans", "cooling", "leak", "hot"}},
		{"gpu", []string{"gpu", "gpus", "nvidia", "xid", "nvlink", "nvswitch", "rocm", "amdgpu", "cuda", "dcgm"}},
		{"memory", []string{"memory", "dimm", "dimms", "ecc", "edac", "ram", "oom", "hugepages"}},
		{"network", []string{
			"network", "ib", "ib0", "infiniband", "opa", "omnipath", "ethernet", "eth", "eth0", "nic", "hca", "link", "mlx5", "switch",
			"cable", "slingshot", "fabric",
		}},
		{"filesystem", []string{
			"lustre", "gpfs", "nfs", "beegfs", "ceph", "weka", "scratch", "home", "mount", "mounts", "filesystem", "autofs", "fs",
		}},
		{"disk", []string{"disk", "ssd", "hdd", "nvme", "raid", "smart", "tmp", "drive", "disks"}},
		{"cpu", []string{"cpu", "cpus", "mce", "mcelog", "processor", "core", "cores", "load", "stuck"}},
		{"board", []string{"bmc", "ipmi", "motherboard", "mainboard", "board", "pcie", "pci", "bios", "hardware", "hw", "broken"}},
		{"health_check", []string{"nhc", "healthcheck", "health", "check"}},
		{"maintenance", []string{
			"maintenance", "maint", "upgrade", "update", "patch", "patching", "firmware", "reinstall", "install", "installation", "test",
			"testing", "benchmark", "reserved", "decommission", "decommissioned", "move", "service", "downtime",
		}},
	}
}

// classifyReason finds the class of a reason: "none" of an empty one, "other" of one that has no word we know.
func classifyReason(text string) reasonClass {
	if strings.TrimSpace(text) == "" {
		return "none"
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	joined := " " + strings.Join(words, " ") + " "
	for _, r := range reasons() {
		for _, word := range r.words {
			if strings.Contains(joined, " "+word+" ") {
				return r.class
			}
		}
	}
	return "other"
}
