package lustre_jobs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/durable"
)

// recordLedger gives a ledger with one place and some fields.
func recordLedger() *ledger {
	l := newLedger(1)
	l.addPlace(&place{placeName: placeName{"s", "ost", ""}})
	for _, name := range []string{"read_ops", "read", "read_usecs"} {
		l.fields.add(name)
	}
	return l
}

// Whatever a record holds behind its checksum, which keeps everything else out: it is refused, or reads as what it writes
// again.
func FuzzRecords(f *testing.F) {
	l := recordLedger()
	s := &series{
		place: l.byID[0], key: "j7", id: 3, changed: 9, created: 5, first: 4, last: 8, zero: 2, parts: []string{"", "a1000\x00"}, done: true,
		total: make([]int64, l.fields.len()),
	}
	s.total[fieldReadBytes], s.total[fieldOps] = 1<<40, 3
	s.listed.put(fieldReadBytes)
	s.listed.put(fieldOps)
	f.Add("j7", appendSeries(nil, s))
	l.identify(s, identity{kind: whoJob, job: "5_7", user: "alice", account: "physics", partition: "cpu", cluster: "hpc"})
	f.Add("j7", appendSeries(nil, s))
	f.Add(sumKey(sumName{levelUser, 0, "hpc", "alice"}), appendSum(nil, &sum{sumName: sumName{levelUser, 0, "hpc", "alice"}, total: s.total, listed: s.listed, zero: 3}))
	f.Add(uintKey(7), appendJob(nil, &job{ID: 7, Display: "5_7", State: "RUNNING"}))
	f.Add("oss1", appendServer(&server{host: "oss1", latest: 5, before: 3}))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		l := recordLedger()
		sealed := func(key string) []byte {
			if len(value) >= 4 {
				durable.Seal(value, 0, key)
			}
			return value
		}
		if s, err := l.readSeries(l.byID[0], "j"+key, sealed(seriesKey(l.byID[0], "j"+key))); err == nil {
			again, err := l.readSeries(l.byID[0], "j"+key, appendSeries(nil, s))
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
		if err := l.readSum(key, sealed(key)); err == nil {
			name, ok := sumOfKey(key)
			require.True(t, ok)
			require.Equal(t, key, sumKey(name))
			want := *l.sums[name]
			require.NoError(t, l.readSum(key, appendSum(nil, &want)))
			require.Equal(t, want, *l.sums[name])
		}
		if j, err := readJob(key, sealed(key)); err == nil {
			again, err := readJob(key, appendJob(nil, j))
			require.NoError(t, err)
			require.Equal(t, j, again)
		}
		if err := l.readServer(key, sealed(key)); err == nil {
			want := *l.servers[key]
			require.NoError(t, l.readServer(key, appendServer(&want)))
			require.Equal(t, want, *l.servers[key])
		}
	})
}
