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

	"telegraf-hpc/internal/plugintest"
)

// asked gives a plugin that had the emissions of testcases/job up to a moment.
func asked(t *testing.T) *api {
	t.Helper()
	r := &replay{t: t, folder: "testcases/job", state: t.TempDir(), out: &testutil.Accumulator{}}
	require.NoError(t, r.parser.Init())
	r.line("# at 1767225590")
	a := &api{}
	r.plugin.api = a
	for _, line := range []string{
		`slurm_job,account=chem,cluster=hpc,partition=cpu,user=bob job="4710_1",job_id=4711i,state="RUNNING",start=1767225608i 1767225600000004711`,
		`lustre_jobstats_epoch,fs=lustre,host=oss1,job=4700,kind=ost,target=lustre-OST0000 epoch=1767225575000000000i,write_bytes=600i,write_ops=3i 1767225590000000000`,
		`# at 1767225605`,
		`lustre_jobstats_epoch,fs=lustre,host=oss1,job=4711,kind=ost,target=lustre-OST0000 epoch=1767225600000000000i,read_bytes=3000i,read_ops=3i 1767225630000000000`,
		`lustre_jobstats_epoch,exe=rsync,fs=lustre,host=oss1,kind=ost,target=lustre-OST0000,uid=1000 epoch=1767225600000000000i,read_bytes=1000i,read_ops=6i 1767225630000000000`,
		`# at 1767225660`,
	} {
		r.line(line)
	}
	t.Cleanup(func() { require.NoError(t, r.plugin.ledger.store.close()) })
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

func TestAPI(t *testing.T) {
	a := asked(t)
	for _, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{
			"/v1/jobs?fields=read_bytes,ops", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
				`{"fs":"lustre","kind":"ost","cluster":"hpc","id":"4711","job":"4710_1","user":"bob","account":"chem","partition":"cpu","state":"running",` +
				`"totals":{"ops":3,"read_bytes":3000},"rates":{"ops":0.1,"read_bytes":100},"shares":{"bytes_share":0.75,"ops_share":0.3333333333333333}},` +
				`{"fs":"lustre","kind":"ost","uid":"1000","exe":"rsync",` +
				`"totals":{"ops":6,"read_bytes":1000},"rates":{"ops":0.2,"read_bytes":33.333333333333336},"shares":{"bytes_share":0.25,"ops_share":0.6666666666666666}}]}`,
		},
		{
			"/v1/jobs/4711?fields=read_ops", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
				`{"fs":"lustre","kind":"ost","cluster":"hpc","id":"4711","job":"4710_1","user":"bob","account":"chem","partition":"cpu","state":"running",` +
				`"totals":{"read_ops":3},"rates":{"read_ops":0.1},"shares":{"bytes_share":0.75,"ops_share":0.3333333333333333}}]}`,
		},
		{
			"/v1/rates?min_rate=50&fields=read_bytes", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
				`{"fs":"lustre","kind":"ost","cluster":"hpc","id":"4711","job":"4710_1","user":"bob","account":"chem","partition":"cpu","state":"running",` +
				`"rates":{"read_bytes":100},"shares":{"bytes_share":0.75,"ops_share":0.3333333333333333}}]}`,
		},
		{
			"/v1/users?fields=ops&min_rate=0.15", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
				`{"fs":"lustre","kind":"ost","uid":"1000","totals":{"ops":6},"rates":{"ops":0.2},"shares":{"bytes_share":0.25,"ops_share":0.6666666666666666}}]}`,
		},
		{
			"/v1/filesystems?fields=ops,write_bytes", 200, `{"time":"2026-01-01T00:01:00Z","rows":[` +
				`{"fs":"lustre","kind":"ost","totals":{"ops":12,"write_bytes":600},"rates":{"ops":0.30000000000000004,"write_bytes":0}}]}`,
		},
		{"/v1/jobs/17", 404, `{"error":"no I/O of a job \"17\" is known"}`},
		{"/v1/jobs?fields=nonsense", 400, `{"error":"fields: \"nonsense\" is not known"}`},
		{"/v1/rates?min_rate=NaN", 400, `{"error":"min_rate: \"NaN\" is no number from 0 on"}`},
		{"/v1/rates?rate=1", 400, `{"error":"\"rate\" is not known; there are fields and min_rate"}`},
		{"/v1/nothing", 404, "404 page not found"},
	} {
		status, body := get(t, a, tt.path)
		require.Equal(t, tt.status, status, tt.path)
		require.Equal(t, tt.want, body, tt.path)
	}
	status, body := get(t, &api{}, "/v1/jobs")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"error":"nothing is known yet: ask again after the first interval"}`, body)
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
			var a answer
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
