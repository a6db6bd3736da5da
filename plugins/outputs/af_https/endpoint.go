package af_https

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"telegraf-hpc/internal/docqueue"
	"telegraf-hpc/internal/version"
)

const (
	// maxRedirects is how many redirections to the same host are followed.
	maxRedirects = 3
	// maxAnswer is how much of an answer is read, so that its connection can be used again.
	maxAnswer = 64 << 10
	// maxReason is how much of an answer is told.
	maxReason = 200
)

// endpoint is where documents are sent to.
type endpoint struct {
	url       string
	host      string
	client    *http.Client
	timeout   time.Duration
	longest   time.Duration // of Retry-After
	array     bool
	gzip      bool
	inHeader  bool // the token is no part of the documents
	tokenFile string

	mu        sync.Mutex
	token     string // as it is
	tokenTime time.Time
	checked   time.Time
}

// answer is what came of sending documents.
type answer struct {
	verdict verdict
	status  int           // 0 where there was none
	reason  string        // for a person; without the token
	wait    time.Duration // what the endpoint asks for
	token   string        // that it was asked with
}

// redirectError says that a redirection was not followed.
type redirectError struct{ why string }

func (e *redirectError) Error() string { return e.why }

func newClient(config *tls.Config) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect lets a redirection pass that keeps the host, HTTPS and the method.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case next.URL.Scheme != "https":
		return &redirectError{"it redirects to " + next.URL.Scheme + "://" + next.URL.Host + ", which is not HTTPS"}
	case next.URL.Host != first.Host:
		return &redirectError{"it redirects to another host, " + next.URL.Host}
	case next.Method != http.MethodPost:
		return &redirectError{"it redirects in a way that turns POST into " + next.Method}
	case len(via) > maxRedirects:
		return &redirectError{fmt.Sprintf("it redirects more than %d times", maxRedirects)}
	}
	return nil
}

// currentToken gives the token. A file is read again when it changed.
func (e *endpoint) currentToken() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tokenFile == "" {
		return e.token, nil
	}
	if now := time.Now(); now.Sub(e.checked) < time.Second && e.token != "" {
		return e.token, nil
	}
	e.checked = time.Now()
	info, err := os.Stat(e.tokenFile)
	if err == nil && (e.token == "" || !info.ModTime().Equal(e.tokenTime)) {
		var text []byte
		if text, err = os.ReadFile(e.tokenFile); err == nil {
			e.token, e.tokenTime = strings.TrimSpace(string(text)), info.ModTime()
		}
	}
	if err == nil && e.token == "" {
		err = fmt.Errorf("%s is empty", e.tokenFile)
	}
	if err != nil {
		return "", fmt.Errorf("option token_file: %w", err)
	}
	return e.token, nil
}

// post sends documents, and judges the answer.
func (e *endpoint) post(ctx context.Context, docs []docqueue.Entry) answer {
	token, err := e.currentToken()
	if err != nil {
		return answer{verdict: stopped, reason: err.Error()}
	}
	a := e.send(ctx, docs, token)
	a.token = token
	return a
}

func (e *endpoint) send(ctx context.Context, docs []docqueue.Entry, token string) answer {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	request, err := e.request(ctx, docs, token)
	if err != nil {
		return answer{verdict: stopped, reason: clean(err.Error(), token)}
	}
	response, err := e.client.Do(request)
	if redirect, ok := errors.AsType[*redirectError](err); ok {
		return answer{verdict: stopped, reason: clean(redirect.why, token)}
	}
	if err != nil {
		// The text of an url.Error has the address in it, which may have secrets of its own.
		if failure, ok := errors.AsType[*url.Error](err); ok {
			err = failure.Err
		}
		return answer{verdict: retryLater, reason: clean(err.Error(), token)}
	}
	defer response.Body.Close()
	// The status is the answer: what becomes of the rest changes nothing.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	a := answer{verdict: judge(response.StatusCode), status: response.StatusCode}
	if a.verdict != delivered {
		a.reason = clean(reason(response.StatusCode, text), token)
		a.wait = retryAfter(response.Header.Get("Retry-After"), time.Now(), e.longest)
	}
	return a
}

func (e *endpoint) request(ctx context.Context, docs []docqueue.Entry, token string) (*http.Request, error) {
	body := e.body(docs, token)
	if e.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		body = b.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "telegraf-hpc/af_https "+version.String())
	if e.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	if e.inHeader && token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

// body is what is sent: one object, or an array of them.
func (e *endpoint) body(docs []docqueue.Entry, token string) []byte {
	size := 2
	for i := range docs {
		size += len(docs[i].Body) + len(token) + 16
	}
	b := make([]byte, 0, size)
	if e.array {
		b = append(b, '[')
	}
	for i := range docs {
		if i > 0 {
			b = append(b, ',')
		}
		if e.inHeader {
			b = append(b, docs[i].Body...)
		} else {
			b = appendWithToken(b, docs[i].Body, token)
		}
	}
	if e.array {
		b = append(b, ']')
	}
	return b
}

// appendWithToken appends a document with its token in front, which is no part of what is on disk. Without a token it is
// null, as in the Analysis Facility's own collector.
func appendWithToken(b, document []byte, token string) []byte {
	b = append(b, `{"token":`...)
	if token == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, token)
	}
	if rest := document[1:]; len(rest) > 1 {
		b = append(append(b, ','), rest...)
	} else {
		b = append(b, '}')
	}
	return b
}

// reason words an answer that was not good: its status, and the first line of what it said.
func reason(status int, text []byte) string {
	words := fmt.Sprintf("%d %s", status, http.StatusText(status))
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return words + ": " + string(line)
		}
	}
	return words
}

// clean makes a text of somebody else fit to be told: without the token, printable and short.
func clean(text, token string) string {
	if token != "" {
		quoted := string(appendText(nil, token))
		for _, form := range []string{token, quoted[1 : len(quoted)-1], url.QueryEscape(token), url.PathEscape(token)} {
			text = strings.ReplaceAll(text, form, "(the token)")
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return strings.TrimSpace(text)
}
