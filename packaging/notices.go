package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licence is how files are named that must come with every copy.
var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-.].*)?$`)

// notices gives the licences and notices of all that is linked into the programs. Most of those licences ask for that.
func (p *packager) notices(ctx context.Context, arch string, programs []program) ([]byte, error) {
	const modules = "{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
	list, err := p.goTool(ctx, arch, append([]string{"list", "-mod=readonly", "-deps", "-f", modules}, packagesOf(programs)...)...)
	if err != nil {
		return nil, err
	}
	root, err := p.goTool(ctx, arch, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(lines)
	lines = append([]string{"Go\t" + strings.TrimSpace(string(root))}, slices.Compact(lines)...)
	var all bytes.Buffer
	for _, line := range lines {
		name, folder, _ := strings.Cut(line, "\t")
		if name == "" {
			continue // A package of Go's own.
		}
		if err := appendLicences(&all, name, folder); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// appendLicences adds the licences in a module's folder.
func appendLicences(all *bytes.Buffer, name, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", name, err)
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !licence.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "==== %s: %s\n\n%s\n\n", name, entry.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s: it may not be given away", name, folder)
	}
	return nil
}
