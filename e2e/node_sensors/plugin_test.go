// Package node_sensors runs node_sensors beside psutil, on real control groups, and under the stock Telegraf with a real
// InfluxDB.
package node_sensors

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// point is a line of line protocol.
type point struct {
	measurement string
	tags        map[string]string
	fields      map[string]any // int64, float64 or string.
}

// parseLine reads a line as our program writes it.
func parseLine(t testing.TB, line string) point {
	t.Helper()
	p := point{tags: make(map[string]string), fields: make(map[string]any)}
	parts := split(line, ' ')
	require.Len(t, parts, 3, line)
	head := split(parts[0], ',')
	unescape := strings.NewReplacer(`\ `, " ", `\,`, ",", `\=`, "=").Replace
	p.measurement = head[0]
	for _, tag := range head[1:] {
		pair := split(tag, '=')
		p.tags[pair[0]] = unescape(pair[1])
	}
	for _, field := range split(parts[1], ',') {
		pair := split(field, '=')
		require.Len(t, pair, 2, line)
		switch value := pair[1]; {
		case value[0] == '"':
			p.fields[pair[0]] = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(value[1 : len(value)-1])
		case strings.HasSuffix(value, "i"):
			n, err := strconv.ParseInt(strings.TrimSuffix(value, "i"), 10, 64)
			require.NoError(t, err, line)
			p.fields[pair[0]] = n
		default:
			n, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err, line)
			p.fields[pair[0]] = n
		}
	}
	return p
}

// split cuts at a character that is neither escaped nor in quotes.
func split(s string, at byte) []string {
	var parts []string
	begin, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == at && !quoted:
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}

// child is a program that answers lines.
type child struct {
	t      testing.TB
	pid    int
	stdin  io.Writer
	lines  chan string
	stderr *harness.Buffer
}

// startChild starts a program; with a setup, which is a shell's, in mounts of its own.
func startChild(t testing.TB, setup string, command ...string) *child {
	t.Helper()
	if setup != "" {
		script := "set -e\n" + setup + "\nexec \"$@\""
		command = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"}, command...)
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr := new(harness.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{t: t, pid: cmd.Process.Pid, stdin: stdin, lines: make(chan string, 10000), stderr: stderr}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.lines)
		reader := bufio.NewReaderSize(stdout, 1<<20)
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-done
		_ = cmd.Wait() // The test is about what it printed.
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(command[0]), stderr)
		}
	})
	return c
}

func (c *child) send(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.stdin, line+"\n")
	require.NoError(c.t, err)
}

// next gives the next line, if one comes within a time.
func (c *child) next(within time.Duration) (string, bool) {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		require.True(c.t, ok, "the program has ended")
		return line, true
	case <-time.After(within):
		return "", false
	}
}

// plugin is our program.
type plugin struct{ *child }

func startPlugin(t testing.TB, setup, configuration string) *plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node_sensors.conf")
	require.NoError(t, os.WriteFile(path, []byte("[[inputs.node_sensors]]\n"+configuration), 0o600))
	return &plugin{startChild(t, setup, program(t), "--config", path)}
}

func program(t testing.TB) string {
	t.Helper()
	return filepath.Join(harness.Build(t, "./cmd/node_sensors"), "node_sensors")
}

// gather gathers once.
func (p *plugin) gather() []point {
	p.t.Helper()
	var points []point
	deadline := time.Now().Add(harness.Patience)
	// A gather ends a moment after its last line; what is asked before is skipped, and asked again.
	time.Sleep(20 * time.Millisecond)
	p.send("")
	for {
		line, ok := p.next(time.Second)
		if !ok {
			require.Less(p.t, time.Now(), deadline, "no answer")
			if len(points) == 0 {
				p.send("")
			}
			continue
		}
		points = append(points, parseLine(p.t, line))
		if strings.HasPrefix(line, "node_sensors_self ") {
			return points
		}
	}
}

// find gives the one row of a measurement with some tags.
func find(t testing.TB, points []point, measurement string, tags ...string) map[string]any {
	t.Helper()
	fields, ok := lookFor(points, measurement, tags...)
	require.True(t, ok, "%s %v", measurement, tags)
	return fields
}

func lookFor(points []point, measurement string, tags ...string) (map[string]any, bool) {
	i := slices.IndexFunc(points, func(p point) bool {
		for i := 0; i < len(tags); i += 2 {
			if p.tags[tags[i]] != tags[i+1] {
				return false
			}
		}
		return p.measurement == measurement
	})
	if i < 0 {
		return nil, false
	}
	return points[i].fields, true
}

// all gives the rows of a measurement.
func all(points []point, measurement string) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.measurement != measurement })
}

// psutil is a Python that answers with psutil.
type psutil struct{ *child }

func startPsutil(t testing.TB, setup string) *psutil {
	t.Helper()
	harness.Packages(t, "python3-psutil")
	script, err := filepath.Abs("testdata/psutil_server.py")
	require.NoError(t, err)
	return &psutil{startChild(t, setup, "/usr/bin/python3", script)} // Debian's: another may not find the package.
}

// ask gives what psutil measures now.
func (p *psutil) ask(what string) map[string]any {
	p.t.Helper()
	p.send(what)
	line, ok := p.next(harness.Patience)
	require.True(p.t, ok, "psutil does not answer")
	var answer map[string]any
	require.NoError(p.t, json.Unmarshal([]byte(line), &answer))
	return answer
}

// floatOf gives a number of ours or of psutil's.
func floatOf(t testing.TB, value any) float64 {
	t.Helper()
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		require.Fail(t, "no number", "%v (%T)", value, value)
		return 0
	}
}

// testcase gives a folder of the plugin's own test cases.
func testcase(t testing.TB, path string) string {
	t.Helper()
	root, err := stock.Repository()
	require.NoError(t, err)
	return filepath.Join(root, "plugins/inputs/node_sensors/testcases", path)
}
