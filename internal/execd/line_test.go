package execd

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/models"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	serializer "github.com/influxdata/telegraf/plugins/serializers/influx"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/execd/testplugin"
)

// tagsAndFields makes a metric whose tags and fields keep their order.
func tagsAndFields(name string, tags []*telegraf.Tag, fields ...*telegraf.Field) telegraf.Metric {
	return testplugin.NewMetric(name, tags, fields, time.Unix(0, 17))
}

func TestAppendMetric(t *testing.T) {
	for _, test := range []struct {
		name   string
		metric telegraf.Metric
		line   string
		err    error
	}{
		{
			name: "types",
			metric: tagsAndFields("m", []*telegraf.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: "x"}},
				&telegraf.Field{Key: "i", Value: int64(-1)},
				&telegraf.Field{Key: "u", Value: uint64(math.MaxUint64)},
				&telegraf.Field{Key: "f", Value: 0.1},
				&telegraf.Field{Key: "g", Value: 1e21},
				&telegraf.Field{Key: "s", Value: "x \"y\\\n,= "},
				&telegraf.Field{Key: "t", Value: true}),
			line: "m,a=1,b=x i=-1i,u=9223372036854775807i,f=0.1,g=1000000000000000000000,s=\"x \\\"y\\\\\n,= \",t=true 17\n",
		},
		{
			name: "escapes",
			metric: tagsAndFields("a b,c=d\t\n", []*telegraf.Tag{{Key: "k ,=", Value: "v ,=\r\f"}},
				&telegraf.Field{Key: "f ,=\\", Value: int64(1)}),
			line: `a\ b\,c=d\t\n,k\ \,\==v\ \,\=\r\f f\ \,\=\=1i 17` + "\n",
		},
		{
			name: "what has no form is left out",
			metric: tagsAndFields("m", []*telegraf.Tag{{Key: "", Value: "x"}, {Key: "x", Value: ""}, {Key: `\`, Value: "x"}, {Key: "k", Value: `v\\`}},
				&telegraf.Field{Key: "nan", Value: math.NaN()},
				&telegraf.Field{Key: "inf", Value: math.Inf(-1)},
				&telegraf.Field{Key: "", Value: int64(1)},
				&telegraf.Field{Key: "int", Value: 1},
				&telegraf.Field{Key: "nil"},
				&telegraf.Field{Key: "i", Value: int64(1)}),
			line: "m,k=v i=1i 17\n",
		},
		{name: "no name", metric: tagsAndFields("", nil, &telegraf.Field{Key: "i", Value: int64(1)}), err: errNoName},
		{name: "no fields", metric: tagsAndFields("m", nil), err: errNoFields},
		{name: "no fields left", metric: tagsAndFields("m", nil, &telegraf.Field{Key: "i", Value: math.NaN()}), err: errNoFields},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := appendMetric([]byte("before\n"), test.metric)
			require.ErrorIs(t, err, test.err)
			require.Equal(t, "before\n"+test.line, string(line))
			sameAsTelegraf(t, test.metric)
		})
	}
}

// sameAsTelegraf requires what Telegraf's serializer makes of m.
func sameAsTelegraf(t *testing.T, m telegraf.Metric) []byte {
	t.Helper()
	var s serializer.Serializer
	require.NoError(t, s.Init())
	want, wantErr := s.Serialize(m)
	line, err := appendMetric(nil, m)
	require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
	require.Equal(t, string(want), string(line))
	return line
}

// FuzzAppendMetric compares with Telegraf's serializer. Where Telegraf's parser can read the line at all, the splitter
// must find it to be one line, and the metric must come back.
func FuzzAppendMetric(f *testing.F) {
	f.Add("m", "k", "v", "f", "s", int64(1), uint64(2), 3.5, true, int64(17))
	f.Add("a b,=\t\n\f\r\\", `k\`, `\\`, "f =,\\", "\"\\\n\t", int64(-1), uint64(math.MaxUint64), math.Inf(1), false, int64(-1))
	f.Add("", "", "", "", "", int64(0), uint64(0), math.NaN(), false, int64(0))
	f.Add("#", "\xff", "\x00", "ü", "\\\"", int64(math.MinInt64), uint64(math.MaxInt64)+1, 1e-300, false, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, name, key, value, field, text string, i int64, u uint64, x float64, b bool, at int64) {
		m := testplugin.NewMetric(name,
			[]*telegraf.Tag{{Key: key, Value: value}, {Key: "z" + value, Value: key}},
			[]*telegraf.Field{
				{Key: field, Value: text}, {Key: "i" + field, Value: i}, {Key: "u", Value: u}, {Key: "x", Value: x}, {Key: "b", Value: b},
			}, time.Unix(0, at))
		line := sameAsTelegraf(t, m)
		if len(line) == 0 {
			return
		}
		var parser influx.Parser
		require.NoError(t, parser.Init())
		want, err := parser.Parse(line)
		if err != nil || len(want) != 1 {
			return
		}
		s := splitter{limit: longestLine}
		s.push(bytes.Clone(line))
		one := s.next()
		require.Equal(t, string(line[:len(line)-1]), string(one))
		got, err := parser.Parse(one)
		require.NoError(t, err)
		// The buffer is used again: no metric may be a view of it.
		clear(s.buf)
		testutil.RequireMetricsEqual(t, want, got)
	})
}

func newTestLines(t *testing.T) (*lines, *os.File, *testutil.CaptureLogger) {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	// Nobody reads while the test writes.
	_, err = unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = writer.Close()
		_ = reader.Close()
	})
	log := &testutil.CaptureLogger{}
	return newLines(&stdout{file: writer, failed: func(error) {}}, log), reader, log
}

// readable gives what can be read without waiting.
func readable(t *testing.T, reader *os.File) string {
	t.Helper()
	conn, err := reader.SyscallConn()
	require.NoError(t, err)
	var n int
	require.NoError(t, conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
	require.NoError(t, err)
	text := make([]byte, n)
	_, err = io.ReadFull(reader, text)
	require.NoError(t, err)
	return string(text)
}

func TestLinesAreWrittenOnceAGather(t *testing.T) {
	l, reader, _ := newTestLines(t)
	l.hold()
	m := tagsAndFields("m", nil, &telegraf.Field{Key: "i", Value: int64(1)})
	for range 10 {
		l.add(m, false)
	}
	time.Sleep(5 * flushDelay) // Nothing may come, so there is nothing to wait for.
	require.Empty(t, readable(t, reader))
	l.flush()
	require.Equal(t, strings.Repeat("m i=1i 17\n", 10), readable(t, reader))

	// A buffer that is full does not wait for the end.
	l.hold()
	wide := tagsAndFields("m", nil, &telegraf.Field{Key: "s", Value: strings.Repeat("x", 1000)})
	for range bufferSize / 1000 {
		l.add(wide, false)
	}
	require.Equal(t, bufferSize/1000, strings.Count(readable(t, reader), "\n"))
}

func TestLinesWithoutAGatherAreWrittenSoon(t *testing.T) {
	l, reader, _ := newTestLines(t)
	l.add(tagsAndFields("m", nil, &telegraf.Field{Key: "i", Value: int64(1)}), false)
	l.addRaw([]byte("as it is"))
	require.NoError(t, reader.SetReadDeadline(time.Now().Add(patience)))
	want := "m i=1i 17\nas it is\n"
	got := make([]byte, len(want))
	_, err := io.ReadFull(reader, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// A metric of the plugin's own type that panics half-way must leave no half line.
type panicking struct{ *testplugin.Metric }

func (panicking) FieldList() []*telegraf.Field { panic("no fields") }

func TestLinesStayWhole(t *testing.T) {
	l, reader, log := newTestLines(t)
	m := testplugin.NewMetric("m", nil, []*telegraf.Field{{Key: "i", Value: int64(1)}}, time.Unix(0, 17))
	l.add(m, false)
	require.Panics(t, func() { l.add(panicking{m}, false) })
	l.add(tagsAndFields("n", nil), false)
	l.tryFlush()
	require.Equal(t, "m i=1i 17\n", readable(t, reader))
	require.Equal(t, []string{`E! [] Metric "n" cannot be written: no field that line protocol can carry`}, log.Errors())
}

func TestTracking(t *testing.T) {
	l, reader, _ := newTestLines(t)
	acc := newAccumulator(l.log, l.add)
	tracking := acc.WithTracking(3)
	l.hold()
	one := tracking.AddTrackingMetric(metric.New("m", nil, map[string]any{"i": 1}, time.Unix(0, 1)))
	two := tracking.AddTrackingMetricGroup([]telegraf.Metric{
		metric.New("m", nil, map[string]any{"i": 2}, time.Unix(0, 2)),
		metric.New("m", nil, map[string]any{"i": 3}, time.Unix(0, 3)),
	})
	// A gather may wait for them: then nobody calls flush.
	want := "m i=1i 1\nm i=2i 2\nm i=3i 3\n"
	got := make([]byte, len(want))
	require.NoError(t, reader.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.ReadFull(reader, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	for _, id := range []telegraf.TrackingID{one, two} {
		info := <-tracking.Delivered()
		require.Equal(t, id, info.ID())
		require.True(t, info.Delivered())
	}
	bad := tracking.AddTrackingMetric(metric.New("m", nil, nil, time.Unix(0, 1)))
	info := <-tracking.Delivered()
	require.Equal(t, bad, info.ID())
	require.False(t, info.Delivered())

	l.out.dead = true
	late := tracking.AddTrackingMetric(metric.New("m", nil, map[string]any{"i": 1}, time.Unix(0, 1)))
	info = <-tracking.Delivered()
	require.Equal(t, late, info.ID())
	require.False(t, info.Delivered(), "stdout is gone")
}

func TestAccumulator(t *testing.T) {
	l, reader, log := newTestLines(t)
	acc := newAccumulator(log, l.add)
	at := time.Unix(0, 1_500_000_017)
	fields, tags := map[string]any{"i": 1}, map[string]string{"a": "b"}
	l.hold()
	acc.AddFields("fields", fields, tags, at)
	acc.AddGauge("gauge", fields, tags, at)
	acc.AddCounter("counter", fields, tags, at)
	acc.AddSummary("summary", fields, tags, at)
	acc.AddHistogram("histogram", fields, tags, at)
	acc.SetPrecision(time.Second)
	acc.AddMetric(metric.New("metric", tags, fields, at))
	acc.AddFields("now", fields, nil)
	acc.AddError(nil)
	acc.AddError(errors.New("oh"))
	l.flush()
	text := readable(t, reader)
	require.Regexp(t, `^fields,a=b i=1i 1500000017
gauge,a=b i=1i 1500000017
counter,a=b i=1i 1500000017
summary,a=b i=1i 1500000017
histogram,a=b i=1i 1500000017
metric,a=b i=1i 2000000000
now i=1i \d{10}000000000
$`, text)
	require.Equal(t, []string{"E! [] oh"}, log.Errors())
}

// Filters and options of Telegraf must not see what was written of a metric that is used again.
func TestMetricMayBeUsedAgain(t *testing.T) {
	l, reader, log := newTestLines(t)
	ri := models.NewRunningInput(&testplugin.Input{}, &models.InputConfig{Name: "x", MeasurementPrefix: "p_"})
	acc := newAccumulator(log, l.add)
	acc.make = ri.MakeMetric
	fields := []*telegraf.Field{{Key: "i", Value: int64(0)}}
	m := testplugin.NewMetric("m", nil, fields, time.Unix(0, 17))
	l.hold()
	for i := range 3 {
		m.SetName("m")
		fields[0].Value = int64(i)
		acc.AddMetric(m)
	}
	l.flush()
	require.Equal(t, "p_m i=0i 17\np_m i=1i 17\np_m i=2i 17\n", readable(t, reader))
}

func TestStdoutFailsOnce(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	defer func() { _ = writer.Close() }()
	var failures []error
	out := &stdout{file: writer, failed: func(err error) { failures = append(failures, err) }}
	require.False(t, out.write([]byte("x")))
	require.False(t, out.write([]byte("x")))
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0], unix.EPIPE)
}
