package helper

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// tmux is a terminal that a program runs in.
type tmux struct {
	t      *testing.T
	socket string
}

// startTmux runs a shell command in a terminal of its own.
func startTmux(t *testing.T, width, height int, command string) *tmux {
	t.Helper()
	harness.Program(t, "tmux", "tmux")
	m := &tmux{t: t, socket: filepath.Join(t.TempDir(), "tmux")}
	m.do("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), command)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", m.socket, "kill-server").Run() }) // It has ended if all is well.
	return m
}

func (m *tmux) do(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "tmux", append([]string{"-S", m.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	output, err := cmd.CombinedOutput()
	require.NoError(m.t, err, "tmux %s: %s", strings.Join(args, " "), output)
	return string(output)
}

func (m *tmux) press(keys ...string) { m.t.Helper(); m.do(append([]string{"send-keys"}, keys...)...) }

// screen gives the lines on the screen.
func (m *tmux) screen() []string {
	m.t.Helper()
	return strings.Split(strings.TrimRight(m.do("capture-pane", "-p"), "\n"), "\n")
}

// wait waits until the screen has a text, and gives it.
func (m *tmux) wait(text string) (lines []string) {
	m.t.Helper()
	harness.Eventually(m.t, harness.Patience, func() error {
		lines = m.screen()
		if all := strings.Join(lines, "\n"); !strings.Contains(all, text) {
			return fmt.Errorf("no %q on the screen:\n%s", text, all)
		}
		return nil
	})
	return lines
}

// truth is what each job has read and written on all targets, as the simulator knows, and how often counters started again.
func truth(t *testing.T, path string) (sums map[string][2]float64, restarts int) {
	t.Helper()
	var all struct {
		Targets map[string]map[string]struct {
			Ops   map[string]struct{ Sum float64 }
			Lives int
		}
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	sums = map[string][2]float64{}
	for _, jobs := range all.Targets {
		for job, work := range jobs {
			s := sums[job]
			s[0] += work.Ops["read_bytes"].Sum
			s[1] += work.Ops["write_bytes"].Sum
			sums[job] = s
			restarts += work.Lives - 1
		}
	}
	return sums, restarts
}

// figure reads a number as top shows it.
func figure(t *testing.T, text string) float64 {
	t.Helper()
	factor := 1.0
	if i := strings.IndexAny(text, "kMGTPE"); i >= 0 {
		for range strings.IndexByte("kMGTPE", text[i]) + 1 {
			factor *= 1000
		}
		text = text[:i]
	}
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return v * factor
}

// On a file server, in a terminal: keys do what the last line says, a hostile id does nothing, totals are the truth over
// counters that start again, and the terminal is as it was afterwards.
func TestTopOfFileServer(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	folder := t.TempDir()
	root, truthFile := filepath.Join(folder, "root"), filepath.Join(folder, "truth.json")
	evil := filepath.Join(root, "proc/fs/lustre/obdfilter/evil-OST0000")
	require.NoError(t, os.MkdirAll(evil, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(evil, "job_stats"), []byte("job_stats:\n- job_id:          \x1b]2;owned\x07\x1b[2J\n"+
		"  snapshot_time:   1461772761\n  read_bytes:      { samples:           1, unit: bytes, min:    4096, max:    4096, sum:            4096 }\n"), 0o600))
	sim := harness.StartCommand(t, folder, filepath.Join(bin, "lustresim"), "--root", root, "--truth", truthFile, "--jobs", "80", "--tick", "250ms", "--speed", "20",
		"--settle", "3s", "--interval", "240s", "--clear-every", "6s", "--duration", "19s")
	targets := filepath.Join(root, "proc/fs/lustre/*/*/job_stats")
	harness.Eventually(t, harness.Patience, func() error {
		if found, err := filepath.Glob(targets); err != nil || len(found) < 4 {
			return fmt.Errorf("%d targets: %w", len(found), err)
		}
		return nil
	})
	m := startTmux(t, 130, 45, fmt.Sprintf("%s top --root %s --interval 300ms; echo status $?; stty -a; sleep 600", filepath.Join(bin, "telegraf-hpc"), root))
	m.wait("requests/s to OSTs")
	m.press("w")
	m.wait("sorted by write")
	m.press("u")
	m.wait("by user")
	m.press("j", "/", "e", "v", "i", "l", "Enter")
	lines := m.wait("with evil")
	require.Contains(t, strings.Join(lines, "\n"), `\x1B]2;owned\x07\x1B[2J`)
	require.NotContains(t, m.do("display-message", "-p", "#{pane_title}"), "owned")
	m.press("p")
	m.wait("PAUSED")
	m.press("p", "Escape", "t")
	m.wait("sorted by total")

	// By then counters were cleared twice, and jobs have paused.
	require.Zero(t, sim.Wait(harness.Patience))
	want, restarts := truth(t, truthFile)
	require.Greater(t, restarts, 3)
	compared := 0
	harness.Eventually(t, harness.Patience, func() error {
		compared = 0
		for _, line := range m.wait("sorted by total")[4:] {
			columns := strings.Fields(line)
			if len(columns) < 8 || columns[0] != "lustre" || strings.HasSuffix(columns[1], "+") {
				continue
			}
			w, known := want[columns[1]]
			if !known {
				return fmt.Errorf("top shows job %s, which there is not", columns[1])
			}
			for i, shown := range columns[len(columns)-2:] {
				if got := figure(t, shown); got < w[i]*0.994 || got > w[i]*1.006 {
					return fmt.Errorf("job %s: top shows %s, true is %.0f", columns[1], shown, w[i])
				}
			}
			compared++
		}
		return nil
	})
	require.GreaterOrEqual(t, compared, 10)

	m.press("q")
	text := strings.Join(m.wait("status 0"), "\n")
	m.wait(" icanon")
	require.NotContains(t, text, "sorted by")
	require.Contains(t, strings.Join(m.screen(), "\n"), " echo ")
}

// From lustre_jobs, by its socket: the same jobs, with what it knows of them.
func TestTopOfLustreJobs(t *testing.T) {
	t.Parallel()
	bin := harness.Build(t, "./cmd/...")
	folder := t.TempDir()
	sockets, err := os.MkdirTemp("", "top") //nolint:usetesting // A socket's path must be short (unix(7)).
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(sockets)) })
	socket := filepath.Join(sockets, "s")
	root := filepath.Join(folder, "root")
	harness.StartCommand(t, folder, filepath.Join(bin, "lustresim"), "--root", root, "--jobs", "20", "--tick", "250ms", "--settle", "2s", "--interval", "30s")
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("lustre_jobstats.conf", fmt.Sprintf("[[inputs.lustre_jobstats]]\n  root = %q\n  emit = [\"epoch\"]\n  state_directory = %q\n", root, filepath.Join(folder, "a")))
	write("lustre_jobs.conf", fmt.Sprintf("[[processors.lustre_jobs]]\n  interval = \"1s\"\n  slurm = \"none\"\n  listen = %q\n  state_directory = %q\n",
		"unix:"+socket, filepath.Join(folder, "b")))
	tg := harness.StartTelegraf(t, folder, fmt.Sprintf(`
[agent]
  interval = "1s"
  flush_interval = "300ms"
  metric_buffer_limit = 200000
  skip_processors_after_aggregators = true
[[inputs.execd]]
  command = [%q, "--config", "lustre_jobstats.conf"]
  signal = "STDIN"
  data_format = "influx"
[[processors.execd]]
  command = [%q, "--config", "lustre_jobs.conf"]
[[outputs.discard]]
`, filepath.Join(bin, "lustre_jobstats"), filepath.Join(bin, "lustre_jobs")))
	harness.Eventually(t, harness.Patience, func() error {
		stdout, stderr, status := helper(t, bin, "top", "--from", "unix:"+socket, "--once", "--rows", "1", "--sort", "total")
		if status != 0 {
			return fmt.Errorf("status %d: %s", status, stderr)
		}
		lines := strings.Split(stdout, "\n")
		if len(lines) < 4 || !strings.HasPrefix(lines[3], "lustre ") || !strings.HasPrefix(lines[0], "lustre_jobs at unix:"+socket+", ") {
			return fmt.Errorf("no job yet: %q", lines)
		}
		return nil
	})
	_, stderr, status := helper(t, bin, "top", "--from", "unix:"+socket+"x", "--once")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "no such file or directory")
	tg.Stop()
}
