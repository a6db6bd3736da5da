//go:generate go test -run "TestReadme|TestList" -update .

// Package node_sensors is a Telegraf input: the twenty sensors that psutil has of a machine, by psutil's names and with
// its meaning, and what Slurm's jobs use of it.
//
// It reads /proc and /sys (proc(5), the kernel's Documentation/ABI), asks the kernel for addresses (rtnetlink(7)) and
// nvidia-smi for processes. psutil is at https://psutil.readthedocs.io.
package node_sensors

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
)

//go:embed sample.conf
var sampleConfig string

// NodeSensors measures this machine.
type NodeSensors struct {
	Sensors []string        `toml:"sensors"`
	Root    string          `toml:"root"`
	Timeout config.Duration `toml:"timeout"`
	Options Options         `toml:"sensor"`

	Log telegraf.Logger `toml:"-"`

	now    func() time.Time
	getenv func(string) string
	host   *host
	meters []*meter
	said   said.Said
	errors int64 // Since the start.
}

// meter is a sensor that is on.
type meter struct {
	*sensor
	measure  func(*reading)
	every    time.Duration
	last     time.Time
	troubles map[string]bool // What was not well at the last measurement.
}

func newPlugin() *NodeSensors {
	return &NodeSensors{
		Sensors: sensorNames(true), Timeout: config.Duration(5 * time.Second), Options: newOptions(),
		now: time.Now, getenv: os.Getenv,
	}
}

// SampleConfig returns the configuration with every option.
func (*NodeSensors) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *NodeSensors) Init() error {
	if err := cmp.Or(
		option.Choices("sensors", p.Sensors, sensorNames(false)), option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("root", p.Root == "" || filepath.IsAbs(p.Root), fmt.Sprintf("%q is not an absolute path", p.Root)),
	); err != nil {
		return err
	}
	if err := p.Options.check(time.Duration(p.Timeout)); err != nil {
		return err
	}
	if p.host == nil {
		p.host = newHost(p.Root, p.getenv)
	}
	chosen, _ := named(p.Sensors)
	for _, s := range chosen {
		p.meters = append(p.meters, p.meter(s))
	}
	p.warnOfUnused()
	return nil
}

func (p *NodeSensors) meter(s *sensor) *meter {
	return &meter{
		sensor: s, measure: s.build(p.host, &p.Options), every: p.Options.byName()[s.name].every(), troubles: make(map[string]bool),
	}
}

// warnOfUnused tells of options for sensors that are off: as a rule somebody meant them to be on.
func (p *NodeSensors) warnOfUnused() {
	usual := newOptions()
	for _, s := range catalogue() {
		if !slices.Contains(p.Sensors, s.name) && !slices.Equal(describe(s.options(&p.Options)), describe(s.options(&usual))) {
			p.Log.Warnf("Sensor %s has options, but is off: it is not in the option sensors", s.name)
		}
	}
}

func init() {
	inputs.Add("node_sensors", func() telegraf.Input { return newPlugin() })
}
