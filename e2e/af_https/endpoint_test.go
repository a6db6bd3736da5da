package af_https

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// token is the site's.
const token = "of-the-site-only"

// document is one that came.
type document struct {
	text string
	keys map[string]any // numbers as json.Number
}

func (d *document) kind() string { return fmt.Sprint(d.keys["kind"]) }
func (d *document) id() string   { return fmt.Sprint(d.keys["document_id"]) }

// endpoint is a real TLS server. It keeps what it accepted.
type endpoint struct {
	t       testing.TB
	folder  string // of the certificates
	address string
	server  *http.Server

	mu       sync.Mutex
	requests int
	accepted []document
	trouble  func(n int, docs []document, w http.ResponseWriter, r *http.Request) (handled bool)
}

// startEndpoint starts a server whose certificate is folder/server.pem.
func startEndpoint(t testing.TB, folder string) *endpoint {
	t.Helper()
	e := &endpoint{t: t, folder: folder}
	e.start("server", harness.FreeAddress(t))
	t.Cleanup(e.stop)
	return e
}

func (e *endpoint) start(certificate, address string) {
	e.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(e.folder, certificate+".pem"), filepath.Join(e.folder, certificate+".key"))
	require.NoError(e.t, err)
	listener, err := tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	require.NoError(e.t, err)
	e.address = listener.Addr().String()
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = e.server.Serve(listener) }() // Ends with the server.
}

func (e *endpoint) stop() { _ = e.server.Close() }

// restart listens at the same address with another certificate.
func (e *endpoint) restart(certificate string) {
	e.t.Helper()
	e.stop()
	e.start(certificate, e.address)
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	docs, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for i := range docs {
		if docs[i].keys["token"] != token {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.requests
	e.requests++
	if e.trouble != nil && e.trouble(n, docs, w, r) {
		return
	}
	e.accepted = append(e.accepted, docs...)
}

// read reads the documents of a request.
func read(r *http.Request) ([]document, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	texts := []json.RawMessage{body}
	if body[0] == '[' {
		if err := json.Unmarshal(body, &texts); err != nil {
			return nil, err
		}
	}
	docs := make([]document, len(texts))
	for i, text := range texts {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		docs[i].text = string(text)
		if err := decoder.Decode(&docs[i].keys); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// make sets what goes wrong. It is told the number of the request.
func (e *endpoint) make(trouble func(n int, docs []document, w http.ResponseWriter, r *http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests, e.trouble = 0, trouble
}

// documents gives what was accepted, of a kind or of all.
func (e *endpoint) documents(kind string) (docs []document) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.accepted {
		if kind == "" || d.kind() == kind {
			docs = append(docs, d)
		}
	}
	return docs
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.accepted)
}

// always answers with a status.
func always(status int) func(int, []document, http.ResponseWriter, *http.Request) bool {
	return func(_ int, _ []document, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		return true
	}
}
