package lustre_jobs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// A central host that asks Slurm itself reports of a job what slurm_load tells of it: what it used of its CPUs and memory,
// too, beside what it did on Lustre.
func testCommands(t *testing.T, cluster *harness.Slurm, id string) {
	s := newSite(t)
	// Of Lustre there is one line, again and again.
	s.write("epoch.txt", fmt.Sprintf("lustre_jobstats_epoch,fs=lustre,host=oss1,job=%s,kind=ost,target=lustre-OST0000 epoch=%di,write_bytes=4096i,write_ops=2i\n",
		id, time.Now().UnixNano()))
	input := fmt.Sprintf("[[inputs.file]]\n  files = [%s]\n  data_format = \"influx\"\n\n[[inputs.influxdb_v2_listener]]\n  service_address = %q\n\n", s.quoted("epoch.txt"), s.https)
	tg := s.startProcessor("central", input, `interval = "1s"`, `levels = ["job", "report"]`, `slurm = "commands"`, `cluster = "hpc"`, `slurm_interval = "1s"`,
		`report_delay = "10s"`, `refresh = "2s"`, fmt.Sprintf("command_directory = %q", cluster.Bin), fmt.Sprintf("listen = %q", s.socket),
		fmt.Sprintf("listen_token = %q", token), "tls_cert = "+s.quoted("server.pem"), "tls_key = "+s.quoted("server.key"))
	s.startHead(cluster, s.table("outputs.influxdb_v2", 0, "https://central.example.org:8087", "http://"+s.https, "${LUSTRE_TOKEN}", token, `  tls_ca = "/etc/telegraf/ca.pem"`, ""))
	// What ended before slurm_load began is none of its.
	harness.Eventually(t, harness.Patience, func() error {
		if len(s.db.Query(database, "SELECT job_id FROM slurm_job")) == 0 {
			return errors.New("slurm_load has told of no job")
		}
		return nil
	})
	cluster.Command("scontrol", "release", id)
	ask := func(measurement string) (rows []harness.Row) {
		for _, series := range s.db.Query(database, fmt.Sprintf("SELECT * FROM %s WHERE job_id = %s", measurement, id)) {
			rows = append(rows, series.Rows...)
		}
		return rows
	}
	var report, told harness.Row
	harness.Eventually(t, harness.Patience, func() error {
		reports, finished := ask("job_report"), ask("slurm_finished")
		if len(reports) != 1 || len(finished) != 1 {
			return fmt.Errorf("%d reports, and %d rows of slurm_finished", len(reports), len(finished))
		}
		report, told = reports[0], finished[0]
		return nil
	})
	for field, value := range told {
		if field != "host" {
			require.Equal(t, value, report[field], field)
		}
	}
	for _, field := range []string{"cpu_efficiency", "memory_efficiency", "limit_efficiency"} {
		value := number(t, report[field])
		require.Greater(t, value, 0.0, field)
		require.LessOrEqual(t, value, 1.1, field)
	}
	var minutes, seconds float64 // of the row of the job, before those of its steps
	total := cluster.Command("sacct", "-n", "-P", "-j", id, "-o", "TotalCPU")
	_, err := fmt.Sscanf(total, "%f:%f", &minutes, &seconds)
	require.NoError(t, err, total)
	require.InDelta(t, minutes*60+seconds, number(t, report["cpu_used_seconds"]), 1e-6)
	require.Equal(t, []any{4096.0, 2.0, "lustre", "carol", "chem", "hpc", "COMPLETED"}, []any{
		number(t, report["lustre_write_bytes"]), number(t, report["lustre_ops"]), report["lustre_filesystems"], report["user"], report["account"],
		report["cluster"], report["state"],
	})
	require.Empty(t, tg.Lines("E! "))
	s.askForJob(id)
}

// askForJob asks over TLS, with the token and without.
func (s *site) askForJob(id string) {
	s.t.Helper()
	authority, err := os.ReadFile(s.path("ca.pem"))
	require.NoError(s.t, err)
	pool := x509.NewCertPool()
	require.True(s.t, pool.AppendCertsFromPEM(authority))
	client := http.Client{Timeout: harness.Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for bearer, status := range map[string]int{"": 401, "Bearer " + token: 200} {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.socket+"/v1/jobs/"+id+"?fields=write_bytes", http.NoBody)
		require.NoError(s.t, err)
		request.Header.Set("Authorization", bearer)
		response, err := client.Do(request)
		require.NoError(s.t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(s.t, err)
		require.Equal(s.t, status, response.StatusCode, "%s", body)
		if status == 200 {
			require.Contains(s.t, string(body), `"user":"carol","account":"chem","partition":"cpu","state":"finished","totals":{"write_bytes":4096}`)
		}
	}
}

func number(t *testing.T, value any) float64 {
	t.Helper()
	n, ok := value.(interface{ Float64() (float64, error) })
	require.True(t, ok, "%v is no number", value)
	f, err := n.Float64()
	require.NoError(t, err)
	return f
}
