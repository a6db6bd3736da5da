package execd

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/models"
	"github.com/influxdata/telegraf/plugins/common/shim" //nolint:depguard // What is compared with.
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/execd/testplugin"
)

// benchMetrics is how many metrics a gather has: about what a file server with many jobs sends.
const benchMetrics = 100_000

// benchInput adds benchMetrics metrics of 4 tags and 20 integer fields in one of three ways.
type benchInput struct {
	way    string
	done   chan struct{}
	jobs   []string
	keys   []string
	fields []*telegraf.Field
	tags   []*telegraf.Tag
	reused *testplugin.Metric
	values map[string]any
	labels map[string]string
}

func newBenchInput(way string) *benchInput {
	b := &benchInput{way: way, values: make(map[string]any), labels: make(map[string]string)}
	for i := range benchMetrics {
		b.jobs = append(b.jobs, strconv.Itoa(1_000_000+i))
	}
	for i := range 20 {
		b.keys = append(b.keys, fmt.Sprintf("operation_%d", i))
		b.fields = append(b.fields, &telegraf.Field{Key: b.keys[i], Value: int64(i) * 123_456_789})
	}
	b.tags = []*telegraf.Tag{{Key: "fs", Value: "scratch"}, {Key: "job"}, {Key: "kind", Value: "ost"}, {Key: "target", Value: "scratch-OST0001"}}
	b.reused = testplugin.NewMetric("lustre_jobstats", b.tags, b.fields, time.Unix(1_700_000_000, 0))
	return b
}

func (*benchInput) SampleConfig() string { return "" }

func (b *benchInput) Gather(acc telegraf.Accumulator) error {
	now := time.Unix(1_700_000_000, 0)
	for i, job := range b.jobs {
		b.tags[1].Value = job
		switch b.way {
		case "AddFields":
			values := make(map[string]any, len(b.keys))
			for k, key := range b.keys {
				values[key] = int64(i + k)
			}
			acc.AddFields("lustre_jobstats", values,
				map[string]string{"fs": "scratch", "job": job, "kind": "ost", "target": "scratch-OST0001"}, now)
		case "AddMetric":
			m := metric.New("lustre_jobstats",
				map[string]string{"fs": "scratch", "job": job, "kind": "ost", "target": "scratch-OST0001"}, nil, now)
			for k, key := range b.keys {
				m.AddField(key, int64(i+k))
			}
			acc.AddMetric(m)
		case "OwnMetric":
			// Telegraf's shim keeps a metric in its channel after AddMetric has returned, so it must get new ones.
			tags := make([]*telegraf.Tag, len(b.tags))
			for t := range b.tags {
				tag := *b.tags[t]
				tags[t] = &tag
			}
			fields := make([]telegraf.Field, len(b.keys))
			list := make([]*telegraf.Field, len(b.keys))
			for k, key := range b.keys {
				fields[k] = telegraf.Field{Key: key, Value: int64(i + k)}
				list[k] = &fields[k]
			}
			acc.AddMetric(testplugin.NewMetric("lustre_jobstats", tags, list, now))
		case "ReusedMetric":
			acc.AddMetric(b.reused)
		}
	}
	if b.done != nil {
		close(b.done)
	}
	return nil
}

// sink gives a pipe to a process that throws away what it reads, so that its CPU is not counted.
func sink(b *testing.B) *os.File {
	b.Helper()
	cmd := exec.Command("cat")
	cmd.Stdout = nil
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, stdin.Close())
		require.NoError(b, cmd.Wait())
	})
	return stdin.(*os.File)
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func gatherOurs(b *testing.B, way string, to *os.File) {
	b.Helper()
	ri := models.NewRunningInput(newBenchInput(way), &models.InputConfig{Name: "bench", Tags: map[string]string{}})
	p := &program{out: &stdout{file: to, failed: func(err error) { b.Error(err) }}}
	p.newInput(ri).gatherNow()
}

func gatherShim(b *testing.B, way string, to *os.File) {
	b.Helper()
	prompt, prompter, err := os.Pipe()
	require.NoError(b, err)
	stdin, stdout := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = prompt, to
	s := shim.New()
	os.Stdin, os.Stdout = stdin, stdout

	input := newBenchInput(way)
	input.done = make(chan struct{})
	require.NoError(b, s.AddInput(input))
	go func() {
		_, _ = io.WriteString(prompter, "\n")
		<-input.done
		_ = prompter.Close()
	}()
	require.NoError(b, s.RunInput(shim.PollIntervalDisabled))
	_ = prompt.Close()
}

// BenchmarkAgainstShim runs the same gather through this package and through Telegraf's shim, one after the other, and
// reports the CPU time that each takes for a metric, from the plugin to the pipe, and how they compare.
func BenchmarkAgainstShim(b *testing.B) {
	for _, way := range []string{"AddFields", "AddMetric", "OwnMetric"} {
		b.Run(way, func(b *testing.B) {
			to := sink(b)
			var ours, theirs time.Duration
			b.ResetTimer()
			for range b.N {
				start := cpu(b)
				gatherOurs(b, way, to)
				between := cpu(b)
				gatherShim(b, way, to)
				ours += between - start
				theirs += cpu(b) - between
			}
			per := float64(b.N) * benchMetrics
			b.ReportMetric(float64(ours.Nanoseconds())/per, "ours-ns/metric")
			b.ReportMetric(float64(theirs.Nanoseconds())/per, "shim-ns/metric")
			b.ReportMetric(100*float64(ours)/float64(theirs), "%-of-shim")
		})
	}
}

// BenchmarkGather has what a gather costs at least: a plugin that reuses one metric of its own.
func BenchmarkGather(b *testing.B) {
	to := sink(b)
	b.ReportAllocs()
	for range b.N {
		gatherOurs(b, "ReusedMetric", to)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchMetrics, "ns/metric")
}

// BenchmarkLine compares the way a metric becomes a line with Telegraf's serializer.
func BenchmarkLine(b *testing.B) {
	input := newBenchInput("")
	input.tags[1].Value = "1234567"
	m := metric.New("lustre_jobstats", nil, nil, time.Unix(1_700_000_000, 0))
	for _, tag := range input.tags {
		m.AddTag(tag.Key, tag.Value)
	}
	for _, field := range input.fields {
		m.AddField(field.Key, field.Value)
	}
	m.AddField("load", math.Pi)
	line, err := appendMetric(nil, m)
	require.NoError(b, err)

	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		b.ReportAllocs()
		for range b.N {
			line, _ = appendMetric(line[:0], m)
		}
	})
	b.Run("telegraf", func(b *testing.B) {
		var s influx.Serializer
		require.NoError(b, s.Init())
		b.SetBytes(int64(len(line)))
		b.ReportAllocs()
		for range b.N {
			_, _ = s.Serialize(m)
		}
	})
}
