//go:generate go test -run TestReadme -update .

// Package lustre_jobstats is a Telegraf input: the exact I/O of every job on this Lustre server, from job_stats.
package lustre_jobstats

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/jobstats"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
)

//go:embed sample.conf
var sampleConfig string

// LustreJobstats reads job_stats of the targets of this server.
type LustreJobstats struct {
	Root           string          `toml:"root"`
	Targets        []string        `toml:"targets"`
	Emit           []string        `toml:"emit"`
	GroupBy        string          `toml:"group_by"`
	Detail         string          `toml:"detail"`
	Refresh        config.Duration `toml:"refresh"`
	RepeatFor      config.Duration `toml:"repeat_for"`
	JobIDName      []string        `toml:"jobid_name"`
	Unmatched      string          `toml:"unmatched"`
	MaxJobs        int             `toml:"max_jobs"`
	Shards         int             `toml:"shards"`
	ForgetAfter    config.Duration `toml:"forget_after"`
	SyncInterval   config.Duration `toml:"sync_interval"`
	StateDirectory string          `toml:"state_directory"`
	MaxParallel    int             `toml:"max_parallel"`
	MaxDuty        float64         `toml:"max_duty"`

	Log telegraf.Logger `toml:"-"`

	now      func() time.Time
	hostname func() (string, error)
	options  jobstats.Options
	tree     tree
	watched  map[string]*watched
	gathered time.Time     // when the gather before was
	interval time.Duration // between the latest two
	said     said.Said
}

func newPlugin() *LustreJobstats {
	return &LustreJobstats{
		Root: "/", Targets: []string{"*"}, Emit: []string{"total"}, GroupBy: "target", Detail: "full",
		Refresh: config.Duration(4 * time.Minute), RepeatFor: config.Duration(24 * time.Hour),
		JobIDName: []string{"%j"}, Unmatched: "keep", MaxJobs: 200000, Shards: 1,
		ForgetAfter: config.Duration(8 * 24 * time.Hour), StateDirectory: "/var/lib/telegraf-hpc/lustre_jobstats",
		MaxParallel: 1, MaxDuty: 0.1, now: time.Now, hostname: os.Hostname,
	}
}

// SampleConfig returns the configuration with every option.
func (*LustreJobstats) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *LustreJobstats) Init() error {
	patterns, err := jobstats.ParseJobIDPatterns(p.JobIDName, p.Unmatched == "sum")
	if err != nil {
		return fmt.Errorf("option jobid_name: %w", err)
	}
	if err := errors.Join(p.checkChoices(), p.checkNumbers()); err != nil {
		return err
	}
	host, err := p.hostname()
	if err != nil {
		return fmt.Errorf("asking for the host's name: %w", err)
	}
	p.tree = tree{root: p.Root}
	p.watched = make(map[string]*watched)
	p.options = jobstats.Options{
		Host: host, Patterns: patterns, MaxJobs: p.MaxJobs, ForgetAfter: time.Duration(p.ForgetAfter),
		Refresh: time.Duration(p.Refresh), SyncInterval: time.Duration(p.SyncInterval),
		Totals: slices.Contains(p.Emit, "total"),
	}
	if slices.Contains(p.Emit, "epoch") {
		p.options.RepeatFor = time.Duration(p.RepeatFor)
	}
	return nil
}

func (p *LustreJobstats) checkChoices() error {
	if len(p.Emit) == 0 {
		return errors.New(`option emit: empty; choose from "total", "epoch"`)
	}
	for _, e := range p.Emit {
		if err := option.Choice("emit", e, "total", "epoch"); err != nil {
			return err
		}
	}
	for _, pattern := range p.Targets {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("option targets: %q: %w", pattern, err)
		}
	}
	return errors.Join(option.Choice("group_by", p.GroupBy, "target", "fs"), option.Choice("detail", p.Detail, "full", "basic"),
		option.Choice("unmatched", p.Unmatched, "keep", "sum"))
}

func (p *LustreJobstats) checkNumbers() error {
	return cmp.Or(
		option.Require("targets", len(p.Targets) > 0, "must name at least one target"),
		option.Require("refresh", p.Refresh > 0, "must be more than 0s"),
		option.Require("repeat_for", p.RepeatFor > 0, "must be more than 0s"),
		option.Require("max_jobs", p.MaxJobs > 0, "must be at least 1"),
		option.Require("shards", p.Shards > 0 && p.Shards <= 1024, "must be from 1 to 1024"),
		option.Require("forget_after", time.Duration(p.ForgetAfter) >= time.Hour, "must be at least 1h"),
		option.Require("sync_interval", p.SyncInterval >= 0, "must not be negative"),
		option.Require("state_directory", p.StateDirectory != "" || !slices.Contains(p.Emit, "total"), `must be set with emit = ["total"]`),
		option.Require("max_parallel", p.MaxParallel > 0, "must be at least 1"),
		option.Require("max_duty", p.MaxDuty > 0 && p.MaxDuty <= 1, "must be more than 0 and at most 1"),
	)
}

// Start opens the state of the targets that have one, since those that are not here now are part of sums, and have
// epochs to be said again. The state of others is opened when they are seen.
func (p *LustreJobstats) Start(telegraf.Accumulator) error { return p.reopen() }

// Stop writes the state and closes it.
func (p *LustreJobstats) Stop() {
	for name, w := range p.watched {
		if w.ledger == nil {
			continue
		}
		if err := w.ledger.Close(); err != nil {
			p.Log.Errorf("Closing the state of target %q: %v", name, err)
		}
		w.ledger = nil
	}
}

// Gather reads the targets there are, a few at once, and emits what is new of them.
func (p *LustreJobstats) Gather(acc telegraf.Accumulator) error {
	now := p.now()
	if p.gathered.Before(now) && !p.gathered.IsZero() {
		p.interval = now.Sub(p.gathered)
	}
	found, errs := p.tree.targets()
	if err := errors.Join(errs...); err != nil {
		p.said.Fail(acc, "targets", err)
	} else {
		p.said.Mend("targets")
	}
	found = slices.DeleteFunc(found, func(t target) bool { return !p.wants(t.name) })
	p.watch(found, len(errs) == 0)
	if len(p.watched) == 0 && len(errs) == 0 {
		p.idle()
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, p.MaxParallel)
	for _, t := range found {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p.gather(acc, p.watched[t.name], now)
		})
	}
	wg.Wait()
	p.away(acc, now)
	p.emitGroups(acc, now)
	p.gathered = now
	return nil
}

func (p *LustreJobstats) wants(name string) bool {
	return slices.ContainsFunc(p.Targets, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// idle says once that there is nothing to do.
func (p *LustreJobstats) idle() {
	what := "no Lustre server on this host"
	if p.tree.installed() {
		what = "this host has Lustre, and no target with job_stats that fits " + fmt.Sprintf("%q", p.Targets)
	}
	if p.said.First("idle", what) {
		p.Log.Infof("Nothing to read below %q: %s; looking again at each gather", filepath.Join(p.Root, "proc/fs/lustre"), what)
	}
}

func init() {
	inputs.Add("lustre_jobstats", func() telegraf.Input { return newPlugin() })
}
