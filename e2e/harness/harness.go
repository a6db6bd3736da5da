// Package harness runs our programs as a site runs them: as children of a stock Telegraf that writes to a real
// database, with nothing replaced. All servers listen on loopback, keep their data in the test's own temporary folder
// and end with the test.
package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// Patience is how long something may take on a machine that has other things to do.
const Patience = 2 * time.Minute

// Eventually asks check again and again until it returns nil. The test fails with check's last error when that takes
// longer than within.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still so after %s: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Build builds packages of the repository's main module, given as for `go build` there, and gives the folder of the
// binaries. What has not changed since the last test run is not linked again.
func Build(t testing.TB, packages ...string) string {
	t.Helper()
	root, err := stock.Repository()
	require.NoError(t, err)
	folder := filepath.Join(root, "bin", "e2e")
	require.NoError(t, os.MkdirAll(folder, 0o750))
	unlock, err := stock.Lock(filepath.Join(folder, ".lock"))
	require.NoError(t, err)
	defer unlock()
	args := append([]string{"build", "-trimpath", "-mod=readonly", "-o", folder + "/"}, packages...)
	run(t, root, nil, "go", args...)
	return folder
}

// Program gives the path of a program that a Debian package brings. Where it is missing, root installs the package;
// for anybody else the test fails and says what to install.
func Program(t testing.TB, name, debianPackage string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	Packages(t, debianPackage)
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	return path
}

// Packages sees to it that Debian packages are installed. Where some are missing, root installs them, and no service
// of theirs is started; for anybody else the test fails and says what to install.
func Packages(t testing.TB, names ...string) {
	t.Helper()
	if len(missing(t, names)) == 0 {
		return
	}
	if os.Geteuid() != 0 {
		t.Fatalf("needed here: apt-get install %s", strings.Join(missing(t, names), " "))
	}
	cache, err := stock.Cache()
	require.NoError(t, err)
	unlock, err := stock.Lock(filepath.Join(cache, "apt-get.lock"))
	require.NoError(t, err)
	defer unlock()
	wanted := missing(t, names)
	if len(wanted) == 0 { // Somebody installed them while this test waited.
		return
	}
	t.Logf("installing Debian's %s", strings.Join(wanted, " "))
	defer keepServicesDown(t, "/usr/sbin/policy-rc.d")()
	environment := []string{"DEBIAN_FRONTEND=noninteractive"}
	run(t, "", environment, "apt-get", "-q", "update")
	run(t, "", environment, "apt-get", append([]string{"-q", "-y", "-o", "DPkg::Lock::Timeout=300", "install", "--no-install-recommends"}, wanted...)...)
	require.Empty(t, missing(t, names))
}

// missing gives those of the Debian packages that are not installed.
func missing(t testing.TB, names []string) []string {
	t.Helper()
	// It fails where it does not know a package, and still tells of the others.
	output, _ := exec.CommandContext(t.Context(), "dpkg-query", append([]string{"-W", "-f=${Package} ${db:Status-Status}\n"}, names...)...).Output()
	installed := strings.Split(string(output), "\n")
	var without []string
	for _, name := range names {
		if !slices.Contains(installed, name+" installed") {
			without = append(without, name)
		}
	}
	return without
}

// keepServicesDown keeps packages that are being installed from starting their services, until the returned function is
// called: with a policy (invoke-rc.d(8)). A machine that has one of its own keeps it.
func keepServicesDown(t testing.TB, policy string) (end func()) {
	t.Helper()
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // It is run.
	if errors.Is(err, os.ErrExist) {
		return func() {}
	}
	require.NoError(t, err)
	_, err = file.WriteString("#!/bin/sh\n# Of a test of telegraf-hpc that was installing packages. Once it has ended, remove this.\nexit 101\n")
	require.NoError(t, errors.Join(err, file.Close()))
	return func() { require.NoError(t, os.Remove(policy)) }
}

// run runs a tool to its end. The test fails with what the tool said when it fails.
func run(t testing.TB, folder string, environment []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), environment...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, output)
	}
}

// ReadLines gives the whole lines of a file that another process may be writing; none while there is no file. What
// follows the last newline is left out.
func ReadLines(t testing.TB, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	lines := strings.Split(string(content), "\n")
	return lines[:len(lines)-1]
}

// tail gives the last lines of a text that may be long.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(all) <= lines {
		return text
	}
	return fmt.Sprintf("(%d lines left out)\n%s", len(all)-lines, strings.Join(all[len(all)-lines:], "\n"))
}
