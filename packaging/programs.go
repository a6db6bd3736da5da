package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// helper is the program for people. The others are Telegraf's children.
const helper = "telegraf-hpc"

// program is one of ours.
type program struct {
	name   string
	about  string // What it is, in words that follow "is".
	plugin string // The folder of its plugin in the repository; none for the helper.
}

// path is where it is installed. HTCondor has a condor_q of its own: what is not for people stays out of PATH.
func (p program) path() string {
	if p.name == helper {
		return "usr/bin/" + helper
	}
	return "usr/lib/telegraf-hpc/" + p.name
}

// aboutProgram is how the comment of a command begins.
var aboutProgram = regexp.MustCompile(`^Command \S+ (?:is (?:a |an |the )?)?`)

// programs finds the programs that sites install: all of cmd, but for the simulated Lustre, which is for those who develop.
func (p *packager) programs() ([]program, error) {
	mains, err := filepath.Glob(filepath.Join(p.repository, "cmd", "*", "main.go"))
	if err != nil {
		return nil, err
	}
	var all []program
	for _, path := range mains {
		one := program{name: filepath.Base(filepath.Dir(path))}
		if one.name == "lustresim" {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		if source.Doc == nil {
			return nil, fmt.Errorf("%s: the command has no comment", path)
		}
		one.about = strings.TrimSuffix(strings.Join(strings.Fields(aboutProgram.ReplaceAllString(source.Doc.Text(), "")), " "), ".")
		folders, err := filepath.Glob(filepath.Join(p.repository, "plugins", "*", one.name))
		if err != nil {
			return nil, err
		}
		switch {
		case len(folders) == 1:
			one.plugin = folders[0]
		case one.name != helper:
			return nil, fmt.Errorf("%s: %d plugins have the command's name", path, len(folders))
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errors.New("no programs in cmd")
	}
	return all, nil
}

// packagesOf gives the programs as the go command takes them.
func packagesOf(programs []program) []string {
	packages := make([]string, 0, len(programs))
	for _, one := range programs {
		packages = append(packages, "./cmd/"+one.name)
	}
	return packages
}

// build builds the programs for an architecture and gives their folder.
func (p *packager) build(ctx context.Context, arch string, programs []program) (string, error) {
	bin := filepath.Join(p.work, arch, "bin")
	args := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X telegraf-hpc/internal/version.version=" + p.describe, "-o", bin + "/"}
	if _, err := p.goTool(ctx, arch, append(args, packagesOf(programs)...)...); err != nil {
		return "", err
	}
	for _, one := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(bin, one.name))
		if err != nil {
			return "", err
		}
		for _, setting := range info.Settings {
			if setting.Key == "GOARCH" && setting.Value != arch {
				return "", fmt.Errorf("%s was built for %s", one.name, setting.Value)
			}
		}
	}
	return bin, nil
}

// goTool runs the go command for an architecture and gives its standard output. Nothing of the machine it runs on gets into
// what it builds.
func (p *packager) goTool(ctx context.Context, arch string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}
