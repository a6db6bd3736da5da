package condor_q

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/metricdoc"
	"telegraf-hpc/internal/plugintest"
	"telegraf-hpc/internal/series"
)

// rig is a plugin that finds what HTCondor's commands print in files.
type rig struct {
	t      *testing.T
	p      *CondorQ
	log    *testutil.CaptureLogger
	folder string            // of the files
	change map[string]string // what commands print in place of that, by the file's name
	broken map[string]error  // commands that fail, by the file's name

	mu  sync.Mutex
	ran []string // the command lines
}

func newRig(t *testing.T, p *CondorQ) *rig {
	t.Helper()
	r := &rig{t: t, log: &testutil.CaptureLogger{}, change: make(map[string]string), broken: make(map[string]error)}
	if p.StateDirectory != "" {
		p.StateDirectory = filepath.Join(t.TempDir(), "state")
	}
	r.init(p)
	return r
}

func (r *rig) init(p *CondorQ) {
	r.t.Helper()
	r.p = p
	p.Log, p.run = r.log, r.run
	require.NoError(r.t, p.Init())
	r.t.Cleanup(p.Stop)
}

// restart goes on with a new process on the same state.
func (r *rig) restart() {
	r.t.Helper()
	r.p.Stop()
	p := newPlugin()
	p.Collect, p.Schedds, p.StateDirectory, p.now = r.p.Collect, r.p.Schedds, r.p.StateDirectory, r.p.now
	r.init(p)
}

// fileOf names the file that has what a command prints: the tool, what kind of question, whether a constraint is in it,
// and the schedd.
func fileOf(name string, args []string) string {
	file := []string{strings.TrimPrefix(name, "condor_")}
	for _, kind := range []string{"COLLECTOR_HOST", "SCHEDD_DAEMON_AD_FILE", "-factory", "-totals", "-limit", "-schedd", "-negotiator"} {
		if slices.Contains(args, kind) && !slices.Contains(args, "-ads") {
			file = append(file, strings.TrimPrefix(kind, "-"))
		}
	}
	if slices.Contains(args, "-ads") {
		file = append(file, "local")
	}
	if slices.Contains(args, "-constraint") {
		file = append(file, "constraint")
	}
	for _, option := range []string{"-name", "-pool"} {
		if i := slices.Index(args, option); i >= 0 {
			file = append(file, args[i+1])
		}
	}
	return strings.Join(file, "-")
}

func (r *rig) run(ctx context.Context, consume func(io.Reader) error, name string, args ...string) (command.Result, error) {
	file := fileOf(name, args)
	r.mu.Lock()
	r.ran = append(r.ran, name+" "+strings.Join(args, " "))
	failure, text := r.broken[file], r.change[file]
	r.mu.Unlock()
	if failure == nil && ctx.Err() != nil {
		failure = ctx.Err()
	}
	if failure == nil && text == "" {
		content, err := os.ReadFile(filepath.Join(r.folder, file+".txt"))
		if errors.Is(err, os.ErrNotExist) {
			failure = fmt.Errorf("%s: exit status 1: Error: no %s", name, file)
		}
		text = string(content)
	}
	if failure != nil {
		return command.Result{}, failure
	}
	if err := consume(strings.NewReader(text)); err != nil {
		return command.Result{}, fmt.Errorf("%s: reading its output: %w", name, err)
	}
	return command.Result{Elapsed: 20 * time.Millisecond, CPU: 10 * time.Millisecond}, nil
}

// gather gathers from a folder.
func (r *rig) gather(folder string, now time.Time) (metrics []telegraf.Metric, errs []error) {
	r.t.Helper()
	r.folder, r.ran = folder, nil
	r.p.now = func() time.Time { return now }
	return plugintest.Gather(r.t, r.p)
}

// then is when the captures were made.
var then = time.Unix(1795274550, 0).UTC()

func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*CondorQ)
		require.True(t, ok)
		r := newRig(t, p)
		return plugintest.Steps(t, folder, func(step string, n int) ([]telegraf.Metric, []error) {
			return r.gather(step, then.Add(time.Duration(n-1)*10*time.Second))
		})
	})
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

// The captures have none of these.
func TestReadmeIsShown(t *testing.T) {
	plugintest.Shown(t, "condor_job NUMBER", "condor_job TRUTH", "condor_finished NUMBER", "condor_finished TRUTH",
		"condor_finished exit_code", "condor_finished dagman_cluster", "condor_q_self version")
}

// Placeholders of option attributes stand for any field of a job, so that a golden test does not find one that README.md
// forgot.
func TestReadmeHasAllFieldsOfJobs(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	doc, err := metricdoc.Parse(readme)
	require.NoError(t, err)
	var documented []string
	for _, measurement := range []string{"condor_job", "condor_finished"} {
		for _, f := range doc.Measurement(measurement).Fields {
			if f.Name == strings.ToLower(f.Name) && !slices.Contains(documented, f.Name) {
				documented = append(documented, f.Name)
			}
		}
	}
	require.ElementsMatch(t, jobFields(), documented)
}

func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(sampleConfig)).(*CondorQ)
	require.True(t, ok)
	require.NoError(t, p.Init())
	uncommented := bytes.ReplaceAll(plugintest.Uncommented(sampleConfig), []byte("  schedds = "), []byte("  # schedds = "))
	all, ok := plugintest.ParseInput(t, uncommented).(*CondorQ)
	require.True(t, ok)
	require.Equal(t, []string{"cm1.example.org", "cm2.example.org:9618"}, all.Pools)
	require.Equal(t, []string{"ProjectName", "JobPrio:integer"}, all.Attributes)
	options := plugintest.ShowsDefaults(t, sampleConfig, p, all,
		"pools", "schedds", "command_directory", "pseudonym_key", "attributes", "partition_attribute")
	require.Equal(t, 17, options)
	require.NoError(t, all.Init())
}

func TestInitErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *CondorQ)
		want   string
	}{
		{"no group", func(p *CondorQ) { p.Collect = nil }, "option collect: empty"},
		{"unknown group", func(p *CondorQ) { p.Collect = []string{"jobs"} }, `option collect: "jobs" is none of ["queue" "wait" "user" ` +
			`"hold" "finished" "slots" "schedd" "negotiator" "userprio" "job"]`},
		{"group twice", func(p *CondorQ) { p.Collect = []string{"job", "hold", "job"} }, `option collect: "job" is there twice`},
		{"a queue without a name", func(p *CondorQ) { p.Queues = []Queue{{Name: "a"}, {Constraint: "x"}} }, "option queue 2: has no name"},
		{"a queue twice", func(p *CondorQ) { p.Queues = []Queue{{Name: "a"}, {Name: "a", Constraint: "x"}} }, `option queue: "a" is there twice`},
		{"a pool twice", func(p *CondorQ) { p.Pools = []string{"a", "a"} }, `option pools: "a" is there twice`},
		{"an option for a pool", func(p *CondorQ) { p.Pools = []string{"-debug"} }, `option pools: "-debug" is no name`},
		{"no schedd", func(p *CondorQ) { p.Schedds = []string{""} }, `option schedds: "" is no name`},
		{"local of other pools", func(p *CondorQ) { p.Schedds, p.Pools = []string{"local"}, []string{"cm"} },
			`option schedds: "local" can't be with option pools: this host's schedd is asked in the pool that HTCondor is configured for`},
		{"timeout", func(p *CondorQ) { p.Timeout = 0 }, "option timeout: must be more than 0s"},
		{"history_timeout", func(p *CondorQ) { p.HistoryTimeout = -1 }, "option history_timeout: must be more than 0s"},
		{"max_output", func(p *CondorQ) { p.MaxOutput = 10 }, "option max_output: must be at least 1MiB"},
		{"max_parallel", func(p *CondorQ) { p.MaxParallel = 0 }, "option max_parallel: must be at least 1"},
		{"max_users", func(p *CondorQ) { p.MaxUsers = 0 }, "option max_users: must be at least 1"},
		{"job_interval", func(p *CondorQ) { p.JobInterval = -1 }, "option job_interval: must not be negative"},
		{"no bucket", func(p *CondorQ) { p.WaitBuckets = nil }, "option wait_buckets: empty"},
		{"order", func(p *CondorQ) { p.WaitBuckets = series.Hours[config.Duration](1, 1) },
			"option wait_buckets: 1h0m0s: must be whole seconds, each more than the one before"},
		{"part of a second", func(p *CondorQ) { p.WaitBuckets = []config.Duration{config.Duration(1500 * time.Millisecond)} },
			"option wait_buckets: 1.5s: must be whole seconds, each more than the one before"},
		{"no attribute", func(p *CondorQ) { p.Attributes = []string{":integer"} }, `option attributes: ":integer": "" is no name of an attribute`},
		{"two attributes", func(p *CondorQ) { p.Attributes = []string{"A,B"} }, `option attributes: "A,B": "A,B" is no name of an attribute`},
		{"a digit first", func(p *CondorQ) { p.Attributes = []string{"2A"} }, `option attributes: "2A": "2A" is no name of an attribute`},
		{"kind", func(p *CondorQ) { p.Attributes = []string{"A:int"} },
			`option attributes: "A:int": "int" is none of ["string" "integer" "float" "boolean"]`},
		{"our own field", func(p *CondorQ) { p.Attributes = []string{"BatchName"} },
			`option attributes: "BatchName": the field "batch_name" is there already`},
		{"a field twice", func(p *CondorQ) { p.Attributes = []string{"JobPrio", "job_prio:integer"} },
			`option attributes: "job_prio:integer": the field "job_prio" is there twice`},
		{"users", func(p *CondorQ) { p.Users = "uid" }, `option users: "uid" is none of ["name" "pseudonym" "none"]`},
		{"no key", func(p *CondorQ) { p.Users = "pseudonym" }, `option pseudonym_key: must be set with users = "pseudonym"`},
		{"short key", func(p *CondorQ) { p.Users, p.PseudonymKey = "pseudonym", config.NewSecret([]byte("short")) },
			"option pseudonym_key: must have at least 16 characters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlugin()
			test.change(p)
			require.EqualError(t, p.Init(), test.want)
		})
	}
}

const (
	firstStep  = "testcases/pool/1"
	secondStep = "testcases/pool/2"
)

// only gives the metrics of a measurement whose tags have these values.
func only(metrics []telegraf.Metric, measurement string, tags map[string]string) (found []telegraf.Metric) {
	for _, m := range metrics {
		fits := m.Name() == measurement
		for name, want := range tags {
			got, _ := m.GetTag(name)
			fits = fits && got == want
		}
		if fits {
			found = append(found, m)
		}
	}
	return found
}

// field gives a field of the one metric of a measurement with these tags; nil where there is none.
func field(t *testing.T, metrics []telegraf.Metric, measurement, name string, tags map[string]string) any {
	t.Helper()
	found := only(metrics, measurement, tags)
	require.Len(t, found, 1, "%s %v", measurement, tags)
	value, _ := found[0].GetField(name)
	return value
}

// measurements counts metrics.
func measurements(metrics []telegraf.Metric) map[string]int {
	counts := make(map[string]int)
	for _, m := range metrics {
		counts[m.Name()]++
	}
	return counts
}

func texts(errs []error) (texts []string) {
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}

var (
	head   = map[string]string{"schedd": "head.pool.test"}
	second = map[string]string{"schedd": "second@head.pool.test"}
)

// A schedd that fails says so once, is not asked again in the same gather, has no zeros, and hides no other.
func TestDeadSchedd(t *testing.T) {
	r := newRig(t, newPlugin())
	_, errs := r.gather(firstStep, then)
	require.Empty(t, errs)
	r.broken["q"] = errors.New("condor_q: exit status 1: Error: Can't find address for schedd head.pool.test")
	for gather := range 3 {
		metrics, errs := r.gather(secondStep, then.Add(10*time.Second))
		if gather == 0 {
			require.Equal(t, []string{`schedd "head.pool.test": condor_q: exit status 1: Error: Can't find address for schedd head.pool.test`}, texts(errs))
		} else {
			require.Empty(t, errs)
		}
		require.Equal(t, int64(0), field(t, metrics, "condor_schedd", "up", head))
		require.Equal(t, int64(1), field(t, metrics, "condor_schedd", "up", second))
		require.Empty(t, only(metrics, "condor_queue", head))
		require.Empty(t, only(metrics, "condor_user", head))
		require.Empty(t, only(metrics, "condor_hold", head))
		require.Len(t, only(metrics, "condor_queue", second), 1)
		require.NotEmpty(t, only(metrics, "condor_slots", nil))
		asked := 0
		for _, line := range r.ran {
			if strings.HasPrefix(line, "condor_q ") && !strings.Contains(line, "second") {
				asked++
			}
		}
		require.Equal(t, 1, asked)
		if gather == 0 {
			require.Len(t, only(metrics, "condor_finished", head), 4, "this host's history is on disk")
		}
	}
	delete(r.broken, "q")
	metrics, _ := r.gather(secondStep, then.Add(20*time.Second))
	require.Equal(t, int64(1), field(t, metrics, "condor_schedd", "up", head))
	require.Equal(t, int64(2), field(t, metrics, "condor_queue", "idle", head))
}

// Without the collector nobody knows of other hosts' schedds, but this host's answers all the same.
func TestDeadCollector(t *testing.T) {
	r := newRig(t, newPlugin())
	_, errs := r.gather(firstStep, then)
	require.Empty(t, errs)
	r.broken["status-schedd"] = errors.New("condor_status: still running after 10s")
	for gather := range 2 {
		metrics, errs := r.gather(secondStep, then.Add(10*time.Second))
		if gather == 0 {
			require.Equal(t, []string{"condor_status: still running after 10s"}, texts(errs))
		} else {
			require.Empty(t, errs)
		}
		require.Equal(t, int64(0), field(t, metrics, "condor_pool", "up", nil))
		require.Equal(t, int64(1), field(t, metrics, "condor_schedd", "up", head))
		require.Empty(t, only(metrics, "condor_schedd", second), "nothing is known of it")
		require.Equal(t, int64(2), field(t, metrics, "condor_queue", "idle", head))
		require.NotContains(t, measurements(metrics), "condor_slots")
		for _, line := range r.ran {
			require.False(t, strings.HasPrefix(line, "condor_status -json"), line)
			require.NotContains(t, line, "second@")
		}
	}
}

// Where nothing is asked of the jobs, a schedd's totals show whether it is up; where not even that, it is not asked at all.
func TestOnlyAsMuchAsNeeded(t *testing.T) {
	for _, test := range []struct {
		collect []string
		want    string
	}{
		{[]string{"schedd"}, "condor_q -all -totals -json"},
		{[]string{"hold"}, "condor_q -all -json -attributes JobStatus,JobUniverse,EnteredCurrentStatus,QDate,ServerTime,CpusProvisioned,GPUsProvisioned,MemoryProvisioned,HoldReasonCode"},
		{[]string{"finished"}, ""},
		{[]string{"slots"}, ""},
	} {
		p := newPlugin()
		p.Collect, p.Schedds = test.collect, []string{"local"}
		r := newRig(t, p)
		r.change["q-totals"] = "[\n{\n}\n]\n"
		metrics, errs := r.gather(firstStep, then)
		require.Empty(t, errs)
		asked := slices.DeleteFunc(slices.Clone(r.ran), func(line string) bool { return !strings.HasPrefix(line, "condor_q ") })
		require.Equal(t, test.want, strings.Join(asked, "\n"))
		require.Len(t, only(metrics, "condor_schedd", nil), map[bool]int{true: 1, false: 0}[test.collect[0] == "schedd"])
	}
}

// One that the collector names no more is down, for a day.
func TestScheddThatIsGone(t *testing.T) {
	r := newRig(t, newPlugin())
	r.gather(firstStep, then)
	r.change["status-schedd"] = "[\n{\n  \"Name\": \"head.pool.test\"\n}\n]\n"
	metrics, errs := r.gather(secondStep, then.Add(time.Hour))
	require.Equal(t, []string{`schedd "second@head.pool.test": the collector does not know it`}, texts(errs))
	require.Equal(t, int64(0), field(t, metrics, "condor_schedd", "up", second))
	metrics, errs = r.gather(secondStep, then.Add(24*time.Hour))
	require.Empty(t, errs)
	require.Equal(t, int64(0), field(t, metrics, "condor_schedd", "up", second))
	metrics, _ = r.gather(secondStep, then.Add(24*time.Hour+time.Minute))
	require.Empty(t, only(metrics, "condor_schedd", second))
	require.Len(t, only(metrics, "condor_schedd", head), 1)
}

func TestScheddsByName(t *testing.T) {
	p := newPlugin()
	p.Schedds = []string{"local", "third"}
	r := newRig(t, p)
	metrics, errs := r.gather(firstStep, then)
	require.Equal(t, []string{`schedd "third": the collector does not know it`}, texts(errs))
	require.Len(t, only(metrics, "condor_schedd", nil), 2)
	require.Equal(t, int64(1), field(t, metrics, "condor_schedd", "up", head))
	require.Equal(t, int64(0), field(t, metrics, "condor_schedd", "up", map[string]string{"schedd": "third"}))

	p = newPlugin()
	p.Schedds = []string{"local"}
	r = newRig(t, p)
	r.broken["status-local"] = errors.New("no file")
	metrics, errs = r.gather(firstStep, then)
	require.Equal(t, []string{`option schedds: "local": there is no schedd on this host`}, texts(errs))
	require.Empty(t, only(metrics, "condor_schedd", nil))
}

// Without its ad on disk this host's schedd is asked by its name, as the others.
func TestNoLocalSchedd(t *testing.T) {
	for file, failure := range map[string]error{
		"config_val-SCHEDD_DAEMON_AD_FILE": errors.New("condor_config_val: exit status 1: Not defined: SCHEDD_DAEMON_AD_FILE"),
		"status-local":                     errors.New("condor_status: exit status 1"),
	} {
		r := newRig(t, newPlugin())
		r.broken[file] = failure
		_, errs := r.gather(firstStep, then)
		require.Equal(t, []string{`schedd "head.pool.test": condor_q: exit status 1: Error: no q-head.pool.test`}, texts(errs))
	}
}

// A constraint that HTCondor refuses takes its own queue only.
func TestBadConstraint(t *testing.T) {
	p := newPlugin()
	p.Queues = []Queue{{"bad", "Owner =="}, {"all", ""}}
	r := newRig(t, p)
	r.broken["q-constraint"] = errors.New(`condor_q: exit status 1: -- Parse error in constraint expression "Owner =="`)
	metrics, errs := r.gather(firstStep, then)
	require.Equal(t, []string{`schedd "head.pool.test": queue "bad": condor_q: exit status 1: -- Parse error in constraint expression "Owner =="`}, texts(errs))
	require.Equal(t, int64(5), field(t, metrics, "condor_queue", "idle", map[string]string{"schedd": "head.pool.test", "queue": "all"}))
	require.Empty(t, only(metrics, "condor_queue", map[string]string{"schedd": "head.pool.test", "queue": "bad"}))
	require.Equal(t, int64(1), field(t, metrics, "condor_schedd", "up", head))
}

// Several pools are asked with their addresses, and one that is dead hides no other.
func TestSeveralPools(t *testing.T) {
	p := newPlugin()
	p.Pools = []string{"cm1", "cm2"}
	p.Collect = []string{"queue", "schedd", "slots"}
	r := newRig(t, p)
	const ad = "[\n{\n  \"Name\": \"s1\"\n}\n]\n"
	r.change["status-schedd-cm1"], r.change["q-s1-cm1"], r.change["q-factory-s1-cm1"], r.change["status-cm1"] = ad, "\n", "\n", "\n"
	r.broken["status-schedd-cm2"] = errors.New("condor_status: exit status 1: Error: communication error")
	metrics, errs := r.gather(t.TempDir(), then)
	require.Equal(t, []string{`pool "cm2": condor_status: exit status 1: Error: communication error`}, texts(errs))
	require.Equal(t, int64(0), field(t, metrics, "condor_pool", "up", map[string]string{"pool": "cm2"}))
	require.Equal(t, int64(1), field(t, metrics, "condor_pool", "up", map[string]string{"pool": "cm1"}))
	require.Equal(t, int64(0), field(t, metrics, "condor_queue", "idle", map[string]string{"pool": "cm1", "schedd": "s1", "queue": "all"}))
	slices.Sort(r.ran)
	require.Equal(t, []string{
		"condor_q -all -json -attributes JobMaterializeLimit,TotalSubmitProcs,JobMaterializeNextProcId -factory -name s1 -pool cm1",
		"condor_q -all -json -attributes JobStatus,JobUniverse,EnteredCurrentStatus,QDate,ServerTime,CpusProvisioned,GPUsProvisioned,MemoryProvisioned -name s1 -pool cm1",
		"condor_status -pool cm1 -json -attributes State,SlotType,Cpus,GPUs,Memory",
		"condor_status -pool cm1 -schedd -json -attributes " + newScheddList(),
		"condor_status -pool cm2 -schedd -json -attributes " + newScheddList(),
	}, r.ran)
}

func newScheddList() string {
	a := newAttributes("Name")
	newNumberColumns(a, scheddNumbers())
	return a.list()
}

// Where there is no HTCondor at all there is nothing to watch, and nothing to complain of.
func TestNoHTCondor(t *testing.T) {
	for _, pools := range [][]string{nil, {"cm1"}} {
		p := newPlugin()
		p.Pools = pools
		r := newRig(t, p)
		p.run = func(context.Context, func(io.Reader) error, string, ...string) (command.Result, error) {
			return command.Result{}, &command.Error{Name: "condor_status", Reason: command.ErrNotFound, Err: errors.New("not found in PATH")}
		}
		for range 2 {
			metrics, errs := r.gather(firstStep, then)
			require.Empty(t, errs)
			require.Equal(t, map[string]int{"condor_q_self": 1}, measurements(metrics))
		}
		require.Len(t, r.log.Messages(), 1)
		require.Contains(t, r.log.Messages()[0].Text, "There is no HTCondor on this host")
	}
}

func TestNoConfiguration(t *testing.T) {
	r := newRig(t, newPlugin())
	r.broken["config_val-COLLECTOR_HOST"] = errors.New("condor_config_val: exit status 1: Neither the environment variable CONDOR_CONFIG")
	for gather := range 2 {
		metrics, errs := r.gather(firstStep, then)
		require.Equal(t, map[string]int{"condor_q_self": 1}, measurements(metrics))
		require.Len(t, errs, 1-gather)
	}
	delete(r.broken, "config_val-COLLECTOR_HOST")
	r.change["config_val-COLLECTOR_HOST"] = "\n"
	_, errs := r.gather(firstStep, then)
	require.Equal(t, []string{"condor_config_val: HTCondor is configured for no pool: COLLECTOR_HOST is empty"}, texts(errs))
}

// Output that is cut off is no output, even where the command says that all went well.
func TestOutputThatIsCutOff(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(secondStep, "q.txt"))
	require.NoError(t, err)
	r := newRig(t, newPlugin())
	r.change["q"] = string(whole[:len(whole)/2])
	r.change["status"] = "[\n{\n  \"State\": \"Unclaimed\",\n"
	metrics, errs := r.gather(firstStep, then)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	require.Equal(t, []string{
		"condor_status: reading its output: ad 1: unexpected EOF",
		`schedd "head.pool.test": condor_q: reading its output: ad 5: unexpected EOF`,
	}, texts(errs))
	require.Equal(t, int64(0), field(t, metrics, "condor_schedd", "up", head))
	require.Empty(t, only(metrics, "condor_queue", head))
	require.Empty(t, only(metrics, "condor_slots", nil))
}

// Rows that were emitted are emitted again after a restart until the gather after them has begun; and are the same.
func TestFinishedOverRestarts(t *testing.T) {
	p := newPlugin()
	p.Collect = []string{"finished"}
	r := newRig(t, p)
	rows := func(folder string) string {
		t.Helper()
		metrics, errs := r.gather(folder, then)
		require.Empty(t, errs)
		return plugintest.Lines(t, only(metrics, "condor_finished", nil))
	}
	require.Empty(t, rows(firstStep), "what left before is not ours")
	r.restart()
	first := rows(secondStep)
	require.Equal(t, 4, strings.Count(first, "\n"))
	r.restart()
	require.Equal(t, first, rows(secondStep), "nobody knows whether they arrived")
	require.Empty(t, rows(secondStep))
	r.restart()
	require.Empty(t, rows(secondStep))
}

// A job that comes between its predecessors and a schedd's restart is not lost, one that is written again is no other,
// and what is not a job's is left out.
func TestFinishedWrittenAgain(t *testing.T) {
	p := newPlugin()
	p.Collect = []string{"finished"}
	p.Schedds = []string{"local"}
	r := newRig(t, p)
	history := func(ids ...int) string { // newest first
		var ads []string
		for _, id := range ids {
			ads = append(ads, fmt.Sprintf(`{"GlobalJobId": "s#%d.0#1", "ClusterId": %d, "ProcId": 0, "JobStatus": 4, "CompletionDate": %d, "JobFinishedHookDone": %d}`,
				id%1000, id%1000, 1795274000+id%1000, 1795274000+id))
		}
		return "[" + strings.Join(append(ads, `{"ClusterId": 5}`), ",") + "]"
	}
	gather := func() (jobs []any) {
		t.Helper()
		metrics, errs := r.gather(firstStep, then)
		require.Empty(t, errs)
		for _, m := range only(metrics, "condor_finished", nil) {
			id, _ := m.GetField("id")
			jobs = append(jobs, id)
		}
		return jobs
	}
	r.change["history-limit"] = history(2, 1)
	require.Empty(t, gather())
	r.change["history"] = history(4, 3, 2, 1)
	require.Equal(t, []any{"3.0", "4.0"}, gather())
	r.change["history"] = history(6, 1004, 3, 5, 4, 3, 2, 1)
	require.Equal(t, []any{"5.0", "6.0"}, gather())
	r.change["history"] = history(8, 7)
	metrics, errs := r.gather(firstStep, then)
	require.Len(t, only(metrics, "condor_finished", nil), 2)
	require.Equal(t, []string{`schedd "head.pool.test": its history does not reach back to what was read before: jobs that left meanwhile may be missing`}, texts(errs))
	r.change["history"] = "[\n]\n"
	_, errs = r.gather(firstStep, then)
	require.Equal(t, []string{`schedd "head.pool.test": condor_history: no record, though there were some: has the history file been removed?`}, texts(errs))
	r.change["history"] = history(9, 8, 7)
	require.Equal(t, []any{"9.0"}, gather())
}

// A state that is damaged is set aside, and one that another process has is left alone.
func TestStates(t *testing.T) {
	p := newPlugin()
	p.Collect, p.Schedds = []string{"finished"}, []string{"local"}
	r := newRig(t, p)
	r.gather(firstStep, then)
	path := filepath.Join(p.StateDirectory, "schedd-127.0.0.1-head.pool.test.json")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), `{"version":1,"started":true,"tail":[{"id":"head.pool.test#`)

	other := newPlugin()
	other.Collect, other.Schedds, other.StateDirectory = p.Collect, p.Schedds, p.StateDirectory
	log := &testutil.CaptureLogger{}
	other.Log, other.run = log, r.run
	require.NoError(t, other.Init())
	t.Cleanup(other.Stop)
	var acc testutil.Accumulator
	require.NoError(t, other.Gather(&acc))
	require.Equal(t, []string{fmt.Sprintf(`schedd "head.pool.test": nothing is told of finished jobs: state %q is in use by another process: resource temporarily unavailable`,
		strings.TrimSuffix(path, ".json")+".lock")}, texts(acc.Errors))

	for _, damage := range []struct{ content, want string }{
		{`{"version":1,"started"`, "unexpected end of JSON input"}, {`{"version":7}`, "version 7 of the format is not 1"},
	} {
		r.p.Stop()
		require.NoError(t, os.WriteFile(path, []byte(damage.content), 0o600))
		r.restart()
		r.log.Clear()
		metrics, errs := r.gather(secondStep, then)
		require.Len(t, errs, 1) // The step has no baseline.
		require.Empty(t, only(metrics, "condor_finished", nil))
		require.Len(t, r.log.Messages(), 1)
		require.Equal(t, fmt.Sprintf(`Schedd "head.pool.test": state %q can't be read: %s: set aside as %q; what left its queue before now is not told`,
			path, damage.want, path+".damaged"), r.log.Messages()[0].Text)
		aside, err := os.ReadFile(path + ".damaged")
		require.NoError(t, err)
		require.Equal(t, damage.content, string(aside))
	}
}

// Users past the limit are summed, and so are their groups; those with the most cores are shown.
func TestMaxUsers(t *testing.T) {
	p := newPlugin()
	p.Collect, p.MaxUsers = []string{"user"}, 1
	metrics, _ := newRig(t, p).gather(firstStep, then)
	rows := only(metrics, "condor_user", head)
	users := make([]string, 0, len(rows))
	for _, m := range rows {
		user, _ := m.GetTag("user")
		group, _ := m.GetTag("group")
		users = append(users, user+" "+group)
	}
	slices.Sort(users)
	require.Equal(t, []string{"_other _other", "alice _none", "alice group_physics.alice"}, users)
	other := map[string]string{"schedd": "head.pool.test", "user": "_other"}
	require.Equal(t, int64(3), field(t, metrics, "condor_user", "idle", other))
	require.Equal(t, int64(3), field(t, metrics, "condor_user", "held", other))
	require.Equal(t, int64(2), field(t, metrics, "condor_user", "allocated_cores", other))
}

func TestPseudonyms(t *testing.T) {
	shown := func(how string) string {
		p := newPlugin()
		p.Collect, p.Users, p.PseudonymKey = []string{"user", "job", "finished", "userprio"}, how, config.NewSecret([]byte("0123456789abcdef"))
		r := newRig(t, p)
		metrics, errs := r.gather(firstStep, then)
		require.Empty(t, errs)
		more, _ := r.gather(secondStep, then.Add(time.Second))
		return plugintest.Lines(t, append(metrics, more...))
	}
	require.Contains(t, shown("name"), `user="carol"`)
	lines := shown("pseudonym")
	require.NotContains(t, lines, "carol")
	require.Contains(t, lines, `user="u221e6ba44f31"`)
	require.Contains(t, lines, `user=u221e6ba44f31`)
	lines = shown("none")
	require.NotContains(t, lines, "user=")
	require.NotContains(t, lines, "submitter")
	require.Contains(t, lines, "condor_user,group=_none,pool=127.0.0.1,schedd=head.pool.test")
}

// Job rows have an interval of their own, and without them less is asked of each job.
func TestJobInterval(t *testing.T) {
	p := newPlugin()
	p.Collect, p.JobInterval = []string{"queue", "job"}, config.Duration(time.Minute)
	r := newRig(t, p)
	metrics, _ := r.gather(firstStep, then)
	require.Len(t, only(metrics, "condor_job", nil), 18)
	metrics, _ = r.gather(firstStep, then.Add(30*time.Second))
	require.Empty(t, only(metrics, "condor_job", nil))
	for _, line := range r.ran {
		require.NotContains(t, line, "GlobalJobId")
	}
	metrics, _ = r.gather(firstStep, then.Add(time.Minute))
	require.Len(t, only(metrics, "condor_job", nil), 18)
}

// What a plugin that is told to stop could not do is no failure.
func TestStopped(t *testing.T) {
	r := newRig(t, newPlugin())
	r.p.cancel()
	metrics, errs := r.gather(firstStep, then)
	require.Empty(t, errs)
	require.Equal(t, map[string]int{"condor_q_self": 1}, measurements(metrics))
}

// through is an accumulator that keeps no metric, as the one that the plugin runs under.
type through struct {
	testutil.Accumulator
	lines []string
	t     *testing.T
	spoil bool // it changes what it was given, as a table's filters do
}

func (*through) WritesThrough() {}

func (a *through) AddMetric(m telegraf.Metric) {
	a.lines = append(a.lines, plugintest.Lines(a.t, []telegraf.Metric{m}))
	if a.spoil {
		m.AddTag("extra", "1")
		m.RemoveField("user")
		m.SetName("other")
	}
}

// A row is the same whether a metric is made for it or one is filled in again.
func TestRows(t *testing.T) {
	p := newPlugin()
	p.Collect = []string{"job"}
	r := newRig(t, p)
	metrics, _ := r.gather(firstStep, then)
	rows := only(metrics, "condor_job", nil)
	want := make([]string, 0, len(rows))
	for _, m := range rows {
		want = append(want, plugintest.Lines(t, []telegraf.Metric{m}))
	}
	for _, spoil := range []bool{false, true} {
		clear(r.p.schedule)
		acc := &through{t: t, spoil: spoil}
		require.NoError(t, r.p.Gather(acc))
		require.Equal(t, want, acc.lines)
	}
}

// discard is an accumulator that keeps nothing, as the one that the plugin runs under.
type discard struct {
	testutil.NopAccumulator
	rows int
}

func (*discard) WritesThrough() {}

func (a *discard) AddMetric(telegraf.Metric) { a.rows++ }

func BenchmarkGather20000Jobs(b *testing.B) {
	p := newPlugin()
	p.Collect, p.Schedds, p.JobInterval, p.StateDirectory = []string{"queue", "user", "hold", "job"}, []string{"local"}, 0, ""
	content := manyJobs(20_000)
	answers := map[string]string{"config_val-COLLECTOR_HOST": "cm\n", "config_val-SCHEDD_DAEMON_AD_FILE": "/ad\n", "status-local": `[{"Name": "s"}]`}
	p.run = func(_ context.Context, consume func(io.Reader) error, name string, args ...string) (command.Result, error) {
		file := fileOf(name, args)
		if file == "q" {
			return command.Result{}, consume(bytes.NewReader(content))
		}
		return command.Result{}, consume(strings.NewReader(answers[file]))
	}
	p.Log = testutil.Logger{Quiet: true}
	require.NoError(b, p.Init())
	b.Cleanup(p.Stop)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		acc := new(discard)
		if err := p.Gather(acc); err != nil || acc.rows != 20_000 {
			b.Fatal(acc.rows, err)
		}
	}
}

// All of the hostile and odd that a job may have.
func TestHostileJobs(t *testing.T) {
	p := newPlugin()
	p.Collect, p.Attributes, p.Schedds = []string{"queue", "user", "hold", "job"}, []string{"Odd", "N:integer", "F:float", "B:boolean"}, []string{"local"}
	r := newRig(t, p)
	r.change["q-factory"] = "\n"
	r.change["q"] = "[{}, {\"JobStatus\": 99, \"ClusterId\": 1, \"ProcId\": 0}," +
		"{\"JobStatus\": 2, \"ClusterId\": 2, \"ProcId\": 0, \"Owner\": \"a\xffb\", \"JobBatchName\": \"two\\nlines, and=more\", \"CpusProvisioned\": 99999999999999999999," +
		"\"MemoryProvisioned\": \"\\/Expr(x)\\/\", \"RequestMemory\": 5, \"GPUsProvisioned\": -3, \"RemoteWallClockTime\": 7.0, \"ServerTime\": 100, \"JobCurrentStartDate\": 90," +
		"\"Odd\": \"\\/Expr(1+1)\\/\", \"N\": 1.5, \"F\": 2, \"B\": true}," +
		"{\"JobStatus\": 5, \"ClusterId\": 3, \"ProcId\": 9223372036854775807, \"User\": \"bob@x\", \"HoldReasonCode\": \"x\", \"Odd\": \"\\u0007\", \"N\": -5}," +
		"{\"JobStatus\": 1, \"ClusterId\": -4, \"ProcId\": 1}]"
	metrics, errs := r.gather(firstStep, then)
	require.Empty(t, errs)
	plugintest.Golden(t, "testdata/hostile.out", plugintest.Lines(t, slices.DeleteFunc(slices.Clone(metrics), func(m telegraf.Metric) bool {
		return m.Name() == "condor_q_self"
	})))
	require.Equal(t, map[string]int{"condor_pool": 1, "condor_queue": 1, "condor_user": 3, "condor_hold": 1, "condor_job": 3, "condor_q_self": 1}, measurements(metrics))
}

// This program has the name of HTCondor's tool, and must not take itself for it.
func TestTheirTool(t *testing.T) {
	ours, theirs, none := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(folder, script string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "condor_q"), []byte(script), mode))
	}
	write(ours, "#!/bin/sh\nexit 9\n", 0o700)
	write(theirs, "#!/bin/sh\necho '[]'\n", 0o700)
	write(none, "", 0o600)
	tools := newTools("", time.Minute, time.Minute, 1<<20)
	tools.self = func() (string, error) { return filepath.Join(ours, "condor_q"), nil }
	ask := func() (string, error) {
		var text bytes.Buffer
		_, err := tools.run(t.Context(), func(r io.Reader) error {
			_, err := text.ReadFrom(r)
			return err
		}, "condor_q")
		return text.String(), err
	}
	t.Setenv("PATH", strings.Join([]string{".", none, ours, theirs}, ":"))
	text, err := ask()
	require.NoError(t, err)
	require.Equal(t, "[]\n", text)
	_, err = ask()
	require.NoError(t, err)
	require.Len(t, tools.found, 1, "one runner, since it knows which tools hang")

	t.Setenv("PATH", ours)
	_, err = ask()
	require.EqualError(t, err, "condor_q: not found in PATH but for this program, "+ours+"/condor_q")
	require.ErrorIs(t, err, command.ErrNotFound)
	t.Setenv("PATH", none)
	_, err = ask()
	require.EqualError(t, err, "condor_q: not found in PATH")

	tools.folder = ours
	tools.quick.Folder = ours
	_, err = ask()
	require.EqualError(t, err, "condor_q: exit status 9")
}
