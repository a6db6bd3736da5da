//go:build kube_suites

package jupyter_users

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// kubeconfig writes a kubeconfig whose user has these keys.
func kubeconfig(t testing.TB, k *harness.Kube, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
contexts: [{name: test, context: {cluster: test, user: telegraf}}]
users: [{name: telegraf, user: {%s}}]
`, k.URL, k.CAFile, user), 0o600))
	return path
}

// manyPods are pods of a Hub, several of some users.
func manyPods(n, users int) []harness.KubePod {
	pods := make([]harness.KubePod, n)
	for i := range pods {
		user := fmt.Sprintf("user-2d%d", i%users)
		pods[i] = harness.KubePod{
			Name:        fmt.Sprintf("jupyter-%s-%d", user, i),
			Labels:      map[string]string{"jhub_user": user, "hub.jupyter.org/username": user, "component": "singleuser-server"},
			Annotations: map[string]string{"hub.jupyter.org/username": fmt.Sprintf("user-%d", i%users)},
			Phase:       "Running",
		}
	}
	return pods
}

// A real API server with 1,000 pods, which the plugin may list in two namespaces of three; then its token expires, then the
// server is killed.
func TestKube(t *testing.T) {
	k := harness.StartKube(t)
	for _, namespace := range []string{"af-jupyter", "coffea-casa", "empty", "forbidden"} {
		k.CreateNamespace(namespace)
	}
	k.AllowPods("telegraf", "af-jupyter", "coffea-casa")
	k.AllowUserPods("certified", "coffea-casa", "empty")
	start := time.Now()
	k.CreatePods("coffea-casa", manyPods(1000, 700)...)
	t.Logf("1,000 pods were made in %s", time.Since(start).Round(time.Second))
	k.CreatePods("coffea-casa", harness.KubePod{Name: "no-label"}, harness.KubePod{Name: "done", Labels: map[string]string{"jhub_user": "done"}, Phase: "Succeeded"})
	owner := func(name, user, phase string) harness.KubePod {
		return harness.KubePod{Name: name, Labels: map[string]string{"owner": user}, Phase: phase}
	}
	leaving := owner("leaving", "mallory", "Running")
	leaving.Finalizers = []string{"example.org/stay"}
	k.CreatePods("af-jupyter", owner("a", "alice", "Running"), owner("b", "alice", "Pending"), owner("c", "bob-2dx", "Running"),
		owner("d", "dave", "Failed"), owner("e", "erin", "Succeeded"), owner("f", "frank", "Unknown"), leaving)
	k.DeletePod("af-jupyter", "leaving")

	tokenFile := filepath.Join(t.TempDir(), "token")
	writeToken(t, tokenFile, k.Token("af-jupyter", "telegraf"))
	certificate, key := k.ClientCertificate("certified")
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cert.pem"), certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
	s := watch(t, fmt.Sprintf(`
[[inputs.jupyter_users]]
  list_users = true
  timeout = "30s"
  [[inputs.jupyter_users.source]]
    name = "token"
    namespaces = ["af-jupyter", "coffea-casa", "forbidden"]
    kubeconfig = %q
  [[inputs.jupyter_users.source]]
    name = "certificate"
    namespaces = ["coffea-casa", "empty", "af-jupyter"]
    kubeconfig = %q
`, kubeconfig(t, k, fmt.Sprintf("tokenFile: %q", tokenFile)),
		kubeconfig(t, k, fmt.Sprintf("client-certificate: %q, client-key: %q", filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")))))

	of := func(source, namespace string) map[string]string {
		return map[string]string{"source": source, "namespace": namespace, "kind": "kubernetes"}
	}
	row := s.last("jupyter_users", of("token", "af-jupyter"))
	require.Equal(t, "alice,bob-2dx,frank", row["user_list"])
	require.Equal(t, int64(3), row.Int64(t, "users"))
	require.Equal(t, int64(4), row.Int64(t, "servers"))
	for _, source := range []string{"token", "certificate"} {
		row = s.last("jupyter_users", of(source, "coffea-casa"))
		require.Equal(t, int64(700), row.Int64(t, "users"))
		require.Equal(t, int64(1000), row.Int64(t, "servers"))
		require.True(t, strings.HasPrefix(row["user_list"].(string), "user-0,user-1,user-10,"), row["user_list"])
	}
	// A page ends once it is full: what comes after it, and does not match, is a page more.
	require.Contains(t, []int64{2, 3}, s.last("jupyter_users_source", of("token", "coffea-casa")).Int64(t, "requests"))
	row = s.last("jupyter_users", of("certificate", "empty"))
	require.Equal(t, int64(0), row.Int64(t, "users"))
	require.Equal(t, int64(0), row.Int64(t, "servers"))
	require.NotNil(t, row["user_list"])
	require.Empty(t, row["user_list"])
	s.Until("jupyter_users_source", of("token", "forbidden"), harness.Row{"up": 0})
	s.SaidOnce("E", `source "token": namespace "forbidden": `+k.URL+`: 403 Forbidden: pods is forbidden: User "system:serviceaccount:af-jupyter:telegraf" `+
		`cannot list resource "pods" in API group "" in the namespace "forbidden"`)
	s.SaidOnce("E", `source "certificate": namespace "af-jupyter": `+k.URL+`: 403 Forbidden: pods is forbidden: User "certified" cannot list`)
	require.Equal(t, map[string]string{"users": "integer", "servers": "integer", "user_list": "string", "users_unlisted": "integer"}, s.DB.FieldTypes(database, "jupyter_users"))
	s.requireCheap(of("token", "coffea-casa"))

	// A token that ends while it is used, and its successor in the same file.
	writeToken(t, tokenFile, k.TokenUntil("af-jupyter", "telegraf", time.Now().Add(-50*time.Second)))
	s.Until("jupyter_users_source", of("token", "af-jupyter"), harness.Row{"up": 1})
	s.Until("jupyter_users_source", of("token", "af-jupyter"), harness.Row{"up": 0})
	s.SaidOnce("E", `source "token": namespace "af-jupyter": `+k.URL+`: 401 Unauthorized`)
	s.Until("jupyter_users_source", of("certificate", "coffea-casa"), harness.Row{"up": 1})
	writeToken(t, tokenFile, k.Token("af-jupyter", "telegraf"))
	s.Until("jupyter_users", of("token", "af-jupyter"), harness.Row{"users": 3})

	k.Kill()
	s.Until("jupyter_users_source", of("token", "coffea-casa"), harness.Row{"up": 0})
	s.Until("jupyter_users_source", of("certificate", "coffea-casa"), harness.Row{"up": 0})
	s.SaidOnce("E", `source "certificate": namespace "coffea-casa": `+k.URL+`: dial tcp `+strings.TrimPrefix(k.URL, "https://")+`: connect: connection refused`)
	k.Restart()
	s.Until("jupyter_users", of("token", "coffea-casa"), harness.Row{"users": 700})
	s.Until("jupyter_users", of("certificate", "coffea-casa"), harness.Row{"users": 700})
	k.CreatePods("af-jupyter", owner("g", "grace", "Running"))
	s.Until("jupyter_users", of("token", "af-jupyter"), harness.Row{"users": 4})

	// Nothing that failed ever looked like a count.
	require.Equal(t, map[int64]bool{700: true}, s.values("users", of("token", "coffea-casa")))
	require.Equal(t, map[int64]bool{1000: true}, s.values("servers", of("certificate", "coffea-casa")))
	require.Equal(t, map[int64]bool{3: true, 4: true}, s.values("users", of("token", "af-jupyter")))
	require.Empty(t, s.values("users", of("token", "forbidden")))
	s.Telegraf.Stop()
}

// recordedPage is how few pods a page has that is recorded.
const recordedPage = "3"

// recorder stands between the plugin and a real API server, and keeps what they say.
type recorder struct {
	t      testing.TB
	k      *harness.Kube
	folder string
	tokens map[string]string // the true token of each that the plugin sends

	mu      sync.Mutex
	counts  map[string]int
	expired bool // A list was made to expire.
}

// TestKubeRecord checks that the answers that testcases/kubernetes has are still the answers of a real API server: the plugin
// prints the same for both. With KUBE_RECORD=1 it records them anew.
func TestKubeRecord(t *testing.T) {
	anew := os.Getenv("KUBE_RECORD") != ""
	k := harness.StartKube(t)
	makeRecorded(t, k)
	r := &recorder{t: t, k: k, folder: t.TempDir(), counts: make(map[string]int), tokens: map[string]string{
		"token-of-telegraf": k.Token("af-jupyter", "telegraf"), "token-that-expired": k.TokenUntil("af-jupyter", "telegraf", time.Now().Add(-time.Hour)),
	}}
	proxy := httptest.NewTLSServer(r.proxy())
	t.Cleanup(proxy.Close)
	live := gatherOnce(t, proxy)
	recorded, err := filepath.Glob(filepath.Join(r.folder, "*.http"))
	require.NoError(t, err)
	require.Len(t, recorded, 9, "answers")
	if anew {
		old, err := filepath.Glob(filepath.Join(recordings(t), "*.http"))
		require.NoError(t, err)
		for _, path := range old {
			require.NoError(t, os.Remove(path))
		}
		for _, path := range recorded {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(recordings(t), filepath.Base(path)), text, 0o600))
		}
	}
	require.Equal(t, live, gatherOnce(t, newReplay(t, filepath.Join(recordings(t), "*.http")).Server), "KUBE_RECORD=1 records anew")
}

// makeRecorded makes the pods that are recorded.
func makeRecorded(t testing.TB, k *harness.Kube) {
	t.Helper()
	for _, namespace := range []string{"af-jupyter", "coffea-casa", "jhub", "idle", "forbidden"} {
		k.CreateNamespace(namespace)
	}
	k.AllowPods("telegraf", "af-jupyter", "coffea-casa", "jhub", "idle")
	pod := func(name, label, user, trueName string) harness.KubePod {
		p := harness.KubePod{Name: name, Labels: map[string]string{label: user}, Phase: "Running"}
		if trueName != "" {
			p.Annotations = map[string]string{"hub.jupyter.org/username": trueName}
		}
		return p
	}
	leaving := pod("ml-6", "owner", "mallory", "")
	leaving.Finalizers = []string{"example.org/stay"}
	failed, ended, pending := pod("ml-7", "owner", "frank", ""), pod("ml-8", "owner", "erin", ""), pod("ml-4", "owner", "carol", "")
	failed.Phase, ended.Phase, pending.Phase = "Failed", "Succeeded", ""
	k.CreatePods("af-jupyter", pod("ml-1", "owner", "alice", ""), pod("ml-2", "owner", "alice", ""), pod("ml-3", "owner", "bob-2dx", ""),
		pending, pod("ml-5", "app", "portal", ""), leaving, failed, ended)
	k.DeletePod("af-jupyter", "ml-6")
	k.CreatePods("coffea-casa", pod("jupyter-jose-2dperez", "jhub_user", "jose-2dperez", "jose-perez"), pod("jupyter-zoe-40example-2eorg", "jhub_user", "zoe-40example-2eorg", ""))
	k.CreatePods("jhub", pod("jupyter-user-email-com---0925f997", "hub.jupyter.org/username", "user-email-com---0925f997", "user@email.com"),
		pod("jupyter-other---d957f1de", "hub.jupyter.org/username", "other---d957f1de", ""))
}

// gatherOnce gives what the plugin prints and says when it gathers once from a server, without what is another each time.
func gatherOnce(t testing.TB, server *httptest.Server) (lines []string) {
	t.Helper()
	address := strings.TrimPrefix(server.URL, "https://")
	path := filepath.Join(t.TempDir(), "jupyter_users.conf")
	require.NoError(t, os.WriteFile(path, []byte(recordedConfiguration(t, server.URL, writeCA(t, server))), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Build(t, "./cmd/jupyter_users"), "jupyter_users"), "--config", path, "--once")
	output, _ := cmd.CombinedOutput() // It fails, as some of the answers are errors.
	field := regexp.MustCompile(`\w+=("[^"]*"|[^ ,]+)`)
	for line := range strings.Lines(strings.ReplaceAll(string(output), address, recordedHost)) {
		switch head, _, _ := strings.Cut(line, " "); {
		case strings.HasPrefix(head, "jupyter_users,"):
			fields := field.FindAllString(line[len(head):], -1)
			slices.Sort(fields)
			lines = append(lines, head+" "+strings.Join(fields, ","))
		case !strings.HasPrefix(head, "jupyter_users_"):
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines) // What is said and what is printed come by two ways.
	require.NotEmpty(t, lines)
	return lines
}

func (r *recorder) proxy() http.Handler {
	to, err := url.Parse(r.k.URL)
	require.NoError(r.t, err)
	ca, err := os.ReadFile(r.k.CAFile)
	require.NoError(r.t, err)
	pool := x509.NewCertPool()
	require.True(r.t, pool.AppendCertsFromPEM(ca))
	return &httputil.ReverseProxy{
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			query := p.Out.URL.Query()
			query.Set("limit", recordedPage)
			p.Out.URL.RawQuery = query.Encode()
			p.Out.Header.Set("Authorization", "Bearer "+r.tokens[strings.TrimPrefix(p.In.Header.Get("Authorization"), "Bearer ")])
			p.Out.Header.Del("Accept-Encoding")
			r.expire(query)
		},
		ModifyResponse: func(response *http.Response) error {
			body, err := io.ReadAll(response.Body)
			response.Body = io.NopCloser(bytes.NewReader(body))
			if err != nil {
				return err
			}
			return r.keep(response, body)
		},
	}
}

// expire has the server forget the list that is being read in pages, once.
func (r *recorder) expire(query url.Values) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expired || !query.Has("continue") {
		return
	}
	r.expired = true
	r.k.CreateNamespace("later")
	r.k.Forget()
}

// keep writes a request, as the plugin sent it, and the answer to it into a file.
func (r *recorder) keep(response *http.Response, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := response.Request
	query := request.URL.Query()
	query.Set("limit", "500")
	token := ""
	for name, value := range r.tokens {
		if request.Header.Get("Authorization") == "Bearer "+value {
			token = name
		}
	}
	name := token + "-" + strings.Split(request.URL.Path, "/")[4]
	r.counts[name]++
	text := fmt.Sprintf("GET %s?%s HTTP/1.1\nAccept: %s\nAuthorization: Bearer %s\n\nHTTP/1.1 %s\nContent-Type: %s\n\n%s", request.URL.Path, query.Encode(),
		request.Header.Get("Accept"), token, response.Status, response.Header.Get("Content-Type"), body)
	return os.WriteFile(filepath.Join(r.folder, fmt.Sprintf("%s-%d.http", name, r.counts[name])), []byte(text), 0o600)
}
