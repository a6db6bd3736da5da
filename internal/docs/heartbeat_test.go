package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// The question that docs/heartbeat.md shows for InfluxDB is the one that the alert rule asks.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "dashboards/provisioning/alerting/telegraf-hpc-influxql.yaml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Title string `json:"title"`
				Data  []struct {
					Model struct {
						Query string `json:"query"`
					} `json:"model"`
				} `json:"data"`
			} `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	query := ""
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Title == "An agent is silent" {
				query = strings.ReplaceAll(rule.Data[0].Model.Query, "$timeFilter", "time > now() - 1d")
			}
		}
	}
	require.NotEmpty(t, query)
	page := pages(t)["docs/heartbeat.md"]
	require.NotNil(t, page)
	shown := make([]string, 0, len(page.blocks))
	for _, b := range page.blocks {
		shown = append(shown, strings.Join(strings.Fields(b.text), " "))
	}
	require.Contains(t, shown, query)
}
