//go:build kube_suites

package jupyter_users

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// hubConfiguration takes the folder and the Hub's address. A server of a user named slow... does not start, or stop, while
// there is a file named hold. Nothing is behind the proxy: the tests ask the Hub itself.
const hubConfiguration = `
import asyncio, os
from jupyterhub.proxy import Proxy
from jupyterhub.spawner import SimpleLocalProcessSpawner

folder = %q

class NoProxy(Proxy):
    should_start = False
    routes = {}
    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}
    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)
    async def get_all_routes(self):
        return dict(self.routes)

class SlowSpawner(SimpleLocalProcessSpawner):
    async def wait(self):
        while self.user.name.startswith("slow") and os.path.exists(folder + "/hold"):
            await asyncio.sleep(0.1)
    async def start(self):
        await self.wait()
        return await super().start()
    async def stop(self, now=False):
        await self.wait()
        return await super().stop(now)

c = get_config()
c.JupyterHub.hub_bind_url = "http://%s"
c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.authenticator_class = "jupyterhub.auth.DummyAuthenticator"
c.JupyterHub.spawner_class = SlowSpawner
c.JupyterHub.allow_named_servers = True
c.JupyterHub.api_page_max_limit = 2
c.JupyterHub.db_url = "sqlite:///" + folder + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = folder + "/cookie"
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0, "slow_stop_timeout": 0}
c.Spawner.cmd = ["python3", folder + "/server.py"]
c.Spawner.start_timeout = 300
c.SimpleLocalProcessSpawner.home_dir_template = folder + "/home-{username}"
c.JupyterHub.services = [{"name": name, "api_token": "token-of-" + name} for name in ("telegraf", "users-only", "admin")]
c.JupyterHub.load_roles = [
    {"name": "telegraf", "services": ["telegraf"], "scopes": ["list:users", "read:servers"]},
    {"name": "users-only", "services": ["users-only"], "scopes": ["list:users"]},
    {"name": "boss", "services": ["admin"], "scopes": ["admin:users", "admin:servers"]},
]
`

// hubServerProgram answers whatever is asked, as a user's server does when the Hub looks whether it is there.
const hubServerProgram = `
import http.server, os, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
url = urllib.parse.urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
http.server.HTTPServer((url.hostname, url.port), Handler).serve_forever()
`

// realHub is a real JupyterHub of Debian.
type realHub struct {
	t      testing.TB
	url    string
	folder string
}

func startRealHub(t testing.TB) *realHub {
	t.Helper()
	harness.Packages(t, "jupyterhub")
	address := harness.FreeAddress(t)
	h := &realHub{t: t, url: "http://" + address + "/hub/api", folder: t.TempDir()}
	config := filepath.Join(h.folder, "jupyterhub_config.py")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, hubConfiguration, h.folder, address), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(h.folder, "server.py"), []byte(hubServerProgram), 0o600))
	program := harness.StartCommand(t, h.folder, "/usr/bin/jupyterhub", "-f", config)
	t.Cleanup(func() { // With it go the users' servers, which are in sessions of their own.
		program.Signal(syscall.SIGTERM)
		program.Wait(harness.Patience)
	})
	harness.Eventually(t, harness.Patience, func() error {
		response, err := http.Get(h.url + "/")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	return h
}

// do asks the Hub for what must be done.
func (h *realHub) do(method, path, body string) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, bytes.NewReader([]byte(body)))
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "token token-of-admin")
	response, err := http.DefaultClient.Do(request)
	require.NoError(h.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	require.Less(h.t, response.StatusCode, 300, "%s %s: %s", method, path, text)
}

func server(user, name string) string {
	path := "/users/" + url.PathEscape(user) + "/server"
	if name != "" {
		path += "s/" + name
	}
	return path
}

// A real JupyterHub, in pages of two, with servers that start, run and stop.
func TestRealHub(t *testing.T) {
	h := startRealHub(t)
	hold := filepath.Join(h.folder, "hold")
	h.do(http.MethodPost, "/users", `{"usernames":["alice","jose-perez","smith, jr","slow-starter","slow-stopper","nobody"]}`)
	for _, user := range []string{"alice", "jose-perez", "smith, jr", "slow-stopper"} {
		h.do(http.MethodPost, server(user, ""), "")
	}
	h.do(http.MethodPost, server("alice", "gpu"), "")
	source := func(name, token string) string {
		return fmt.Sprintf("[[inputs.jupyter_users.source]]\nname = %q\nkind = \"jupyterhub\"\nurl = %q\ntoken = %q\n", name, h.url, token)
	}
	s := watch(t, "[[inputs.jupyter_users]]\nlist_users = true\n"+source("hub", "token-of-telegraf")+source("users-only", "token-of-users-only")+source("nobody", "token-of-nobody"))
	tags := map[string]string{"source": "hub", "kind": "jupyterhub"}
	s.Until("jupyter_users", tags, harness.Row{"servers": 5})
	row := s.last("jupyter_users", tags)
	require.Equal(t, "alice,jose-perez,slow-stopper,smith%2C jr", row["user_list"])
	require.Equal(t, int64(4), row.Int64(t, "users"))
	require.Greater(t, s.last("jupyter_users_source", tags).Int64(t, "requests"), int64(1), "pages")
	row = s.last("jupyter_users", map[string]string{"source": "users-only"})
	require.Equal(t, int64(4), row.Int64(t, "users"))
	require.Nil(t, row["servers"])
	s.SaidOnce("W", `Source "users-only": the token does not have the scope read:servers: users are counted, servers are not`)
	s.SaidOnce("E", `source "nobody": `+h.url[:len(h.url)-len("/hub/api")]+`: 403 Forbidden: `)

	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	h.do(http.MethodDelete, server("slow-stopper", ""), "")
	s.Until("jupyter_users", tags, harness.Row{"users": 3})
	h.do(http.MethodPost, server("slow-starter", ""), "")
	s.Until("jupyter_users", tags, harness.Row{"users": 4})
	require.Equal(t, "alice,jose-perez,slow-starter,smith%2C jr", s.last("jupyter_users", tags)["user_list"])
	require.NoError(t, os.Remove(hold))
	h.do(http.MethodDelete, server("alice", "gpu"), "")
	s.Until("jupyter_users", tags, harness.Row{"servers": 4})
	s.Telegraf.Stop()
}
