package slurm_load

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
)

func TestClassOf(t *testing.T) {
	for _, test := range []struct {
		state slurm.NodeState
		used  int64
		class string
	}{
		{slurm.NodeState{Base: "IDLE"}, 0, "idle"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"PLANNED"}}, 0, "idle"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD", "POWERED_DOWN"}}, 0, "idle"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"RESERVED"}}, 0, "reserved"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"MAINTENANCE", "RESERVED"}}, 0, "maintenance"},
		{slurm.NodeState{Base: "MIXED", Flags: []string{"RESERVED"}}, 3, "mixed"},
		{slurm.NodeState{Base: "ALLOCATED"}, 64, "allocated"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"DRAIN"}}, 0, "drained"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"COMPLETING", "DRAIN"}}, 0, "draining"},
		{slurm.NodeState{Base: "MIXED", Flags: []string{"DRAIN"}}, 3, "draining"},
		{slurm.NodeState{Base: "DOWN", Flags: []string{"NOT_RESPONDING"}}, 0, "down"},
		{slurm.NodeState{Base: "DOWN", Flags: []string{"DRAIN"}}, 0, "down"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"NOT_RESPONDING"}}, 0, "idle"},
		{slurm.NodeState{Base: "IDLE", Flags: []string{"INVALID_REG"}}, 0, "down"},
		{slurm.NodeState{Base: "UNKNOWN", Flags: []string{"NOT_RESPONDING"}}, 0, "other"},
	} {
		t.Run(fmt.Sprint(test.state), func(t *testing.T) {
			require.Equal(t, test.class, classOf(&slurm.Node{State: test.state, CPUsUsed: test.used}).String())
		})
	}
}

func TestCapacity(t *testing.T) {
	var c capacity
	c.add(64, 64, 22, true)
	c.add(64, 62, 0, true)  // Two are set aside for the system.
	c.add(64, 64, 8, false) // It is being drained.
	c.add(16, 16, 20, true) // It has more jobs than CPUs.
	require.Equal(t, capacity{total: 208, allocated: 22 + 8 + 16, idle: 42 + 62, other: 2 + 56}, c)
	require.Equal(t, c.total, c.allocated+c.idle+c.other)
}

func TestGPUUses(t *testing.T) {
	node := func(base string, flags ...string) slurm.Node {
		return slurm.Node{
			State: slurm.NodeState{Base: base, Flags: flags}, CPUs: 64, CPUsUsable: 64, CPUsUsed: 2, Memory: 512 << 30,
			MemoryUsed: 20 << 30, GPUs: []slurm.GPUs{{Type: "a100", Count: 4}}, GPUsUsed: []slurm.GPUs{{Type: "a100", Count: 1}},
		}
	}
	change := func(n slurm.Node, f func(n *slurm.Node)) slurm.Node {
		f(&n)
		return n
	}
	for _, test := range []struct {
		name string
		node slurm.Node
		want []gpuUse
	}{
		{"usable", node("MIXED"), []gpuUse{{kind: "a100", total: 4, used: 1, usable: 3}}},
		{"planned", node("MIXED", "PLANNED"), []gpuUse{{kind: "a100", total: 4, used: 1, usable: 3}}},
		{"no CPU left", change(node("ALLOCATED"), func(n *slurm.Node) { n.CPUsUsed = 64 }),
			[]gpuUse{{kind: "a100", total: 4, used: 1, noCPU: 3}}},
		{"one CPU left of those that are not set aside", change(node("MIXED"), func(n *slurm.Node) { n.CPUsUsed, n.CPUsUsable = 59, 60 }),
			[]gpuUse{{kind: "a100", total: 4, used: 1, noCPU: 2, usable: 1}}},
		{"memory for two", change(node("MIXED"), func(n *slurm.Node) { n.MemoryUsed, n.MemorySpec = 509<<30, 1<<30 }),
			[]gpuUse{{kind: "a100", total: 4, used: 1, noMemory: 1, usable: 2}}},
		{"reserved", node("MIXED", "RESERVED"), []gpuUse{{kind: "a100", total: 4, used: 1, reserved: 3}}},
		{"maintenance", node("IDLE", "MAINTENANCE"), []gpuUse{{kind: "a100", total: 4, used: 1, reserved: 3}}},
		{"draining", node("MIXED", "DRAIN"), []gpuUse{{kind: "a100", total: 4, used: 1, drained: 3}}},
		{"down", node("DOWN"), []gpuUse{{kind: "a100", total: 4, used: 1, down: 3}}},
		{"two kinds share the CPUs that are left", change(node("MIXED"), func(n *slurm.Node) {
			n.GPUs = []slurm.GPUs{{Type: "h100", Count: 2}, {Type: "l40s", Count: 2}}
			n.GPUsUsed = []slurm.GPUs{{Type: "h100", Count: 1}}
			n.CPUsUsed = 62
		}), []gpuUse{{kind: "h100", total: 2, used: 1, usable: 1}, {kind: "l40s", total: 2, usable: 1, noCPU: 1}}},
		{"those in use have no type", change(node("MIXED"), func(n *slurm.Node) {
			n.GPUs = []slurm.GPUs{{Type: "h100", Count: 2}, {Type: "l40s", Count: 2}}
			n.GPUsUsed = []slurm.GPUs{{Count: 3}}
		}), []gpuUse{{kind: "h100", total: 2, used: 2}, {kind: "l40s", total: 2, used: 1, usable: 1}}},
		{"more in use than there are", change(node("MIXED"), func(n *slurm.Node) { n.GPUsUsed[0].Count = 9 }),
			[]gpuUse{{kind: "a100", total: 4, used: 4}}},
		{"none", slurm.Node{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			uses := gpuUses(&test.node, classOf(&test.node), 1, 1<<30)
			require.Equal(t, test.want, uses)
			for _, g := range uses {
				require.Equal(t, g.total, g.used+g.usable+g.noCPU+g.noMemory+g.reserved+g.drained+g.down)
			}
		})
	}
}

func TestClassifyReason(t *testing.T) {
	for text, want := range map[string]reasonClass{
		"":                                      "none",
		"  ":                                    "none",
		"Not responding":                        "not_responding",
		"Node unexpectedly rebooted":            "reboot",
		"Kill task failed":                      "kill_failed",
		"Prolog error":                          "prolog_epilog",
		"Low RealMemory (reported:1 < 100.00%)": "configuration",
		"gres/gpu count reported lower than configured (3 < 4)": "configuration",
		"GPU 3 ECC errors, see ticket #42 | pipe":               "gpu",
		"bad dimm":                  "memory",
		"psu":                       "power",
		"ib0 flapping":              "network",
		"NHC: check_fs_mount /home": "filesystem",
		"smart errors":              "disk",
		"kernel upgrade":            "maintenance",
		"library broke":             "other",
		`quote "x" é`:               "other",
	} {
		t.Run(text, func(t *testing.T) { require.Equal(t, want, classifyReason(text)) })
	}
}

// Jobs start at random, dumps are taken a little after slurmctld was asked for its clock, jobs vanish some time after
// their end, and the plugin is restarted: each wait is counted once.
func TestWaitsAreCountedOnce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := new(waits)
		w.init([]int64{60, 300})
		var jobs []slurm.Job
		var before, after int64 // Jobs that started before the first dump and since.
		for now := int64(1000); now < 3000; now++ {
			for range random.IntN(3) {
				jobs = append(jobs, slurm.Job{
					ID: int64(len(jobs) + 1), State: "RUNNING", Tasks: 1, Start: now, Eligible: now - random.Int64N(600), NodeList: "n1",
					End: now + random.Int64N(400),
				})
			}
			if now%30 != 0 {
				continue
			}
			asked := now - random.Int64N(3) // Some started in between.
			tally := newWaitTally(asked, w)
			for i := range jobs {
				if j := &jobs[i]; now < j.End+300 {
					tally.add(j, slurm.JobRunning)
				}
			}
			if random.IntN(10) == 0 {
				continue // The dump was not sound, or the plugin died before it saved.
			}
			if w.since == 0 {
				before = int64(len(jobs))
			}
			tally.commit()
			after = int64(len(jobs))
		}
		var counted int64
		for _, h := range w.started {
			for _, n := range h.Counts {
				counted += n
			}
		}
		require.Equal(t, after-before, counted, "seed %d", seed)
	}
}

// What is started by a job that never started is nothing.
func TestWaitsOfJobsThatNeverStarted(t *testing.T) {
	w := new(waits)
	w.init([]int64{60})
	first := newWaitTally(1000, w)
	first.commit()
	tally := newWaitTally(1030, w)
	for _, j := range []slurm.Job{
		{ID: 1, State: "CANCELLED", Tasks: 1, Eligible: 900, Start: 1010, End: 1010},                   // Cancelled while it was pending.
		{ID: 2, State: "RUNNING", Tasks: 1, Start: 1010, NodeList: "n1"},                               // Nobody knows since when it waited.
		{ID: 3, State: "COMPLETED", Tasks: 1, Eligible: 900, Start: 1010, End: 1011, NodeList: "n1"},   // Short.
		{ID: 4, State: "PENDING", Tasks: 7, Eligible: 1000},                                            // An array.
		{ID: 5, State: "PENDING", Tasks: 7, Eligible: 5000},                                            // --begin.
		{ID: 6, State: "PENDING", Tasks: 7},                                                            // Held.
		{ID: 7, State: "RUNNING", Tasks: 1, Eligible: 900, Start: 999, NodeList: "n1", Account: "old"}, // Before the first dump.
	} {
		tally.add(&j, map[slurm.JobState]slurm.JobClass{
			"CANCELLED": slurm.JobFinished, "COMPLETED": slurm.JobFinished, "RUNNING": slurm.JobRunning, "PENDING": slurm.JobPending,
		}[j.State])
	}
	require.Equal(t, []waitKey{{}}, tally.commit())
	require.Equal(t, map[waitKey]*histogram{{}: {Histogram: series.Histogram{Counts: []int64{0, 1}, Sum: 110}}}, w.started)
	require.Equal(t, map[waitKey]*histogram{{}: {Histogram: series.Histogram{Counts: []int64{7, 0}, Sum: 210}}}, tally.pending)
}

// Runs end at random, slurmdbd learns of them late, is down for a while, and the plugin dies before or after it saved:
// each run is counted once, and its row emitted at least once.
func TestEndsAreCountedOnce(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		type record struct {
			slurm.Finished
			known int64 // when slurmdbd knows it
		}
		var records []record
		e := &ends{Cursor: 1000, Counted: make(map[ended]seen), Totals: make(map[endKey]*endSum)}
		emitted := make(map[int64]int)
		var backlog int64 // Until when slurmdbd is down.
		for now := int64(1000); now < 12000; now += 60 {
			if now < 8000 && random.IntN(40) == 0 {
				backlog = max(backlog, now+random.Int64N(3000))
			}
			for range random.IntN(4) {
				if now > 8000 {
					break
				}
				r := record{known: now + random.Int64N(300)}
				r.Tasks = 1
				r.ID, r.Submit, r.Start, r.End, r.State = int64(len(records)+1), now-900, now-500, max(now-random.Int64N(60), 1000), "COMPLETED"
				r.known = max(r.known, backlog)
				records = append(records, r)
			}
			diag := slurm.Diag{Time: now, Values: map[string]int64{"dbd_agent_queue_size": 0}}
			if now <= backlog {
				diag.Values["dbd_agent_queue_size"] = 5
			}
			until := min(now, e.Cursor+finishedWindow)
			var runs []slurm.Finished
			for _, r := range records {
				if r.known <= now && r.End >= e.Cursor && r.End <= until {
					runs = append(runs, r.Finished)
				}
			}
			saved := clone(e)
			e.confirm()
			e.count(runs, false)
			for i := range runs {
				if s, ok := e.Counted[ended{runs[i].ID, runs[i].Submit}]; ok && !s.Emitted {
					emitted[runs[i].ID]++
					e.leaving = append(e.leaving, ended{runs[i].ID, runs[i].Submit})
				}
			}
			e.advance(until, diag)
			switch random.IntN(10) {
			case 0: // It died before it saved.
				e = saved
			case 1: // It died after that: what it knew of its rows is lost.
				e = clone(e)
			}
		}
		require.Len(t, e.Totals, 1)
		for _, sum := range e.Totals {
			require.Equal(t, int64(len(records)), sum.Runs, "seed %d", seed)
		}
		require.Len(t, emitted, len(records), "seed %d", seed)
		require.Less(t, len(e.Counted), 60, "what is counted is forgotten")
	}
}

// clone gives what is read from disk after a restart.
func clone(e *ends) *ends {
	c := &ends{Cursor: e.Cursor, Counted: make(map[ended]seen), Totals: make(map[endKey]*endSum)}
	for id, s := range e.Counted {
		c.Counted[id] = s
	}
	for key, sum := range e.Totals {
		copied := *sum
		c.Totals[key] = &copied
	}
	return c
}
