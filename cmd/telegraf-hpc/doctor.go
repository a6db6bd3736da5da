package main

import (
	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/doctor"
	"telegraf-hpc/internal/version"
)

// rootFlag is for tests, and for a host that is mounted somewhere.
func rootFlag() cli.Flag {
	return &cli.PathFlag{Name: "root", Value: "/", Usage: "`FOLDER` below which the host's files are, and its tools in usr/bin"}
}

func doctorCommand(status *int) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "tell what this host has to measure, and what stands in the way",
		Description: "Each finding is OK, a warning or an error, with a command that mends it.\n" +
			"Run it as root: then it may see all that it judges. It changes nothing.\n" +
			"Exit status: 0 all is OK, 1 with warnings, 2 with errors.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.StringFlag{Name: "user", Usage: "the `NAME` that Telegraf runs as; without it, that of its service"},
			rootFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			host := doctor.NewHost(c.Path("root"), version.String())
			host.User = c.String("user")
			report := host.Examine(c.Context)
			*status = int(report.Worst())
			if c.Bool("json") {
				return report.WriteJSON(c.App.Writer)
			}
			return report.WriteText(c.App.Writer)
		},
	}
}
