package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/migrate"
	"telegraf-hpc/internal/roles"
)

func migrateCommand() *cli.Command {
	return &cli.Command{
		Name:      "migrate",
		Usage:     "turn the configuration of another tool into ours",
		ArgsUsage: "FILE... | --from jobharvest|afmetrics -- COMMAND LINE",
		Description: "Reads lagent.conf and lmaster.conf of FrUCToSA, qagent.conf and qmaster.conf of QULo, .jobHarvest.influx, config.json of\n" +
			"tmp-load, or a command line, and says of each setting what became of it. Give all that is of one host at once. With --out\n" +
			"the files are written; without it they are printed, but for secrets.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "the `TOOL` that it is of: " + strings.Join(migrate.Tools(), ", ")},
			&cli.StringSliceFlag{Name: "influx", Usage: ".jobHarvest.influx, besides the command line, as `FILE`"},
			&cli.PathFlag{Name: "out", Usage: "write below `FOLDER`"},
			&cli.BoolFlag{Name: "force", Usage: "overwrite files that are there"},
			&cli.PathFlag{Name: "programs", Value: "/usr/lib/telegraf-hpc", Usage: "`FOLDER` of the programs"},
		},
		Action: runMigrate,
	}
}

func runMigrate(c *cli.Context) error {
	sources, err := migrateSources(c)
	if err != nil {
		return err
	}
	folder := "/etc/telegraf"
	if out := c.Path("out"); out != "" {
		if folder, err = filepath.Abs(out); err != nil {
			return err
		}
	}
	result, err := migrate.Run(sources, migrate.Options{Programs: c.Path("programs"), Configurations: folder})
	if err != nil {
		return err
	}
	if err := result.WriteText(c.App.Writer); err != nil {
		return err
	}
	if c.Path("out") != "" {
		return writeFiles(c.App.Writer, folder, c.Bool("force"), result.Files)
	}
	return printFiles(c.App.Writer, result.Files)
}

func migrateSources(c *cli.Context) (sources []migrate.Source, err error) {
	tool := c.String("from")
	read := func(tool, path string) error {
		text, err := os.ReadFile(path)
		if tool == "" && err == nil {
			tool, err = migrate.ToolOf(path)
		}
		sources = append(sources, migrate.Source{Tool: tool, Name: path, Text: text})
		return err
	}
	for _, path := range c.StringSlice("influx") {
		if err := read("jobharvest-influx", path); err != nil {
			return nil, err
		}
	}
	if migrate.TakesArgs(tool) {
		return append(sources, migrate.Source{Tool: tool, Args: c.Args().Slice()}), nil
	}
	for _, path := range c.Args().Slice() {
		if err := read(tool, path); err != nil {
			return nil, err
		}
	}
	if len(sources) == 0 {
		return nil, errors.New("migrate: no file was given: see telegraf-hpc migrate --help")
	}
	return sources, nil
}

// printFiles prints files, each below its name. What is in the environment file is secret.
func printFiles(w io.Writer, files []roles.File) error {
	for _, f := range files {
		text := f.Text
		if strings.HasSuffix(f.Name, ".env") {
			text = "(secrets: --out writes them)\n"
		}
		if _, err := fmt.Fprintf(w, "\n==> %s <==\n%s", f.Name, text); err != nil {
			return err
		}
	}
	return nil
}
