// Packaging builds what a site installs: a deb, an rpm and a tar.gz for each architecture, with a list of all that is in
// them (SBOM) and checksums. From one commit it builds the same bytes, wherever and whenever it runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var p packager
	flag.StringVar(&p.repository, "repository", ".", "`folder` of the repository")
	flag.StringVar(&p.out, "out", "bin/packages", "`folder` of the packages; those that are there are removed")
	flag.StringVar(&p.describe, "version", "", "the version, as `git describe` gives it")
	epoch := flag.Int64("epoch", 0, "the time of the commit, in `seconds` since 1970 (SOURCE_DATE_EPOCH)")
	archs := flag.String("arch", "amd64,arm64", "the architectures, as Go's `list`")
	flag.Parse()
	p.time, p.archs = time.Unix(*epoch, 0).UTC(), strings.Split(*archs, ",")
	err := errors.New("-version and -epoch are needed")
	if p.describe != "" && *epoch > 0 {
		err = p.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// packager is one run.
type packager struct {
	repository string
	out        string
	describe   string
	time       time.Time // Of the commit. All that the packages have is as old.
	archs      []string

	nfpm    string // The program.
	work    string // For what is not kept.
	version string // As packages have it.
}

func (p *packager) run(ctx context.Context) (err error) {
	if p.version, err = packageVersion(p.describe, p.time); err != nil {
		return err
	}
	if p.nfpm, err = p.installNfpm(ctx); err != nil {
		return err
	}
	if p.work, err = os.MkdirTemp("", "telegraf-hpc-packages-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.work)) }()
	if err := p.empty(); err != nil {
		return err
	}
	programs, err := p.programs()
	if err != nil {
		return err
	}
	pages, err := p.pages(ctx, programs)
	if err != nil {
		return err
	}
	for _, arch := range p.archs {
		if err := p.packages(ctx, arch, programs, pages); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	return p.sums()
}

// packages builds all that there is for an architecture.
func (p *packager) packages(ctx context.Context, arch string, programs []program, pages []file) error {
	bin, err := p.build(ctx, arch, programs)
	if err != nil {
		return err
	}
	files, err := p.layout(programs, bin)
	if err != nil {
		return err
	}
	bill, err := p.bill(arch, programs, bin)
	if err != nil {
		return err
	}
	notices, err := p.notices(ctx, arch, programs)
	if err != nil {
		return err
	}
	files = append(files, pages...)
	files = append(files, doc("sbom.cdx.json", bill), doc("third-party-licenses.gz", compress(notices)))
	sortFiles(files)
	name := fmt.Sprintf("telegraf-hpc-%s-linux-%s", p.version, arch)
	if err := os.WriteFile(filepath.Join(p.out, name+".cdx.json"), bill, 0o644); err != nil { //nolint:gosec // For everybody.
		return err
	}
	if err := p.tarball(name, files); err != nil {
		return err
	}
	return p.runNfpm(ctx, arch, files)
}

// empty makes the folder of the packages, and removes those of an earlier run.
func (p *packager) empty() error {
	if err := os.MkdirAll(p.out, 0o755); err != nil { //nolint:gosec // For everybody.
		return err
	}
	entries, err := os.ReadDir(p.out)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, "telegraf-hpc") || name == "SHA256SUMS" {
			if err := os.Remove(filepath.Join(p.out, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
