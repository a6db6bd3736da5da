package jobstats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ostText is job_stats of a 2.15 OST: entries jobs, six operations active in each; step moves every counter.
func ostText(entries, step int) []byte {
	b := []byte("job_stats:\n")
	for j := range entries {
		b = fmt.Appendf(b, "- %-16s %d\n", "job_id:", 1000000+j)
		b = fmt.Appendf(b, "  %-16s %d.%09d secs.nsecs\n", "snapshot_time:", 1724140459+step*30, j)
		b = fmt.Appendf(b, "  %-16s %d.%09d secs.nsecs\n", "start_time:", 1724100000, j)
		b = fmt.Appendf(b, "  %-16s %d.%09d secs.nsecs\n", "elapsed_time:", 40459+step*30, 0)
		for _, op := range []struct{ name, unit string }{
			{"read_bytes", "bytes"}, {"write_bytes", "bytes"}, {"read", "usecs"}, {"write", "usecs"}, {"getattr", "usecs"},
			{"setattr", "usecs"}, {"punch", "usecs"}, {"sync", "usecs"}, {"destroy", "usecs"}, {"create", "usecs"},
			{"statfs", "usecs"}, {"get_info", "usecs"}, {"set_info", "usecs"}, {"quotactl", "usecs"}, {"prealloc", "usecs"},
		} {
			n, size := 0, 0
			switch op.name {
			case "read_bytes", "write_bytes":
				n, size = 100+step+j%100, 1048576
			case "read", "write", "punch", "sync":
				n, size = 100+step+j%50, 600
			}
			lo := min(n, 1) * size / 2
			b = fmt.Appendf(b, "  %-16s { samples: %11d, unit: %5s, min: %8d, max: %8d, sum: %16d, sumsq: %18d }\n",
				op.name+":", n, op.unit, lo, size, n*size, n*size*size)
		}
	}
	return b
}

// Parsing from memory, every entry changed, against counting newlines. The same text is in the caches of both.
func BenchmarkParse(b *testing.B) {
	texts := [][]byte{ostText(20000, 1), ostText(20000, 2)}
	p := &Parser{Ops: NewOpTable()}
	b.SetBytes(int64(len(texts[0])))
	b.ReportAllocs()
	var floor, ours time.Duration
	for i := 0; b.Loop(); i++ {
		text := texts[i%2]
		start := time.Now()
		lines := bytes.Count(text, []byte("\n"))
		middle := time.Now()
		counters := 0
		for rest := text; ; {
			e, used, _, err := p.Next(rest, true)
			if err != nil {
				b.Fatal(err)
			}
			if e == nil {
				break
			}
			counters += len(e.Counters)
			rest = rest[used:]
		}
		ours += time.Since(middle)
		floor += middle.Sub(start)
		require.Equal(b, 1+20000*19, lines)
		require.Equal(b, 120000, counters)
	}
	b.ReportMetric(float64(ours)/float64(floor), "x_newlines")
}

// The same through the scanner's buffer.
func BenchmarkScan(b *testing.B) {
	text := ostText(20000, 1)
	p := &Parser{Ops: NewOpTable()}
	var buf []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		s := NewScanner(bytes.NewReader(text), p, buf)
		buf = s.buf
		counters := 0
		for {
			e, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(b, err)
			counters += len(e.Counters)
		}
		require.Equal(b, 120000, counters)
	}
}
