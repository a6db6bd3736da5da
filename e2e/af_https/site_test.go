// Package af_https runs af_https under a stock Telegraf, and alone, before a real TLS server that has trouble of all kinds.
package af_https

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// site is a host with Telegraf, and an endpoint.
type site struct {
	t        testing.TB
	folder   string
	bin      string
	endpoint *endpoint
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, folder: t.TempDir(), bin: harness.Build(t, "./cmd/af_https")}
	authority := harness.NewAuthority(t, s.folder)
	authority.Issue("server")
	authority.SelfSigned("wrong")
	s.endpoint = startEndpoint(t, s.folder)
	s.write("token", token+"\n")
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) write(name, content string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(content), 0o600))
}

// configure writes the plugin's own configuration.
func (s *site) configure(address string, options ...string) {
	s.t.Helper()
	s.write("af_https.conf", fmt.Sprintf("[[outputs.af_https]]\n  url = \"https://%s/\"\n  token_file = %q\n  tls_ca = %q\n"+
		"  state_directory = %q\n  document_id = \"document_id\"\n  retry_initial = \"10ms\"\n  retry_max = \"200ms\"\n  %s\n",
		address, s.path("token"), s.path("ca.pem"), s.path("state"), strings.Join(options, "\n  ")))
}

// others are metrics of our inputs, as they tell them.
const others = `who_users user_list="alice,bob",users=2i
jupyter_users,kind=kubernetes,namespace=af-jupyter,source=af user_list="alice",users=1i,servers=1i
jupyter_users,kind=kubernetes,namespace=coffea-casa,source=af user_list="",users=0i,servers=0i
condor_queue,pool=cm,queue=all,schedd=login1 allocated_cores=5i,allocated_memory_bytes=3221225472i,held=3i,idle=2i,running=1i
condor_job,pool=cm,schedd=login1 af_state="running",id="5.0",runtime_seconds=48i,state="running",user="bob"
condor_finished,pool=cm,schedd=login1,state=completed af_state="finished",id="4.0",runtime_seconds=49i,user="alice"
`

// telegraf is the configuration of the stock Telegraf: its own inputs, and metrics of ours from a file.
func (s *site) telegraf(more string) string {
	s.t.Helper()
	s.write("others.in", others)
	return fmt.Sprintf(`
[agent]
  interval = "1s"
  flush_interval = "200ms"
  hostname = "login1.example.org"
  metric_buffer_limit = 100000
[[inputs.system]]
[[inputs.mem]]
[[inputs.disk]]
  ignore_fs = ["tmpfs", "devtmpfs", "overlay", "squashfs"]
[[inputs.net]]
  interfaces = ["*"]
[[inputs.file]]
  files = [%q]
  data_format = "influx"
[[outputs.execd]]
  command = [%q, "--config", %q]
  restart_delay = "200ms"
  data_format = "influx"
  influx_uint_support = true
%s`, s.path("others.in"), filepath.Join(s.bin, "af_https"), s.path("af_https.conf"), more)
}

// shapes are the keys of each kind with their JSON types, besides token, kind and cluster.
var shapes = map[string]map[string]string{
	"CPU":            {"login_node": "string", "load": "float"},
	"MEM":            {"login_node": "string", "total": "integer", "available": "integer"},
	"NETWORK":        {"login_node": "string", "network": "object"},
	"DISK":           {"login_node": "string", "mount": "string", "total": "integer", "used": "integer", "free": "integer", "utilization": "float", "device": "string"},
	"ssh":            {"login_node": "string", "ssh_user_count": "integer", "users": "array"},
	"jupyter-ml":     {"jupyter_user_count": "integer", "users": "array"},
	"jupyter-coffea": {"jupyter_user_count": "integer", "users": "array"},
	"condorqueue":    {"queue": "string", "idle": "integer", "running": "integer", "held": "integer", "allocated_cores": "integer", "allocated_mem": "integer"},
	"condorjob":      {"users": "string", "Id": "string", "Runtime": "integer", "state": "string"},
}

func shapeOf(value any) string {
	switch v := value.(type) {
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if strings.ContainsAny(v.String(), ".e") {
			return "float"
		}
		return "integer"
	default:
		return fmt.Sprintf("%T", v)
	}
}

func checkShape(t testing.TB, d *document) {
	t.Helper()
	want := maps.Clone(shapes[d.kind()])
	require.NotNil(t, want, d.text)
	maps.Copy(want, map[string]string{"token": "string", "kind": "string", "cluster": "string", "document_id": "string"})
	got := make(map[string]string)
	for key, value := range d.keys {
		got[key] = shapeOf(value)
	}
	require.Equal(t, want, got, d.text)
	if traffic, ok := d.keys["network"].(map[string]any); ok {
		require.Equal(t, []string{"integer", "integer", "float"},
			[]string{shapeOf(traffic["sent"]), shapeOf(traffic["received"]), shapeOf(traffic["interval"])}, d.text)
		require.NotContains(t, d.text, ":-", "nothing falls")
	}
}

// waitKinds waits until so many more documents of each kind have come.
func (s *site) waitKinds(more int) {
	s.t.Helper()
	before := make(map[string]int)
	for kind := range shapes {
		before[kind] = len(s.endpoint.documents(kind))
	}
	harness.Eventually(s.t, harness.Patience, func() error {
		for kind := range shapes {
			if n := len(s.endpoint.documents(kind)) - before[kind]; n < more {
				return fmt.Errorf("%d documents of kind %s", n, kind)
			}
		}
		return nil
	})
}

// requireOnce gives how many documents came, each known once by its id. Where the endpoint was stopped before it could
// answer, as many as were under way came again.
func (s *site) requireOnce(again int) int {
	s.t.Helper()
	seen := make(map[string]string)
	repeats := 0
	for _, d := range s.endpoint.documents("") {
		checkShape(s.t, &d)
		if text, known := seen[d.id()]; known {
			require.Equal(s.t, text, d.text)
			repeats++
		}
		seen[d.id()] = d.text
	}
	require.LessOrEqual(s.t, repeats, again)
	return len(seen)
}

// accepted gives how many documents the queue ever took, and how many wait, as af_https --status tells.
func (s *site) accepted() (accepted, queued int) {
	s.t.Helper()
	out := s.run("--status")
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[0] == "all" {
			_, err := fmt.Sscan(fields[1]+" "+fields[4], &queued, &accepted)
			require.NoError(s.t, err, out)
			return accepted, queued
		}
	}
	require.Fail(s.t, "no line", out)
	return 0, 0
}

// run runs af_https to its end, which must be good, and gives what it said.
func (s *site) run(args ...string) string {
	s.t.Helper()
	c := harness.StartCommand(s.t, s.folder, filepath.Join(s.bin, "af_https"), append([]string{"--config", s.path("af_https.conf")}, args...)...)
	require.Zero(s.t, c.Wait(harness.Patience), c.Log())
	return c.Log()
}

// A day of the endpoint: it is well, fails in all ways, refuses, has a wrong certificate, takes no token, and is away while
// Telegraf is started anew. All documents that were made come, once, key for key as they should be.
func TestSite(t *testing.T) {
	s := newSite(t)
	s.configure(s.endpoint.address, `timeout = "500ms"`, `statistics_interval = "2s"`)
	tg := harness.StartTelegraf(t, s.folder, s.telegraf(""))
	s.waitKinds(2)
	s.checkValues()

	s.endpoint.make(troubles())
	s.waitKinds(3)
	s.endpoint.make(always(http.StatusServiceUnavailable))
	tg.WaitLines(1, "fails, and is tried again: 503 Service Unavailable", harness.Patience)
	s.endpoint.make(nil)
	s.waitKinds(1)

	s.endpoint.restart("wrong")
	tg.WaitLines(1, "x509: certificate signed by unknown authority", harness.Patience)
	s.endpoint.restart("server")
	s.waitKinds(1)

	s.write("token", "not-the-right-one\n")
	later := time.Now().Add(time.Minute)
	require.NoError(t, os.Chtimes(s.path("token"), later, later))
	tg.WaitLines(1, "is stopped until this is mended: 401 Unauthorized: wrong token", harness.Patience)
	s.write("token", token+"\n")
	s.waitKinds(1)
	tg.WaitLines(1, "I! [outputs.execd] [outputs.af_https] In 2s: ", harness.Patience)

	s.endpoint.stop()
	tg.WaitLines(1, "; failing: dial tcp", harness.Patience) // In the statistics: nobody is there.
	tg.Stop()
	_, queued := s.accepted()
	require.NotZero(t, queued)
	s.endpoint.restart("server")
	tg.Restart(s.telegraf(""))
	s.waitKinds(1)
	tg.Stop()
	s.run("--drain")
	accepted, queued := s.accepted()
	require.Zero(t, queued)
	require.Equal(t, accepted, s.requireOnce(2)) // It was stopped twice while it accepted documents.
	require.NotContains(t, tg.Log(), token)
	state, err := filepath.Glob(s.path("state/*"))
	require.NoError(t, err)
	for _, file := range state {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

// checkValues compares some numbers with those of this machine.
func (s *site) checkValues() {
	s.t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	require.NoError(s.t, err)
	var kib uint64
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &kib)
	require.NoError(s.t, err)
	require.Equal(s.t, strconv.FormatUint(kib<<10, 10), fmt.Sprint(s.endpoint.documents("MEM")[0].keys["total"]))
	for _, d := range s.endpoint.documents("DISK") {
		var fs syscall.Statfs_t
		require.NoError(s.t, syscall.Statfs(fmt.Sprint(d.keys["mount"]), &fs))
		require.Equal(s.t, strconv.FormatUint(fs.Blocks*uint64(fs.Bsize), 10), fmt.Sprint(d.keys["total"]))
	}
	traffic, ok := s.endpoint.documents("NETWORK")[0].keys["network"].(map[string]any)
	require.True(s.t, ok)
	require.Equal(s.t, "1.0", fmt.Sprint(traffic["interval"]))
	require.Equal(s.t, "login1.example.org", s.endpoint.documents("CPU")[0].keys["login_node"])
}

// troubles fails two of three requests, each in another way.
func troubles() func(n int, docs []document, w http.ResponseWriter, r *http.Request) bool {
	return func(n int, _ []document, w http.ResponseWriter, _ *http.Request) bool {
		if n%3 == 0 {
			w.WriteHeader([]int{200, 201, 202}[n/3%3])
			return false
		}
		switch way := n % 11; way {
		case 0, 1, 2:
			w.WriteHeader([]int{500, 502, 408}[way])
		case 3, 4:
			w.Header().Set("Retry-After", []string{"0", time.Now().Add(time.Second).UTC().Format(http.TimeFormat)}[way-3])
			w.WriteHeader(http.StatusTooManyRequests)
		case 5:
			time.Sleep(600 * time.Millisecond) // Longer than the timeout.
		default:
			breakOff(w, []string{"", "HTTP/1.1 2", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 9\r\n\r\nhalf", "no HTTP\r\n\r\n", "\x00"}[way-6])
		}
		return true
	}
}

// breakOff writes a part of an answer and resets the connection.
func breakOff(w http.ResponseWriter, part string) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = buffer.WriteString(part)
	_ = errors.Join(buffer.Flush(), conn.Close())
}

// Documents that are refused are set aside, arrays that are too large are made smaller, and what was set aside can be sent
// again; all with gzip and through Debian's nginx, which answers 413 and 502 itself.
func TestNginx(t *testing.T) {
	s := newSite(t)
	nginx := s.startNginx()
	s.configure(nginx.address, "batch_size = 50", `content_encoding = "gzip"`)
	s.endpoint.make(func(_ int, docs []document, w http.ResponseWriter, _ *http.Request) bool {
		if slices.ContainsFunc(docs, func(d document) bool { return d.keys["Id"] == "7.0" }) {
			http.Error(w, "no sevens", http.StatusBadRequest)
			return true
		}
		return false
	})
	feed := s.feed()
	feed.send(numbered(0, 1000)...)
	harness.Eventually(t, harness.Patience, func() error {
		if n := s.endpoint.count(); n < 999 {
			return fmt.Errorf("%d of 999 documents", n)
		}
		return nil
	})
	require.Contains(t, nginx.log(), " 413 ")
	s.endpoint.stop() // nginx answers 502.
	feed.send(numbered(1000, 1100)...)
	harness.Eventually(t, harness.Patience, func() error {
		if !strings.Contains(nginx.log(), " 502 ") {
			return errors.New("no 502 yet")
		}
		return nil
	})
	s.endpoint.make(nil)
	s.endpoint.restart("server")
	feed.end()
	require.Contains(t, s.run("--replay-dead"), "1 dead letters are in the queue again\n")
	s.run("--drain")
	require.Equal(t, 1100, s.requireOnce(50))
	docs := s.endpoint.documents("condorjob")
	require.Equal(t, "7.0", docs[len(docs)-1].keys["Id"])
}
