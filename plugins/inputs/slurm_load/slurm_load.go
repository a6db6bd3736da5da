//go:generate go test -run TestReadme -update .

// Package slurm_load is a Telegraf input: the load of a Slurm cluster, from Slurm's own commands.
package slurm_load

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
	"telegraf-hpc/internal/series"
	"telegraf-hpc/internal/slurm"
	"telegraf-hpc/internal/users"
)

//go:embed sample.conf
var sampleConfig string

// SlurmLoad asks slurmctld for its load.
type SlurmLoad struct {
	Collect              []string          `toml:"collect"`
	Cluster              string            `toml:"cluster"`
	CommandDirectory     string            `toml:"command_directory"`
	Timeout              config.Duration   `toml:"timeout"`
	MaxOutput            config.Size       `toml:"max_output"`
	OnlyActiveController bool              `toml:"only_active_controller"`
	Users                string            `toml:"users"`
	PseudonymKey         config.Secret     `toml:"pseudonym_key"`
	MaxUsers             int               `toml:"max_users"`
	WaitBuckets          []config.Duration `toml:"wait_buckets"`
	GPUMinCPUs           int64             `toml:"gpu_min_cpus"`
	GPUMinMemory         config.Size       `toml:"gpu_min_memory"`
	RPCUsers             bool              `toml:"rpc_users"`
	Refresh              config.Duration   `toml:"refresh"`
	ReservationInterval  config.Duration   `toml:"reservation_interval"`
	LicenseInterval      config.Duration   `toml:"license_interval"`
	FairshareInterval    config.Duration   `toml:"fairshare_interval"`
	FinishedInterval     config.Duration   `toml:"finished_interval"`
	FinishedLookback     config.Duration   `toml:"finished_lookback"`
	RepeatFor            config.Duration   `toml:"repeat_for"`
	StateDirectory       string            `toml:"state_directory"`

	Log telegraf.Logger `toml:"-"`

	now      func() time.Time
	hostname func() (string, error)
	identity func() (identity, error)
	mark     func() string // ends the rows of one squeue; all can see it in the process list, so each has another
	run      func(ctx context.Context, buffer []byte, name string, args ...string) (command.Result, error)

	client   slurm.Client
	buffers  map[string][]byte // what commands printed at the gather before, to be overwritten
	ctx      context.Context   // ends at Stop, and with it the command that runs
	cancel   context.CancelFunc
	said     said.Said
	users    users.Names
	bounds   []int64 // the upper bounds of wait_buckets in seconds
	site     site
	schedule map[string]time.Time // when a group with an interval of its own was last asked for
	self     self
	queue    queue
	jobs     jobRows
	repeats  []finishedRow
	state    state
}

// groups are the values of option collect; those that are asked for unless another choice is made come first.
func groups() (usual, others []string) {
	return []string{
		"cluster", "partition", "node_problem", "queue", "pending", "wait", "gpu", "scheduler", "reservation", "license",
		"finished_total",
	}, []string{"node", "fairshare", "job", "finished"}
}

func newPlugin() *SlurmLoad {
	usual, _ := groups()
	return &SlurmLoad{
		Collect: usual, Timeout: config.Duration(10 * time.Second), MaxOutput: 512 << 20, Users: "name", MaxUsers: 1000,
		WaitBuckets: series.Hours[config.Duration](1./60, 5./60, .25, 1, 4, 12, 24, 72, 168), GPUMinCPUs: 1, GPUMinMemory: 1 << 30,
		Refresh: config.Duration(4 * time.Minute), ReservationInterval: config.Duration(time.Minute),
		LicenseInterval: config.Duration(time.Minute), FairshareInterval: config.Duration(5 * time.Minute),
		FinishedInterval: config.Duration(time.Minute), FinishedLookback: config.Duration(24 * time.Hour),
		StateDirectory: "/var/lib/telegraf-hpc/slurm_load", now: time.Now, hostname: os.Hostname, identity: processIdentity,
		mark: func() string { return rand.Text()[:8] },
	}
}

// SampleConfig returns the configuration with every option.
func (*SlurmLoad) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *SlurmLoad) Init() error {
	if err := errors.Join(p.checkCollect(), p.checkNumbers(), p.checkBuckets()); err != nil {
		return err
	}
	var err error
	if p.users, err = users.New(p.Users, &p.PseudonymKey); err != nil {
		return err
	}
	if p.run == nil {
		runner := &command.Runner{
			Timeout: time.Duration(p.Timeout), MaxOutput: int(p.MaxOutput), Folder: p.CommandDirectory,
			Env: slurm.Environment(os.Environ()),
		}
		p.run = runner.RunInto
	}
	p.client = slurm.Client{Run: p.ask}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.schedule = make(map[string]time.Time)
	p.buffers = make(map[string][]byte)
	p.queue.init(p.bounds)
	return nil
}

func (p *SlurmLoad) checkCollect() error {
	usual, others := groups()
	return option.Choices("collect", p.Collect, slices.Concat(usual, others))
}

func (p *SlurmLoad) checkNumbers() error {
	return cmp.Or(
		option.Require("command_directory", p.CommandDirectory == "" || filepath.IsAbs(p.CommandDirectory), "must be an absolute path"),
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("max_output", p.MaxOutput >= 1<<20, "must be at least 1MiB"),
		option.Require("max_users", p.MaxUsers > 0, "must be at least 1"),
		option.Require("gpu_min_cpus", p.GPUMinCPUs >= 0, "must not be negative"),
		option.Require("gpu_min_memory", p.GPUMinMemory >= 0, "must not be negative"),
		option.Require("refresh", p.Refresh > 0, "must be more than 0s"),
		option.Require("reservation_interval", p.ReservationInterval >= 0, "must not be negative"),
		option.Require("license_interval", p.LicenseInterval >= 0, "must not be negative"),
		option.Require("fairshare_interval", p.FairshareInterval >= 0, "must not be negative"),
		option.Require("finished_interval", p.FinishedInterval >= 0, "must not be negative"),
		option.Require("repeat_for", p.RepeatFor >= 0, "must not be negative"),
		option.Require("finished_lookback", time.Duration(p.FinishedLookback) >= time.Hour, "must be at least 1h"),
	)
}

func (p *SlurmLoad) checkBuckets() (err error) {
	if p.bounds, err = series.Bounds(p.WaitBuckets); err != nil {
		return fmt.Errorf("option wait_buckets: %w", err)
	}
	return nil
}

// collects tells whether one of the groups is asked for.
func (p *SlurmLoad) collects(groups ...string) bool {
	return slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(p.Collect, group) })
}

// Start is there for Stop.
func (*SlurmLoad) Start(telegraf.Accumulator) error { return nil }

// Stop ends the command that runs, and lets go of the state.
func (p *SlurmLoad) Stop() {
	p.cancel()
	if err := p.state.file.Close(); err != nil {
		p.Log.Errorf("Closing the state: %v", err)
	}
}

func init() {
	inputs.Add("slurm_load", func() telegraf.Input { return newPlugin() })
}
