package jupyter_users

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// KubeSpawner puts a user's name into labels in one of three ways: as it is, where it is a valid label (since 7.0);
// escaped (https://github.com/minrk/escapism, with "-" and lower case hexadecimal digits); or as what is left of it with
// "---" and the start of its SHA-256 (since 7.0), which can't be taken back. The name itself is in an annotation
// (https://github.com/jupyterhub/kubespawner, kubespawner/slugs.py and _build_common_annotations).
const (
	nameLabel      = "hub.jupyter.org/username"
	nameAnnotation = "hub.jupyter.org/username"
	slugSeparator  = "---"
	slugDigits     = 8
)

// userName gives the name of a user from a label's value: the annotation where the label was made from that, else what
// the label says when it is an escaped name and those are to be decoded, else the label.
func userName(label, annotation string, decode bool) string {
	if annotation != "" && isLabelOf(label, annotation) {
		return annotation
	}
	if name, ok := unescape(label); ok && decode {
		return name
	}
	return label
}

// isLabelOf tells whether KubeSpawner puts this name into that label.
func isLabelOf(label, name string) bool {
	if label == name || label == escape(name) {
		return true
	}
	at := strings.LastIndex(label, slugSeparator)
	if at < 0 {
		return false
	}
	sum := sha256.Sum256([]byte(name))
	return label[at+len(slugSeparator):] == hex.EncodeToString(sum[:])[:slugDigits]
}

// escape gives the escaped form of a name.
func escape(name string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; isSafe(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'-', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// unescape gives the name that has this escaped form. Most labels with a "-" that were never escaped have none: what
// follows there is not two digits, or stands for a letter that needs no escape, a control character, or half a character.
func unescape(label string) (name string, ok bool) {
	b := make([]byte, 0, len(label))
	for i := 0; i < len(label); i++ {
		c := label[i]
		if c != '-' {
			if !isSafe(c) {
				return "", false
			}
			b = append(b, c)
			continue
		}
		if i+2 >= len(label) {
			return "", false
		}
		var decoded [1]byte
		if _, err := hex.Decode(decoded[:], []byte(label[i+1:i+3])); err != nil || isSafe(decoded[0]) {
			return "", false
		}
		b = append(b, decoded[0])
		i += 2
	}
	name = string(b)
	return name, utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0 && escape(name) == label
}

func isSafe(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
