package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/dashboards"
	"telegraf-hpc/internal/roles"
)

func dashboardsCommand() *cli.Command {
	return &cli.Command{
		Name:  "dashboards",
		Usage: "write Grafana's dashboards, alert rules and provisioning",
		Description: "Writes, below a folder, dashboards/ and provisioning/ for a Grafana: of all hosts and any data source, or of those\n" +
			"that are named. dashboards/README.md of the sources tells where Grafana wants them.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "store", Value: string(dashboards.InfluxQL), Usage: "`STORE` that metrics are in: " + strings.Join(dashboards.Stores(), ", ")},
			&cli.PathFlag{Name: "out", Required: true, Usage: "write below `FOLDER`"},
			&cli.StringFlag{Name: "data-source", Usage: "`UID` of a data source that Grafana has; without it one is provisioned"},
			&cli.StringFlag{Name: "url", Usage: "`URL` of the store, for that data source"},
			&cli.StringFlag{Name: "database", Usage: "`NAME` of InfluxDB's database"},
			&cli.StringSliceFlag{Name: "host", Usage: "offer this `HOST` to choose, and no other; may be given again"},
			&cli.PathFlag{Name: "folder", Usage: "`FOLDER` in which Grafana will find the dashboards on its host"},
			&cli.BoolFlag{Name: "force", Usage: "overwrite files that are there"},
		},
		Action: runDashboards,
	}
}

func runDashboards(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	made, err := dashboards.Files(dashboards.Request{
		Store: dashboards.Store(c.String("store")), DataSource: c.String("data-source"), Hosts: c.StringSlice("host"),
		URL: c.String("url"), Database: c.String("database"), Folder: c.Path("folder"),
	})
	if err != nil {
		return fmt.Errorf("dashboards: %w", err)
	}
	files := make([]roles.File, len(made))
	for i, f := range made {
		files[i] = roles.File(f)
	}
	folder, err := filepath.Abs(c.Path("out"))
	if err != nil {
		return err
	}
	// Grafana runs as a user of its own, and there is no secret in them.
	return write(c.App.Writer, &roles.Writer{Folder: folder, Force: c.Bool("force"), GID: -1, Mode: 0o644}, files)
}
