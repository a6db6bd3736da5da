package execd

import (
	"bytes"
	"fmt"
	"strings"
)

// stripComments takes comments out of TOML and keeps its newlines, so that lines keep their numbers. Telegraf does the
// same before it looks for environment variables.
func stripComments(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		end := i + 1
		switch text[i] {
		case '#':
			end = i + lengthTo(text[i:], "\n", false)
			i = end
		case '\'', '"':
			end = i + quotedLength(text[i:])
		case '\\':
			end = min(i+2, len(text))
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}

// quotedLength gives the length of the TOML string that text begins with. One that is not closed ends with its line,
// or with the text.
func quotedLength(text []byte) int {
	quote := string(text[:1])
	escapes := quote == `"`
	if triple := strings.Repeat(quote, 3); bytes.HasPrefix(text, []byte(triple)) {
		return min(3+lengthTo(text[3:], triple, escapes)+3, len(text))
	}
	line := 1 + lengthTo(text[1:], "\n", false)
	return min(1+lengthTo(text[1:], quote, escapes)+1, line)
}

// lengthTo gives how many bytes come before end, or all.
func lengthTo(text []byte, end string, escapes bool) int {
	for i := 0; i < len(text); i++ {
		if escapes && text[i] == '\\' {
			i++
			continue
		}
		if bytes.HasPrefix(text[i:], []byte(end)) {
			return i
		}
	}
	return len(text)
}

// unsetError names a variable of the environment that a configuration needs and that is not set.
type unsetError struct {
	name   string
	offset int // Of the `${`, in the text without comments.
}

func (e *unsetError) Error() string {
	return fmt.Sprintf("environment variable %s is not set", e.name)
}

// expander puts the environment into a text as Telegraf does: `${NAME}`, `${NAME:-default}`, `${NAME-default}`,
// `${NAME:+alternative}`, `${NAME+alternative}`, `$NAME`, and `$$` for one dollar. Where Telegraf leaves `${NAME}` as
// it is because NAME is not set, that is an error here. What is no variable, such as `${1}`, stays.
type expander struct {
	lookup func(name string) (string, bool)
}

func (e expander) expand(text string, offset int) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '$' {
			out.WriteByte(text[i])
			i++
			continue
		}
		value, length, err := e.reference(text[i:], offset+i)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		i += length
	}
	return out.String(), nil
}

// reference expands what begins with the dollar that text begins with, and gives how long that is.
func (e expander) reference(text string, offset int) (value string, length int, err error) {
	if strings.HasPrefix(text, "$$") {
		return "$", 2, nil
	}
	if !strings.HasPrefix(text, "${") {
		n := nameLength(text[1:])
		if value, ok := e.lookup(text[1 : 1+n]); ok && n > 0 {
			return value, 1 + n, nil
		}
		return "$", 1, nil
	}
	n := nameLength(text[2:])
	end := closing(text)
	if n == 0 || end < 0 {
		return "$", 1, nil
	}
	value, err = e.braced(text[2:2+n], text[2+n:end], offset)
	if err != nil {
		return "", 0, err
	}
	return value, end + 1, nil
}

// braced expands `${name` with what comes between the name and the closing brace.
func (e expander) braced(name, rest string, offset int) (string, error) {
	value, set := e.lookup(name)
	if colon := strings.HasPrefix(rest, ":"); colon {
		rest = rest[1:]
		set = set && value != ""
	}
	operator, word := byte(0), ""
	if rest != "" {
		operator, word = rest[0], rest[1:]
	}
	switch {
	case operator == '-' && !set, operator == '+' && set:
		return e.expand(word, offset)
	case operator == '+':
		return "", nil
	case !set:
		return "", &unsetError{name: name, offset: offset}
	default:
		return value, nil
	}
}

func nameLength(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

// closing gives where the brace closes that text begins with, or -1 where it does not within the line.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		case '\n':
			return -1
		}
	}
	return -1
}
