package testplugin

import (
	"errors"
	"fmt"
	"io"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs"
)

// Commander is an input with the commands say and sing.
type Commander struct {
	Voice string `toml:"voice"`

	initialised bool
}

// SampleConfig is a telegraf.Input's.
func (*Commander) SampleConfig() string { return "[[inputs.test_commander]]\n" }

// Init is a telegraf.Initializer's.
func (c *Commander) Init() error {
	c.initialised = true
	return nil
}

// Gather is a telegraf.Input's.
func (*Commander) Gather(telegraf.Accumulator) error { return nil }

// Commands names both.
func (*Commander) Commands() map[string]string {
	return map[string]string{"say": "say `WORD`, and exit", "sing": "fail, and exit"}
}

// Command says what it was asked for, or fails.
func (c *Commander) Command(w io.Writer, name, argument string) error {
	if name == "sing" {
		return errors.New("it can't sing")
	}
	_, err := fmt.Fprintf(w, "%s %q in a %s voice, initialised: %t\n", name, argument, c.Voice, c.initialised)
	return err
}

// RegisterCommander makes the input known to Telegraf, as the init of a plugin's package does.
func RegisterCommander() {
	inputs.Add("test_commander", func() telegraf.Input { return &Commander{Voice: "low"} })
}
