package migrate

import (
	"fmt"
	"strings"
)

// iniSetting is one key of a file in the syntax of Python's configparser
// (https://docs.python.org/3/library/configparser.html#supported-ini-file-structure).
type iniSetting struct {
	section, key, value string // The key in small letters.
	line                int
}

// parseINI reads such a file as configparser does with its defaults: sections and keys stand once, # and ; start a line
// that is a comment, lines that are indented deeper go on with the value above. Values that refer to others (%) are refused.
func parseINI(name string, text []byte) ([]iniSetting, error) {
	p := iniParser{name: name, seen: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if err := p.line(strings.TrimRight(line, "\r\n"), number); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, number, err)
		}
	}
	for i := range p.settings {
		s := &p.settings[i]
		s.value = strings.TrimRight(s.value, " \t\n")
		if strings.Contains(strings.ReplaceAll(s.value, "%%", ""), "%") {
			return nil, fmt.Errorf("%s: [%s] %s refers to another value with %%, which is not understood here", name, s.section, s.key)
		}
		s.value = strings.ReplaceAll(s.value, "%%", "%")
	}
	return p.settings, nil
}

type iniParser struct {
	name     string
	settings []iniSetting
	section  string
	started  bool // A section was opened.
	open     bool // The last setting may go on.
	indent   int
	seen     map[string]bool
}

func (p *iniParser) line(line string, number int) error {
	text := strings.TrimSpace(line)
	if text == "" || text[0] == '#' || text[0] == ';' {
		if text == "" && p.open {
			p.settings[len(p.settings)-1].value += "\n"
		}
		return nil
	}
	indent := len(line) - len(strings.TrimLeft(line, " \t\v\f"))
	if p.open && indent > p.indent {
		p.settings[len(p.settings)-1].value += "\n" + text
		return nil
	}
	p.indent = indent
	if text[0] == '[' {
		if end := strings.LastIndexByte(text, ']'); end > 1 {
			return p.header(text[1:end])
		}
	}
	if !p.started {
		return fmt.Errorf("%q stands before any section", text)
	}
	i := strings.IndexAny(text, "=:")
	if i < 1 {
		return fmt.Errorf("%q is neither a section nor a key with a value", text)
	}
	s := iniSetting{section: p.section, key: strings.ToLower(strings.TrimSpace(text[:i])), value: strings.TrimSpace(text[i+1:]), line: number}
	if s.key == "" {
		return fmt.Errorf("%q has no key", text)
	}
	id := s.section + "\x00" + s.key
	if p.seen[id] {
		return fmt.Errorf("[%s] %s stands there twice", s.section, s.key)
	}
	p.seen[id] = true
	p.settings, p.open = append(p.settings, s), true
	return nil
}

func (p *iniParser) header(name string) error {
	if p.seen[name] && name != "DEFAULT" {
		return fmt.Errorf("section [%s] stands there twice", name)
	}
	if name == "DEFAULT" {
		return fmt.Errorf("section [%s], of defaults for all others, is not understood here", name)
	}
	p.seen[name], p.section, p.started, p.open = true, name, true, false
	// An empty section counts: it may be one that nobody knows.
	p.settings = append(p.settings, iniSetting{section: name})
	return nil
}
