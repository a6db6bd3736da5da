package jupyter_users

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// recordedHost is the server that a recorded configuration names.
const recordedHost = "server.example.org"

// recordings is the folder of the answers that were recorded.
func recordings(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("../../plugins/inputs/jupyter_users/testcases/kubernetes")
	require.NoError(t, err)
	return folder
}

// recordedConfiguration is the configuration that was recorded with, for another server.
func recordedConfiguration(t testing.TB, url, caFile string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recordings(t), "telegraf.conf"))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), `"https://`+recordedHost+`"`, fmt.Sprintf("%q\ntls_ca = %q", url, caFile))
}

func namespaceOf(source, namespace string) map[string]string {
	return map[string]string{"source": source, "namespace": namespace, "kind": "kubernetes"}
}

// What a real API server answered, and what breaks it: each is said once, none looks like a count, and the rest goes on.
func TestRecordedKubernetes(t *testing.T) {
	t.Parallel()
	r := newReplay(t, filepath.Join(recordings(t), "*.http"))
	s := watch(t, strings.Replace(recordedConfiguration(t, r.URL, writeCA(t, r.Server)), "list_users = true", "list_users = true\ntimeout = \"3s\"", 1))
	for namespace, want := range map[string]struct {
		users, servers int64
		list           string
	}{
		"af-jupyter": {3, 4, "alice,bob-2dx,carol"}, "coffea-casa": {2, 2, "jose-perez,zoe@example.org"},
		"jhub": {2, 2, "other---d957f1de,user@email.com"}, "idle": {0, 0, ""},
	} {
		row := s.last("jupyter_users", namespaceOf("af", namespace))
		require.Equal(t, want.users, row.Int64(t, "users"), namespace)
		require.Equal(t, want.servers, row.Int64(t, "servers"), namespace)
		require.Equal(t, want.list, row["user_list"], namespace)
	}
	require.Equal(t, map[string]string{"users": "integer", "servers": "integer", "user_list": "string", "users_unlisted": "integer"},
		s.DB.FieldTypes(database, "jupyter_users"))
	s.SaidOnce("E", `source "af": namespace "forbidden": `+r.URL+`: 403 Forbidden: pods is forbidden: User "system:serviceaccount:af-jupyter:telegraf" `+
		`cannot list resource "pods" in API group "" in the namespace "forbidden"`)
	s.SaidOnce("E", `source "late": namespace "af-jupyter": `+r.URL+`: 401 Unauthorized`)

	for _, fault := range []struct {
		do   http.HandlerFunc
		said string
	}{
		{func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"kind":"Status","message":"etcdserver: leader changed","code":503}`)
		}, "503 Service Unavailable: etcdserver: leader changed"},
		{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer, or not all of it, within option timeout"},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "it closed the connection before its answer was there"},
		{func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","items":[{"metadata":`)
		}, `its answer (text/plain): key "items": ends too early`},
	} {
		r.breakDown("jhub", fault.do)
		s.Until("jupyter_users_source", namespaceOf("af", "jhub"), harness.Row{"up": 0})
		s.SaidOnce("E", `source "af": namespace "jhub": `+r.URL+": "+fault.said)
		s.Until("jupyter_users_source", namespaceOf("af", "coffea-casa"), harness.Row{"up": 1})
		r.breakDown("jhub", nil)
		s.Until("jupyter_users_source", namespaceOf("af", "jhub"), harness.Row{"up": 1})
	}
	pid := s.plugin()
	r.CloseClientConnections()
	r.Close()
	s.Until("jupyter_users_source", namespaceOf("af", "coffea-casa"), harness.Row{"up": 0})
	s.SaidOnce("E", `source "af": namespace "coffea-casa": `+r.URL+": dial tcp "+strings.TrimPrefix(r.URL, "https://")+": connect: connection refused")
	require.Equal(t, map[int64]bool{2: true}, s.values("users", namespaceOf("af", "jhub")))
	require.Equal(t, map[int64]bool{3: true}, s.values("users", namespaceOf("af", "af-jupyter")))
	require.Equal(t, map[int64]bool{0: true}, s.values("users", namespaceOf("af", "idle")))
	require.Empty(t, s.values("users", namespaceOf("af", "forbidden")))
	require.Empty(t, s.values("users", namespaceOf("late", "af-jupyter")))
	require.Empty(t, r.unknown, "requests that no real API server was asked")
	require.Equal(t, pid, s.plugin(), "it has run all the time")
	require.NotContains(t, s.Telegraf.Log(), "token-of-telegraf")
	s.Telegraf.Stop()
}

// The cost of 1,000 pods, each as a real API server sent one.
func TestCostOf1000Pods(t *testing.T) {
	t.Parallel()
	const pods, page = 1000, 500
	r := newReplay(t, filepath.Join(recordings(t), "*.http"))
	item := recordedItem(t, "token-of-telegraf-coffea-casa-1.http")
	r.breakDown("coffea-casa", func(w http.ResponseWriter, request *http.Request) {
		from, _ := strconv.Atoi(request.URL.Query().Get("continue")) // There is none at the first.
		next := ""
		if from+page < pods {
			next = strconv.Itoa(from + page)
		}
		items := make([]string, 0, page)
		for i := from; i < from+page; i++ {
			items = append(items, strings.ReplaceAll(strings.ReplaceAll(item, "jose-2dperez", fmt.Sprintf("user-2d%d", i)), "jose-perez", fmt.Sprintf("user-%d", i)))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	})
	s := watch(t, fmt.Sprintf(`
[[inputs.jupyter_users]]
  list_users = true
  [[inputs.jupyter_users.source]]
    namespaces = ["coffea-casa"]
    url = %q
    tls_ca = %q
    token = "token-of-telegraf"
`, r.URL, writeCA(t, r.Server)))
	tags := namespaceOf("kubernetes", "coffea-casa")
	require.Equal(t, int64(pods), s.last("jupyter_users", tags).Int64(t, "users"))
	s.requireCheap(tags)
	s.Telegraf.Stop()
}

// recordedItem gives the first pod of a recorded answer.
func recordedItem(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recordings(t), name))
	require.NoError(t, err)
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	require.NoError(t, json.Unmarshal(text[strings.LastIndex(string(text), "\n\n"):], &list))
	require.Contains(t, string(list.Items[0]), "jose-2dperez")
	return string(list.Items[0])
}

// One GET needs no client of 26 MB.
func TestNoClientGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(harness.Build(t, "./cmd/jupyter_users"), "jupyter_users")
	info, err := buildinfo.ReadFile(path)
	require.NoError(t, err)
	for _, module := range info.Deps {
		require.False(t, strings.HasPrefix(module.Path, "k8s.io/"), module.Path)
	}
	file, err := os.Stat(path)
	require.NoError(t, err)
	t.Logf("%d modules, %.1f MB", len(info.Deps), float64(file.Size())/1e6)
}
