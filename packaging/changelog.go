package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"sigs.k8s.io/yaml"
)

// change is a line of CHANGELOG.md.
var change = regexp.MustCompile(`^- (\[[A-Z]+\] .+)\n$`)

// changelog gives what is new in this version, the first section of CHANGELOG.md, as Debian wants it
// (deb-changelog(5)).
func (p *packager) changelog() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(p.repository, "packaging", "nfpm.yaml"))
	if err != nil {
		return nil, err
	}
	var nfpm struct {
		Maintainer string `json:"maintainer"`
	}
	if err := yaml.Unmarshal(text, &nfpm); err != nil {
		return nil, fmt.Errorf("nfpm.yaml: %w", err)
	}
	changes, err := os.ReadFile(filepath.Join(p.repository, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	var entry bytes.Buffer
	fmt.Fprintf(&entry, "telegraf-hpc (%s) stable; urgency=medium\n\n", p.version)
	sections, found := 0, 0
	for line := range bytes.Lines(changes) {
		if bytes.HasPrefix(line, []byte("## ")) {
			sections++
		}
		if m := change.FindSubmatch(line); m != nil && sections == 1 {
			fmt.Fprintf(&entry, "  * %s\n", m[1])
			found++
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("%s has no change in its first section", filepath.Join(p.repository, "CHANGELOG.md"))
	}
	fmt.Fprintf(&entry, "\n -- %s  %s\n", nfpm.Maintainer, p.time.Format(time.RFC1123Z))
	return entry.Bytes(), nil
}
