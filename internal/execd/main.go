// Package execd runs the one Telegraf plugin that a program was built with as a child of Telegraf, under inputs.execd,
// processors.execd or outputs.execd (https://github.com/influxdata/telegraf/tree/v1.37.2/plugins/inputs/execd and its
// siblings). The program's main is a blank import of the plugin and one call:
//
//	func main() { execd.Main() }
package execd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"

	"telegraf-hpc/internal/version"
)

// What a program exits with.
const (
	exitOK     = 0
	exitFailed = 1 // The configuration is wrong, a start failed, or with -once anything failed.
	exitPanic  = 2
)

// Main runs the plugin that the program's imports have registered, as the command line says, and does not return.
func Main() {
	plugin, err := registered()
	if err != nil {
		fmt.Fprintf(os.Stderr, "E! [%s] %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(exitFailed)
	}
	options, err := parseOptions(os.Args, plugin)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(os.Stdout, options.usage)
		os.Exit(exitOK)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "E! [%s] %v\n", plugin, err)
		os.Exit(exitFailed)
	}
	switch {
	case options.version:
		fmt.Fprintf(os.Stdout, "%s (telegraf-hpc) %s\n", plugin.name, version.String())
		os.Exit(exitOK)
	case options.sampleConfig:
		fmt.Fprint(os.Stdout, strings.TrimRight(plugin.make().SampleConfig(), "\n")+"\n")
		os.Exit(exitOK)
	}
	p := newProgram(plugin, options)
	p.exit(p.run())
}

// options are what the command line says.
type options struct {
	config       string
	check        bool
	once         bool
	sampleConfig bool
	version      bool
	command      string // One of the plugin's own.
	argument     string // The command's, where it has one.
	usage        string
}

func parseOptions(args []string, p plugin) (options, error) {
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.config, "config", "", "read the plugin's tables from `FILE`; without it the plugin runs with its defaults")
	flags.BoolVar(&o.check, "check", false, "load the configuration, initialise the plugin, say OK or what is wrong, and exit")
	flags.BoolVar(&o.once, "once", false, "gather once to standard output and exit, with status 1 if anything failed")
	flags.BoolVar(&o.sampleConfig, "sample-config", false, "print a configuration with all options, and exit")
	flags.BoolVar(&o.version, "version", false, "print the version, and exit")
	addCommands(flags, p, &o)
	err := flags.Parse(args[1:])
	if err == nil && o.command != "" && flags.NArg() > 0 {
		o.argument = flags.Arg(0)
		err = flags.Parse(flags.Args()[1:])
	}

	var usage strings.Builder
	fmt.Fprintf(&usage, "%s runs %s as a child of Telegraf's %s.execd.\n\n", filepath.Base(args[0]), p, p.kind)
	flags.SetOutput(&usage)
	flags.PrintDefaults()
	o.usage = usage.String()

	switch {
	case err != nil:
		return o, err
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.once && p.kind != kindInput:
		return o, fmt.Errorf("-once gathers, and %s is not an input", p)
	}
	return o, nil
}

// run does all but leave the process. It gives the exit status.
func (p *program) run() int {
	if err := p.logs.install(); err != nil {
		p.logs.errorf("redirecting the log: %v", err)
		return exitFailed
	}
	cfg, err := loadConfig(p.options.config, p.plugin)
	if err == nil {
		p.applyLogLevels(cfg)
		p.guard(func() { err = initialise(cfg) })
		if err != nil && p.options.config != "" {
			err = fmt.Errorf("%s: %w", p.options.config, err)
		}
	}
	if err != nil {
		p.logs.errorf("%v", err)
		return exitFailed
	}
	if p.options.check {
		fmt.Fprintf(p.out.file, "OK: %s, %d table(s)\n", p.plugin, len(cfg.Inputs)+len(cfg.Processors)+len(cfg.Outputs))
		return exitOK
	}
	p.watchSignals()
	if p.options.command != "" {
		return p.runCommand(cfg)
	}
	if p.options.once {
		return p.gatherOnce(cfg.Inputs)
	}
	p.watchHangup()
	switch p.plugin.kind {
	case kindInput:
		return p.runInputs(cfg.Inputs)
	case kindProcessor:
		return p.runProcessors(cfg.Processors)
	default:
		return p.runOutputs(cfg.Outputs)
	}
}

func (p *program) applyLogLevels(cfg *config.Config) {
	for _, ri := range cfg.Inputs {
		p.logs.setLevel(ri.LogName(), telegraf.LogLevelFromString(ri.Config.LogLevel))
	}
	for _, rp := range cfg.Processors {
		p.logs.setLevel(rp.LogName(), telegraf.LogLevelFromString(rp.Config.LogLevel))
	}
	for _, ro := range cfg.Outputs {
		p.logs.setLevel(ro.LogName(), telegraf.LogLevelFromString(ro.Config.LogLevel))
	}
}

// initialise calls the Init of every table's plugin. Telegraf's package makes a second instance of each processor, for
// use after aggregators (AggProcessors): those stay untouched, or two would share one state.
func initialise(cfg *config.Config) error {
	for _, ri := range cfg.Inputs {
		if err := ri.Init(); err != nil {
			return fmt.Errorf("initialising %s: %w", ri.LogName(), err)
		}
	}
	for _, rp := range cfg.Processors {
		if err := rp.Init(); err != nil {
			return fmt.Errorf("initialising %s: %w", rp.LogName(), err)
		}
	}
	for _, ro := range cfg.Outputs {
		if err := ro.Init(); err != nil {
			return fmt.Errorf("initialising %s: %w", ro.LogName(), err)
		}
	}
	return nil
}
