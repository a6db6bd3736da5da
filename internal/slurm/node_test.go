package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// none leaves a key out of a row.
const none = "\x00"

// nodeRow gives a node's row as scontrol -d show node -o of 24.11 prints it, changed where changes say: a key and its
// value by turns. What stands behind AveWatts is not there unless it is asked for.
func nodeRow(changes ...string) string {
	keys := []string{"NodeName", "Arch", "CoresPerSocket", "CPUAlloc", "CPUEfctv", "CPUTot", "CPULoad", "AvailableFeatures",
		"ActiveFeatures", "Gres", "GresDrain", "GresUsed", "NodeAddr", "NodeHostName", "Port", "Version", "OS", "RealMemory",
		"AllocMem", "FreeMem", "Sockets", "Boards", "MemSpecLimit", "State", "ThreadsPerCore", "TmpDisk", "Weight", "Owner",
		"MCS_label", "Partitions", "BootTime", "SlurmdStartTime", "LastBusyTime", "ResumeAfterTime", "CfgTRES", "AllocTRES",
		"CurrentWatts", "AveWatts", "Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName"}
	values := map[string]string{
		"NodeName": "cpu01", "Arch": "x86_64", "CoresPerSocket": "16 ", "CPUAlloc": "8", "CPUEfctv": "62", "CPUTot": "64",
		"CPULoad": "3.72", "AvailableFeatures": "ib", "ActiveFeatures": "ib", "Gres": "(null)", "GresDrain": "N/A",
		"GresUsed": none, "NodeAddr": "10.0.0.1", "NodeHostName": "cpu01", "Port": none, "Version": "24.11.5",
		"OS": "Linux 6.1.0 #1 SMP Debian 6.1.1-1 (2026-01-01) ", "RealMemory": "256000", "AllocMem": "2048", "FreeMem": "18471",
		"Sockets": "2", "Boards": "1", "MemSpecLimit": none, "State": "MIXED", "ThreadsPerCore": "2", "TmpDisk": "0",
		"Weight": "1", "Owner": "N/A", "MCS_label": "N/A", "Partitions": "cpu,all ", "BootTime": "2026-11-21T08:46:22",
		"SlurmdStartTime": "2026-11-21T09:13:33", "LastBusyTime": "2026-11-21T09:13:33", "ResumeAfterTime": "None",
		"CfgTRES": "cpu=64,mem=250G,billing=64", "AllocTRES": "cpu=8,mem=2G", "CurrentWatts": "0", "AveWatts": "0 ",
		"Reason": none, "Comment": none, "Extra": none, "InstanceId": none, "InstanceType": none, "ReservationName": none,
	}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = changes[i+1]
	}
	var row []string
	for _, key := range keys {
		if values[key] != none {
			row = append(row, key+"="+values[key])
		}
	}
	return strings.Join(row, " ") + "\n"
}

// plainNode is nodeRow without changes.
func plainNode() Node {
	return Node{
		Name: "cpu01", State: NodeState{Base: "MIXED"}, Partitions: []string{"cpu", "all"}, CPUs: 64, CPUsUsed: 8,
		CPUsUsable: 62, CPULoad: 3.72, HasLoad: true, Memory: 256000 << 20, MemoryUsed: 2 << 30, MemoryFree: 18471 << 20,
		BootTime: 1795250782, SlurmdStart: 1795252413, Version: "24.11.5",
	}
}

func TestNode(t *testing.T) {
	since := func(n *Node) { n.ReasonUser, n.ReasonSince = "root", 1795252421 }
	const stamp = " [root@2026-11-21T09:13:41]"
	for name, test := range map[string]struct {
		changes []string
		want    func(n *Node)
	}{
		"plain": {nil, func(*Node) {}},
		"before 22.05": {[]string{"CPUEfctv", none, "ResumeAfterTime", none, "State", "IDLE*+CLOUD+POWER"}, func(n *Node) {
			n.CPUsUsable, n.State = 64, NodeState{"IDLE", []string{"NOT_RESPONDING", "CLOUD", "POWERED_DOWN"}}
		}},
		"of 26.05": {[]string{"ResumeAfterTime", "None SuspendTime=INFINITE", "AveWatts", "0"}, func(*Node) {}},
		"never registered": {[]string{"Arch", none, "CPULoad", "N/A", "Version", none, "OS", none, "FreeMem", "N/A", "BootTime",
			"None", "SlurmdStartTime", "None", "LastBusyTime", "Unknown", "State", "DOWN+NOT_RESPONDING"}, func(n *Node) {
			n.CPULoad, n.HasLoad, n.Version, n.MemoryFree, n.BootTime, n.SlurmdStart = 0, false, "", Unknown, 0, 0
			n.State = NodeState{"DOWN", []string{"NOT_RESPONDING"}}
		}},
		"never registered, 24.11": {[]string{"CPULoad", "0.00", "BootTime", "None"}, func(n *Node) {
			n.CPULoad, n.HasLoad, n.BootTime = 0, false, 0
		}},
		"idle": {[]string{"CPULoad", "0.00"}, func(n *Node) { n.CPULoad = 0 }},
		"no load in hundredths": {[]string{"CPULoad", "42949672.94"}, func(n *Node) {
			n.CPULoad, n.HasLoad = 0, false
		}},
		"GPUs": {[]string{"Gres", "gpu:h100:2(S:0-1),gpu:l40s:2,shard:8", "GresUsed", "gpu:h100:1(IDX:0,3),gpu:l40s:0(IDX:N/A)"}, func(n *Node) {
			n.GPUs, n.GPUsUsed = []GPUs{{"h100", 2}, {"l40s", 2}}, []GPUs{{"h100", 1}}
		}},
		"GPUs without a type": {[]string{"Gres", "gpu:4", "GresUsed", "gpu:(null):3(IDX:0-2)"}, func(n *Node) {
			n.GPUs, n.GPUsUsed = []GPUs{{"", 4}}, []GPUs{{"", 3}}
		}},
		"set aside": {[]string{"Boards", "1 CoreSpecCount=2 CPUSpecList=0-1", "MemSpecLimit", "8192"}, func(n *Node) {
			n.MemorySpec = 8 << 30
		}},
		"of no partition": {[]string{"Partitions", none}, func(n *Node) { n.Partitions = nil }},
		"OS with keys":    {[]string{"OS", "x State=DOWN Gres=gpu:99 CPUTot=1 "}, func(*Node) {}},
		"features with keys": {[]string{"AvailableFeatures", "c State=DOWN GresUsed=gpu:9 CPUTot=1", "ActiveFeatures",
			"c State=DOWN Gres=gpu:9 CPUTot=1 Reason"}, func(*Node) {}},
		"no features":         {[]string{"ActiveFeatures", ""}, func(*Node) {}},
		"in a reservation":    {[]string{"ReservationName", "train"}, func(*Node) {}},
		"reason":              {[]string{"Reason", "bad dimm" + stamp}, func(n *Node) { n.Reason = "bad dimm"; since(n) }},
		"reason of odd signs": {[]string{"Reason", `GPU 3, "#42" | é=[x]` + stamp}, func(n *Node) { n.Reason = `GPU 3, "#42" | é=[x]`; since(n) }},
		"reason with keys": {[]string{"Reason", "State=IDLE Gres=gpu:99 Reason=x CPUTot=1" + stamp}, func(n *Node) {
			n.Reason = "State=IDLE Gres=gpu:99 Reason=x CPUTot=1"
			since(n)
		}},
		"reason of lines": {[]string{"Reason", "one" + stamp + "         two State=DOWN [eve@2020-01-01T00:00:00]        three"}, func(n *Node) {
			n.Reason = "one two State=DOWN [eve@2020-01-01T00:00:00] three"
			since(n)
		}},
		"reason with another's time": {[]string{"Reason", "was [eve@2020-01-01T00:00:00] before" + stamp}, func(n *Node) {
			n.Reason = "was [eve@2020-01-01T00:00:00] before"
			since(n)
		}},
		"reason without a time": {[]string{"Reason", "  low   memory [x] [y@z]", "Comment", "c"}, func(n *Node) {
			n.Reason = "low memory [x] [y@z]"
		}},
		"reason of a user with a realm": {[]string{"Reason", "psu [al ice@REALM@2026-11-21T09:13:41]"}, func(n *Node) {
			n.Reason, n.ReasonUser, n.ReasonSince = "psu", "al ice@REALM", 1795252421
		}},
		"reason, then all that may follow": {[]string{"Reason", "psu" + stamp, "Comment", "c State=DOWN", "Extra",
			`{"a": "Reason=z [eve@2020-01-01T00:00:00]"}`, "InstanceId", "i-1 ", "InstanceType", "t", "ReservationName", "r",
		}, func(n *Node) { n.Reason = "psu"; since(n) }},
		"comment of lines": {[]string{"Reason", "psu" + stamp, "Comment",
			"c\nNodeName=fake State=DOWN CPUAlloc=64\n\nReason=x [eve@2020-01-01T00:00:00]"}, func(n *Node) { n.Reason = "psu"; since(n) }},
		"comment without a reason": {[]string{"Comment", "State=DOWN Reason=x" + stamp}, func(*Node) {}},
		"extra without a reason":   {[]string{"Extra", "State=DOWN Reason=x" + stamp}, func(*Node) {}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := parseNodes([]byte(nodeRow(test.changes...) + nodeRow("NodeName", "cpu02")))
			require.NoError(t, err)
			want := plainNode()
			test.want(&want)
			after := plainNode()
			after.Name = "cpu02"
			require.Equal(t, []Node{want, after}, nodes)
		})
	}
}

func TestNodeErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, err string }{
		"no row":          {"slurm_load_node error: x\n", `row 1: no NodeName="slurm_load_node error: x"`},
		"cut off":         {strings.TrimSuffix(nodeRow(), "\n"), `the text is cut off: "NodeName=cpu01 Arch=x86_64 CoresPerSocket=16  CPUAlloc=8 CPUEfctv=62 CPUTot=64 C"...`},
		"cut off a row":   {nodeRow() + "NodeName=cpu02 Ar", `the text is cut off: "NodeName=cpu02 Ar"`},
		"no state":        {nodeRow() + nodeRow("NodeName", "cpu02", "State", none), `row 2: node "cpu02": no State`},
		"no memory":       {nodeRow("RealMemory", none), `row 1: node "cpu01": no RealMemory`},
		"only a name":     {"NodeName=cpu01\n", `row 1: node "cpu01": no CPUAlloc`},
		"empty state":     {nodeRow("State", ""), `row 1: node "cpu01": State: "" is no state`},
		"CPUs":            {nodeRow("CPUTot", "many"), `row 1: node "cpu01": CPUTot: "many" is no number`},
		"load":            {nodeRow("CPULoad", "NaN"), `row 1: node "cpu01": CPULoad: "NaN" is no load`},
		"boot":            {nodeRow("BootTime", "yesterday"), `row 1: node "cpu01": BootTime: "yesterday" is no time`},
		"GPUs":            {nodeRow("Gres", "gpu:a:b:"), `row 1: node "cpu01": Gres: "gpu:a:b:": "" is no number`},
		"no features":     {nodeRow("AvailableFeatures", none), `row 1: node "cpu01": no RealMemory`},
		"two errors, one": {nodeRow("CPUAlloc", "-1", "CPUTot", "x"), `row 1: node "cpu01": CPUAlloc: "-1" is no number`},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := parseNodes([]byte(test.text))
			require.EqualError(t, err, test.err)
			require.Nil(t, nodes)
		})
	}
}

func TestNoNodes(t *testing.T) {
	for _, text := range []string{"", "No nodes in the system\n"} {
		nodes, err := parseNodes([]byte(text))
		require.NoError(t, err)
		require.Empty(t, nodes)
	}
}

func TestNodeState(t *testing.T) {
	for text, want := range map[string]string{
		"IDLE":                                "IDLE",
		"MIXED+DRAIN":                         "MIXED+DRAIN",
		"IDLE+CLOUD+POWERED_DOWN":             "IDLE+CLOUD+POWERED_DOWN",
		"DOWN+DRAIN+INVALID_REG":              "DOWN+DRAIN+INVALID_REG",
		"UNKNOWN+NOT_RESPONDING":              "UNKNOWN+NOT_RESPONDING",
		"IDLE+MAINTENANCE+RESERVED":           "IDLE+MAINTENANCE+RESERVED",
		"DOWN*+DRAIN":                         "DOWN+NOT_RESPONDING+DRAIN",
		"IDLE*+CLOUD+POWERED_DOWN":            "IDLE+NOT_RESPONDING+CLOUD+POWERED_DOWN",
		"IDLE~+CLOUD+POWER":                   "IDLE+POWERED_DOWN+CLOUD",
		"MIXED#":                              "MIXED+POWERING_UP",
		"ALLOCATED!":                          "ALLOCATED+POWER_DOWN",
		"IDLE%":                               "IDLE+POWERING_DOWN",
		"ALLOCATED$":                          "ALLOCATED+MAINTENANCE",
		"MIXED@":                              "MIXED+REBOOT_REQUESTED",
		"REBOOT^":                             "IDLE+REBOOT_REQUESTED+REBOOT_ISSUED",
		"MIXED-":                              "MIXED+PLANNED",
		"MAINT*":                              "IDLE+MAINTENANCE+NOT_RESPONDING",
		"RESERVED":                            "IDLE+RESERVED",
		"PLANNED+CLOUD":                       "IDLE+PLANNED+CLOUD",
		"ALLOCATED+":                          "ALLOCATED",
		"INVAL":                               "IDLE+INVALID_REG",
		"IDLE+BRAND_NEW":                      "IDLE+BRAND_NEW",
		"FUTURE":                              "FUTURE",
		"IDLE+DYNAMIC_NORM+BLOCKED+POWER_UP!": "IDLE+DYNAMIC_NORM+BLOCKED+POWER_UP+POWER_DOWN",
	} {
		state, err := parseNodeState([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, state.String(), text)
	}
	for _, text := range []string{"", "+DRAIN", "*"} {
		_, err := parseNodeState([]byte(text))
		require.EqualError(t, err, fmt.Sprintf("%q is no state", text))
	}
	state := NodeState{"IDLE", []string{"CLOUD", "DRAIN"}}
	require.True(t, state.Has("DRAIN"))
	require.True(t, state.Has("FAIL", "CLOUD"))
	require.False(t, state.Has("IDLE", "FAIL"))
	require.False(t, state.Has())
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + path)
	require.NoError(t, err)
	return b
}

// The nodes of real clusters are what sinfo says of them.
func TestRealNodes(t *testing.T) {
	for version, count := range map[string]int{"22.05": 10, "24.11": 13, "26.05": 13} {
		t.Run(version, func(t *testing.T) {
			nodes, err := parseNodes(readFile(t, version+"/node.txt"))
			require.NoError(t, err)
			require.Len(t, nodes, count)
			said := map[string][]string{}
			for line := range strings.Lines(string(readFile(t, version+"/sinfo.txt"))) {
				name, rest, _ := strings.Cut(strings.TrimSpace(line), "|")
				said[name] = strings.Split(rest, "|")
			}
			require.Len(t, said, count)
			for _, n := range nodes {
				gres := func(text string) []GPUs {
					gpus, err := appendGres(nil, []byte(text), nil)
					require.NoError(t, err)
					return gpus
				}
				f := said[n.Name]
				cpus := strings.Split(f[0], "/") // allocated, idle, other, all
				require.Equal(t, fmt.Sprintf("%s of %s CPUs, %s of %s MiB", cpus[0], cpus[3], f[2], f[1]),
					fmt.Sprintf("%d of %d CPUs, %d of %d MiB", n.CPUsUsed, n.CPUs, n.MemoryUsed>>20, n.Memory>>20), n.Name)
				require.Equal(t, f[3], strings.ToLower(n.State.String()), n.Name)
				require.Equal(t, gres(f[4]), n.GPUs, n.Name)
				require.Equal(t, gres(f[5]), n.GPUsUsed, n.Name)
			}
		})
	}
}

func TestRealNodesExactly(t *testing.T) {
	drained := Node{
		Name: "gpu02", State: NodeState{"IDLE", []string{"DRAIN"}}, Partitions: []string{"gpu", "all"}, CPUs: 64,
		CPUsUsable: 64, CPULoad: 5.23, HasLoad: true, Memory: 512000 << 20, MemoryFree: 15860 << 20, GPUs: []GPUs{{"a100", 4}},
		BootTime: 1795258755, SlurmdStart: 1795270065, Version: "22.05.8", Reason: "GPU 3 ECC errors, see ticket #42 | pipe",
		ReasonUser: "root", ReasonSince: 1795270096,
	}
	spread := Node{
		Name: "gpu03", State: NodeState{Base: "MIXED"}, Partitions: []string{"gpu", "all"}, CPUs: 64, CPUsUsed: 5,
		CPUsUsable: 64, CPULoad: 5.14, HasLoad: true, Memory: 512000 << 20, MemoryUsed: 11364 << 20, MemoryFree: 16454 << 20,
		GPUs: []GPUs{{"h100", 2}, {"l40s", 2}}, GPUsUsed: []GPUs{{"h100", 1}, {"l40s", 1}}, BootTime: 1795258755,
		SlurmdStart: 1795273647, Version: "24.11.5",
	}
	cloud := Node{
		Name: "cloud01", State: NodeState{"IDLE", []string{"CLOUD", "POWERED_DOWN"}}, Partitions: []string{"cloud"}, CPUs: 16,
		CPUsUsable: 16, Memory: 64000 << 20, MemoryFree: Unknown,
	}
	lines := Node{
		Name: "cpu03", State: NodeState{"MIXED", []string{"DRAIN"}}, Partitions: []string{"cpu", "all"}, CPUs: 64, CPUsUsed: 10,
		CPUsUsable: 64, CPULoad: 5.08, HasLoad: true, Memory: 256000 << 20, MemoryUsed: 2 << 30, MemoryFree: 16709 << 20,
		BootTime: 1795258756, SlurmdStart: 1795272176, Version: "26.05.5",
		Reason:     "line one State=DOWN line two Gres=gpu:99 [bob@2020-01-01T00:00:00] four",
		ReasonUser: "root", ReasonSince: 1795272603,
	}
	set := Node{
		Name: "mem01", State: NodeState{"MIXED", []string{"DRAIN"}}, Partitions: []string{"cpu", "all", "secret"}, CPUs: 128,
		CPUsUsed: 52, CPUsUsable: 128, CPULoad: 5.08, HasLoad: true, Memory: 2000000 << 20, MemoryUsed: 56 << 30,
		MemorySpec: 8 << 30, MemoryFree: 16709 << 20, BootTime: 1795258756, SlurmdStart: 1795272176, Version: "26.05.5",
		Reason: `quote "x" é`, ReasonUser: "root", ReasonSince: 1795272183,
	}
	for _, test := range []struct {
		version string
		want    Node
	}{{"22.05", drained}, {"24.11", spread}, {"24.11", cloud}, {"26.05", cloud}, {"26.05", lines}, {"26.05", set}} {
		nodes, err := parseNodes(readFile(t, test.version+"/node.txt"))
		require.NoError(t, err)
		require.Contains(t, nodes, test.want)
	}
}

func TestClientNodes(t *testing.T) {
	client := runs(t, "scontrol --local -a -d show node -o", nodeRow())
	nodes, err := client.Nodes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Node{plainNode()}, nodes)

	client = runs(t, "scontrol --local -a -d show node -o", "x\n")
	_, err = client.Nodes(t.Context())
	require.EqualError(t, err, `scontrol show node: row 1: no NodeName="x"`)

	_, err = failing().Nodes(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

var errUnreachable = errors.New("scontrol: exit status 1: slurm_load error: Unable to contact slurm controller (connect failure)")

// failing gives a client whose commands fail, after they printed something.
func failing() *Client {
	return &Client{Mark: testMark, Run: func(context.Context, string, ...string) ([]byte, error) {
		return []byte(nodeRow()), errUnreachable
	}}
}

// runs gives a client for one command.
func runs(t *testing.T, command, text string) *Client {
	t.Helper()
	return &Client{Mark: testMark, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		require.Equal(t, command, strings.Join(append([]string{name}, args...), " "))
		return []byte(text), nil
	}}
}

func TestRealPartitions(t *testing.T) {
	want := []Partition{
		{Name: "cpu", State: "UP", Default: true, MaxTime: 2 * 86400, PriorityTier: 10, Nodes: 6, CPUs: 448},
		{Name: "gpu", State: "UP", MaxTime: 86400, PriorityTier: 1, Nodes: 4, CPUs: 208},
		{Name: "all", State: "UP", MaxTime: Unlimited, PriorityTier: 1, Nodes: 9, CPUs: 592},
		{Name: "cloud", State: "UP", MaxTime: Unlimited, PriorityTier: 1, Nodes: 3, CPUs: 48},
		{Name: "maint", State: "DOWN", MaxTime: Unlimited, PriorityTier: 1, Nodes: 1, CPUs: 64},
		{Name: "secret", State: "UP", Hidden: true, MaxTime: Unlimited, PriorityTier: 1, Nodes: 1, CPUs: 128},
	}
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		client := runs(t, "scontrol --local -a show partition -o", string(readFile(t, version+"/partition.txt")))
		partitions, err := client.Partitions(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, partitions, version)
	}
	_, err := failing().Partitions(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestPartitions(t *testing.T) {
	partitions, err := parsePartitions([]byte("PartitionName=a AllowGroups=domain users,x y State=DRAIN TotalNodes=0\n"))
	require.NoError(t, err)
	require.Equal(t, []Partition{{Name: "a", State: "DRAIN", MaxTime: Unknown, PriorityTier: Unknown, CPUs: Unknown}}, partitions)
	partitions, err = parsePartitions([]byte("No partitions in the system\n"))
	require.NoError(t, err)
	require.Empty(t, partitions)
	for text, want := range map[string]string{
		"PartitionName=a TotalNodes=1\n":                            `row 1: partition "a": no State`,
		"PartitionName=a State=UP MaxTime=soon TotalNodes=1\n":      `row 1: partition "a": MaxTime: "soon" is no time span`,
		"PartitionName=a State=UP TotalNodes=1\nPartitionName=b St": `the text is cut off: "PartitionName=b St"`,
	} {
		_, err := parsePartitions([]byte(text))
		require.EqualError(t, err, want)
	}
}

// Whatever administrators write, and slurmd tells of its operating system, a node's figures are its own.
func FuzzNodes(f *testing.F) {
	f.Add("bad dimm", "", "", "Linux 6.1", "ib", uint32(64), uint32(8), uint16(4))
	f.Add("a State=DOWN\nb [eve@2020-01-01T00:00:00]\n\nc", "x\nNodeName=y State=DOWN", "{\"a b\": 1}", "x State=DOWN", "a State=DOWN CPUTot=1", uint32(0), uint32(1), uint16(0))
	f.Add("x [eve@2020-01-01T00:00:00] Comment=y", " Reason=z [eve@2020-01-01T00:00:00]", "]", "", "", uint32(1), uint32(1), uint16(9))
	f.Fuzz(func(t *testing.T, reason, comment, extra, system, features string, cpus, memory uint32, gpus uint16) {
		if strings.Contains(reason+comment+extra+system+features, none) {
			return
		}
		if strings.Contains(system, " RealMemory=") || strings.Contains(" "+features, " Gres=") || strings.Contains(system+features, "\n") {
			return // what a node's own slurmd may say, and only an administrator who forges
		}
		for _, text := range []string{comment, extra} {
			for _, line := range strings.Split(text, "\n")[1:] {
				if strings.HasPrefix(line, "NodeName=") && strings.Contains(line, " CPUTot=") {
					return // what only an administrator who forges rows may say
				}
			}
		}
		changes := []string{"CPUTot", strconv.FormatUint(uint64(cpus), 10), "RealMemory", strconv.FormatUint(uint64(memory), 10),
			"Gres", fmt.Sprintf("gpu:a100:%d(S:0-1)", gpus), "AvailableFeatures", features, "ActiveFeatures", features}
		if system != "" {
			changes = append(changes, "OS", system+" ")
		}
		if comment != "" {
			changes = append(changes, "Comment", comment)
		}
		if extra != "" {
			changes = append(changes, "Extra", extra)
		}
		want := plainNode()
		want.CPUs, want.Memory = int64(cpus), int64(memory)<<20
		if gpus > 0 {
			want.GPUs = []GPUs{{"a100", int64(gpus)}}
		}
		lines := strings.FieldsFunc(reason, func(r rune) bool { return r == '\n' })
		if len(lines) > 0 {
			changes = append(changes, "Reason", strings.Join(append([]string{lines[0] + " [root@2026-11-21T09:13:41]"}, lines[1:]...), "         "))
			want.Reason, want.ReasonUser, want.ReasonSince = strings.Join(strings.Fields(reason), " "), "root", 1795252421
		}
		nodes, err := parseNodes([]byte(nodeRow(changes...) + nodeRow("NodeName", "cpu02")))
		require.NoError(t, err)
		require.Len(t, nodes, 2)
		require.Equal(t, "cpu02", nodes[1].Name)
		if strings.Contains(reason, "[") || len(upToKey([]byte(" "+reason))) <= len(reason) {
			want.Reason, want.ReasonUser, want.ReasonSince = nodes[0].Reason, nodes[0].ReasonUser, nodes[0].ReasonSince
		}
		require.Equal(t, want, nodes[0])
	})
}

// FuzzNodesText makes sure that each row of a sound text is a node.
func FuzzNodesText(f *testing.F) {
	f.Add([]byte(nodeRow() + nodeRow("Reason", "x [root@2026-11-21T09:13:41]")))
	f.Add([]byte("NodeName=a CPUTot=1 CPUAlloc=0 RealMemory=1 AllocMem=0 State=*\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		nodes, err := parseNodes(text)
		if err != nil {
			require.Nil(t, nodes)
			return
		}
		rows := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "NodeName=") && (rows == 0 || strings.Contains(line, " CPUTot=")) {
				rows++
			}
		}
		require.Len(t, nodes, rows)
		for _, n := range nodes {
			require.NotEmpty(t, n.State.Base)
			require.GreaterOrEqual(t, n.CPUs, int64(0))
			require.GreaterOrEqual(t, n.Memory, int64(0))
		}
	})
}

// Parsing the nodes of a large site, of which every tenth is drained. What is allocated are the nodes, their names and
// reasons, and one copy of what repeats.
func BenchmarkNodes(b *testing.B) {
	var text strings.Builder
	for i := range 2000 {
		changes := []string{"NodeName", fmt.Sprintf("cpu%04d", i), "NodeAddr", fmt.Sprintf("cpu%04d", i), "NodeHostName",
			fmt.Sprintf("cpu%04d", i), "CPULoad", fmt.Sprintf("%d.%02d", i%64, i%100), "FreeMem", strconv.Itoa(100000 + i)}
		if i%4 == 0 {
			changes = append(changes, "Gres", "gpu:a100:4(S:0-1)", "GresUsed", fmt.Sprintf("gpu:a100:%d(IDX:0-%d)", i%4+1, i%4))
		}
		if i%10 == 0 {
			changes = append(changes, "State", "MIXED+DRAIN", "Reason", "GPU 3 ECC errors [root@2026-11-21T09:13:41]")
		}
		text.WriteString(nodeRow(changes...))
	}
	rows := []byte(text.String())
	b.SetBytes(int64(len(rows)))
	b.ReportAllocs()
	for b.Loop() {
		nodes, err := parseNodes(rows)
		if err != nil || len(nodes) != 2000 {
			b.Fatal(len(nodes), err)
		}
	}
}
