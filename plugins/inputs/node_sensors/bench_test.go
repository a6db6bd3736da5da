package node_sensors

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// BenchmarkParse measures the parsers on files as large as they get.
func BenchmarkParse(b *testing.B) {
	lines := func(n int, format string) []byte {
		var text bytes.Buffer
		for i := range n {
			fmt.Fprintf(&text, format, i)
		}
		return text.Bytes()
	}
	utmp := bytes.Repeat(make([]byte, utmpSize), 1000)
	for i := range 1000 {
		utmp[i*utmpSize], utmp[i*utmpSize+44] = utmpProcess, 'a'
	}
	for _, parser := range []struct {
		name  string
		text  []byte
		parse func(b []byte)
	}{
		{"cpuinfo", bigCPUInfo(256), func(b []byte) { parseMHz(b) }},
		{"meminfo", lines(60, "Name%d:   123456 kB\n"), func(b []byte) { keys(b) }},
		{"mounts", lines(1000, "tmpfs /run/user/%d tmpfs rw,nosuid,nodev,relatime,size=10%% 0 0\n"), func(b []byte) { parseMounts(b) }},
		{"utmp", utmp, func(b []byte) { _, _ = parseUtmp(b) }},
		{"procs", lines(4000, "%d\n"), func(b []byte) { parsePIDs(b) }},
		{"cpu.stat", lines(20, "name%d_usec 123456789\n"), func(b []byte) { parsePairs(b) }},
		{"io.stat", lines(20, "8:%d rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"), func(b []byte) { parseIOStat(b) }},
		{"uses", lines(100, "%d1, GPU-11111111-2222-3333-4444-555555555555, 1024\n"), func(b []byte) { _, _ = parseUses(b) }},
		{"environ", []byte(strings.Repeat("SOME_VARIABLE=with some value\x00", 300)), func(b []byte) { variables(b, jobGPUs, stepGPUs) }},
	} {
		b.Run(parser.name, func(b *testing.B) {
			b.SetBytes(int64(len(parser.text)))
			b.ReportAllocs()
			for b.Loop() {
				parser.parse(parser.text)
			}
		})
	}
}

// BenchmarkGather measures the default sensors on this machine.
func BenchmarkGather(b *testing.B) {
	p := newPlugin()
	p.Log = testutil.Logger{Quiet: true}
	p.Options.NetIFAddrs.Interval = 0
	require.NoError(b, p.Init())
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, p.Gather(new(testutil.NopAccumulator)))
	}
}
