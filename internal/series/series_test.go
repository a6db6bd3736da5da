package series

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGone(t *testing.T) {
	var f Fading[string]
	require.Empty(t, Gone(&f, 1000, map[string]int{"a": 1, "b": 1}))
	require.Equal(t, []string{"b"}, Gone(&f, 1030, map[string]int{"a": 1}))
	require.Equal(t, []string{"b"}, Gone(&f, 1600, map[string]int{"a": 1}), "zeros for ten minutes")
	require.Empty(t, Gone(&f, 1630, map[string]int{"a": 1}))
	require.NotContains(t, f, "b", "it is forgotten")
	require.Empty(t, Gone(&f, 1600, map[string]int{"a": 1}), "a clock that goes back")
}

func TestHistogram(t *testing.T) {
	var h Histogram
	bounds := []int64{60, 300}
	h.Observe(bounds, 0, 1)
	h.Observe(bounds, 60, 2) // A bound belongs to its bucket.
	h.Observe(bounds, 61, 3)
	h.Observe(bounds, 1000, 4)
	require.Equal(t, Histogram{Counts: []int64{3, 3, 4}, Sum: 120 + 183 + 4000}, h)

	var sum Histogram
	sum.Merge(&h)
	sum.Merge(&h)
	require.Equal(t, Histogram{Counts: []int64{6, 6, 8}, Sum: 2 * 4303}, sum)

	var rows []map[string]any
	h.Rows(bounds, func() map[string]string { return map[string]string{"queue": "q"} }, func(tags map[string]string, fields map[string]any) {
		require.Equal(t, "q", tags["queue"])
		fields["le"] = tags["le"]
		rows = append(rows, fields)
	})
	require.Equal(t, []map[string]any{
		{"le": "60", "bucket": int64(3)}, {"le": "300", "bucket": int64(6)}, {"le": "+Inf", "bucket": int64(10)},
		{"le": "", "count": int64(10), "sum": int64(4303)},
	}, rows)
}

func TestBounds(t *testing.T) {
	bounds, err := Bounds(Hours[time.Duration](1./60, .25, 1))
	require.NoError(t, err)
	require.Equal(t, []int64{60, 900, 3600}, bounds)
	for want, buckets := range map[string][]time.Duration{
		"empty": nil,
		"1h0m0s: must be whole seconds, each more than the one before": {time.Hour, time.Hour},
		"1.5s: must be whole seconds, each more than the one before":   {1500 * time.Millisecond},
		"0s: must be whole seconds, each more than the one before":     {0},
	} {
		_, err := Bounds(buckets)
		require.EqualError(t, err, want)
	}
}
