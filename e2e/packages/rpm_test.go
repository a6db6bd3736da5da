package packages

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// The rpm, with Debian's rpm: files, rights, scripts and configurations are as there; dependencies are not.
func testRPM(t *testing.T, b *built) {
	h := harness.StartOpenRCHost(t)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	h.Copy(filepath.Join(b.old, "telegraf-hpc-"+oldVersion+"-1."+arch+".rpm"), "/root/old.rpm", 0o644)
	h.Copy(filepath.Join(b.new, "telegraf-hpc-"+newVersion+"-1."+arch+".rpm"), "/root/new.rpm", 0o644)
	rpm := func(args ...string) string {
		return h.Run(append([]string{"rpm", "--force-debian", "--nodeps"}, args...)...)
	}
	h.Run("rpm", "--initdb")
	require.Contains(t, h.Run("rpm", "-qp", "--requires", "/root/new.rpm"), "/usr/sbin/useradd\n")
	require.Equal(t, "telegraf\n", h.Run("rpm", "-qp", "--recommends", "/root/new.rpm"))

	rpm("-i", "/root/old.rpm")
	require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/lustre_jobstats.conf"))
	require.Equal(t, "telegraf telegraf 750", stat(h, "/var/lib/telegraf-hpc"))
	require.Empty(t, h.Run("rpm", "-V", "--nodeps", "telegraf-hpc"))
	// Folders that others own are theirs.
	var folders []string
	for path := range strings.Lines(h.Run("rpm", "-ql", "telegraf-hpc")) {
		if path = strings.TrimSpace(path); h.Run("stat", "-c", "%F", path) == "directory\n" {
			folders = append(folders, path)
		}
	}
	require.Equal(t, []string{"/usr/lib/telegraf-hpc", "/usr/share/doc/telegraf-hpc", "/usr/share/telegraf-hpc"}, folders)

	changed := "[[inputs.lustre_jobstats]]\n  root = \"/srv\"\n"
	h.Write("/etc/telegraf/lustre_jobstats.conf", 0o640, changed)
	h.Write("/var/lib/telegraf-hpc/lustre_jobstats/some", 0o600, "state")
	end := watchAccess(t, h, oldPrograms)
	said := rpm("-U", "/root/new.rpm")
	end()
	require.Contains(t, said, "/etc/telegraf/lustre_jobstats.conf created as /etc/telegraf/lustre_jobstats.conf.rpmnew")
	require.Equal(t, changed, h.Read("/etc/telegraf/lustre_jobstats.conf"))
	require.NotContains(t, h.Read("/etc/telegraf/node_sensors.conf"), "Of the old version.")
	for _, name := range programNames(t) {
		checkVersion(t, h, name, newDescribe)
		require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/"+name+".conf"), name)
	}
	checkDashboards(t, h)

	h.Write("/etc/telegraf/telegraf.d/ours.conf", 0o644, execd("node_sensors"))
	said = rpm("-e", "telegraf-hpc")
	require.Contains(t, said, "  /etc/telegraf/telegraf.d/ours.conf\n")
	require.False(t, exists(h, "/usr/lib/telegraf-hpc"))
	require.False(t, exists(h, "/etc/telegraf/node_sensors.conf"))
	require.Equal(t, changed, h.Read("/etc/telegraf/lustre_jobstats.conf.rpmsave"))
	require.Equal(t, "state", h.Read("/var/lib/telegraf-hpc/lustre_jobstats/some"))
}

// The tar.gz, with its own script, on a host that has neither user nor folders.
func testTarball(t *testing.T, b *built) {
	h := harness.StartOpenRCHost(t)
	for folder, version := range map[string]string{b.old: oldVersion, b.new: newVersion} {
		name := "telegraf-hpc-" + version + "-linux-" + runtime.GOARCH
		h.Copy(filepath.Join(folder, name+".tar.gz"), "/root/"+name+".tar.gz", 0o644)
		h.Run("tar", "-C", "/root", "-xzf", "/root/"+name+".tar.gz")
	}
	script := func(version string) string {
		return "/root/telegraf-hpc-" + version + "-linux-" + runtime.GOARCH + "/install.sh"
	}
	h.Run("sh", script(oldVersion))
	require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/lustre_jobstats.conf"))
	require.Equal(t, "telegraf telegraf 750", stat(h, "/var/lib/telegraf-hpc"))
	require.Equal(t, "root root 755", stat(h, "/usr/share/telegraf-hpc/openrc/init.d/telegraf"))
	require.Equal(t, "root root 644", stat(h, "/usr/share/telegraf-hpc/openrc/conf.d/telegraf"))

	changed := "[[inputs.lustre_jobstats]]\n  root = \"/srv\"\n"
	h.Write("/etc/telegraf/lustre_jobstats.conf", 0o640, changed)
	end := watchAccess(t, h, oldPrograms)
	h.Run("sh", script(newVersion))
	end()
	require.Equal(t, changed, h.Read("/etc/telegraf/lustre_jobstats.conf"))
	require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/lustre_jobstats.conf.new"))
	for _, name := range programNames(t) {
		checkVersion(t, h, name, newDescribe)
	}
	checkDashboards(t, h)
	left := h.Run("find", "/usr", "/etc", "-name", "*.telegraf-hpc-new")
	require.Empty(t, left)
}
