package jobstats_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"telegraf-hpc/internal/jobstats"
)

const before = `job_stats:
- job_id:          4711
  snapshot_time:   1767225625.000000000 secs.nsecs
  start_time:      1767225610.000000000 secs.nsecs
  write_bytes:     { samples:         100, unit: bytes, min:  1048576, max:  1048576, sum:        104857600, sumsq:    109951162777600 }
`

// The entry was dropped, and the job wrote again.
const after = `job_stats:
- job_id:          4711
  snapshot_time:   1767226505.000000000 secs.nsecs
  start_time:      1767226500.000000000 secs.nsecs
  write_bytes:     { samples:           2, unit: bytes, min:  1048576, max:  1048576, sum:          2097152, sumsq:      2199023255552 }
`

func ExampleScanner() {
	ops := jobstats.NewOpTable()
	s := jobstats.NewScanner(strings.NewReader(before), &jobstats.Parser{Ops: ops}, nil)
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			continue
		}
		for _, c := range e.Counters {
			fmt.Printf("job %s, %s: %d requests, %d %s\n", e.JobID, ops.Op(c.Op).Name, c.Samples, c.Sum, ops.Op(c.Op).Unit)
		}
	}
	// Output: job 4711, write_bytes: 100 requests, 104857600 bytes
}

func ExampleLedger() {
	patterns, err := jobstats.ParseJobIDPatterns([]string{"%j"}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger, _, err := jobstats.Open(jobstats.Options{
		Host: "oss1", Patterns: patterns, MaxJobs: 1000, ForgetAfter: time.Hour, Refresh: time.Minute, Totals: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, text := range []string{before, after} {
		now := time.Unix(1767225630+int64(i)*900, 0)
		if _, err := ledger.Gather(strings.NewReader(text), now, 0, 600*time.Second); err != nil {
			fmt.Println(err)
		}
		ledger.Emit(func(p *jobstats.Point) {
			fmt.Printf("job %s: %d requests in %d lives\n", p.Labels.Job, p.Ops, p.Epochs)
		})
	}
	// Output:
	// job 4711: 100 requests in 1 lives
	// job 4711: 102 requests in 2 lives
}
