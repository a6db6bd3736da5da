package af_https

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// nginx is Debian's, in front of the endpoint.
type nginx struct {
	address string
	log     func() string
}

func (s *site) startNginx() *nginx {
	s.t.Helper()
	program := harness.Program(s.t, "nginx", "nginx-light")
	address := harness.FreeAddress(s.t)
	s.write("nginx.conf", fmt.Sprintf(`
daemon off;
pid %[1]s/nginx.pid;
error_log stderr;
events {}
http {
  access_log %[1]s/access.log;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s ssl http2;
    ssl_certificate %[1]s/server.pem;
    ssl_certificate_key %[1]s/server.key;
    client_max_body_size 900;
    location / {
      proxy_pass https://%[3]s;
      proxy_http_version 1.1;
    }
  }
}
`, s.folder, address, s.endpoint.address))
	harness.StartCommand(s.t, s.folder, program, "-c", s.path("nginx.conf"), "-e", "stderr")
	harness.Eventually(s.t, harness.Patience, func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return &nginx{address: address, log: func() string {
		text, err := os.ReadFile(s.path("access.log"))
		require.NoError(s.t, err)
		return string(text)
	}}
}
