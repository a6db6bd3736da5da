package plugintest

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// Gather has an input gather once. README.md must document all metrics. What a plugin tells of itself
// comes without its version, which is another in each build.
func Gather(t testing.TB, p telegraf.Input) (metrics []telegraf.Metric, errs []error) {
	t.Helper()
	var acc testutil.Accumulator
	require.NoError(t, p.Gather(&acc))
	metrics = acc.GetTelegrafMetrics()
	Documented(t, metrics)
	for _, m := range metrics {
		if strings.HasSuffix(m.Name(), "_self") {
			m.RemoveField("version")
		}
	}
	return metrics, acc.Errors
}

// Steps gathers once for each of the folders 1, 2, ... of a test case, in order, and gives all that came of it.
func Steps(t testing.TB, folder string, gather func(step string, n int) ([]telegraf.Metric, []error)) (metrics []telegraf.Metric, errs []error) {
	t.Helper()
	for n := 1; ; n++ {
		step := filepath.Join(folder, strconv.Itoa(n))
		if _, err := os.Stat(step); err != nil {
			require.Greater(t, n, 1, "no gathers in %s", folder)
			return metrics, errs
		}
		more, failed := gather(step, n)
		metrics, errs = append(metrics, more...), append(errs, failed...)
	}
}

// ShowsDefaults requires that a sample configuration shows each option of a plugin, with its default but where it is an
// example. usual is a pointer to a plugin of which nothing is set, shown one of which all is as the sample shows it; neither
// counts what it has no key of TOML for. It gives how many options there are.
func ShowsDefaults(t testing.TB, sample string, usual, shown any, examples ...string) (options int) {
	t.Helper()
	want, got := reflect.ValueOf(usual).Elem(), reflect.ValueOf(shown).Elem()
	for i := range want.NumField() {
		key := want.Type().Field(i).Tag.Get("toml")
		if key == "" || key == "-" {
			continue
		}
		options++
		require.Regexp(t, `# (`+key+` = |\[\[.*\.`+key+`\]\])`, sample) // An option, or a table.
		if !slices.Contains(examples, key) {
			require.Equal(t, want.Field(i).Interface(), got.Field(i).Interface(), key)
		}
	}
	return options
}
