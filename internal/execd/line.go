package execd

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/influxdata/telegraf"
)

// What makes a metric impossible to write as a line.
var (
	errNoName   = errors.New("no name")
	errNoFields = errors.New("no field that line protocol can carry")
)

// What a byte must be escaped in.
const (
	inKey    = 1 << iota // Tag keys, tag values and field keys.
	inName               // Measurement names.
	inString             // String field values.
)

// escaped tells for each byte where it must be escaped.
var escaped = [256]uint8{
	'\t': inKey | inName,
	'\n': inKey | inName,
	'\f': inKey | inName,
	'\r': inKey | inName,
	' ':  inKey | inName,
	',':  inKey | inName,
	'=':  inKey,
	'"':  inString,
	'\\': inString,
}

// appendMetric appends m as one line of InfluxDB line protocol, with its newline. The bytes are those of Telegraf's
// own serializer (plugins/serializers/influx, default options): tags and field keys that are empty, and values that
// line protocol has no form for (NaN, infinity, other types) are left out; uint64 above the largest int64 becomes
// that. On an error dst comes back as it was.
func appendMetric(dst []byte, m telegraf.Metric) ([]byte, error) {
	name := m.Name()
	if name == "" {
		return dst, errNoName
	}
	line := appendEscaped(dst, name, inName)
	for _, tag := range m.TagList() {
		line = appendTag(line, tag.Key, tag.Value)
	}
	line, ok := appendFields(line, m.FieldList())
	if !ok {
		return dst, errNoFields
	}
	line = append(line, ' ')
	line = strconv.AppendInt(line, m.Time().UnixNano(), 10)
	return append(line, '\n'), nil
}

// appendTag leaves the tag out where its key or value is empty. A trailing backslash would escape what follows it,
// so it goes.
func appendTag(line []byte, key, value string) []byte {
	key = strings.TrimRight(key, `\`)
	value = strings.TrimRight(value, `\`)
	if key == "" || value == "" {
		return line
	}
	line = append(line, ',')
	line = appendEscaped(line, key, inKey)
	line = append(line, '=')
	return appendEscaped(line, value, inKey)
}

// appendFields tells whether there was any that could be written.
func appendFields(line []byte, fields []*telegraf.Field) (_ []byte, ok bool) {
	separator := byte(' ')
	for _, field := range fields {
		if field.Key == "" {
			continue
		}
		start := len(line)
		line = append(line, separator)
		line = appendEscaped(line, field.Key, inKey)
		line = append(line, '=')
		if line, ok = appendValue(line, field.Value); !ok {
			line = line[:start]
			continue
		}
		separator = ','
	}
	return line, separator == ','
}

func appendValue(line []byte, value any) (_ []byte, ok bool) {
	switch v := value.(type) {
	case int64:
		return append(strconv.AppendInt(line, v, 10), 'i'), true
	case uint64:
		return append(strconv.AppendInt(line, int64(min(v, math.MaxInt64)), 10), 'i'), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return line, false
		}
		return strconv.AppendFloat(line, v, 'f', -1, 64), true
	case string:
		line = append(line, '"')
		line = appendEscaped(line, v, inString)
		return append(line, '"'), true
	case bool:
		return strconv.AppendBool(line, v), true
	default:
		return line, false
	}
}

func appendEscaped(line []byte, s string, where uint8) []byte {
	done := 0
	for i := range len(s) {
		c := s[i]
		if escaped[c]&where == 0 {
			continue
		}
		line = append(line, s[done:i]...)
		line = append(line, '\\')
		switch c {
		case '\t':
			c = 't'
		case '\n':
			c = 'n'
		case '\f':
			c = 'f'
		case '\r':
			c = 'r'
		}
		line = append(line, c)
		done = i + 1
	}
	return append(line, s[done:]...)
}
