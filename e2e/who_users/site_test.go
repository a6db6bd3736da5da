// Package who_users runs who_users under the stock Telegraf, on a machine with a real sshd and a real logind, and with a
// real InfluxDB.
package who_users

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

const (
	database = "who"
)

// TestMain lets more tests run side by side than there are CPUs: they wait most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// site is a login node that Telegraf and our plugin watch, and the database that they report to.
type site struct {
	*harness.LoginNode
	harness.Reports
	t testing.TB
}

// newSite starts a login node and a database.
func newSite(t testing.TB, options harness.LoginOptions) *site {
	t.Helper()
	s := &site{t: t, LoginNode: harness.StartLoginNode(t, options)}
	s.Reports = harness.Reports{DB: harness.StartInfluxDB(t), Database: database, Plugin: "inputs.who_users"}
	s.DB.CreateDatabase(database)
	return s
}

// watch starts Telegraf with the plugin on the node. Each text has the options of one table.
func (s *site) watch(tables ...string) {
	s.t.Helper()
	var configuration strings.Builder
	for _, options := range tables {
		fmt.Fprintf(&configuration, "[[inputs.who_users]]\n%s\n", options)
	}
	require.NoError(s.t, os.WriteFile(s.Path("who_users.conf"), []byte(configuration.String()), 0o600))
	bin := harness.Build(s.t, "./cmd/who_users")
	tool := s.Tool(filepath.Join(bin, "who_users"))
	s.Telegraf = harness.StartTelegraf(s.t, s.t.TempDir(),
		s.DB.Input(database, tool, "/run/who_users.conf", `interval = "500ms"`, "omit_hostname = true"))
}

// none requires that the plugin gathers and tells nothing of users.
func (s *site) none() {
	s.t.Helper()
	after := time.Now()
	for range 3 {
		begin := time.Now()
		s.Last(begin, "who_users_self", nil)
	}
	_, err := s.Latest(after, "who_users", nil)
	require.Error(s.t, err, "there is a point")
}
