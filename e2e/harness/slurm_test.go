package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlurm(t *testing.T) { testSlurm(t, "") }

// testSlurm fills a cluster of a suite's Slurm and takes its daemons away from it.
func testSlurm(t *testing.T, suite string) {
	t.Helper()
	begin := time.Now()
	s := StartSlurm(t, SlurmOptions{Suite: suite})
	t.Logf("Slurm %s up in %s", s.Version(), time.Since(begin))
	begin = time.Now()
	jobs := s.Workload()
	t.Logf("%d jobs in %s", len(jobs), time.Since(begin))

	tasks := s.Command("squeue", "--array", "--noheader", "--format=%i", "--jobs="+jobs["many"])
	require.Equal(t, 500, strings.Count(tasks, "\n"))
	node := func(name string) string {
		return s.Command("scontrol", "--details", "--oneliner", "show", "node", name)
	}
	require.Regexp(t, ` GresUsed=gpu:a100:3[ (]`, node("gpu01"))
	require.Regexp(t, ` GresUsed=gpu:(\(null\):)?1[ (]`, node("gpu04"))
	require.Contains(t, node("gpu02"), ` Reason=GPU 3 ECC errors, see ticket #42 | pipe [root@`)
	require.Regexp(t, `(?m)^chem\|bob\|COMPLETED\|0:0$`, s.Command("sacct", "--allusers", "--allocations", "--noheader", "--parsable2",
		"--jobs="+jobs["ok"], "--format=account,user,state,exitcode"))

	before := s.jobs()
	controller, munged := s.Daemon("slurmctld"), s.Daemon("munged")
	controller.Stop()
	require.False(t, s.serves(), "slurmctld has been stopped")
	controller.Start()
	Eventually(t, time.Minute, func() error {
		if now := s.jobs(); fmt.Sprint(now) != fmt.Sprint(before) {
			return fmt.Errorf("%v was %v before slurmctld was stopped", now, before)
		}
		return nil
	})

	controller.Pause()
	require.False(t, s.serves(), "slurmctld is paused")
	controller.Continue()
	munged.Kill()
	require.False(t, s.serves(), "munged has been killed")
	munged.Start()
	require.Contains(t, s.Command("scontrol", "ping"), " is UP")
	controller.Pause()
	controller.Kill()
	s.Daemon("slurmdbd").Stop()
	s.Daemon("slurmdbd").Start()
	controller.Start()
	require.Contains(t, s.Command("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"), "hpc\n")
}

// serves tells whether the cluster answers within a second.
func (s *Slurm) serves() bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	return exec.CommandContext(ctx, filepath.Join(s.Bin, "sinfo")).Run() == nil
}

// Clusters that run at once have nothing to do with each other, and each is what its options say.
func TestSlurmsAtOnce(t *testing.T) {
	t.Run("own nodes", func(t *testing.T) {
		t.Parallel()
		s := StartSlurm(t, SlurmOptions{Configuration: `
NodeName=s[0001-1800] CPUs=64 RealMemory=256000 State=CLOUD
PartitionName=long Nodes=ALL Default=YES State=UP`})
		require.Equal(t, "1800\n", s.Command("sinfo", "--noheader", "--format=%D"))
		job := s.Submit("carol", "--nodes=2", "--wrap=sleep 1000")
		s.WaitState(job, "CONFIGURING")
		require.Equal(t, "1\n", job+"\n")
	})
	t.Run("private", func(t *testing.T) {
		t.Parallel()
		s := StartSlurm(t, SlurmOptions{Extra: "PrivateData=jobs"})
		s.WaitState(s.Submit("alice", "--wrap=sleep 1000"), "RUNNING")
		s.WaitState(s.Submit("bob", "--array=1-3", "--wrap=sleep 1000"), "RUNNING")
		require.Equal(t, "alice\nbob\nbob\nbob\n", s.Command("squeue", "--array", "--noheader", "--format=%u", "--sort=u"))
		require.Equal(t, "alice\n", s.CommandAs("alice", "squeue", "--array", "--noheader", "--format=%u"))
		require.Empty(t, s.CommandAs("nobody", "squeue", "--array", "--noheader", "--format=%u"))
	})
}

// Neither a test that ends nor one that is killed leaves a process behind, whatever its jobs do to stay.
func TestSlurmLeavesNothing(t *testing.T) {
	if os.Getenv("HARNESS_TEST_STAYS") != "" {
		s := StartSlurm(t, SlurmOptions{})
		s.WaitState(s.Submit("alice", "--wrap=trap '' TERM; setsid sleep 10000 & sleep 10000"), "RUNNING")
		space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", s.machine.first))
		require.NoError(t, err)
		t.Log("runs in", space)
		if os.Getenv("HARNESS_TEST_STAYS") == "yes" {
			<-t.Context().Done()
		}
		return
	}
	for name, stays := range map[string]string{"ended": "no", "killed": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSlurmLeavesNothing$", "-test.v")
			cmd.Env = append(os.Environ(), "HARNESS_TEST_STAYS="+stays, "TMPDIR="+t.TempDir())
			var log Buffer
			cmd.Stdout = &log
			require.NoError(t, cmd.Start())
			var space string
			Eventually(t, time.Minute, func() error {
				found := regexp.MustCompile(`runs in (pid:\S+)`).FindStringSubmatch(log.String())
				if found == nil {
					return fmt.Errorf("the other test has written\n%s", log.String())
				}
				space = found[1]
				return nil
			})
			if stays == "no" {
				require.NoError(t, cmd.Wait(), log.String())
				require.Empty(t, within(t, space))
				return
			}
			require.NotEmpty(t, within(t, space))
			require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			require.EqualError(t, cmd.Wait(), "signal: killed")
			Eventually(t, time.Minute, func() error {
				if left := within(t, space); len(left) > 0 {
					return fmt.Errorf("left behind: %q", left)
				}
				return nil
			})
		})
	}
}

// within gives the processes of a namespace of processes.
func within(t *testing.T, space string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	require.NoError(t, err)
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == space { // It may have ended meanwhile.
			name, _ := os.ReadFile(strings.TrimSuffix(link, "ns/pid") + "comm")
			found = append(found, string(name))
		}
	}
	return found
}

func TestMissingPackages(t *testing.T) {
	require.Equal(t, []string{"no-such-package", "nor-this"}, missing(t, []string{"no-such-package", "coreutils", "nor-this"}))
	require.Empty(t, missing(t, []string{"coreutils"}))
}

func TestServicesAreKeptDown(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy-rc.d")
	end := keepServicesDown(t, policy)
	require.EqualError(t, exec.CommandContext(t.Context(), policy, "munge", "start").Run(), "exit status 101")
	keepServicesDown(t, policy)() // To this one it is the machine's own.
	require.FileExists(t, policy)
	end()
	require.NoFileExists(t, policy)
}
