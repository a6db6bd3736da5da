package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// scripts are what packages run when they are installed and removed. The tar.gz has those, too, and one that does what dpkg
// and rpm do.
var scripts = []string{"install.sh", "preinstall.sh", "postinstall.sh"}

// tarball writes all files into a tar.gz, below a folder of its name.
func (p *packager) tarball(name string, files []file) (err error) {
	all := make([]file, 0, len(files)+len(scripts))
	for _, script := range scripts {
		content, err := os.ReadFile(filepath.Join(p.repository, "packaging", "scripts", script))
		if err != nil {
			return err
		}
		all = append(all, file{path: script, content: content, mode: 0o755})
	}
	out, err := os.Create(filepath.Join(p.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	defer func() { err = errors.Join(err, archive.Close(), packed.Close(), out.Close()) }()
	for _, one := range append(all, files...) {
		header := tar.Header{Name: name + "/" + one.path, Mode: int64(one.mode), Size: int64(len(one.content)), ModTime: p.time,
			Uname: "root", Gname: "root", Format: tar.FormatPAX}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(one.content); err != nil {
			return err
		}
	}
	return nil
}

// nfpmVersion is the newest that Go's module proxy has all of.
const nfpmVersion = "v2.45.2"

// installNfpm gives the path of nfpm, which the first call builds in the user's cache folder.
func (p *packager) installNfpm(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "telegraf-hpc", "nfpm-"+nfpmVersion)
	path := filepath.Join(folder, "nfpm")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(folder, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part) //nolint:errcheck // It is a cache.
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/goreleaser/nfpm/v2/cmd/nfpm@"+nfpmVersion)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOBIN="+part)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing nfpm: %w\n%s", err, output)
	}
	return path, os.Rename(filepath.Join(part, "nfpm"), path)
}

// The parts of nfpm's configuration that are not in nfpm.yaml.
type (
	nfpmFile struct {
		From   string   `json:"src,omitempty"`
		To     string   `json:"dst"`
		Type   string   `json:"type,omitempty"`
		Detail nfpmInfo `json:"file_info"`
		// Packager is the only format that the entry is for; without one it is for both.
		Packager string `json:"packager,omitempty"`
	}
	nfpmInfo struct {
		Owner string      `json:"owner"`
		Group string      `json:"group"`
		Mode  os.FileMode `json:"mode"`
		Time  string      `json:"mtime"`
	}
)

// runNfpm builds the deb and the rpm of an architecture.
func (p *packager) runNfpm(ctx context.Context, arch string, files []file) error {
	text, err := os.ReadFile(filepath.Join(p.repository, "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	configuration := make(map[string]any)
	if err := yaml.UnmarshalStrict(text, &configuration); err != nil {
		return fmt.Errorf("nfpm.yaml: %w", err)
	}
	stamp := p.time.Format("2006-01-02T15:04:05Z")
	configuration["arch"], configuration["version"], configuration["mtime"] = arch, p.version, stamp
	if configuration["contents"], err = p.stage(arch, files, stamp); err != nil {
		return err
	}
	text, err = json.Marshal(configuration)
	if err != nil {
		return err
	}
	path := filepath.Join(p.work, arch, "nfpm.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	out, err := filepath.Abs(p.out)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		cmd := exec.CommandContext(ctx, p.nfpm, "package", "--config", path, "--packager", format, "--target", out+"/")
		cmd.Dir = p.repository
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", p.time.Unix()))
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nfpm, %s: %w\n%s", format, err, output)
		}
	}
	return nil
}

// stage writes the files where nfpm can read them, and gives its list of them.
func (p *packager) stage(arch string, files []file, stamp string) ([]nfpmFile, error) {
	var contents []nfpmFile
	for _, folder := range owned {
		contents = append(contents, nfpmFile{To: "/" + folder, Type: "dir", Detail: nfpmInfo{"root", "root", 0o755, stamp}})
	}
	// dpkg makes what is missing; nfpm would have it in the group of the files.
	contents = append(contents, nfpmFile{To: "/etc/telegraf", Type: "dir", Packager: "deb", Detail: nfpmInfo{"root", "root", 0o755, stamp}})
	for _, one := range files {
		path := filepath.Join(p.work, arch, "root", one.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, one.content, 0o600); err != nil {
			return nil, err
		}
		entry := nfpmFile{From: path, To: "/" + one.path, Detail: nfpmInfo{"root", "root", one.mode, stamp}}
		if one.config {
			entry.Type, entry.Detail.Group = "config|noreplace", "telegraf"
		}
		contents = append(contents, entry)
	}
	return contents, nil
}

// sums writes the checksums of all packages, for sha256sum --check.
func (p *packager) sums() error {
	entries, err := os.ReadDir(p.out) // In the order of names.
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "telegraf-hpc") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(p.out, "SHA256SUMS"), all.Bytes(), 0o644) //nolint:gosec // For everybody.
}
