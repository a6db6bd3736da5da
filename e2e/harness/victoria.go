package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// VictoriaMetrics is a real VictoriaMetrics that runs under the test. It takes what InfluxDB takes, of both versions. The
// field FIELD of the measurement M is the metric M_FIELD there; a string is 0.
type VictoriaMetrics struct {
	*process
	// URL is where it answers.
	URL string
}

// StartVictoriaMetrics starts an empty VictoriaMetrics on a free port.
func StartVictoriaMetrics(t testing.TB) *VictoriaMetrics {
	t.Helper()
	program := Program(t, "victoria-metrics", "victoria-metrics")
	folder, address := t.TempDir(), FreeAddress(t)
	v := &VictoriaMetrics{URL: "http://" + address}
	v.process = start(t, folder, program, "-storageDataPath="+folder, "-httpListenAddr="+address,
		"-retentionPeriod=10y", "-search.latencyOffset=0s", "-memory.allowedPercent=10")
	Eventually(t, time.Minute, func() error {
		if v.ended() {
			t.Fatal("victoria-metrics ended at its start")
		}
		return v.get("/health", func(io.Reader) error { return nil })
	})
	return v
}

// VictoriaSeries is a metric with one set of labels; __name__ is one of them.
type VictoriaSeries struct {
	Metric     map[string]string
	Values     []float64
	Timestamps []int64 // milliseconds since 1970
}

// Names gives the names of all metrics, sorted. What came a second ago may not be among them yet.
func (v *VictoriaMetrics) Names() []string {
	v.t.Helper()
	var answer struct{ Data []string }
	require.NoError(v.t, v.get("/api/v1/label/__name__/values", func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&answer)
	}))
	return answer.Data
}

// Export gives all points of the series that a selector of PromQL is for, such as cpu_usage_idle{cpu="cpu-total"}.
func (v *VictoriaMetrics) Export(selector string) []VictoriaSeries {
	v.t.Helper()
	var all []VictoriaSeries
	require.NoError(v.t, v.get("/api/v1/export?"+url.Values{"match[]": {selector}}.Encode(), func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var series VictoriaSeries
			if err := json.Unmarshal(lines.Bytes(), &series); err != nil {
				return fmt.Errorf("line %q: %w", lines.Bytes(), err)
			}
			all = append(all, series)
		}
		return lines.Err()
	}))
	return all
}

// Query asks a question of PromQL, or MetricsQL, as of a time: a series has the one point that it gives.
func (v *VictoriaMetrics) Query(question string, at time.Time) []VictoriaSeries {
	v.t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]json.RawMessage // the second, and the value as a text
			}
		}
	}
	ask := url.Values{"query": {question}, "time": {strconv.FormatInt(at.Unix(), 10)}}
	require.NoError(v.t, v.get("/api/v1/query?"+ask.Encode(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&answer)
	}))
	all := make([]VictoriaSeries, 0, len(answer.Data.Result))
	for _, one := range answer.Data.Result {
		value, err := strconv.ParseFloat(strings.Trim(string(one.Value[1]), `"`), 64)
		require.NoError(v.t, err)
		all = append(all, VictoriaSeries{Metric: one.Metric, Values: []float64{value}, Timestamps: []int64{at.Unix() * 1000}})
	}
	return all
}

// get has an answer read.
func (v *VictoriaMetrics) get(path string, read func(io.Reader) error) error {
	response, err := http.Get(v.URL + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(response.Body)
		return fmt.Errorf("victoria-metrics: %s: %s (%w)", response.Status, body, err)
	}
	return read(response.Body)
}
