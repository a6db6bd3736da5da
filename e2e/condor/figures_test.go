package condor

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// plugin is our program on its own, which is asked to gather as Telegraf asks it.
type plugin struct {
	t      testing.TB
	pid    int
	stdin  io.Writer
	stdout *bufio.Reader
}

func startPlugin(t testing.TB, configuration string) *plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "condor_q.conf")
	require.NoError(t, os.WriteFile(path, []byte(configuration), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Build(t, "./cmd/condor_q"), "condor_q"), "--config", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, stdin.Close())
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait() // The test is about what it printed.
	})
	return &plugin{t: t, pid: cmd.Process.Pid, stdin: stdin, stdout: bufio.NewReaderSize(stdout, 1<<20)}
}

// gather gathers once, and gives how many metrics there are of each measurement, and the fields of condor_q_self.
func (p *plugin) gather() (counts map[string]int, self map[string]float64) {
	p.t.Helper()
	// A gather ends a moment after its last line, and until then the plugin skips what it is asked.
	time.Sleep(time.Second)
	_, err := p.stdin.Write([]byte("\n"))
	require.NoError(p.t, err)
	counts = make(map[string]int)
	for {
		line, err := p.stdout.ReadString('\n')
		require.NoError(p.t, err)
		name, _, _ := strings.Cut(line, ",")
		counts[name]++
		if !strings.HasPrefix(line, "condor_q_self ") {
			continue
		}
		self = make(map[string]float64)
		for _, field := range strings.Split(strings.Fields(line)[1], ",") {
			key, value, _ := strings.Cut(field, "=")
			if number, err := strconv.ParseFloat(strings.TrimSuffix(value, "i"), 64); err == nil {
				self[key] = number
			}
		}
		return counts, self
	}
}

// With 20,000 jobs in the queue, and then in the history, the plugin costs little beside HTCondor's own commands.
func TestCostOf20000Jobs(t *testing.T) {
	t.Parallel()
	const jobs, later = 20_000, 20
	c := harness.StartCondor(t, harness.CondorOptions{})
	polls := timeHistory(t, c.Bin)
	p := startPlugin(t, fmt.Sprintf(`
[[inputs.condor_q]]
  command_directory = %q
  state_directory = %q
  collect = ["finished", "job"]
  job_interval = "0s"
  timeout = "1m"
`, polls.folder, t.TempDir()))
	submit := func(n int) string {
		return c.Submit("alice", fmt.Sprintf("executable = /bin/sleep\narguments = 1000\nrequest_cpus = 64\nbatch_name = many\nqueue %d", n))
	}
	p.gather()
	idle := harness.Memory(t, p.pid, "VmRSS")
	cluster := submit(jobs)
	var ours, theirs float64
	for range 3 {
		before := harness.CPUTime(t, p.pid).Seconds()
		counts, self := p.gather()
		require.Equal(t, jobs, counts["condor_job"])
		ours += harness.CPUTime(t, p.pid).Seconds() - before
		theirs += self["commands_cpu_seconds"]
	}
	grown := harness.Memory(t, p.pid, "VmHWM") - idle
	t.Logf("CPU of a gather: ours %.2f s, that of the commands %.2f s (%.0f %%); memory: %d MB above idle", ours/3, theirs/3, 100*ours/theirs, grown>>20)
	require.LessOrEqual(t, ours, 0.4*theirs, "CPU")
	require.LessOrEqual(t, grown, 64<<20, "memory")

	c.Command("condor_rm", cluster)
	c.WaitJobs(0, "true")
	counts, _ := p.gather()
	require.Equal(t, jobs, counts["condor_finished"])
	p.gather()
	// The machine has other things to do: the best of five of each counts.
	poll, alone := math.Inf(1), math.Inf(1)
	for range 5 {
		c.Command("condor_rm", submit(later))
		c.WaitJobs(0, "true")
		counts, self := p.gather()
		require.Equal(t, later, counts["condor_finished"])
		require.Less(t, self["bytes_read"], 1e6, "the history was not read anew")
		took, args := polls.last()
		poll, alone = min(poll, took), min(alone, polls.cursor(c, args, later))
	}
	t.Logf("a poll of the history with %d new of %d: %.3f s of CPU; reading back to the cursor alone: %.3f s", later, jobs, poll, alone)
	require.LessOrEqual(t, poll, 3*alone)
}

// historyTimes is a folder with HTCondor's commands, where condor_history notes what CPU time it took, and with which arguments.
// How long it took says more of what else ran.
type historyTimes struct {
	t      testing.TB
	folder string
	log    string
}

func timeHistory(t testing.TB, bin string) *historyTimes {
	t.Helper()
	h := &historyTimes{t: t, folder: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	tools, err := filepath.Glob(filepath.Join(bin, "*"))
	require.NoError(t, err)
	for _, tool := range tools {
		script := fmt.Sprintf("#!/bin/bash\nexec %q \"$@\"\n", tool)
		if filepath.Base(tool) == "condor_history" {
			script = fmt.Sprintf(`#!/bin/bash
TIMEFORMAT='%%U %%S'
{ time %[1]q "$@" 2>&3; } 3>&2 2>%[2]q.$$; status=$?
echo "$(<%[2]q.$$) ${*@Q}" >>%[2]q
exit $status
`, tool, h.log)
		}
		require.NoError(t, os.WriteFile(filepath.Join(h.folder, filepath.Base(tool)), []byte(script), 0o700))
	}
	return h
}

// last gives the seconds of CPU that condor_history took the last time, and its arguments as a shell takes them.
func (h *historyTimes) last() (took float64, args string) {
	h.t.Helper()
	log, err := os.ReadFile(h.log)
	require.NoError(h.t, err)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	fields := strings.SplitN(lines[len(lines)-1], " ", 3)
	require.Len(h.t, fields, 3)
	user, err := strconv.ParseFloat(fields[0], 64)
	require.NoError(h.t, err)
	system, err := strconv.ParseFloat(fields[1], 64)
	require.NoError(h.t, err)
	return user + system, fields[2]
}

// cursor has condor_history read back to the record that was the newest one before so many, with the other arguments as
// they were, and gives the seconds of CPU.
func (h *historyTimes) cursor(c *harness.Condor, args string, records int) float64 {
	h.t.Helper()
	newest := strings.Split(strings.TrimSpace(c.Command("condor_history", "-af", "GlobalJobId", "-limit", strconv.Itoa(records+1))), "\n")
	require.Len(h.t, newest, records+1)
	head, _, found := strings.Cut(args, "'-since'")
	require.True(h.t, found, args)
	script := fmt.Sprintf(`%q %s -since 'GlobalJobId == "%s"'`, filepath.Join(h.folder, "condor_history"), head, newest[records])
	answer, err := exec.CommandContext(h.t.Context(), "bash", "-c", script).Output()
	require.NoError(h.t, err)
	require.Equal(h.t, records, strings.Count(string(answer), `"GlobalJobId"`))
	took, _ := h.last()
	return took
}
