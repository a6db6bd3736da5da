package node_sensors

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Commands names what the program can do besides measuring for Telegraf.
func (*NodeSensors) Commands() map[string]string {
	return map[string]string{
		"list": "show all sensors, or all of one named `SENSOR`, and exit",
		"try":  "measure the sensor named `SENSOR` once, as the configuration says, show what it gives, and exit",
	}
}

// Command does what one of the flags --list and --try asks for.
func (p *NodeSensors) Command(w io.Writer, name, argument string) error {
	if argument == "" {
		if name == "try" {
			return fmt.Errorf("-try needs the name of a sensor: one of %q", sensorNames(false))
		}
		return listAll(w)
	}
	found, unknown := named([]string{argument})
	if unknown != "" {
		return fmt.Errorf("there is no sensor %q: it is none of %q", argument, sensorNames(false))
	}
	if name == "list" {
		return listOne(w, found[0])
	}
	return p.try(w, found[0])
}

// columns of the table of all sensors, with their widths.
func columns() ([]string, []int) {
	return []string{"SENSOR", "WHAT", "FIELDS AND UNITS", "OPTIONS", "IN STOCK TELEGRAF"}, []int{22, 36, 44, 13, 34}
}

func listAll(w io.Writer) error {
	var b strings.Builder
	head, widths := columns()
	writeRow(&b, head, widths)
	usual := newOptions()
	for _, s := range catalogue() {
		name := s.name
		if s.usual {
			name += " *"
		}
		var fields []string
		for _, row := range s.rows {
			for _, f := range row.fields {
				fields = append(fields, fmt.Sprintf("%s (%s, %s)", strings.Join(f.each(), ", "), f.kind, f.unit))
			}
		}
		described := describe(s.options(&usual))
		options := make([]string, 0, len(described))
		for _, o := range described {
			options = append(options, o.name)
		}
		b.WriteByte('\n')
		writeRow(&b, []string{name, s.help, strings.Join(fields, "; "), strings.Join(options, ", "), s.stock}, widths)
	}
	b.WriteString("\n* is on by default. --list SENSOR shows all of one, --try SENSOR measures it.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRow writes cells side by side, each in as many lines as it takes.
func writeRow(b *strings.Builder, cells []string, widths []int) {
	columns := make([][]string, 0, len(cells))
	lines := 0
	for i, cell := range cells {
		columns = append(columns, wrap(cell, widths[i]))
		lines = max(lines, len(columns[i]))
	}
	for line := range lines {
		var text strings.Builder
		for i, column := range columns {
			cell := ""
			if line < len(column) {
				cell = column[line]
			}
			text.WriteString(cell + strings.Repeat(" ", max(0, widths[i]+2-utf8.RuneCountInString(cell))))
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

// wrap breaks a text into lines no longer than a width, but for words that are.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func listOne(w io.Writer, s *sensor) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.name)
	for _, line := range wrap(s.help, 100) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	on := "no"
	if s.usual {
		on = "yes"
	}
	fmt.Fprintf(&b, "\nOn by default: %s\nIn stock Telegraf: %s\n", on, s.stock)
	for _, row := range s.rows {
		fmt.Fprintf(&b, "\nMeasurement %s\n", row.measurement)
		for tag := range strings.FieldsSeq(row.tags) {
			fmt.Fprintf(&b, "  %-20s tag\n", tag)
		}
		for _, f := range row.fields {
			for _, name := range f.each() {
				fmt.Fprintf(&b, "  %-20s %-9s %s\n", name, f.kind, f.unit)
			}
		}
	}
	usual := newOptions()
	fmt.Fprintf(&b, "\n[inputs.node_sensors.sensor.%s]\n", s.name)
	for _, o := range describe(s.options(&usual)) {
		fmt.Fprintf(&b, "  ## %s\n  # %s = %s\n", o.about, o.name, o.value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tryFor is how long a sensor is tried that measures what happens.
const tryFor = time.Second

// try measures a sensor and shows its rows.
func (p *NodeSensors) try(w io.Writer, s *sensor) error {
	m := p.meter(s)
	r := p.measure(m, p.now())
	if s.twice && len(r.troubles) == 0 {
		time.Sleep(tryFor)
		r = p.measure(m, p.now())
	}
	var b strings.Builder
	for i := range r.points {
		pt := &r.points[i]
		b.WriteString(pt.measurement)
		for _, tag := range slices.Sorted(maps.Keys(pt.tags)) {
			fmt.Fprintf(&b, " %s=%s", tag, pt.tags[tag])
		}
		b.WriteByte('\n')
		for _, name := range slices.Sorted(maps.Keys(pt.fields)) {
			value := fmt.Sprint(pt.fields[name])
			if text, ok := pt.fields[name].(string); ok {
				value = fmt.Sprintf("%q", text)
			}
			fmt.Fprintf(&b, "  %-20s %s\n", name, strings.TrimSpace(value+" "+s.unit(pt.measurement, name)))
		}
	}
	if r.absent != "" {
		fmt.Fprintf(&b, "%s: %s\n", s.name, r.absent)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, t := range r.troubles {
		return fmt.Errorf("sensor %s: %w", s.name, t.err)
	}
	return nil
}

// unit gives the unit of a field, where it is more than a number.
func (s *sensor) unit(measurement, name string) string {
	for _, row := range s.rows {
		for _, f := range row.fields {
			if row.measurement == measurement && slices.Contains(f.each(), name) && f.kind != str && f.unit != truth && f.unit != plain {
				return f.unit
			}
		}
	}
	return ""
}
