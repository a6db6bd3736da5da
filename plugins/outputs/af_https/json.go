package af_https

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object that is being written. Its numbers look as Python's json module writes them, so that a receiver
// finds the types that it knows: a float has a decimal point or an exponent.
type object []byte

func newObject() object { return object{'{'} }

func (o *object) key(key string) {
	if len(*o) > 1 {
		*o = append(*o, ',')
	}
	*o = append(appendText(*o, key), ':')
}

func (o *object) text(key, value string) {
	o.key(key)
	*o = appendText(*o, value)
}

func (o *object) texts(key string, values []string) {
	o.key(key)
	*o = append(*o, '[')
	for i, value := range values {
		if i > 0 {
			*o = append(*o, ',')
		}
		*o = appendText(*o, value)
	}
	*o = append(*o, ']')
}

func (o *object) end() { *o = append(*o, '}') }

func (o *object) integer(key string, value int64) {
	o.key(key)
	*o = strconv.AppendInt(*o, value, 10)
}

func (o *object) float(key string, value float64) {
	o.key(key)
	*o = appendFloat(*o, value)
}

// value writes what a field or a constant can be. What JSON can't say is left out, and false.
func (o *object) value(key string, value any) bool {
	if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return false
	}
	o.key(key)
	b, err := appendValue(*o, value)
	*o = b
	return err == nil
}

func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return appendText(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case float64:
		return appendFloat(b, v), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendValue(b, item); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	default:
		return b, fmt.Errorf("a %T has no place in a document", value)
	}
}

// appendFloat writes a finite number as Python's repr does: the shortest digits that mean it, with an exponent below 1e-4
// and from 1e16 on.
func appendFloat(b []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if !slices.Contains(b[start:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

// appendText writes a string. Bytes that are no UTF-8 become U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
		s = s[n:]
	}
	return append(b, '"')
}
