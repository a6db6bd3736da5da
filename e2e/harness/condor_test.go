package harness

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pool runs a job, and what is killed of it comes again.
func TestCondor(t *testing.T) {
	begin := time.Now()
	c := StartCondor(t, CondorOptions{SecondSchedd: true})
	t.Logf("up after %s", time.Since(begin))
	cluster := c.Submit("alice", "executable = /bin/sleep\narguments = 1000\nqueue 2")
	c.WaitJobs(2, "ClusterId == "+cluster+" && JobStatus == 2")
	before := c.Pid("schedd")
	c.Signal("schedd", syscall.SIGKILL)
	require.NotEqual(t, before, c.Pid("schedd"))
	c.WaitJobs(2, "ClusterId == "+cluster)
	require.NotEqual(t, c.Pid("schedd"), c.Pid("second"))
}
