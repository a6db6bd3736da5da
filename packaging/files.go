package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// file is one that is installed.
type file struct {
	path    string // Without the first slash.
	content []byte
	mode    os.FileMode
	config  bool // The administrator's to change: root's, and for Telegraf to read.
}

const (
	docFolder   = "usr/share/doc/telegraf-hpc/"
	shareFolder = "usr/share/telegraf-hpc/"
)

// owned are the folders that are ours alone. /etc/telegraf is Telegraf's.
var owned = []string{"usr/lib/telegraf-hpc", strings.TrimSuffix(shareFolder, "/"), strings.TrimSuffix(docFolder, "/")}

// doc is a file of the documentation.
func doc(name string, content []byte) file {
	return file{path: docFolder + name, content: content, mode: 0o644}
}

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
}

// compress packs as gzip -9n does: without a name and a time.
func compress(content []byte) []byte {
	var packed bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // The level is right.
	_, _ = writer.Write(content)                                    // A buffer takes all.
	_ = writer.Close()
	return packed.Bytes()
}

// layout gives the files of the packages but for those that are written from others: the programs, which are in bin, their
// configurations and what the repository has for administrators. Nothing of it runs by itself: /etc/telegraf has no file
// that Telegraf reads without being told, and services are where no system looks for them.
func (p *packager) layout(programs []program, bin string) ([]file, error) {
	var files []file
	var err error
	read := func(from, to string, mode os.FileMode) *file {
		content, e := os.ReadFile(from)
		err = cmp.Or(err, e)
		files = append(files, file{path: to, content: content, mode: mode})
		return &files[len(files)-1]
	}
	for _, one := range programs {
		read(filepath.Join(bin, one.name), one.path(), 0o755)
		if one.plugin == "" {
			continue
		}
		read(filepath.Join(one.plugin, "sample.conf"), "etc/telegraf/"+one.name+".conf", 0o640).config = true
		read(filepath.Join(one.plugin, "README.md"), docFolder+one.name+".md", 0o644)
	}
	here := func(name string) string { return filepath.Join(p.repository, "packaging", name) }
	for folder, mode := range map[string]os.FileMode{"systemd": 0o644, "openrc/init.d": 0o755, "openrc/conf.d": 0o644} {
		entries, e := os.ReadDir(here(folder))
		err = cmp.Or(err, e)
		for _, entry := range entries {
			read(filepath.Join(here(folder), entry.Name()), shareFolder+folder+"/"+entry.Name(), mode)
		}
	}
	read(filepath.Join(p.repository, "README.md"), docFolder+"README.md", 0o644)
	read(here("copyright"), docFolder+"copyright", 0o644)
	read(filepath.Join(p.repository, "CHANGELOG.md"), docFolder+"CHANGELOG.md", 0o644)
	changes, e := p.changelog()
	err = cmp.Or(err, e)
	files = append(files, doc("changelog.gz", compress(changes)))
	boards, e := p.dashboards()
	err = cmp.Or(err, e)
	files = append(files, boards...)
	sample := read(filepath.Join(p.repository, "sample.conf"), shareFolder+"sample.conf", 0o644)
	files = append(files, parts(sample.content)...)
	return files, err
}

// dashboards gives Grafana's files, which run nowhere by themselves either: in the folders of the repository, for everybody
// to read, since Grafana has a user of its own.
func (p *packager) dashboards() ([]file, error) {
	from := filepath.Join(p.repository, "dashboards")
	readme, err := os.ReadFile(filepath.Join(from, "README.md"))
	if err != nil {
		return nil, err
	}
	files := []file{doc("dashboards.md", readme)}
	for _, pattern := range []string{"influxql/*.json", "graphite/*.json", "provisioning/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no %s in %s", pattern, from)
		}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			to := shareFolder + "dashboards" + strings.TrimPrefix(path, from)
			files = append(files, file{path: to, content: content, mode: 0o644})
		}
	}
	return files, nil
}

// heading is the line above each part of sample.conf: "# ---- file server (OSS, MDS)".
var heading = regexp.MustCompile(`^# -{8,} ([a-z ]+?)(?: node| host)?(?: \(.*\))?\n$`)

// parts takes sample.conf apart by the headings in it, into files for Telegraf's folder telegraf.d: agent.conf and one for
// each role.
func parts(sample []byte) []file {
	var all []file
	name, content := "agent", &bytes.Buffer{}
	end := func() {
		all = append(all, file{path: fmt.Sprintf("%stelegraf.d/%s.conf", shareFolder, name), content: content.Bytes(), mode: 0o644})
	}
	for line := range bytes.Lines(sample) {
		if m := heading.FindSubmatch(line); m != nil {
			end()
			name, content = strings.ReplaceAll(string(m[1]), " ", ""), &bytes.Buffer{}
		}
		content.Write(line)
	}
	end()
	return all
}
