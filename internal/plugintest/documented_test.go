package plugintest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/metricdoc"
)

const readme = `## Metrics

- queue: text
  - tags:
    - state
  - fields:
    - jobs (integer)
    - load (float)
    - name (string)
    - ok (boolean)
`

func TestUndocumented(t *testing.T) {
	doc, err := metricdoc.Parse([]byte(readme))
	require.NoError(t, err)
	point := func(name string, tags map[string]string, fields map[string]any) telegraf.Metric {
		return metric.New(name, tags, fields, time.Unix(0, 0))
	}
	good := point("queue", map[string]string{"state": "x"}, map[string]any{"jobs": int64(1), "load": 1., "name": "x", "ok": true})
	require.NoError(t, undocumented(doc, nil))
	require.NoError(t, undocumented(doc, []telegraf.Metric{good, good}))
	bad := point("queue", map[string]string{"user": "x"}, map[string]any{"jobs": 1., "load": int64(1), "name": uint64(1), "up": true})
	require.EqualError(t, undocumented(doc, []telegraf.Metric{bad, good, point("other", nil, map[string]any{"jobs": 1}), bad}),
		`measurement "other" is not documented
measurement "queue": field "jobs" is of type float, documented as integer
measurement "queue": field "load" is of type integer, documented as float
measurement "queue": field "name" is of type uint64, documented as string
measurement "queue": field "up" (boolean) is not documented
measurement "queue": tag "user" is not documented`)
}

func TestUnseen(t *testing.T) {
	doc, err := metricdoc.Parse([]byte(readme + "    - NAME_rate, NAME (float)\n- other: text\n  - fields:\n    - jobs (integer)\n"))
	require.NoError(t, err)
	point := func(name string, tags map[string]string, fields map[string]any) telegraf.Metric {
		return metric.New(name, tags, fields, time.Unix(0, 0))
	}
	require.Equal(t, []string{"queue", "other"}, unseen(doc, []telegraf.Metric{point("x", nil, map[string]any{"jobs": int64(1)})}))
	first := point("queue", nil, map[string]any{"jobs": int64(1), "open": 1.})
	require.Equal(t, []string{"queue state", "queue load", "queue name", "queue ok", "queue NAME_rate", "other"},
		unseen(doc, []telegraf.Metric{first}))
	second := point("queue", map[string]string{"state": "x", "user": "x"}, map[string]any{"load": 1., "name": "x", "ok": true, "x_rate": 1.})
	require.Empty(t, unseen(doc, []telegraf.Metric{first, second, point("other", nil, map[string]any{"jobs": int64(1)})}))
}

func TestDocumentation(t *testing.T) {
	write := func(folder, text string) {
		folder = filepath.Join(t.TempDir(), folder)
		require.NoError(t, os.MkdirAll(folder, 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "README.md"), []byte(text), 0o600))
		t.Chdir(folder)
	}
	write("inputs/a", readme)
	require.Len(t, documentation(t).Measurements, 1)
	write("outputs/a", readme)
	require.Len(t, documentation(t).Measurements, 1)
	write("outputs/a", "# An output\n")
	require.Nil(t, documentation(t))
}
