// Command telegraf-hpc helps to install and to run the plugins of telegraf-hpc: it looks at a host, writes configurations,
// takes over those of other tools, and shows who does what on Lustre.
package main

//go:generate go test -count=1 -run "^Test(ConfigOut|List|Documentation)$" . -update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// exitFailed is the exit status where a command could not do what it was asked for.
const exitFailed = 2

// run gives the exit status.
func run(ctx context.Context, args []string, stdin, stdout *os.File, stderr io.Writer) int {
	status := 0
	app := &cli.App{
		Name:           "telegraf-hpc",
		Usage:          "helps to install and to run the plugins of telegraf-hpc",
		Version:        version.String(),
		Writer:         stdout,
		ErrWriter:      stderr,
		Reader:         stdin,
		Commands:       []*cli.Command{doctorCommand(&status), configCommand(), migrateCommand(), dashboardsCommand(), listCommand(), topCommand(stdin, stdout)},
		ExitErrHandler: func(*cli.Context, error) {}, // The status is main's.
		OnUsageError:   usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("there is no command %q: see telegraf-hpc --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = usageError
	}
	err := app.RunContext(ctx, args)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "telegraf-hpc:", err)
		return exitFailed
	}
	return status
}

// usageError keeps a wrong command line to one line.
func usageError(_ *cli.Context, err error, _ bool) error { return err }

// noArguments refuses what stands behind a command that takes nothing.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("%s: unexpected argument %q", c.Command.Name, c.Args().First())
	}
	return nil
}
