package jupyter_users

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/plugintest"
)

func TestPlainCause(t *testing.T) {
	address := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), "x"},
		{&url.Error{Op: "Get", URL: "https://k/?continue=abc", Err: errors.New("http: server gave HTTP response to HTTPS client")},
			"http: server gave HTTP response to HTTPS client"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: address(6443), Err: syscall.EHOSTUNREACH}, "dial tcp 127.0.0.1:6443: no route to host"},
		{&net.OpError{Op: "read", Net: "tcp", Source: address(51234), Addr: address(6443), Err: syscall.EHOSTUNREACH}, "read: no route to host"},
		{&net.OpError{Op: "read", Net: "tcp", Source: address(51234), Addr: address(6443), Err: syscall.ECONNRESET},
			"it closed the connection before its answer was there"},
		{&url.Error{Op: "Get", Err: io.EOF}, "it closed the connection before its answer was there"},
		{&net.DNSError{Err: "no such host", Name: "k", IsNotFound: true}, "no such host: k"},
		{&net.DNSError{Err: "read udp 10.0.0.1:51234->10.0.0.2:53: i/o timeout", Name: "k", IsTimeout: true}, "the name server does not tell the address of k"},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), "no answer, or not all of it, within option timeout"},
		{errors.New("stream error: stream ID 17; INTERNAL_ERROR; received from peer"), "stream error: INTERNAL_ERROR; received from peer"},
		{errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=19, ErrCode=NO_ERROR, debug=""`),
			`http2: server sent GOAWAY and closed the connection; ErrCode=NO_ERROR, debug=""`},
		{fmt.Errorf("x: %w", &statusError{503, "overloaded"}), "503 Service Unavailable: overloaded"},
		{&statusError{599, ""}, "599"},
	} {
		t.Run(test.want, func(t *testing.T) { require.EqualError(t, plainCause(test.err), test.want) })
	}
}

// pair makes a certificate that signs itself, and its key, as PEM.
func pair(t *testing.T, change func(*x509.Certificate)) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// withTLS is a cluster with a TLS of its own, and a plugin that has its kubeconfig with the user's keys.
func withTLS(t *testing.T, config *tls.Config, user string) *JupyterUsers {
	t.Helper()
	c := &cluster{pods: map[string][]string{"jhub": items(nameLabel, "alice")}, page: 10}
	c.Server = httptest.NewUnstartedServer(c)
	c.TLS = config
	c.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	c.StartTLS()
	t.Cleanup(c.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	setFile(t, path, kubeconfigOf(fmt.Sprintf("server: %q, certificate-authority: %q", c.URL, writeCA(t, c.Server)), user))
	p := newPlugin()
	p.Sources = []*Source{{Namespaces: []string{"jhub"}, Kubeconfig: path}}
	start(t, p)
	return p
}

// A certificate that has expired is said once: the present time is not in the text.
func TestExpiredCertificate(t *testing.T) {
	certificate, key := pair(t, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	})
	both, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	p := withTLS(t, &tls.Config{Certificates: []tls.Certificate{both}, MinVersion: tls.VersionTLS12}, "token: x")
	_, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], ": its certificate is valid from 2024-01-02 03:04 UTC to 2025-01-02 03:04 UTC only")
	_, errs = plugintest.Gather(t, p)
	require.Empty(t, errs)
}

func TestOldTLS(t *testing.T) {
	p := withTLS(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "token: x")
	_, errs := plugintest.Gather(t, p)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "protocol version not supported")
}

// The certificate that the plugin shows is that of its files, also after these have changed.
func TestClientCertificate(t *testing.T) {
	folder := t.TempDir()
	shown := make(chan int64, 10)
	p := withTLS(t, &tls.Config{
		ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			shown <- s.PeerCertificates[0].SerialNumber.Int64()
			return nil
		},
	}, fmt.Sprintf("client-certificate: %[1]s/cert.pem, client-key: %[1]s/key.pem", folder))
	for _, serial := range []int64{7, 8} {
		certificate, key := pair(t, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) })
		setFile(t, filepath.Join(folder, "cert.pem"), string(certificate))
		setFile(t, filepath.Join(folder, "key.pem"), string(key))
		for range 2 {
			_, errs := plugintest.Gather(t, p)
			require.Empty(t, errs)
		}
	}
	require.Len(t, shown, 2, "a connection is used again until its certificate changes")
	require.Equal(t, int64(7), <-shown)
	require.Equal(t, int64(8), <-shown)
}

func TestProxyOfKubeconfig(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Host
		_, _ = io.WriteString(w, `{"kind":"PodList","items":[]}`)
	}))
	t.Cleanup(proxy.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	setFile(t, path, kubeconfigOf(fmt.Sprintf(`server: "http://127.0.0.1:1", proxy-url: %q`, proxy.URL), ""))
	p := newPlugin()
	p.Sources = []*Source{{Namespaces: []string{"jhub"}, Kubeconfig: path}}
	start(t, p)
	_, errs := plugintest.Gather(t, p)
	require.Empty(t, errs)
	require.Equal(t, "127.0.0.1:1", <-asked)
}
