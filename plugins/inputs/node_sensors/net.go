package node_sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/shirou/gopsutil/v3/net"

	"telegraf-hpc/internal/series"
)

// allInterfaces is the value of the tag interface for their sum.
const allInterfaces = "all"

// netDev gives the file of the interfaces' counters. Below another root /proc/net would be that of this process's own
// network: that of the machine is the first process's.
func (h *host) netDev() string {
	if h.proc != "/proc" {
		if first := filepath.Join(h.proc, "1/net/dev"); exists(first) {
			return first
		}
	}
	return filepath.Join(h.proc, "net/dev")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (h *host) netIOCounters(o *PerNIC) func(*reading) {
	chosen, err := o.filter()
	return func(r *reading) {
		if err != nil {
			r.fail("", err)
			return
		}
		path := h.netDev()
		// gopsutil takes for granted that there are the two lines of the head.
		if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") < 2 {
			r.fail("", errors.Join(err, fmt.Errorf("%s has no interfaces", path)))
			return
		}
		all, err := net.IOCountersByFileWithContext(h.ctx, true, path)
		if err != nil {
			r.fail("", fmt.Errorf("%s: %w", path, err))
			return
		}
		var sum net.IOCountersStat
		for i := range all {
			n := &all[i]
			sum.BytesSent += n.BytesSent
			sum.BytesRecv += n.BytesRecv
			sum.PacketsSent += n.PacketsSent
			sum.PacketsRecv += n.PacketsRecv
			sum.Errin += n.Errin
			sum.Errout += n.Errout
			sum.Dropin += n.Dropin
			sum.Dropout += n.Dropout
			if o.PerNIC && chosen.Match(n.Name) {
				r.add(map[string]string{"interface": n.Name}, nicFields(n))
			}
		}
		r.add(map[string]string{"interface": allInterfaces}, nicFields(&sum))
	}
}

func nicFields(n *net.IOCountersStat) map[string]any {
	fields := make(map[string]any)
	count(fields, "bytes_sent", n.BytesSent)
	count(fields, "bytes_recv", n.BytesRecv)
	count(fields, "packets_sent", n.PacketsSent)
	count(fields, "packets_recv", n.PacketsRecv)
	count(fields, "errin", n.Errin)
	count(fields, "errout", n.Errout)
	count(fields, "dropin", n.Dropin)
	count(fields, "dropout", n.Dropout)
	return fields
}

// connectionTags are what connections are counted by.
type connectionTags struct{ family, kind, status string }

// netConnections counts connections, and lists them if asked to. Their processes are known to root alone.
func (h *host) netConnections(o *Connections) func(*reading) {
	var seen series.Fading[connectionTags]
	return func(r *reading) {
		all, err := net.ConnectionsWithoutUidsWithContext(h.ctx, o.Kind)
		if err != nil {
			r.fail("", err)
			return
		}
		counts := make(map[connectionTags]int64)
		for i := range all {
			c := &all[i]
			tags := connectionTags{family(c.Family), socketType(c.Type), c.Status}
			counts[tags]++
			if o.List && i < o.MaxRows {
				r.points = append(r.points, connection(tags, c))
			}
		}
		for tags, n := range counts {
			r.add(tags.asMap(), map[string]any{"connections": n})
		}
		for _, tags := range series.Gone(&seen, r.now.Unix(), counts) {
			r.add(tags.asMap(), map[string]any{"connections": int64(0)})
		}
		if o.List && len(all) > o.MaxRows {
			r.fail("max_rows", fmt.Errorf("more connections than option max_rows allows to list (%d)", o.MaxRows))
		}
		if len(all) == 0 {
			r.absent = "there is no connection"
		}
	}
}

func (t connectionTags) asMap() map[string]string {
	return map[string]string{"family": t.family, "type": t.kind, "status": t.status}
}

func connection(tags connectionTags, c *net.ConnectionStat) point {
	p := point{measurement: "node_net_connection", tags: tags.asMap(), fields: map[string]any{
		"laddr": endpoint(c.Laddr.IP, c.Laddr.Port), "raddr": endpoint(c.Raddr.IP, c.Raddr.Port),
	}}
	if c.Pid > 0 { // Else it is a process that we may not look at, or none.
		p.fields["pid"], p.fields["fd"] = int64(c.Pid), int64(c.Fd)
	}
	p.id = fmt.Sprint(p.tags, p.fields)
	if c.Raddr.Port == 0 { // It listens, or has no peer: psutil gives an empty address.
		delete(p.fields, "raddr")
	}
	return p
}

func endpoint(ip string, port uint32) string {
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + strconv.FormatUint(uint64(port), 10)
}

// family and socketType give the names that psutil's constants have.
func family(n uint32) string {
	switch n {
	case syscall.AF_INET:
		return "AF_INET"
	case syscall.AF_INET6:
		return "AF_INET6"
	case syscall.AF_PACKET:
		return "AF_PACKET"
	default:
		return strconv.FormatUint(uint64(n), 10)
	}
}

func socketType(n uint32) string {
	switch n {
	case syscall.SOCK_STREAM:
		return "SOCK_STREAM"
	case syscall.SOCK_DGRAM:
		return "SOCK_DGRAM"
	default:
		return strconv.FormatUint(uint64(n), 10)
	}
}

// netIFAddrs asks the kernel (rtnetlink(7)) for the addresses in this process's own network.
func (h *host) netIFAddrs(o *Interfaces) func(*reading) {
	chosen, err := o.filter()
	return func(r *reading) {
		if err != nil {
			r.fail("", err)
			return
		}
		var links, addresses []byte
		links, err := h.netlink(syscall.RTM_GETLINK)
		if err == nil {
			addresses, err = h.netlink(syscall.RTM_GETADDR)
		}
		if err != nil {
			r.fail("", fmt.Errorf("asking the kernel for addresses: %w", err))
			return
		}
		all, err := parseAddresses(links, addresses)
		if err != nil {
			r.fail("", err)
		}
		for _, a := range all {
			if !chosen.Match(a.device) {
				continue
			}
			fields := make(map[string]any)
			for name, value := range map[string]string{"netmask": a.netmask, "broadcast": a.broadcast, "ptp": a.peer} {
				if value != "" {
					fields[name] = value
				}
			}
			if a.bits >= 0 {
				fields["prefix_length"] = int64(a.bits)
			}
			fields["isup"] = yes(a.up)
			r.add(map[string]string{"interface": a.device, "family": family(a.family), "address": a.address}, fields)
		}
	}
}

// netIFStats reads /sys/class/net (the kernel's Documentation/ABI/testing/sysfs-class-net).
func (h *host) netIFStats(o *Interfaces) func(*reading) {
	chosen, err := o.filter()
	return func(r *reading) {
		if err != nil {
			r.fail("", err)
			return
		}
		folder := filepath.Join(h.sys, "class/net")
		names, err := os.ReadDir(folder)
		if err != nil {
			r.fail("", err)
			return
		}
		for _, entry := range names {
			// Files such as bonding_masters stand there, too.
			if name := entry.Name(); entry.Type()&fs.ModeSymlink != 0 || entry.IsDir() {
				if chosen.Match(name) {
					h.interfaceStats(r, folder, name)
				}
			}
		}
	}
}

func (h *host) interfaceStats(r *reading, folder, name string) {
	fields := make(map[string]any)
	hex, err := text(folder, name, "flags")
	if missing(err) {
		return // It has gone meanwhile.
	}
	state, stateErr := text(folder, name, "operstate")
	bits, parseErr := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 32)
	switch {
	case err != nil || parseErr != nil:
		r.fail(name, fmt.Errorf("interface %q: flags: %w", name, errors.Join(err, parseErr)))
	case stateErr == nil:
		// The kernel shows IFF_RUNNING to programs, but not in sysfs (dev_get_flags in net/core/dev.c).
		bits &^= syscall.IFF_RUNNING
		if bits&syscall.IFF_UP != 0 && (state == "up" || state == "unknown") {
			bits |= syscall.IFF_RUNNING
		}
		fields["flags"] = strings.Join(flagNames(bits), ",")
		fields["isup"] = yes(bits&syscall.IFF_RUNNING != 0)
	}
	if mtu, err := number(folder, name, "mtu"); err == nil {
		fields["mtu"] = mtu
	}
	// Both can't be read of an interface that is down. A speed of -1, or of all bits, is not known.
	if speed, err := number(folder, name, "speed"); err == nil && speed > 0 && speed < 1<<31 {
		fields["speed"] = speed
	}
	if duplex, err := text(folder, name, "duplex"); err == nil && slices.Contains([]string{"full", "half"}, duplex) {
		fields["duplex"] = duplex
		fields["full_duplex"] = yes(duplex == "full")
	}
	r.add(map[string]string{"interface": name}, fields)
}

// flagNames gives psutil's names of an interface's flags (IFF_ in netdevice(7)).
func flagNames(bits uint64) []string {
	var set []string
	for i, name := range []string{
		"up", "broadcast", "debug", "loopback", "pointopoint", "notrailers", "running", "noarp", "promisc", "allmulti",
		"master", "slave", "multicast", "portsel", "automedia", "dynamic",
	} {
		if bits&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return set
}
