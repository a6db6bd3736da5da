package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/top"
)

func topCommand(stdin, stdout *os.File) *cli.Command {
	return &cli.Command{
		Name:  "top",
		Usage: "show who reads and writes on Lustre now",
		Description: "Without --from it shows what this file server's own job_stats tell. With --from it asks lustre_jobs (its option listen),\n" +
			"which knows all file servers and Slurm. Where there is no terminal it prints one table after the other.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`URL` of lustre_jobs, or unix:PATH of its socket"},
			&cli.StringFlag{Name: "token-file", Usage: "`FILE` with its token; without it, LUSTRE_JOBS_TOKEN of the environment"},
			&cli.StringFlag{Name: "ca", Usage: "`FILE` with the authority of its certificate"},
			&cli.DurationFlag{Name: "interval", Value: 5 * time.Second, Usage: "show it this `often`"},
			&cli.StringFlag{Name: "by", Value: string(top.ByJob), Usage: "a row for each `WHAT`: job or user"},
			&cli.StringFlag{Name: "sort", Value: string(top.SortBytes), Usage: "the `COLUMN` that is sorted by: " + columns()},
			&cli.StringFlag{Name: "filter", Usage: "only rows with this `TEXT` in the job, the user, the account or the file system"},
			&cli.StringSliceFlag{Name: "jobid-name", Value: cli.NewStringSlice("%e.%u", "%j"), Usage: "Lustre's jobid_name as a `PATTERN`; the first that fits counts"},
			&cli.BoolFlag{Name: "once", Usage: "print one table"},
			&cli.IntFlag{Name: "rows", Usage: "print so many `ROWS` of a table; 0 is all"},
			rootFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			screen, err := newScreen(c)
			if err != nil {
				return fmt.Errorf("top: %w", err)
			}
			screen.In, screen.Out = stdin, stdout
			return screen.Run(c.Context)
		},
	}
}

func columns() string {
	all := top.Columns()
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

func newScreen(c *cli.Context) (*top.Screen, error) {
	s := &top.Screen{
		Every: c.Duration("interval"), By: top.Grouping(c.String("by")), Sort: top.Column(c.String("sort")), Filter: c.String("filter"),
		Rows: c.Int("rows"), Once: c.Bool("once"),
	}
	if s.By != top.ByJob && s.By != top.ByUser {
		return nil, fmt.Errorf("--by %s: it is job or user", s.By)
	}
	if !slices.Contains(top.Columns(), s.Sort) {
		return nil, fmt.Errorf("--sort %s: it is one of %s", s.Sort, columns())
	}
	if s.Rows < 0 {
		return nil, errors.New("--rows: want 0 or more")
	}
	if c.String("from") == "" {
		local, err := top.NewLocal(c.Path("root"), c.StringSlice("jobid-name"), time.Now)
		s.Source = local
		return s, err
	}
	token := os.Getenv("LUSTRE_JOBS_TOKEN")
	if path := c.String("token-file"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		token = string(text)
	}
	remote, err := top.NewRemote(c.String("from"), strings.TrimSpace(token), c.String("ca"))
	s.Source = remote
	return s, err
}
