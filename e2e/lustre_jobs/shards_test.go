package lustre_jobs

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// Two central Telegrafs share the jobs over a broker, which keeps nothing for one that is away: each job is in one of
// them, and the sums of both are the simulation's.
func TestShardsOverNATS(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	broker := s.startBroker()
	centrals := make([]*harness.Telegraf, 2)
	names := []string{"central0", "central1"}
	for i, name := range names {
		input := s.table("inputs.nats_consumer", 0, append(s.overNATS(broker), `"lustre.0"`, fmt.Sprintf(`"lustre.%d"`, i), `"shard0"`, fmt.Sprintf(`"shard%d"`, i))...)
		centrals[i] = s.startProcessor(name, input, `interval = "1s"`, `refresh = "2s"`, `report_delay = "5s"`, `top = 0`)
	}
	s.startQueue(broker)
	s.simulate("--era", "2.16", "--osts", "2", "--mdts", "1", "--jobs", "24", "--tick", "500ms", "--settle", "4s", "--interval", "16s")
	output := s.table("outputs.nats", 0, s.overNATS(broker)...)
	s.startServer("oss1", 1, `jobid_name = ["%j"]`, output, "lustre-OST0000", "lustre-OST0001")
	s.startServer("mds1", 1, `jobid_name = ["%j"]`, output, "lustre-MDT0000")
	s.emissions(6, time.Now())
	s.restart(centrals[1], "central1", "central1.conf", 3*time.Second)
	s.killChild(centrals[0], "central0.conf")
	s.emissions(6, time.Now())
	s.finish()

	want := s.truth(func(id string) []string {
		if number, err := strconv.Atoi(id); err == nil {
			return []string{"fs", "job " + id, "user " + userOf(number), "account " + accountOf(number)}
		}
		return []string{"fs", "job " + id, "user _unknown", "account _unknown"}
	})
	harness.Eventually(t, harness.Patience, func() error { return want.compare(s.sharded()) })
	t.Logf("%d series", len(want))
}

// startBroker starts a NATS server and gives its address.
func (s *site) startBroker() string {
	s.t.Helper()
	broker := harness.FreeAddress(s.t)
	host, port, err := net.SplitHostPort(broker)
	require.NoError(s.t, err)
	nats := harness.StartCommand(s.t, s.folder, harness.Program(s.t, "nats-server", "nats-server"), "-a", host, "-p", port, "--user", "site", "--pass", token,
		"--tls", "--tlscert", s.path("server.pem"), "--tlskey", s.path("server.key"))
	harness.Eventually(s.t, harness.Patience, func() error {
		if !strings.Contains(nats.Log(), "Server is ready") {
			return fmt.Errorf("the broker is not ready: %s", nats.Log())
		}
		return nil
	})
	return broker
}

// overNATS gives what is to be changed in the tables of NATS.
func (s *site) overNATS(broker string) []string {
	return []string{"broker.example.org:4222", broker, "${NATS_PASSWORD}", token, `"/etc/telegraf/ca.pem"`, s.quoted("ca.pem")}
}

func userOf(id int) string { return fmt.Sprintf("user%d", id%3) }

func accountOf(id int) string { return fmt.Sprintf("account%d", id%2) }

// startQueue starts a Telegraf that tells of a queue with the simulation's jobs.
func (s *site) startQueue(broker string) {
	s.t.Helper()
	var queue strings.Builder
	for id := firstJob + 1; id <= firstJob+1000; id++ {
		fmt.Fprintf(&queue, "slurm_job,account=%s,partition=cpu,user=%s job=\"%d\",job_id=%di,state=\"RUNNING\",start=1i\n", accountOf(id), userOf(id), id, id)
	}
	s.write("queue.txt", queue.String())
	input := fmt.Sprintf("[[inputs.file]]\n  files = [%s]\n  data_format = \"influx\"\n\n", s.quoted("queue.txt"))
	s.senders["head"] = harness.StartTelegraf(s.t, s.mkdir("head"), s.table("agent", 1, `"30s"`, `"2s"`, `"5s"`, `"300ms"`)+input+s.table("outputs.nats", 1, s.overNATS(broker)...))
}

// sharded reads the last totals, and adds up those of the file system, users and accounts over the shards.
func (s *site) sharded() totals {
	s.t.Helper()
	got := make(totals)
	for measurement, tag := range map[string]string{"lustre_fs": "", "lustre_user": "user", "lustre_account": "account"} {
		for _, series := range s.db.Query(database, fmt.Sprintf("SELECT * FROM %q GROUP BY *", measurement)) {
			require.Contains(s.t, []string{"0", "1"}, series.Tags["shard"])
			name := strings.TrimSpace(strings.TrimPrefix(measurement, "lustre_") + " " + series.Tags[tag])
			for field, n := range s.last(name, series.Rows) {
				got.add(name+" "+series.Tags["kind"], field, n)
			}
		}
	}
	for _, series := range s.db.Query(database, `SELECT * FROM lustre_job WHERE job != '_other' GROUP BY *`) {
		name := "job " + series.Tags["job"] + " " + series.Tags["kind"]
		require.NotContains(s.t, got, name, "a job in two shards")
		got[name] = s.last(name, series.Rows)
	}
	return got
}
