package metricdoc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoMetrics is that a README has no section "## Metrics".
var ErrNoMetrics = errors.New(`no section "## Metrics"`)

const notByDefault = " (not by default)"

// Parse reads a README. An error names the line; it is ErrNoMetrics where there is no such section.
func Parse(readme []byte) (*Doc, error) {
	lines, start, err := section(string(readme))
	if err != nil {
		return nil, err
	}
	items, err := list(lines)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("line %d: no measurement is listed below", start)
	}
	doc := new(Doc)
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].depth > 0 {
			n++
		}
		if err := doc.add(items[:n]); err != nil {
			return nil, err
		}
		items = items[n:]
	}
	return doc, nil
}

// line is a line of the README, numbered from 1.
type line struct {
	number int
	text   string
}

func (l line) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", l.number, fmt.Errorf(format, args...))
}

// section gives the lines of the section, but for those of code blocks, and the line that it begins in. A code block may
// have lines that look like headings, such as a sample.conf's.
func section(readme string) (lines []line, start int, err error) {
	fence := 0
	for i, text := range strings.Split(readme, "\n") {
		l := line{i + 1, strings.TrimRight(text, " \r")}
		switch {
		case fence > 0:
			if l.text == "```" {
				fence = 0
			}
		case strings.HasPrefix(l.text, "```"):
			fence = l.number
			lines = append(lines, line{l.number, "```"})
		case l.text == "## Metrics":
			if start > 0 {
				return nil, 0, l.errorf("a second section %q", l.text)
			}
			start, lines = l.number, nil
		case start > 0 && (strings.HasPrefix(l.text, "# ") || strings.HasPrefix(l.text, "## ")):
			return lines, start, nil
		default:
			lines = append(lines, l)
		}
	}
	switch {
	case start == 0:
		return nil, 0, ErrNoMetrics
	case fence > 0:
		return nil, 0, fmt.Errorf("line %d: the code block has no end", fence)
	}
	return lines, start, nil
}

// item is an item of the list, with what it runs on over in one line. Its line is where it begins.
type item struct {
	line
	depth int // 0 of measurements, 1 of tags: and fields:, 2 of a tag or a field
}

// list gives the items of the lists in the section.
func list(lines []line) ([]item, error) {
	var items []item
	open := false // The line before is of a list.
	for _, l := range lines {
		text := strings.TrimLeft(l.text, " ")
		indent := len(l.text) - len(text)
		last := len(items) - 1
		switch {
		case text == "":
			open = false
		case strings.HasPrefix(text, "- ") && (indent == 0 || open && (indent == 2 || indent == 4)):
			items = append(items, item{line{l.number, clean(text[2:])}, indent / 2})
			open = true
		case open && items[last].depth != 1 && indent == items[last].depth*2+2:
			items[last].text += " " + clean(text)
		case open && indent == 0:
			return nil, l.errorf("%q stands right below a list: an empty line must part them", l.text)
		case indent > 0 || text[0] == '\t':
			return nil, l.errorf("%q is indented as nothing that may stand here", text)
		case strings.HasPrefix(text, "* ") || strings.HasPrefix(text, "+ ") || text == "-":
			return nil, l.errorf("%q: an item begins with %q", text, "- ")
		}
	}
	return items, nil
}

// clean makes every blank a single space.
func clean(text string) string { return strings.Join(strings.Fields(text), " ") }

// add reads a measurement's item and those below it.
func (d *Doc) add(items []item) error {
	head := items[0]
	names, text, ok := strings.Cut(head.text, ": ")
	if !ok {
		return head.errorf("%q: want `measurement: text`", head.text)
	}
	m := Measurement{Text: text}
	names, m.Optional = strings.CutSuffix(names, notByDefault)
	if err := d.addBelow(&m, items[1:]); err != nil {
		return err
	}
	if len(m.Fields) == 0 {
		return head.errorf("%q has no fields", names)
	}
	for _, name := range strings.Split(names, ", ") {
		switch {
		case !isPlain(name):
			return head.errorf("%q is no name of a measurement", name)
		case d.Measurement(name) != nil:
			return head.errorf("measurement %q is there twice", name)
		}
		m.Name = name
		m.Tags, m.Fields = slices.Clone(m.Tags), slices.Clone(m.Fields)
		d.Measurements = append(d.Measurements, m)
	}
	return nil
}

// addBelow reads the tags and fields of a measurement.
func (d *Doc) addBelow(m *Measurement, items []item) error {
	section := ""
	for i, it := range items {
		if it.depth == 1 {
			switch {
			case it.text != "tags:" && it.text != "fields:":
				return it.errorf("%q: want `tags:` or `fields:`", it.text)
			case it.text == section:
				return it.errorf("%q is there twice", it.text)
			case it.text == "tags:" && section == "fields:":
				return it.errorf("%q must stand before %q", it.text, section)
			case i+1 == len(items) || items[i+1].depth != 2:
				return it.errorf("nothing is listed below %q", it.text)
			}
			section = it.text
			continue
		}
		var err error
		switch section {
		case "tags:":
			err = d.addTags(m, it.text)
		case "fields:":
			err = d.addFields(m, it.text)
		default:
			err = fmt.Errorf("%q is not below `tags:` or `fields:`", it.text)
		}
		if err != nil {
			return it.errorf("%w", err)
		}
	}
	return nil
}

// addTags adds what an item says of tags.
func (d *Doc) addTags(m *Measurement, text string) error {
	if rest, ok := strings.CutPrefix(text, thoseOf); ok {
		return addThose(d, rest, &m.Tags, func(m *Measurement) []Tag { return m.Tags })
	}
	names, about := text, ""
	if end := strings.IndexAny(text, "(:"); end >= 0 {
		var ok bool
		names, about = strings.TrimSuffix(text[:end], " "), text[end:]
		if inner, isOpen := strings.CutPrefix(about, "("); isOpen {
			about, ok = strings.CutSuffix(inner, ")")
			ok = ok && names != text[:end] && !strings.ContainsAny(about, "()")
		} else {
			about, ok = strings.CutPrefix(about, ": ")
			ok = ok && names == text[:end]
		}
		if !ok || about == "" {
			return fmt.Errorf("%q: want `tag`, `tag (text)` or `tag: text`", text)
		}
	}
	for _, name := range strings.Split(names, ", ") {
		if err := addNew(&m.Tags, Tag{name, about}); err != nil {
			return err
		}
	}
	return nil
}

// addFields adds what an item says of fields.
func (d *Doc) addFields(m *Measurement, text string) error {
	if rest, ok := strings.CutPrefix(text, thoseOf); ok {
		return addThose(d, rest, &m.Fields, func(m *Measurement) []Field { return m.Fields })
	}
	names, rest, hasType := strings.Cut(text, " (")
	inner, rest, hasEnd := strings.Cut(rest, ")")
	kind, unit, hasUnit := strings.Cut(inner, ", ")
	about, hasText := strings.CutPrefix(rest, ": ")
	if !hasType || !hasEnd || hasUnit && unit == "" || !hasText && rest != "" {
		return fmt.Errorf("%q: want `field (type)` or `field (type, unit)`, and perhaps `: text`", text)
	}
	f := Field{Type: Type(kind), Unit: strings.TrimSpace(unit), Text: about}
	if types := []Type{Integer, Float, String, Boolean}; !slices.Contains(types, f.Type) {
		return fmt.Errorf("%q is none of the types %q", kind, types)
	}
	for _, f.Name = range strings.Split(names, ", ") {
		if err := addNew(&m.Fields, f); err != nil {
			return err
		}
	}
	return nil
}

const thoseOf = "those of "

// named is a Tag or a Field.
type named interface{ name() (kind, name string) }

func (t Tag) name() (kind, name string)   { return "tag", t.Name }
func (f Field) name() (kind, name string) { return "field", f.Name }

// addThose adds those of another measurement: what stands behind "those of", such as `other but a, b`.
func addThose[T named](d *Doc, text string, to *[]T, of func(m *Measurement) []T) error {
	name, but, hasBut := strings.Cut(text, " but ")
	other := d.Measurement(name)
	if other == nil {
		return fmt.Errorf("%q is no measurement further up", name)
	}
	var left []string
	if hasBut {
		left = strings.Split(but, ", ")
	}
	added := false
	for _, item := range of(other) {
		if _, name := item.name(); slices.Contains(left, name) {
			left = slices.DeleteFunc(left, func(other string) bool { return other == name })
			continue
		}
		if err := addNew(to, item); err != nil {
			return err
		}
		added = true
	}
	switch {
	case len(left) > 0:
		return fmt.Errorf("measurement %q has no %q", name, left[0])
	case !added:
		return fmt.Errorf("nothing is left of those of %q", name)
	}
	return nil
}

func addNew[T named](to *[]T, item T) error {
	kind, name := item.name()
	if !isName(name) {
		return fmt.Errorf("%q is no name of a %s", name, kind)
	}
	for _, other := range *to {
		if _, have := other.name(); have == name {
			return fmt.Errorf("%s %q is there twice", kind, name)
		}
	}
	*to = append(*to, item)
	return nil
}
