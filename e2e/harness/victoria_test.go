package harness

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVictoriaMetrics(t *testing.T) {
	t.Parallel()
	v := StartVictoriaMetrics(t)
	now := time.Now().UnixMilli()
	line := fmt.Sprintf("cpu,host=a,cpu=cpu-total usage_idle=12.5,usage_user=3,state=\"up\" %d", now*1e6)
	response, err := http.Post(v.URL+"/write", "", strings.NewReader(line))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	want := []VictoriaSeries{{
		Metric: map[string]string{"__name__": "cpu_usage_idle", "host": "a", "cpu": "cpu-total"}, Values: []float64{12.5}, Timestamps: []int64{now},
	}}
	Eventually(t, time.Minute, func() error {
		got := v.Export(`cpu_usage_idle{host="a"}`)
		if !assert.ObjectsAreEqual(want, got) {
			return fmt.Errorf("%v instead of %v", got, want)
		}
		return nil
	})
	require.Equal(t, []string{"cpu_state", "cpu_usage_idle", "cpu_usage_user"}, v.Names())
	require.Equal(t, []float64{0}, v.Export("cpu_state")[0].Values, "a string")
}
