package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
	"telegraf-hpc/e2e/stock"
)

// stores are outputs to both stores at once. A Telegraf that has never reached Graphite panics when it reloads.
const stores = `
[[outputs.influxdb]]
  urls = ["http://127.0.0.1:8086"]
  database = "hpc"
[[outputs.graphite]]
  servers = ["127.0.0.1:2003"]
  namepass = ["mem"]
  fieldinclude = ["total"]
`

// The services on a host with OpenRC: Telegraf alone, an upgrade below it, and all parts of a monitoring system as one.
func testOpenRC(t *testing.T, b *built) {
	h := harness.StartOpenRCHost(t)
	binary, err := stock.Telegraf(t.Context(), t.Output())
	require.NoError(t, err)
	h.Copy(binary, "/usr/bin/telegraf", 0o755)
	h.Copy(b.deb(b.old, oldVersion), "/root/old.deb", 0o644)
	h.Copy(b.deb(b.new, newVersion), "/root/new.deb", 0o644)
	h.Run("dpkg", "--install", "/root/old.deb")
	h.Run("sh", "-c", "mkdir -p /etc/conf.d && cp /usr/share/telegraf-hpc/openrc/init.d/* /etc/init.d/ && cp /usr/share/telegraf-hpc/openrc/conf.d/* /etc/conf.d/")
	checkScripts(t, h)
	h.Write("/etc/telegraf/telegraf.conf", 0o644, telegrafConfiguration+"[[inputs.mem]]\n")
	h.Write("/etc/telegraf/telegraf.d/ours.conf", 0o644, execd("node_sensors"))
	h.Write("/etc/carbon/storage-schemas.conf", 0o644, "[all]\npattern = .*\nretentions = 1s:1h\n")
	for _, name := range []string{"telegraf", "influxdb", "carbon-cache", "graphite-web"} {
		h.Write("/etc/conf.d/"+name, 0o644, "respawn_delay=1\n")
	}
	testOneService(t, h)

	old := h.Processes("/usr/lib/telegraf-hpc/node_sensors")
	end := watchAccess(t, h, oldPrograms)
	h.Run("dpkg", "--install", "/root/new.deb")
	end()
	require.Contains(t, waitMetrics(t, h, "node_sensors_self,")[0], newDescribe)
	require.NotContains(t, h.Processes("/usr/lib/telegraf-hpc/node_sensors"), old[0])

	h.Run("rc-service", "telegraf", "stop")
	require.Empty(t, h.Processes("/usr/bin/telegraf"))
	require.Empty(t, ourProcesses(h))
	require.Empty(t, h.Processes("/usr/sbin/supervise-daemon"))
	said, err := h.Try("rc-service", "telegraf", "status")
	require.Error(t, err)
	require.Contains(t, said, "status: stopped")
	// Who stopped it does not want it back because of an upgrade.
	h.Run("dpkg", "--install", "/root/new.deb")
	require.Empty(t, h.Processes("/usr/bin/telegraf"))

	testWholeSystem(t, h)
}

// checkScripts has the shell and OpenRC read all services, Grafana's too, and looks at their order.
func checkScripts(t *testing.T, h *harness.Host) {
	t.Helper()
	scripts, err := filepath.Glob(h.Path("/usr/share/telegraf-hpc/openrc/init.d/*"))
	require.NoError(t, err)
	require.Len(t, scripts, 6)
	for _, path := range scripts {
		name := filepath.Base(path)
		require.Empty(t, h.Run("sh", "-n", "/etc/init.d/"+name))
		require.Empty(t, h.Run("sh", "-n", "/etc/conf.d/"+name))
		require.NotEmpty(t, h.Run("rc-service", name, "describe"))
	}
	require.NotContains(t, h.Run("rc-update", "--update"), "telegraf")
	after := func(service string) []string {
		script := fmt.Sprintf(`. /run/openrc/deptree; for i in $(seq 0 99); do eval "[ \"\${depinfo_${i}_service}\" = %s ]" || continue
for j in $(seq 0 99); do eval "echo \${depinfo_${i}_iafter_${j}}"; done; done`, service)
		return strings.Fields(h.Run("sh", "-c", script))
	}
	require.Subset(t, after("telegraf"), []string{"carbon-cache", "graphite-web", "influxdb", "grafana"})
	require.Subset(t, after("grafana"), []string{"graphite-web", "influxdb"})
	require.Subset(t, after("graphite-web"), []string{"carbon-cache"})
}

// testOneService starts Telegraf, kills it and its child, reloads and restarts it, well and with a fault.
func testOneService(t *testing.T, h *harness.Host) {
	t.Helper()
	require.Contains(t, h.Run("rc-update", "add", "telegraf", "default"), "added to runlevel default")
	h.Run("rc-service", "telegraf", "start")
	require.Contains(t, h.Run("rc-service", "telegraf", "status"), "status: started")
	waitMetrics(t, h, "node_")
	require.Equal(t, "telegraf telegraf 640", stat(h, "/var/log/telegraf/telegraf.log"))

	for _, program := range []string{"/usr/lib/telegraf-hpc/node_sensors", "/usr/bin/telegraf"} {
		killOne(t, h, program)
		waitMetrics(t, h, "node_")
		require.Contains(t, h.Run("rc-service", "telegraf", "status"), "status: started")
	}
	require.Len(t, h.Processes("/usr/lib/telegraf-hpc/node_sensors"), 1)

	telegraf := h.Processes("/usr/bin/telegraf")
	h.Write("/etc/telegraf/telegraf.d/more.conf", 0o644, "[[inputs.swap]]\n")
	h.Run("rc-service", "telegraf", "reload")
	waitMetrics(t, h, "swap,")
	require.Equal(t, telegraf, h.Processes("/usr/bin/telegraf"))

	// A configuration that is wrong is no reason to give up a Telegraf that runs.
	h.Write("/etc/telegraf/telegraf.d/wrong.conf", 0o644, "[[inputs.nonsense]]\n")
	for _, command := range []string{"restart", "reload", "checkconfig"} {
		said, err := h.Try("rc-service", "telegraf", command)
		require.Error(t, err, command)
		require.Contains(t, said, "E! loading config file /etc/telegraf/telegraf.d/wrong.conf failed", command)
	}
	require.Equal(t, telegraf, h.Processes("/usr/bin/telegraf"))
	h.Run("rm", "/etc/telegraf/telegraf.d/wrong.conf")
	h.Run("rc-service", "telegraf", "restart")
	require.NotEqual(t, telegraf, h.Processes("/usr/bin/telegraf"))
	waitMetrics(t, h, "node_")
}

// killOne kills the one process of a program, or the first of several, and waits until there is another in its place.
func killOne(t *testing.T, h *harness.Host, program string) {
	t.Helper()
	old := h.Processes(program)
	require.NotEmpty(t, old, program)
	require.NoError(t, syscall.Kill(old[0], syscall.SIGKILL))
	harness.Eventually(t, harness.Patience, func() error {
		if now := h.Processes(program); len(now) < len(old) || slices.Contains(now, old[0]) {
			return fmt.Errorf("%s %v was killed, and now there is %v", program, old, now)
		}
		return nil
	})
}

var started = regexp.MustCompile(`(?m)(Starting|Stopping) ([A-Za-z-]+)`)

// order gives which services OpenRC says it starts or stops, in order.
func order(said, verb string) []string {
	var names []string
	for _, m := range started.FindAllStringSubmatch(said, -1) {
		if m[1] == verb {
			names = append(names, m[2])
		}
	}
	return names
}

// testWholeSystem runs carbon, graphite-web, InfluxDB and Telegraf as one service.
func testWholeSystem(t *testing.T, h *harness.Host) {
	t.Helper()
	h.Write("/etc/conf.d/telegraf-hpc", 0o644, "parts=\"carbon-cache graphite-web influxdb telegraf\"\n")
	h.Write("/etc/telegraf/telegraf.d/stores.conf", 0o644, stores)
	forward := []string{"carbon-cache", "graphite-web", "InfluxDB", "Telegraf"}
	require.Equal(t, forward, order(h.Run("rc-service", "telegraf-hpc", "start"), "Starting"))
	require.Equal(t, 4, strings.Count(h.Run("rc-service", "telegraf-hpc", "status"), ": started\n"))
	waitStored(t, h)

	killOne(t, h, "/usr/bin/influxd")
	for _, service := range []string{"carbon-cache", "graphite-web"} { // Of Python all.
		killService(t, h, service)
	}
	waitStored(t, h)
	require.Equal(t, 4, strings.Count(h.Run("rc-service", "telegraf-hpc", "status"), ": started\n"))

	said := h.Run("rc-service", "telegraf-hpc", "restart")
	require.Equal(t, []string{"Telegraf", "InfluxDB", "graphite-web", "carbon-cache"}, order(said, "Stopping"))
	require.Equal(t, forward, order(said, "Starting"))
	waitStored(t, h)

	// One that is down is told; the others are stopped all the same.
	h.Run("rc-service", "influxdb", "stop")
	said, err := h.Try("rc-service", "telegraf-hpc", "status")
	require.Error(t, err)
	require.Contains(t, said, "influxdb: stopped\n")
	h.Run("rc-service", "telegraf-hpc", "stop")
	require.Empty(t, h.Processes("/usr/sbin/supervise-daemon"))
	for _, port := range []int{2003, 8080, 8086} {
		require.Error(t, h.Port(port))
	}
}

// killService kills the process that OpenRC keeps alive for a service, and waits until it has started another.
func killService(t *testing.T, h *harness.Host, service string) {
	t.Helper()
	child := func() int {
		supervisor := strings.TrimSpace(h.Read("/run/" + service + ".pid"))
		for _, pid := range h.Processes("/usr/sbin/supervise-daemon") {
			if hostPid(t, pid) != supervisor {
				continue
			}
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
			require.NoError(t, err)
			var first int
			_, _ = fmt.Sscan(string(content), &first) // There may be none at the moment.
			return first
		}
		return 0
	}
	old := child()
	require.NotZero(t, old, service)
	require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
	harness.Eventually(t, harness.Patience, func() error {
		if now := child(); now == 0 || now == old {
			return fmt.Errorf("%s was killed and is not back", service)
		}
		return nil
	})
}

// waitStored waits until both stores give what Telegraf has gathered after this call.
func waitStored(t *testing.T, h *harness.Host) {
	t.Helper()
	since := strings.TrimSpace(h.Run("date", "+%s"))
	harness.Eventually(t, harness.Patience, func() error {
		said, err := h.Try("influx", "-host", "127.0.0.1", "-database", "hpc", "-execute", "SELECT count(total) FROM mem WHERE time > "+since+"s")
		if err != nil || !strings.Contains(said, "name: mem") {
			return fmt.Errorf("InfluxDB: %w: %s\n%s", err, said, h.Read("/var/log/telegraf/telegraf.log"))
		}
		const ask = `import json, sys, urllib.request
answer = json.load(urllib.request.urlopen("http://127.0.0.1:8080/render?target=host.mem.total&format=json&from=-5min&noCache=true", timeout=5))
sys.exit(0 if any(v is not None and at > int(sys.argv[1]) for v, at in answer[0]["datapoints"]) else "nothing new: %s" % answer)`
		if said, err := h.Try("python3", "-c", ask, since); err != nil {
			return fmt.Errorf("Graphite: %w: %s", err, said)
		}
		return nil
	})
}
