package lustre_jobs

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/stretchr/testify/require"
)

// add gives the plugin lines as metrics, as it gets them where its table has filters.
func (s *still) add(lines string) {
	s.t.Helper()
	parser := influx.Parser{}
	require.NoError(s.t, parser.Init())
	metrics, err := parser.Parse([]byte(lines))
	require.NoError(s.t, err)
	for _, m := range metrics {
		require.NoError(s.t, s.Add(m, s.out))
	}
}

// An epoch counts the same whether it comes as a line or as a metric; what is no epoch is counted, and told once.
func TestAdd(t *testing.T) {
	s := newStill(t, t.TempDir())
	const line = `lustre_jobstats_epoch,fs=s,host=oss1,job=1,kind=ost,target=t epoch=10i,read_bytes=5i,read_ops=1i,snapshot=3i 1767225600000000000`
	s.add(line)
	require.True(t, s.AddLine([]byte(line)))
	require.Equal(t, int64(1), s.ledger.stats.repeated)
	require.Empty(t, s.out.GetTelegrafMetrics())

	for _, bad := range []string{
		`lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t read_bytes=5i 1`,
		`lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t epoch=1i,read_bytes=5 1`,
		`lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t epoch=1i,read_bytes=-5i 1`,
		`lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t epoch=1i,read\ bytes=5i 1`,
		`lustre_jobstats_epoch,fs=s,kind=ost,target=t epoch=1i,read_bytes=5i 1`,
	} {
		require.False(t, s.AddLine([]byte(bad)), bad)
		s.add(bad)
	}
	require.Equal(t, int64(5), s.ledger.stats.refused)
	require.Len(t, s.out.Errors, 1)
	require.EqualError(t, s.out.Errors[0], "a line of lustre_jobstats_epoch is left out: it has no fs, no target, no kind, no job or no epoch; "+
		"others are counted in refused of lustre_jobs_self")

	s.add("cpu usage=1 1\nslurm_job,user=alice job=\"x\" 1\nslurm_finished,user=alice job_id=0i 2")
	require.Len(t, s.out.GetTelegrafMetrics(), 3, "all else passes on")
	require.Empty(t, s.ledger.jobs)
	require.Equal(t, int64(5), s.next(time.Minute)["lustre_fs"])
	s.close()
}

// Lines may name targets without end; the table has one.
func TestTargetsAreBounded(t *testing.T) {
	l := newLedger(1)
	for i := range maxTargets {
		l.targets[targetName{7, strconv.Itoa(i)}] = nil
	}
	line := &epochLine{fs: []byte("s"), kind: []byte("ost"), target: []byte("t"), job: []byte("1"), epoch: 1, time: 1}
	require.ErrorIs(t, l.merge(line, 1), errTargets)
	require.Empty(t, l.places)
}

// Where the cluster is named, jobs of others are not taken.
func TestCluster(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm, p.Cluster = "stream", "hpc" })
	s.add("slurm_job,cluster=other,user=eve job=\"1\",job_id=1i,state=\"RUNNING\" 1\nslurm_job,cluster=hpc,user=alice job=\"2\",job_id=2i,state=\"RUNNING\" 1")
	require.Len(t, s.ledger.jobs, 1)
	require.Equal(t, "alice", s.ledger.jobs[2].User)
	s.close()
}

// Lines may name any fields; what is kept to write them faster is bounded, and what is written is right.
func TestLayoutsAreBounded(t *testing.T) {
	s := newStill(t, t.TempDir())
	for i := range maxLayouts + 5 {
		line := fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=%d,kind=ost,target=t epoch=1i,read_bytes=%di", i+1, i+1)
		for bit := range 11 {
			if i>>bit&1 == 1 {
				line = fmt.Appendf(line, ",f%d=%di", bit, i)
			}
		}
		require.True(t, s.AddLine(append(line, " 1767225600000000000"...)))
	}
	got := s.next(time.Minute)
	for i := range maxLayouts + 5 {
		require.Equal(t, int64(i+1), got[fmt.Sprint("lustre_job ", i+1)])
	}
	require.LessOrEqual(t, len(s.points.layouts), maxLayouts)
	s.close()
}

// The components of a heterogeneous job are jobs of their own.
func TestHeterogeneousJob(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm = "stream" })
	s.add(`slurm_job,user=alice,partition=a job="60+0",job_id=60i,het_job_id=60i,state="RUNNING",start=1767225600i 1
slurm_job,user=alice,partition=b job="60+1",job_id=61i,het_job_id=60i,state="RUNNING",start=1767225600i 1`)
	s.read("60", 0, 10, 5)
	s.read("61", 0, 10, 7)
	require.Equal(t, map[string]int64{"lustre_fs": 12, "lustre_user": 12, "lustre_job 60+0": 5, "lustre_job 60+1": 7}, s.next(time.Minute))
	s.close()
}

// The tasks of an array that wait have the array's id; the one that begins has its own name.
func TestArray(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm = "stream" })
	s.add(`slurm_job,user=alice,partition=a\,b job="50_[3-9]",job_id=50i,state="PENDING" 1`)
	s.read("50", 0, 10, 5)
	require.Equal(t, map[string]int64{"lustre_fs": 5}, s.next(time.Minute))
	s.add(`slurm_job,user=alice,partition=a job="50_9",job_id=50i,state="RUNNING",start=1767225600i 1`)
	s.read("50", 0, 10, 6)
	require.Equal(t, map[string]int64{"lustre_fs": 6, "lustre_user": 6, "lustre_job 50_9": 6}, s.next(time.Minute))
	s.add(`slurm_job,user=alice,partition=b job="50_[1]",job_id=50i,state="PENDING" 1`) // It is put back into the queue.
	s.read("50", 0, 10, 7)
	require.Equal(t, int64(7), s.next(time.Minute)["lustre_job 50_9"])
	s.close()
}
