package lustre_jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/plugintest"
)

// asked gives what answers of a plugin that had some emissions. Job 4690 ended hours ago, and has left memory.
func asked(t *testing.T) *api {
	t.Helper()
	r := &replay{t: t, folder: "testcases/job", state: t.TempDir(), out: &testutil.Accumulator{}}
	require.NoError(t, r.parser.Init())
	r.line("# at 1767214790")
	a := &api{store: r.plugin.ledger.store}
	r.plugin.api = a
	for _, line := range []string{
		`slurm_job,account=physics,cluster=hpc,partition=cpu,user=alice job="4680_7",job_id=4690i,state="RUNNING",start=1767214700i 1767214790000004690`,
		`lustre_jobstats_epoch,fs=lustre,host=oss1,job=4690,kind=ost,target=lustre-OST0000 epoch=1767214780000000000i,read_bytes=7000i,read_ops=7i 1767214800000000000`,
		`slurm_finished,account=physics,cluster=hpc,partition=cpu,state=COMPLETED,user=alice job="4680_7",job_id=4690i,start=1767214700i,end=1767214805i 1767214805000004690`,
		`# at 1767225590`,
		`slurm_job,account=chem,cluster=hpc,partition=cpu,user=bob job="4710_1",job_id=4711i,state="RUNNING",start=1767225608i 1767225600000004711`,
		`lustre_jobstats_epoch,fs=lustre,host=oss1,job=4700,kind=ost,target=lustre-OST0000 epoch=1767225575000000000i,write_bytes=600i,write_ops=3i 1767225590000000000`,
		`# at 1767225605`,
		`lustre_jobstats_epoch,fs=lustre,host=oss1,job=4711,kind=ost,target=lustre-OST0000 epoch=1767225600000000000i,read_bytes=3000i,read_ops=3i 1767225630000000000`,
		`lustre_jobstats_epoch,exe=rsync,fs=lustre,host=oss1,kind=ost,target=lustre-OST0000,uid=1000 epoch=1767225600000000000i,read_bytes=1000i,read_ops=6i 1767225630000000000`,
		`# at 1767225660`,
	} {
		r.line(line)
	}
	require.Empty(t, r.out.Errors)
	require.NotContains(t, r.plugin.ledger.byID[0].series, "j4690")
	t.Cleanup(func() { _ = r.plugin.ledger.store.close() })
	return a
}

func get(t *testing.T, a *api, path string, header ...string) (status int, body string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	a.handler().ServeHTTP(recorder, request)
	return recorder.Code, strings.TrimSpace(recorder.Body.String())
}

// The questions of the README, and what is answered.
func TestQuestions(t *testing.T) {
	a := asked(t)
	secret := config.NewSecret([]byte("open sesame"))
	a.token = tokenOf(&secret)
	var text strings.Builder
	for _, command := range []string{
		`curl 'http://127.0.0.1:8095/v1/jobs?fields=read_bytes,ops'`,
		`curl 'http://127.0.0.1:8095/v1/jobs/4711?fields=read_ops'`,
		`curl 'http://127.0.0.1:8095/v1/jobs/4680_7?fields=ops'`,
		`curl 'http://127.0.0.1:8095/v1/jobs/17'`,
		`curl 'http://127.0.0.1:8095/v1/rates?min_rate=50&fields=read_bytes'`,
		`curl --unix-socket /run/telegraf/lustre_jobs.sock 'http://localhost/v1/users?fields=ops&min_rate=0.15'`,
		`curl -H "Authorization: Bearer $LUSTRE_JOBS_TOKEN" 'https://central.example.org:8095/v1/filesystems?fields=ops,write_bytes'`,
	} {
		_, url, _ := strings.Cut(command, "'")
		_, body := get(t, a, strings.TrimSuffix(url, "'"), "Authorization", "Bearer open sesame")
		fmt.Fprintf(&text, "$ %s\n%s\n", command, body)
	}
	plugintest.Golden(t, "testdata/questions.txt", text.String())
}

func TestAPI(t *testing.T) {
	a := asked(t)
	const old = `{"fs":"lustre","kind":"ost","cluster":"hpc","id":"4690","job":"4680_7","user":"alice","account":"physics","partition":"cpu",` +
		`"state":"finished","totals":{"read_bytes":7000},"rates":{"read_bytes":0}}`
	for _, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/jobs/4690?fields=read_bytes", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` + old + `]}`},
		{"/v1/jobs/4680_7?fields=read_bytes", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` + old + `]}`},
		{"/v1/jobs/4690?min_rate=1", 200, `{"time":"2026-01-01T00:01:00Z","rows":[]}`},
		{"/v1/jobs/4700?fields=write_bytes", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
			`{"fs":"lustre","kind":"ost","id":"4700","job":"4700","totals":{"write_bytes":600},"rates":{"write_bytes":0},"shares":{"bytes_share":0,"ops_share":0}}]}`},
		{"/v1/jobs/17", 404, `{"error":"no I/O of a job \"17\" is known: it did none, or none for forget_after"}`},
		{"/v1/jobs/4680_8", 404, `{"error":"no I/O of a job \"4680_8\" is known: it did none, or none for forget_after"}`},
		{"/v1/jobs?fields=nonsense", 400, `{"error":"fields: \"nonsense\" is not known"}`},
		{"/v1/rates?min_rate=NaN", 400, `{"error":"min_rate: \"NaN\" is no number from 0 on"}`},
		{"/v1/rates?rate=1", 400, `{"error":"\"rate\" is not known; there are fields and min_rate"}`},
		{"/v1/nothing", 404, "404 page not found"},
	} {
		status, body := get(t, a, tt.path)
		require.Equal(t, tt.status, status, tt.path)
		require.Equal(t, tt.want, body, tt.path)
	}
	require.NoError(t, a.store.close())
	status, body := get(t, a, "/v1/jobs/17")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"error":"the plugin is stopping"}`, body)
	status, body = get(t, &api{}, "/v1/jobs")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"error":"nothing is known yet: ask again after the first interval"}`, body)
}

// Of a job that did nothing on a file system for long a part is in memory, and a part is not.
func TestAPIOfAJobInParts(t *testing.T) {
	s := newStill(t, t.TempDir())
	s.api = &api{store: s.ledger.store}
	s.read("1", 0, 10, 100)
	s.next(time.Minute)
	s.fold(2 * idleFor)
	require.Zero(t, s.ledger.memory)
	require.True(t, s.AddLine(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=other,host=oss1,job=1,kind=ost,target=t epoch=1i,read_bytes=7i %d", s.clock.UnixNano())))
	for range 2 {
		s.next(30 * time.Second)
		_, body := get(t, s.api, "/v1/jobs/1?fields=read_bytes")
		require.Contains(t, body, `"rows":[{"fs":"other","kind":"ost","id":"1","job":"1","totals":{"read_bytes":7},`)
		require.Contains(t, body, `{"fs":"s","kind":"ost","id":"1","job":"1","totals":{"read_bytes":100},"rates":{"read_bytes":0}}]}`)
		s.fold(time.Second)
	}
	s.close()
}

// What is damaged is no answer.
func TestAPIWithADamagedRecord(t *testing.T) {
	a := asked(t)
	require.NoError(t, a.store.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("series")).Put([]byte(seriesKey(&place{}, "j4690")), []byte("nonsense"))
	}))
	status, body := get(t, a, "/v1/jobs/4690")
	require.Equal(t, 500, status)
	require.JSONEq(t, `{"error":"state of job \"4690\": the record is damaged"}`, body)
}

func TestAPIToken(t *testing.T) {
	a := asked(t)
	secret := config.NewSecret([]byte("open sesame"))
	a.token = tokenOf(&secret)
	for _, header := range [][]string{nil, {"Authorization", "Bearer open"}, {"Authorization", "open sesame"}, {"Authorization", "Bearer open sesame!"}} {
		status, body := get(t, a, "/v1/jobs", header...)
		require.Equal(t, 401, status)
		require.JSONEq(t, `{"error":"a bearer token is needed"}`, body)
	}
	status, _ := get(t, a, "/v1/jobs", "Authorization", "Bearer open sesame")
	require.Equal(t, 200, status)
}

// Clients that ask nothing, and one that never reads its answer, hold up neither the emissions nor a stop.
func TestAPIWithBrokenClients(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	p := newPlugin()
	p.StateDirectory, p.Listen, p.Log = t.TempDir(), "unix:"+socket, testutil.Logger{Quiet: true}
	p.Slurm, p.Interval = "none", config.Duration(100*time.Millisecond)
	require.NoError(t, p.Init())
	out := &testutil.Accumulator{}
	for range 2 { // A socket that is left from before is no obstacle.
		require.NoError(t, p.Start(out))
		conns := make([]net.Conn, 0, apiConnections)
		for range apiConnections - 1 {
			conn, err := net.Dial("unix", socket)
			require.NoError(t, err)
			conns = append(conns, conn)
		}
		_, err := io.WriteString(conns[0], "GET /v1/jobs HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
		require.True(t, p.AddLine(fmt.Appendf(nil, "lustre_jobstats_epoch,fs=s,job=1,kind=ost,target=t epoch=1i,ops=2i %d", time.Now().UnixNano())))
		require.Eventually(t, func() bool {
			response, err := client.Get("http://socket/v1/jobs/1")
			if err != nil {
				return false
			}
			defer response.Body.Close()
			var a struct{ Rows []apiRow }
			return json.NewDecoder(response.Body).Decode(&a) == nil && len(a.Rows) == 1 && a.Rows[0].Totals["ops"] == 2
		}, 20*time.Second, 20*time.Millisecond)
		begin := time.Now()
		p.Stop()
		require.Less(t, time.Since(begin), 3*time.Second)
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	}
}

func TestInit(t *testing.T) {
	for _, tt := range []struct{ options, want string }{
		{"", ""},
		{`listen = "127.0.0.1:0"`, ""},
		{`listen = "[::1]:0"`, ""},
		{`listen = "unix:/run/x"`, ""},
		{"listen = \"0.0.0.0:80\"\nlisten_token = \"secret\"", ""},
		{`listen = "0.0.0.0:80"`, "option listen: an address that other hosts reach needs listen_token"},
		{`listen = ":80"`, "option listen: an address that other hosts reach needs listen_token"},
		{`listen = "head.example.org:80"`, "option listen: an address that other hosts reach needs listen_token"},
		{`levels = []`, `option levels: empty; choose from ["fs" "account" "user" "job" "report"]`},
		{`levels = ["jobs"]`, `option levels: "jobs" is none of ["fs" "account" "user" "job" "report"]`},
		{`detail = "all"`, `option detail: "all" is none of ["full" "basic"]`},
		{`slurm = "yes"`, `option slurm: "yes" is none of ["stream" "commands" "none"]`},
		{`interval = "1ms"`, "option interval: must be at least 100ms"},
		{`top = -1`, "option top: must not be negative"},
		{`refresh = "0s"`, "option refresh: must be more than 0s"},
		{`unknown_after = "0s"`, "option unknown_after: must be more than 0s"},
		{`quiet_after = "0s"`, "option quiet_after: must be more than 0s"},
		{`timeout = "0s"`, "option timeout: must be more than 0s"},
		{`slurm_interval = "0s"`, "option slurm_interval: must be at least 1s"},
		{`report_delay = "-1s"`, "option report_delay: must not be negative"},
		{`forget_after = "1m"`, "option forget_after: must be at least 1h"},
		{`state_directory = ""`, "option state_directory: must be set"},
	} {
		p, ok := plugintest.ParseProcessor(t, []byte("[[processors.lustre_jobs]]\n"+tt.options+"\n")).(*LustreJobs)
		require.True(t, ok)
		err := p.Init()
		if tt.want == "" {
			require.NoError(t, err, tt.options)
			continue
		}
		require.EqualError(t, err, tt.want, tt.options)
	}
}

// The sample shows every option with its default.
func TestSampleConfig(t *testing.T) {
	t.Setenv("LUSTRE_JOBS_TOKEN", "secret")
	p, ok := plugintest.ParseProcessor(t, plugintest.Uncommented(sampleConfig)).(*LustreJobs)
	require.True(t, ok)
	want := newPlugin()
	require.NoError(t, want.Init())
	require.Equal(t, want.options(), p.options())
	require.NoError(t, p.Init())
}

// options gives what is set in a table, but for what the sample only shows the form of.
func (p *LustreJobs) options() []any {
	return []any{
		p.Interval, p.Levels, p.Top, p.Detail, p.Refresh, p.Slurm, p.Cluster, p.Timeout, p.SlurmInterval, p.UnknownAfter, p.QuietAfter, p.ReportDelay, p.ForgetAfter,
		p.StateDirectory, p.Listen,
	}
}
