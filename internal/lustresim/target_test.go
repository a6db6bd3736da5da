package lustresim

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const interval = 600 * time.Second

// tick is the smallest step of an era's clock.
func tick(e Era) int64 {
	if e.clock == wallSeconds {
		return second
	}
	return 1
}

// newOST makes a target at t0. The clean-up has then just run.
func newOST(e Era) *Target { return NewTarget("lustre", OST, 0, e, interval, t0) }

func touch(t *testing.T, target *Target, now int64, id string) {
	t.Helper()
	require.NoError(t, target.Op(now, id, "punch", 1))
}

func poll(target *Target, now int64) []string {
	_, shown := target.Poll(now, nil)
	ids := make([]string, 0, len(shown))
	for _, s := range shown {
		ids = append(ids, s.JobID+"#"+strconv.FormatUint(s.Life, 10))
	}
	return ids
}

func ids(target *Target) []string {
	list := make([]string, 0, len(target.list))
	for _, e := range target.list {
		list = append(list, e.id+"#"+strconv.FormatUint(e.life, 10))
	}
	return list
}

// each runs a test for the eras from 2.8 on, whose clean-up needs an unknown
// id or a close, or for those before.
func each(t *testing.T, cleanEveryOp bool, test func(t *testing.T, e Era)) {
	t.Helper()
	for _, e := range Eras() {
		if e.cleanEveryOp == cleanEveryOp {
			t.Run(e.Name, func(t *testing.T) { test(t, e) })
		}
	}
}

func TestIdleForExactlyTheIntervalStays(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+tick(e), "b")
		poll(target, t0+int64(interval))
		require.Equal(t, []string{"a#1", "b#2"}, ids(target))

		target = newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+tick(e), "b")
		poll(target, t0+int64(interval)+tick(e))
		require.Equal(t, []string{"b#2"}, ids(target))
	})
}

func TestCleanUpAtMostTwiceAnInterval(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+10*second, "b")
		at := t0 + int64(interval) + second
		poll(target, at)
		require.Equal(t, []string{"b#2"}, ids(target), "the clean-up ran")
		poll(target, at+int64(interval)/2-tick(e))
		require.Equal(t, []string{"b#2"}, ids(target), "half an interval has not passed")
		poll(target, at+int64(interval)/2)
		require.Empty(t, ids(target))
	})
}

func TestTheReadingShowsWhatItsCloseDrops(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		require.Equal(t, []string{"a#1"}, poll(target, t0+3*int64(interval)))
		require.Empty(t, ids(target))
	})
}

func TestUnknownIDCleansUp(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+2*int64(interval), "b")
		require.Equal(t, []string{"b#2"}, ids(target))
	})
}

func TestKnownIDRevivesWithoutCleanUp(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0, "b")
		touch(t, target, t0+100*int64(interval), "a")
		require.Equal(t, []string{"a#1", "b#2"}, ids(target), "nothing cleans up: they live for ever")
		poll(target, t0+100*int64(interval))
		require.Equal(t, []string{"a#1"}, ids(target))
	})
}

func TestPolledIdleEntryLivesForOneAndAHalfIntervals(t *testing.T) {
	each(t, false, func(t *testing.T, e Era) {
		const pollEvery = 7 * second
		longest := int64(0)
		for offset := int64(0); offset < int64(interval); offset += 9 * second {
			target := newOST(e)
			for now := t0; now < t0+offset; now += pollEvery {
				poll(target, now)
			}
			touch(t, target, t0+offset, "a")
			now := t0 + offset
			for target.Len() > 0 {
				now += pollEvery
				poll(target, now)
			}
			idle := now - t0 - offset
			require.Greater(t, idle, int64(interval))
			longest = max(longest, idle)
		}
		require.LessOrEqual(t, longest, int64(interval)*3/2+pollEvery)
		require.Greater(t, longest, int64(interval)*3/2-pollEvery, "the bound is reached")
	})
}

func TestOldErasCleanUpBeforeTheLookup(t *testing.T) {
	each(t, true, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		poll(target, t0+5*int64(interval))
		require.Equal(t, []string{"a#1"}, ids(target), "a reading drops nothing")
		touch(t, target, t0+5*int64(interval), "a")
		require.Equal(t, []string{"a#2"}, ids(target), "it was dropped before it was looked up")
	})
}

func TestOldErasCleanUpOnceAnInterval(t *testing.T) {
	each(t, true, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+int64(interval), "b")
		require.Equal(t, []string{"a#1", "b#2"}, ids(target), "it ran, and exactly an interval of idleness is not over it")
		touch(t, target, t0+2*int64(interval)-second, "b")
		require.Equal(t, []string{"a#1", "b#2"}, ids(target), "an interval has not passed")
		touch(t, target, t0+2*int64(interval), "b")
		require.Equal(t, []string{"b#2"}, ids(target), "idle for two intervals")
	})
}

func TestOldErasCleanUpOnAnyCall(t *testing.T) {
	each(t, true, func(t *testing.T, e Era) {
		target := newOST(e)
		touch(t, target, t0, "a")
		touch(t, target, t0+2*int64(interval), "")
		require.Empty(t, ids(target), "even an operation without an id cleans up")
	})
}

func TestIntervalZeroNeverDrops(t *testing.T) {
	for _, e := range Eras() {
		target := NewTarget("lustre", OST, 0, e, 0, t0)
		touch(t, target, t0, "a")
		touch(t, target, t0+100*int64(interval), "b")
		poll(target, t0+200*int64(interval))
		require.Equal(t, []string{"a#1", "b#2"}, ids(target), e.Name)
	}
}

func TestStoredInterval(t *testing.T) {
	for _, e := range Eras() {
		want := 601 * time.Second
		if e.halved {
			want = 600 * time.Second
		}
		target := NewTarget("lustre", OST, 0, e, 601*time.Second+time.Second/2, t0)
		require.Equal(t, want, target.Interval(), e.Name)
	}
}

func TestWritingTheIntervalCleansUp(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			target := newOST(e)
			touch(t, target, t0, "a")
			touch(t, target, t0+50*second, "b")
			target.SetInterval(t0+100*second, 60*time.Second)
			require.Equal(t, []string{"b#2"}, ids(target))

			// Once more at once: the old eras do it by force.
			touch(t, target, t0+50*second, "b")
			target.SetInterval(t0+101*second, 20*time.Second)
			if e.cleanEveryOp {
				require.Empty(t, ids(target))
			} else {
				require.Equal(t, []string{"b#2"}, ids(target))
			}
			require.Equal(t, []Reset{{t0 + 100*second, WhyInterval}, {t0 + 101*second, WhyInterval}}, target.Resets())
		})
	}
}

func TestClear(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			target := newOST(e)
			touch(t, target, t0, "a")
			touch(t, target, t0+2*int64(interval)-5*second, "a")
			target.newEntry("b", target.clock(t0)).latest = target.clock(t0)
			target.Clear(t0 + 2*int64(interval))
			if e.clearSparesRecent {
				require.Equal(t, []string{"a#1"}, ids(target), "only what has expired")
			} else {
				require.Empty(t, ids(target))
			}
			require.Equal(t, []Reset{{t0 + 2*int64(interval), WhyClear}}, target.Resets())
		})
	}
	require.True(t, eraOf(t, "2.15.0").clearSparesRecent)
	require.True(t, eraOf(t, "2.15.2").clearSparesRecent)
	require.False(t, eraOf(t, "2.15.6").clearSparesRecent)
}

func TestDrop(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			target := newOST(e)
			for _, id := range []string{"a", "b", "c"} {
				touch(t, target, t0, id)
			}
			require.True(t, target.Drop(t0+second, "b"))
			require.False(t, target.Drop(t0+second, "b"))
			require.Equal(t, []string{"a#1", "c#3"}, ids(target))
			touch(t, target, t0+second, "b")
			require.Equal(t, []string{"a#1", "c#3", "b#4"}, ids(target), "it comes back at the end")
			require.Equal(t, []Reset{{t0 + second, WhyDrop}}, target.Resets())
		})
	}
}

func TestRemountFailoverReboot(t *testing.T) {
	era := eraOf(t, "2.15.0")
	a, b := NewServer("a", t0-100*second), NewServer("b", t0-5000*second)
	target := newOST(era)
	a.Attach(t0, target)
	require.Empty(t, target.Resets(), "the first mount is none")
	touch(t, target, t0, "j")
	require.Contains(t, string(target.Text()), "snapshot_time   : 100.000000000 secs")

	a.Failover(t0+second, target, b)
	require.Empty(t, a.Targets)
	require.Equal(t, []*Target{target}, b.Targets)
	require.Equal(t, "job_stats:\n", string(target.Text()))
	touch(t, target, t0+2*second, "j")
	require.Contains(t, string(target.Text()), "snapshot_time   : 5002.000000000 secs")

	b.Reboot(t0 + 3*second)
	touch(t, target, t0+4*second, "j")
	require.Contains(t, string(target.Text()), "start_time      : 1.000000000 secs")
	require.Equal(t, []string{"j#3"}, ids(target))

	target.Remount(t0 + 5*second)
	require.Empty(t, ids(target))
	require.Equal(t, map[string]JobTruth{"j": {
		Ops:    map[string]Count{"punch": {3, 3}},
		Unread: map[string]Count{"punch": {3, 3}}, Lives: 3, UnreadLives: 3,
	}}, target.Truth())
	require.Equal(t, []Reset{
		{t0 + second, WhyRemount}, {t0 + 3*second, WhyRemount}, {t0 + 5*second, WhyRemount},
	}, target.Resets())
}

func TestSkewMovesTheWallClockOnly(t *testing.T) {
	for era, want := range map[string]string{
		"2.12":   "  snapshot_time:   1700000007\n",
		"2.15.0": "snapshot_time   : 86400.000000000 secs",
		"2.16":   "  start_time:      1700000007.000000000 secs",
	} {
		target := newOST(eraOf(t, era))
		s := NewServer("a", t0-86400*second)
		s.Skew = 7 * time.Second
		s.Attach(t0, target)
		touch(t, target, t0, "j")
		require.Contains(t, string(target.Text()), want)
	}
}

func TestIDIsCut(t *testing.T) {
	target := newOST(eraOf(t, "2.16"))
	long := strings.Repeat("x", 31)
	touch(t, target, t0, long+"1")
	touch(t, target, t0, long+"2")
	touch(t, target, t0, "a\x00b")
	touch(t, target, t0, "")
	touch(t, target, t0, "\x00b")
	require.Equal(t, []string{long + "#1", "a#2"}, ids(target))
	require.True(t, target.Drop(t0, long+"3"))
}

func TestUnknownOperation(t *testing.T) {
	target := newOST(eraOf(t, "2.12"))
	require.EqualError(t, target.Op(t0, "j", "open", 1), `lustre-OST0000: no operation "open" on an ost of era 2.12`)
	_, err := target.Begin(t0, "j", "prealloc", 1)
	require.EqualError(t, err, `lustre-OST0000: no operation "prealloc" on an ost of era 2.12`)
	require.Empty(t, target.Truth())
}

func TestInFlightShowsTheSampleFirst(t *testing.T) {
	target := newOST(eraOf(t, "2.16"))
	f, err := target.Begin(t0, "j", "write_bytes", 4096)
	require.NoError(t, err)
	require.Contains(t, string(target.Text()), "  write_bytes:     { samples:           1, unit: bytes, "+
		"min: 9223372036854775807, max:        0, sum:                0, sumsq:                  0, hist: {  } }\n")
	require.Equal(t, map[string]Count{"write_bytes": {1, 0}}, target.Truth()["j"].Ops)
	f.Finish()
	require.Contains(t, string(target.Text()), "  write_bytes:     { samples:           1, unit: bytes, "+
		"min:     4096, max:     4096, sum:             4096, sumsq:           16777216, hist: { 4K: 1 } }\n")
	require.Equal(t, map[string]Count{"write_bytes": {1, 4096}}, target.Truth()["j"].Ops)

	f, err = target.Begin(t0, "", "write_bytes", 1)
	require.NoError(t, err)
	f.Finish() // of nothing
}

func TestTwins(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			target := newOST(e)
			f, err := target.Begin(t0, "j", "punch", 1)
			require.NoError(t, err)
			touch(t, target, t0, "k")
			require.True(t, target.Drop(t0, "j"))
			touch(t, target, t0+second, "j")
			if e.walk == walkPosition {
				require.Equal(t, []string{"j#1", "k#2"}, ids(target), "in a tree what is held is found")
				f.Finish()
				require.Equal(t, []string{"k#2"}, ids(target))
				touch(t, target, t0+second, "j")
				require.Equal(t, []string{"k#2", "j#3"}, ids(target))
				return
			}
			require.Equal(t, []string{"j#1", "k#2", "j#3"}, poll(target, t0+second))
			require.Equal(t, 3, strings.Count(string(target.Text()), "- job_id: "))
			f.Finish()
			require.Equal(t, []string{"k#2", "j#3"}, ids(target))
			require.Equal(t, uint64(2), target.Truth()["j"].Lives)
			require.Equal(t, 2*uint64(1), target.Truth()["j"].Ops["punch"].Samples)
		})
	}
}

func TestInFlightOverARemountIsLost(t *testing.T) {
	target := newOST(eraOf(t, "2.16"))
	f, err := target.Begin(t0, "j", "write_bytes", 4096)
	require.NoError(t, err)
	target.Remount(t0 + second)
	touch(t, target, t0+second, "j")
	f.Finish()
	require.Equal(t, []string{"j#2"}, ids(target))
	require.Equal(t, Count{1, 0}, target.Truth()["j"].Ops["write_bytes"])
}

func TestUnreadAndOnEnd(t *testing.T) {
	target := newOST(eraOf(t, "2.16"))
	var ended []EndedLife
	var totals, read []Count
	target.OnEnd = func(l EndedLife) {
		i := target.opIndex["write_bytes"]
		totals, read = append(totals, l.Total[i]), append(read, l.Read[i])
		l.Total, l.Read = nil, nil
		ended = append(ended, l)
	}
	require.NoError(t, target.Op(t0, "j", "write_bytes", 100))
	poll(target, t0+second)
	require.NoError(t, target.Op(t0+2*second, "j", "write_bytes", 30))
	target.Clear(t0 + 3*second)
	require.Equal(t, []EndedLife{{Life: 1, JobID: "j", Born: t0, LastOp: t0 + 2*second, Died: t0 + 3*second, Why: WhyClear}}, ended)
	require.Equal(t, []Count{{2, 130}}, totals)
	require.Equal(t, []Count{{1, 100}}, read)
	require.Equal(t, map[string]JobTruth{"j": {
		Ops:    map[string]Count{"write_bytes": {2, 130}},
		Unread: map[string]Count{"write_bytes": {1, 30}}, Lives: 1, UnreadLives: 1,
	}}, target.Truth())

	// The next life takes the same memory, and nothing of the last.
	require.NoError(t, target.Op(t0+4*second, "j", "write_bytes", 7))
	require.Contains(t, string(target.Text()), "hist: { 8: 1 } }")
	poll(target, t0+4*second+2*int64(interval))
	require.Equal(t, WhyExpired, ended[1].Why)
	require.Equal(t, []Count{{2, 130}, {1, 7}}, totals)
	require.Equal(t, []Count{{1, 100}, {1, 7}}, read)
	require.Equal(t, uint64(1), target.Truth()["j"].UnreadLives)
	require.NoError(t, target.Op(t0+5*second, "j", "write_bytes", 7))
	target.Clear(t0 + 6*second)
	require.Equal(t, map[string]Count{"write_bytes": {2, 37}}, target.Truth()["j"].Unread, "nothing of the third life was read")
	require.Equal(t, uint64(3), target.Lives())
}

// The truth equals a count that knows nothing of entries.
func TestTruthEqualsANaiveRecount(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			target := newOST(e)
			naive := map[string]map[string]Count{}
			ended := map[string]Count{} // by the ends of lives, of the first counter
			target.OnEnd = func(l EndedLife) {
				c := ended[l.JobID]
				ended[l.JobID] = Count{c.Samples + l.Total[0].Samples, c.Sum + l.Total[0].Sum}
			}
			now := t0
			for range 6000 {
				now += rng.Int64N(20 * second)
				switch rng.IntN(100) {
				case 0:
					target.Clear(now)
				case 1:
					target.Remount(now)
				case 2, 3, 4:
					poll(target, now)
				default:
					id := strconv.Itoa(rng.IntN(200))
					op := target.ops[rng.IntN(len(target.ops))]
					value := rng.Uint64N(1 << 30)
					require.NoError(t, target.Op(now, id, op.Name, value))
					if naive[id] == nil {
						naive[id] = map[string]Count{}
					}
					c := naive[id][op.Name]
					c.Samples++
					if op.HasSum {
						c.Sum += value
					}
					naive[id][op.Name] = c
				}
			}
			truth := target.Truth()
			require.Len(t, truth, len(naive))
			for id, ops := range naive {
				require.Equal(t, ops, truth[id].Ops, id)
			}
			target.Remount(now)
			for id, c := range ended {
				require.Equal(t, naive[id][target.ops[0].Name], c, id)
			}
			require.Greater(t, target.Lives(), uint64(500))
		})
	}
}
