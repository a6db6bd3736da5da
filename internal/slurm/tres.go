package slurm

import (
	"bytes"
	"fmt"
)

// tres is what a list of trackable resources names. What it does not name is Unknown, and GPUs that it does not name are
// none.
type tres struct {
	CPUs   int64
	Nodes  int64
	Memory int64 // bytes
	GPUs   []GPUs
}

// parseTRES reads a list such as cpu=4,mem=62.50G,node=1,billing=4,gres/gpu=4,gres/gpu:a100=4. GPUs are appended to gpus.
// gres/gpu counts all GPUs, those of known types among them: what the types leave of it has the type "".
func parseTRES(b []byte, types names, gpus []GPUs) (tres, error) {
	t := tres{CPUs: Unknown, Nodes: Unknown, Memory: Unknown}
	if isNothing(b) {
		t.GPUs = gpus
		return t, nil
	}
	untyped, first := int64(0), len(gpus)
	for more := true; more; {
		var item []byte
		item, b, more = bytes.Cut(b, []byte(","))
		eq := bytes.IndexByte(item, '=')
		if eq < 0 {
			return t, fmt.Errorf("%s has no amount", quoted(item))
		}
		name, value := item[:eq], item[eq+1:]
		var err error
		switch string(name) {
		case "cpu":
			t.CPUs, err = parseCount(value)
		case "node":
			t.Nodes, err = parseCount(value)
		case "mem":
			t.Memory, err = parseMemory(value)
		case "gres/gpu":
			untyped, err = parseCount(value)
		default:
			var count int64
			if typ, ok := bytes.CutPrefix(name, []byte("gres/gpu:")); ok {
				count, err = parseCount(value)
				gpus = addGPUs(gpus, first, typ, count, types)
			}
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", quoted(name), err)
		}
	}
	for _, g := range gpus[first:] {
		untyped -= g.Count
	}
	t.GPUs = addGPUs(gpus, first, nil, max(0, untyped), types)
	return t, nil
}

// addGPUs adds to the number of one type's GPUs in gpus[from:].
func addGPUs(gpus []GPUs, from int, typ []byte, count int64, types names) []GPUs {
	if count == 0 {
		return gpus
	}
	for i := range gpus[from:] {
		if gpus[from+i].Type == string(typ) {
			gpus[from+i].Count += count
			return gpus
		}
	}
	return append(gpus, GPUs{Type: types.of(typ), Count: count})
}

// appendGres adds the GPUs of a list of generic resources to gpus. The list is as nodes have it, gpu:a100:4(S:0-1),gpu:2,
// or as jobs ask for it, gres:gpu:a100:4 (up to 23.02) or gres/gpu:a100:4. Other resources, such as shard and mps, are
// passed over. A resource without a number is one.
func appendGres(gpus []GPUs, b []byte, types names) ([]GPUs, error) {
	if isNothing(b) {
		return gpus, nil
	}
	first := len(gpus)
	for len(b) > 0 {
		var item []byte
		item, b = cutGres(b)
		name := item
		if bytes.HasSuffix(name, []byte(")")) {
			name = name[:max(0, bytes.LastIndexByte(name, '('))]
		}
		for _, prefix := range [...]string{"gres:", "gres/"} {
			name = bytes.TrimPrefix(name, []byte(prefix))
		}
		rest, ok := bytes.CutPrefix(name, []byte("gpu"))
		if !ok || (len(rest) > 0 && rest[0] != ':' && rest[0] != '=') {
			continue
		}
		typ, count, err := parseGPU(rest)
		if err != nil {
			return gpus, fmt.Errorf("%s: %w", quoted(item), err)
		}
		if count > maxGPUs {
			return gpus, fmt.Errorf("%s: too many GPUs", quoted(item))
		}
		gpus = addGPUs(gpus, first, typ, count, types)
	}
	return gpus, nil
}

// cutGres cuts b at its first comma outside of parentheses.
func cutGres(b []byte) (item, rest []byte) {
	depth := 0
	for i, c := range b {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// parseGPU reads what stands behind gpu: nothing, :2, :a100, :a100:2, :(null):2, =2 or :a100=2.
func parseGPU(b []byte) (typ []byte, count int64, err error) {
	if len(b) == 0 {
		return nil, 1, nil
	}
	value := b[1:]
	if at := bytes.LastIndexAny(value, ":="); at >= 0 {
		count, err = parseCount(value[at+1:])
		return gpuType(value[:at]), count, err
	}
	count, err = parseCount(value)
	if err != nil && b[0] == ':' && len(value) > 0 {
		return gpuType(value), 1, nil
	}
	return nil, count, err
}

// maxGPUType is longer than types of GPUs are.
const maxGPUType = 64

// gpuType gives nil for (null) and for what users made up: sbatch takes any text.
func gpuType(b []byte) []byte {
	for _, c := range b {
		if !isWordByte(c) && bytes.IndexByte([]byte("_-.+"), c) < 0 {
			return nil
		}
	}
	if len(b) > maxGPUType {
		return nil
	}
	return b
}
