package execd

import (
	"flag"
	"fmt"
	"io"

	"github.com/influxdata/telegraf/config"
)

// commander is a plugin that can do other things than run. Each is a flag that may have an argument behind it, such as
// --list [NAME].
type commander interface {
	// Commands gives the help of each flag.
	Commands() map[string]string
	// Command does what a flag asks for, and writes its answer. The plugin is configured and initialised, but not started.
	// Without an argument it is "".
	Command(w io.Writer, name, argument string) error
}

// addCommands adds the flags of a plugin's own.
func addCommands(flags *flag.FlagSet, p plugin, o *options) {
	c, ok := p.make().(commander)
	if !ok {
		return
	}
	for name, help := range c.Commands() {
		flags.BoolFunc(name, help, func(value string) error {
			if o.command != "" {
				return fmt.Errorf("there is -%s already", o.command)
			}
			o.command = name
			if value != "true" {
				o.argument = value
			}
			return nil
		})
	}
}

// runCommand has the first table's plugin do what was asked for.
func (p *program) runCommand(cfg *config.Config) int {
	var plugin any
	switch {
	case len(cfg.Inputs) > 0:
		plugin = cfg.Inputs[0].Input
	case len(cfg.Processors) > 0:
		plugin = cfg.Processors[0].Processor
	default:
		plugin = cfg.Outputs[0].Output
	}
	var err error
	p.guard(func() { err = plugin.(commander).Command(p.out.file, p.options.command, p.options.argument) })
	if err != nil {
		p.logs.errorf("%v", err)
		return exitFailed
	}
	return p.exitStatus()
}
