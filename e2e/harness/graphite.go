package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Graphite is a real Graphite that runs under the test: carbon-cache, which stores, and graphite-web, which answers. It
// keeps a point per second for an hour; of two points of a metric in one second, the last.
type Graphite struct {
	// Address is where it takes lines, "PATH VALUE SECONDS".
	Address string
	// URL is where graphite-web answers.
	URL string

	t testing.TB
}

// GraphitePoint is a value at a whole second.
type GraphitePoint struct {
	Time  time.Time
	Value float64
}

// carbonConfiguration takes the folder and the port for lines. A port of 0 is none, or any.
const carbonConfiguration = `
[cache]
STORAGE_DIR = %[1]s
LOCAL_DATA_DIR = %[1]s/whisper
CONF_DIR = %[1]s
LOG_DIR = %[1]s
PID_DIR = %[1]s
LINE_RECEIVER_INTERFACE = 127.0.0.1
LINE_RECEIVER_PORT = %[2]s
PICKLE_RECEIVER_PORT = 0
CACHE_QUERY_INTERFACE = 127.0.0.1
CACHE_QUERY_PORT = 0
MAX_UPDATES_PER_SECOND = inf
MAX_CREATES_PER_MINUTE = inf
WHISPER_SPARSE_CREATE = True
ENABLE_TAGS = False
CARBON_METRIC_INTERVAL = 0
LOG_UPDATES = False
LOG_CREATES = False
LOG_LISTENER_CONN_SUCCESS = False
`

const (
	carbonSchemas     = "[all]\npattern = .*\nretentions = 1s:1h\n"
	carbonAggregation = "[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = last\n"
)

// graphiteSettings takes the folder. Without users and tags graphite-web needs no database, and it reads what carbon
// has written without asking carbon.
const graphiteSettings = `
SECRET_KEY = 'none'
ALLOWED_HOSTS = ['*']
TIME_ZONE = 'UTC'
LOG_DIR = STORAGE_DIR = CONF_DIR = '%[1]s'
WHISPER_DIR = '%[1]s/whisper'
STANDARD_DIRS = [WHISPER_DIR]
CARBONLINK_HOSTS = []
REPLICATION_FACTOR = 0
FUNCTION_PLUGINS = []
DATABASES = {'default': {'ENGINE': 'django.db.backends.dummy'}}
`

// StartGraphite starts an empty Graphite on free ports.
func StartGraphite(t testing.TB) *Graphite {
	t.Helper()
	Packages(t, "graphite-carbon", "graphite-web")
	g := &Graphite{t: t, Address: FreeAddress(t)}
	_, port, err := net.SplitHostPort(g.Address)
	require.NoError(t, err)
	folder := t.TempDir()
	for name, content := range map[string]string{
		"carbon.conf":              fmt.Sprintf(carbonConfiguration, folder, port),
		"storage-schemas.conf":     carbonSchemas,
		"storage-aggregation.conf": carbonAggregation,
		"local_settings.py":        fmt.Sprintf(graphiteSettings, folder),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	const python = "/usr/bin/python3" // Debian's own, which has Debian's modules.
	carbon := start(t, folder, python, "/usr/bin/carbon-cache", "--config="+filepath.Join(folder, "carbon.conf"), "--nodaemon", "start")
	carbon.name = "carbon-cache"
	web := FreeAddress(t)
	g.URL = "http://" + web
	django := start(t, folder, "env", "PYTHONPATH="+folder, "DJANGO_SETTINGS_MODULE=graphite.settings", "GRAPHITE_SETTINGS_MODULE=local_settings",
		python, "-m", "django", "runserver", "--noreload", web)
	django.name = "graphite-web"
	Eventually(t, time.Minute, func() error {
		if carbon.ended() || django.ended() {
			t.Fatal("carbon-cache or graphite-web ended at its start")
		}
		connection, err := net.Dial("tcp", g.Address)
		if err != nil {
			return err
		}
		if err := connection.Close(); err != nil {
			return err
		}
		return g.get("/metrics/index.json", new([]string))
	})
	return g
}

// Paths gives the paths of all metrics, sorted.
func (g *Graphite) Paths() []string {
	g.t.Helper()
	var paths []string
	require.NoError(g.t, g.get("/metrics/index.json", &paths))
	return paths
}

// Query gives the points of each series that a target of Graphite's render API stands for: a path, one with wildcards,
// or a function of such. Seconds without a value are left out.
func (g *Graphite) Query(target string) map[string][]GraphitePoint {
	g.t.Helper()
	var answer []struct {
		Target     string
		Datapoints [][2]*float64 // The value or null, and the second.
	}
	query := url.Values{"target": {target}, "from": {"-1h"}, "format": {"json"}, "noCache": {"true"}}
	require.NoError(g.t, g.get("/render?"+query.Encode(), &answer))
	series := make(map[string][]GraphitePoint)
	for _, one := range answer {
		for _, point := range one.Datapoints {
			if value, second := point[0], point[1]; value != nil {
				series[one.Target] = append(series[one.Target], GraphitePoint{time.Unix(int64(*second), 0), *value})
			}
		}
	}
	return series
}

// get reads an answer in JSON.
func (g *Graphite) get(path string, answer any) error {
	response, err := http.Get(g.URL + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("graphite-web: %s: %s", response.Status, body)
	}
	return json.Unmarshal(body, answer)
}
