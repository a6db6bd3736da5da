package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Node is a row of `scontrol -d show node -o`. Rows share their lists: these are not to be changed.
type Node struct {
	Name        string
	State       NodeState
	Partitions  []string
	CPUs        int64 // CPUTot
	CPUsUsed    int64 // CPUAlloc
	CPUsUsable  int64 // CPUEfctv, without those set aside for the system (22.05 and later); CPUTot before
	CPULoad     float64
	HasLoad     bool  // slurmd told its load; of a node that went down it is the last
	Memory      int64 // bytes; RealMemory
	MemoryUsed  int64 // bytes; AllocMem: what jobs were given, not what they use
	MemorySpec  int64 // bytes; MemSpecLimit: what is set aside for the system
	MemoryFree  int64 // bytes; what the operating system has free; Unknown
	GPUs        []GPUs
	GPUsUsed    []GPUs
	BootTime    int64
	SlurmdStart int64
	Version     string // of slurmd; "" where it did not say
	Reason      string // why it is down or drained; any text, its lines joined by blanks
	ReasonUser  string
	ReasonSince int64
}

// NodeState is a node's state: its base, as "IDLE", and its flags, as "DRAIN". The words are those of 22.05 and later,
// also for what older ones print, such as MAINT and IDLE* (IDLE+MAINTENANCE, IDLE+NOT_RESPONDING).
type NodeState struct {
	Base  string
	Flags []string
}

// Has tells whether the state has one of the flags.
func (s NodeState) Has(flags ...string) bool {
	for _, flag := range flags {
		if slices.Contains(s.Flags, flag) {
			return true
		}
	}
	return false
}

// String gives the state as scontrol prints it, such as "MIXED+DRAIN".
func (s NodeState) String() string {
	return strings.Join(append([]string{s.Base}, s.Flags...), "+")
}

// Nodes asks for all nodes, those of hidden partitions too: one REQUEST_NODE_INFO and one REQUEST_PARTITION_INFO. Cloud
// nodes that are powered down are not among 22.05's, but where PrivateData has cloud; 24.11 has them.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	text, err := c.Run(ctx, "scontrol", "--local", "-a", "-d", "show", "node", "-o")
	if err != nil {
		return nil, err
	}
	nodes, err := parseNodes(text)
	if err != nil {
		return nil, fmt.Errorf("scontrol show node: %w", err)
	}
	return nodes, nil
}

func parseNodes(text []byte) ([]Node, error) {
	const first = "NodeName="
	p := nodeParser{
		names:      names{},
		partitions: map[string][]string{},
		states:     map[string]NodeState{},
		gres:       map[string][]GPUs{},
	}
	nodes := make([]Node, 0, bytes.Count(text, []byte("\n")))
	err := scontrolRows(text, first, " CPUTot=", "No nodes in the system", func(row []byte) error {
		name, rest, _ := bytes.Cut(row[len(first):], []byte(" "))
		nodes = append(nodes, Node{Name: string(name), CPUsUsable: Unknown, MemoryFree: Unknown})
		if err := p.parse(rest, &nodes[len(nodes)-1]); err != nil {
			return fmt.Errorf("node %s: %w", quoted(name), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// nodeParser keeps one copy of what repeats from row to row.
type nodeParser struct {
	names      names
	partitions map[string][]string
	states     map[string]NodeState
	gres       map[string][]GPUs
}

// The keys that each node has.
const (
	nodeCPUAlloc = 1 << iota
	nodeCPUTot
	nodeRealMemory
	nodeAllocMem
	nodeState
)

// parse reads a node's pairs. Three parts of a row may hold what looks like pairs: the features, which end at Gres; the
// words of the operating system, which end at RealMemory; and all from the reason on, which administrators wrote. Of a key
// that stands before the features only that one counts, of another the last.
func (p *nodeParser) parse(row []byte, n *Node) error {
	seen := 0
	head, rest, _ := bytes.Cut(row, []byte(" AvailableFeatures="))
	for key, value, more := nextPair(head); key != nil; key, value, more = nextPair(more) {
		bit, err := n.setCPUs(key, value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		seen |= bit
	}
	rest = upFrom(rest, " Gres=")
	for {
		key, value, more := nextPair(rest)
		switch string(key) {
		case "", "Comment", "Extra":
			return n.check(seen)
		case "Reason":
			p.reason(rest[bytes.Index(rest, []byte("Reason="))+len("Reason="):], n)
			return n.check(seen)
		case "OS":
			more = upFrom(more, " RealMemory=")
		default:
			bit, err := p.set(n, key, value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			seen |= bit
		}
		rest = more
	}
}

// upFrom gives b from key on, and all of b where the key is not there.
func upFrom(b []byte, key string) []byte {
	return b[max(0, bytes.Index(b, []byte(key))):]
}

// setCPUs sets the field of a key that stands before the features. It returns a bit for each that all nodes have.
func (n *Node) setCPUs(key, value []byte) (bit int, err error) {
	switch string(key) {
	case "CPUAlloc":
		n.CPUsUsed, err = parseInt(value)
		return nodeCPUAlloc, err
	case "CPUTot":
		n.CPUs, err = parseInt(value)
		return nodeCPUTot, err
	case "CPUEfctv":
		n.CPUsUsable, err = parseInt(value)
	case "CPULoad":
		n.CPULoad, n.HasLoad, err = parseLoad(value)
	}
	return 0, err
}

// set sets the field of a key that stands behind the features. It returns a bit for each that all nodes have.
func (p *nodeParser) set(n *Node, key, value []byte) (bit int, err error) {
	switch string(key) {
	case "Gres":
		n.GPUs, err = p.gpus(value)
	case "GresUsed":
		n.GPUsUsed, err = p.gpus(value)
	case "Version":
		n.Version = p.names.of(value)
	case "RealMemory":
		n.Memory, err = parseMemory(value)
		bit = nodeRealMemory
	case "AllocMem":
		n.MemoryUsed, err = parseMemory(value)
		bit = nodeAllocMem
	case "FreeMem":
		if !isNothing(value) {
			n.MemoryFree, err = parseMemory(value)
		}
	case "MemSpecLimit":
		n.MemorySpec, err = parseMemory(value)
	case "State":
		n.State, err = p.state(value)
		bit = nodeState
	case "Partitions":
		n.Partitions = p.lists(value)
	case "BootTime":
		n.BootTime, err = parseTime(value)
	case "SlurmdStartTime":
		n.SlurmdStart, err = parseTime(value)
	}
	return bit, err
}

// check checks that a node has what each node has.
func (n *Node) check(seen int) error {
	for i, key := range []string{"CPUAlloc", "CPUTot", "RealMemory", "AllocMem", "State"} {
		if seen&(1<<i) == 0 {
			return errors.New("no " + key)
		}
	}
	if n.CPUsUsable == Unknown {
		n.CPUsUsable = n.CPUs
	}
	if n.BootTime == 0 {
		n.CPULoad, n.HasLoad = 0, false // from 23.11 on 0.00 stands for what no slurmd said
	}
	return nil
}

// noLoad is what NO_VAL is in hundredths: no load.
const noLoad = 42949672

// parseLoad reads a load.
func parseLoad(value []byte) (load float64, ok bool, err error) {
	if isNothing(value) {
		return 0, false, nil
	}
	load, err = strconv.ParseFloat(string(value), 64)
	if err != nil || !(load >= 0) {
		return 0, false, fmt.Errorf("%s is no load", quoted(value))
	}
	if load >= noLoad {
		return 0, false, nil
	}
	return load, true, nil
}

func (p *nodeParser) gpus(value []byte) ([]GPUs, error) {
	if gpus, ok := p.gres[string(value)]; ok {
		return gpus, nil
	}
	gpus, err := appendGres(nil, value, p.names)
	if err == nil {
		p.gres[string(value)] = gpus
	}
	return gpus, err
}

func (p *nodeParser) lists(value []byte) []string {
	if list, ok := p.partitions[string(value)]; ok {
		return list
	}
	list := listOf(value)
	p.partitions[string(value)] = list
	return list
}

func (p *nodeParser) state(value []byte) (NodeState, error) {
	if s, ok := p.states[string(value)]; ok {
		return s, nil
	}
	s, err := parseNodeState(value)
	if err == nil {
		p.states[string(value)] = s
	}
	return s, err
}

// parseNodeState reads a state such as MIXED+DRAIN, IDLE*+CLOUD+POWERED_DOWN or MAINT$. Before 21.08 what is a flag now
// stood in the base's place or as a sign behind it.
func parseNodeState(value []byte) (NodeState, error) {
	var s NodeState
	add := func(flag string) {
		if flag != "" && !slices.Contains(s.Flags, flag) {
			s.Flags = append(s.Flags, flag)
		}
	}
	for i, word := range strings.Split(string(value), "+") {
		name := strings.TrimRight(word, stateSigns)
		flag := newerFlag(name)
		switch {
		case i > 0 && flag == "":
			add(name)
		case i == 0 && flag == "":
			s.Base = name
		case i == 0:
			s.Base = "IDLE"
			add(flag)
		default:
			add(flag)
		}
		for _, sign := range word[len(name):] {
			add(signFlag(sign))
		}
	}
	if s.Base == "" {
		return s, fmt.Errorf("%s is no state", quoted(value))
	}
	return s, nil
}

// stateSigns are the signs of sinfo(1), "NODE STATE CODES".
const stateSigns = "*~#!%$@^-"

func signFlag(sign rune) string {
	return [...]string{"NOT_RESPONDING", "POWERED_DOWN", "POWERING_UP", "POWER_DOWN", "POWERING_DOWN", "MAINTENANCE",
		"REBOOT_REQUESTED", "REBOOT_ISSUED", "PLANNED"}[strings.IndexRune(stateSigns, sign)]
}

// newerFlag gives the flag for what 20.11's node_state_string prints in the place of IDLE, and for its flag POWER. It is
// "" for other words.
func newerFlag(word string) string {
	switch word {
	case "MAINT":
		return "MAINTENANCE"
	case "RESERVED", "PLANNED":
		return word
	case "REBOOT":
		return "REBOOT_REQUESTED"
	case "INVAL":
		return "INVALID_REG"
	case "POWER":
		return "POWERED_DOWN"
	}
	return ""
}

// reason reads what stands behind Reason=, such as bad dimm [root@2026-11-21T09:13:41]. Who and when stand at the end of
// its first line.
func (p *nodeParser) reason(rest []byte, n *Node) {
	text, more := rest, []byte(nil)
	for end := 0; ; {
		i := bytes.IndexByte(rest[end:], ']')
		if i < 0 {
			text = upToKey(rest)
			break
		}
		end += i + 1
		start, user, since := reasonStamp(rest[:end])
		if start >= 0 && endsLine(rest[end:]) {
			n.ReasonUser, n.ReasonSince = p.names.of(user), since
			text, more = rest[:start], upToKey(rest[end:])
			break
		}
	}
	words := append(strings.Fields(string(text)), strings.Fields(string(more))...)
	n.Reason = strings.Join(words, " ")
}

// reasonStamp reads [user@time] at the end of b. start is where it begins, and -1 where there is none.
func reasonStamp(b []byte) (start int, user []byte, since int64) {
	start = bytes.LastIndex(b, []byte(" ["))
	if start < 0 {
		return -1, nil, 0
	}
	stamp := b[start+2 : len(b)-1]
	at := bytes.LastIndexByte(stamp, '@')
	if at < 0 {
		return -1, nil, 0
	}
	since, err := parseTime(stamp[at+1:])
	if err != nil {
		return -1, nil, 0
	}
	return start, stamp[:at], since
}

// endsLine tells whether a line of a reason ends before rest: there the row ends, comes the next line, which scontrol -o
// sets off by 8 blanks, or one of the keys that may follow.
func endsLine(rest []byte) bool {
	return len(bytes.TrimSpace(rest)) == 0 || bytes.HasPrefix(rest, []byte("        ")) || len(upToKey(rest)) == 0
}

// upToKey cuts b before the first of the keys that may stand behind a reason.
func upToKey(b []byte) []byte {
	for _, key := range [...]string{" Comment=", " Extra=", " InstanceId=", " InstanceType=", " ReservationName=", " TLSCert"} {
		if i := bytes.Index(b, []byte(key)); i >= 0 {
			b = b[:i]
		}
	}
	return b
}

// Partition is a row of `scontrol show partition -o`.
type Partition struct {
	Name         string
	State        string // "UP", "DOWN", "DRAIN", "INACTIVE"
	Default      bool
	Hidden       bool
	MaxTime      int64 // seconds; Unlimited; Unknown
	PriorityTier int64 // Unknown
	Nodes        int64 // TotalNodes; Unknown
	CPUs         int64 // TotalCPUs; Unknown
}

// Partitions asks for all partitions, hidden ones too: one REQUEST_PARTITION_INFO.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	text, err := c.Run(ctx, "scontrol", "--local", "-a", "show", "partition", "-o")
	if err != nil {
		return nil, err
	}
	partitions, err := parsePartitions(text)
	if err != nil {
		return nil, fmt.Errorf("scontrol show partition: %w", err)
	}
	return partitions, nil
}

func parsePartitions(text []byte) ([]Partition, error) {
	const first = "PartitionName="
	var partitions []Partition
	err := scontrolRows(text, first, " TotalNodes=", "No partitions in the system", func(row []byte) error {
		name, rest, _ := bytes.Cut(row[len(first):], []byte(" "))
		p := Partition{Name: string(name), MaxTime: Unknown, PriorityTier: Unknown, Nodes: Unknown, CPUs: Unknown}
		for {
			key, value, more := nextPair(rest)
			if key == nil {
				break
			}
			if err := p.set(key, value); err != nil {
				return fmt.Errorf("partition %s: %s: %w", quoted(name), key, err)
			}
			rest = more
		}
		if p.State == "" {
			return fmt.Errorf("partition %s: no State", quoted(name))
		}
		partitions = append(partitions, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return partitions, nil
}

// set sets the field of a key. These have the same names from 20.11 to 26.05.
func (p *Partition) set(key, value []byte) (err error) {
	switch string(key) {
	case "State":
		p.State = textOf(value)
	case "Default":
		p.Default = string(value) == "YES"
	case "Hidden":
		p.Hidden = string(value) == "YES"
	case "MaxTime":
		p.MaxTime, err = parseDuration(value)
	case "PriorityTier":
		p.PriorityTier, err = parseInt(value)
	case "TotalNodes":
		p.Nodes, err = parseCount(value)
	case "TotalCPUs":
		p.CPUs, err = parseCount(value)
	}
	return err
}
