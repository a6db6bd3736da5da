package lustre

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	ost0 = "lustre-OST0000"
	ost1 = "lustre-OST0001"
	mdt0 = "lustre-MDT0000"

	// hurry is an interval at which a few gathers cost no time.
	hurry = 200 * time.Millisecond
)

// entry is one of job_stats that has only written.
type entry struct {
	job   string
	start time.Time // zero: Lustre does not tell
	bytes int64     // in one request
}

func (e entry) text() string {
	now := time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "- job_id:          %s\n", e.job)
	if e.start.IsZero() {
		fmt.Fprintf(&b, "  snapshot_time:   %d\n", now.Unix())
	} else {
		fmt.Fprintf(&b, "  snapshot_time:   %d.%09d secs.nsecs\n", now.Unix(), now.Nanosecond())
		fmt.Fprintf(&b, "  start_time:      %d.%09d secs.nsecs\n", e.start.Unix(), e.start.Nanosecond())
		fmt.Fprintf(&b, "  elapsed_time:    %d.000000000 secs.nsecs\n", int(now.Sub(e.start).Seconds()))
	}
	fmt.Fprintf(&b, "  write_bytes:     { samples: %11d, unit: bytes, min: %8d, max: %8d, sum: %16d }\n", 1, e.bytes, e.bytes, e.bytes)
	return b.String()
}

// targetFolder is a target's folder below the root of Lustre.
func targetFolder(target string) string {
	if byKind(target) == "mdt" {
		return filepath.Join("lustre/proc/fs/lustre/mdt", target)
	}
	return filepath.Join("lustre/proc/fs/lustre/obdfilter", target)
}

// stats writes a target's job_stats.
func (s *site) stats(target string, entries ...entry) {
	s.t.Helper()
	var text strings.Builder
	text.WriteString("job_stats:\n")
	for _, e := range entries {
		text.WriteString(e.text())
	}
	folder := targetFolder(target)
	require.NoError(s.t, os.MkdirAll(s.path(folder), 0o750))
	s.write(filepath.Join(folder, "job_cleanup_interval"), "600\n")
	s.write(filepath.Join(folder, "job_stats"), text.String())
}

// complaints waits until Telegraf's log has so many lines of a level, lets some more gathers pass, and requires that
// these lines are all there are.
func (s *site) complaints(level string, want ...string) {
	s.t.Helper()
	prefix := level + " [inputs.execd] [inputs.lustre_jobstats] "
	s.tg.WaitLines(len(want), prefix, harness.Patience)
	s.pass(3 * s.interval)
	for i := range want {
		want[i] = prefix + want[i]
	}
	require.Equal(s.t, want, s.tg.Lines(prefix))
}

// A second plugin on the same state says whose it is, and emits nothing. The first goes on as if there were none, and
// when it has ended the second goes on from its totals.
func TestTwoAgentsOneState(t *testing.T) {
	t.Parallel()
	first := newSite(t, hurry, 1)
	created := time.Now()
	first.stats(ost0, entry{"a", created, 100})
	first.start()
	first.written(ost0, "a", 100)

	second := *first
	second.host, second.tg, second.started, second.folder = "oss2", nil, nil, t.TempDir()
	configuration, err := os.ReadFile(first.path("lustre_jobstats.conf"))
	require.NoError(t, err)
	second.write("lustre_jobstats.conf", string(configuration))
	second.start()
	said := fmt.Sprintf("arget %q: state %s: the state is in use by another process", ost0, filepath.Join(first.path("state"), ost0, "ledger.db"))
	const prefix = "E! [inputs.execd] [inputs.lustre_jobstats] "
	require.Equal(t, []string{prefix + "T" + said, prefix + "t" + said}, second.tg.WaitLines(2, "E! ", harness.Patience), "at its start, and at a gather")

	first.stats(ost0, entry{"a", created, 250})
	first.written(ost0, "a", 250)
	first.pass(time.Second)
	require.Len(t, second.tg.Lines("E! "), 2)
	require.Empty(t, first.db.Query(database, `SELECT * FROM lustre_jobstats WHERE host = 'oss2'`))
	first.stop()

	first.stats(ost0, entry{"a", created.Add(time.Second), 5})
	second.written(ost0, "a", 255)
	require.Len(t, second.tg.Lines("E! "), 2)
	second.tg.Stop()
}

// A target that cannot be read is named once, however often it is tried, and again when it failed anew. The others go
// on, and so does it once it can be read.
func TestUnreadableTarget(t *testing.T) {
	t.Parallel()
	s := newSite(t, hurry, 3)
	created := time.Now()
	for _, target := range []string{ost0, ost1, mdt0} {
		s.stats(target, entry{"a", created, 100})
	}
	s.start()
	s.written(ost1, "a", 100)
	file := filepath.Join(targetFolder(ost1), "job_stats")
	said := fmt.Sprintf("target %q: read %s: is a directory", ost1, s.path(file))
	for round := range int64(2) {
		// No permission keeps root from reading, but this does. At no time is there nothing.
		require.NoError(t, os.Symlink(t.TempDir(), s.path(file+".new")))
		require.NoError(t, os.Rename(s.path(file+".new"), s.path(file)))
		s.complaints("E!", []string{said, said}[:round+1]...)
		s.stats(ost0, entry{"a", created, 200 + round})
		s.stats(mdt0, entry{"a", created, 300 + round})
		s.written(ost0, "a", 200+round)
		s.written(mdt0, "a", 300+round)
		s.written(ost1, "a", 100+50*round)
		s.stats(ost1, entry{"a", created, 150 + 50*round})
		s.written(ost1, "a", 150+50*round)
	}
	s.complaints("E!", said, said)
	s.tg.Stop()
}

// A damaged entry is named once, though its numbers change. Those before and behind it are right, and so is it once it
// is whole: nothing is lost.
func TestDamagedEntry(t *testing.T) {
	t.Parallel()
	s := newSite(t, hurry, 1)
	created := time.Now()
	jobs := func(bytes int64) []entry {
		return []entry{{"before", created, bytes}, {"damaged", created, bytes}, {"behind", created, bytes}}
	}
	s.stats(ost0, jobs(1000)...)
	s.start()
	s.written(ost0, "damaged", 1000)
	said := ""
	for _, bytes := range []int64{2000, 3000} {
		var texts [3]string
		for i, e := range jobs(bytes) {
			texts[i] = e.text()
		}
		texts[1] = strings.Replace(texts[1], ", unit: bytes", "", 1)
		if said == "" {
			line := texts[1][strings.Index(texts[1], "  write_bytes:"):]
			said = fmt.Sprintf("target %q: left out: job id \"damaged\": line %q: no unit", ost0, strings.TrimSuffix(line, "\n"))
		}
		s.write(filepath.Join(targetFolder(ost0), "job_stats"), "job_stats:\n"+strings.Join(texts[:], ""))
		s.written(ost0, "before", bytes)
		s.written(ost0, "behind", bytes)
		s.complaints("E!", said)
		s.written(ost0, "damaged", 1000)
	}
	s.stats(ost0, jobs(4000)...)
	for _, e := range jobs(4000) {
		s.written(ost0, e.job, 4000)
	}
	s.tg.Stop()
}

// A target that fails over and comes back, or was mounted anew, starts its counters from zero. Its totals go on, where
// Lustre tells the start of an entry and where the larger counters look as if nothing had been.
func TestTargetVanishesAndReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t, hurry, 3)
	created := time.Now()
	s.stats(ost0, entry{"a", created, 100})
	s.stats(ost1, entry{"a", time.Time{}, 100})
	s.stats(mdt0, entry{"a", created, 100})
	s.start()
	for _, target := range []string{ost0, ost1, mdt0} {
		s.written(target, "a", 100)
	}
	s.targets = 1 // The others report nothing while they are away.
	for _, target := range []string{ost0, ost1} {
		require.NoError(t, os.Rename(s.path(targetFolder(target)), s.path(target)))
	}
	gone := func(target string) string {
		return fmt.Sprintf("Target %q is gone; its totals are kept until it is back", target)
	}
	s.tg.WaitLines(1, gone(ost0), harness.Patience)
	s.tg.WaitLines(1, gone(ost1), harness.Patience)
	s.stats(mdt0, entry{"a", created, 200})
	s.written(mdt0, "a", 200)

	s.stats(ost0, entry{"a", time.Now(), 30})
	s.stats(ost1, entry{"a", time.Time{}, 300})
	s.written(ost0, "a", 130)
	s.written(ost1, "a", 400)
	for _, target := range []string{ost0, ost1} {
		require.Len(t, s.tg.Lines(gone(target)), 1)
		require.Len(t, s.tg.Lines(fmt.Sprintf("I! [inputs.execd] [inputs.lustre_jobstats] Target %q is back", target)), 1)
	}
	for _, h := range s.histories("target") {
		h.last(t) // None of them ever fell.
	}
	s.tg.Stop()
	for _, line := range s.tg.Lines("E! ") {
		require.Contains(t, line, "no such file or directory", "only a target that went away between being listed and being read")
	}
}

// Where there is no Lustre one line says so, however often Telegraf asks. When there is one, it is found.
func TestHostWithoutLustre(t *testing.T) {
	t.Parallel()
	s := newSite(t, hurry, 1)
	s.more = "\n[[inputs.mem]]\n\n[[outputs.file]]\n  namepass = [\"mem\"]\n  files = [\"mem.out\"]\n  data_format = \"influx\"\n"
	s.start()
	said := fmt.Sprintf("I! [inputs.execd] [inputs.lustre_jobstats] Nothing to read below %q: no Lustre server on this host; looking again at each gather",
		s.path("lustre/proc/fs/lustre"))
	s.tg.WaitLines(1, said, harness.Patience)
	asked := len(harness.ReadLines(t, s.path("mem.out"))) // Telegraf asks its own inputs as often as ours.
	harness.Eventually(t, harness.Patience, func() error {
		if n := len(harness.ReadLines(t, s.path("mem.out"))); n < asked+10 {
			return fmt.Errorf("%d of %d gathers", n, asked+10)
		}
		return nil
	})
	require.Equal(t, []string{said}, s.tg.Lines("[inputs.lustre_jobstats]"))
	require.Empty(t, s.db.Query(database, "SHOW SERIES FROM /lustre/"))

	s.stats(ost0, entry{"a", time.Now(), 100})
	s.written(ost0, "a", 100)
	require.Equal(t, []string{said}, s.tg.Lines("[inputs.lustre_jobstats]"))
	s.stop()
}
