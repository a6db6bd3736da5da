package lustre_jobs

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/stretchr/testify/require"
)

// read gives what a line says by name, as Telegraf's metric does.
func (l *epochLine) read(t *fieldTable) (tags map[string]string, fields map[string]int64) {
	tags, fields = make(map[string]string), make(map[string]int64)
	for _, tag := range []struct {
		key   string
		value []byte
	}{
		{"fs", l.fs}, {"target", l.target}, {"kind", l.kind}, {"shard", l.shard}, {"host", l.host}, {"job", l.job}, {"uid", l.uid},
		{"gid", l.gid}, {"exe", l.exe}, {"client", l.client},
	} {
		if len(tag.value) > 0 {
			tags[tag.key] = string(tag.value)
		}
	}
	for i, f := range l.fields {
		fields[t.name(f)] = l.values[i]
	}
	return tags, fields
}

func TestScan(t *testing.T) {
	s := newScanner(newFieldTable())
	require.True(t, s.scan([]byte(`lustre_jobstats_epoch,dc=west,exe=a\,b\ c\=d\x0A,fs=scratch,host=oss1,job=4711,kind=ost,target=scratch-OST0000,uid=1000 `+
		`epoch=1724140459176791282i,getattr=0i,read_bytes=9223372036854775807i,snapshot=-5i,write_ops=3i 1767225630000000001`)))
	tags, fields := s.line.read(s.table)
	require.Equal(t, map[string]string{
		"exe": `a,b c=d\x0A`, "fs": "scratch", "host": "oss1", "job": "4711", "kind": "ost", "target": "scratch-OST0000", "uid": "1000",
	}, tags)
	require.Equal(t, map[string]int64{"getattr": 0, "read_bytes": 9223372036854775807, "write_ops": 3}, fields)
	require.Equal(t, int64(1724140459176791282), s.line.epoch)
	require.Equal(t, int64(-5), s.line.snapshot)
	require.Equal(t, int64(1767225630000000001), s.line.time)
}

// What lustre_jobstats does not write is left to Telegraf's parser.
func TestScanRefuses(t *testing.T) {
	s := newScanner(newFieldTable())
	const tags = "lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t"
	require.True(t, s.scan([]byte(tags+" epoch=1i,ops=2i 3")))
	for _, line := range []string{
		"",
		"cpu,host=a usage=1 3",
		"lustre_jobstats_epoch epoch=1i 3",
		"lustre_jobstats_epoc,fs=s,job=1,kind=ost,target=t epoch=1i 3",
		"lustre_jobstats_epoch,fs=s,kind=ost,target=t epoch=1i 3", // no job
		"lustre_jobstats_epoch,fs=s,job=1,kind=ost epoch=1i 3",    // no target
		tags + " ops=2i 3", // no epoch
		tags + " epoch=1i,ops=2i",
		tags + " epoch=1i,ops=2i ",
		tags + " epoch=1i,ops=2i 3 ",
		tags + " epoch=1i,ops=2i 3\r",
		tags + "  epoch=1i,ops=2i 3",
		tags + " epoch=1i,ops=2i  3",
		tags + " epoch=1i,ops=2 3",
		tags + " epoch=1i,ops=2.5 3",
		tags + " epoch=1i,ops=2u 3",
		tags + " epoch=1i,ops=-2i 3",
		tags + " epoch=1i,ops=02i 3",
		tags + " epoch=1i,ops=i 3",
		tags + " epoch=1i,ops=9223372036854775808i 3",
		tags + " epoch=1i,ops=99999999999999999999i 3",
		tags + " epoch=1i,ops=true 3",
		tags + ` epoch=1i,ops="2" 3`,
		tags + " epoch=1i,ops=2i,ops=3i 3",
		tags + ` epoch=1i,o\ ps=2i 3`,
		tags + " epoch=1i,=2i 3",
		tags + " epoch=1i,ops=2i, 3",
		tags + ",=x epoch=1i,ops=2i 3",
		tags + ",x= epoch=1i,ops=2i 3",
		tags + ",x epoch=1i,ops=2i 3",
		tags + `,x=a\ epoch=1i,ops=2i 3`,
		tags + `,x=a\\,b=c epoch=1i,ops=2i 3`,
		tags + ",x=a=b epoch=1i,ops=2i 3",
	} {
		require.False(t, s.scan([]byte(line)), "%q", line)
	}
}

// Lines may name fields without end; the table has one.
func TestScanBoundsFields(t *testing.T) {
	s := newScanner(newFieldTable())
	taken := 0
	for i := range 2 * maxFields {
		if s.scan(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t epoch=1i,field_%d=2i 3", i)) {
			taken++
		}
	}
	require.Equal(t, maxFields-int(firstOther), taken)
	require.Equal(t, maxFields, s.table.len())
}

// What the scanner takes, Telegraf's parser reads as the same.
func FuzzScan(f *testing.F) {
	const tags = "lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t"
	for _, line := range []string{
		tags + " epoch=1i,ops=2i 3", tags + `,exe=a\,b\ c\=d,uid=0 epoch=1i,ops=2i 3`, tags + `,exe=a\xb epoch=1i,ops=-0i -3`,
		tags + ",job=2 epoch=1i,ops=2i 3", "lustre_jobstats_epoch,exe=\xff\xfe,fs=s,kind=ost,target=t epoch=9223372036854775807i 3",
		tags + ` epoch=1i 0`, tags + `,exe=a\ epoch=1i,ops=2i 3`, tags + `,exe=a" epoch=1i,ops=2i 3`, tags + `,e=a\b\ c epoch=1i,ops=2i 3`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s := newScanner(newFieldTable())
		if !s.scan(line) {
			return
		}
		parser := influx.Parser{}
		require.NoError(t, parser.Init())
		metrics, err := parser.Parse(line)
		require.NoError(t, err, "%q", line)
		require.Len(t, metrics, 1, "%q", line)
		m := metrics[0]
		require.Equal(t, measurementEpoch, m.Name())
		tags, fields := s.line.read(s.table)
		require.Equal(t, known(m), tags, "%q", line)
		fields["epoch"] = s.line.epoch
		if _, ok := m.GetField("snapshot"); ok {
			fields["snapshot"] = s.line.snapshot
		}
		got := make(map[string]int64)
		for _, f := range m.FieldList() {
			got[f.Key] = f.Value.(int64)
		}
		require.Equal(t, got, fields, "%q", line)
		require.Equal(t, m.Time().UnixNano(), s.line.time, "%q", line)
	})
}

// known gives the tags that an epochLine has.
func known(m telegraf.Metric) map[string]string {
	tags := m.Tags()
	maps.DeleteFunc(tags, func(key, _ string) bool {
		return !strings.Contains(" fs target kind shard host job uid gid exe client ", " "+key+" ")
	})
	return tags
}

// FuzzValues: what a record holds is read as it was, and any other text is refused or read without a fault.
func FuzzValues(f *testing.F) {
	f.Add("\x01\x05\x02\x80\x01", int64(3), int64(1)<<62)
	f.Add("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, record string, a, b int64) {
		values := make([]int64, maxFields)
		readValues(record, values)
		want := make([]int64, maxFields)
		want[0], want[7], want[maxFields-1] = a, b, a
		got := make([]int64, maxFields)
		require.True(t, readValues(string(appendValues(nil, want)), got))
		require.Equal(t, want, got)
	})
}
