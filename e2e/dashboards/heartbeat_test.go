package dashboards

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// questions gives what docs/heartbeat.md asks the stores: the first two are for InfluxDB, the others for VictoriaMetrics.
func questions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "heartbeat.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```text\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
	all := make([]string, 0, len(blocks))
	for _, block := range blocks {
		all = append(all, block[1])
	}
	require.Len(t, all, 4)
	return all
}

// Of three agents one has told nothing for eleven minutes: each question that the documentation asks tells which.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	ask := questions(t)
	now := time.Now().Truncate(time.Second)
	var b strings.Builder
	for back := 0; back < 60*60; back += 30 {
		at := now.Add(-time.Duration(back) * time.Second).UnixNano()
		for _, host := range []string{"one", "two", "three"} {
			if host != "two" || back > 11*60 {
				fmt.Fprintf(&b, "internal_agent,host=%s,version=1.37.2 metrics_gathered=%di %d\n", host, 10000-back, at)
			}
		}
	}
	db := startInfluxDB(t, b.String())
	silent := make(map[string]bool)
	for _, s := range db.Query(database, ask[0]) {
		silent[s.Tags["host"]] = now.Sub(time.Unix(0, s.Rows[0].Int64(t, "time"))) > 10*time.Minute
	}
	require.Equal(t, map[string]bool{"one": false, "two": true, "three": false}, silent)
	clear(silent)
	for _, s := range db.Query(database, ask[1]) {
		gathers, _ := reduce(t, s.Rows, "last")
		silent[s.Tags["host"]] = gathers == 0
	}
	require.Equal(t, map[string]bool{"one": false, "two": true, "three": false}, silent)

	v := harness.StartVictoriaMetrics(t)
	response, err := http.Post(v.URL+"/write", "", strings.NewReader(b.String()))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	harness.Eventually(t, time.Minute, func() error {
		points := 0.0
		for _, s := range v.Query("count_over_time(internal_agent_metrics_gathered[1d])", now) {
			points += s.Values[0]
		}
		if lines := strings.Count(b.String(), "\n"); int(points) != lines {
			return fmt.Errorf("%.0f of %d points", points, lines)
		}
		return nil
	})
	for _, question := range ask[2:] {
		answer := v.Query(question, now)
		require.Len(t, answer, 1, question)
		require.Equal(t, map[string]string{"host": "two"}, answer[0].Metric, question)
	}
	require.InDelta(t, 11*60+30, v.Query(ask[3], now)[0].Values[0], 2)
}
