package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// stat gives a file's owner, group and mode.
func stat(h *harness.Host, path string) string {
	return strings.TrimSpace(h.Run("stat", "-c", "%U %G %a", path))
}

// exists tells whether the host has a file.
func exists(h *harness.Host, path string) bool {
	_, err := os.Lstat(h.Path(path))
	return err == nil
}

// The life of the package on a host with systemd: installed, beside Telegraf's own, switched on, upgraded, removed, purged.
func testDeb(t *testing.T, b *built) {
	h := harness.StartSystemdHost(t)
	h.Copy(b.deb(b.old, oldVersion), "/root/old.deb", 0o644)
	h.Copy(b.deb(b.new, newVersion), "/root/new.deb", 0o644)
	h.Copy(telegrafPackage(t), "/root/telegraf.deb", 0o644)

	h.Run("dpkg", "--install", "/root/old.deb")
	require.Equal(t, oldVersion, h.Run("dpkg-query", "-W", "-f=${Version}", "telegraf-hpc"))
	require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/lustre_jobstats.conf"))
	require.Equal(t, "root root 755", stat(h, "/etc/telegraf"))
	require.Equal(t, "telegraf telegraf 750", stat(h, "/var/lib/telegraf-hpc"))
	require.Equal(t, "root root 755", stat(h, "/usr/lib/telegraf-hpc/lustre_jobstats"))
	require.Regexp(t, `^telegraf:x:\d+:\d+::/etc/telegraf:/bin/false\n$`, h.Run("getent", "passwd", "telegraf"))
	checkVersion(t, h, "lustre_jobstats", oldDescribe)

	// Telegraf comes later, is enabled by its own package, and takes no notice of us.
	h.Run("dpkg", "--install", "/root/telegraf.deb")
	h.Run("systemctl", "start", "telegraf")
	waitMetrics(t, h, "cpu,")
	require.Empty(t, ourProcesses(h))

	// Switched on, and to run as it does on a file server. One of the configurations is changed.
	h.Write("/etc/telegraf/telegraf.d/ours.conf", 0o644, execd("lustre_jobstats")+execd("node_sensors"))
	changed := "[[inputs.lustre_jobstats]]\n  root = \"/srv\"\n"
	h.Write("/etc/telegraf/lustre_jobstats.conf", 0o640, changed)
	h.Write("/var/lib/telegraf-hpc/lustre_jobstats/some", 0o600, "state")
	linkRoles(h, "10-telegraf-hpc", "20-fileserver")
	h.Run("systemctl", "restart", "telegraf")
	waitMetrics(t, h, "node_")
	before := h.Processes("/usr/lib/telegraf-hpc/node_sensors")
	require.Len(t, before, 1)

	end := watchAccess(t, h, oldPrograms)
	said := h.Run("dpkg", "--force-confold", "--install", "/root/new.deb")
	end()
	require.Contains(t, said, "Using current old file as you requested.")
	require.Equal(t, changed, h.Read("/etc/telegraf/lustre_jobstats.conf"))
	require.True(t, exists(h, "/etc/telegraf/lustre_jobstats.conf.dpkg-dist"))
	// What was not changed is the new version's, with its rights.
	require.NotContains(t, h.Read("/etc/telegraf/node_sensors.conf"), "Of the old version.")
	for _, name := range programNames(t) {
		require.Equal(t, "root telegraf 640", stat(h, "/etc/telegraf/"+name+".conf"), name)
		checkVersion(t, h, name, newDescribe)
	}
	// The Telegraf that ran our programs runs the new ones.
	require.Contains(t, waitMetrics(t, h, "node_sensors_self,")[0], newDescribe)
	require.NotContains(t, h.Processes("/usr/lib/telegraf-hpc/node_sensors"), before[0])
	checkPages(t, h)
	checkParts(t, h)
	checkDashboards(t, h)

	// A Telegraf that runs none of our programs is not restarted, and one that is stopped is not started.
	h.Run("mv", "/etc/telegraf/telegraf.d/ours.conf", "/root/ours.conf")
	h.Run("systemctl", "restart", "telegraf")
	pid := h.Processes("/usr/bin/telegraf")
	require.Len(t, pid, 1)
	h.Run("dpkg", "--install", "/root/new.deb")
	require.Equal(t, pid, h.Processes("/usr/bin/telegraf"))
	h.Run("systemctl", "stop", "telegraf")
	h.Run("dpkg", "--install", "/root/new.deb")
	require.Empty(t, h.Processes("/usr/bin/telegraf"))

	// Who removes it without taking it out of Telegraf's configuration is told.
	h.Run("mv", "/root/ours.conf", "/etc/telegraf/telegraf.d/ours.conf")
	said = h.Run("dpkg", "--remove", "telegraf-hpc")
	require.Contains(t, said, "telegraf-hpc: Telegraf will not start again while these name programs of /usr/lib/telegraf-hpc:\n"+
		"  /etc/telegraf/telegraf.d/ours.conf\n")
	require.False(t, exists(h, "/usr/lib/telegraf-hpc"))
	require.False(t, exists(h, "/usr/share/telegraf-hpc"))
	require.False(t, exists(h, "/etc/systemd/system/telegraf.service.d/20-fileserver.conf"))
	require.Equal(t, changed, h.Read("/etc/telegraf/lustre_jobstats.conf"))
	require.Equal(t, "state", h.Read("/var/lib/telegraf-hpc/lustre_jobstats/some"))

	h.Run("dpkg", "--purge", "telegraf-hpc")
	require.False(t, exists(h, "/var/lib/telegraf-hpc"))
	left, err := filepath.Glob(h.Path("/etc/telegraf/*"))
	require.NoError(t, err)
	require.Equal(t, []string{h.Path("/etc/telegraf/telegraf.conf"), h.Path("/etc/telegraf/telegraf.d")}, left)
	h.Run("getent", "passwd", "telegraf")
	h.Run("rm", "/etc/telegraf/telegraf.d/ours.conf")
	h.Run("systemctl", "start", "telegraf")
	waitMetrics(t, h, "cpu,")
}

// checkVersion has a program tell its version.
func checkVersion(t *testing.T, h *harness.Host, name, version string) {
	t.Helper()
	require.Equal(t, name+" (telegraf-hpc) "+version+"\n", h.Run("/usr/lib/telegraf-hpc/"+name, "--version"))
}

// ourProcesses gives the host's processes that run programs of ours.
func ourProcesses(h *harness.Host) []int {
	programs, _ := filepath.Glob(h.Path("/usr/lib/telegraf-hpc/*")) // The pattern is right.
	all := make([]int, 0, len(programs))
	for _, path := range programs {
		all = append(all, h.Processes("/usr/lib/telegraf-hpc/"+filepath.Base(path))...)
	}
	return all
}

// checkPages has each manual page read by mandoc, which must find no fault.
func checkPages(t *testing.T, h *harness.Host) {
	t.Helper()
	pages, err := filepath.Glob(h.Path("/usr/share/man/man[78]/telegraf-hpc*"))
	require.NoError(t, err)
	require.Len(t, pages, 1+len(programNames(t))+helpers(t))
	for _, page := range pages {
		path := strings.TrimPrefix(page, h.Path("/"))
		require.Empty(t, h.Run("mandoc", "-T", "lint", "-W", "warning", path))
	}
	require.Contains(t, h.Run("mandoc", "-T", "ascii", "/usr/share/man/man8/telegraf-hpc-lustre_jobstats.8.gz"), "[[inputs.lustre_jobstats]]")
}

// checkParts has Telegraf read the parts of sample.conf, all of them and each beside agent.conf. Together they are sample.conf.
func checkParts(t *testing.T, h *harness.Host) {
	t.Helper()
	const folder = "/usr/share/telegraf-hpc/telegraf.d/"
	var whole strings.Builder
	for _, name := range []string{"agent", "every", "fileserver", "head", "login", "compute", "central", "outputs"} {
		whole.WriteString(h.Read(folder + name + ".conf"))
		said := h.Run("telegraf", "config", "check", "--config", folder+"agent.conf", "--config", folder+name+".conf")
		require.NotContains(t, said, "E! ")
	}
	require.Equal(t, whole.String(), h.Read("/usr/share/telegraf-hpc/sample.conf"))
	entries, err := os.ReadDir(h.Path(folder))
	require.NoError(t, err)
	require.Len(t, entries, 8)
}

// checkDashboards compares Grafana's files with the repository's, and has a user read them who is nobody.
func checkDashboards(t *testing.T, h *harness.Host) {
	t.Helper()
	const folder = "/usr/share/telegraf-hpc/dashboards"
	repository, err := stock.Repository()
	require.NoError(t, err)
	files := 0
	for _, pattern := range []string{"influxql/*.json", "graphite/*.json", "provisioning/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(repository, "dashboards", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(text), h.Read(folder+strings.TrimPrefix(path, filepath.Join(repository, "dashboards"))))
			files++
		}
	}
	require.Equal(t, files, strings.Count(h.Run("find", folder, "-type", "f", "-user", "root", "-group", "root", "-perm", "0644"), "\n"))
	h.Run("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "sh", "-ec", "find "+folder+" -type f -exec cat {} + >/dev/null")
}

// linkRoles switches drop-ins of telegraf.service on.
func linkRoles(h *harness.Host, names ...string) {
	h.Run("rm", "-rf", "/etc/systemd/system/telegraf.service.d")
	h.Run("mkdir", "-p", "/etc/systemd/system/telegraf.service.d")
	for _, name := range names {
		h.Run("ln", "-s", "/usr/share/telegraf-hpc/systemd/"+name+".conf", "/etc/systemd/system/telegraf.service.d/")
	}
	h.Run("systemctl", "daemon-reload")
}
