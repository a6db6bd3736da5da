package slurm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTRES(t *testing.T) {
	for text, want := range map[string]tres{
		"cpu=4,mem=62.50G,node=1,billing=4,gres/gpu=4,gres/gpu:a100=4":                                        {4, 1, 64000 << 20, []GPUs{{"a100", 4}}},
		"cpu=1,mem=1000M,node=1,billing=1,gres/gpu=1":                                                         {1, 1, 1000 << 20, []GPUs{{"", 1}}},
		"gres/gpu:a100=1,gres/gpu=4,gres/gpu:h100=2":                                                          {Unknown, Unknown, Unknown, []GPUs{{"a100", 1}, {"h100", 2}, {"", 1}}},
		"gres/gpu:h100=2,gres/gpu:l40s=2":                                                                     {Unknown, Unknown, Unknown, []GPUs{{"h100", 2}, {"l40s", 2}}},
		"cpu=0,mem=0,gres/gpu=0,gres/gpu:a100=0":                                                              {0, Unknown, 0, nil},
		"cpu=2K,gres/shard=8,gres/mps=100,gres/gpuutil=5,gres/gpumem=5G,license/matlab=1,energy=77,fs/disk=1": {2048, Unknown, Unknown, nil},
		"N/A": {Unknown, Unknown, Unknown, nil}, "": {Unknown, Unknown, Unknown, nil}, "(null)": {Unknown, Unknown, Unknown, nil},
	} {
		got, err := parseTRES([]byte(text), nil, nil)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"cpu=4,mem":              `"mem" has no amount`,
		"cpu=4,":                 `"" has no amount`,
		"cpu=x":                  `"cpu": "x" is no number`,
		"gres/gpu:a100=":         `"gres/gpu:a100": "" is no number`,
		"mem=62,50G":             `"50G" has no amount`,
		"cpu=1,mem=99999999999E": `"mem": "99999999999E" is too large`,
	} {
		_, err := parseTRES([]byte(text), nil, nil)
		require.EqualError(t, err, want, text)
	}
}

// A buffer that is handed in is used, and what it holds is left alone.
func TestParseTRESBuffer(t *testing.T) {
	buffer := append(make([]GPUs, 0, 8), GPUs{"a100", 7})
	got, err := parseTRES([]byte("gres/gpu=3,gres/gpu:a100=2"), names{}, buffer)
	require.NoError(t, err)
	require.Equal(t, []GPUs{{"a100", 7}, {"a100", 2}, {"", 1}}, got.GPUs)

	types := names{"a100": "a100"}
	text := []byte("cpu=4,mem=62.50G,gres/gpu=4,gres/gpu:a100=4")
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = parseTRES(text, types, buffer[:0]) }))
}

func TestAppendGres(t *testing.T) {
	for text, want := range map[string][]GPUs{
		"gpu:a100:4(S:0-1)":                     {{"a100", 4}},
		"gpu:a100:3(IDX:0-2)":                   {{"a100", 3}},
		"gpu:a100:2(IDX:0,2),gpu:h100:1(IDX:3)": {{"a100", 2}, {"h100", 1}},
		"gpu:h100:2,gpu:l40s:2":                 {{"h100", 2}, {"l40s", 2}},
		"gpu:4":                                 {{"", 4}},
		"gpu:(null):4(IDX:0-3)":                 {{"", 4}},
		"gpu:(null):2,gpu:2":                    {{"", 4}},
		"gpu:0":                                 nil,
		"gpu:a100:0(IDX:N/A)":                   nil,
		"gpu":                                   {{"", 1}},
		"gpu:a100":                              {{"a100", 1}},
		"gpu:1g.5gb:7":                          {{"1g.5gb", 7}},
		"gres:gpu:a100:4":                       {{"a100", 4}},
		"gres/gpu:a100:4":                       {{"a100", 4}},
		"gres:gpu":                              {{"", 1}},
		"gres:gpu:1":                            {{"", 1}},
		"gres/gpu=4":                            {{"", 4}},
		"gres/gpu:a100=4":                       {{"a100", 4}},
		"gres:gpu:h100:1,gres:gpu:l40s:1":       {{"h100", 1}, {"l40s", 1}},
		"shard:a100:8,gpu:a100:2,mps:100,gpu_mem:9,craynetwork:4": {{"a100", 2}},
		"gres:gpu:a|b:1":  {{"", 1}},
		"gres:gpu:x\ny:2": {{"", 2}},
		"gres:gpu:" + strings.Repeat("x", 65) + ":2": {{"", 2}},
		"(null)": nil,
		"N/A":    nil,
		"":       nil,
	} {
		got, err := appendGres(nil, []byte(text), nil)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"gpu:a100:four":       `"gpu:a100:four": "four" is no number`,
		"gpu:":                `"gpu:": "" is no number`,
		"shard:1,gpu=":        `"gpu=": "" is no number`,
		"gpu=many":            `"gpu=many": "many" is no number`,
		"gpu:a100:4294967294": `"gpu:a100:4294967294": too many GPUs`,
	} {
		_, err := appendGres(nil, []byte(text), nil)
		require.EqualError(t, err, want, text)
	}
}

// All GPUs are as many as gres/gpu says, or as the types do where they say more; what was read reads back the same.
func FuzzTRES(f *testing.F) {
	for _, seed := range []string{
		"cpu=4,mem=62.50G,node=1,billing=4,gres/gpu=4,gres/gpu:a100=4", "gres/gpu:a100=1,gres/gpu=4,gres/gpu:h100=2", "N/A",
		"gres/gpu:=3,gres/gpu=1", "cpu=1,,", "gres/gpu:a100=1,gres/gpu:a100=2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTRES([]byte(text), names{}, nil)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		total, typed := int64(0), int64(0)
		for item := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(item, "=")
			if !ok {
				break
			}
			count, _ := parseCount([]byte(value))
			switch {
			case name == "gres/gpu":
				total = count
			case strings.HasPrefix(name, "gres/gpu:"):
				typed += count
			}
		}
		if typed >= 0 && typed < 1<<60 {
			require.Equal(t, max(total, typed), sumGPUs(got.GPUs))
		}
		again, err := parseTRES([]byte(renderTRES(got)), names{}, nil)
		require.NoError(t, err)
		require.Equal(t, got.CPUs, again.CPUs)
		require.Equal(t, got.Nodes, again.Nodes)
		require.Equal(t, got.Memory, again.Memory)
		require.ElementsMatch(t, got.GPUs, again.GPUs)
	})
}

// renderTRES writes what parseTRES reads.
func renderTRES(t tres) string {
	var items []string
	add := func(name string, v int64) {
		if v != Unknown {
			items = append(items, fmt.Sprintf("%s=%d", name, v))
		}
	}
	add("cpu", t.CPUs)
	add("node", t.Nodes)
	if t.Memory != Unknown {
		items = append(items, fmt.Sprintf("mem=%d.%09dK", t.Memory/1024, t.Memory%1024*1e9/1024))
	}
	total := int64(0)
	for _, g := range t.GPUs {
		total += g.Count
		if g.Type != "" {
			add("gres/gpu:"+g.Type, g.Count)
		}
	}
	if total > 0 {
		add("gres/gpu", total)
	}
	return strings.Join(items, ",")
}

// Types are words, none comes twice, and no count is 0.
func FuzzGres(f *testing.F) {
	for _, seed := range []string{"gpu:a100:4(S:0-1)", "gres:gpu:a|b:1,gpu:2", "gpu:(null):4(IDX:0-3)", "gpu:a(b", "shard:1,gpu=2", "((,gpu)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := appendGres(nil, []byte(text), names{})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, g := range got {
			require.False(t, seen[g.Type])
			seen[g.Type] = true
			require.Positive(t, g.Count)
			require.Regexp(t, `^[A-Za-z0-9_.+-]{0,64}$`, g.Type)
		}
	})
}
