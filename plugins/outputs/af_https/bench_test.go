package af_https

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

// counter is an endpoint that counts the documents it gets.
type counter struct {
	*httptest.Server
	documents atomic.Int64
}

func newCounter(b *testing.B) *counter {
	b.Helper()
	c := &counter{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Error(err)
		}
		c.documents.Add(int64(bytes.Count(body, []byte(`"kind":"condorjob"`))))
	}))
	b.Cleanup(c.Close)
	return c
}

func (c *counter) wait(b *testing.B, documents int64) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); c.documents.Load() < documents; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d documents came", c.documents.Load(), documents)
		}
	}
	require.Equal(b, documents, c.documents.Load())
}

// jobs gives metrics of which each makes a document.
func jobs(b *testing.B, n int) []telegraf.Metric {
	b.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`condor_job,pool=cm,schedd=login1 af_state="running",id="1234567.%d",runtime_seconds=12345i,user="somebody" %d`, i, i+1)
	}
	return metrics(b, lines...)
}

// rate gives how many documents a second go from Write through the queue on disk to the endpoint.
func rate(b *testing.B, documents, batch int) float64 {
	b.Helper()
	c := newCounter(b)
	ca := filepath.Join(b.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	require.NoError(b, os.WriteFile(ca, text, 0o600))
	p := newPlugin()
	p.URL, p.TLSCA, p.StateDirectory, p.BatchSize = c.URL, ca, filepath.Join(b.TempDir(), "state"), batch
	p.Token, p.Log = config.NewSecret([]byte(testToken)), testutil.Logger{Quiet: true}
	require.NoError(b, p.Init())
	require.NoError(b, p.Connect())
	all := jobs(b, 1000)
	began := time.Now()
	for n := 0; n < documents; n += len(all) {
		require.NoError(b, p.Write(all))
	}
	c.wait(b, int64(documents))
	elapsed := time.Since(began)
	require.NoError(b, p.Close())
	return float64(documents) / elapsed.Seconds()
}

// standIn gives how many documents a second go out as the Analysis Facility's collector sends them: a connection of its own
// for each, and nothing kept.
func standIn(b *testing.B, documents int) float64 {
	b.Helper()
	c := newCounter(b)
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate())
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	body := []byte(`{"token":"s3cret-t0ken","kind":"condorjob","cluster":"UC-AF","users":"somebody","Id":"1.0","Runtime":1,"state":"running"}`)
	began := time.Now()
	for range documents {
		response, err := client.Post(c.URL, "application/json", bytes.NewReader(body))
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
	}
	elapsed := time.Since(began)
	c.wait(b, int64(documents))
	return float64(documents) / elapsed.Seconds()
}

// Documents go out durably and over TLS: at least 2,000 a second one by one, and 30,000 in arrays of 500.
func BenchmarkDelivery(b *testing.B) {
	for b.Loop() {
		old, single, arrays := standIn(b, 1000), rate(b, 20_000, 1), rate(b, 200_000, 500)
		b.ReportMetric(old, "standin-docs/s")
		b.ReportMetric(single, "single-docs/s")
		b.ReportMetric(arrays, "array-docs/s")
		b.ReportMetric(single/old, "single/standin")
		b.ReportMetric(arrays/old, "array/standin")
		if single < 2000 || arrays < 30_000 {
			b.Errorf("%.0f documents a second one by one, and %.0f in arrays", single, arrays)
		}
	}
}

func BenchmarkDocuments(b *testing.B) {
	all := jobs(b, 1000)
	d := &documents{kinds: usualKinds(), cluster: "UC-AF", idKey: "id"}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, m := range all {
			docs, err := d.from(m)
			if err != nil {
				b.Fatal(err)
			}
			n += len(docs)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "docs/s")
}
