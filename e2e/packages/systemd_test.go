package packages

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// everySensor has node_sensors measure all it can, since each reads another part of the machine.
const everySensor = `[[inputs.node_sensors]]
  sensors = ["cpu_percent", "cpu_times", "cpu_times_percent", "cpu_count", "cpu_stats", "cpu_freq", "virtual_memory", "swap_memory",
    "disk_partitions", "disk_usage", "disk_io_counters", "net_io_counters", "net_connections", "net_if_addrs", "net_if_stats",
    "sensors_temperatures", "sensors_fans", "sensors_battery", "boot_time", "users", "job_cgroups"]
`

// secretJobStats is what only root may read.
const secretJobStats = `job_stats:
- job_id:          77
  snapshot_time:   1767225685
  read_bytes:      { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  write_bytes:     { samples:           3, unit: bytes, min: 1048576, max:16777216, sum:         3145728 }
`

// The drop-ins for telegraf.service: systemd finds no fault in them; Telegraf and our plugins run below all of them together
// and tell no less than without; and they give what they are for.
func testSystemdRoles(t *testing.T, b *built) {
	h := harness.StartSystemdHost(t)
	h.Copy(telegrafPackage(t), "/root/telegraf.deb", 0o644)
	h.Copy(b.deb(b.new, newVersion), "/root/new.deb", 0o644)
	h.Run("dpkg", "--install", "/root/telegraf.deb")
	h.Run("dpkg", "--install", "/root/new.deb")
	h.Run("groupadd", "--system", "render") // udev's package makes it where it is.
	const target = "/srv/proc/fs/lustre/obdfilter/scratch-OST0003"
	h.Write(target+"/job_stats", 0o600, secretJobStats)
	h.Write(target+"/job_cleanup_interval", 0o600, "600\n")
	h.Run("chmod", "0700", "/srv/proc")
	h.Write("/etc/telegraf/lustre_jobstats.conf", 0o644, "[[inputs.lustre_jobstats]]\n  root = \"/srv\"\n  refresh = \"1s\"\n")
	h.Write("/etc/telegraf/node_sensors.conf", 0o644, everySensor)
	h.Write("/tmp/seen", 0o644, "")
	h.Write("/home/seen", 0o644, "")
	configureAsShipped(t, h)

	files, err := filepath.Glob(h.Path("/usr/share/telegraf-hpc/systemd/*.conf"))
	require.NoError(t, err)
	roles := make([]string, 0, len(files))
	for _, path := range files {
		roles = append(roles, strings.TrimSuffix(filepath.Base(path), ".conf"))
	}
	require.Equal(t, []string{"10-telegraf-hpc", "20-central", "20-compute", "20-fileserver", "20-head", "20-login", "30-amd-gpus"}, roles)

	// Without any of them: the measure of what is to come, and job_stats can't be read.
	told := restart(t, h)
	denied := "permission denied"
	waitTold(t, h, map[string]bool{"disk mode=rw path=/ used": true, "node_cpu_times user": true, "who_users_self version": true, "cpu usage_idle": true})
	harness.Eventually(t, harness.Patience, func() error {
		if log := h.Read(telegrafLog); !strings.Contains(log, denied) {
			return fmt.Errorf("nobody was denied anything: %s", log)
		}
		return nil
	})
	h.Run("sleep", "3") // A few gathers: what comes later is not compared.
	maps.Copy(told, toldBy(h))
	before := complaints(h)

	verify := func() []string { // It fails already because of what this Debian lacks.
		said, _ := h.Try("systemd-analyze", "verify", "/lib/systemd/system/telegraf.service")
		return strings.Split(said, "\n")
	}
	withoutRoles := verify()
	linkRoles(h, roles...)
	require.Subset(t, withoutRoles, verify())
	restart(t, h)
	told["lustre_jobstats write_bytes"] = true
	waitTold(t, h, told)
	for complaint := range complaints(h) {
		require.Contains(t, before, complaint, "only below the drop-ins")
	}
	pids := h.Processes("/usr/lib/telegraf-hpc/lustre_jobstats")
	require.Len(t, pids, 1)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0]))
	require.NoError(t, err)
	require.Regexp(t, `\nCapEff:\t0000000000000004\n`, string(status)) // CAP_DAC_READ_SEARCH (capability.h) alone.
	require.Regexp(t, `\nCapBnd:\t0000000000000004\n`, string(status))
	require.Regexp(t, `\nNoNewPrivs:\t1\n`, string(status))
	require.Regexp(t, `\nSeccomp:\t2\n`, string(status))
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pids[0]))
	require.NoError(t, err)
	require.Equal(t, "500\n", string(score))
	// What root alone reads is open to it now, but for secrets.
	inside := []string{"nsenter", "--mount", "--target", hostPid(t, pids[0]), "test"}
	h.Run("test", "-s", "/etc/shadow")
	h.Run(append(inside, "!", "-s", "/etc/shadow")...)
	// It sees the machine as everybody does.
	for _, path := range []string{"/tmp/seen", "/home/seen", "/dev/full", "/proc/1/stat"} {
		h.Run(append(inside, "-e", path)...)
	}
	require.Less(t, exposure(t, h), 5.0)

	// Telegraf that is killed comes back, however often.
	h.Write("/etc/systemd/system/telegraf.service.d/90-test.conf", 0o644, "[Service]\nRestartSec=100ms\n")
	h.Run("systemctl", "daemon-reload")
	for range 8 {
		var old []int
		harness.Eventually(t, harness.Patience, func() error { // A child is Telegraf, too, until it has become a plugin.
			if old = h.Processes("/usr/bin/telegraf"); len(old) != 1 {
				return fmt.Errorf("telegraf runs as %v", old)
			}
			return nil
		})
		harness.Eventually(t, harness.Patience, func() error { // systemd must have seen the start of what runs.
			if said, err := h.Try("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "telegraf"); err != nil {
				return fmt.Errorf("%w: %s", err, said)
			}
			return nil
		})
		harness.Eventually(t, harness.Patience, func() error {
			if now := h.Processes("/usr/bin/telegraf"); len(now) != 1 || now[0] == old[0] {
				return fmt.Errorf("telegraf %v was killed, and now there is %v", old, now)
			}
			return nil
		})
	}
	waitMetrics(t, h, "lustre_jobstats,")
	h.Run("systemctl", "stop", "telegraf")
	require.Empty(t, ourProcesses(h))
}

const telegrafLog = "/var/log/telegraf/telegraf.log"

// configureAsShipped has the host do what its role's files say, every second.
func configureAsShipped(t *testing.T, h *harness.Host) {
	t.Helper()
	for _, name := range []string{"agent", "every", "fileserver", "head", "login"} {
		text := h.Read("/usr/share/telegraf-hpc/telegraf.d/" + name + ".conf")
		if name == "agent" {
			text = strings.NewReplacer(`interval = "30s"`, `interval = "1s"`, `flush_interval = "10s"`, `flush_interval = "200ms"`,
				`flush_jitter = "5s"`, fmt.Sprintf("logfile = %q", telegrafLog)).Replace(text)
		}
		h.Write("/etc/telegraf/telegraf.d/"+name+".conf", 0o644, text)
	}
	h.Write("/etc/telegraf/telegraf.conf", 0o644, "[[inputs.disk]]\n  mount_points = [\"/\"]\n[[outputs.file]]\n  files = [\"/var/log/telegraf/metrics\"]\n")
}

// restart starts Telegraf anew, with an empty log and no metrics. The result is an empty set for toldBy.
func restart(t *testing.T, h *harness.Host) map[string]bool {
	t.Helper()
	h.Run("systemctl", "stop", "telegraf")
	h.Run("rm", "-f", "/var/log/telegraf/metrics", telegrafLog)
	h.Run("systemctl", "start", "telegraf")
	harness.Eventually(t, harness.Patience, func() error {
		if !exists(h, telegrafLog) {
			return fmt.Errorf("no %s: %s", telegrafLog, h.Run("journalctl", "-u", "telegraf", "-o", "cat"))
		}
		return nil
	})
	return make(map[string]bool)
}

// toldBy gives what Telegraf has told so far: each measurement with each of its fields, and of disks how and where they are
// mounted.
func toldBy(h *harness.Host) map[string]bool {
	told := make(map[string]bool)
	content, err := os.ReadFile(h.Path("/var/log/telegraf/metrics"))
	if err != nil {
		return told
	}
	for line := range strings.Lines(string(content)) {
		series, rest, _ := strings.Cut(line, " ")
		tags := strings.Split(series, ",")
		name := tags[0]
		if name == "disk" {
			tags = slices.DeleteFunc(tags, func(tag string) bool {
				return strings.HasPrefix(tag, "device=") || strings.HasPrefix(tag, "fstype=") || strings.HasPrefix(tag, "host=")
			})
			name = strings.Join(tags, " ")
		}
		for _, field := range fieldName.FindAllStringSubmatch(rest, -1) {
			told[name+" "+field[1]] = true
		}
	}
	return told
}

// fieldName finds the names of fields, in which nothing is escaped here.
var fieldName = regexp.MustCompile(`(?:^|,)([a-z][a-zA-Z0-9_]*)=`)

// waitTold waits until Telegraf has told all of a set.
func waitTold(t *testing.T, h *harness.Host, wanted map[string]bool) {
	t.Helper()
	harness.Eventually(t, harness.Patience, func() error {
		told := toldBy(h)
		var missing []string
		for one := range wanted {
			if !told[one] {
				missing = append(missing, one)
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return fmt.Errorf("not told: %s\n%s", strings.Join(missing, "; "), h.Read(telegrafLog))
		}
		return nil
	})
}

// complaints gives the errors and warnings in Telegraf's log, without their times and numbers.
func complaints(h *harness.Host) map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(h.Read(telegrafLog)) {
		_, text, _ := strings.Cut(line, " ")
		if strings.HasPrefix(text, "E! ") || strings.HasPrefix(text, "W! ") {
			all[numbers.ReplaceAllString(text, "N")] = true
		}
	}
	return all
}

var numbers = regexp.MustCompile(`[0-9.]+`)

// hostPid gives a process's id as the host sees it (proc(5), NSpid).
func hostPid(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	m := regexp.MustCompile(`\nNSpid:.*\t(\d+)\n`).FindSubmatch(status)
	require.NotNil(t, m)
	return string(m[1])
}

// exposure gives systemd's own figure for how much of the machine telegraf.service could harm: 10 is all.
func exposure(t *testing.T, h *harness.Host) float64 {
	t.Helper()
	said := h.Run("systemd-analyze", "security", "--no-pager", "telegraf.service")
	m := regexp.MustCompile(`Overall exposure level for telegraf\.service: ([0-9.]+)`).FindStringSubmatch(said)
	require.NotNil(t, m, said)
	value, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	t.Logf("exposure %.1f", value)
	return value
}
