package af_https

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/influxdata/telegraf/config"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/docqueue"
)

func TestOneByOne(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, nil)
	r := newRig(t, rc, nil)
	r.write(cpu(0, 5)...)
	r.write(cpu(5, 6)...)
	r.wait()
	require.Equal(t, cpuDocs(0, 6), rc.documents(""))
	require.Equal(t, []int{1, 1, 1, 1, 1, 1}, rc.sizes())
	h := rc.requests[0].header
	require.Equal(t, "application/json", h.Get("Content-Type"))
	require.Regexp(t, `^telegraf-hpc/af_https \S+$`, h.Get("User-Agent"))
	require.Empty(t, h.Get("Authorization"))
	require.Empty(t, r.logged())
}

func TestArrays(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip"} {
		rc := newReceiver(t, nil)
		r := newRig(t, rc, func(p *AFHTTPS) { p.BatchSize, p.ContentEncoding, p.TokenIn = 4, encoding, "header" })
		r.write(cpu(0, 10)...)
		r.wait()
		require.Equal(t, []int{4, 4, 2}, rc.sizes())
		require.Contains(t, rc.documents("")[9], `{"kind":"CPU","cluster":"UC-AF","login_node":"login","load":9.0}`)
		require.Equal(t, "Bearer "+testToken, rc.requests[0].header.Get("Authorization"))
	}
}

func TestBatchBytes(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, nil)
	r := newRig(t, rc, func(p *AFHTTPS) { p.BatchSize, p.BatchBytes = 100, 150 })
	r.write(cpu(0, 5)...)
	r.wait()
	require.Equal(t, []int{2, 2, 1}, rc.sizes())
}

// What the endpoint finds too large is sent in halves; a single one becomes a dead letter.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, func(w http.ResponseWriter, r *request) bool {
		if len(r.docs) > 3 || strings.Contains(r.body, `"load":7.0`) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	})
	r := newRig(t, rc, func(p *AFHTTPS) { p.BatchSize = 8 })
	r.write(cpu(0, 20)...)
	r.wait()
	require.Equal(t, slices.Concat(cpuDocs(0, 7), cpuDocs(8, 20)), rc.documents(""))
	require.Equal(t, []string{"E! [] A document of kind CPU was refused, and is in dead.jsonl now: 413 Request Entity Too Large"}, r.logged())
	require.Equal(t, uint64(1), r.p.status().Dead)
}

// A document that is refused goes to the dead letters, alone, with the reason and without the token; it can be sent again.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 415, 422} {
		rc := newReceiver(t, func(w http.ResponseWriter, r *request) bool {
			if strings.Contains(r.body, `"load":3.0`) {
				w.WriteHeader(code)
				_, _ = w.Write([]byte("\n  bad document " + r.body + "\nmore"))
				return true
			}
			return false
		})
		r := newRig(t, rc, func(p *AFHTTPS) { p.BatchSize = 5 })
		r.write(cpu(0, 10)...)
		r.wait()
		require.Equal(t, slices.Concat(cpuDocs(0, 3), cpuDocs(4, 10)), rc.documents(""))
		text, err := os.ReadFile(filepath.Join(r.dir, deadFile))
		require.NoError(t, err)
		require.NotContains(t, string(text), testToken)
		var letter deadLetter
		require.NoError(t, json.Unmarshal(text, &letter))
		require.Equal(t, "CPU", letter.Kind)
		require.Equal(t, code, letter.Status)
		require.Equal(t, fmt.Sprintf(`%d %s: bad document [{"token":"(the token)","kind":"CPU","cluster":"UC-AF","login_node":"login","load":3.0}]`,
			code, http.StatusText(code)), letter.Reason)
		require.JSONEq(t, `{"kind":"CPU","cluster":"UC-AF","login_node":"login","load":3.0}`, string(letter.Document))
		require.WithinDuration(t, time.Now(), letter.Queued, time.Minute)
		require.Len(t, r.logged(), 1)

		rc.answers(nil)
		var out strings.Builder
		require.NoError(t, r.make().Command(&out, "replay-dead", ""))
		require.Equal(t, "1 dead letters are taken into the queue by the running process within seconds\n", out.String())
		eventually(t, func() error {
			if n := len(rc.documents("")); n < 10 {
				return fmt.Errorf("%d documents", n)
			}
			return nil
		})
		r.wait()
		require.Equal(t, cpuDocs(3, 4)[0], rc.documents("")[9])
		left, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// Without a running process the dead letters go into the queue at once, even after a crash half-way; what is no dead letter
// is set aside.
func TestReplayWithoutAProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, newReceiver(t, nil), nil)
	require.NoError(t, r.p.Close())
	var lines strings.Builder
	for n := range 2500 {
		fmt.Fprintf(&lines, `{"kind":"CPU","document":{"kind":"CPU","n":%d}}`+"\n", n)
		if n == 1700 {
			lines.WriteString("garbage\n{}\n")
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "replay-01.jsonl"), []byte(lines.String()), 0o600))
	q, err := docqueue.Open(r.dir, docqueue.Options{})
	require.NoError(t, err)
	require.NoError(t, q.Append([]docqueue.Document{{Kind: "CPU", Body: []byte(`{}`)}}, map[string][]byte{"replayed/replay-01.jsonl": []byte("1000")}))
	require.NoError(t, q.Close())
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, deadBefore), []byte(`{"kind":"CPU","document":{"kind":"CPU","n":-2}}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, deadFile), []byte(`{"kind":"CPU","document":{"kind":"CPU","n":-1}}`+"\n"), 0o600))
	var out strings.Builder
	require.EqualError(t, r.make().Command(&out, "replay-dead", ""), "2 lines are no dead letters: set aside in "+r.dir+"/replay-01.jsonl.bad")
	require.Equal(t, "1502 dead letters are in the queue again\n", out.String())

	require.NoError(t, r.make().Command(&out, "drain", ""))
	require.Equal(t, "1502 dead letters are in the queue again\n1503 documents sent, 0 refused, 0 left\n", out.String())
	docs := r.rc.documents("CPU")
	require.Contains(t, docs[0], `,"n":1000}`)
	require.Contains(t, docs[len(docs)-1], `,"n":-1}`)
	q, err = docqueue.Open(r.dir, docqueue.Options{})
	require.NoError(t, err)
	state, err := q.State(replayedPrefix)
	require.NoError(t, errors.Join(err, q.Close()))
	require.Empty(t, state)
	r.start()
}

// A wrong token stops the delivery, which says so once; with the right one it goes on by itself, and nothing is lost.
func TestStoppedByTheToken(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 403, 404} {
		rc := newReceiver(t, func(w http.ResponseWriter, r *request) bool {
			if strings.Contains(r.body, `"token":"right"`) {
				return false
			}
			w.WriteHeader(code)
			return true
		})
		file := filepath.Join(t.TempDir(), "token")
		r := newRig(t, rc, func(p *AFHTTPS) {
			p.Token, p.TokenFile, p.RetryMax = config.Secret{}, file, config.Duration(time.Hour)
		})
		r.write(cpu(0, 2)...)
		r.write("mem,host=login total=2i,available=1i 1")
		eventually(t, func() error {
			if s := r.p.status(); s.State != "stopped" || len(s.Trouble) == 0 {
				return errors.New("not stopped")
			}
			return nil
		})
		require.Equal(t, []string{"E! [] Delivery to ENDPOINT is stopped until this is mended: option token_file: stat " + file + ": no such file or directory"}, r.logged())
		put := func(token string, at time.Time) {
			require.NoError(t, os.WriteFile(file+".new", []byte(token+"\n"), 0o600))
			require.NoError(t, os.Chtimes(file+".new", at, at))
			require.NoError(t, os.Rename(file+".new", file))
		}
		put("wrong", time.Now())
		text := fmt.Sprintf("%d %s", code, http.StatusText(code))
		eventually(t, func() error {
			if s := r.p.status(); s.Kinds["CPU"].Trouble != text || s.Kinds["MEM"].Trouble != text {
				return fmt.Errorf("%q %q", s.Kinds["CPU"].Trouble, s.Kinds["MEM"].Trouble)
			}
			return nil
		})
		tries := rc.tried()
		require.LessOrEqual(t, tries, 2)
		put("right", time.Now().Add(time.Minute)) // Of a clock that is coarse.
		r.wait()
		require.Len(t, rc.documents(""), 3)
		eventually(t, func() error {
			if len(r.logged()) < 3 {
				return errors.New("it is not said that it goes on")
			}
			return nil
		})
		require.Equal(t, "E! [] Delivery to ENDPOINT is stopped until this is mended: "+text, r.logged()[1])
		require.Regexp(t, `^I! \[\] Delivery to ENDPOINT goes on after \S+$`, r.logged()[2])
	}
}

// Retry-After is heeded, and capped.
func TestRetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		header string
		cap    time.Duration
		least  time.Duration
	}{{"1", time.Minute, time.Second}, {"86400", 300 * time.Millisecond, 300 * time.Millisecond}} {
		var first time.Time
		rc := newReceiver(t, func(w http.ResponseWriter, _ *request) bool {
			if !first.IsZero() {
				return false
			}
			first = time.Now()
			w.Header().Set("Retry-After", test.header)
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		r := newRig(t, rc, func(p *AFHTTPS) { p.RetryAfterMax = config.Duration(test.cap) })
		r.write(cpu(0, 3)...)
		r.wait()
		require.GreaterOrEqual(t, time.Since(first), test.least)
		require.Equal(t, cpuDocs(0, 3), rc.documents(""))
		require.Equal(t, uint64(1), r.p.status().Retried)
		require.Empty(t, r.logged(), "one request that failed is nothing to talk of")
	}
}

// One kind that can't be delivered, or whose requests hang, is in nobody's way.
func TestOneStuckKindDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	for name, trouble := range map[string]func(w http.ResponseWriter, r *request) bool{
		"503": code(503), "401": code(401), "500": func(w http.ResponseWriter, r *request) bool { return code(500)(w, r) },
		"hanging": func(http.ResponseWriter, *request) bool { <-hang; return true },
	} {
		rc := newReceiver(t, func(w http.ResponseWriter, r *request) bool { return r.kind() == "MEM" && trouble(w, r) })
		r := newRig(t, rc, func(p *AFHTTPS) { p.RetryMax = config.Duration(50 * time.Millisecond) })
		r.write("mem,host=login total=2i,available=1i 1")
		eventually(t, func() error {
			if rc.tried() == 0 {
				return errors.New("not tried yet")
			}
			return nil
		})
		r.write(cpu(0, 100)...)
		eventually(t, func() error {
			if n := len(rc.documents("CPU")); n < 100 {
				return fmt.Errorf("%s: %d of 100", name, n)
			}
			return nil
		})
	}
	close(hang)
}

// With one request at a time, each finds out of the queue all that came before it: a kill repeats one of them at most.
func TestMarkedBeforeTheNextTurn(t *testing.T) {
	t.Parallel()
	const each = 200
	var p atomic.Pointer[AFHTTPS]
	var served, early atomic.Uint64
	rc := newReceiver(t, func(http.ResponseWriter, *request) bool {
		if p.Load().status().Queued > 3*each-served.Add(1)+1 {
			early.Add(1)
		}
		return false
	})
	r := newRig(t, rc, nil)
	p.Store(r.p)
	lines := make([]string, 0, 3*each)
	for i := range each {
		lines = append(lines, cpu(i, i+1)...)
		lines = append(lines, fmt.Sprintf("mem,host=login total=1i,available=1i %d", i), fmt.Sprintf("who_users,host=login users=%di %d", i, i))
	}
	r.write(lines...)
	r.wait()
	require.Len(t, rc.documents(""), 3*each)
	require.Zero(t, early.Load(), "requests while an earlier one was not marked as delivered")
}

// A document that breaks the endpoint's filter is not sent for ever; while nothing else passes, it is the endpoint's fault.
func TestServerErrorOfOneDocument(t *testing.T) {
	t.Parallel()
	broken := func(w http.ResponseWriter, r *request) bool {
		if !strings.Contains(r.body, `"load":3.0`) {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	rc := newReceiver(t, code(500))
	r := newRig(t, rc, func(p *AFHTTPS) { p.BatchSize = 4 })
	r.write(cpu(0, 6)...)
	eventually(t, func() error {
		if n := rc.tried(); n < 2*serverErrors {
			return fmt.Errorf("%d tries", n)
		}
		return nil
	})
	require.Equal(t, uint64(6), r.p.status().Queued)
	require.Equal(t, []string{"W! [] Delivery to ENDPOINT fails, and is tried again: 500 Internal Server Error"}, r.logged())
	rc.answers(broken)
	for n := 0; r.p.status().Dead == 0; n++ {
		r.write(fmt.Sprintf("mem,host=login total=2i,available=1i %d", n+1))
		time.Sleep(5 * time.Millisecond) // Others pass, now and then.
		require.Less(t, n, 4000)
	}
	r.wait()
	require.Equal(t, slices.Concat(cpuDocs(0, 3), cpuDocs(4, 6)), rc.documents("CPU"))
	require.Equal(t, uint64(1), r.p.status().Dead)
}

// Connections that break in all ways cost nothing but tries; with a document_id the receiver can tell what came twice.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	n := 0
	seen := make(map[string]bool)
	rc := newReceiver(t, func(w http.ResponseWriter, r *request) bool {
		n++
		if n%2 == 0 {
			return seenBefore(seen, r)
		}
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return true
		}
		switch n % 8 {
		case 1: // Nothing.
		case 3:
			_, _ = buffer.WriteString("HTTP/1.1 2")
		case 5: // Accepted, but the rest is missing.
			_, _ = buffer.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			seenBefore(seen, r)
		case 7:
			_, _ = buffer.WriteString("no HTTP\r\n\r\n")
		}
		_ = errors.Join(buffer.Flush(), conn.Close())
		return true
	})
	r := newRig(t, rc, func(p *AFHTTPS) { p.DocumentID = "id" })
	r.write(cpu(0, 40)...)
	r.wait()
	require.Len(t, seen, 40)
}

// seenBefore remembers a document by its id.
func seenBefore(seen map[string]bool, r *request) bool {
	var doc struct{ ID string }
	_ = json.Unmarshal(r.docs[0], &doc)
	seen[doc.ID] = true
	return false
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := newReceiver(t, nil)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token went out in clear") }))
	t.Cleanup(plain.Close)
	for _, test := range []struct {
		name, to string
		code     int
		trouble  string
	}{
		{"to another host", other.server.URL + "/x?s3cret=1", 307, "it redirects to another host, " + other.server.Listener.Addr().String()},
		{"to http", plain.URL, 308, "it redirects to " + plain.URL + ", which is not HTTPS"},
		{"as GET", "/moved", 302, "it redirects in a way that turns POST into GET"},
		{"in a circle", "/", 307, "it redirects more than 3 times"},
		{"nowhere", "", 301, "301 Moved Permanently"},
	} {
		rc := newReceiver(t, func(w http.ResponseWriter, _ *request) bool {
			if test.to != "" {
				w.Header().Set("Location", test.to)
			}
			w.WriteHeader(test.code)
			return true
		})
		r := newRig(t, rc, nil)
		r.write(cpu(0, 1)...)
		eventually(t, func() error {
			if s := r.p.status(); s.Trouble != test.trouble || s.State != "stopped" {
				return fmt.Errorf("%s: %s %q", test.name, s.State, s.Trouble)
			}
			return nil
		})
	}
	require.Zero(t, other.tried())

	moved := 0
	rc := newReceiver(t, func(w http.ResponseWriter, _ *request) bool {
		if moved++; moved > 1 {
			return false
		}
		w.Header().Set("Location", "/new")
		w.WriteHeader(http.StatusPermanentRedirect)
		return true
	})
	r := newRig(t, rc, nil)
	r.write(cpu(0, 1)...)
	r.wait()
	require.Equal(t, cpuDocs(0, 1), rc.documents(""))
}

// trouble waits for what is wrong with the delivery of a document, and gives it.
func (r *rig) trouble() string {
	r.t.Helper()
	r.write(cpu(0, 1)...)
	eventually(r.t, func() error {
		if r.p.status().Trouble == "" {
			return errors.New("no trouble")
		}
		return nil
	})
	return r.p.status().Trouble
}

func TestTLS(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, nil)
	unknown := newRig(t, rc, func(p *AFHTTPS) { p.TLSCA = "" })
	require.Equal(t, "tls: failed to verify certificate: x509: certificate signed by unknown authority", unknown.trouble())
	name := newRig(t, rc, func(p *AFHTTPS) { p.ServerName = "af.example.org" })
	require.Contains(t, name.trouble(), "x509: certificate is valid for example.com, *.example.com, not af.example.org")
	require.Zero(t, rc.tried())

	old := newReceiver(t, nil)
	old.server.TLS.MaxVersion = tls.VersionTLS11
	old.server.TLS.MinVersion = tls.VersionTLS10
	require.Contains(t, newRig(t, old, nil).trouble(), "tls: protocol version not supported")

	strict := newReceiver(t, nil)
	strict.server.TLS.ClientAuth = tls.RequireAnyClientCert
	require.Contains(t, newRig(t, strict, nil).trouble(), "tls: certificate required")
	require.Zero(t, strict.tried())

	careless := newRig(t, rc, func(p *AFHTTPS) { p.TLSCA, p.InsecureSkipVerify = "", true })
	careless.write(cpu(0, 1)...)
	careless.wait()
	require.Equal(t, []string{"W! [] Option insecure_skip_verify: anybody can pretend to be the endpoint, and get the token"}, careless.logged())
}

// At the end a request that hangs is cut off, and all that was not delivered is there at the next start.
func TestEndsInTime(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	rc := newReceiver(t, func(http.ResponseWriter, *request) bool { <-hang; return true })
	r := newRig(t, rc, nil)
	r.write(cpu(0, 10)...)
	eventually(t, func() error {
		if rc.tried() == 0 {
			return errors.New("not tried yet")
		}
		return nil
	})
	began := time.Now()
	require.NoError(t, r.p.Close())
	require.Less(t, time.Since(began), 4*time.Second)
	require.Equal(t, []string{"I! [] 10 documents wait for the next start"}, r.logged())
	close(hang)
	rc.answers(nil)
	r.start()
	r.wait()
	require.Equal(t, cpuDocs(0, 10), rc.documents(""))
}

// Nothing on disk has the token, and nobody else may read what is there.
func TestFiles(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, code(400))
	r := newRig(t, rc, nil)
	r.write(cpu(0, 3)...)
	r.wait()
	rc.answers(code(503))
	r.write(cpu(3, 6)...)
	require.NoError(t, r.p.Close())
	files, err := os.ReadDir(r.dir)
	require.NoError(t, err)
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.Name())
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
		text, err := os.ReadFile(filepath.Join(r.dir, f.Name()))
		require.NoError(t, err)
		require.NotContains(t, string(text), testToken, f.Name())
	}
	require.Equal(t, []string{"dead.jsonl", "dead.lock", "delivered", "lock", "queue.db", "reserve", "status.json"}, names)
	r.start()
}

func TestFull(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, code(503))
	r := newRig(t, rc, func(p *AFHTTPS) { p.MaxSize = 1000 })
	r.write(cpu(0, 9)...)
	more := metrics(t, cpu(9, 12)...)
	require.EqualError(t, r.p.Write(more), "the queue is full: its limit is 1000 bytes")
	rc.answers(nil)
	r.wait()
	require.NoError(t, r.p.Write(more))
	r.wait()
	require.Equal(t, cpuDocs(0, 12), rc.documents(""))

	rc = newReceiver(t, code(503))
	r = newRig(t, rc, func(p *AFHTTPS) { p.MaxSize, p.WhenFull = 1000, dropOldest })
	r.write(cpu(0, 9)...)
	r.write(cpu(9, 12)...)
	s := r.p.status()
	require.Equal(t, uint64(12), s.Accepted)
	require.Equal(t, uint64(12), s.Dropped+s.Queued)
	require.NotZero(t, s.Dropped)
	rc.answers(nil)
	r.wait()
	docs := rc.documents("") // One may have been under way while it was dropped.
	require.Equal(t, cpuDocs(int(s.Dropped), 12), docs[max(len(docs)-int(s.Queued), 0):])
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "dry.jsonl")
	r := newRig(t, nil, func(p *AFHTTPS) { p.DryRun = file })
	r.write(cpu(0, 2)...)
	r.write("cpu usage_idle=1 1")
	r.write("net,host=a,interface=eth0 bytes_sent=1i,bytes_recv=2i 1700000000000000000")
	r.write("net,host=a,interface=eth0 bytes_sent=11i,bytes_recv=12i 1700000010000000000")
	r.write("net,host=a,interface=eth0 bytes_sent=11i,bytes_recv=12i 1700000020000000000")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	want := `{"token":"(the token)","kind":"CPU","cluster":"UC-AF","login_node":"login","load":0.0}
{"token":"(the token)","kind":"CPU","cluster":"UC-AF","login_node":"login","load":1.0}
{"token":"(the token)","kind":"NETWORK","cluster":"UC-AF","login_node":"a","network":{"sent":10,"received":10,"interval":10.0}}
`
	require.Equal(t, want, string(text))
	require.NoFileExists(t, filepath.Join(r.dir, "queue.db"))
	require.Equal(t, []string{"I! [] Nothing is sent: documents go to " + file}, r.logged())
}

func TestStatus(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, code(400))
	r := newRig(t, rc, nil)
	r.write(cpu(0, 1)...)
	r.wait()
	rc.answers(nil)
	r.write(cpu(1, 3)...)
	r.wait()
	rc.answers(code(503))
	r.write("mem,host=login total=2i,available=1i 1")
	eventually(t, func() error {
		if r.p.status().Trouble == "" {
			return errors.New("no trouble yet")
		}
		return nil
	})
	r.p.maintain(r.p.status())
	text, err := os.ReadFile(filepath.Join(r.dir, statusFile))
	require.NoError(t, err)
	var s status
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, os.Getpid(), s.PID)
	require.Equal(t, rc.server.Listener.Addr().String(), s.Endpoint)
	require.Equal(t, []uint64{1, 4, 2, 1}, []uint64{s.Queued, s.Accepted, s.Sent, s.Dead})
	require.Equal(t, "failing", s.Kinds["MEM"].State)

	var out strings.Builder
	require.NoError(t, r.make().Command(&out, "status", ""))
	require.Regexp(t, `(?m)^running: process \d+, version \S+, since \S+\nas of: \S+ \(\d+s ago\)\nendpoint: 127.0.0.1:\d+\nkind .*`, out.String())
	require.Regexp(t, `(?m)^CPU +0 +0 +- +3 +2 +0 +1 +0 +0 +0 +delivering$`, out.String())
	require.Regexp(t, `(?m)^MEM +1 +\d+ +\d+s +1 +0 +\d+ +0 +0 +0 +0 +failing: 503 Service Unavailable$`, out.String())
	require.Regexp(t, `(?m)^all +1 +\d+ +\d+s +4 +2 +\d+ +1 +0 +0 +0 +failing: 503 Service Unavailable$`, out.String())

	require.NoError(t, r.p.Close())
	out.Reset()
	require.NoError(t, r.make().Command(&out, "status", ""))
	require.Regexp(t, `^not running\n(?s:.*)\nall +1 +\d+ +\d+s +4 +2 +\d+ +1 +`, out.String())
	require.EqualError(t, r.make().Command(&out, "drain", "now"), `unexpected argument "now"`)
	rc.answers(code(401))
	require.EqualError(t, r.make().Command(&out, "drain", ""), "1 documents are left: 401 Unauthorized")
	rc.answers(nil)
	require.NoError(t, r.make().Command(&out, "drain", ""))
	require.True(t, strings.HasSuffix(out.String(), "\n0 documents sent, 0 refused, 1 left\n1 documents sent, 0 refused, 0 left\n"), out.String())
	r.start()
	require.ErrorIs(t, r.make().Command(&out, "drain", ""), docqueue.ErrLocked)
	require.Error(t, (&AFHTTPS{StateDirectory: "/nowhere", now: time.Now}).Command(&out, "status", ""))
}

// Root must not leave files that the plugin can't open.
func TestCommandsOfAnotherUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, newReceiver(t, nil), nil)
	require.NoError(t, r.p.checkOwner(os.Geteuid()))
	require.EqualError(t, r.p.checkOwner(os.Geteuid()+1), fmt.Sprintf("%s belongs to the user with the id %d: run this as that user", r.dir, os.Geteuid()))
	nowhere := &AFHTTPS{StateDirectory: "/nowhere"}
	require.EqualError(t, nowhere.checkOwner(0), "option state_directory: /nowhere: no such file or directory")
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	then := &status{Time: time.Unix(0, 0), kindStatus: kindStatus{Accepted: 100, Sent: 90, Queued: 10}}
	now := &status{Time: time.Unix(300, 0), kindStatus: kindStatus{Accepted: 150, Sent: 150, Retried: 2}}
	require.Equal(t, "In 5m0s: 50 documents taken, 60 sent, 2 requests failed, 0 refused; 0 wait (0 bytes)", now.say(then))
	now = &status{Time: time.Unix(300, 0), kindStatus: kindStatus{
		Accepted: 150, Sent: 90, Queued: 55, QueuedBytes: 9000, OldestSeconds: 400.4, Dropped: 3, Expired: 2, Damaged: 1, State: "stopped", Trouble: "401 Unauthorized",
	}}
	require.Equal(t, "In 5m0s: 50 documents taken, 0 sent, 0 requests failed, 0 refused; 55 wait (9000 bytes), the oldest for 6m40s; "+
		"3 dropped for room; 2 dropped for age; 1 damaged; stopped: 401 Unauthorized", now.say(then))

	r := newRig(t, newReceiver(t, nil), func(p *AFHTTPS) { p.StatisticsInterval = config.Duration(time.Second) })
	r.write(cpu(0, 3)...)
	eventually(t, func() error {
		if len(r.logged()) == 0 {
			return errors.New("nothing said yet")
		}
		return nil
	})
	require.Regexp(t, `^I! \[\] In \d+s: 3 documents taken, \d sent, 0 requests failed, 0 refused; \d wait `, r.logged()[0])
}

// A second process waits until the first has ended.
func TestConnectWhileAnotherHasTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, newReceiver(t, nil), nil)
	require.ErrorIs(t, r.make().Connect(), docqueue.ErrLocked)
}

// A kind that is not made any more is delivered all the same.
func TestKindOfAnEarlierConfiguration(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, code(503))
	r := newRig(t, rc, nil)
	r.write(cpu(0, 2)...)
	r.set = func(p *AFHTTPS) { p.Kinds = []string{"MEM"} }
	rc.answers(nil)
	r.restart()
	r.wait()
	require.Equal(t, cpuDocs(0, 2), rc.documents(""))
}
