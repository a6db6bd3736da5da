package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// InfluxDB is a real InfluxDB 1.x that runs under the test.
type InfluxDB struct {
	*process
	// URL is where it answers.
	URL string

	folder string
}

// Series is what one query gave for one measurement and one set of tags.
type Series struct {
	Name string
	Tags map[string]string
	Rows []Row
}

// Row maps columns to values: a string, a bool, or a json.Number, which holds every digit that InfluxDB sent. The column
// time is in nanoseconds. A field that a point does not have is nil.
type Row map[string]any

// influxConfiguration takes the folder and the HTTP and RPC addresses. InfluxDB refuses tag values beyond the
// 100,000th by default.
const influxConfiguration = `
reporting-disabled = true
bind-address = %[3]q
[meta]
  dir = "%[1]s/meta"
[data]
  dir = "%[1]s/data"
  wal-dir = "%[1]s/wal"
  index-version = "tsi1"
  max-values-per-tag = 0
  query-log-enabled = false
[http]
  bind-address = %[2]q
  log-enabled = false
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
`

// StartInfluxDB starts an empty InfluxDB on a free port.
func StartInfluxDB(t testing.TB) *InfluxDB {
	t.Helper()
	db := &InfluxDB{folder: t.TempDir()}
	address := FreeAddress(t)
	db.URL = "http://" + address
	configuration := fmt.Sprintf(influxConfiguration, db.folder, address, FreeAddress(t))
	require.NoError(t, os.WriteFile(filepath.Join(db.folder, "influxdb.conf"), []byte(configuration), 0o600))
	db.start(t)
	return db
}

// Stop asks InfluxDB to stop and waits until it has ended.
func (db *InfluxDB) Stop() {
	db.t.Helper()
	db.Signal(syscall.SIGTERM)
	db.Wait(time.Minute)
}

// Restart starts InfluxDB again with the data it had, after it has ended.
func (db *InfluxDB) Restart() {
	db.t.Helper()
	require.True(db.t, db.ended(), "InfluxDB still runs")
	db.start(db.t)
}

func (db *InfluxDB) start(t testing.TB) {
	t.Helper()
	influxd := Program(t, "influxd", "influxdb")
	db.process = start(t, db.folder, influxd, "run", "-config", filepath.Join(db.folder, "influxdb.conf"))
	Eventually(t, time.Minute, func() error {
		if db.ended() {
			t.Fatal("influxd ended at its start")
		}
		response, err := http.Get(db.URL + "/ping")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// CreateDatabase creates a database.
func (db *InfluxDB) CreateDatabase(name string) {
	db.t.Helper()
	db.Query("", fmt.Sprintf("CREATE DATABASE %q", name))
}

// Query runs one statement of InfluxQL and gives the series in the order in which InfluxDB sent them.
func (db *InfluxDB) Query(database, statement string) []Series {
	db.t.Helper()
	series, err := db.query(database, statement)
	require.NoError(db.t, err, statement)
	return series
}

// FieldTypes gives the type of each field of a measurement: "integer", "float", "string" or "boolean". A field that
// was written with two types, which InfluxDB keeps apart by shard, fails the test.
func (db *InfluxDB) FieldTypes(database, measurement string) map[string]string {
	db.t.Helper()
	types := make(map[string]string)
	for _, series := range db.Query(database, fmt.Sprintf("SHOW FIELD KEYS FROM %q", measurement)) {
		for _, row := range series.Rows {
			field, kind := row["fieldKey"].(string), row["fieldType"].(string)
			require.NotContains(db.t, types, field, "field with two types")
			types[field] = kind
		}
	}
	return types
}

func (db *InfluxDB) query(database, statement string) ([]Series, error) {
	form := url.Values{"db": {database}, "q": {statement}, "epoch": {"ns"}, "chunked": {"true"}, "chunk_size": {"10000"}}
	response, err := http.PostForm(db.URL+"/query", form)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return parseChunks(response.Body)
}

// chunk is one JSON document of a chunked answer (InfluxDB 1.6, "HTTP API reference").
type chunk struct {
	Error   string
	Results []struct {
		Error  string
		Series []struct {
			Name    string
			Tags    map[string]string
			Columns []string
			Values  [][]any
		}
	}
}

// parseChunks reads an answer's JSON documents and puts together again the series that were cut in pieces.
func parseChunks(body io.Reader) ([]Series, error) {
	var all []Series
	decoder := json.NewDecoder(body)
	decoder.UseNumber()
	for {
		var c chunk
		err := decoder.Decode(&c)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("answer of InfluxDB: %w", err)
		}
		if c.Error != "" {
			return nil, errors.New(c.Error)
		}
		for _, result := range c.Results {
			if result.Error != "" {
				return nil, errors.New(result.Error)
			}
			for _, piece := range result.Series {
				last := len(all) - 1
				if last < 0 || all[last].Name != piece.Name || !maps.Equal(all[last].Tags, piece.Tags) {
					all = append(all, Series{Name: piece.Name, Tags: piece.Tags})
					last++
				}
				all[last].Rows = slices.AppendSeq(all[last].Rows, rows(piece.Columns, piece.Values))
			}
		}
	}
}

func rows(columns []string, values [][]any) func(yield func(Row) bool) {
	return func(yield func(Row) bool) {
		for _, value := range values {
			row := make(Row, len(columns))
			for i, column := range columns {
				row[column] = value[i]
			}
			if !yield(row) {
				return
			}
		}
	}
}

// Int64 gives a column that must hold an integer.
func (r Row) Int64(t testing.TB, column string) int64 {
	t.Helper()
	require.IsType(t, json.Number(""), r[column], "column %s", column)
	value, err := r[column].(json.Number).Int64()
	require.NoError(t, err, "column %s", column)
	return value
}
