package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"telegraf-hpc/internal/doctor"
	"telegraf-hpc/internal/roles"
	"telegraf-hpc/internal/version"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "write the configuration of a host by its roles",
		Description: "Prints the file for telegraf.d, from what the host has (see doctor); with --plugin, the file of one of the programs that\n" +
			"it runs; with --out, writes all of them below a folder, such as /etc/telegraf.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "role", Required: true, Usage: "`ROLE` of the host: " + strings.Join(roles.Names(), ", ") + "; may be given again"},
			&cli.StringSliceFlag{Name: "output", Usage: "where metrics go: `NAME[=ADDRESS]` of file, influxdb, influxdb_v2, graphite, af_https, heartbeat"},
			&cli.StringFlag{Name: "central", Usage: "`URL` of the central Telegraf, which sums over file servers and knows the jobs"},
			&cli.StringFlag{Name: "plugin", Usage: "print the configuration of the program `NAME`"},
			&cli.PathFlag{Name: "out", Usage: "write below `FOLDER`"},
			&cli.PathFlag{Name: "certificate", Usage: "`FILE` with the certificate of a central host"},
			&cli.PathFlag{Name: "key", Usage: "`FILE` with its key"},
			&cli.BoolFlag{Name: "force", Usage: "overwrite files that are there"},
			&cli.PathFlag{Name: "programs", Value: "/usr/lib/telegraf-hpc", Usage: "`FOLDER` of the programs"},
			rootFlag(),
		},
		Action: runConfig,
	}
}

func runConfig(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	folder := "/etc/telegraf"
	if out := c.Path("out"); out != "" {
		var err error
		if folder, err = filepath.Abs(out); err != nil {
			return err
		}
		if c.String("plugin") != "" {
			return errors.New("--plugin prints one file, --out writes all: choose one")
		}
	}
	report := doctor.NewHost(c.Path("root"), version.String()).Examine(c.Context)
	result, err := roles.Make(roles.Request{
		Roles: c.StringSlice("role"), Facts: report.Facts, Outputs: c.StringSlice("output"), Central: c.String("central"),
		Certificate: c.Path("certificate"), Key: c.Path("key"),
		Programs: c.Path("programs"), Configurations: folder,
	})
	if err != nil {
		return err
	}
	if c.Path("out") != "" {
		err = writeFiles(c.App.Writer, folder, c.Bool("force"), result.Files)
	} else {
		err = printFile(c.App.Writer, result.Files, c.String("plugin"))
	}
	if err != nil {
		return err
	}
	if c.Path("out") != "" {
		others, err := beside(folder, result.Files[0].Name)
		if err != nil {
			return err
		}
		for _, other := range others {
			result.Notes = append(result.Notes, other+" is read as well: telegraf-hpc doctor tells what stands in both")
		}
	}
	for _, note := range result.Notes {
		fmt.Fprintln(c.App.ErrWriter, "telegraf-hpc:", note)
	}
	return nil
}

// beside gives the files that Telegraf reads besides one: its own, and what config has written before.
func beside(folder, name string) (others []string, err error) {
	for _, pattern := range []string{"telegraf.conf", "telegraf.d/hpc-*.conf"} {
		found, err := fs.Glob(os.DirFS(folder), pattern)
		if err != nil {
			return nil, err
		}
		for _, other := range found {
			if other != name {
				others = append(others, filepath.Join(folder, other))
			}
		}
	}
	return others, nil
}

// writeFiles writes files below a folder and tells of each.
func writeFiles(w io.Writer, folder string, force bool, files []roles.File) error {
	return write(w, &roles.Writer{Folder: folder, Force: force, GID: telegrafGroup()}, files)
}

func write(w io.Writer, writer *roles.Writer, files []roles.File) error {
	written, err := writer.Write(files)
	for _, name := range written {
		fmt.Fprintln(w, "wrote", name)
	}
	if err == nil && len(written) == 0 {
		fmt.Fprintln(w, "everything is there already")
	}
	return err
}

// telegrafGroup gives the group that may read Telegraf's configurations, where root writes them and there is one.
func telegrafGroup() int {
	if os.Geteuid() != 0 {
		return -1
	}
	group, err := user.LookupGroup("telegraf")
	if err != nil {
		return -1
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		return -1
	}
	return gid
}

// printFile prints the file for Telegraf, or the one of a program.
func printFile(w io.Writer, files []roles.File, program string) error {
	name := files[0].Name
	if program != "" {
		name = program + ".conf"
	}
	for _, f := range files {
		if f.Name == name {
			_, err := io.WriteString(w, f.Text)
			return err
		}
	}
	return fmt.Errorf("this role runs no program %q", program)
}
