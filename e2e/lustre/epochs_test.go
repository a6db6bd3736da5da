package lustre

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// epochsOutput writes the epochs as a central lustre_jobs gets them. InfluxDB is not the place for them: it keeps one
// point per tags and time, and a job may have two epochs that are emitted at one time. Each Telegraf has a file of its
// own, since one that is killed may leave half a line.
const epochsOutput = `
[[outputs.file]]
  namepass = ["lustre_jobstats_epoch"]
  files = [%q]
  data_format = "influx"
`

// life is one epoch of a job on a target, "TARGET JOB".
type life struct {
	series string
	epoch  int64
}

// A central sum gets the epochs of every life of every counter, and what was lost with a plugin or a Telegraf that was
// killed it gets again: the largest values of each epoch add up to the truth.
func TestEpochLinesOverARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Second, 3, `emit = ["epoch"]`, `refresh = "2s"`)
	telegrafs := 0
	output := func() {
		telegrafs++
		s.more = fmt.Sprintf(epochsOutput, s.path(fmt.Sprintf("epochs.%d", telegrafs)))
	}
	s.simulate("--era", "2.15", "--osts", "2", "--mdts", "1", "--jobs", "60", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	output()
	s.start()
	s.pass(6 * time.Second)
	s.kill()
	s.pass(2 * time.Second)
	s.reset(syscall.SIGUSR1)
	output()
	s.restart(syscall.SIGKILL) // What was cleared was in no file since.
	s.pass(3 * time.Second)
	s.reset(syscall.SIGUSR2)
	s.kill()
	s.pass(8 * time.Second)
	output()
	s.restart(syscall.SIGTERM)
	s.pass(2 * time.Second)
	s.kill()
	want := s.finish()

	require.Empty(t, s.histories("target"), "totals, which nobody asked for")
	got, lives := s.epochs()
	sums := want.totals(byTarget)
	for _, sum := range sums { // These are left to the one who adds up.
		delete(sum, "ops")
		delete(sum, "busy_usecs")
	}
	require.Equal(t, sums, got)
	requireRestarts(t, want)
	t.Logf("%d series of %d epochs from %d telegrafs", len(got), lives, telegrafs)
}

// epochs reads what the Telegrafs wrote: of each series the sum of the largest values of each epoch.
func (s *site) epochs() (sums map[string]values, lives int) {
	s.t.Helper()
	files, err := filepath.Glob(s.path("epochs.*"))
	require.NoError(s.t, err)
	largest := make(map[life]values)
	for _, file := range files {
		lines := harness.ReadLines(s.t, file)
		require.NotEmpty(s.t, lines, file)
		for _, line := range lines {
			which, fields := parseEpoch(s.t, line)
			if largest[which] == nil {
				largest[which] = make(values)
			}
			for name, value := range fields {
				largest[which][name] = max(largest[which][name], value)
			}
		}
	}
	sums = make(map[string]values)
	for which, fields := range largest {
		if sums[which.series] == nil {
			sums[which.series] = make(values)
		}
		sums[which.series].add(fields)
		sums[which.series]["epochs"]++
	}
	for _, sum := range sums {
		sum.drop0()
	}
	return sums, len(largest)
}

// parseEpoch parses a line. No name or value of the simulation has a blank, a comma or an equals sign in it.
func parseEpoch(t testing.TB, line string) (life, values) {
	t.Helper()
	parts := strings.Split(line, " ")
	require.Len(t, parts, 3, line)
	measurement, tagText, _ := strings.Cut(parts[0], ",")
	require.Equal(t, "lustre_jobstats_epoch", measurement)
	tags := make(map[string]string)
	for pair := range strings.SplitSeq(tagText, ",") {
		key, value, _ := strings.Cut(pair, "=")
		tags[key] = value
	}
	fields := make(values)
	for pair := range strings.SplitSeq(parts[1], ",") {
		key, value, _ := strings.Cut(pair, "=")
		number, isInteger := strings.CutSuffix(value, "i")
		require.True(t, isInteger, "%s in %s", pair, line)
		n, err := strconv.ParseInt(number, 10, 64)
		require.NoError(t, err, line)
		fields[key] = n
	}
	require.NotZero(t, fields["epoch"], line)
	which := life{tags["target"] + " " + tags["job"], fields["epoch"]}
	delete(fields, "epoch")
	delete(fields, "snapshot")
	return which, fields
}
