//go:build soak

package lustre

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTotals for SOAKTIME, with everything that can happen at random.
func TestTotalsSoak(t *testing.T) {
	t.Parallel()
	period, err := time.ParseDuration(os.Getenv("SOAKTIME"))
	require.NoError(t, err, "SOAKTIME")
	s := newSite(t, time.Second, 3)
	s.simulate("--era", "2.15", "--osts", "2", "--mdts", "1", "--jobs", "60", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	s.start()
	happened := make(map[string]int)
	for end := time.Now().Add(period); time.Now().Before(end); {
		s.pass(rand.N(5 * time.Second))
		what := []string{"plugin killed", "plugin killed twice", "telegraf killed", "telegraf restarted", "cleared", "remounted"}[rand.IntN(6)]
		happened[what]++
		switch what {
		case "plugin killed":
			s.kill()
		case "plugin killed twice":
			s.kill()
			time.Sleep(rand.N(time.Second)) // It begins, reads, writes its state, emits: one is to be killed at each of these.
			s.kill()
		case "telegraf killed":
			s.restart(syscall.SIGKILL)
		case "telegraf restarted":
			s.restart(syscall.SIGTERM)
		case "cleared":
			s.pass(0) // What a plugin emitted that was killed is emitted again only while it is in the files.
			s.reset(syscall.SIGUSR1)
		case "remounted":
			s.pass(0)
			s.reset(syscall.SIGUSR2)
		}
	}
	t.Log(happened)
	want := s.finish()
	s.check(want.totals(byTarget), "target")
	requireRestarts(t, want)
}
