// Package stock builds the Telegraf that our programs run under: Telegraf's own source at the version that
// e2e/telegraf/go.mod names, unchanged, with the plugins listed in plugins.txt.
package stock

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const telegrafModule = "github.com/influxdata/telegraf"

//go:embed plugins.txt
var plugins string

// Repository gives the root folder of the repository that the working directory lies in.
func Repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := folder; ; at = filepath.Dir(at) {
		mod, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module telegraf-hpc\n")) {
			return at, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside the telegraf-hpc repository", folder)
		}
	}
}

// Telegraf gives the path of the stock Telegraf's binary. The first call builds it, in a minute or two, into the
// user's cache folder; the key is all that the build depends on, so a later call with nothing changed finds it.
// Calls may run at once, in several processes too: one builds, the others wait. What the build has to say goes to
// progress.
func Telegraf(ctx context.Context, progress io.Writer) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	build := build{
		module: filepath.Join(root, "e2e", "telegraf"),
		tags:   tags(plugins),
	}
	if build.version, err = build.goTool(ctx, "list", "-m", "-f", "{{.Version}}", telegrafModule); err != nil {
		return "", fmt.Errorf("version of Telegraf: %w", err)
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	key, err := build.key()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "telegraf-"+strings.TrimPrefix(build.version, "v")+"-"+key)
	unlock, err := Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintf(progress, "building Telegraf %s into %s\n", build.version, path)
	if err := build.into(ctx, path); err != nil {
		return "", fmt.Errorf("building Telegraf %s: %w", build.version, err)
	}
	return path, nil
}

// Cache gives the folder outside the repository that keeps what is slow to make.
func Cache() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(user, "telegraf-hpc")
	return folder, os.MkdirAll(folder, 0o750)
}

// Lock waits until nobody else holds the lock file, and holds it until the returned function is called. The kernel
// lets go of it when a process dies.
func Lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

type build struct {
	module  string // The folder of the module that requires Telegraf.
	version string
	tags    string
}

// key names all that the binary depends on: the tags, every module's checksum, the compiler and the platform.
func (b *build) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, b.tags, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(b.module, name))
		if err != nil {
			return "", err
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// into builds beside path and renames at the end, so that a build that is cut short leaves nothing that looks whole.
func (b *build) into(ctx context.Context, path string) error {
	unfinished := path + ".unfinished"
	defer os.Remove(unfinished)
	stamp := "-X " + telegrafModule + "/internal.Version=" + strings.TrimPrefix(b.version, "v")
	if _, err := b.goTool(ctx, "build", "-mod=readonly", "-trimpath", "-tags", b.tags, "-ldflags", "-s -w "+stamp,
		"-o", unfinished, telegrafModule+"/cmd/telegraf"); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// goTool runs the go command in the module's folder and gives its standard output without the newline at its end.
func (b *build) goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.module
	// A workspace, or flags meant for the repository's own programs, must not change the stock Telegraf.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], b.module, err, stderr.Bytes())
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// tags turns the list of plugins into what `go build -tags` takes.
func tags(list string) string {
	tags := []string{"custom"}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			tags = append(tags, line)
		}
	}
	return strings.Join(tags, ",")
}
