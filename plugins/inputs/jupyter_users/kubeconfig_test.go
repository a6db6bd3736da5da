package jupyter_users

import (
	"encoding/base64"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kubeconfigOf is a kubeconfig with the keys of its cluster and its user.
func kubeconfigOf(cluster, user string) string {
	return `apiVersion: v1
kind: Config
preferences: {}
current-context: af
contexts:
- {name: other, context: {cluster: missing, user: missing}}
- {name: af, context: {cluster: af-cluster, user: telegraf, namespace: ignored}}
- {name: nobody, context: {cluster: af-cluster}}
- {name: lost, context: {cluster: af-cluster, user: missing}}
clusters:
- name: af-cluster
  cluster: {` + cluster + `}
users:
- name: telegraf
  user: {` + user + `}
`
}

const kubeServer = `server: "https://af.example.org:6443"`

func TestParseKubeconfig(t *testing.T) {
	server := &url.URL{Scheme: "https", Host: "af.example.org:6443"}
	encoded := base64.StdEncoding.EncodeToString([]byte("PEM"))
	for _, test := range []struct {
		why, cluster, user, context string
		want                        access
	}{
		{"no more than the server", kubeServer, "", "", access{server: server}},
		{"a context without a user", kubeServer, "token: x", "nobody", access{server: server}},
		{"a token", kubeServer, `token: " abc\n"`, "af", access{server: server, token: secretOrFile{text: []byte("abc")}}},
		{"a token file", kubeServer, `tokenFile: keys/token`, "", access{server: server, token: secretOrFile{file: "/etc/kube/keys/token"}}},
		{"a token file beats a token", kubeServer, `token: abc, tokenFile: /t`, "", access{server: server, token: secretOrFile{file: "/t"}}},
		{
			"files", kubeServer + `, certificate-authority: ca.pem`, `client-certificate: cert.pem, client-key: ../key.pem`, "",
			access{
				server: server, ca: secretOrFile{file: "/etc/kube/ca.pem"}, cert: secretOrFile{file: "/etc/kube/cert.pem"},
				key: secretOrFile{file: "/etc/key.pem"},
			},
		},
		{
			"data", kubeServer + `, certificate-authority-data: ` + encoded, `client-certificate-data: ` + encoded + `, client-key-data: ` + encoded, "",
			access{server: server, ca: secretOrFile{text: []byte("PEM")}, cert: secretOrFile{text: []byte("PEM")}, key: secretOrFile{text: []byte("PEM")}},
		},
		{
			"a name and a proxy", kubeServer + `, tls-server-name: kubernetes, proxy-url: "socks5://proxy:1080"`, "extensions: [{name: x}]", "",
			access{server: server, serverName: "kubernetes", proxy: &url.URL{Scheme: "socks5", Host: "proxy:1080"}},
		},
		{"kubectl proxy", `server: "http://127.0.0.1:8001"`, "", "", access{server: &url.URL{Scheme: "http", Host: "127.0.0.1:8001"}}},
		{"behind a path", `server: "https://rancher/k8s/clusters/c-1"`, "", "", access{server: &url.URL{Scheme: "https", Host: "rancher", Path: "/k8s/clusters/c-1"}}},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, err := parseKubeconfig([]byte(kubeconfigOf(test.cluster, test.user)), test.context, "/etc/kube")
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestParseKubeconfigRefuses(t *testing.T) {
	const login = "is not supported, as it runs a program of its own at each login: use the token of a service account " +
		"(kubectl create token), or a client certificate"
	for _, test := range []struct{ why, text, context, want string }{
		{"nothing", "", "", "key current-context: is not set, and neither is option context"},
		{"no such context", kubeconfigOf(kubeServer, ""), "prod", `key contexts: has no "prod"`},
		{"no such cluster", kubeconfigOf(kubeServer, ""), "other", `key clusters: has no "missing"`},
		{"no such user", kubeconfigOf(kubeServer, ""), "lost", `key users: has no "missing"`},
		{"exec", kubeconfigOf(kubeServer, "exec: {command: aws}"), "", `user "telegraf": key exec: ` + login},
		{"auth-provider", kubeconfigOf(kubeServer, "auth-provider: {name: oidc}"), "", `user "telegraf": key auth-provider: ` + login},
		{"impersonation", kubeconfigOf(kubeServer, "token: x, as: root"), "", `user "telegraf": key as: is not supported`},
		{"a password", kubeconfigOf(kubeServer, "username: x, password: s3cret"), "", `user "telegraf": key password: is not supported`},
		{"a number for a token", kubeconfigOf(kubeServer, "token: 12345"), "", `user "telegraf": key token: is no string`},
		{"half a pair", kubeconfigOf(kubeServer, "client-key: k.pem"), "", `user "telegraf": has only one of client-certificate and client-key`},
		{"bad data of a key", kubeconfigOf(kubeServer, "client-key-data: s3cret!"), "", `user "telegraf": key client-key-data: is no base64`},
		{"bad data of an authority", kubeconfigOf(kubeServer+", certificate-authority-data: x!", ""), "", "key certificate-authority-data: is no base64"},
		{"no server", kubeconfigOf("", ""), "", `cluster "af-cluster": key server: "" must be a URL that begins with one of ["http" "https"]`},
		{"an open server", kubeconfigOf("server: http://af.example.org", ""), "", `cluster "af-cluster": key server: "http://af.example.org" must begin with https://`},
		{"a server with a query", kubeconfigOf("server: 'https://af?x=1'", ""), "", `cluster "af-cluster": key server: "https://af?x=1" must end with its path`},
		{"no URL", kubeconfigOf("server: 'https://a:b:s3cret'", ""), "", `cluster "af-cluster": key server: is no URL`},
		{"unchecked", kubeconfigOf(kubeServer+", insecure-skip-tls-verify: true", ""), "", `cluster "af-cluster": key insecure-skip-tls-verify: ` +
			"is not supported: name the authority of the server's certificate in certificate-authority"},
		{"a bad proxy", kubeconfigOf(kubeServer+", proxy-url: 'ftp://u:s3cret@p'", ""), "", `cluster "af-cluster": key proxy-url: ` +
			`"ftp://u:xxxxx@p" must be a URL that begins with one of ["http" "https" "socks5"]`},
		{"no YAML", "contexts:\n- {name: a\ntoken: s3cret", "", "line 2: is no YAML"},
		{"an alias of a secret", "token: *s3cret", "", "is no kubeconfig"},
		{"a list for a server", kubeconfigOf("server: [s3cret]", ""), "", "key clusters.cluster.server: has a value of another kind than kubectl expects"},
		{"another kind of file", "[s3cret]", "", "is no kubeconfig"},
	} {
		t.Run(test.why, func(t *testing.T) {
			_, err := parseKubeconfig([]byte(test.text), test.context, "/etc/kube")
			require.EqualError(t, err, test.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

// FuzzKubeconfig requires that what is accepted can be used, and that no error tells a secret.
func FuzzKubeconfig(f *testing.F) {
	const secret = "S3CRETS3CRET"
	for _, seed := range []string{
		kubeconfigOf(kubeServer, "token: "+secret), kubeconfigOf(kubeServer, "exec: {command: "+secret+"}"), "token: *" + secret,
		kubeconfigOf(kubeServer+", proxy-url: 'http://u:"+secret+"@p'", "client-key-data: "+secret), "- " + secret, "{{" + secret,
		kubeconfigOf(kubeServer, "client-certificate-data: "+secret+"\n  "+secret),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseKubeconfig([]byte(text), "", "/etc/kube")
		if err != nil {
			// Names of contexts, clusters and users, keys, and addresses without their passwords are told.
			if i := strings.Index(text, "token: "+secret); i >= 0 && strings.Count(text, secret) == 1 {
				require.NotContains(t, err.Error(), secret)
			}
			return
		}
		require.NotEmpty(t, a.server.Hostname())
		require.True(t, a.server.Scheme == "https" || a.server.Scheme == "http" && isLoopback(a.server))
		require.Equal(t, a.cert.empty(), a.key.empty())
		for _, s := range []secretOrFile{a.ca, a.cert, a.key, a.token} {
			require.True(t, s.file == "" || filepath.IsAbs(s.file), s.file)
		}
	})
}
