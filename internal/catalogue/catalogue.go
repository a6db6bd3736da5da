// Package catalogue knows what all plugins measure: their measurements, tags and fields, as their READMEs have them.
package catalogue

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"telegraf-hpc/internal/metricdoc"
)

// embedded are the sections "## Metrics" of the plugins' READMEs, kept in step by a test.
//
//go:generate go test -count=1 -run ^TestEmbedded$ . -update
//go:embed embedded/*.md
var embedded embed.FS

// Measurement is one measurement of a plugin.
type Measurement struct {
	Plugin string  `json:"plugin"`
	Name   string  `json:"measurement"`
	Text   string  `json:"text"`
	Tags   []Tag   `json:"tags"`
	Fields []Field `json:"fields"`
	// Optional is whether it has to be asked for.
	Optional bool `json:"optional"`
}

// Tag is a tag of a measurement.
type Tag struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
}

// Field is a field of a measurement. A name may have a word of capital letters in it, which stands for any.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Unit string `json:"unit,omitempty"`
	Text string `json:"text,omitempty"`
}

// All gives the measurements of all plugins, by the plugins' names, in the order of their READMEs.
func All() ([]Measurement, error) {
	entries, err := fs.ReadDir(embedded, "embedded")
	if err != nil {
		return nil, err
	}
	var all []Measurement
	for _, e := range entries {
		text, err := fs.ReadFile(embedded, "embedded/"+e.Name())
		if err != nil {
			return nil, err
		}
		doc, err := metricdoc.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for i := range doc.Measurements {
			all = append(all, of(strings.TrimSuffix(e.Name(), ".md"), &doc.Measurements[i]))
		}
	}
	return all, nil
}

func of(plugin string, d *metricdoc.Measurement) Measurement {
	m := Measurement{Plugin: plugin, Name: d.Name, Text: d.Text, Optional: d.Optional, Tags: []Tag{}}
	for _, t := range d.Tags {
		m.Tags = append(m.Tags, Tag{Name: t.Name, Text: t.Text})
	}
	for _, f := range d.Fields {
		m.Fields = append(m.Fields, Field{Name: f.Name, Type: string(f.Type), Unit: f.Unit, Text: f.Text})
	}
	return m
}

// Choose gives those that are of a plugin, or have a name, of these; without any, all. A name that nothing has is an error.
func Choose(all []Measurement, names []string) ([]Measurement, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m Measurement) bool { return m.Plugin == name || m.Name == name }) {
			return nil, fmt.Errorf("there is neither a plugin nor a measurement %q", name)
		}
	}
	var chosen []Measurement
	for _, m := range all {
		if len(names) == 0 || slices.Contains(names, m.Plugin) || slices.Contains(names, m.Name) {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// WriteJSON writes measurements as one JSON array.
func WriteJSON(w io.Writer, all []Measurement) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(all)
}

// WriteShort writes a line for each measurement, below its plugin.
func WriteShort(w io.Writer, all []Measurement) error {
	var b strings.Builder
	plugin := ""
	for i := range all {
		m := &all[i]
		if m.Plugin != plugin {
			plugin = m.Plugin
			fmt.Fprintf(&b, "%s\n", plugin)
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-24s %s%s", m.Name, m.Text, m.optional()), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *Measurement) optional() string {
	if m.Optional {
		return " (not by default)"
	}
	return ""
}

// WriteLong writes all that is known of measurements.
func WriteLong(w io.Writer, all []Measurement) error {
	var b strings.Builder
	for i := range all {
		m := &all[i]
		b.WriteString(strings.TrimSuffix(fmt.Sprintf("%s, of %s%s: %s", m.Name, m.Plugin, m.optional(), m.Text), ": ") + "\n")
		for _, t := range m.Tags {
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %-32s %-34s %s", t.Name, "tag", t.Text), " ") + "\n")
		}
		for _, f := range m.Fields {
			kind := f.Type
			if f.Unit != "" {
				kind += ", " + f.Unit
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %-32s %-34s %s", f.Name, kind, f.Text), " ") + "\n")
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
