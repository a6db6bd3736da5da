package top

import "bytes"

// key is a key of the keyboard: a printable character of ASCII, or one of these.
type key int

const (
	keyEnter key = iota + 256
	keyEscape
	keyBackspace
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyOther
)

// sequence is what a terminal sends for a key (ECMA-48, xterm's control sequences).
type sequence struct {
	text string
	key  key
}

func sequences() []sequence {
	return []sequence{
		{"\x1b[A", keyUp}, {"\x1bOA", keyUp}, {"\x1b[B", keyDown}, {"\x1bOB", keyDown}, {"\x1b[5~", keyPageUp}, {"\x1b[6~", keyPageDown},
		{"\x1b[H", keyHome}, {"\x1bOH", keyHome}, {"\x1b[1~", keyHome},
	}
}

// parseKeys reads what one read(2) of a terminal gave: a key's bytes come together.
func parseKeys(b []byte) (keys []key) {
	for len(b) > 0 {
		k, n := parseKey(b)
		keys, b = append(keys, k), b[n:]
	}
	return keys
}

func parseKey(b []byte) (key, int) {
	for _, s := range sequences() {
		if bytes.HasPrefix(b, []byte(s.text)) {
			return s.key, len(s.text)
		}
	}
	switch c := b[0]; {
	case c == '\r' || c == '\n':
		return keyEnter, 1
	case c == 0x7f || c == 0x08:
		return keyBackspace, 1
	case c == 0x1b && len(b) > 1 && (b[1] == '[' || b[1] == 'O'):
		return keyOther, unknownSequence(b)
	case c == 0x1b:
		return keyEscape, 1
	case c >= ' ' && c <= '~':
		return key(c), 1
	}
	return keyOther, 1
}

// unknownSequence gives the length of a control sequence: its end is a byte from @ on.
func unknownSequence(b []byte) int {
	for i := 2; i < len(b); i++ {
		if b[i] >= '@' && b[i] <= '~' {
			return i + 1
		}
	}
	return len(b)
}
