package lustre_jobstats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/jobstats"
	"telegraf-hpc/internal/plugintest"
)

// start is when the first gather of a test is.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is a plugin below a folder of its own.
type rig struct {
	t    *testing.T
	p    *LustreJobstats
	log  *testutil.CaptureLogger
	root string
	now  time.Time
}

func newRig(t *testing.T, p *LustreJobstats) *rig {
	t.Helper()
	r := &rig{t: t, p: p, log: &testutil.CaptureLogger{}, root: t.TempDir(), now: start}
	p.Root, p.StateDirectory = r.root, filepath.Join(t.TempDir(), "state")
	r.init()
	return r
}

func (r *rig) init() {
	r.t.Helper()
	r.p.Log = r.log
	r.p.now = func() time.Time { return r.now }
	r.p.hostname = func() (string, error) { return "oss1", nil }
	require.NoError(r.t, r.p.Init())
	require.NoError(r.t, r.p.Start(nil))
	r.t.Cleanup(r.p.Stop)
}

// restart goes on with a new process on the same folders.
func (r *rig) restart(change func(p *LustreJobstats)) {
	r.t.Helper()
	r.p.Stop()
	p := newPlugin()
	p.Root, p.StateDirectory = r.p.Root, r.p.StateDirectory
	change(p)
	r.p = p
	r.init()
}

// gather gathers 30 seconds after the last time, and returns the metrics but those of the plugin itself.
func (r *rig) gather() (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	r.now = r.now.Add(30 * time.Second)
	var acc testutil.Accumulator
	errs = append(errs, acc.GatherError(r.p.Gather))
	plugintest.Documented(r.t, acc.GetTelegrafMetrics())
	errs = append(errs, acc.Errors...)
	errs = slices.DeleteFunc(slices.Compact(errs), func(err error) bool { return err == nil })
	for _, m := range acc.GetTelegrafMetrics() {
		if m.Name() != measurementSelf {
			metrics = append(metrics, m)
		}
	}
	return metrics, errs
}

// write writes a file below the root.
func (r *rig) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
}

const ost0 = "proc/fs/lustre/obdfilter/lustre-OST0000/job_stats"

// entry is an entry of a job that wrote so many MiB, of Lustre 2.15; seconds count from start.
func entry(id string, started, last, writes int) string {
	const mib = 1 << 20
	at := func(s int) int64 { return start.Unix() + int64(s) }
	return fmt.Sprintf("- %-16s %s\n  %-16s %d.000000000 secs.nsecs\n  %-16s %d.000000000 secs.nsecs\n",
		"job_id:", id, "snapshot_time:", at(last), "start_time:", at(started)) +
		fmt.Sprintf("  %-16s { samples: %11d, unit: bytes, min: %8d, max: %8d, sum: %16d, sumsq: %18d }\n",
			"write_bytes:", writes, mib, mib, writes*mib, 0)
}

// brief tells of each metric: tags, and how often it wrote, at seconds from start.
func brief(metrics []telegraf.Metric) (all []string) {
	for _, m := range metrics {
		v, _ := m.GetField("write_ops")
		var tags []string
		for _, t := range m.TagList() {
			if t.Key != "fs" && t.Key != "kind" {
				tags = append(tags, t.Value)
			}
		}
		all = append(all, fmt.Sprintf("%s %v @%g", strings.Join(tags, ","), v, m.Time().Sub(start).Seconds()))
	}
	slices.Sort(all)
	return all
}

// A case has a folder for each gather, which is what the root has then; `restart` in a folder's name starts a new process.
func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		load := func() *LustreJobstats {
			p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*LustreJobstats)
			require.True(t, ok)
			return p
		}
		r := newRig(t, load())
		steps, err := filepath.Glob(filepath.Join(folder, "[0-9]*"))
		require.NoError(t, err)
		require.NotEmpty(t, steps)
		for _, step := range steps {
			if strings.Contains(filepath.Base(step), "restart") {
				r.p.Stop()
				p := load()
				p.StateDirectory = r.p.StateDirectory
				r.p = p
				r.p.Root = step
				r.init()
			}
			r.p.tree = tree{root: step}
			m, e := r.gather()
			metrics = append(metrics, m...)
			for _, err := range e {
				errs = append(errs, errors.New(strings.ReplaceAll(err.Error(), step, "STEP")))
			}
		}
		return metrics, errs
	})
}

func TestInitErrors(t *testing.T) {
	for want, change := range map[string]func(p *LustreJobstats){
		`option emit: "totals" is none of ["total" "epoch"]`:                             func(p *LustreJobstats) { p.Emit = []string{"totals"} },
		`option emit: empty; choose from "total", "epoch"`:                               func(p *LustreJobstats) { p.Emit = nil },
		`option group_by: "host" is none of ["target" "fs"]`:                             func(p *LustreJobstats) { p.GroupBy = "host" },
		`option detail: "some" is none of ["full" "basic"]`:                              func(p *LustreJobstats) { p.Detail = "some" },
		`option unmatched: "drop" is none of ["keep" "sum"]`:                             func(p *LustreJobstats) { p.Unmatched = "drop" },
		`option jobid_name: pattern "%x": unknown code %x (known: %j %u %g %e %h %H %p)`: func(p *LustreJobstats) { p.JobIDName = []string{"%x"} },
		`option targets: "[": syntax error in pattern`:                                   func(p *LustreJobstats) { p.Targets = []string{"["} },
		`option targets: must name at least one target`:                                  func(p *LustreJobstats) { p.Targets = nil },
		`option refresh: must be more than 0s`:                                           func(p *LustreJobstats) { p.Refresh = 0 },
		`option repeat_for: must be more than 0s`:                                        func(p *LustreJobstats) { p.RepeatFor = 0 },
		`option max_jobs: must be at least 1`:                                            func(p *LustreJobstats) { p.MaxJobs = 0 },
		`option shards: must be from 1 to 1024`:                                          func(p *LustreJobstats) { p.Shards = 0 },
		`option forget_after: must be at least 1h`:                                       func(p *LustreJobstats) { p.ForgetAfter = 1 },
		`option sync_interval: must not be negative`:                                     func(p *LustreJobstats) { p.SyncInterval = -1 },
		`option state_directory: must be set with emit = ["total"]`:                      func(p *LustreJobstats) { p.StateDirectory = "" },
		`option max_parallel: must be at least 1`:                                        func(p *LustreJobstats) { p.MaxParallel = 0 },
		`option max_duty: must be more than 0 and at most 1`:                             func(p *LustreJobstats) { p.MaxDuty = 1.5 },
	} {
		p := newPlugin()
		change(p)
		require.EqualError(t, p.Init(), want)
	}
}

func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(sampleConfig)).(*LustreJobstats)
	require.True(t, ok)
	require.NoError(t, p.Init())
	all, ok := plugintest.ParseInput(t, plugintest.Uncommented(sampleConfig)).(*LustreJobstats)
	require.True(t, ok)
	require.NoError(t, all.Init())
	// What is shown is the default.
	for _, x := range []*LustreJobstats{p, all} {
		x.Log, x.now, x.hostname, x.options = nil, nil, nil, jobstats.Options{}
	}
	require.Equal(t, p, all)
	require.Equal(t, 16, strings.Count(sampleConfig, "\n  # "), "options in sample.conf")
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

// The cases leave out what the plugin tells of itself, have no such ids, and epochs with detail = "basic" only.
func TestReadmeIsShown(t *testing.T) {
	plugintest.Shown(t, "lustre_jobstats gid", "lustre_jobstats client", "lustre_jobstats_epoch gid", "lustre_jobstats_epoch client",
		"lustre_jobstats_epoch read_ops", "lustre_jobstats_epoch write_ops", "lustre_jobstats_epoch NAME",
		"lustre_jobstats_epoch NAME_usecs", "lustre_jobstats_self")
}

func TestNoLustre(t *testing.T) {
	r := newRig(t, newPlugin())
	for range 3 {
		metrics, errs := r.gather()
		require.Empty(t, metrics)
		require.Empty(t, errs)
	}
	require.Equal(t, []string{fmt.Sprintf("Nothing to read below %q: no Lustre server on this host; looking again at each gather", filepath.Join(r.root, "proc/fs/lustre"))}, messages(r.log))
	// It is installed later.
	r.write(ost0, "job_stats:\n"+entry("1", 95, 100, 1))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1,lustre-OST0000 0 @95", "1,lustre-OST0000 1 @120"}, brief(metrics))
}

func messages(log *testutil.CaptureLogger) (texts []string) {
	for _, m := range log.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

func TestTargetVanishesAndReturns(t *testing.T) {
	r := newRig(t, newPlugin())
	other := strings.ReplaceAll(ost0, "OST0000", "OST0001")
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5))
	r.write(other, "job_stats:\n"+entry("1", 10, 20, 3))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1,lustre-OST0000 5 @30", "1,lustre-OST0001 3 @30"}, brief(metrics))
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, filepath.Dir(ost0))))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Empty(t, metrics)
	r.write(ost0, "job_stats:\n"+entry("1", 70, 80, 6))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1,lustre-OST0000 11 @90"}, brief(metrics))
	require.Subset(t, messages(r.log), []string{`Target "lustre-OST0000" is gone; its totals are kept until it is back`, `Target "lustre-OST0000" is back`})
	// A restart of the plugin is no absence.
	r.restart(func(*LustreJobstats) {})
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1,lustre-OST0000 11 @120", "1,lustre-OST0001 3 @120"}, brief(metrics))
}

// Without start_time a target that was away is known to have started from zero, and a restart of the plugin is known not
// to have changed anything.
func TestRestartsWithoutStartTime(t *testing.T) {
	old := func(last, writes int) string {
		text := entry("1", 0, last, writes)
		lines := strings.SplitAfter(text, "\n")
		return "job_stats:\n" + lines[0] + fmt.Sprintf("  %-16s %d\n", "snapshot_time:", start.Unix()+int64(last)) + strings.Join(lines[3:], "")
	}
	r := newRig(t, newPlugin())
	r.write(ost0, old(20, 5))
	_, errs := r.gather()
	require.Empty(t, errs)
	r.restart(func(*LustreJobstats) {})
	r.write(ost0, old(50, 6))
	metrics, _ := r.gather()
	require.Equal(t, []string{"1,lustre-OST0000 6 @60"}, brief(metrics))
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, filepath.Dir(ost0))))
	r.gather()
	r.write(ost0, old(110, 7))
	metrics, _ = r.gather()
	require.Equal(t, []string{"1,lustre-OST0000 13 @120"}, brief(metrics))
}

func TestUnreadableTarget(t *testing.T) {
	r := newRig(t, newPlugin())
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5))
	bad := strings.ReplaceAll(ost0, "OST0000", "OST0001")
	require.NoError(t, os.MkdirAll(filepath.Join(r.root, bad), 0o750))
	metrics, errs := r.gather()
	require.Equal(t, []string{"1,lustre-OST0000 5 @30"}, brief(metrics))
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], fmt.Sprintf(`target "lustre-OST0001": read %s: is a directory`, filepath.Join(r.root, bad)))
	_, errs = r.gather()
	require.Empty(t, errs, "said once")
	require.NoError(t, os.Remove(filepath.Join(r.root, bad)))
	r.write(bad, "job_stats:\n"+entry("1", 10, 20, 3))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1,lustre-OST0001 3 @90"}, brief(metrics))
}

func TestDamagedEntry(t *testing.T) {
	r := newRig(t, newPlugin())
	damaged := strings.Replace(entry("2", 10, 20, 9), "samples:", "samplez:", 1)
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5)+damaged+entry("3", 10, 20, 7))
	metrics, errs := r.gather()
	require.Equal(t, []string{"1,lustre-OST0000 5 @30", "3,lustre-OST0000 7 @30"}, brief(metrics))
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], `target "lustre-OST0000": left out: job id "2": line "  write_bytes:     { samplez:`)
	_, errs = r.gather()
	require.Empty(t, errs, "said once")
}

func TestStateInUse(t *testing.T) {
	r := newRig(t, newPlugin())
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5))
	r.gather()
	second := newPlugin()
	second.Root, second.StateDirectory, second.Log = r.root, r.p.StateDirectory, &testutil.CaptureLogger{}
	require.NoError(t, second.Init())
	var acc testutil.Accumulator
	require.NoError(t, second.Gather(&acc))
	require.Len(t, acc.Errors, 1)
	require.EqualError(t, acc.Errors[0], fmt.Sprintf(`target "lustre-OST0000": state %s: the state is in use by another process`,
		filepath.Join(r.p.StateDirectory, "lustre-OST0000", "ledger.db")))
	require.Empty(t, acc.GetTelegrafMetrics())
}

func TestGroupByFileSystem(t *testing.T) {
	p := newPlugin()
	p.GroupBy = "fs"
	r := newRig(t, p)
	other := strings.ReplaceAll(ost0, "OST0000", "OST0001")
	third := strings.ReplaceAll(ost0, "lustre-OST0000", "scratch-OST0000")
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5))
	r.write(other, "job_stats:\n"+entry("1", 10, 20, 3)+entry("2", 10, 20, 1))
	r.write(third, "job_stats:\n"+entry("1", 10, 20, 40))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1 40 @30", "1 8 @30", "2 1 @30"}, brief(metrics))
	// One target counts, another is away: the sum has both.
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, filepath.Dir(ost0))))
	r.write(other, "job_stats:\n"+entry("1", 10, 50, 4)+entry("2", 10, 20, 1)+entry("3", 45, 50, 2))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1 9 @60", "3 0 @45", "3 2 @60"}, brief(metrics))
	// And so it is after a restart. The zeros are said again: nothing tells whether they were said the first time.
	r.restart(func(p *LustreJobstats) { p.GroupBy = "fs" })
	r.write(other, "job_stats:\n"+entry("1", 70, 75, 1)+entry("3", 45, 50, 2))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1 10 @90", "1 40 @90", "3 0 @45", "3 2 @90"}, brief(metrics))
}

// What is not on disk is not emitted, in a sum neither: a restart could take it back.
func TestGroupWaitsForTheDisk(t *testing.T) {
	p := newPlugin()
	p.GroupBy = "fs"
	r := newRig(t, p)
	other := strings.ReplaceAll(ost0, "OST0000", "OST0001")
	r.write(ost0, "job_stats:\n"+entry("1", 10, 20, 5))
	r.write(other, "job_stats:\n"+entry("1", 10, 20, 3))
	_, errs := r.gather()
	require.Empty(t, errs)
	r.restart(func(p *LustreJobstats) { p.GroupBy = "fs" })
	// A folder stands where the next log is to be.
	log := filepath.Join(p.StateDirectory, "lustre-OST0001", "log.2")
	require.NoError(t, os.Mkdir(log, 0o750))
	r.write(ost0, "job_stats:\n"+entry("1", 10, 50, 6))
	r.write(other, "job_stats:\n"+entry("1", 10, 50, 4))
	metrics, errs := r.gather()
	require.Empty(t, metrics)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], `target "lustre-OST0001": making a log: open `+log+`: is a directory`)
	require.NoError(t, os.Remove(log))
	metrics, errs = r.gather()
	require.Empty(t, errs)
	require.Equal(t, []string{"1 10 @90"}, brief(metrics))
}

func TestTags(t *testing.T) {
	p := newPlugin()
	p.JobIDName, p.Shards, p.Emit, p.Detail = []string{"%e.%u", "%j"}, 4, []string{"epoch"}, "basic"
	r := newRig(t, p)
	r.write(ost0, "job_stats:\n"+entry("cp.1000", 10, 20, 5)+entry(`"_ev\x0Ail"`, 10, 20, 5))
	metrics, errs := r.gather()
	require.Empty(t, errs)
	require.Equal(t, `lustre_jobstats_epoch,exe=cp,fs=lustre,kind=ost,shard=3,target=lustre-OST0000,uid=1000 epoch=1767225610000000000i,ops=5i,snapshot=1767225620000000000i,write_bytes=5242880i 1767225630000000000
lustre_jobstats_epoch,fs=lustre,job=\x5Fev\x0Ail,kind=ost,shard=3,target=lustre-OST0000 epoch=1767225610000000000i,ops=5i,snapshot=1767225620000000000i,write_bytes=5242880i 1767225630000000000
`, plugintest.Lines(t, metrics))
}

func TestCleanupInterval(t *testing.T) {
	for _, tt := range []struct {
		name, path, text string
		want             time.Duration
		err              string
	}{
		{"to 2.12", "proc/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval", "300\n", 300 * time.Second, ""},
		{"later", "sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval", "600", 600 * time.Second, ""},
		{"never", "sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval", "0\n", 0, ""},
		{"not a number", "sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval", "soon\n", 600 * time.Second, `not a number of seconds: strconv.ParseUint: parsing "soon": invalid syntax`},
		{"none", "elsewhere", "", 600 * time.Second, "is there: taking Lustre's default of 10m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, newPlugin())
			r.write(ost0, "")
			r.write(tt.path, tt.text)
			found, errs := r.p.tree.targets()
			require.Empty(t, errs)
			require.Len(t, found, 1)
			got, err := r.p.tree.cleanup(found[0])
			require.Equal(t, tt.want, got)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	r := newRig(t, newPlugin())
	r.write(ost0, "")
	r.write("proc/fs/lustre/obdfilter/num_refs", "1")
	r.write("proc/fs/lustre/mdt/home-a-MDT0001/job_stats", "")
	found, errs := r.p.tree.targets()
	require.Empty(t, errs)
	require.Equal(t, []target{
		{"lustre-OST0000", "lustre", "ost", filepath.Join(r.root, ost0)},
		{"home-a-MDT0001", "home-a", "mdt", filepath.Join(r.root, "proc/fs/lustre/mdt/home-a-MDT0001/job_stats")},
	}, found)
	r.p.Targets = []string{"home-*"}
	require.False(t, r.p.wants("lustre-OST0000"))
	require.True(t, r.p.wants("home-a-MDT0001"))
}

// A target that takes too long is read less often, but every third of the clean-up interval.
func TestMaxDuty(t *testing.T) {
	r := newRig(t, newPlugin())
	r.write("sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval", "600\n")
	w := &watched{target: target{name: "lustre-OST0000", path: filepath.Join(r.root, ost0)}}
	r.p.interval = 30 * time.Second
	require.False(t, r.p.rests(w, start), "never read")
	w.read = start
	for _, tt := range []struct {
		took time.Duration
		want time.Duration // until it is read again
	}{
		{time.Second, 30 * time.Second}, {3 * time.Second, 30 * time.Second}, {8 * time.Second, 90 * time.Second}, {time.Minute, 210 * time.Second},
	} {
		w.took = tt.took
		next := start.Add(30 * time.Second)
		for r.p.rests(w, next) {
			next = next.Add(30 * time.Second)
		}
		require.Equal(t, tt.want, next.Sub(start), "took %s", tt.took)
	}
	require.Contains(t, messages(r.log), `Target "lustre-OST0000": reading it takes 8s, more than 0.1 of the interval of 30s: reading it every 1m20s from now on`)
}
