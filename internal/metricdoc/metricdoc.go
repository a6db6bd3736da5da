// Package metricdoc reads the section "## Metrics" of a plugin's README: which measurements the plugin has, with which
// tags and fields. It is the form of Telegraf's own READMEs, held strictly:
//
//	## Metrics
//
//	Prose for people.
//
//	- measurement[, measurement ...] [(not by default)]: text
//	  - tags:
//	    - tag[, tag ...] [(text)]
//	    - tag[, tag ...]: text
//	    - those of MEASUREMENT [but tag, tag ...]
//	  - fields:
//	    - field[, field ...] (type[, unit])[: text]
//	    - those of MEASUREMENT [but field, field ...]
//
// The section goes on to the next heading of its own level, past smaller headings. In it, lists are of measurements only;
// paragraphs and code blocks are for people, and an empty line parts them from a list. An item may run on over lines,
// which are indented to where its text began. Tags may be missing, and come before the fields; fields may not be missing.
//
// A name is of small letters, digits and underscores, and begins with a letter. A tag's or a field's may have one word of
// capital letters in it, between underscores, as in NAME_usecs: it stands for anything that a name is made of. A name
// that is there as it is goes before one with such a word, and of those the one with most letters around it.
//
// type is integer, float, string or boolean. unit is any text without a closing parenthesis, such as "bytes",
// "seconds since 1970" or "0 to 1". "those of" stands for all tags, or fields, that a measurement further up has.
package metricdoc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is the type of a field.
type Type string

// The types that fields have in InfluxDB's line protocol, but for unsigned integers, which it has not always had.
const (
	Integer Type = "integer"
	Float   Type = "float"
	String  Type = "string"
	Boolean Type = "boolean"
)

// Doc is what a README says of metrics.
type Doc struct {
	Measurements []Measurement // in the README's order, each name once
}

// Measurement is one measurement. Those that share an item of the list are one after the other, alike but for their names.
type Measurement struct {
	Name     string
	Text     string  // in one line
	Optional bool    // it is not there by default
	Tags     []Tag   // in the README's order, each name once
	Fields   []Field // likewise, at least one
}

// Tag is a tag that points of a measurement may have. Its name may have a placeholder.
type Tag struct {
	Name string
	Text string // in one line, or empty
}

// Field is a field that points of a measurement may have. Its name may have a placeholder.
type Field struct {
	Name string
	Type Type
	Unit string // or empty
	Text string // in one line, or empty
}

// Measurement returns a measurement by its name, or nil.
func (d *Doc) Measurement(name string) *Measurement {
	for i := range d.Measurements {
		if d.Measurements[i].Name == name {
			return &d.Measurements[i]
		}
	}
	return nil
}

// Tag returns what documents a tag, or nil.
func (m *Measurement) Tag(name string) *Tag {
	best, most := (*Tag)(nil), 0
	for i := range m.Tags {
		if fit := fit(m.Tags[i].Name, name); fit > most {
			best, most = &m.Tags[i], fit
		}
	}
	return best
}

// Field returns what documents a field, or nil. Where placeholders fit alike, it is one of the type, if there is one.
func (m *Measurement) Field(name string, kind Type) *Field {
	best, most := (*Field)(nil), 0
	for i := range m.Fields {
		f := &m.Fields[i]
		if fit := fit(f.Name, name); fit > most || fit == most && fit > 0 && best.Type != kind && f.Type == kind {
			best, most = f, fit
		}
	}
	return best
}

// Check tells what of a point is not documented, or documented as of another type: all of it, a line each.
func (d *Doc) Check(measurement string, tags []string, fields map[string]Type) error {
	m := d.Measurement(measurement)
	if m == nil {
		return fmt.Errorf("measurement %q is not documented", measurement)
	}
	var errs []error
	for _, tag := range tags {
		if m.Tag(tag) == nil {
			errs = append(errs, fmt.Errorf("measurement %q: tag %q is not documented", measurement, tag))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		kind := fields[name]
		switch f := m.Field(name, kind); {
		case f == nil:
			errs = append(errs, fmt.Errorf("measurement %q: field %q (%s) is not documented", measurement, name, kind))
		case f.Type != kind:
			errs = append(errs, fmt.Errorf("measurement %q: field %q is of type %s, documented as %s", measurement, name, kind, f.Type))
		}
	}
	return errors.Join(errs...)
}

// String returns the list of measurements in the form that Parse reads, each on its own and every item in one line.
func (d *Doc) String() string {
	var b strings.Builder
	for i := range d.Measurements {
		m := &d.Measurements[i]
		b.WriteString("- " + m.Name)
		if m.Optional {
			b.WriteString(notByDefault)
		}
		b.WriteString(": " + m.Text + "\n")
		if len(m.Tags) > 0 {
			b.WriteString("  - tags:\n")
		}
		for _, t := range m.Tags {
			b.WriteString("    - " + t.Name + behind(t.Text) + "\n")
		}
		b.WriteString("  - fields:\n")
		for _, f := range m.Fields {
			b.WriteString("    - " + f.Name + " (" + string(f.Type))
			if f.Unit != "" {
				b.WriteString(", " + f.Unit)
			}
			b.WriteString(")" + behind(f.Text) + "\n")
		}
	}
	return b.String()
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
