package jobstats

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decode returns the id as Lustre holds it. From 2.15.2 on any byte but letters, digits and .@-_ (from 2.16 also : and
// /) is printed as \xHH and the id then stands in quotes; before, quotes and backslashes are the id's own.
func (p *Parser) decode(raw []byte, escaped bool) []byte {
	if !escaped || len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return raw
	}
	d := p.decoded[:0]
	for b := raw[1 : len(raw)-1]; len(b) > 0; {
		if len(b) >= 4 && b[0] == '\\' && b[1] == 'x' {
			hi, lo := unhex(b[2]), unhex(b[3])
			if hi < 16 && lo < 16 {
				d = append(d, hi<<4|lo)
				b = b[4:]
				continue
			}
		}
		d = append(d, b[0])
		b = b[1:]
	}
	p.decoded = d
	return d
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// DisplayJobID returns a part of a job id so that it can stand in a tag, in a log and on a terminal: what can't be
// printed, the backslash and bytes that are not UTF-8 become \xHH, as Lustre writes them. So does a first underscore,
// since names of our own (_other, _overflow, _unknown) start with one. No two ids give the same text.
func DisplayJobID(id string) string {
	if plain(id) {
		return id
	}
	var s strings.Builder
	for i := 0; i < len(id); {
		r, size := utf8.DecodeRuneInString(id[i:])
		bad := r == utf8.RuneError && size == 1 || r == '\\' || !unicode.IsPrint(r) || i == 0 && r == '_'
		for _, c := range []byte(id[i : i+size]) {
			if bad {
				fmt.Fprintf(&s, `\x%02X`, c)
			} else {
				s.WriteByte(c)
			}
		}
		i += size
	}
	return s.String()
}

func plain(id string) bool {
	for i := range len(id) {
		if c := id[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return id == "" || id[0] != '_'
}

// Labels are the parts of a job id that become tags, empty where the id has no such part. A set of equal labels is one
// series.
type Labels struct {
	Job, UID, GID, Exe, Client string
}

// Key returns a text that is equal for equal labels only.
func (l Labels) Key() string {
	return strings.Join([]string{l.Job, l.UID, l.GID, l.Exe, l.Client}, "\x00")
}

// The jobs that series are summed under.
const (
	JobOther    = "_other"    // ids that no pattern fits
	JobOverflow = "_overflow" // ids past the most that a target may have
)

// JobIDPatterns finds the parts of job ids.
type JobIDPatterns struct {
	patterns []jobIDPattern
	sumRest  bool
}

type jobIDPattern struct {
	re    *regexp.Regexp
	codes []byte // of each group
	whole bool   // %j alone: nothing to match
	merge bool   // has a %p, so several ids make one series
}

// jobIDCode returns what a code of Lustre's jobid_name parameter may stand for, empty for an unknown one (see
// jobid_interpret_string in lustre/obdclass/jobid.c). An executable is a comm of at most 15 bytes.
func jobIDCode(code byte) string {
	switch code {
	case 'j':
		return `.+`
	case 'u', 'g', 'p':
		return `[0-9]{1,10}`
	case 'e':
		return `.{1,15}`
	case 'h':
		return `[^ /]+`
	case 'H':
		return `[^ ./]+`
	}
	return ""
}

// ParseJobIDPatterns parses patterns as Lustre's jobid_name has them: %j job, %u uid, %g gid, %e executable, %h and %H
// client, %p process. Ids that no pattern fits are kept as they are, or summed under JobOther with sumRest.
func ParseJobIDPatterns(names []string, sumRest bool) (*JobIDPatterns, error) {
	if len(names) == 0 {
		return nil, errors.New("no pattern")
	}
	p := &JobIDPatterns{sumRest: sumRest}
	for _, name := range names {
		one, err := parseJobIDPattern(name)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", name, err)
		}
		p.patterns = append(p.patterns, one)
	}
	return p, nil
}

func parseJobIDPattern(name string) (jobIDPattern, error) {
	p := jobIDPattern{whole: name == "%j"}
	var re strings.Builder
	re.WriteString(`(?s)^`)
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			re.WriteString(regexp.QuoteMeta(name[i : i+1]))
			continue
		}
		i++
		if i == len(name) {
			return p, errors.New("ends with a %")
		}
		code := name[i]
		if code == '%' {
			re.WriteByte('%')
			continue
		}
		expr := jobIDCode(code)
		if expr == "" {
			return p, fmt.Errorf("unknown code %%%c (known: %%j %%u %%g %%e %%h %%H %%p)", code)
		}
		if bytes.IndexByte(p.codes, code) >= 0 {
			return p, fmt.Errorf("%%%c stands twice", code)
		}
		p.codes = append(p.codes, code)
		p.merge = p.merge || code == 'p'
		re.WriteString(`(` + expr + `)`)
	}
	if len(p.codes) == 0 || len(p.codes) == 1 && p.merge {
		return p, errors.New("has no code that becomes a tag")
	}
	var err error
	if p.re, err = regexp.Compile(re.String() + `$`); err != nil {
		return p, fmt.Errorf("not text: %w", err)
	}
	return p, nil
}

// Labels returns the labels of an id, and whether other ids may have the same ones, so that they are summed.
func (p *JobIDPatterns) Labels(id string) (l Labels, summed bool) {
	for _, pattern := range p.patterns {
		if pattern.whole {
			return Labels{Job: DisplayJobID(id)}, false
		}
		if m := pattern.re.FindStringSubmatch(id); m != nil {
			return pattern.labels(m), pattern.merge
		}
	}
	if p.sumRest {
		return Labels{Job: JobOther}, true
	}
	return Labels{Job: DisplayJobID(id)}, false
}

func (p *jobIDPattern) labels(m []string) (l Labels) {
	for i, code := range p.codes {
		v := DisplayJobID(m[i+1])
		switch code {
		case 'j':
			l.Job = v
		case 'u':
			l.UID = v
		case 'g':
			l.GID = v
		case 'e':
			l.Exe = v
		case 'h', 'H':
			l.Client = v
		}
	}
	return l
}
