package harness

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Reports are what a plugin tells below a stock Telegraf: its points in a database, and its words in Telegraf's log.
type Reports struct {
	DB       *InfluxDB
	Database string
	Telegraf *Telegraf // Once it runs.
	// Plugin is its name in the log, such as inputs.condor_q.
	Plugin string
}

// Latest gives the latest point of a measurement that was gathered after a time and has these tags; "" is for one that it
// has not.
func (r *Reports) Latest(after time.Time, measurement string, tags map[string]string) (Row, error) {
	r.DB.t.Helper()
	where := append(make([]string, 0, 1+len(tags)), fmt.Sprintf("time > %d", after.UnixNano()))
	for name, value := range tags {
		where = append(where, fmt.Sprintf("%q = '%s'", name, value))
	}
	series := r.DB.Query(r.Database, fmt.Sprintf("SELECT * FROM %q WHERE %s ORDER BY time DESC LIMIT 1", measurement, strings.Join(where, " AND ")))
	if len(series) == 0 {
		return nil, fmt.Errorf("no %s with %v after %s", measurement, tags, after)
	}
	return series[0].Rows[0], nil
}

// Last waits for such a point.
func (r *Reports) Last(after time.Time, measurement string, tags map[string]string) (row Row) {
	r.DB.t.Helper()
	Eventually(r.DB.t, Patience, func() (err error) {
		row, err = r.Latest(after, measurement, tags)
		return err
	})
	return row
}

// Until waits until the latest point that is gathered from now on has these fields: integers (int), texts, or nil for one that
// is not there.
func (r *Reports) Until(measurement string, tags map[string]string, want Row) {
	r.DB.t.Helper()
	after := time.Now()
	Eventually(r.DB.t, Patience, func() error {
		row, err := r.Latest(after, measurement, tags)
		if err != nil {
			return err
		}
		for field, value := range want {
			got := row[field]
			if _, ok := value.(int); ok && got != nil {
				got = int(row.Int64(r.DB.t, field))
			}
			if got != value {
				return fmt.Errorf("%s %v: %s is %v, not %v: %v", measurement, tags, field, got, value, row)
			}
		}
		return nil
	})
}

// Said gives what the plugin has said at a level: E, W or I.
func (r *Reports) Said(level string) []string {
	head := level + "! [inputs.execd] [" + r.Plugin + "] "
	lines := r.Telegraf.Lines(head)
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], head)
	}
	return lines
}

// SaidOnce waits until the plugin has said something that begins so, and requires that this was once.
func (r *Reports) SaidOnce(level, text string) {
	r.DB.t.Helper()
	var all []string
	Eventually(r.DB.t, Patience, func() error {
		all = all[:0]
		said := r.Said(level)
		for _, one := range said {
			if strings.HasPrefix(one, text) {
				all = append(all, one)
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("%q was not said, but %q", text, said)
		}
		return nil
	})
	require.Len(r.DB.t, all, 1)
}
