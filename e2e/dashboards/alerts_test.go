package dashboards

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"telegraf-hpc/e2e/harness"
)

// rule is an alert rule, as far as this test reads it: a query, what makes one number of each series, and a threshold.
type rule struct {
	UID  string
	Data []struct {
		RelativeTimeRange struct{ From, To int } `yaml:"relativeTimeRange"`
		Model             struct {
			Query      string
			Reducer    string
			Conditions []struct {
				Evaluator struct {
					Type   string
					Params []float64
				}
			}
		}
	}
}

// rules reads the alert rules.
func rules(t testing.TB) []rule {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository(t), "dashboards", "provisioning", "alerting", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

// fires gives the series for which a rule fires, as Grafana works it out.
func (r *rule) fires(t testing.TB, db *harness.InfluxDB, now time.Time) []string {
	t.Helper()
	require.Len(t, r.Data, 3)
	from := now.Add(-time.Duration(r.Data[0].RelativeTimeRange.From) * time.Second)
	series := db.Query(database, fill(t, r.Data[0].Model.Query, map[string]string{}, from, now))
	require.NotEmpty(t, series, r.UID)
	evaluator := r.Data[2].Model.Conditions[0].Evaluator
	var firing []string
	for _, s := range series {
		value, ok := reduce(t, s.Rows, r.Data[1].Model.Reducer)
		if ok && (evaluator.Type == "gt" && value > evaluator.Params[0] || evaluator.Type == "lt" && value < evaluator.Params[0]) {
			labels := make([]string, 0, len(s.Tags))
			for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
				labels = append(labels, s.Tags[name])
			}
			firing = append(firing, strings.Join(labels, " "))
		}
	}
	slices.Sort(firing)
	return firing
}

// reduce makes one number of the values that there are; nothing where there are none.
func reduce(t testing.TB, rows []harness.Row, how string) (result float64, ok bool) {
	t.Helper()
	for _, row := range rows {
		for name, value := range row {
			number, isNumber := value.(json.Number)
			if name == "time" || !isNumber {
				continue
			}
			v, err := number.Float64()
			require.NoError(t, err)
			switch how {
			case "last":
				result = v
			case "sum":
				result += v
			default:
				t.Fatalf("no reducer %q", how)
			}
			ok = true
		}
	}
	return result, ok
}

// Each rule fires for what is wrong, and for nothing else.
func TestAlerts(t *testing.T) {
	t.Parallel()
	db := harness.StartInfluxDB(t)
	db.CreateDatabase(database)
	now := time.Now()
	var b strings.Builder
	for back := range 60 { // Every half minute of half an hour, the latest first.
		at := now.Add(-time.Duration(back) * 30 * time.Second).UnixNano()
		grown := 60 - back
		line := func(format string, values ...any) { fmt.Fprintf(&b, format+" %d\n", append(values, at)...) }
		line(`internal_agent,host=live,version=1 metrics_gathered=%di`, grown)
		if back > 24 { // Twelve minutes ago it told something for the last time.
			line(`internal_agent,host=silent,version=1 metrics_gathered=%di`, grown)
		}
		line(`internal_write,host=live,output=influxdb metrics_dropped=5i`)
		line(`internal_write,host=full,output=influxdb metrics_dropped=%di`, grown)
		line(`lustre_jobstats_self,host=oss1,fs=l,kind=ost,target=l-OST0000 undecided=100i`)
		line(`lustre_jobstats_self,host=oss1,fs=l,kind=ost,target=l-OST0001 undecided=%di`, max(0, 3-back))
		line(`slurm_cluster,host=head,cluster=good up=1i,nodes_down=0i,nodes_total=100i`)
		line(`slurm_cluster,host=head,cluster=some up=1i,nodes_down=2i,nodes_total=100i`)
		line(`slurm_cluster,host=head,cluster=many up=1i,nodes_down=9i,nodes_total=100i`)
		line(`slurm_cluster,host=head,cluster=dead up=0i`)
		line(`condor_schedd,host=head,pool=p,schedd=good up=1i`)
		line(`condor_schedd,host=head,pool=p,schedd=dead up=0i`)
		line(`af_https_status,host=login1 oldest_seconds=2.5,queued=1`)
		line(`af_https_status,host=login2 oldest_seconds=%d,queued=7`, 4000-back)
	}
	write(t, db, b.String())
	want := map[string][]string{
		"telegraf-hpc-agent-silent":     {"silent"},
		"telegraf-hpc-metrics-lost":     {"full influxdb"},
		"telegraf-hpc-undecided-resets": {"oss1 l-OST0001"},
		"telegraf-hpc-slurmctld-down":   {"dead"},
		"telegraf-hpc-nodes-down":       {"many", "some"},
		"telegraf-hpc-many-nodes-down":  {"many"},
		"telegraf-hpc-schedd-down":      {"p dead"},
		"telegraf-hpc-af-https-queue":   {"login2"},
	}
	all := rules(t)
	require.Len(t, all, len(want))
	for _, r := range all {
		require.Contains(t, want, r.UID)
		require.Equal(t, want[r.UID], r.fires(t, db, now), r.UID)
	}
}

// The step of time in which a rule looks has always just begun: an agent that lives is not silent at any second of it.
func TestAgentIsNotSilent(t *testing.T) {
	t.Parallel()
	db := harness.StartInfluxDB(t)
	db.CreateDatabase(database)
	begin := time.Now().Truncate(5 * time.Minute)
	var b strings.Builder
	for back := range 120 {
		fmt.Fprintf(&b, "internal_agent,host=live metrics_gathered=%di %d\n", back, begin.Add(time.Duration(back-60)*30*time.Second).UnixNano())
	}
	write(t, db, b.String())
	all := rules(t)
	i := slices.IndexFunc(all, func(r rule) bool { return r.UID == "telegraf-hpc-agent-silent" })
	require.GreaterOrEqual(t, i, 0)
	for _, second := range []int{0, 1, 15, 29, 30, 31, 150, 299, 300, 301} {
		require.Empty(t, all[i].fires(t, db, begin.Add(time.Duration(second)*time.Second)), "%d s", second)
	}
}
