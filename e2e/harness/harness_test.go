package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const shipToInfluxDB = `
[agent]
  interval = "200ms"
  flush_interval = "200ms"
  omit_hostname = true

[[inputs.file]]
  files = ["file.in"]
  precision = "1ns" # Telegraf rounds what is not from a service input to the interval's precision.
  data_format = "influx"

[[inputs.execd]]
  command = ["sh", "-c", "while read -r _; do cat execd.in; done"]
  signal = "STDIN"
  data_format = "influx"

[[outputs.influxdb]]
  urls = [%q]
  database = "e2e"
  skip_database_creation = true
`

// Each line has a time of its own, so that Telegraf may send it any number of times: InfluxDB keeps one.
func TestStockTelegrafToInfluxDB(t *testing.T) {
	db := StartInfluxDB(t)
	db.CreateDatabase("e2e")
	folder := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	write("file.in", `plain,host=oss1 top=9223372036854775807i,bottom=-9223372036854775808i,odd=9007199254740993i 1700000000000000001
plain,host=oss1 top=1i 1700000000000000002
`)
	write("execd.in", `forged,job=a\,b\=c\ d,exe=caffè value=0.1,text="say \"hi\", a=b",yes=true 1700000000123456789
`)
	tg := StartTelegraf(t, folder, fmt.Sprintf(shipToInfluxDB, db.URL))

	var plain, forged []Series
	Eventually(t, time.Minute, func() error {
		plain = db.Query("e2e", `SELECT * FROM plain GROUP BY *`)
		forged = db.Query("e2e", `SELECT * FROM forged GROUP BY *`)
		if len(plain) == 0 || len(forged) == 0 {
			return fmt.Errorf("%d and %d series in InfluxDB", len(plain), len(forged))
		}
		return nil
	})
	require.Equal(t, []Series{{
		Name: "plain",
		Tags: map[string]string{"host": "oss1"},
		Rows: []Row{
			{"time": json.Number("1700000000000000001"), "top": json.Number("9223372036854775807"), "bottom": json.Number("-9223372036854775808"), "odd": json.Number("9007199254740993")},
			{"time": json.Number("1700000000000000002"), "top": json.Number("1"), "bottom": nil, "odd": nil},
		},
	}}, plain)
	require.Equal(t, []Series{{
		Name: "forged",
		Tags: map[string]string{"job": "a,b=c d", "exe": "caffè"},
		Rows: []Row{{"time": json.Number("1700000000123456789"), "value": json.Number("0.1"), "text": `say "hi", a=b`, "yes": true}},
	}}, forged)
	require.Equal(t, int64(9007199254740993), plain[0].Rows[0].Int64(t, "odd"))
	require.Equal(t, map[string]string{"value": "float", "text": "string", "yes": "boolean"}, db.FieldTypes("e2e", "forged"))
	tg.Stop()
}

func TestInfluxDBKeepsItsDataOverARestart(t *testing.T) {
	db := StartInfluxDB(t)
	db.CreateDatabase("kept")
	db.Stop()
	db.Restart()
	require.Equal(t, []Series{{Name: "databases", Rows: []Row{{"name": "kept"}}}}, db.Query("", "SHOW DATABASES"))
}

func TestInfluxDBQueryErrors(t *testing.T) {
	db := StartInfluxDB(t)
	_, err := db.query("", "SELECT")
	require.EqualError(t, err, "error parsing query: found EOF, expected identifier, string, number, bool at line 1, char 8")
	_, err = db.query("missing", "SELECT * FROM m")
	require.EqualError(t, err, "database not found: missing")
}

// A hundred series with many points come in several JSON documents, cut anywhere.
func TestParseChunksJoinsPieces(t *testing.T) {
	const body = `{"results":[{"series":[{"name":"m","tags":{"a":"1"},"columns":["time","v"],"values":[[1,10]],"partial":true}],"partial":true}]}
{"results":[{"series":[{"name":"m","tags":{"a":"1"},"columns":["time","v"],"values":[[2,null]]},{"name":"m","tags":{"a":"2"},"columns":["time","v"],"values":[[1,9223372036854775807]]}]}]}
`
	series, err := parseChunks(strings.NewReader(body))
	require.NoError(t, err)
	require.Equal(t, []Series{
		{Name: "m", Tags: map[string]string{"a": "1"}, Rows: []Row{
			{"time": json.Number("1"), "v": json.Number("10")},
			{"time": json.Number("2"), "v": nil},
		}},
		{Name: "m", Tags: map[string]string{"a": "2"}, Rows: []Row{{"time": json.Number("1"), "v": json.Number("9223372036854775807")}}},
	}, series)

	_, err = parseChunks(strings.NewReader(body[:200]))
	require.EqualError(t, err, "answer of InfluxDB: unexpected EOF")
}

// What a killed Telegraf leaves: its child ends by itself, and Telegraf starts again in the same folder.
func TestTelegrafKilledReloadedRestarted(t *testing.T) {
	const configuration = `
[agent]
  interval = "100ms"
  flush_interval = "100ms"
  omit_hostname = true
[[inputs.execd]]
  command = ["sh", "-c", "while read -r _; do echo %[1]s n=1i; done; echo E! end of %[1]s >&2", "child"]
  signal = "STDIN"
  restart_delay = "100ms"
  data_format = "influx"
[[outputs.file]]
  files = ["%[1]s.out"]
  data_format = "influx"
`
	tg := StartTelegraf(t, t.TempDir(), fmt.Sprintf(configuration, "first"))
	first := tg.Child("child")
	tg.WaitLines(1, "Loaded outputs: file", time.Minute)
	Eventually(t, time.Minute, func() error {
		if len(ReadLines(t, tg.Path("first.out"))) == 0 {
			return errors.New("no line yet")
		}
		return nil
	})

	tg.Reload(fmt.Sprintf(configuration, "second"))
	require.Equal(t, []string{"E! [inputs.execd] end of first"}, tg.WaitLines(1, "] end of", time.Minute))
	second := tg.NewChild("child", first)
	Gone(t, first, time.Minute)

	require.NoError(t, syscall.Kill(second, syscall.SIGKILL))
	third := tg.NewChild("child", second)
	tg.WaitLines(1, "E! [inputs.execd] Process /usr/bin/sh exited: signal: killed", time.Minute)

	tg.Kill()
	Gone(t, third, time.Minute)
	tg.Restart(fmt.Sprintf(configuration, "third"))
	tg.Child("child")
	tg.Stop()
}
