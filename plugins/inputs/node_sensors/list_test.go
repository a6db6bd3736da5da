package node_sensors

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/metricdoc"
	"telegraf-hpc/internal/plugintest"
)

func TestList(t *testing.T) {
	p := newPlugin()
	var b bytes.Buffer
	require.NoError(t, p.Command(&b, "list", ""))
	plugintest.Golden(t, "testdata/list.txt", b.String())
	for _, name := range sensorNames(false) {
		require.Contains(t, b.String(), "\n"+name+" ")
	}
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len(line), 160)
	}
}

func TestListOne(t *testing.T) {
	p := newPlugin()
	var b bytes.Buffer
	require.NoError(t, p.Command(&b, "list", "disk_usage"))
	require.Equal(t, `disk_usage
  How full file systems are. percent is of what users may fill. One whose server is dead holds up no
  other.

On by default: no
In stock Telegraf: disk: used_percent and so on; it may hang with a dead server

Measurement node_disk_usage
  path                 tag
  total                integer   bytes
  used                 integer   bytes
  free                 integer   bytes
  percent              float     %

[inputs.node_sensors.sensor.disk_usage]
  ## measure no more often than this; 0s is at each gather
  # interval = "0s"
  ## the file systems, each by a path on it
  # path = ["/"]
  ## how long to wait for one path
  # timeout = "2s"
`, b.String())
	err := p.Command(&b, "list", "disk")
	require.EqualError(t, err, fmt.Sprintf(`there is no sensor "disk": it is none of %q`, sensorNames(false)))
	err = p.Command(&b, "try", "")
	require.EqualError(t, err, fmt.Sprintf(`-try needs the name of a sensor: one of %q`, sensorNames(false)))
}

func TestTry(t *testing.T) {
	p := newPlugin()
	p.Options.DiskUsage.Path = Paths{"/", "/nowhere"}
	r := newRig(t, p)
	r.overlay("testcases/compute_node/1")
	var b bytes.Buffer
	err := p.Command(&b, "try", "disk_usage")
	require.EqualError(t, err, `sensor disk_usage: path "/nowhere": no such file or directory`)
	require.Equal(t, `node_disk_usage path=/
  free                 191283200000 bytes
  percent              29.192022909761782 %
  total                270553174016 bytes
  used                 78860374016 bytes
`, b.String())

	b.Reset()
	require.NoError(t, p.Command(&b, "try", "sensors_fans"))
	require.Equal(t, `node_sensors_fans chip=w83627ehf device=hwmon3 label=CPU fan sensor=fan1
  current              4200 turns a minute
node_sensors_fans chip=w83627ehf device=hwmon3 sensor=fan2
  current              0 turns a minute
`, b.String())

	b.Reset()
	require.NoError(t, p.Command(&b, "try", "job_cgroups"))
	require.Equal(t, "job_cgroups: there is no control group of a Slurm job\n", b.String())
}

// The README documents what --list does, but for the plugin's own row, and marks what is not on by default.
func TestReadmeIsTheList(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	doc, err := metricdoc.Parse(text)
	require.NoError(t, err)
	listed := []string{measurementSelf}
	for _, s := range catalogue() {
		for _, row := range s.rows {
			listed = append(listed, row.measurement)
			m := doc.Measurement(row.measurement)
			require.NotNil(t, m, row.measurement)
			require.Equal(t, !s.usual, m.Optional, row.measurement)
			var tags []string
			for _, tag := range m.Tags {
				tags = append(tags, tag.Name)
			}
			require.ElementsMatch(t, strings.Fields(row.tags), tags, row.measurement)
			fields := 0
			for _, f := range row.fields {
				for _, name := range f.each() {
					d := m.Field(name, metricdoc.Type(f.kind))
					require.NotNil(t, d, "%s %s", row.measurement, name)
					require.Equal(t, metricdoc.Type(f.kind), d.Type, "%s %s", row.measurement, name)
					require.Equal(t, f.unit, d.Unit, "%s %s", row.measurement, name)
					fields++
				}
			}
			require.Len(t, m.Fields, fields, row.measurement)
		}
	}
	documented := make([]string, 0, len(doc.Measurements))
	for _, m := range doc.Measurements {
		documented = append(documented, m.Name)
	}
	require.ElementsMatch(t, listed, documented)
}
