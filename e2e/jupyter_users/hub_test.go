package jupyter_users

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// hub stands in for JupyterHub 5, as its documentation has it: the REST API's GET /users with state, offset and limit, of
// which no more than 200 are given at once; tokens with scopes; servers that start, run and stop.
type hub struct {
	*httptest.Server

	mu     sync.Mutex
	users  []hubUser
	scopes map[string][]string // of each token
}

type hubUser struct {
	name    string
	servers map[string]string // what is pending of each, "" where nothing is
}

const hubPageLimit = 200

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{scopes: make(map[string][]string)}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// change changes the users, or what tokens may do.
func (h *hub) change(do func(h *hub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do(h)
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "token ")
	scopes, known := h.scopes[token]
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/hub/api/users":
		hubError(w, http.StatusNotFound, "Not Found")
	case !known:
		hubError(w, http.StatusForbidden, "Missing or invalid credentials.")
	case !slices.Contains(scopes, "list:users"):
		hubError(w, http.StatusForbidden, "Action is not authorized with current scopes; requires any of [list:users]")
	default:
		h.list(w, r, scopes)
	}
}

func hubError(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "message": message})
}

func (h *hub) list(w http.ResponseWriter, r *http.Request, scopes []string) {
	query := r.URL.Query()
	offset, _ := strconv.Atoi(query.Get("offset"))
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		limit = 50
	}
	limit = min(limit, hubPageLimit)
	var there []map[string]any
	for _, u := range h.users {
		if query.Get("state") == "active" && len(u.servers) == 0 {
			continue
		}
		there = append(there, u.model(slices.Contains(scopes, "read:servers")))
	}
	items := there[min(offset, len(there)):min(offset+limit, len(there))]
	var answer any = items
	if r.Header.Get("Accept") == "application/jupyterhub-pagination+json" {
		pages := map[string]any{"offset": offset, "limit": limit, "total": len(there), "next": nil}
		if offset+limit < len(there) {
			// The Hub does not know by which address it was reached.
			pages["next"] = map[string]any{"offset": offset + limit, "limit": limit, "url": fmt.Sprintf("http://10.0.0.1:8081/hub/api/users?offset=%d", offset+limit)}
		}
		answer = map[string]any{"items": items, "_pagination": pages}
	}
	_ = json.NewEncoder(w).Encode(answer) // The client may have gone.
}

func (u hubUser) model(withServers bool) map[string]any {
	m := map[string]any{
		"kind": "user", "name": u.name, "admin": false, "roles": []string{"user"}, "groups": []string{}, "pending": nil,
		"created": "2026-01-12T09:00:00.000000Z", "last_activity": "2026-11-21T17:20:05.110000Z",
	}
	if !withServers {
		return m
	}
	servers := make(map[string]any)
	for name, pending := range u.servers {
		server := map[string]any{
			"name": name, "last_activity": nil, "started": "2026-11-21T15:02:11.204000Z", "pending": nil, "ready": pending == "",
			"stopped": false, "url": "/user/" + u.name + "/" + name, "user_options": map[string]any{}, "progress_url": "/hub/api/users/" + u.name + "/server/progress",
		}
		if pending != "" {
			server["pending"] = pending
		}
		servers[name] = server
	}
	m["servers"] = servers
	return m
}

// A Hub with 1,000 users; its token loses a scope, then all, and is replaced in its file.
func TestJupyterHub(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	const running, idle = 1000, 300
	h.users = append(h.users, hubUser{"leaving", map[string]string{"": "stop"}}, hubUser{"starting, soon", map[string]string{"": "spawn", "gpu": ""}})
	for i := range running - 1 {
		h.users = append(h.users, hubUser{fmt.Sprintf("user%04d@example.org", i), map[string]string{"": ""}})
	}
	for i := range idle {
		h.users = append(h.users, hubUser{fmt.Sprintf("idle%d", i), nil})
	}
	h.scopes["first-token"] = []string{"list:users", "read:servers"}
	tokenFile := filepath.Join(t.TempDir(), "token")
	writeToken(t, tokenFile, "first-token")
	s := watch(t, fmt.Sprintf(`
[[inputs.jupyter_users]]
  list_users = true
  [[inputs.jupyter_users.source]]
    name = "hub"
    kind = "jupyterhub"
    url = "%s/hub/api"
    token_file = %q
  [[inputs.jupyter_users.source]]
    name = "nowhere"
    kind = "jupyterhub"
    url = "%s/services/api"
    token_file = %q
`, h.URL, tokenFile, h.URL, tokenFile))
	tags := map[string]string{"source": "hub", "kind": "jupyterhub"}
	row := s.last("jupyter_users", tags)
	require.Equal(t, int64(running), row.Int64(t, "users"))
	require.Equal(t, int64(running+1), row.Int64(t, "servers"))
	require.True(t, strings.HasPrefix(row["user_list"].(string), "starting%2C soon,user0000@example.org,user0001@example.org,"), row["user_list"])
	require.Equal(t, int64(6), s.last("jupyter_users_source", tags).Int64(t, "requests"), "pages of 200")
	s.SaidOnce("E", `source "nowhere": `+h.URL+`: 404 Not Found`)
	s.requireCheap(tags)

	h.change(func(h *hub) { h.scopes["first-token"] = []string{"list:users"} })
	s.SaidOnce("W", `Source "hub": the token does not have the scope read:servers: users are counted, servers are not`)
	row = s.last("jupyter_users", tags)
	require.Equal(t, int64(running+1), row.Int64(t, "users"), "it is not known that one is leaving")
	require.Nil(t, row["servers"])

	h.change(func(h *hub) { delete(h.scopes, "first-token") })
	s.Until("jupyter_users_source", tags, harness.Row{"up": 0})
	s.SaidOnce("E", `source "hub": `+h.URL+`: 403 Forbidden: Missing or invalid credentials.`)
	h.change(func(h *hub) {
		h.scopes["second-token"] = []string{"list:users", "read:servers"}
		h.users = nil
	})
	writeToken(t, tokenFile, "second-token")
	s.Until("jupyter_users", tags, harness.Row{"users": 0})
	require.Equal(t, map[int64]bool{running: true, running + 1: true, 0: true}, s.values("users", tags))
	require.NotContains(t, s.Telegraf.Log(), "first-token")
	s.Telegraf.Stop()
}
