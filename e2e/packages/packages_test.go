// Package packages installs, upgrades and removes our packages, and runs the services that come with them: with dpkg, rpm,
// systemd and OpenRC, beside a stock Telegraf that is installed as Telegraf's own package installs it.
//
// What it does not show: rpm is Debian's, so that neither dependencies nor SELinux count; of arm64 nothing runs; and there is
// no Grafana, of whose service only the syntax and the order are looked at.
package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// The two versions that are built here: an old one with two programs, and the one of the work tree with all.
const (
	oldDescribe, oldVersion = "v0.1.0", "0.1.0"
	newDescribe, newVersion = "v0.2.0-3-gabcdef0", "0.2.0+3.abcdef0"
	epoch                   = 1700000000
)

// oldPrograms are those of the old version.
var oldPrograms = []string{"lustre_jobstats", "node_sensors"}

func TestPackages(t *testing.T) {
	repository, err := stock.Repository()
	require.NoError(t, err)
	b := &built{packaging: filepath.Join(harness.Build(t, "./packaging"), "packaging"), old: t.TempDir(), new: t.TempDir()}
	b.tree = copyTree(t, repository)
	b.run(t, "022", "UTC", b.tree, b.old, oldDescribe)
	b.run(t, "022", "UTC", repository, b.new, newDescribe)
	t.Run("parallel", func(t *testing.T) {
		for _, tt := range []struct { // Those that take longest come first.
			name string
			test func(*testing.T, *built)
		}{
			{"Fresh", testFresh}, {"OpenRC", testOpenRC}, {"SystemdRoles", testSystemdRoles}, {"Deb", testDeb}, {"Reproducible", testReproducible},
			{"Tarball", testTarball}, {"RPM", testRPM}, {"Contents", testContents},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				tt.test(t, b)
			})
		}
	})
}

// built are the packages of both versions, for the architecture of this machine.
type built struct {
	packaging string // The program that builds.
	old, new  string // Folders.
	tree      string // Of the old version.
}

// run builds the packages of a tree into a folder.
func (b *built) run(t *testing.T, umask, zone, tree, out, describe string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask "$1"; shift; exec "$@"`, "sh", umask, b.packaging,
		"-out", out, "-version", describe, "-epoch", strconv.Itoa(epoch), "-arch", runtime.GOARCH)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "TZ="+zone)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func (b *built) deb(folder, version string) string {
	return filepath.Join(folder, fmt.Sprintf("telegraf-hpc_%s_%s.deb", version, runtime.GOARCH))
}

// copyTree copies the repository's files, without e2e, and with the programs of the old version only. The configurations of
// its plugins are other ones, too.
func copyTree(t *testing.T, repository string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = repository
	list, err := cmd.Output()
	require.NoError(t, err)
	tree := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		parts := strings.Split(name, "/")
		if parts[0] == "e2e" || parts[0] == "cmd" && !slices.Contains(oldPrograms, parts[1]) {
			continue
		}
		path := filepath.Join(tree, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, err := os.Readlink(filepath.Join(repository, name)); err == nil {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		content, err := os.ReadFile(filepath.Join(repository, name))
		if os.IsNotExist(err) {
			continue // Removed, and that is not committed yet.
		}
		require.NoError(t, err)
		if filepath.Base(name) == "sample.conf" && parts[0] == "plugins" {
			content = append(content, "  ## Of the old version.\n"...)
		}
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
	return tree
}

// sumsOf gives the checksum of each file in a folder.
func sumsOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	sums := make(map[string]string)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		sums[entry.Name()] = hex.EncodeToString(sum[:])
	}
	return sums
}

// Another checkout elsewhere, another time zone and another umask: the same bytes.
func testReproducible(t *testing.T, b *built) {
	elsewhere, again := filepath.Join(t.TempDir(), "else where"), t.TempDir()
	require.NoError(t, os.CopyFS(elsewhere, os.DirFS(b.tree)))
	b.run(t, "077", "Asia/Tokyo", elsewhere, again, oldDescribe)
	require.Equal(t, sumsOf(t, b.old), sumsOf(t, again))
	require.Len(t, sumsOf(t, again), 5) // deb, rpm, tar.gz, SBOM, SHA256SUMS
}

// The checksums are right, and the bill of materials has each module that a program says is in it.
func testContents(t *testing.T, b *built) {
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = b.new
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, 4, strings.Count(string(output), ": OK\n"))

	root := t.TempDir()
	output, err = exec.CommandContext(t.Context(), "dpkg-deb", "--extract", b.deb(b.new, newVersion), root).CombinedOutput()
	require.NoError(t, err, "%s", output)
	var bill struct {
		Components []struct {
			Ref  string `json:"bom-ref"`
			Type string
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "usr/share/doc/telegraf-hpc/sbom.cdx.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &bill))
	known := make(map[string]bool)
	for _, component := range bill.Components {
		require.False(t, known[component.Ref], "%s twice", component.Ref)
		known[component.Ref] = true
	}
	programs := 0
	for _, dependency := range bill.Dependencies {
		if !strings.HasPrefix(dependency.Ref, "/") {
			continue
		}
		programs++
		output, err := exec.CommandContext(t.Context(), "go", "version", "-m", filepath.Join(root, dependency.Ref)).Output()
		require.NoError(t, err)
		var wanted []string
		for line := range strings.Lines(string(output)) {
			fields := strings.Fields(line)
			switch fields[0] {
			case "dep":
				wanted = append(wanted, "pkg:golang/"+fields[1]+"@"+strings.ReplaceAll(fields[2], "+", "%2B"))
			case filepath.Join(root, dependency.Ref) + ":":
				wanted = append(wanted, "pkg:golang/stdlib@"+strings.TrimPrefix(fields[1], "go"))
			}
		}
		require.ElementsMatch(t, wanted, dependency.DependsOn, dependency.Ref)
		for _, ref := range dependency.DependsOn {
			require.True(t, known[ref], ref)
		}
	}
	require.Equal(t, len(programNames(t))+helpers(t), programs)
}

// programNames gives the names of our plugins' programs.
func programNames(t *testing.T) []string {
	t.Helper()
	repository, err := stock.Repository()
	require.NoError(t, err)
	mains, err := filepath.Glob(filepath.Join(repository, "cmd", "*", "main.go"))
	require.NoError(t, err)
	var names []string
	for _, path := range mains {
		if name := filepath.Base(filepath.Dir(path)); name != "lustresim" && name != "telegraf-hpc" {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

// helpers gives how many programs there are for people: 0 or 1.
func helpers(t *testing.T) int {
	t.Helper()
	repository, err := stock.Repository()
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(repository, "cmd", "telegraf-hpc", "main.go")); err != nil {
		return 0
	}
	return 1
}

// telegrafPackage builds a package of the stock Telegraf with what Telegraf's own has: its scripts, its unit, its folders. Its
// telegraf.conf is for tests.
func telegrafPackage(t *testing.T) string {
	t.Helper()
	return telegrafPackageWith(t, telegrafConfiguration)
}

// telegrafPackageWith is telegrafPackage with another telegraf.conf.
func telegrafPackageWith(t *testing.T, configuration string) string {
	t.Helper()
	binary, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	repository, err := stock.Repository()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/telegraf")
	cmd.Dir = filepath.Join(repository, "e2e", "telegraf")
	module, err := cmd.Output()
	require.NoError(t, err)
	scripts := filepath.Join(strings.TrimSpace(string(module)), "scripts")
	root := t.TempDir()
	put := func(from, to string, mode os.FileMode) {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, to), content, mode))
	}
	put(binary, "usr/bin/telegraf", 0o755)
	put(filepath.Join(scripts, "init.sh"), "usr/lib/telegraf/scripts/init.sh", 0o755)
	put(filepath.Join(scripts, "telegraf.service"), "usr/lib/telegraf/scripts/telegraf.service", 0o644)
	for ours, theirs := range map[string]string{"preinst": "pre-install", "postinst": "post-install", "prerm": "pre-remove", "postrm": "post-remove"} {
		put(filepath.Join(scripts, "deb", theirs+".sh"), "DEBIAN/"+ours, 0o755)
	}
	for name, text := range map[string]string{
		"DEBIAN/control":             fmt.Sprintf("Package: telegraf\nVersion: 1.37.2-1\nArchitecture: %s\nMaintainer: A <a@localhost>\nDescription: Telegraf\n", runtime.GOARCH),
		"DEBIAN/conffiles":           "/etc/telegraf/telegraf.conf\n",
		"etc/telegraf/telegraf.conf": configuration,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Chmod(root, 0o755))
	deb := filepath.Join(t.TempDir(), "telegraf.deb")
	output, err := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-Znone", "--build", root, deb).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return deb
}

// telegrafConfiguration is the stock Telegraf's, which has nothing of ours.
const telegrafConfiguration = `
[agent]
  interval = "1s"
  flush_interval = "200ms"
  skip_processors_after_aggregators = true

[[inputs.cpu]]
[[inputs.disk]]

[[outputs.file]]
  files = ["/var/log/telegraf/metrics"]
`

// metrics gives the lines of what Telegraf has written on a host since some moment, which begin with a string.
func metrics(h *harness.Host, since time.Time, prefix string) []string {
	content, err := os.ReadFile(h.Path("/var/log/telegraf/metrics"))
	if err != nil {
		return nil // Not yet.
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		line, ended := strings.CutSuffix(line, "\n")
		stamp, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
		if ended && err == nil && stamp >= since.UnixNano() && strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

// waitMetrics waits until Telegraf on a host has written a line that begins with a string and is younger than this call.
func waitMetrics(t *testing.T, h *harness.Host, prefix string) []string {
	t.Helper()
	since := time.Now()
	var lines []string
	harness.Eventually(t, harness.Patience, func() error {
		if lines = metrics(h, since, prefix); len(lines) == 0 {
			return fmt.Errorf("no %s", prefix)
		}
		return nil
	})
	return lines
}

// execd is a table that starts a plugin.
func execd(program string) string {
	return fmt.Sprintf("[[inputs.execd]]\n  command = [%q, \"--config\", \"/etc/telegraf/%s.conf\"]\n  signal = \"STDIN\"\n"+
		"  restart_delay = \"1s\"\n  data_format = \"influx\"\n", "/usr/lib/telegraf-hpc/"+program, program)
}

// watchAccess runs programs of the host again and again, as a Telegraf does that starts, until the returned function is
// called. That tells how often it did, and fails the test if one of them was ever missing.
func watchAccess(t *testing.T, h *harness.Host, programs []string) (end func()) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan error, len(programs))
	rounds := make([]int, len(programs))
	for i, name := range programs {
		path := h.Path("/usr/lib/telegraf-hpc/" + name)
		go func() {
			for {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				if rounds[i]++; rounds[i]%100 == 1 { // It is there, and it runs.
					if output, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
						ended <- fmt.Errorf("%s --version: %w: %s", name, err, output)
						return
					}
				}
				file, err := os.Open(path)
				if err != nil {
					ended <- err
					return
				}
				_ = file.Close()
				time.Sleep(100 * time.Microsecond) // Others run tests here, too.
			}
		}()
	}
	return func() {
		t.Helper()
		close(stop)
		for range programs {
			require.NoError(t, <-ended)
		}
		t.Logf("looked at %s %v times", strings.Join(programs, ", "), rounds)
		require.Greater(t, slices.Min(rounds), 20)
	}
}
