package condor_q

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// attributes are those that are read of each ad. ClassAds do not tell upper case from lower case in their names.
type attributes struct {
	names []string
	index map[string]int // by the name in lower case
}

func newAttributes(names ...string) *attributes {
	a := &attributes{index: make(map[string]int, len(names))}
	for _, name := range names {
		a.place(name)
	}
	return a
}

// place gives the place of an attribute among the values, which it gets with the first call.
func (a *attributes) place(name string) int {
	key := strings.ToLower(name)
	if i, ok := a.index[key]; ok {
		return i
	}
	a.names = append(a.names, name)
	a.index[key] = len(a.names) - 1
	return len(a.names) - 1
}

// list gives the names as the tools' option -attributes wants them.
func (a *attributes) list() string { return strings.Join(a.names, ",") }

// kind is what a value is. Expressions, lists, ads and undefined values are none of these: nothing is known from them.
type kind uint8

const (
	unknown kind = iota
	number
	boolean
	text
)

// value is where the value lies in the ad's text: of a number its digits, of a boolean "true" or "false".
type value struct {
	kind     kind
	from, to int
}

// ad is one ClassAd: its values in the order of the attributes that were asked for. It is valid until the next one.
type ad struct {
	values  []value
	scratch []byte
	strings map[string]string // that were given out, so that each is there once
}

func (a *ad) raw(i int) []byte { return a.scratch[a.values[i].from:a.values[i].to] }

// is tells whether a value is of a kind. An attribute that was not asked for has no place, which is -1.
func (a *ad) is(i int, k kind) bool { return i >= 0 && a.values[i].kind == k }

// integer gives the value of a whole number that an int64 holds.
func (a *ad) integer(i int) (int64, bool) {
	if !a.is(i, number) {
		return 0, false
	}
	if n, ok := digits(a.raw(i)); ok {
		return n, true
	}
	// HTCondor keeps some times as reals.
	if n, ok := digits(bytes.TrimSuffix(a.raw(i), []byte(".0"))); ok {
		return n, true
	}
	if n, err := strconv.ParseInt(string(a.raw(i)), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(a.raw(i)), 64)
	if err != nil || f != float64(int64(f)) || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// digits is for nearly all numbers that there are.
func digits(b []byte) (n int64, ok bool) {
	if len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}

// float gives the value of a number.
func (a *ad) float(i int) (float64, bool) {
	if !a.is(i, number) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(a.raw(i)), 64)
	return f, err == nil
}

// boolean gives the value of a boolean.
func (a *ad) boolean(i int) (yes, ok bool) {
	if !a.is(i, boolean) {
		return false, false
	}
	return a.raw(i)[0] == 't', true
}

// count gives the value of a whole number that counts or measures something, or absent.
func (a *ad) count(i int) int64 {
	if n, ok := a.integer(i); ok && n >= 0 {
		return n
	}
	return absent
}

// absent is a count that is not known.
const absent = -1

// text gives the value of a string, or ""; what is no UTF-8 in it becomes U+FFFD. It is for what many ads share.
func (a *ad) text(i int) string {
	if !a.is(i, text) {
		return ""
	}
	raw := a.raw(i)
	if s, ok := a.strings[string(raw)]; ok {
		return s
	}
	s := a.unique(i)
	if len(a.strings) >= maxStrings {
		clear(a.strings)
	}
	a.strings[string(raw)] = s
	return s
}

// unique is text for what no other ad has.
func (a *ad) unique(i int) string {
	if !a.is(i, text) {
		return ""
	}
	return strings.ToValidUTF8(string(a.raw(i)), "\uFFFD")
}

// maxStrings bounds the strings that are kept to be given out again.
const maxStrings = 10_000

// parseAds reads what HTCondor's tools print with -json: a list of ads, or nothing at all, which is no ads. For each of
// them it calls take, whose error ends it.
func parseAds(r io.Reader, names *attributes, take func(a *ad) error) error {
	p := parser{
		reader: reader{r: r, buf: make([]byte, 64<<10)}, names: names, after: make([]int, len(names.names)+1),
		ad: ad{values: make([]value, len(names.names)), strings: make(map[string]string)},
	}
	c, err := p.peek()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && c != '[' {
		err = fmt.Errorf("%q where a list begins", c)
	}
	if err != nil {
		return err
	}
	p.pos++
	for n := 1; ; n++ {
		more, err := p.next(n == 1, ']')
		if err == nil && more {
			err = p.parseAd()
		}
		if err != nil {
			return fmt.Errorf("ad %d: %w", n, cut(err))
		}
		if !more {
			return p.end()
		}
		if err := take(&p.ad); err != nil {
			return err
		}
	}
}

// cut says of the end of the text that it comes too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type parser struct {
	reader
	names *attributes
	ad    ad
	key   []byte
	last  int   // the attribute before, from 1; 0 at the start of an ad
	after []int // by that: the attribute that came behind it
}

// next goes to the next of a list or of an ad. At the closing byte there is none.
func (p *parser) next(first bool, closing byte) (more bool, err error) {
	c, err := p.peek()
	switch {
	case err != nil:
		return false, err
	case c == closing:
		p.pos++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf("%q where a comma or %q belongs", c, closing)
	}
	p.pos++
	return true, nil
}

// end requires that nothing follows.
func (p *parser) end() error {
	c, err := p.peek()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%q behind the list", c)
	}
	return err
}

func (p *parser) parseAd() error {
	clear(p.ad.values)
	p.ad.scratch, p.last = p.ad.scratch[:0], 0
	if err := p.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := p.next(first, '}')
		if err != nil || !more {
			return err
		}
		if err := p.expect('"'); err != nil {
			return err
		}
		p.key, _, err = p.appendString(p.key[:0])
		if err == nil {
			err = p.expect(':')
		}
		if err == nil {
			err = p.parseValue()
		}
		if err != nil {
			return fmt.Errorf("attribute %q: %w", shortened(p.key), err)
		}
	}
}

// shortened gives the start of a name for an error.
func shortened(name []byte) []byte { return name[:min(len(name), 80)] }

func (p *parser) expect(want byte) error {
	c, err := p.peek()
	if err == nil && c != want {
		err = fmt.Errorf("%q where %q belongs", c, want)
	}
	p.pos++
	return err
}

// parseValue reads the value of p.key, and keeps it where it was asked for.
func (p *parser) parseValue() error {
	from := len(p.ad.scratch)
	kind, err := p.appendValue()
	if err != nil {
		return err
	}
	i, wanted := p.place()
	if !wanted {
		p.ad.scratch = p.ad.scratch[:from]
		return nil
	}
	p.ad.values[i] = value{kind: kind, from: from, to: len(p.ad.scratch)}
	return nil
}

// place finds p.key among the attributes. Ads have theirs in the same order, mostly: so what came behind the one before
// the last time is tried first.
func (p *parser) place() (i int, wanted bool) {
	guess := &p.after[p.last]
	if *guess < len(p.names.names) && p.names.names[*guess] == string(p.key) {
		p.last = *guess + 1
		return *guess, true
	}
	lower(p.key)
	if i, wanted = p.names.index[string(p.key)]; wanted {
		*guess, p.last = i, i+1
	}
	return i, wanted
}

func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}

func (p *parser) appendValue() (kind, error) {
	c, err := p.peek()
	if err != nil {
		return unknown, err
	}
	switch c {
	case '"':
		p.pos++
		var expression bool
		p.ad.scratch, expression, err = p.appendString(p.ad.scratch)
		if expression {
			return unknown, err
		}
		return text, err
	case '{', '[':
		return unknown, p.skipNested()
	}
	return p.appendLiteral()
}

// appendLiteral reads a number, true, false or null.
func (p *parser) appendLiteral() (kind, error) {
	from := len(p.ad.scratch)
	var err error
	if p.ad.scratch, err = p.appendToken(p.ad.scratch); err != nil {
		return unknown, err
	}
	token := p.ad.scratch[from:]
	switch {
	case string(token) == "true", string(token) == "false":
		return boolean, nil
	case string(token) == "null":
		return unknown, nil
	case len(token) > 0 && (token[0] == '-' || '0' <= token[0] && token[0] <= '9'):
		return number, nil
	}
	return unknown, fmt.Errorf("%q is no value", shortened(token))
}

// skipNested goes behind a list or an ad within an ad.
func (p *parser) skipNested() error {
	for depth := 0; ; {
		c, err := p.peek()
		if err != nil {
			return err
		}
		p.pos++
		switch c {
		case '"':
			keep := len(p.ad.scratch)
			if p.ad.scratch, _, err = p.appendString(p.ad.scratch); err != nil {
				return err
			}
			p.ad.scratch = p.ad.scratch[:keep]
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return nil
			}
		}
	}
}

// reader reads JSON's tokens, wherever the text is cut into pieces.
type reader struct {
	r          io.Reader
	buf        []byte
	pos, limit int
	err        error
}

// fill reads more once all is used.
func (r *reader) fill() error {
	for r.pos >= r.limit {
		if r.err != nil {
			return r.err
		}
		r.pos, r.limit = 0, 0
		r.limit, r.err = r.r.Read(r.buf)
	}
	return nil
}

// peek gives the next byte that is no white space, and stays there.
func (r *reader) peek() (byte, error) {
	for {
		for ; r.pos < r.limit; r.pos++ {
			switch c := r.buf[r.pos]; c {
			case ' ', '\n', '\r', '\t':
			default:
				return c, nil
			}
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// appendToken appends what is neither a string nor structure.
func (r *reader) appendToken(dst []byte) ([]byte, error) {
	for {
		for i := r.pos; i < r.limit; i++ {
			switch r.buf[i] {
			case ' ', '\n', '\r', '\t', ',', ']', '}', ':', '"', '{', '[':
				dst = append(dst, r.buf[r.pos:i]...)
				r.pos = i
				return dst, nil
			}
		}
		dst = append(dst, r.buf[r.pos:r.limit]...)
		r.pos = r.limit
		if err := r.fill(); err != nil {
			return dst, err
		}
	}
}

// appendString appends a string whose opening quote was read. An expression is one that begins with \/Expr( where the
// slash is escaped, which HTCondor does nowhere else.
func (r *reader) appendString(dst []byte) (_ []byte, expression bool, err error) {
	from, escapedSlash := len(dst), false
	for {
		if err := r.fill(); err != nil {
			return dst, false, err
		}
		piece := r.buf[r.pos:r.limit]
		quote := bytes.IndexByte(piece, '"')
		if quote >= 0 {
			piece = piece[:quote]
		}
		if escape := bytes.IndexByte(piece, '\\'); escape >= 0 {
			dst = append(dst, piece[:escape]...)
			r.pos += escape + 1
			start := len(dst)
			if dst, err = r.appendEscaped(dst); err != nil {
				return dst, false, err
			}
			escapedSlash = escapedSlash || start == from && dst[start] == '/'
			continue
		}
		dst = append(dst, piece...)
		r.pos += len(piece)
		if quote >= 0 {
			r.pos++
			return dst, escapedSlash && bytes.HasPrefix(dst[from:], []byte("/Expr(")), nil
		}
	}
}

// appendEscaped appends what stands behind a backslash.
func (r *reader) appendEscaped(dst []byte) ([]byte, error) {
	if err := r.fill(); err != nil {
		return dst, err
	}
	c := r.buf[r.pos]
	r.pos++
	switch c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
		return r.appendUnicode(dst)
	}
	return dst, fmt.Errorf("%q is no escape", []byte{'\\', c})
}

// appendUnicode appends the character of \uXXXX, or of two of them where the first is half of one.
func (r *reader) appendUnicode(dst []byte) ([]byte, error) {
	first, err := r.hex()
	if err != nil {
		return dst, err
	}
	for utf16.IsSurrogate(first) {
		second, ok, err := r.secondHalf()
		if err != nil {
			return dst, err
		}
		if !ok {
			break
		}
		if both := utf16.DecodeRune(first, second); both != utf8.RuneError {
			return utf8.AppendRune(dst, both), nil
		}
		dst = utf8.AppendRune(dst, first) // Becomes U+FFFD.
		first = second
	}
	return utf8.AppendRune(dst, first), nil
}

// secondHalf reads another \uXXXX if one follows.
func (r *reader) secondHalf() (half rune, ok bool, err error) {
	if err := r.need(2); err != nil {
		return 0, false, err
	}
	if r.buf[r.pos] != '\\' || r.buf[r.pos+1] != 'u' {
		return 0, false, nil
	}
	r.pos += 2
	half, err = r.hex()
	return half, err == nil, err
}

func (r *reader) hex() (rune, error) {
	if err := r.need(4); err != nil {
		return 0, err
	}
	four := string(r.buf[r.pos : r.pos+4])
	n, err := strconv.ParseUint(four, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no escape", `\u`+four)
	}
	r.pos += 4
	return rune(n), nil
}

// need has at least n bytes in the buffer.
func (r *reader) need(n int) error {
	for r.limit-r.pos < n {
		if r.err != nil {
			return r.err
		}
		r.limit = copy(r.buf, r.buf[r.pos:r.limit])
		r.pos = 0
		more, err := r.r.Read(r.buf[r.limit:])
		r.limit, r.err = r.limit+more, err
	}
	return nil
}
