package main

import (
	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/catalogue"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "tell what the plugins measure",
		ArgsUsage:   "[PLUGIN|MEASUREMENT...]",
		Description: "Without a name, a line for each measurement; with one, its tags and fields with their types and units.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			all, err := catalogue.All()
			if err != nil {
				return err
			}
			chosen, err := catalogue.Choose(all, c.Args().Slice())
			switch {
			case err != nil:
				return err
			case c.Bool("json"):
				return catalogue.WriteJSON(c.App.Writer, chosen)
			case c.Args().Present():
				return catalogue.WriteLong(c.App.Writer, chosen)
			}
			return catalogue.WriteShort(c.App.Writer, chosen)
		},
	}
}
