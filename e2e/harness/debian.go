package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// debianRoot gives a folder with a Debian release and packages that the host's own Debian does not have, for a machine
// to run in. The first call makes it, in two minutes or so, in the user's cache folder; it has half a gigabyte. Nothing
// runs in there, and nothing in there is changed, but for what machines leave in its /tmp.
func debianRoot(t testing.TB, suite string, packages ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("making a folder with a Debian of its own needs root")
	}
	debootstrap := Program(t, "debootstrap", "debootstrap")
	cache, err := stock.Cache()
	require.NoError(t, err)
	root := filepath.Join(cache, "debian-"+suite+"-"+strings.Join(packages, "-"))
	unlock, err := stock.Lock(root + ".lock")
	require.NoError(t, err)
	defer unlock()
	if _, err := os.Stat(root); err == nil {
		return root
	}
	part := root + ".part" // What an earlier call left that was killed goes with it.
	require.NoError(t, os.RemoveAll(part))
	t.Logf("making %s", root)
	// What it mounts goes with its namespace, should it be killed.
	run(t, "", nil, "unshare", "--mount", debootstrap, "--variant=minbase", suite, part, mirror(t))
	installInto(t, part, packages)
	require.NoError(t, os.Rename(part, root))
	return root
}

// installInto installs packages in a root folder. What they would start is not started.
func installInto(t testing.TB, root string, packages []string) {
	t.Helper()
	write := func(name string, mode os.FileMode, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), text, mode)) //nolint:gosec // Names are those below.
		require.NoError(t, os.Chmod(filepath.Join(root, name), mode))           // Whatever the umask is.
	}
	write("usr/sbin/policy-rc.d", 0o755, []byte("#!/bin/sh\nexit 101\n"))
	if text, err := os.ReadFile("/etc/resolv.conf"); err == nil { // Without names there may be a proxy.
		write("etc/resolv.conf", 0o644, text)
	}
	proxies, err := filepath.Glob("/etc/apt/apt.conf.d/*proxy*")
	require.NoError(t, err)
	for _, path := range proxies {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		write("etc/apt/apt.conf.d/"+filepath.Base(path), 0o644, text)
	}
	inside := func(args ...string) {
		run(t, "", []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}, "chroot", append([]string{root}, args...)...)
	}
	inside(append([]string{"apt-get", "-q", "-y", "-o", "APT::Sandbox::User=root", "install", "--no-install-recommends"}, packages...)...)
	inside("apt-get", "clean")
}

// mirror gives the address that the host's own packages come from.
func mirror(t testing.TB) string {
	t.Helper()
	release, err := os.ReadFile("/etc/os-release")
	require.NoError(t, err)
	codename := ""
	for line := range strings.Lines(string(release)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			codename = value
		}
	}
	targets := output(t, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Identifier: Packages", "Origin: Debian", "Component: main", "Codename: "+codename)
	first, _, _ := strings.Cut(targets, "\n")
	require.NotEmpty(t, first, "apt-get knows of no mirror for Debian %s", codename)
	return first
}
