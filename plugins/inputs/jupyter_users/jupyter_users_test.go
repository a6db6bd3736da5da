package jupyter_users

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/plugintest"
)

// replay is a server that gives recorded answers. A file has a request and the answer to it, as HTTP has them; those with
// the same request answer it one after the other, and the last one again and again. Authorization is the name of a token.
type replay struct {
	*httptest.Server
	caFile string

	mu      sync.Mutex
	answers map[string][]string
}

func newReplay(t *testing.T, pattern string) *replay {
	t.Helper()
	r := &replay{answers: make(map[string][]string)}
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		_, text, ok := strings.Cut(string(content), "\n\n")
		require.True(t, ok, path)
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(content))))
		require.NoError(t, err, path)
		key := replayKey(request)
		r.answers[key] = append(r.answers[key], text)
	}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	r.caFile = writeCA(t, r.Server)
	return r
}

func replayKey(r *http.Request) string {
	return strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Accept"), r.Header.Get("Authorization")}, "\n")
}

func (r *replay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	key := replayKey(request)
	answers := r.answers[key]
	if len(answers) > 1 {
		r.answers[key] = answers[1:]
	}
	r.mu.Unlock()
	if len(answers) == 0 {
		http.Error(w, fmt.Sprintf(`{"message":"not recorded: %s"}`, request.RequestURI), http.StatusTeapot)
		return
	}
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answers[0])), request)
	if err != nil {
		panic(err) // The test's file is wrong.
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // The client may have gone.
}

// writeCA writes the authority of a test server's certificate into a file.
func writeCA(t testing.TB, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// start makes a plugin of its options ready.
func start(t testing.TB, p *JupyterUsers) *testutil.CaptureLogger {
	t.Helper()
	log := &testutil.CaptureLogger{}
	p.Log = log
	require.NoError(t, p.Init())
	t.Cleanup(p.Stop)
	return log
}

// then is when the recordings were made.
var then = time.Unix(1795275000, 0).UTC()

func TestCases(t *testing.T) {
	plugintest.Cases(t, func(t *testing.T, folder string) (metrics []telegraf.Metric, errs []error) {
		p, ok := plugintest.LoadInput(t, filepath.Join(folder, "telegraf.conf")).(*JupyterUsers)
		require.True(t, ok)
		server := newReplay(t, filepath.Join(folder, "*.http"))
		address, err := url.Parse(server.URL)
		require.NoError(t, err)
		const recorded = "server.example.org"
		for _, s := range p.Sources {
			s.URL, s.TLSCA = strings.ReplaceAll(s.URL, recorded, address.Host), server.caFile
		}
		p.now = func() time.Time { return then }
		start(t, p)
		metrics, errs = plugintest.Gather(t, p)
		for i, err := range errs {
			errs[i] = errors.New(strings.ReplaceAll(err.Error(), address.Host, recorded))
		}
		return metrics, errs
	})
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

func TestReadmeIsShown(t *testing.T) { plugintest.Shown(t, "jupyter_users_self version") }

func TestSampleConfig(t *testing.T) {
	p, ok := plugintest.ParseInput(t, []byte(sampleConfig)).(*JupyterUsers)
	require.True(t, ok)
	all, ok := plugintest.ParseInput(t, plugintest.Uncommented(sampleConfig)).(*JupyterUsers)
	require.True(t, ok)
	require.Len(t, all.Sources, 2)
	require.Equal(t, newPlugin().Timeout, all.Timeout)
	require.Equal(t, newPlugin().MaxResponse, all.MaxResponse)
	for _, of := range []reflect.Type{reflect.TypeFor[JupyterUsers](), reflect.TypeFor[Source]()} {
		for i := range of.NumField() {
			if tag := of.Field(i).Tag.Get("toml"); tag != "" && tag != "-" {
				require.Contains(t, sampleConfig, tag)
			}
		}
	}
	require.NoError(t, p.Init())
	require.NoError(t, all.Init())
	require.Equal(t, "af", all.sources[0].name)
	require.Equal(t, "hub", all.sources[1].name)
}

func TestInitErrors(t *testing.T) {
	hub := func(change func(s *Source)) *Source {
		s := &Source{Kind: "jupyterhub", URL: "https://hub.example.org/hub/api", TokenFile: "/t"}
		change(s)
		return s
	}
	for _, test := range []struct {
		name    string
		sources []*Source
		want    string
	}{
		{"unknown kind", []*Source{{Kind: "slurm"}}, `kind: "slurm" is none of ["kubernetes" "jupyterhub"]`},
		{"the same name", []*Source{{Name: "a"}, {Name: "a"}}, ""},
		{"a namespace that leads elsewhere", []*Source{{Namespaces: []string{"../nodes"}}}, `namespaces: "../nodes" is no name of a namespace`},
		{"an empty namespace", []*Source{{Namespaces: []string{""}}}, `namespaces: "" is no name of a namespace`},
		{"a namespace twice", []*Source{{Namespaces: []string{"a", "a"}}}, `namespaces: "a" is there twice`},
		{"a label with a value", []*Source{{Label: "owner=alice"}}, `label: "owner=alice" is no key of a label`},
		{"two labels", []*Source{{Label: "owner,app"}}, `label: "owner,app" is no key of a label`},
		{"unknown names", []*Source{{Names: "escaped"}}, `names: "escaped" is none of ["kubespawner" "plain"]`},
		{"two ways", []*Source{{Kubeconfig: "/k", URL: "https://k"}}, "url: can't be with kubeconfig"},
		{"a context of nothing", []*Source{{Context: "af"}}, "context: is of kubeconfig, which is not set"},
		{"a kubeconfig that is somewhere", []*Source{{Kubeconfig: "config"}}, "kubeconfig: must be an absolute path"},
		{"an open Kubernetes", []*Source{{URL: "http://k.example.org"}}, "url: must begin with https://"},
		{"no URL", []*Source{{URL: "k.example.org:6443"}}, `url: "k.example.org:6443" must be a URL that begins with one of ["http" "https"]`},
		{"a token for nobody", []*Source{{Token: config.NewSecret([]byte("x"))}}, "token: is of url, which is not set"},
		{"a token file for nobody", []*Source{{TokenFile: "/t"}}, "token_file: is of url, which is not set"},
		{"an authority for nobody", []*Source{{TLSCA: "/ca"}}, "tls_ca: is of url, which is not set"},
		{"two tokens", []*Source{hub(func(s *Source) { s.Token = config.NewSecret([]byte("x")) })}, "token: can't be with token_file"},
		{"a hub without an address", []*Source{hub(func(s *Source) { s.URL = "" })}, "url: must be set"},
		{"a hub without a token", []*Source{hub(func(s *Source) { s.TokenFile = "" })}, "token: must be set, or token_file"},
		{"a hub with namespaces", []*Source{hub(func(s *Source) { s.Namespaces = []string{"a"} })}, `namespaces: is for kind = "kubernetes" only`},
		{"a hub with a kubeconfig", []*Source{hub(func(s *Source) { s.Kubeconfig = "/k" })}, `kubeconfig: is for kind = "kubernetes" only`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlugin()
			p.Sources = test.sources
			want := "option source 1: " + test.want
			if len(test.sources) > 1 {
				want = `option source 2: name: "a" is there twice`
			}
			require.EqualError(t, p.Init(), want)
		})
	}
	for want, change := range map[string]func(p *JupyterUsers){
		"option max_users: must be at least 1":                        func(p *JupyterUsers) { p.MaxUsers = 0 },
		"option timeout: must be more than 0s":                        func(p *JupyterUsers) { p.Timeout = 0 },
		"option max_response: must be at least 1MiB":                  func(p *JupyterUsers) { p.MaxResponse = 1000 },
		`option users: "nick" is none of ["name" "pseudonym" "none"]`: func(p *JupyterUsers) { p.Users = "nick" },
		`option pseudonym_key: must be set with users = "pseudonym"`:  func(p *JupyterUsers) { p.Users = "pseudonym" },
		`option list_users: can't be with users = "none"`:             func(p *JupyterUsers) { p.Users, p.ListUsers = "none", true },
	} {
		p := newPlugin()
		change(p)
		require.EqualError(t, p.Init(), want)
	}
}

// cluster is a Kubernetes in a test: its pods by namespace, and what it does in place of an answer.
type cluster struct {
	*httptest.Server
	pods map[string][]string // the items of each namespace's list
	page int                 // how many at once, at most
	step func(w http.ResponseWriter, r *http.Request) (done bool)

	mu    sync.Mutex
	asked []*http.Request
}

func newCluster(t testing.TB, pods map[string][]string) *cluster {
	t.Helper()
	c := &cluster{pods: pods, page: 1000}
	c.Server = httptest.NewUnstartedServer(c)
	c.EnableHTTP2 = true
	// Clients that give up a handshake are part of what is tested.
	c.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r)
	step := c.step
	c.mu.Unlock()
	if step != nil && step(w, r) {
		return
	}
	namespace := strings.Split(r.URL.Path, "/")[4]
	items := c.pods[namespace]
	from := 0
	if _, err := fmt.Sscanf(r.URL.Query().Get("continue"), "from-%d", &from); err != nil && r.URL.Query().Has("continue") {
		panic(err)
	}
	to, next := min(from+c.page, len(items)), ""
	if to < len(items) {
		next = fmt.Sprintf("from-%d", to)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items[from:to], ","))
}

// setStep changes what the server does in place of an answer.
func (c *cluster) setStep(step func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = step
}

// items are pods of these users.
func items(label string, names ...string) []string {
	pods := make([]string, 0, len(names))
	for i, name := range names {
		pods = append(pods, fmt.Sprintf(`{"metadata":{"name":"p%d","labels":{%q:%q}}}`, i, label, name))
	}
	return pods
}

// onCluster is a plugin that asks namespaces of a cluster.
func onCluster(t testing.TB, c *cluster, namespaces ...string) *JupyterUsers {
	t.Helper()
	p := newPlugin()
	p.ListUsers = true
	p.Sources = []*Source{{URL: c.URL, TLSCA: writeCA(t, c.Server), Namespaces: namespaces, Token: config.NewSecret([]byte("s3cret-token\n"))}}
	return p
}

// fieldsOf gives the fields of the measurement by the tag namespace, or by the tag source where there is none.
func fieldsOf(metrics []telegraf.Metric, measurement string) map[string]map[string]any {
	found := make(map[string]map[string]any)
	for _, m := range metrics {
		if m.Name() != measurement {
			continue
		}
		of, ok := m.GetTag("namespace")
		if !ok {
			of, _ = m.GetTag("source")
		}
		found[of] = m.Fields()
	}
	return found
}

func TestPages(t *testing.T) {
	c := newCluster(t, map[string][]string{
		"af-jupyter":  items("owner", "alice", "bob-2dx", "alice", "carol", ""),
		"coffea-casa": append(items("jhub_user", "jose-2dperez"), `{"metadata":{"labels":{"jhub_user":"dave"},"deletionTimestamp":"2026-11-21T17:00:00Z"}}`),
		"empty":       nil,
	})
	c.page = 2
	p := onCluster(t, c, "af-jupyter", "coffea-casa", "empty")
	start(t, p)
	metrics, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Equal(t, map[string]map[string]any{
		"af-jupyter":  {"users": int64(3), "servers": int64(5), "user_list": "alice,bob-2dx,carol", "users_unlisted": int64(0)},
		"coffea-casa": {"users": int64(1), "servers": int64(1), "user_list": "jose-perez", "users_unlisted": int64(0)},
		"empty":       {"users": int64(0), "servers": int64(0), "user_list": "", "users_unlisted": int64(0)},
	}, fieldsOf(metrics, "jupyter_users"))
	require.Equal(t, int64(3), fieldsOf(metrics, "jupyter_users_source")["af-jupyter"]["requests"])
	for _, r := range c.asked {
		require.Equal(t, 2, r.ProtoMajor)
		require.Equal(t, "Bearer s3cret-token", r.Header.Get("Authorization"))
		require.Equal(t, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json", r.Header.Get("Accept"))
		require.Equal(t, "500", r.URL.Query().Get("limit"))
		require.Equal(t, "status.phase!=Succeeded,status.phase!=Failed", r.URL.Query().Get("fieldSelector"))
	}
}

func TestSelectorsAndLabels(t *testing.T) {
	c := newCluster(t, nil)
	p := onCluster(t, c, "af-jupyter", "coffea-casa", "jhub")
	p.Sources[0].Selector = "component=singleuser-server,tier in (a, b)"
	other := onCluster(t, c, "af-jupyter")
	other.Sources[0].Name, other.Sources[0].Label = "other", "jupyter/user"
	p.Sources = append(p.Sources, other.Sources...)
	start(t, p)
	_, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	asked := make([]string, 0, len(c.asked))
	for _, r := range c.asked {
		asked = append(asked, strings.Split(r.URL.Path, "/")[4]+" "+r.URL.Query().Get("labelSelector"))
	}
	require.ElementsMatch(t, []string{
		"af-jupyter owner,component=singleuser-server,tier in (a, b)", "coffea-casa jhub_user,component=singleuser-server,tier in (a, b)",
		"jhub hub.jupyter.org/username,component=singleuser-server,tier in (a, b)", "af-jupyter jupyter/user",
	}, asked)
}

func TestMaxUsers(t *testing.T) {
	c := newCluster(t, map[string][]string{"coffea-casa": items("jhub_user", "dave", "bob", "alice", "carol")})
	p := onCluster(t, c, "coffea-casa")
	p.MaxUsers = 3
	start(t, p)
	metrics, _ := plugintest.Gather(t, p)
	require.Equal(t, map[string]any{"users": int64(4), "servers": int64(4), "user_list": "alice,bob,carol", "users_unlisted": int64(1)},
		fieldsOf(metrics, "jupyter_users")["coffea-casa"])
}

func TestPseudonyms(t *testing.T) {
	c := newCluster(t, map[string][]string{"coffea-casa": items("jhub_user", "jose-2dperez", "alice")})
	p := onCluster(t, c, "coffea-casa")
	p.Users, p.PseudonymKey = "pseudonym", config.NewSecret([]byte("0123456789abcdef"))
	start(t, p)
	metrics, _ := plugintest.Gather(t, p)
	fields := fieldsOf(metrics, "jupyter_users")["coffea-casa"]
	require.Equal(t, int64(2), fields["users"])
	require.Regexp(t, `^u[0-9a-f]{12},u[0-9a-f]{12}$`, fields["user_list"])

	p = onCluster(t, c, "coffea-casa")
	p.Users, p.ListUsers = "none", false
	start(t, p)
	metrics, _ = plugintest.Gather(t, p)
	require.Equal(t, map[string]any{"users": int64(2), "servers": int64(2)}, fieldsOf(metrics, "jupyter_users")["coffea-casa"])
}

// A list that expires between two pages is read once more, and what was counted of it before does not count.
func TestExpiredList(t *testing.T) {
	c := newCluster(t, map[string][]string{"empty": nil, "af-jupyter": items("owner", "alice", "bob", "carol")})
	c.page = 2
	gone := 0
	c.step = func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("continue") || gone <= 0 {
			return false
		}
		gone--
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"The provided continue parameter is too old","reason":"Expired","code":410}`)
		return true
	}
	p := onCluster(t, c, "af-jupyter")
	start(t, p)
	gone = 1
	metrics, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"users": int64(3), "servers": int64(3), "user_list": "alice,bob,carol", "users_unlisted": int64(0)}, fieldsOf(metrics, "jupyter_users")["af-jupyter"])
	require.Equal(t, int64(4), fieldsOf(metrics, "jupyter_users_source")["af-jupyter"]["requests"])

	gone = 2
	metrics, errs = plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": namespace "af-jupyter": the list expired twice while its pages were read`)
	require.Empty(t, fieldsOf(metrics, "jupyter_users"))
}

// A server whose pages lead back to themselves is not asked for ever.
func TestPagesWithoutEnd(t *testing.T) {
	c := newCluster(t, nil)
	c.step = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, `{"kind":"PodList","metadata":{"continue":"again"},"items":[]}`)
		return true
	}
	p := onCluster(t, c, "af-jupyter")
	start(t, p)
	metrics, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": namespace "af-jupyter": the next page of the list is the same again`)
	require.Equal(t, int64(2), fieldsOf(metrics, "jupyter_users_source")["af-jupyter"]["requests"])
}

// What fails gives no count, is said once however long it lasts, and hides nothing else.
func TestFailures(t *testing.T) {
	slow := make(chan struct{})
	defer close(slow)
	c := newCluster(t, map[string][]string{"af-jupyter": items("owner", "alice", "bob", "carol"), "coffea-casa": items("jhub_user", "dave")})
	c.page = 2
	other := newCluster(t, map[string][]string{"af-jupyter": items("owner", "eve")})
	answer := func(status int, kind, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const list = `{"kind":"PartialObjectMetadataList","metadata":{},"items":[`
	for _, test := range []struct {
		name string
		do   func(w http.ResponseWriter, r *http.Request)
		want string
	}{
		{"forbidden", answer(403, "application/json", `{"kind":"Status","message":"pods is forbidden: User \"x\" cannot list resource \"pods\""}`),
			`403 Forbidden: pods is forbidden: User "x" cannot list resource "pods"`},
		{"unauthorized", answer(401, "application/json", `{"kind":"Status","message":"Unauthorized"}`), "401 Unauthorized"},
		{"the token in the answer", answer(401, "application/json", `{"message":"bad token s3cret-token"}`), "401 Unauthorized: bad token TOKEN"},
		{"a proxy's page", answer(502, "text/html", "<html>bad gateway</html>"), "502 Bad Gateway"},
		{"too many requests", answer(429, "text/plain", ""), "429 Too Many Requests"},
		{"no answer for us", answer(204, "", ""), "204 No Content"},
		{"a login page", answer(200, "text/html; charset=utf-8", "<html>"),
			"its answer (text/html): invalid character '<' looking for beginning of value"},
		{"garbage", answer(200, "application/json", "\x00\xff"), `its answer (application/json): invalid character '\x00' looking for beginning of value`},
		{"nothing", answer(200, "application/json", ""), "its answer (application/json): ends too early"},
		{"another list", answer(200, "application/json", `{"kind":"NodeList","items":[]}`), `its answer (application/json): is a "NodeList", not a list of pods`},
		{"cut off by the server", answer(200, "application/json", list+`{"metadata":{}},`), `its answer (application/json): key "items": ends too early`},
		{"cut off by the network", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, list)
		}, `its answer (text/plain): key "items": ends too early`},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, list)
			for range 40 {
				_, _ = io.WriteString(w, `{"metadata":{"name":"`+strings.Repeat("x", 1<<16)+`"}},`)
			}
		}, "answers with more than option max_response, 1048576 bytes"},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, list)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-slow:
			case <-r.Context().Done():
			}
		}, "no answer, or not all of it, within option timeout"},
		{"another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "other.example.org", 1)+r.URL.Path, http.StatusFound)
		}, "it redirects to " + strings.Replace(other.URL, "127.0.0.1", "other.example.org", 1) + ", and redirects to other hosts are not followed"},
		{"the open network", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+r.URL.Path, http.StatusFound)
		}, "it redirects to http://" + strings.TrimPrefix(c.URL, "https://") + ", and redirects to other hosts are not followed"},
		{"round and round", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.RequestURI(), http.StatusFound)
		},
			"it redirects again and again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := onCluster(t, c, "af-jupyter", "coffea-casa")
			p.MaxResponse = 1 << 20
			if test.name == "slow" {
				p.Timeout = config.Duration(time.Second)
			}
			more := onCluster(t, other, "af-jupyter").Sources[0]
			more.Name = "other"
			p.Sources = append(p.Sources, more)
			start(t, p)
			for _, page := range []string{"", "from-2"} { // It may fail at any page.
				c.setStep(func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.Path, "/af-jupyter/") || r.URL.Query().Get("continue") != page {
						return false
					}
					test.do(w, r)
					return true
				})
				metrics, errs := plugintest.Gather(t, p)
				if page == "" {
					require.Len(t, errs, 1)
					require.EqualError(t, errs[0], `source "kubernetes": namespace "af-jupyter": `+c.URL+`: `+test.want)
				} else {
					require.Empty(t, errs, "said already")
				}
				up := make(map[string]any)
				for _, m := range metrics {
					source, _ := m.GetTag("source")
					namespace, _ := m.GetTag("namespace")
					switch m.Name() {
					case "jupyter_users":
						require.NotEqual(t, "kubernetes af-jupyter", source+" "+namespace)
						users, _ := m.GetField("users")
						require.Equal(t, int64(1), users)
					case "jupyter_users_source":
						up[source+" "+namespace], _ = m.GetField("up")
					}
				}
				require.Equal(t, map[string]any{"kubernetes af-jupyter": int64(0), "kubernetes coffea-casa": int64(1), "other af-jupyter": int64(1)}, up)
			}
			c.setStep(nil)
			metrics, errs := plugintest.Gather(t, p)
			require.Empty(t, errs)
			require.Equal(t, int64(1), fieldsOf(metrics, "jupyter_users_source")["coffea-casa"]["up"])
			c.setStep(func(w http.ResponseWriter, r *http.Request) bool { test.do(w, r); return true })
			_, errs = plugintest.Gather(t, p)
			require.Len(t, errs, 2, "it was well in between")
			c.setStep(nil)
		})
	}
	for _, r := range other.asked {
		require.Equal(t, "s3cret-token", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "nobody followed the redirect")
		require.NotContains(t, r.Host, "other.example.org")
	}
}

// A redirect on the same host is followed.
func TestRedirectOnTheHost(t *testing.T) {
	c := newCluster(t, map[string][]string{"af-jupyter": items("owner", "alice")})
	c.step = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/cluster/") {
			http.Redirect(w, r, strings.TrimPrefix(r.URL.RequestURI(), "/cluster"), http.StatusFound)
			return true
		}
		return false
	}
	p := onCluster(t, c, "af-jupyter")
	p.Sources[0].URL += "/cluster"
	start(t, p)
	metrics, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Equal(t, "alice", fieldsOf(metrics, "jupyter_users")["af-jupyter"]["user_list"])
	require.Equal(t, "Bearer s3cret-token", c.asked[1].Header.Get("Authorization"))
}

// A server that is not there, or not the one that it should be, is said once, too: no port of ours, no time is in the text.
func TestNoConnection(t *testing.T) {
	c := newCluster(t, map[string][]string{"af-jupyter": items("owner", "alice")})
	p := onCluster(t, c, "af-jupyter")
	p.Sources[0].TLSCA = ""
	start(t, p)
	for i := range 2 {
		_, errs := plugintest.Gather(t, p)
		require.Len(t, errs, 1-i)
		if i == 0 {
			require.EqualError(t, errs[0], `source "kubernetes": namespace "af-jupyter": `+c.URL+
				": tls: failed to verify certificate: x509: certificate signed by unknown authority")
		}
	}
	c.Close()
	_, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": namespace "af-jupyter": `+c.URL+": dial tcp "+strings.TrimPrefix(c.URL, "https://")+
		": connect: connection refused")
	_, errs = plugintest.Gather(t, p)
	require.Empty(t, errs)
}

// Stop ends a gather that waits, and what failed by that is not said.
func TestStop(t *testing.T) {
	c := newCluster(t, nil)
	asked := make(chan struct{})
	c.step = func(_ http.ResponseWriter, r *http.Request) bool {
		close(asked)
		<-r.Context().Done()
		return true
	}
	p := onCluster(t, c, "af-jupyter")
	start(t, p)
	var acc testutil.Accumulator
	done := make(chan error)
	go func() { done <- p.Gather(&acc) }()
	<-asked
	p.Stop()
	require.NoError(t, <-done)
	require.Empty(t, acc.GetTelegrafMetrics())
	require.Empty(t, acc.Errors)
}

// Sources are asked at the same time: each waits here until all have been asked.
func TestSourcesAtOnce(t *testing.T) {
	const sources = 5
	var all sync.WaitGroup
	all.Add(2 * sources)
	p := newPlugin()
	for i := range sources {
		c := newCluster(t, nil)
		c.step = func(http.ResponseWriter, *http.Request) bool {
			all.Done()
			all.Wait()
			return false
		}
		s := onCluster(t, c, "a", "b").Sources[0]
		s.Name = fmt.Sprint("source", i)
		p.Sources = append(p.Sources, s)
	}
	start(t, p)
	metrics, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Len(t, metrics, 4*sources+1)
}

// setFile writes a file in one step, as Kubernetes does.
func setFile(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// In a pod the service account's files are read at each gather: the token is renewed each hour.
func TestInCluster(t *testing.T) {
	c := newCluster(t, map[string][]string{"af-jupyter": items("owner", "alice")})
	address, err := url.Parse(c.URL)
	require.NoError(t, err)
	p := newPlugin()
	p.Sources = []*Source{{Namespaces: []string{"af-jupyter"}}}
	p.root = t.TempDir()
	environment := make(map[string]string)
	p.getenv = func(name string) string { return environment[name] }
	start(t, p)

	_, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": this is no pod of a Kubernetes (KUBERNETES_SERVICE_HOST is not set): set option kubeconfig, or url`)

	environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"] = address.Hostname(), address.Port()
	folder := filepath.Join(p.root, "var/run/secrets/kubernetes.io/serviceaccount")
	metrics, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": reading the token: open `+folder+`/token: no such file or directory`)
	require.Equal(t, map[string]map[string]any{"af-jupyter": {"up": int64(0)}}, fieldsOf(metrics, "jupyter_users_source"))
	require.Empty(t, fieldsOf(metrics, "jupyter_users"))

	ca, err := os.ReadFile(writeCA(t, c.Server))
	require.NoError(t, err)
	for _, step := range []struct{ token, ca, header, want string }{
		{"first\n", string(ca), "Bearer first", ""},
		{"second", string(ca), "Bearer second", ""},
		{" \n", string(ca), "", `source "kubernetes": reading the token: ` + folder + `/token: is empty`},
		{"a b", string(ca), "", `source "kubernetes": the token has a space, a line break or another character that no token has`},
		{"third", "x", "", `source "kubernetes": the certificate of the authority in ` + folder + `/ca.crt has no PEM block of a certificate`},
		{"fourth", string(ca) + "\n", "Bearer fourth", ""},
		{"fourth", string(ca) + "\n" + strings.Repeat(" ", maxFile), "", `source "kubernetes": reading the certificate of the authority: ` +
			folder + `/ca.crt: has more than 1048576 bytes`},
	} {
		setFile(t, filepath.Join(folder, "token"), step.token)
		setFile(t, filepath.Join(folder, "ca.crt"), step.ca)
		c.asked = nil
		_, errs := plugintest.Gather(t, p)
		if step.want != "" {
			require.Len(t, errs, 1)
			require.EqualError(t, errs[0], step.want)
			require.Empty(t, c.asked)
			continue
		}
		require.Empty(t, errs)
		require.Equal(t, step.header, c.asked[0].Header.Get("Authorization"))
	}
}

// Without a source, on a host that is no pod, there is nothing to say but once.
func TestNothingHere(t *testing.T) {
	p := newPlugin()
	p.getenv = func(string) string { return "" }
	log := start(t, p)
	for range 2 {
		metrics, errs := plugintest.Gather(t, p)
		require.Empty(t, errs)
		require.Len(t, metrics, 1)
		require.Equal(t, "jupyter_users_self", metrics[0].Name())
	}
	require.Len(t, log.Messages(), 1)
	require.Equal(t, "This is no pod of a Kubernetes, and no source is configured: there is nothing to gather", log.Messages()[0].Text)
}

// A kubeconfig is read at each gather, and with it what it names.
func TestKubeconfig(t *testing.T) {
	c := newCluster(t, map[string][]string{"jhub": items(nameLabel, "alice")})
	folder := t.TempDir()
	path := filepath.Join(folder, "kubeconfig")
	p := newPlugin()
	p.Sources = []*Source{{Namespaces: []string{"jhub"}, Kubeconfig: path}}
	start(t, p)
	_, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": reading the kubeconfig: open `+path+`: no such file or directory`)

	setFile(t, path, kubeconfigOf(kubeServer, "exec: {command: aws}"))
	_, errs = plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `source "kubernetes": kubeconfig `+path+`: user "telegraf": key exec: is not supported, as it runs a program of its `+
		`own at each login: use the token of a service account (kubectl create token), or a client certificate`)

	ca, err := os.ReadFile(writeCA(t, c.Server))
	require.NoError(t, err)
	setFile(t, filepath.Join(folder, "ca.pem"), string(ca))
	cluster := fmt.Sprintf(`server: %q, certificate-authority: ca.pem, tls-server-name: example.com`, c.URL)
	for _, token := range []string{"one", "two"} {
		c.asked = nil
		setFile(t, path, kubeconfigOf(cluster, "token: "+token))
		_, errs = plugintest.Gather(t, p)
		require.Empty(t, errs)
		require.Equal(t, "Bearer "+token, c.asked[0].Header.Get("Authorization"))
	}
	setFile(t, path, kubeconfigOf(cluster, "client-certificate: ca.pem, client-key: ca.pem"))
	_, errs = plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], `source "kubernetes": the client certificate in `+folder+`/ca.pem: tls: `)
	require.NotContains(t, errs[0].Error(), "two")

	setFile(t, path, kubeconfigOf(fmt.Sprintf(`server: %q, certificate-authority: ca.pem, tls-server-name: other.test`, c.URL), ""))
	_, errs = plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "x509: certificate is valid for example.com, *.example.com, not other.test")
}

// What can be asked of a proxy for kubectl needs no token.
func TestKubectlProxy(t *testing.T) {
	c := &cluster{pods: map[string][]string{"jhub": items(nameLabel, "alice")}, page: 10}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	p := newPlugin()
	p.Sources = []*Source{{Namespaces: []string{"jhub"}, URL: c.URL}}
	start(t, p)
	metrics, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"users": int64(1), "servers": int64(1)}, fieldsOf(metrics, "jupyter_users")["jhub"])
	require.False(t, slices.ContainsFunc(c.asked, func(r *http.Request) bool { return r.Header.Get("Authorization") != "" }))
}

// A gather of 1,000 pods, with TLS.
func BenchmarkGather1000(b *testing.B) {
	page := podPage(1000)
	c := newCluster(b, nil)
	c.step = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, page)
		return true
	}
	p := onCluster(b, c, "coffea-casa")
	start(b, p)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		metrics, errs := plugintest.Gather(b, p)
		require.Empty(b, errs)
		require.Equal(b, int64(1000), fieldsOf(metrics, "jupyter_users")["coffea-casa"]["users"])
	}
}
