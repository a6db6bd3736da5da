package jupyter_users

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"telegraf-hpc/internal/version"
)

// maxFile is the most that a file with a token, a certificate or a kubeconfig may have.
const maxFile = 1 << 20

// client asks one server. It makes its connections anew when what they were made with has changed.
type client struct {
	scheme   string // of the token: Bearer or token
	readFile func(path string) ([]byte, error)

	http  *http.Client
	trust trust  // what http was made with
	token string // that is sent along
}

// trust is all that connections depend on.
type trust struct{ ca, cert, key, serverName, proxy string }

func newClient(scheme string) client { return client{scheme: scheme, readFile: readFile} }

// use makes the client ready for requests. It reads all files each time: tokens are renewed every hour, and certificates, too.
func (c *client) use(a access) error {
	t := trust{serverName: a.serverName}
	if a.proxy != nil {
		t.proxy = a.proxy.String()
	}
	for _, item := range []struct {
		what string
		from secretOrFile
		into *string
	}{
		{"token", a.token, &c.token}, {"certificate of the authority", a.ca, &t.ca}, {"client certificate", a.cert, &t.cert},
		{"key of the client certificate", a.key, &t.key},
	} {
		text, err := c.read(item.from)
		if err != nil {
			return fmt.Errorf("reading the %s: %w", item.what, err)
		}
		*item.into = text
	}
	var err error
	if c.token, err = cleanToken(c.token); err != nil {
		return err
	}
	if c.http != nil && c.trust == t {
		return nil
	}
	made, err := t.client(a)
	if err != nil {
		return err
	}
	c.close()
	c.http, c.trust = made, t
	return nil
}

func (c *client) read(s secretOrFile) (string, error) {
	if s.file == "" {
		return string(s.text), nil
	}
	text, err := c.readFile(s.file)
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = fmt.Errorf("%s: is empty", s.file)
	}
	return string(text), err
}

// readFile reads a file that is not long. Its errors name it.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: has more than %d bytes", path, maxFile)
	}
	return text, err
}

// cleanToken takes the white space away that editors and `echo` leave at a token's end.
func cleanToken(token string) (string, error) {
	token = strings.TrimSpace(token)
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7f {
			return "", errors.New("the token has a space, a line break or another character that no token has")
		}
	}
	return token, nil
}

// client makes one that trusts nobody else.
func (t trust) client(a access) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName}
	if t.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.ca)) {
			return nil, fmt.Errorf("the certificate of the authority%s has no PEM block of a certificate", inFile(a.ca))
		}
	}
	if t.cert != "" {
		pair, err := tls.X509KeyPair([]byte(t.cert), []byte(t.key))
		if err != nil {
			return nil, fmt.Errorf("the client certificate%s: %w", inFile(a.cert), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	if a.proxy != nil {
		transport.Proxy = http.ProxyURL(a.proxy)
	}
	return &http.Client{Transport: transport, CheckRedirect: stayOnHost}, nil
}

func inFile(s secretOrFile) string {
	if s.file == "" {
		return ""
	}
	return " in " + s.file
}

// stayOnHost keeps what lets us in from other hosts, and from the open network.
func stayOnHost(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return fmt.Errorf("it redirects to %s://%s, and redirects to other hosts are not followed", next.URL.Scheme, next.URL.Host)
	}
	if len(before) > 3 {
		return errors.New("it redirects again and again")
	}
	return nil
}

// close lets go of connections that nobody uses now. Where one has failed, these may be dead, and would fail one by one.
func (c *client) close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// get asks for a page and has it read. The pages of one question share the bytes that are left.
func (c *client) get(ctx context.Context, address *url.URL, accept string, left *budget, read func(io.Reader) error) error {
	err := c.try(ctx, address, accept, left, read)
	if err == nil {
		return nil
	}
	var status *statusError
	if !errors.As(err, &status) {
		c.close()
	}
	if left.exceeded {
		err = fmt.Errorf("answers with more than option max_response, %d bytes", left.most)
	}
	err = plainCause(err)
	// Servers tell what they were sent: some would tell the token.
	if c.token != "" && strings.Contains(err.Error(), c.token) {
		err = errors.New(strings.ReplaceAll(err.Error(), c.token, "TOKEN"))
	}
	return fmt.Errorf("%s://%s: %w", address.Scheme, address.Host, err)
}

func (c *client) try(ctx context.Context, address *url.URL, accept string, left *budget, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "telegraf-hpc/"+version.String())
	if c.token != "" {
		request.Header.Set("Authorization", c.scheme+" "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	left.body = response.Body
	if response.StatusCode != http.StatusOK {
		return newStatusError(response, left)
	}
	if err := read(left); err != nil {
		return fmt.Errorf("its answer (%s): %w", mediaType(response), err)
	}
	return nil
}

// mediaType gives the kind of an answer: a page for people tells that the address is wrong.
func mediaType(response *http.Response) string {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if kind == "" || len(kind) > 100 {
		return "without a type"
	}
	return kind
}

// budget reads bodies until so many bytes have come.
type budget struct {
	body     io.Reader
	most     int64
	used     int64
	exceeded bool
}

func (b *budget) Read(p []byte) (int, error) {
	// One more than there may be tells whether there is more.
	n, err := b.body.Read(p[:min(int64(len(p)), b.most-b.used+1)])
	b.used += int64(n)
	if b.used > b.most {
		b.exceeded = true
		return 0, errors.New("has too many bytes")
	}
	return n, err
}

// statusError is an answer other than 200 OK.
type statusError struct {
	code int
	text string
}

func newStatusError(response *http.Response, body io.Reader) *statusError {
	const most = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(body, most)) // What is there of it will do.
	return &statusError{response.StatusCode, failureText(text)}
}

func (e *statusError) Error() string {
	status := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.text == "" || e.text == http.StatusText(e.code) {
		return strings.TrimSpace(status)
	}
	return status + ": " + e.text
}

// plainCause gives the cause of a failure in a text that is the same each time: without our own port, the present time, or a
// query.
func plainCause(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	var status *statusError
	if errors.As(err, &status) {
		return status
	}
	var expired x509.CertificateInvalidError
	if errors.As(err, &expired) && expired.Reason == x509.Expired {
		const day = "2006-01-02 15:04 MST"
		return fmt.Errorf("its certificate is valid from %s to %s only", expired.Cert.NotBefore.UTC().Format(day), expired.Cert.NotAfter.UTC().Format(day))
	}
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		if lookup.IsNotFound {
			return fmt.Errorf("no such host: %s", lookup.Name)
		}
		return fmt.Errorf("the name server does not tell the address of %s", lookup.Name)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("no answer, or not all of it, within option timeout")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errors.New("it closed the connection before its answer was there")
	}
	var network *net.OpError
	if errors.As(err, &network) && network.Source != nil {
		return fmt.Errorf("%s: %w", network.Op, network.Err)
	}
	// HTTP/2 counts its streams.
	text := regexp.MustCompile(`stream ID [0-9]+; |LastStreamID=[0-9]+, `).ReplaceAllString(err.Error(), "")
	return errors.New(text)
}

func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
