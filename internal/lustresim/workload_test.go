package lustresim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func workload(t testing.TB, change func(*WorkloadConfig)) *Workload {
	t.Helper()
	era, err := EraNamed("2.16")
	require.NoError(t, err)
	c := WorkloadConfig{
		Seed: 1, Era: era, FS: "lustre", OSTs: 4, MDTs: 1, Jobs: 50, Interval: interval, Start: t0,
		Login: 0.2, Odd: 0.2, InFlight: 0.05,
		ClearEvery: 3 * time.Hour, RemountEvery: 4 * time.Hour, FailoverEvery: time.Hour,
		PollMin: 30 * time.Second, PollMax: 500 * time.Second,
	}
	change(&c)
	w, err := NewWorkload(c)
	require.NoError(t, err)
	return w
}

// digest runs a workload and hashes all that its agents read.
func digest(w *Workload, d time.Duration) uint64 {
	h := fnv.New64a()
	var buf []byte
	w.Run(w.Now()+int64(d), func(now int64, s *Server) {
		for _, target := range s.Targets {
			buf, _ = target.Poll(now, buf)
			fmt.Fprintln(h, now, s.Name, target.Name())
			h.Write(buf)
		}
	})
	return h.Sum64()
}

func TestAWorkloadRepeatsItself(t *testing.T) {
	same := func(*WorkloadConfig) {}
	first := digest(workload(t, same), 8*time.Hour)
	require.Equal(t, first, digest(workload(t, same), 8*time.Hour))
	require.NotEqual(t, first, digest(workload(t, func(c *WorkloadConfig) { c.Seed = 2 }), 8*time.Hour))
}

func TestAWorkloadHasAllThatItPromises(t *testing.T) {
	for _, name := range []string{"2.5", "2.12", "2.15.6", "2.17"} {
		t.Run(name, func(t *testing.T) {
			w := workload(t, func(c *WorkloadConfig) { c.Era = eraOf(t, name) })
			warned := map[string]int{}
			w.BeforeReset = func(_ int64, _ *Target, what string) { warned[what]++ }
			ended := map[string]int{}
			moved := map[string]bool{}
			for _, target := range w.Targets() {
				target.OnEnd = func(l EndedLife) { ended[l.Why]++ }
			}
			end := w.Now() + int64(36*time.Hour)
			w.Run(end, func(now int64, s *Server) {
				for _, target := range s.Targets {
					require.Same(t, s, target.server)
					moved[target.Name()+s.Name] = true
					_, shown := target.Poll(now, nil)
					sorted := slices.IsSortedFunc(shown, func(a, b Shown) int { return cmp.Compare(a.Life, b.Life) })
					require.True(t, sorted, "in order of creation")
				}
			})
			require.Equal(t, end, w.Now())
			require.Len(t, moved, 2*len(w.Targets()), "every target was seen on both servers")
			for _, what := range []string{WhyClear, WhyRemount} {
				require.Greater(t, warned[what], 5, what)
			}
			for _, why := range []string{WhyExpired, WhyRemount} {
				require.Greater(t, ended[why], 100, why)
			}
			requireUsersOf(t, w)
		})
	}
}

// requireUsersOf checks that every operation was used, and every sort of id.
func requireUsersOf(t *testing.T, w *Workload) {
	t.Helper()
	used := map[Kind]map[string]bool{OST: {}, MDT: {}}
	sorts := map[string]int{}
	several := 0
	for _, target := range w.Targets() {
		for id, truth := range target.Truth() {
			for op := range truth.Ops {
				used[target.Kind()][op] = true
			}
			switch {
			case id[0] >= '4' && len(id) == 7:
				sorts["batch"]++
			case id[0] >= 'b' && id[0] <= 'v' && id[len(id)-5] == '.':
				sorts["login"]++
			default:
				sorts["odd"]++
			}
			if truth.Lives > 2 {
				several++
			}
		}
	}
	for kind, ops := range used {
		require.Len(t, ops, len(w.cfg.Era.Ops(kind)), "operations of an %s", kind)
	}
	for _, sort := range []string{"batch", "login", "odd"} {
		require.Greater(t, sorts[sort], 5, sort)
	}
	require.Greater(t, several, 20, "jobs of more than two lives")
}

// Without a clear or remount nothing is lost to agents that poll faster than
// the clean-up interval, and with a reading before each nothing is either.
func TestExpiryLosesNothing(t *testing.T) {
	for _, name := range []string{"2.5", "2.14", "2.15.0", "2.17"} {
		for _, resets := range []bool{false, true} {
			w := workload(t, func(c *WorkloadConfig) {
				c.Era, c.InFlight = eraOf(t, name), 0
				if !resets {
					c.ClearEvery, c.RemountEvery, c.FailoverEvery = 0, 0, 0
				}
			})
			w.BeforeReset = func(now int64, target *Target, _ string) { target.Poll(now, nil) }
			digest(w, 16*time.Hour)
			require.Greater(t, w.Lives(), uint64(500))
			for _, target := range w.Targets() {
				for id, j := range target.Truth() {
					require.Zero(t, j.UnreadLives, "%s %s %q", name, target.Name(), id)
				}
			}
		}
	}
}

func TestSkip(t *testing.T) {
	w := workload(t, func(c *WorkloadConfig) { c.ClearEvery, c.RemountEvery, c.FailoverEvery = 0, 0, 0 })
	w.Advance(t0 + int64(time.Hour))
	before := map[string]map[string]JobTruth{}
	for _, target := range w.Targets() {
		before[target.Name()] = target.Truth()
	}
	w.Skip(t0 + int64(3*time.Hour))
	require.Equal(t, t0+int64(3*time.Hour), w.Now())
	for _, target := range w.Targets() {
		require.Equal(t, before[target.Name()], target.Truth())
		target.OnEnd = func(l EndedLife) {
			require.Greater(t, l.Died, t0+int64(3*time.Hour), "nothing happens in the past")
		}
	}
	w.Advance(t0 + int64(4*time.Hour))
	for _, target := range w.Targets() {
		require.NotEqual(t, before[target.Name()], target.Truth())
	}
}

func TestWorkloadConfigErrors(t *testing.T) {
	good := WorkloadConfig{FS: "x", OSTs: 1, Jobs: 1, Interval: interval}
	_, err := NewWorkload(good)
	require.NoError(t, err)
	tests := map[string]func(*WorkloadConfig){
		"0 OSTs and 0 MDTs: want at least one target":  func(c *WorkloadConfig) { c.OSTs = 0 },
		"0 jobs: want at least one":                    func(c *WorkloadConfig) { c.Jobs = 0 },
		"interval 1s: want at least 2s":                func(c *WorkloadConfig) { c.Interval = time.Second },
		"polls every 2s to 1s: want a range":           func(c *WorkloadConfig) { c.PollMin, c.PollMax = 2*time.Second, time.Second },
		"no file system name":                          func(c *WorkloadConfig) { c.FS = "" },
		"1 OSTs and -1 MDTs: want at least one target": func(c *WorkloadConfig) { c.MDTs = -1 },
	}
	for want, change := range tests {
		c := good
		change(&c)
		_, err := NewWorkload(c)
		require.EqualError(t, err, want)
	}
}

// BenchmarkLives is the cost of one entry's life in a busy workload, its
// readings included.
func BenchmarkLives(b *testing.B) {
	for _, name := range []string{"2.12", "2.16"} {
		b.Run(name, func(b *testing.B) {
			era, err := EraNamed(name)
			require.NoError(b, err)
			w := workload(b, func(c *WorkloadConfig) { c.Era, c.Jobs, c.OSTs = era, 2000, 8 })
			b.ReportAllocs()
			var buf []byte
			var text int
			for w.Lives() < uint64(b.N) {
				w.Run(w.Now()+int64(interval), func(now int64, s *Server) {
					for _, target := range s.Targets {
						buf, _ = target.Poll(now, buf)
						text += len(buf)
					}
				})
			}
			b.ReportMetric(float64(text)/float64(b.N), "text-B/op")
		})
	}
}
