package slurm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// answer is what the plugin printed, and how it ended.
type answer struct {
	metrics []string // lines
	log     []string
	status  int
}

// once lets the plugin gather once.
func (s *site) once(t testing.TB) answer {
	t.Helper()
	return run(t, filepath.Join(s.bin, "slurm_load"), "--config", s.pluginConfig(), "--once")
}

func run(t testing.TB, name string, args ...string) answer {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	split := func(text string) []string { return slices.Collect(strings.Lines(text)) }
	return answer{split(stdout.String()), split(stderr.String()), cmd.ProcessState.ExitCode()}
}

// measurements gives the names of the metrics.
func (a answer) measurements() []string {
	all := make([]string, 0, len(a.metrics))
	for _, line := range a.metrics {
		all = append(all, line[:strings.IndexAny(line, ", ")])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func rpcs(t testing.TB, s *harness.Slurm) map[string]int64 {
	t.Helper()
	counts := make(map[string]int64)
	for _, found := range regexp.MustCompile(`(?m)^\s+([A-Z_]+)\s+\( *\d+\) count:(\d+)`).FindAllStringSubmatch(s.Command("sdiag"), -1) {
		counts[found[1]] = number(t, found[2])
	}
	return counts
}

// While Slurm is away, for whatever reason, there is up=0 and nothing else, and each cause is said once; then all goes on.
func TestSlurmAway(t *testing.T) { testAway(t, "") }

func testAway(t *testing.T, suite string) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Suite: suite})
	s := newSite(t, cluster, atEachGather, `timeout = "3s"`)
	s.start()
	s.gathered(time.Now())
	controller, munge := cluster.Daemon("slurmctld"), cluster.Daemon("munged")
	for _, fault := range []struct {
		name       string
		begin, end func()
		said       string
	}{
		{"slurmctld refuses", controller.Stop, controller.Start, "sdiag: "},
		{"slurmctld hangs", controller.Pause, controller.Continue, "sdiag: still running after 3s"},
		{"munged is down", munge.Stop, munge.Start, "sdiag: "},
	} {
		t.Logf("fault: %s", fault.name)
		already := len(s.tg.Lines("E! "))
		fault.begin()
		harness.Eventually(t, harness.Patience, func() error {
			if n := s.ups(0); n < 2 {
				return fmt.Errorf("up=0 is there %d times", n)
			}
			return nil
		})
		from := s.gathered(time.Now())
		s.gathered(time.Now())
		for _, measurement := range []string{"slurm_queue", "slurm_partition", "slurm_rpc", "slurm_gpu"} {
			require.Empty(t, s.latest(measurement, from), "%s while %s", measurement, fault.name)
		}
		told := false
		lines := s.tg.Lines("E! ")[already:]
		for i, line := range lines {
			require.Contains(t, line, "E! [inputs.execd] [inputs.slurm_load] ")
			told = told || strings.Contains(line, "[inputs.slurm_load] "+fault.said)
			// What ran when it began may have failed in another way.
			require.NotContains(t, lines[:i], line, "said twice while %s", fault.name)
		}
		require.True(t, told, "while %s: %q", fault.name, lines)
		fault.end()
		back := time.Now()
		harness.Eventually(t, harness.Patience, func() error {
			if len(s.latest("slurm_partition", back)) == 0 {
				return fmt.Errorf("nothing since it is over that %s", fault.name)
			}
			return nil
		})
		s.tg.WaitLines(1, "Slurm answers again", harness.Patience)
		s.db.Query(database, "DELETE FROM slurm_cluster WHERE time > 0")
	}
	s.tg.Stop()
}

// ups counts how often slurm_cluster says so.
func (s *site) ups(value int) int {
	n := 0
	for _, series := range s.db.Query(database, fmt.Sprintf("SELECT up FROM slurm_cluster WHERE up = %d", value)) {
		n += len(series.Rows)
	}
	return n
}

// Somebody who may not see others' jobs and nodes has no figures of them, and is told why; an operator has them.
func TestPrivateData(t *testing.T) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Extra: "PrivateData=jobs,nodes,partitions,reservations,usage"})
	cluster.Submit("alice", "-A", "physics", "-n1", "--mem=10", "--wrap=sleep 1000")
	s := newSite(t, cluster)
	// On the machine itself the commands are in PATH.
	text := "[[inputs.slurm_load]]\n  state_directory = \"\"\n  timeout = \"30s\"\n"
	config := cluster.Path("tmp/slurm_load.conf")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
	program := cluster.Path("tmp/slurm_load")
	copyFile(t, filepath.Join(s.bin, "slurm_load"), program)
	once := func(user string) answer {
		line := append(cluster.Enter(user), "/tmp/slurm_load", "--config", "/tmp/slurm_load.conf", "--once")
		return run(t, line[0], line[1:]...)
	}
	hidden := []string{"slurm_gpu", "slurm_node_problem", "slurm_partition", "slurm_pending", "slurm_queue", "slurm_reservation", "slurm_wait"}

	root := once("root")
	require.Empty(t, root.log)
	require.Zero(t, root.status)
	require.Contains(t, root.measurements(), "slurm_queue")
	bob := once("bob")
	require.NotZero(t, bob.status)
	require.Len(t, bob.log, 4)
	for i, what := range []string{"jobs", "nodes", "partitions", "reservations"} {
		require.Equal(t, fmt.Sprintf("E! [inputs.slurm_load] PrivateData hides %s from user \"bob\": left out; "+
			"`sacctmgr modify user bob set adminlevel=operator` shows them\n", what), bob.log[i])
	}
	for _, measurement := range hidden {
		require.NotContains(t, bob.measurements(), measurement)
	}
	require.Contains(t, bob.measurements(), "slurm_rpc", "what is not private")
	cluster.Command("sacctmgr", "--immediate", "modify", "user", "bob", "set", "adminlevel=operator")
	harness.Eventually(t, harness.Patience, func() error {
		// slurmctld learns it from slurmdbd.
		operator := once("bob")
		if operator.status != 0 || !slices.Contains(operator.measurements(), "slurm_queue") {
			return fmt.Errorf("an operator gets %q, and %q", operator.measurements(), operator.log)
		}
		return nil
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o755))
}

// Each run that ended is there once, though the plugin is killed again and again, and slurmdbd is away for a while.
func TestFinishedOnce(t *testing.T) { testFinishedOnce(t, "") }

func testFinishedOnce(t *testing.T, suite string) {
	t.Parallel()
	cluster := harness.StartSlurm(t, harness.SlurmOptions{Suite: suite})
	s := newSite(t, cluster, everyGroup, atEachGather)
	s.start()
	s.gathered(time.Now())
	plugin := s.tg.Child("slurm_load.conf")
	kill := func() {
		require.NoError(t, syscall.Kill(plugin, syscall.SIGKILL))
		plugin = s.tg.NewChild("slurm_load.conf", plugin)
	}
	submit := func() {
		cluster.Submit("bob", "--array=1-20", "-n1", "--mem=10", "--wrap=exit $((SLURM_ARRAY_TASK_ID % 3))")
	}
	submit()
	kill()
	submit()
	cluster.Daemon("slurmdbd").Stop()
	submit()
	s.gathered(time.Now())
	kill()
	cluster.Daemon("slurmdbd").Start()
	submit()
	kill()
	harness.Eventually(t, harness.Patience, func() error {
		if left := cluster.Command("squeue", "-a", "-h", "-r"); left != "" {
			return fmt.Errorf("jobs are left:\n%s", left)
		}
		return nil
	})
	kill()
	checkFinished(t, s)
	for _, series := range s.db.Query(database, "SELECT runs FROM slurm_finished_total GROUP BY *") {
		last := int64(0)
		for _, r := range series.Rows {
			runs := r.Int64(t, "runs")
			require.GreaterOrEqual(t, runs, last, "a total went back")
			last = runs
		}
	}
}
