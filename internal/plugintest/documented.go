package plugintest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/metricdoc"
)

// Documented requires that the plugin's README.md documents each of the metrics: its measurement, tags, and fields with
// their types. Cases and Readme see to this by themselves; it is for metrics of other tests. `go test -update` changes
// nothing in it.
func Documented(t testing.TB, metrics []telegraf.Metric) {
	t.Helper()
	if doc := documentation(t); doc != nil {
		require.NoError(t, undocumented(doc, metrics), "README.md does not document what the plugin emits")
	}
}

// Shown requires that the expected.out of the cases show all that the plugin's README.md documents, so that it documents
// nothing that is not there. but names what they do not show: each as `measurement`, or as `measurement name` for one of
// its tags or fields.
func Shown(t *testing.T, but ...string) {
	t.Helper()
	paths, err := filepath.Glob("testcases/*/expected.out")
	require.NoError(t, err)
	parser := &influx.Parser{}
	require.NoError(t, parser.Init())
	var metrics []telegraf.Metric
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		more, err := parser.Parse(text)
		require.NoError(t, err)
		metrics = append(metrics, more...)
	}
	doc := documentation(t)
	require.NotNil(t, doc, "README.md documents no metrics")
	require.ElementsMatch(t, but, unseen(doc, metrics), "documented in README.md, and in no expected.out")
}

// unseen tells what a README documents that none of the metrics has.
func unseen(doc *metricdoc.Doc, metrics []telegraf.Metric) []string {
	seen := make(map[any]bool)
	for _, metric := range metrics {
		m := doc.Measurement(metric.Name())
		if m == nil {
			continue
		}
		seen[m] = true
		for _, tag := range metric.TagList() {
			seen[m.Tag(tag.Key)] = true
		}
		for _, field := range metric.FieldList() {
			seen[m.Field(field.Key, typeOf(field.Value))] = true
		}
	}
	var missing []string
	for i := range doc.Measurements {
		m := &doc.Measurements[i]
		if !seen[m] {
			missing = append(missing, m.Name)
			continue
		}
		for i := range m.Tags {
			if tag := &m.Tags[i]; !seen[tag] {
				missing = append(missing, m.Name+" "+tag.Name)
			}
		}
		for i := range m.Fields {
			if field := &m.Fields[i]; !seen[field] {
				missing = append(missing, m.Name+" "+field.Name)
			}
		}
	}
	return missing
}

// documentation reads the plugin's README.md. It is nil of outputs, which emit nothing.
func documentation(t testing.TB) *metricdoc.Doc {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	doc, err := metricdoc.Parse(text)
	if errors.Is(err, metricdoc.ErrNoMetrics) && filepath.Base(filepath.Dir(folder)) == "outputs" {
		return nil
	}
	require.NoError(t, err, "README.md; internal/metricdoc tells the form")
	return doc
}

// undocumented tells what of the metrics a README does not document, each thing once, in order.
func undocumented(doc *metricdoc.Doc, metrics []telegraf.Metric) error {
	var missing []string
	for _, m := range metrics {
		var tags []string
		for _, tag := range m.TagList() {
			tags = append(tags, tag.Key)
		}
		fields := make(map[string]metricdoc.Type)
		for _, field := range m.FieldList() {
			fields[field.Key] = typeOf(field.Value)
		}
		if err := doc.Check(m.Name(), tags, fields); err != nil {
			missing = append(missing, strings.Split(err.Error(), "\n")...)
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 {
		return errors.New(strings.Join(missing, "\n"))
	}
	return nil
}

func typeOf(value any) metricdoc.Type {
	switch value.(type) {
	case int64:
		return metricdoc.Integer
	case float64:
		return metricdoc.Float
	case string:
		return metricdoc.String
	case bool:
		return metricdoc.Boolean
	}
	return metricdoc.Type(fmt.Sprintf("%T", value)) // No README has it.
}
