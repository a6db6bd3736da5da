package condor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// finished gives how many points InfluxDB has of the head's finished jobs, and how many of each job.
func (s *site) finished() (points int, jobs map[string]int) {
	s.t.Helper()
	jobs = make(map[string]int)
	for _, series := range s.DB.Query(database, `SELECT global_job_id FROM condor_finished WHERE schedd = '`+headSchedd+`' GROUP BY *`) {
		for _, row := range series.Rows {
			id, ok := row["global_job_id"].(string)
			require.True(s.t, ok)
			jobs[id]++
			points++
		}
	}
	return points, jobs
}

// 6,000 jobs are removed while the schedd is killed twice, the plugin once, and the history is rotated: in InfluxDB none is
// lost and none is twice. HTCondor names a rotated file by the second, and overwrites one of the same second: so the
// jobs leave in three parts, each of which fills one file, and more where all of one had left before the kill.
func TestFinishedJobsAreThereOnce(t *testing.T) {
	t.Parallel()
	const part, file = 2000, 3_500_000
	s := newSite(t, harness.CondorOptions{Extra: fmt.Sprintf("MAX_HISTORY_LOG = %d\nMAX_HISTORY_ROTATIONS = 100", file)})
	c := s.pool
	before := c.Submit("bob", "executable = /bin/sleep\narguments = 1000\nrequest_cpus = 64\nqueue 3")
	c.Command("condor_rm", before)
	c.WaitJobs(0, "true")
	submit := func() string {
		return c.Submit("alice", fmt.Sprintf("executable = /bin/sleep\narguments = 1000\nrequest_cpus = 64\nqueue %d", part))
	}
	clusters := []string{submit(), submit(), submit()}
	s.watch(`
collect = ["finished", "schedd", "queue"]
`)
	s.Until("condor_queue", map[string]string{"schedd": headSchedd}, harness.Row{"idle": 3 * part})
	parts := 0
	for _, kill := range []func() (wait func()){s.killSchedd, s.killPlugin, s.killSchedd} {
		for inTime := false; !inTime; parts++ {
			require.Less(t, parts, 12, "jobs leave too fast here to be caught at it")
			if parts >= len(clusters) {
				clusters = append(clusters, submit())
			}
			_, there := s.history()
			c.Command("condor_rm", clusters[parts])
			s.grown(file / 4)
			wait := kill()
			_, now := s.history()
			inTime = now-there < part
			wait()
			c.WaitJobs(0, "ClusterId == "+clusters[parts])
			s.rotated(parts + 1)
		}
	}
	recorded, records := s.history()
	require.Len(t, recorded, parts*part+3, "HTCondor itself has lost some")

	harness.Eventually(t, harness.Patience, func() error {
		if points, _ := s.finished(); points < parts*part {
			return fmt.Errorf("%d of %d jobs are in InfluxDB", points, parts*part)
		}
		return nil
	})
	s.Until("condor_queue", map[string]string{"schedd": headSchedd}, harness.Row{"idle": 0})
	points, jobs := s.finished()
	require.Equal(t, parts*part, points, "points")
	require.Len(t, jobs, parts*part)
	for id := range jobs {
		require.Contains(t, recorded, strconv.Quote(id)+"\n")
	}
	t.Logf("%d records of %d jobs in the history", records, len(recorded))
	for _, text := range s.Said("E") {
		require.Contains(t, text, "condor_q: exit status 1", "what a dead schedd gives, and nothing of the history")
	}
	s.Telegraf.Stop()
}

// grown waits until the present history file has so many bytes. It looks without pause: jobs leave fast.
func (s *site) grown(bytes int64) {
	s.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(s.pool.Path("spool/history"))
		if err == nil && info.Size() >= bytes {
			return
		}
		require.True(s.t, err == nil || errors.Is(err, os.ErrNotExist), err)
		require.True(s.t, time.Now().Before(deadline), "the history file stays small")
	}
}

// rotated waits until so many history files were rotated, and the second of the last one is over.
func (s *site) rotated(files int) {
	s.t.Helper()
	harness.Eventually(s.t, harness.Patience, func() error {
		rotated, err := filepath.Glob(s.pool.Path("spool/history.*"))
		require.NoError(s.t, err)
		if len(rotated) != files {
			return fmt.Errorf("%d of %d history files were rotated", len(rotated), files)
		}
		info, err := os.Stat(rotated[len(rotated)-1])
		if err == nil && time.Since(info.ModTime()) < 1100*time.Millisecond {
			err = errors.New("a history file was rotated just now")
		}
		return err
	})
}

// finishedByName waits until so many jobs are in InfluxDB, and gives their rows by the name of their batch. InfluxDB shows
// a point to readers field by field as it is written: so what it tells counts once it tells it twice.
func (s *site) finishedByName(jobs int) map[any]harness.Row {
	s.t.Helper()
	var before map[any]harness.Row
	harness.Eventually(s.t, harness.Patience, func() error {
		rows := make(map[any]harness.Row)
		for _, series := range s.DB.Query(database, "SELECT * FROM condor_finished GROUP BY *") {
			for _, row := range series.Rows {
				row["state"], row["schedd"] = series.Tags["state"], series.Tags["schedd"]
				rows[row["batch_name"]] = row
			}
		}
		same := assert.ObjectsAreEqual(before, rows)
		before = rows
		if len(rows) != jobs || !same {
			return fmt.Errorf("%d of %d jobs have finished: %v", len(rows), jobs, rows)
		}
		return nil
	})
	return before
}

// What becomes of jobs in the end: exit code, signal, removal, times and use.
func TestFinishedJobsTellHowTheyEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.CondorOptions{SecondSchedd: true})
	s.watch(`
collect = ["finished", "schedd"]
attributes = ["ProjectName"]
`)
	start := time.Now()
	s.Until("condor_schedd", map[string]string{"schedd": headSchedd}, harness.Row{"up": 1})
	s.Until("condor_schedd", map[string]string{"schedd": secondSchedd}, harness.Row{"up": 1})
	c := s.pool
	for name, description := range map[string]string{
		"good":    "executable = /bin/sh\narguments = \"-c 'i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done; sleep 4'\"",
		"bad":     "executable = /bin/sh\narguments = \"-c 'exit 3'\"",
		"shot":    "executable = /bin/sh\narguments = \"-c 'kill -9 $$(DOLLARDOLLAR)'\"",
		"removed": "executable = /bin/sleep\narguments = 1000\nrequest_cpus = 64",
	} {
		cluster := c.Submit("alice", description+"\nbatch_name = "+name+"\naccounting_group = group_physics.alice\n+ProjectName = \"ATLAS\"\nqueue")
		if name == "removed" {
			c.Command("condor_rm", cluster)
		}
	}
	c.Submit("carol", "executable = /bin/true\nbatch_name = second\nqueue", "-name", secondSchedd)

	rows := s.finishedByName(5)
	for name, want := range map[string]struct {
		state, schedd, user string
		exit, signal        any
	}{
		"good": {"completed", headSchedd, "alice", int64(0), nil}, "bad": {"completed", headSchedd, "alice", int64(3), nil},
		"shot": {"completed", headSchedd, "alice", nil, int64(9)}, "removed": {"removed", headSchedd, "alice", nil, nil},
		"second": {"completed", secondSchedd, "carol", int64(0), nil},
	} {
		row := rows[name]
		require.NotNil(t, row, name)
		require.Equal(t, [3]any{want.state, want.schedd, want.user}, [3]any{row["state"], row["schedd"], row["user"]}, name)
		for field, value := range map[string]any{"exit_code": want.exit, "signal": want.signal} {
			if value == nil {
				require.Nil(t, row[field], "%s %s", name, field)
			} else {
				require.Equal(t, value, row.Int64(t, field), "%s %s", name, field)
			}
		}
		ended := row.Int64(t, "end")
		require.Equal(t, row.Int64(t, "time")/1e9, ended, name)
		require.GreaterOrEqual(t, ended, start.Unix(), name)
		if want.state == "completed" {
			require.Equal(t, int64(1), row.Int64(t, "starts"), name)
			require.InDelta(t, ended-row.Int64(t, "start"), row.Int64(t, "runtime_seconds"), 5, name)
			require.GreaterOrEqual(t, row.Int64(t, "wait_seconds"), int64(0), name)
			require.Equal(t, int64(1), row.Int64(t, "cores"), name)
		} else {
			require.Nil(t, row["wait_seconds"], "it never started")
			require.Contains(t, row["remove_reason"], "via condor_rm")
		}
		require.Equal(t, map[bool]any{true: "ATLAS", false: nil}[name != "second"], row["project_name"], name)
	}
	good := rows["good"]
	cpu, err := good["cpu_seconds"].(interface{ Float64() (float64, error) }).Float64()
	require.NoError(t, err)
	require.Positive(t, cpu)
	efficiency, err := good["cpu_efficiency"].(interface{ Float64() (float64, error) }).Float64()
	require.NoError(t, err)
	require.InDelta(t, cpu/float64(good.Int64(t, "runtime_seconds")), efficiency, 1e-9)
	require.Empty(t, s.Said("E"))
	s.Telegraf.Stop()
}
