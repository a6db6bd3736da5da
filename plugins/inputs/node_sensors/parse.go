package node_sensors

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// parseMHz gives the frequencies in /proc/cpuinfo by the number of the CPU: "cpu MHz" on x86 (arch/x86/kernel/cpu/proc.c),
// "clock" on POWER. A CPU without one is left out.
func parseMHz(b []byte) map[int]float64 {
	all := make(map[int]float64)
	cpu := -1
	for line := range bytes.Lines(b) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
		switch string(name) {
		case "processor":
			cpu = -1
			if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
				cpu = n
			}
		case "cpu MHz", "clock":
			mhz, err := strconv.ParseFloat(string(bytes.TrimSuffix(value, []byte("MHz"))), 64)
			if err == nil && cpu >= 0 && mhz > 0 && !math.IsInf(mhz, 0) {
				all[cpu] = mhz
			}
		}
	}
	return all
}

// keys gives the names at the start of the lines of a file such as /proc/meminfo or /proc/vmstat.
func keys(b []byte) map[string]bool {
	all := make(map[string]bool)
	for line := range bytes.Lines(b) {
		if fields := bytes.Fields(line); len(fields) > 1 {
			all[string(bytes.TrimSuffix(fields[0], []byte(":")))] = true
		}
	}
	return all
}

// mount is a file system that is mounted.
type mount struct{ device, folder, fstype, options string }

// parseMounts reads /proc/PID/mounts (fstab(5)). Its options are those of the mount and of the file system.
func parseMounts(b []byte) []mount {
	var all []mount
	for line := range bytes.Lines(b) {
		fields := strings.Fields(strings.ToValidUTF8(string(line), "\uFFFD"))
		if len(fields) < 4 {
			continue
		}
		all = append(all, mount{unescape(fields[0]), unescape(fields[1]), fields[2], unescape(fields[3])})
	}
	return all
}

// unescape gives the blanks back that are written as octal numbers: \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// parseFilesystems gives the types of file systems that are on block devices, from /proc/filesystems. ZFS is said not to
// be, but is.
func parseFilesystems(b []byte) []string {
	var all []string
	for line := range bytes.Lines(b) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) == 1:
			all = append(all, fields[0])
		case len(fields) == 2 && fields[1] == "zfs":
			all = append(all, fields[1])
		}
	}
	return all
}

// session is one login.
type session struct {
	name, terminal, host string
	started              int64 // Seconds since 1970.
	pid                  int64
}

const (
	utmpSize    = 384 // Of a record on all Linux but a few, such as arm64's, whose is 400.
	utmpProcess = 7   // USER_PROCESS in utmp(5).
)

// parseUtmp gives the logins of a utmp file as x86 and most others have it (bits/utmp.h of glibc, with 32-bit times).
func parseUtmp(b []byte) ([]session, error) {
	if len(b)%utmpSize != 0 {
		return nil, fmt.Errorf("%d bytes are no records of %d", len(b), utmpSize)
	}
	var all []session
	for record := range slices.Chunk(b, utmpSize) {
		if binary.LittleEndian.Uint16(record) != utmpProcess {
			continue
		}
		s := session{
			terminal: cstring(record[8:40]), name: cstring(record[44:76]), host: cstring(record[76:332]),
			pid: int64(int32(binary.LittleEndian.Uint32(record[4:]))), started: int64(binary.LittleEndian.Uint32(record[340:])),
		}
		if s.host == ":0" || s.host == ":0.0" {
			s.host = "localhost" // As psutil has it: a graphical login on the machine itself.
		}
		if s.name != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

// cstring gives the text up to the first zero byte, in valid UTF-8.
func cstring(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// address is one of an interface.
type address struct {
	device                            string
	up                                bool
	family                            uint32
	address, netmask, broadcast, peer string
	bits                              int // Of the network's prefix; -1 with hardware addresses.
}

// temporary marks IPv6 addresses that change daily (RFC 8981; IFA_F_TEMPORARY in linux/if_addr.h).
const temporary = 0x01

// parseAddresses gives the addresses in the kernel's answers to RTM_GETLINK and RTM_GETADDR (rtnetlink(7)), in their order.
// Temporary addresses are left out: each would be a new series.
func parseAddresses(links, addresses []byte) ([]address, error) {
	messages, err := syscall.ParseNetlinkMessage(links)
	if err != nil {
		return nil, fmt.Errorf("interfaces from the kernel: %w", err)
	}
	devices := make(map[uint32]address)
	var all []address
	for i := range messages {
		index, a, ok := parseLink(&messages[i])
		if !ok {
			continue
		}
		devices[index] = a
		if a.address != "" {
			all = append(all, a)
		}
	}
	if messages, err = syscall.ParseNetlinkMessage(addresses); err != nil {
		return all, fmt.Errorf("addresses from the kernel: %w", err)
	}
	for i := range messages {
		if a, ok := parseAddress(&messages[i], devices); ok {
			all = append(all, a)
		}
	}
	return all, nil
}

// parseLink gives an interface with its hardware address, which is empty where it has none of 6 bytes or more.
func parseLink(m *syscall.NetlinkMessage) (index uint32, a address, ok bool) {
	if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
		return 0, a, false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, a, false
	}
	flags := binary.NativeEndian.Uint32(m.Data[8:])
	a = address{family: syscall.AF_PACKET, bits: -1, up: flags&syscall.IFF_RUNNING != 0}
	for _, attribute := range attributes {
		switch attribute.Attr.Type {
		case syscall.IFLA_IFNAME:
			a.device = cstring(attribute.Value)
		case syscall.IFLA_ADDRESS:
			a.address = net.HardwareAddr(attribute.Value).String()
		case syscall.IFLA_BROADCAST:
			if flags&syscall.IFF_BROADCAST != 0 {
				a.broadcast = net.HardwareAddr(attribute.Value).String()
			}
		}
	}
	return binary.NativeEndian.Uint32(m.Data[4:]), a, a.device != ""
}

func parseAddress(m *syscall.NetlinkMessage, devices map[uint32]address) (a address, ok bool) {
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
		return a, false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return a, false
	}
	device, ok := devices[binary.NativeEndian.Uint32(m.Data[4:])]
	family, bits, flags := m.Data[0], int(m.Data[1]), m.Data[2]
	if !ok || family == syscall.AF_INET6 && flags&temporary != 0 {
		return a, false
	}
	a = address{device: device.device, up: device.up, family: uint32(family), bits: bits}
	var local, other netip.Addr
	for _, attribute := range attributes {
		ip, valid := netip.AddrFromSlice(attribute.Value)
		if !valid {
			continue
		}
		switch attribute.Attr.Type {
		case syscall.IFA_LOCAL:
			local = ip
		case syscall.IFA_ADDRESS:
			other = ip
		case syscall.IFA_BROADCAST:
			a.broadcast = ip.String()
		}
	}
	if !local.IsValid() {
		local = other // IPv6 has a local address only where there is a peer.
	}
	if !local.IsValid() || bits > local.BitLen() {
		return a, false
	}
	if other.IsValid() && other != local {
		a.peer = other.String()
	}
	a.address = local.String()
	a.netmask = netmask(bits, local.BitLen())
	return a, true
}

// netmask gives the mask as an address: 255.255.0.0.
func netmask(bits, of int) string {
	ip, _ := netip.AddrFromSlice(net.CIDRMask(bits, of))
	return ip.String()
}

// use is what one process has on one GPU.
type use struct {
	pid    int64
	gpu    string // The GPU's UUID.
	memory int64  // Bytes, -1 where it is not known.
}

// parseUses reads what `nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,noheader,nounits` prints.
// The memory is in MiB, or words in brackets.
func parseUses(b []byte) ([]use, error) {
	var all []use
	err := rows(b, 3, func(line int, row []string) error {
		pid, err := strconv.ParseInt(row[0], 10, 32)
		if err != nil || pid <= 0 || row[1] == "" {
			return fmt.Errorf("line %d: %q is no process", line, strings.Join(row, ", "))
		}
		u := use{pid: pid, gpu: row[1], memory: -1}
		if mib, err := strconv.ParseInt(row[2], 10, 64); err == nil && mib >= 0 && mib <= math.MaxInt64>>20 {
			u.memory = mib << 20
		}
		all = append(all, u)
		return nil
	})
	return all, err
}

// parseGPUs reads what `nvidia-smi --query-gpu=index,uuid --format=csv,noheader` prints: the index of each GPU by its UUID.
func parseGPUs(b []byte) (map[string]string, error) {
	all := make(map[string]string)
	err := rows(b, 2, func(line int, row []string) error {
		if _, err := strconv.ParseUint(row[0], 10, 16); err != nil || row[1] == "" {
			return fmt.Errorf("line %d: %q is no GPU", line, strings.Join(row, ", "))
		}
		all[row[1]] = row[0]
		return nil
	})
	return all, err
}

// rows calls do for each row with so many columns; others are errors, but do not keep the rest from being read.
func rows(b []byte, columns int, do func(line int, row []string) error) error {
	reader := csv.NewReader(bytes.NewReader(b))
	reader.FieldsPerRecord, reader.TrimLeadingSpace, reader.LazyQuotes = -1, true, true
	var errs []error
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		line, _ := reader.FieldPos(0)
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if len(row) != columns {
			err = fmt.Errorf("line %d: %d columns, not %d", line, len(row), columns)
		} else {
			err = do(line, row)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
}

// parsePIDs reads cgroup.procs: one process a line. 0 is a process that can't be seen from here.
func parsePIDs(b []byte) []int64 {
	var all []int64
	for line := range bytes.Lines(b) {
		if pid, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 32); err == nil && pid >= 0 {
			all = append(all, pid)
		}
	}
	return all
}

// parsePairs reads lines of a name and a whole number, such as those of cpu.stat. Others are left out.
func parsePairs(b []byte) map[string]uint64 {
	all := make(map[string]uint64)
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if n, err := strconv.ParseUint(string(fields[1]), 10, 64); err == nil {
			all[string(fields[0])] = n
		}
	}
	return all
}

// parseIOStat sums what io.stat of version 2 has for all devices: "8:0 rbytes=1 wbytes=2 rios=3 ...". It is
// empty before the first.
func parseIOStat(b []byte) (read, written uint64) {
	for line := range bytes.Lines(b) {
		for _, pair := range bytes.Fields(line) {
			name, value, _ := bytes.Cut(pair, []byte("="))
			n, err := strconv.ParseUint(string(value), 10, 64)
			switch {
			case err != nil:
			case string(name) == "rbytes":
				read += n
			case string(name) == "wbytes":
				written += n
			}
		}
	}
	return read, written
}

// parseServiceBytes sums what blkio.throttle.io_service_bytes of version 1 has for all devices: "8:0 Read 1". Without any
// nothing is known: since Linux 6.10 nothing is counted where there is no limit (block/blk-throttle.c).
func parseServiceBytes(b []byte) (read, written uint64, known bool) {
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue
		}
		n, err := strconv.ParseUint(string(fields[2]), 10, 64)
		switch {
		case err != nil:
		case string(fields[1]) == "Read":
			read, known = read+n, true
		case string(fields[1]) == "Write":
			written, known = written+n, true
		}
	}
	return read, written, known
}

// nvidia is the major number of NVIDIA's devices; the minors from control on are not GPUs.
const (
	nvidia  = "195"
	control = 254
)

// parseDevices gives the NVIDIA GPUs that devices.list of version 1 allows, by their minor number. It tells nothing where
// all devices are allowed but for some: those are not listed (Documentation/admin-guide/cgroup-v1/devices.rst).
func parseDevices(b []byte) (gpus []string, known bool) {
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue
		}
		if string(fields[0]) == "a" {
			return nil, false
		}
		known = true
		major, minor, _ := bytes.Cut(fields[1], []byte(":"))
		if string(fields[0]) != "c" || string(major) != nvidia {
			continue
		}
		n, err := strconv.ParseUint(string(minor), 10, 16)
		if string(minor) == "*" {
			return nil, false
		}
		if err == nil && n < control {
			gpus = append(gpus, strconv.FormatUint(n, 10))
		}
	}
	slices.Sort(gpus)
	return slices.Compact(gpus), known
}

// mostGPUs is the most of one list: a job's process may have been given any environment.
const mostGPUs = 64

// parseGPUList gives the GPUs of a list such as SLURM_JOB_GPUS has: "0,2", "0-3" or UUIDs as NVIDIA's driver makes them.
// Anything else is left out.
func parseGPUList(list string) []string {
	var gpus []string
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		first, last, isRange := strings.Cut(item, "-")
		from, err := strconv.ParseUint(first, 10, 8)
		to := from
		if isRange && err == nil {
			to, err = strconv.ParseUint(last, 10, 8)
		}
		switch {
		case err == nil:
			for ; from <= to && len(gpus) < mostGPUs; from++ {
				gpus = append(gpus, strconv.FormatUint(from, 10))
			}
		case isUUID(item) && len(gpus) < mostGPUs:
			gpus = append(gpus, item)
		}
	}
	slices.Sort(gpus)
	return slices.Compact(gpus)
}

// isUUID tells whether a text is such as GPU-0bd5a3f6-2b1c-4c5e-9a52-0a1b2c3d4e5f, or MIG- instead.
func isUUID(text string) bool {
	rest, gpu := strings.CutPrefix(text, "GPU-")
	rest, mig := strings.CutPrefix(rest, "MIG-")
	return (gpu || mig) && len(rest) == 36 && strings.Trim(rest, "0123456789abcdef-") == ""
}

// variables gives those asked for of a process's environment, as /proc/PID/environ has it.
func variables(environ []byte, names ...string) map[string]string {
	found := make(map[string]string)
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, ok := bytes.Cut(pair, []byte("="))
		if ok && slices.Contains(names, string(name)) {
			found[string(name)] = string(value)
		}
	}
	return found
}
