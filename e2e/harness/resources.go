package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CPUTime gives the CPU time that a process has used, without its children's (proc(5): utime and stime in 1/100 s).
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	fields := stat(t, pid)
	user, err := strconv.Atoi(fields[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// stat gives what /proc/PID/stat has behind the name of the process: the state first.
func stat(t testing.TB, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// Memory gives a line of /proc/PID/status in bytes, such as VmRSS, what is resident now, or VmHWM, what was at most.
func Memory(t testing.TB, pid int, line string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), line+":")
	require.True(t, found, "%s of process %d", line, pid)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib << 10
}
