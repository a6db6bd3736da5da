package af_https

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

const (
	testToken = "s3cret-t0ken"
	soon      = 20 * time.Second // what comes, comes sooner, on a busy machine too
)

// request is what the receiver was sent.
type request struct {
	body   string
	docs   []json.RawMessage
	header http.Header
}

// kind gives the kind of the first document.
func (r *request) kind() string {
	var doc struct{ Kind string }
	_ = json.Unmarshal(r.docs[0], &doc)
	return doc.Kind
}

// receiver is an endpoint. It keeps what it was sent, and answers 200 unless it has another answer.
type receiver struct {
	t      *testing.T
	server *httptest.Server
	ca     string

	mu       sync.Mutex
	requests []request // those that were answered well
	tries    int
	answer   func(w http.ResponseWriter, r *request) (handled bool)
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *request) bool) *receiver {
	t.Helper()
	rc := &receiver{t: t, answer: answer}
	rc.server = httptest.NewTLSServer(rc)
	t.Cleanup(rc.server.Close)
	rc.ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rc.server.Certificate().Raw})
	require.NoError(t, os.WriteFile(rc.ca, text, 0o600))
	return rc
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	if hr.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			rc.t.Errorf("gzip: %v", err)
			return
		}
	}
	r := request{body: string(body), header: hr.Header, docs: []json.RawMessage{body}}
	if body[0] == '[' {
		if err := json.Unmarshal(body, &r.docs); err != nil {
			rc.t.Errorf("%v in %s", err, body)
			return
		}
	} else if !json.Valid(body) {
		rc.t.Errorf("no JSON: %s", body)
	}
	rc.mu.Lock()
	rc.tries++
	answer := rc.answer
	rc.mu.Unlock()
	if answer != nil && answer(w, &r) {
		return
	}
	rc.mu.Lock()
	rc.requests = append(rc.requests, r)
	rc.mu.Unlock()
}

// answers changes the answer.
func (rc *receiver) answers(answer func(w http.ResponseWriter, r *request) bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.answer = answer
}

func (rc *receiver) tried() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.tries
}

// documents gives all documents that came, of a kind or of all.
func (rc *receiver) documents(kind string) (docs []string) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for i := range rc.requests {
		for _, doc := range rc.requests[i].docs {
			one := request{docs: []json.RawMessage{doc}}
			if kind == "" || one.kind() == kind {
				docs = append(docs, string(doc))
			}
		}
	}
	return docs
}

// sizes gives how many documents the requests had.
func (rc *receiver) sizes() (sizes []int) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for i := range rc.requests {
		sizes = append(sizes, len(rc.requests[i].docs))
	}
	return sizes
}

func code(code int) func(http.ResponseWriter, *request) bool {
	return func(w http.ResponseWriter, _ *request) bool {
		w.WriteHeader(code)
		return true
	}
}

// rig is a plugin with its own folder, before an endpoint.
type rig struct {
	t   *testing.T
	rc  *receiver
	dir string
	set func(*AFHTTPS)
	log *testutil.CaptureLogger
	p   *AFHTTPS
}

func newRig(t *testing.T, rc *receiver, set func(*AFHTTPS)) *rig {
	t.Helper()
	r := &rig{t: t, rc: rc, dir: filepath.Join(t.TempDir(), "state"), set: set, log: &testutil.CaptureLogger{}}
	r.start()
	t.Cleanup(func() { require.NoError(t, r.p.Close()) })
	return r
}

// make makes a plugin that is not connected yet.
func (r *rig) make() *AFHTTPS {
	r.t.Helper()
	p := newPlugin()
	p.URL, p.StateDirectory, p.TLSCA = "https://127.0.0.1:1/", r.dir, ""
	if r.rc != nil {
		p.URL, p.TLSCA = r.rc.server.URL+"/", r.rc.ca
	}
	p.Token = config.NewSecret([]byte(testToken))
	p.RetryInitial, p.RetryMax = config.Duration(time.Millisecond), config.Duration(10*time.Millisecond)
	p.Log = r.log
	if r.set != nil {
		r.set(p)
	}
	require.NoError(r.t, p.Init())
	return p
}

func (r *rig) start() {
	r.t.Helper()
	r.p = r.make()
	require.NoError(r.t, r.p.Connect())
}

func (r *rig) restart() {
	r.t.Helper()
	require.NoError(r.t, r.p.Close())
	r.start()
}

// write writes lines of line protocol in one batch.
func (r *rig) write(lines ...string) {
	r.t.Helper()
	require.NoError(r.t, r.p.Write(metrics(r.t, lines...)))
}

func metrics(t testing.TB, lines ...string) []telegraf.Metric {
	t.Helper()
	parser := influx.Parser{}
	require.NoError(t, parser.Init())
	all, err := parser.Parse([]byte(strings.Join(lines, "\n") + "\n"))
	require.NoError(t, err)
	return all
}

// wait waits until the queue is empty.
func (r *rig) wait() {
	r.t.Helper()
	eventually(r.t, func() error {
		if s := r.p.status(); s.Queued > 0 {
			return fmt.Errorf("%d documents wait: %s %s", s.Queued, s.State, s.Trouble)
		}
		return nil
	})
}

func eventually(t testing.TB, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(2 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still so after %s: %v", soon, err)
		}
	}
}

// logged gives the log so far, without the endpoint's address and the folder.
func (r *rig) logged() (lines []string) {
	for _, m := range r.log.Messages() {
		line := strings.ReplaceAll(m.String(), r.dir, "DIR")
		if r.rc != nil {
			line = strings.ReplaceAll(line, r.rc.server.Listener.Addr().String(), "ENDPOINT")
		}
		require.NotContains(r.t, line, testToken)
		lines = append(lines, line)
	}
	return lines
}

// cpu gives lines of which each makes a document.
func cpu(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("system,host=login load1=%d %d", i, 1_700_000_000_000_000_000+int64(i)))
	}
	return lines
}

// cpuDocs gives the documents of cpu.
func cpuDocs(from, to int) (docs []string) {
	for i := from; i < to; i++ {
		docs = append(docs, fmt.Sprintf(`{"token":%q,"kind":"CPU","cluster":"UC-AF","login_node":"login","load":%d.0}`, testToken, i))
	}
	return docs
}
