package node_sensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// attribute makes a routing attribute (rtnetlink(7)).
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(syscall.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// message makes a message of the kernel.
func message(kind uint16, head []byte, attributes ...[]byte) []byte {
	data := slices.Concat(append([][]byte{head}, attributes...)...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(syscall.SizeofNlMsghdr+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(append(b, make([]byte, syscall.SizeofNlMsghdr-len(b))...), data...)
}

func link(index, flags uint32, attributes ...[]byte) []byte {
	head := make([]byte, syscall.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], index)
	binary.NativeEndian.PutUint32(head[8:], flags)
	return message(syscall.RTM_NEWLINK, head, attributes...)
}

func addressMessage(family, bits, flags byte, index uint32, attributes ...[]byte) []byte {
	head := []byte{family, bits, flags, 0, 0, 0, 0, 0}
	binary.NativeEndian.PutUint32(head[4:], index)
	return message(syscall.RTM_NEWADDR, head, attributes...)
}

func ip(kind uint16, text string) []byte { return attribute(kind, netip.MustParseAddr(text).AsSlice()) }

// recorded is what a kernel answers.
func recorded(request int) []byte {
	const up = syscall.IFF_UP | syscall.IFF_RUNNING
	if request == syscall.RTM_GETLINK {
		return slices.Concat(
			link(1, up|syscall.IFF_LOOPBACK, attribute(syscall.IFLA_IFNAME, []byte("lo\x00"))),
			link(2, up|syscall.IFF_BROADCAST, attribute(syscall.IFLA_IFNAME, []byte("eth0\x00")),
				attribute(syscall.IFLA_ADDRESS, []byte{2, 0xfc, 0, 0, 0, 1}), attribute(syscall.IFLA_BROADCAST, []byte{255, 255, 255, 255, 255, 255})),
			link(3, syscall.IFF_POINTOPOINT, attribute(syscall.IFLA_IFNAME, []byte("tun0\x00"))),
			link(4, up, attribute(syscall.IFLA_IFNAME, []byte("veth7\x00"))),
			message(syscall.NLMSG_DONE, make([]byte, 4)),
		)
	}
	return slices.Concat(
		addressMessage(syscall.AF_INET, 8, 0x80, 1, ip(syscall.IFA_ADDRESS, "127.0.0.1"), ip(syscall.IFA_LOCAL, "127.0.0.1")),
		addressMessage(syscall.AF_INET, 20, 0x80, 2, ip(syscall.IFA_ADDRESS, "10.1.16.7"), ip(syscall.IFA_LOCAL, "10.1.16.7"), ip(syscall.IFA_BROADCAST, "10.1.31.255")),
		addressMessage(syscall.AF_INET, 32, 0x80, 3, ip(syscall.IFA_ADDRESS, "10.9.0.1"), ip(syscall.IFA_LOCAL, "10.9.0.2")),
		addressMessage(syscall.AF_INET6, 64, 0x80, 2, ip(syscall.IFA_ADDRESS, "fe80::fc:ff:fe00:1")),
		addressMessage(syscall.AF_INET6, 64, temporary, 2, ip(syscall.IFA_ADDRESS, "2001:db8::1234")),
		addressMessage(syscall.AF_INET, 24, 0x80, 4, ip(syscall.IFA_LOCAL, "192.168.7.1")),
		addressMessage(syscall.AF_INET, 24, 0x80, 99, ip(syscall.IFA_LOCAL, "192.168.8.1")),
		message(syscall.NLMSG_DONE, make([]byte, 4)),
	)
}

func TestParseAddresses(t *testing.T) {
	all, err := parseAddresses(recorded(syscall.RTM_GETLINK), recorded(syscall.RTM_GETADDR))
	require.NoError(t, err)
	require.Equal(t, []address{
		{device: "eth0", up: true, family: syscall.AF_PACKET, address: "02:fc:00:00:00:01", broadcast: "ff:ff:ff:ff:ff:ff", bits: -1},
		{device: "lo", up: true, family: syscall.AF_INET, address: "127.0.0.1", netmask: "255.0.0.0", bits: 8},
		{device: "eth0", up: true, family: syscall.AF_INET, address: "10.1.16.7", netmask: "255.255.240.0", broadcast: "10.1.31.255", bits: 20},
		{device: "tun0", family: syscall.AF_INET, address: "10.9.0.2", netmask: "255.255.255.255", peer: "10.9.0.1", bits: 32},
		{device: "eth0", up: true, family: syscall.AF_INET6, address: "fe80::fc:ff:fe00:1", netmask: "ffff:ffff:ffff:ffff::", bits: 64},
		{device: "veth7", up: true, family: syscall.AF_INET, address: "192.168.7.1", netmask: "255.255.255.0", bits: 24},
	}, all)
	_, err = parseAddresses([]byte("\x05\x00\x00\x00 and more that is none"), nil)
	require.EqualError(t, err, "interfaces from the kernel: invalid argument")
	_, err = parseAddresses(nil, []byte("\x05\x00\x00\x00 and more that is none"))
	require.EqualError(t, err, "addresses from the kernel: invalid argument")
}

func FuzzParseAddresses(f *testing.F) {
	f.Add(recorded(syscall.RTM_GETLINK), recorded(syscall.RTM_GETADDR))
	f.Fuzz(func(t *testing.T, links, addresses []byte) {
		all, _ := parseAddresses(links, addresses)
		for _, a := range all {
			require.NotEmpty(t, a.device)
			require.NotEmpty(t, a.address)
			if a.bits >= 0 {
				ip, err := netip.ParseAddr(a.address)
				require.NoError(t, err)
				require.LessOrEqual(t, a.bits, ip.BitLen())
			}
		}
	})
}

func TestParseMHz(t *testing.T) {
	for _, test := range []struct {
		text string
		want map[int]float64
	}{
		{"", map[int]float64{}},
		{"processor\t: 0\ncpu MHz\t\t: 2300.000\n\nprocessor\t: 3\ncpu MHz\t\t: 3100.5\n", map[int]float64{0: 2300, 3: 3100.5}},
		{"processor\t: 0\nclock\t\t: 3425.000000MHz\nrevision\t: 2.1\n", map[int]float64{0: 3425}},
		{"processor\t: 0\nBogoMIPS\t: 50.00\n", map[int]float64{}},
		{"cpu MHz\t\t: 2300.000\n", map[int]float64{}},
		{"processor\t: 0\ncpu MHz : 0.000\nprocessor : 1\ncpu MHz : fast\nprocessor : 2\ncpu MHz : NaN\nprocessor : -1\ncpu MHz : 5\nprocessor : x\ncpu MHz : 5", map[int]float64{}},
		{"processor : 0\ncpu MHz : Inf\n", map[int]float64{}},
	} {
		require.Equal(t, test.want, parseMHz([]byte(test.text)), test.text)
	}
}

func FuzzParseMHz(f *testing.F) {
	f.Add([]byte("processor\t: 0\ncpu MHz\t\t: 2300.000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for cpu, mhz := range parseMHz(b) {
			require.GreaterOrEqual(t, cpu, 0)
			require.Greater(t, mhz, 0.0)
			require.False(t, math.IsInf(mhz, 0))
		}
	})
}

func bigCPUInfo(cpus int) []byte {
	var b bytes.Buffer
	for i := range cpus {
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9754\ncpu MHz\t\t: %d.123\nflags\t\t: %s\n\n", i, 2000+i, strings.Repeat("avx512_vnni ", 100))
	}
	return b.Bytes()
}

func TestKeys(t *testing.T) {
	require.Equal(t, map[string]bool{"MemTotal": true, "pswpin": true, "Active(file)": true},
		keys([]byte("MemTotal:  1 kB\nMemFree:\n\npswpin 3\nActive(file): 7 kB")))
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("MemTotal:  1 kB\npswpin 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for key := range keys(b) {
			require.True(t, bytes.Contains(b, []byte(key)))
		}
	})
}

func TestParseMounts(t *testing.T) {
	require.Equal(t, []mount{
		{"/dev/sda1", "/", "ext4", "rw,relatime"},
		{"//server/some share", "/mnt/a b", "cifs", `rw,x=\1`},
		{"back\\slash", "/\uFFFD", "xfs", "ro"},
	}, parseMounts([]byte("/dev/sda1 / ext4 rw,relatime 0 0\nshort line\n"+
		"//server/some\\040share /mnt/a\\040b cifs rw,x=\\1 0 0\nback\\134slash /\\377 xfs ro 0 0\n")))
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("//server/some\\040share /mnt/a\\040b cifs rw,x=\\1 0 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range parseMounts(b) {
			for _, s := range []string{m.device, m.folder, m.fstype, m.options} {
				require.NotEmpty(t, s)
				require.True(t, utf8.ValidString(s))
			}
		}
	})
}

func TestParseFilesystems(t *testing.T) {
	require.Equal(t, []string{"ext4", "zfs", "xfs"}, parseFilesystems([]byte("nodev\tsysfs\n\text4\nnodev\tzfs\n\txfs\n")))
}

func FuzzParseFilesystems(f *testing.F) {
	f.Add([]byte("nodev\tsysfs\n\text4\nnodev\tzfs\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range parseFilesystems(b) {
			require.NotContains(t, name, "\n")
			require.NotEmpty(t, name)
		}
	})
}

func TestParseUtmp(t *testing.T) {
	b, err := os.ReadFile("testcases/compute_node/1/run/utmp")
	require.NoError(t, err)
	all, err := parseUtmp(b)
	require.NoError(t, err)
	require.Equal(t, []session{
		{name: "alice", terminal: "pts/0", host: "login.example.org", started: 1795260000, pid: 1234},
		{name: "bob", terminal: "pts/1", host: "gone", started: 1795260001, pid: 99999},
		{name: "alice", terminal: "tty1", started: 1795260002, pid: 1235},
		{name: "carol", terminal: ":0", host: "localhost", started: 1795260003, pid: 1235},
	}, all)
	_, err = parseUtmp(b[:400])
	require.EqualError(t, err, "400 bytes are no records of 384")
}

func FuzzParseUtmp(f *testing.F) {
	b, err := os.ReadFile("testcases/compute_node/1/run/utmp")
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseUtmp(b)
		require.Equal(t, len(b)%utmpSize != 0, err != nil)
		require.LessOrEqual(t, len(all), len(b)/utmpSize)
		for _, s := range all {
			require.NotEmpty(t, s.name)
			for _, text := range []string{s.name, s.terminal, s.host} {
				require.True(t, utf8.ValidString(text))
				require.NotContains(t, text, "\x00")
			}
		}
	})
}

func TestParseUses(t *testing.T) {
	for _, test := range []struct {
		text string
		want []use
		err  string
	}{
		{text: ""},
		{text: "101, GPU-1, 1024\n102, GPU-2, [N/A]\n103, GPU-2, [Not Supported]\n", want: []use{{101, "GPU-1", 1 << 30}, {102, "GPU-2", -1}, {103, "GPU-2", -1}}},
		{text: "101, GPU-1\n7, GPU-1, 0\n", want: []use{{7, "GPU-1", 0}}, err: "line 1: 2 columns, not 3"},
		{text: "[N/A], GPU-1, 5\n", err: `line 1: "[N/A], GPU-1, 5" is no process`},
		{text: "-1, GPU-1, 5\n0, GPU-1, 5\n", err: "line 1: \"-1, GPU-1, 5\" is no process\nline 2: \"0, GPU-1, 5\" is no process"},
		{text: "1, , 5\n", err: `line 1: "1, , 5" is no process`},
		{text: "1, GPU-1, 9223372036854775807\n", want: []use{{1, "GPU-1", -1}}},
		{text: "No devices were found\n", err: "line 1: 1 columns, not 3"},
	} {
		all, err := parseUses([]byte(test.text))
		require.Equal(t, test.want, all, test.text)
		if test.err == "" {
			require.NoError(t, err, test.text)
		} else {
			require.EqualError(t, err, test.err)
		}
	}
}

func FuzzParseUses(f *testing.F) {
	f.Add([]byte("101, GPU-1, 1024\n102, GPU-2, [N/A]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := parseUses(b)
		require.LessOrEqual(t, len(all), bytes.Count(b, []byte("\n"))+bytes.Count(b, []byte("\r"))+1)
		for _, u := range all {
			require.Positive(t, u.pid)
			require.NotEmpty(t, u.gpu)
			require.GreaterOrEqual(t, u.memory, int64(-1))
		}
	})
}

func TestParseGPUs(t *testing.T) {
	all, err := parseGPUs([]byte("0, GPU-a\n11, GPU-b\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"GPU-a": "0", "GPU-b": "11"}, all)
	_, err = parseGPUs([]byte("x, GPU-a\n1\n"))
	require.EqualError(t, err, "line 1: \"x, GPU-a\" is no GPU\nline 2: 1 columns, not 2")
}

func FuzzParseGPUs(f *testing.F) {
	f.Add([]byte("0, GPU-a\n11, GPU-b\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := parseGPUs(b)
		for uuid, index := range all {
			require.NotEmpty(t, uuid)
			require.LessOrEqual(t, len(strings.TrimLeft(index, "0")), 5)
		}
	})
}

func TestParsePIDs(t *testing.T) {
	require.Equal(t, []int64{1, 0, 4194304}, parsePIDs([]byte("1\n0\nx\n-5\n99999999999\n4194304")))
}

func FuzzParsePIDs(f *testing.F) {
	f.Add([]byte("1\n0\n4194304\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pid := range parsePIDs(b) {
			require.GreaterOrEqual(t, pid, int64(0))
			require.LessOrEqual(t, pid, int64(math.MaxInt32))
		}
	})
}

func TestParsePairs(t *testing.T) {
	require.Equal(t, map[string]uint64{"usage_usec": 1, "user_usec": math.MaxUint64},
		parsePairs([]byte("usage_usec 1\nuser_usec 18446744073709551615\nsystem_usec 18446744073709551616\nhalf\na b c\nx -1\n")))
}

func FuzzParsePairs(f *testing.F) {
	f.Add([]byte("usage_usec 1\nuser_usec 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, n := range parsePairs(b) {
			require.True(t, bytes.Contains(b, []byte(name)))
			_ = n
		}
	})
}

func TestParseIO(t *testing.T) {
	read, written := parseIOStat([]byte("8:0 rbytes=1 wbytes=20 rios=9 wios=9 dbytes=9 dios=9\n8:16 rbytes=2 wbytes=x\n253:0\n"))
	require.Equal(t, [2]uint64{3, 20}, [2]uint64{read, written})
	read, written, known := parseServiceBytes([]byte("8:0 Read 1\n8:0 Write 20\n8:0 Sync 5\n8:0 Total 26\n8:16 Read 2\n8:16 Write x\nTotal 29\n"))
	require.Equal(t, [2]uint64{3, 20}, [2]uint64{read, written})
	require.True(t, known)
	_, _, known = parseServiceBytes([]byte("Total 0\n"))
	require.False(t, known)
}

func FuzzParseIO(f *testing.F) {
	f.Add([]byte("8:0 rbytes=1 wbytes=20\n"))
	f.Add([]byte("8:0 Read 1\n8:0 Write 20\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Twice the file is twice the sum.
		twice := slices.Concat(b, []byte("\n"), b)
		r1, w1 := parseIOStat(b)
		r2, w2 := parseIOStat(twice)
		require.Equal(t, [2]uint64{2 * r1, 2 * w1}, [2]uint64{r2, w2})
		r1, w1, known := parseServiceBytes(b)
		r2, w2, _ = parseServiceBytes(twice)
		require.Equal(t, [2]uint64{2 * r1, 2 * w1}, [2]uint64{r2, w2})
		require.True(t, known || r1 == 0 && w1 == 0)
	})
}

func TestParseDevices(t *testing.T) {
	for _, test := range []struct {
		text  string
		gpus  []string
		known bool
	}{
		{"", nil, false},
		{"a *:* rwm\n", nil, false},
		{"c 1:3 rwm\n", nil, true},
		{"c 1:3 rwm\nc 195:255 rwm\nc 195:254 rwm\nc 195:3 rwm\nc 195:0 rwm\nb 195:1 rwm\nc 195:x rwm\n", []string{"0", "3"}, true},
		{"c 195:* rwm\n", nil, false},
	} {
		gpus, known := parseDevices([]byte(test.text))
		require.Equal(t, test.gpus, gpus, test.text)
		require.Equal(t, test.known, known, test.text)
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add([]byte("c 1:3 rwm\nc 195:3 rwm\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		gpus, known := parseDevices(b)
		require.True(t, known || gpus == nil)
		require.True(t, slices.IsSorted(gpus))
	})
}

func TestParseGPUList(t *testing.T) {
	const uuid = "GPU-0bd5a3f6-2b1c-4c5e-9a52-0a1b2c3d4e5f"
	for _, test := range []struct {
		list string
		want []string
	}{
		{"", nil}, {"0", []string{"0"}}, {"3,1,1", []string{"1", "3"}}, {"0-2,7", []string{"0", "1", "2", "7"}},
		{" 1 , 2 ", []string{"1", "2"}}, {"NoDevFiles", nil}, {"-1", nil}, {"256", nil}, {"2-1", nil}, {"1-x", nil},
		{uuid + ",MIG-" + uuid[4:], []string{uuid, "MIG-" + uuid[4:]}}, {"GPU-short,GPU-" + strings.Repeat("z", 36), nil},
	} {
		require.Equal(t, test.want, parseGPUList(test.list), test.list)
	}
	require.Len(t, parseGPUList("0-255"), mostGPUs)
}

func FuzzParseGPUList(f *testing.F) {
	f.Add("0-3,7,GPU-0bd5a3f6-2b1c-4c5e-9a52-0a1b2c3d4e5f")
	f.Fuzz(func(t *testing.T, list string) {
		gpus := parseGPUList(list)
		require.LessOrEqual(t, len(gpus), mostGPUs)
		for _, gpu := range gpus {
			// Whatever a user has put into the environment, a tag has one of few forms.
			require.Regexp(t, `^(\d{1,3}|(GPU-|MIG-|GPU-MIG-)[0-9a-f-]{36})$`, gpu)
		}
	})
}

func TestVariables(t *testing.T) {
	require.Equal(t, map[string]string{"A": "1=2", "B": ""}, variables([]byte("X=0\x00A=1=2\x00B=\x00AB=3\x00junk"), "A", "B", "C"))
}

func FuzzVariables(f *testing.F) {
	f.Add([]byte("X=0\x00A=1=2\x00B=\x00"), "A")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		for found, value := range variables(b, name) {
			require.Equal(t, name, found)
			require.True(t, bytes.Contains(b, []byte(name+"="+value)))
		}
	})
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three", "extraordinary", "x"}, wrap("one two  three extraordinary x", 8))
	require.Equal(t, []string{""}, wrap("", 8))
}
