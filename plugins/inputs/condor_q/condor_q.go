//go:generate go test -run TestReadme -update .

// Package condor_q is a Telegraf input: the queues, slots and finished jobs of HTCondor pools, from HTCondor's own
// commands.
package condor_q

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/users"
)

//go:embed sample.conf
var sampleConfig string

// CondorQ asks HTCondor's schedds, collectors and negotiators.
type CondorQ struct {
	Collect            []string          `toml:"collect"`
	Pools              []string          `toml:"pools"`
	Schedds            []string          `toml:"schedds"`
	Queues             []Queue           `toml:"queue"`
	CommandDirectory   string            `toml:"command_directory"`
	Timeout            config.Duration   `toml:"timeout"`
	HistoryTimeout     config.Duration   `toml:"history_timeout"`
	MaxOutput          config.Size       `toml:"max_output"`
	MaxParallel        int               `toml:"max_parallel"`
	Users              string            `toml:"users"`
	PseudonymKey       config.Secret     `toml:"pseudonym_key"`
	MaxUsers           int               `toml:"max_users"`
	WaitBuckets        []config.Duration `toml:"wait_buckets"`
	Attributes         []string          `toml:"attributes"`
	JobInterval        config.Duration   `toml:"job_interval"`
	PartitionAttribute string            `toml:"partition_attribute"`
	StateDirectory     string            `toml:"state_directory"`

	Log telegraf.Logger `toml:"-"`

	now func() time.Time
	run runFunc

	ctx      context.Context // ends at Stop, and with it the commands that run
	cancel   context.CancelFunc
	said     said.Said
	users    users.Names
	bounds   []int64 // the upper bounds of wait_buckets in seconds
	custom   []customAttribute
	pools    []*pool
	slots    chan struct{} // as many as commands may run at once
	schedule map[string]time.Time

	mu   sync.Mutex
	self self
}

// Queue is a named part of the jobs.
type Queue struct {
	Name       string `toml:"name"`
	Constraint string `toml:"constraint"`
}

// runFunc runs a command and has its output read while it runs. It gives the command's failure before that of reading.
type runFunc func(ctx context.Context, consume func(io.Reader) error, name string, args ...string) (command.Result, error)

// local in option schedds stands for the schedd of this host.
const local = "local"

// groups are the values of option collect; those that are asked for unless another choice is made come first.
func groups() (usual, others []string) {
	return []string{"queue", "wait", "user", "hold", "finished", "slots", "schedd", "negotiator", "userprio"}, []string{"job"}
}

func newPlugin() *CondorQ {
	usual, _ := groups()
	return &CondorQ{
		Collect: usual, Timeout: config.Duration(10 * time.Second), HistoryTimeout: config.Duration(time.Minute),
		MaxOutput: 512 << 20, MaxParallel: 8, Users: "name", MaxUsers: 1000, WaitBuckets: series.Hours[config.Duration](1./60, 5./60, .25, 1, 4, 12, 24, 72, 168),
		JobInterval: config.Duration(5 * time.Minute), StateDirectory: "/var/lib/telegraf-hpc/condor_q", now: time.Now,
	}
}

// SampleConfig returns the configuration with every option.
func (*CondorQ) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *CondorQ) Init() error {
	if err := errors.Join(p.checkCollect(), p.checkQueues(), p.checkNames(), p.checkNumbers(), p.checkBuckets(), p.checkAttributes()); err != nil {
		return err
	}
	var err error
	if p.users, err = users.New(p.Users, &p.PseudonymKey); err != nil {
		return err
	}
	if p.run == nil {
		p.run = newTools(p.CommandDirectory, time.Duration(p.Timeout), time.Duration(p.HistoryTimeout), int(p.MaxOutput)).run
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.schedule = make(map[string]time.Time)
	p.slots = make(chan struct{}, p.MaxParallel)
	addresses := p.Pools
	if len(addresses) == 0 {
		addresses = []string{""} // The one of HTCondor's own configuration.
	}
	for _, address := range addresses {
		p.pools = append(p.pools, &pool{address: address, tag: address, schedds: make(map[string]*schedd)})
	}
	return nil
}

func (p *CondorQ) checkCollect() error {
	usual, others := groups()
	return option.Choices("collect", p.Collect, slices.Concat(usual, others))
}

func (p *CondorQ) checkQueues() error {
	for i, q := range p.Queues {
		if q.Name == "" {
			return fmt.Errorf("option queue %d: has no name", i+1)
		}
		if slices.ContainsFunc(p.Queues[:i], func(other Queue) bool { return other.Name == q.Name }) {
			return fmt.Errorf("option queue: %q is there twice", q.Name)
		}
	}
	if len(p.Queues) == 0 {
		p.Queues = []Queue{{Name: "all"}}
	}
	return nil
}

// checkNames checks the lists of names, which become arguments of commands.
func (p *CondorQ) checkNames() error {
	for _, list := range []struct {
		option string
		names  []string
	}{{"pools", p.Pools}, {"schedds", p.Schedds}} {
		for i, name := range list.names {
			if name == "" || name[0] == '-' {
				return fmt.Errorf("option %s: %q is no name", list.option, name)
			}
			if slices.Contains(list.names[:i], name) {
				return fmt.Errorf("option %s: %q is there twice", list.option, name)
			}
		}
	}
	if slices.Contains(p.Schedds, local) && len(p.Pools) > 0 {
		return fmt.Errorf("option schedds: %q can't be with option pools: this host's schedd is asked in the pool that HTCondor is configured for", local)
	}
	return nil
}

func (p *CondorQ) checkNumbers() error {
	return cmp.Or(
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("history_timeout", p.HistoryTimeout > 0, "must be more than 0s"),
		option.Require("max_output", p.MaxOutput >= 1<<20, "must be at least 1MiB"),
		option.Require("max_parallel", p.MaxParallel > 0, "must be at least 1"),
		option.Require("max_users", p.MaxUsers > 0, "must be at least 1"),
		option.Require("job_interval", p.JobInterval >= 0, "must not be negative"),
	)
}

func (p *CondorQ) checkBuckets() (err error) {
	if p.bounds, err = series.Bounds(p.WaitBuckets); err != nil {
		return fmt.Errorf("option wait_buckets: %w", err)
	}
	return nil
}

func (p *CondorQ) checkAttributes() error {
	for _, item := range p.Attributes {
		c, err := parseCustom(item)
		if err != nil {
			return fmt.Errorf("option attributes: %q: %w", item, err)
		}
		if slices.Contains(jobFields(), c.field) {
			return fmt.Errorf("option attributes: %q: the field %q is there already", item, c.field)
		}
		if slices.ContainsFunc(p.custom, func(other customAttribute) bool { return other.field == c.field }) {
			return fmt.Errorf("option attributes: %q: the field %q is there twice", item, c.field)
		}
		p.custom = append(p.custom, c)
	}
	return nil
}

// collects tells whether one of the groups is asked for.
func (p *CondorQ) collects(groups ...string) bool {
	return slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(p.Collect, group) })
}

// Start is there for Stop.
func (*CondorQ) Start(telegraf.Accumulator) error { return nil }

// Stop ends the commands that run, and lets go of the states.
func (p *CondorQ) Stop() {
	p.cancel()
	for _, pool := range p.pools {
		for _, s := range pool.schedds {
			if err := s.state.Close(); err != nil {
				p.Log.Errorf("Closing the state of schedd %q: %v", s.name, err)
			}
		}
	}
}

func init() {
	inputs.Add("condor_q", func() telegraf.Input { return newPlugin() })
}
