package harness

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/stock"
)

// Kube is a real kube-apiserver that runs under the test, with a real etcd. Nothing schedules or runs its pods.
type Kube struct {
	*process
	// URL is where it answers.
	URL string
	// CAFile has the authority of its certificate.
	CAFile string

	t       testing.TB
	folder  string
	address string
	etcd    string // URL of etcd
	admin   string // the token of one who may do everything
	client  *http.Client
	signer  *rsa.PrivateKey // of service accounts' tokens
	caKey   *rsa.PrivateKey // of client certificates
	ca      *x509.Certificate
}

// kubeIssuer is the issuer of service accounts' tokens.
const kubeIssuer = "https://kubernetes.default.svc"

// StartKube starts a kube-apiserver with no namespaces but its own. The first call builds it, in ten minutes or so.
func StartKube(t testing.TB) *Kube {
	t.Helper()
	k := &Kube{t: t, folder: t.TempDir(), address: FreeAddress(t), admin: rand.Text()}
	k.URL, k.CAFile = "https://"+k.address, filepath.Join(k.folder, "certs", "apiserver.crt")
	k.makeKeys()
	k.startEtcd()
	k.start()
	return k
}

// Restart starts the server again, after it has ended, with what etcd has.
func (k *Kube) Restart() {
	k.t.Helper()
	require.True(k.t, k.ended(), "kube-apiserver still runs")
	k.start()
}

func (k *Kube) path(name string) string { return filepath.Join(k.folder, name) }

func (k *Kube) makeKeys() {
	var err error
	k.signer, err = rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(k.t, err)
	k.caKey, err = rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(k.t, err)
	k.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, k.ca, k.ca, k.caKey.Public(), k.caKey)
	require.NoError(k.t, err)
	k.write("clients.crt", pemBlock("CERTIFICATE", certificate))
	k.write("sa.key", pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.signer)))
	k.write("tokens.csv", []byte(k.admin+",admin,admin,system:masters\n"))
}

func (k *Kube) write(name string, content []byte) {
	require.NoError(k.t, os.WriteFile(k.path(name), content, 0o600))
}

func pemBlock(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}

func (k *Kube) startEtcd() {
	client, peer := FreeAddress(k.t), FreeAddress(k.t)
	k.etcd = "http://" + client
	start(k.t, k.folder, Program(k.t, "etcd", "etcd-server"), "--data-dir", k.path("etcd"), "--listen-client-urls", k.etcd,
		"--advertise-client-urls", k.etcd, "--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "default=http://"+peer, "--unsafe-no-fsync")
	Eventually(k.t, time.Minute, func() error {
		response, err := http.Get(k.etcd + "/health")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

func (k *Kube) start() {
	k.t.Helper()
	host, port, err := net.SplitHostPort(k.address)
	require.NoError(k.t, err)
	k.process = start(k.t, k.folder, kubeAPIServer(k.t), "--etcd-servers", k.etcd, "--bind-address", host, "--advertise-address", host,
		"--secure-port", port, "--cert-dir", k.path("certs"), "--service-account-key-file", k.path("sa.key"),
		"--service-account-signing-key-file", k.path("sa.key"), "--service-account-issuer", kubeIssuer,
		"--token-auth-file", k.path("tokens.csv"), "--client-ca-file", k.path("clients.crt"), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		// A list that is read in pages comes from etcd, and so expires when etcd forgets.
		"--watch-cache=false")
	Eventually(k.t, 2*time.Minute, func() error {
		if k.ended() {
			k.t.Fatal("kube-apiserver ended at its start")
		}
		if err := k.connect(); err != nil {
			return err
		}
		_, err := k.try(http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// connect trusts the certificate that the server has made for itself.
func (k *Kube) connect() error {
	certificate, err := os.ReadFile(k.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificate) {
		return errors.New("the server's certificate is not written yet")
	}
	k.client = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		Timeout:   time.Minute,
	}
	return nil
}

// try asks the server as one who may do everything.
func (k *Kube) try(method, path, kind string, body []byte) (answer []byte, err error) {
	request, err := http.NewRequestWithContext(k.t.Context(), method, k.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+k.admin)
	request.Header.Set("Content-Type", kind)
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// Do asks the server for what must be done, with an object that becomes JSON.
func (k *Kube) Do(method, path string, object any) []byte {
	k.t.Helper()
	body, err := json.Marshal(object)
	require.NoError(k.t, err)
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	answer, err := k.try(method, path, kind, body)
	require.NoError(k.t, err)
	return answer
}

// CreateNamespace creates a namespace.
func (k *Kube) CreateNamespace(name string) {
	k.t.Helper()
	k.Do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
}

// KubePod is a pod that is to be made.
type KubePod struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Finalizers keep a pod that was deleted from going.
	Finalizers []string `json:"finalizers,omitempty"`
	// Phase is Pending where it is empty.
	Phase string `json:"-"`
}

// CreatePods creates pods in a namespace, several at once.
func (k *Kube) CreatePods(namespace string, pods ...KubePod) {
	k.t.Helper()
	todo := make(chan KubePod)
	failures := make(chan error, len(pods))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for p := range todo {
				if err := k.createPod(namespace, p); err != nil {
					failures <- err
				}
			}
		})
	}
	for _, p := range pods {
		todo <- p
	}
	close(todo)
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(k.t, err)
	}
}

func (k *Kube) createPod(namespace string, p KubePod) error {
	folder := "/api/v1/namespaces/" + namespace + "/pods"
	body, err := json.Marshal(map[string]any{
		"metadata": p, "spec": map[string]any{"containers": []map[string]any{{"name": "notebook", "image": "jupyter/base-notebook"}}},
	})
	if err == nil {
		_, err = k.try(http.MethodPost, folder, "application/json", body)
	}
	if err == nil && p.Phase != "" {
		status := fmt.Appendf(nil, `{"status":{"phase":%q}}`, p.Phase)
		_, err = k.try(http.MethodPatch, folder+"/"+p.Name+"/status", "application/merge-patch+json", status)
	}
	return err
}

// DeletePod deletes a pod. One with a finalizer stays, and is leaving.
func (k *Kube) DeletePod(namespace, name string) {
	k.t.Helper()
	k.Do(http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/"+name, map[string]any{"gracePeriodSeconds": 0})
}

// AllowPods creates a service account in the first namespace that may list pods, and nothing else, in all of them.
func (k *Kube) AllowPods(account string, namespaces ...string) {
	k.t.Helper()
	home := namespaces[0]
	k.Do(http.MethodPost, "/api/v1/namespaces/"+home+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": account}})
	k.letListPods(map[string]any{"kind": "ServiceAccount", "name": account, "namespace": home}, account, namespaces)
}

// AllowUserPods lets the user of a client certificate list pods, and nothing else, in the namespaces.
func (k *Kube) AllowUserPods(user string, namespaces ...string) {
	k.t.Helper()
	k.letListPods(map[string]any{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}, user, namespaces)
}

func (k *Kube) letListPods(subject map[string]any, name string, namespaces []string) {
	k.t.Helper()
	for _, namespace := range namespaces {
		folder := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
		k.Do(http.MethodPost, folder+"/roles", map[string]any{
			"metadata": map[string]any{"name": name},
			"rules":    []map[string]any{{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"list"}}},
		})
		k.Do(http.MethodPost, folder+"/rolebindings", map[string]any{
			"metadata": map[string]any{"name": name}, "subjects": []map[string]any{subject},
			"roleRef": map[string]any{"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
		})
	}
}

// Token gives a token of a service account from the server, as `kubectl create token` does.
func (k *Kube) Token(namespace, account string) string {
	k.t.Helper()
	answer := k.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token",
		map[string]any{"spec": map[string]any{"expirationSeconds": 3600}})
	var request struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	require.NoError(k.t, json.Unmarshal(answer, &request))
	require.NotEmpty(k.t, request.Status.Token)
	return request.Status.Token
}

// TokenUntil gives a token as Token does that ends at a time; the server gives none that ends within ten minutes. It takes
// an ended one for a minute longer, as clocks differ, and keeps for ten seconds in mind whom it has let in.
func (k *Kube) TokenUntil(namespace, account string, end time.Time) string {
	k.t.Helper()
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	require.NoError(k.t, json.Unmarshal(k.Do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account, nil), &object))
	claims, err := json.Marshal(map[string]any{
		"iss": kubeIssuer, "aud": []string{kubeIssuer}, "sub": "system:serviceaccount:" + namespace + ":" + account,
		"iat": end.Add(-time.Hour).Unix(), "nbf": end.Add(-time.Hour).Unix(), "exp": end.Unix(),
		"kubernetes.io": map[string]any{
			"namespace": namespace, "serviceaccount": map[string]string{"name": account, "uid": object.Metadata.UID},
		},
	})
	require.NoError(k.t, err)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.signer, crypto.SHA256, sum[:])
	require.NoError(k.t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// ClientCertificate gives a certificate, and its key, that the server takes for a user's.
func (k *Kube) ClientCertificate(user string) (certificate, key []byte) {
	k.t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(k.t, err)
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, k.ca, private.Public(), k.caKey)
	require.NoError(k.t, err)
	return pemBlock("CERTIFICATE", signed), pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private))
}

// Forget has etcd forget what was before now, as it does every five minutes: lists that are being read in pages expire.
func (k *Kube) Forget() {
	k.t.Helper()
	var now struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	require.NoError(k.t, json.Unmarshal(k.etcdDo("range", `{"key":"AA=="}`), &now))
	k.etcdDo("compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, now.Header.Revision))
}

// etcdDo calls etcd through its gateway for JSON.
func (k *Kube) etcdDo(call, body string) []byte {
	k.t.Helper()
	response, err := http.Post(k.etcd+"/v3/kv/"+call, "application/json", bytes.NewReader([]byte(body)))
	require.NoError(k.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	require.Equal(k.t, http.StatusOK, response.StatusCode, "%s", answer)
	return answer
}

// kubeAPIServer gives the path of the kube-apiserver. It is built from its own module into the user's cache folder, once for
// all that the build depends on.
func kubeAPIServer(t testing.TB) string {
	t.Helper()
	root, err := stock.Repository()
	require.NoError(t, err)
	module := filepath.Join(root, "e2e", "kube", "apiserver")
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		require.NoError(t, err)
		sum.Write(content)
	}
	cache, err := stock.Cache()
	require.NoError(t, err)
	path := filepath.Join(cache, "kube-apiserver-"+hex.EncodeToString(sum.Sum(nil))[:12])
	unlock, err := stock.Lock(path + ".lock")
	require.NoError(t, err)
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	t.Logf("building kube-apiserver into %s", path)
	unfinished := path + ".unfinished"
	defer os.Remove(unfinished)
	run(t, module, []string{"GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0"}, "nice", "-n", "19", "go", "build", "-mod=readonly", "-trimpath",
		"-ldflags", "-s -w", "-o", unfinished, ".")
	require.NoError(t, os.Rename(unfinished, path))
	return path
}
