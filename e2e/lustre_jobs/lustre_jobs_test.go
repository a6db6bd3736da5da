package lustre_jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	// firstJob is the id of the simulation's first job, less one.
	firstJob = 4000000
	// tasks is how many jobs Slurm has: more than the simulation has ids.
	tasks = 81
)

// One cluster serves both, for it takes a while to start. It measures what jobs use.
func TestWithSlurm(t *testing.T) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{
		Extra: fmt.Sprintf("FirstJobId=%d\nJobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=1\n", firstJob+1),
	})
	id := cluster.Submit("carol", "-n1", "--mem=200", "--time=5", "--hold", "--wrap=i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 3")
	t.Run("site", func(t *testing.T) {
		t.Parallel()
		testSite(t, cluster)
	})
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		testCommands(t, cluster, id)
	})
}

// Targets move between servers, plugins and Telegrafs are killed, the central one too, and it is away for longer than the
// senders' buffers last: once what was lost has come again, the totals in InfluxDB are the simulation's, for jobs, users,
// accounts and the file system, and each job of Slurm has one report.
func testSite(t *testing.T, cluster *harness.Slurm) {
	s := newSite(t)
	s.startCentral(`interval = "1s"`, `top = 0`, `refresh = "2s"`, `report_delay = "5s"`)
	s.startHead(cluster, s.overHTTPS())
	// They end while the central host is away, or is killed: slurm_load tells of it again.
	cluster.Submit("alice", "--array=1-40", "-n1", "--mem=10", "--wrap=sleep 20")
	cluster.Submit("bob", "--array=1-40", "-n1", "--mem=10", "--wrap=sleep 20")
	s.simulate("--era", "2.15", "--osts", "5", "--mdts", "1", "--jobs", "24", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	const ids = `jobid_name = ["%e.%u", "%j"]`
	s.startServer("oss1", 0, ids, s.overHTTPS(), "lustre-OST0000", "lustre-OST0001")
	s.startServer("oss2", 0, ids, s.overHTTPS(), "lustre-OST0002", "lustre-OST0003")
	s.startServer("mds1", 0, ids, s.overSocket(), "lustre-OST0004", "lustre-MDT0000")
	s.emissions(4, time.Now())

	s.killChild(s.central, "central.conf")
	s.emissions(2, time.Now())
	s.unmount("oss1", "lustre-OST0000")
	s.mount("oss2", "lustre-OST0000")
	s.killChild(s.senders["oss2"], "oss2.conf")
	s.emissions(2, time.Now())
	s.mount("oss1", "lustre-OST0000") // Both have it for a while.
	s.emissions(2, time.Now())
	s.unmount("oss2", "lustre-OST0000")
	s.restart(s.senders["oss1"], "oss1", "oss1.conf", 0)
	s.emissions(2, time.Now())
	s.restart(s.central, "central", "central.conf", 12*time.Second)
	s.emissions(3, time.Now())
	s.restart(s.senders["mds1"], "mds1", "mds1.conf", time.Second)
	s.killChild(s.central, "central.conf")
	s.emissions(2, time.Now())
	s.finish()

	owners := s.owners(cluster)
	want := s.truth(func(id string) []string { return s.counted(id, owners) })
	harness.Eventually(t, harness.Patience, func() error {
		if err := want.compare(s.totals()); err != nil {
			return fmt.Errorf("%w; %s", err, s.heard())
		}
		return nil
	})
	s.checkOnce("slurm_finished") // What was lost of it has come again.
	s.checkOnce("job_report")
	for _, host := range []string{"oss1", "oss2", "head"} {
		dropped := len(s.senders[host].Lines("Metric buffer overflow"))
		require.NotZero(t, dropped, "%s kept all that came while the central host was away", host)
	}
	require.Empty(t, s.central.Lines("is dropped"))
	t.Logf("%d series", len(want))
}

// heard tells when the servers were heard of last, and what lustre_jobs says of itself.
func (s *site) heard() string {
	s.t.Helper()
	var text strings.Builder
	for _, series := range s.db.Query(database, `SELECT last(entries) FROM lustre_jobstats_self GROUP BY host, target`) {
		at := time.Unix(0, series.Rows[0].Int64(s.t, "time"))
		fmt.Fprintf(&text, "%s on %s was heard of %s ago; ", series.Tags["target"], series.Tags["host"], time.Since(at).Round(time.Second))
	}
	for _, series := range s.db.Query(database, `SELECT waiting, jobs, refused, lost_jobs, lines FROM lustre_jobs_self ORDER BY time DESC LIMIT 1`) {
		fmt.Fprintf(&text, "lustre_jobs: %v", series.Rows[0])
	}
	return text.String()
}

// owner is who a job is, after Slurm.
type owner struct{ display, user, account string }

// owners asks Slurm for all jobs.
func (s *site) owners(cluster *harness.Slurm) map[string]owner {
	s.t.Helper()
	owners := make(map[string]owner)
	harness.Eventually(s.t, harness.Patience, func() error {
		clear(owners)
		text := cluster.Command("sacct", "-a", "-X", "-n", "-P", "-S", "now-1hour", "-o", "JobIDRaw,JobID,User,Account,State")
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSpace(line), "|")
			if f[4] != "COMPLETED" {
				return fmt.Errorf("job %s is %s", f[1], f[4])
			}
			owners[f[0]] = owner{f[1], f[2], f[3]}
		}
		if len(owners) != tasks {
			return fmt.Errorf("%d jobs in sacct, want %d", len(owners), tasks)
		}
		return nil
	})
	return owners
}

// totals are fields that are not 0 by what they are of.
type totals map[string]map[string]int64

func (t totals) add(name, field string, n int64) {
	if t[name] == nil {
		t[name] = make(map[string]int64)
	}
	if t[name][field] += n; t[name][field] == 0 {
		delete(t[name], field)
	}
}

// compare tells of a difference.
func (t totals) compare(got totals) error {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if !maps.Equal(t[name], got[name]) {
			return fmt.Errorf("%s: %v in InfluxDB, want %v", name, got[name], t[name])
		}
	}
	if len(got) != len(t) {
		return fmt.Errorf("%d series in InfluxDB, want %d", len(got), len(t))
	}
	return nil
}

// truth reads what the simulation has done, and adds it up as lustre_jobs should: counted gives what a job id's work
// counts in.
func (s *site) truth(counted func(id string) []string) totals {
	s.t.Helper()
	text, err := os.ReadFile(s.path("truth.json"))
	require.NoError(s.t, err)
	var all struct {
		Targets map[string]map[string]struct {
			Ops map[string]struct{ Samples, Sum int64 }
		}
	}
	require.NoError(s.t, json.Unmarshal(text, &all))
	want := make(totals)
	for target, jobs := range all.Targets {
		kind := "ost"
		if strings.Contains(target, "-MDT") {
			kind = "mdt"
		}
		for id, w := range jobs {
			names := counted(id)
			for name, op := range w.Ops {
				for field, n := range fieldsOf(name, op.Samples, op.Sum, w.Ops) {
					for _, of := range names {
						want.add(of+" "+kind, field, n)
					}
				}
			}
		}
	}
	return want
}

// counted gives what a job id's work counts in.
func (s *site) counted(id string, owners map[string]owner) []string {
	s.t.Helper()
	if exe, uid, isProcess := strings.Cut(id, "."); isProcess {
		return []string{"fs", "process " + exe + " " + uid, "user " + uid}
	}
	o, ok := owners[id]
	require.True(s.t, ok, "Slurm has no job %s: let it have more", id)
	return []string{"fs", "job " + o.display + " " + o.user + " " + o.account, "user " + o.user, "account " + o.account}
}

// fieldsOf gives what is to be counted for an operation, by the plugins' names.
func fieldsOf[T any](name string, samples, sum int64, all map[string]T) map[string]int64 {
	partOfRename := strings.HasSuffix(name, "_rename") || strings.HasPrefix(name, "parallel_rename_")
	_, twice := all[name+"_bytes"] // A read counts in read_bytes and again in read.
	fields := make(map[string]int64)
	if base, ok := strings.CutSuffix(name, "_bytes"); ok {
		fields[base+"_ops"], fields[name] = samples, sum
	} else {
		fields[name], fields[name+"_usecs"] = samples, sum
		if !partOfRename {
			fields["busy_usecs"] = sum
		}
	}
	if !twice && !partOfRename {
		fields["ops"] = samples
	}
	return fields
}

// totals reads the last totals of all series. One that falls fails the test.
func (s *site) totals() totals {
	s.t.Helper()
	got := make(totals)
	for _, measurement := range []string{"lustre_fs", "lustre_account", "lustre_user", "lustre_job", "lustre_process"} {
		for _, series := range s.db.Query(database, fmt.Sprintf("SELECT * FROM %q GROUP BY *", measurement)) {
			tags := series.Tags
			if tags["job"] == "_other" {
				continue
			}
			name := map[string]string{
				"lustre_fs": "fs", "lustre_account": "account " + tags["account"], "lustre_user": "user " + tags["user"] + tags["uid"],
				"lustre_job": "job " + tags["job"] + " " + tags["user"] + " " + tags["account"], "lustre_process": "process " + tags["exe"] + " " + tags["uid"],
			}[measurement] + " " + tags["kind"]
			require.NotContains(s.t, got, name, "a second series")
			got[name] = s.last(name, series.Rows)
		}
	}
	return got
}

func (s *site) last(name string, rows []harness.Row) map[string]int64 {
	s.t.Helper()
	last := make(map[string]int64)
	for _, row := range rows {
		for field, value := range row {
			number, ok := value.(json.Number)
			if !ok || field == "time" || strings.HasSuffix(field, "_rate") || strings.HasSuffix(field, "_share") {
				continue
			}
			n, err := strconv.ParseInt(number.String(), 10, 64)
			require.NoError(s.t, err, "%s %s", name, field)
			if n < last[field] {
				s.t.Errorf("%s: %s falls from %d to %d at %s", name, field, last[field], n, row["time"])
			}
			last[field] = n
		}
	}
	maps.DeleteFunc(last, func(_ string, n int64) bool { return n == 0 })
	return last
}

// checkOnce waits until each job has a row of a measurement, and requires that none has two.
func (s *site) checkOnce(measurement string) {
	s.t.Helper()
	harness.Eventually(s.t, harness.Patience, func() error {
		rows := make(map[int64]int)
		for _, series := range s.db.Query(database, fmt.Sprintf("SELECT job_id FROM %s GROUP BY *", measurement)) {
			for _, row := range series.Rows {
				rows[row.Int64(s.t, "job_id")]++
			}
		}
		for id := int64(firstJob + 1); id <= firstJob+tasks; id++ {
			if rows[id] > 1 {
				s.t.Fatalf("job %d has %d rows of %s", id, rows[id], measurement)
			}
			if rows[id] == 0 {
				return fmt.Errorf("job %d has no %s", id, measurement)
			}
		}
		require.Len(s.t, rows, tasks)
		return nil
	})
}
