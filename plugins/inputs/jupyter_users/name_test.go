package jupyter_users

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestUserName(t *testing.T) {
	for _, test := range []struct {
		why, label, annotation string
		escaped, plain         string // what it is with and without decoding
	}{
		{"a plain name", "alice", "", "alice", "alice"},
		{"nothing", "", "", "", ""},
		{"a hyphen", "jose-2dperez", "", "jose-perez", "jose-2dperez"},
		{"a mail address", "user-40example-2eorg", "", "user@example.org", "user-40example-2eorg"},
		{"a capital letter", "-41lice", "", "Alice", "-41lice"},
		{"two bytes", "jos-c3-a9", "", "josé", "jos-c3-a9"},
		{"a space and a percent sign", "a-20b-25", "", "a b%", "a-20b-25"},

		{"no digits follow", "alice-smith", "", "alice-smith", "alice-smith"},
		{"one digit follows", "alice-2", "", "alice-2", "alice-2"},
		{"nothing follows", "alice-", "", "alice-", "alice-"},
		{"capital digits", "alice-2Dsmith", "", "alice-2Dsmith", "alice-2Dsmith"},
		{"half a character", "alice-c3", "", "alice-c3", "alice-c3"},
		{"a control character", "user-01", "", "user-01", "user-01"},
		{"a control character of two bytes", "user-c2-85", "", "user-c2-85", "user-c2-85"},
		{"a letter that needs no escape", "alice-61", "", "alice-61", "alice-61"},
		{"beside what would be escaped", "jane.doe-2dx", "", "jane.doe-2dx", "jane.doe-2dx"},
		{"an overlong character", "a-c0-af", "", "a-c0-af", "a-c0-af"},

		{"a safe slug", "user-email-com---0925f997", "", "user-email-com---0925f997", "user-email-com---0925f997"},
		{"a safe slug with its name", "user-email-com---0925f997", "user@email.com", "user@email.com", "user@email.com"},
		{"a safe slug of another name", "user-email-com---0925f997", "mallory", "user-email-com---0925f997", "user-email-com---0925f997"},
		{"a short safe slug", "ser---73506260", "üser", "üser", "üser"},
		{"an escaped name with its name", "jose-2dperez", "jose-perez", "jose-perez", "jose-perez"},
		{"what looks escaped, with its name", "bob-42", "bob-42", "bob-42", "bob-42"},
		{"what looks escaped, without it", "bob-42", "", "bobB", "bob-42"},
		{"another name", "alice", "mallory", "alice", "alice"},
		{"a separator without digits", "alice---", "", "alice---", "alice---"},
	} {
		t.Run(test.why, func(t *testing.T) {
			require.Equal(t, test.escaped, userName(test.label, test.annotation, true))
			require.Equal(t, test.plain, userName(test.label, test.annotation, false))
		})
	}
}

// FuzzName requires that what is decoded is what was escaped, whichever end one begins at.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"", "alice", "jose-2dperez", "user@example.org", "José", "bob-42", "a\x00b", "\xff", "x---0925f997", "-c3-a9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if name, ok := unescape(text); ok {
			require.Equal(t, text, escape(name), "as a label")
			require.True(t, utf8.ValidString(name))
		} else {
			require.Equal(t, text, userName(text, "", true), "what can't be decoded stays")
		}
		escaped := escape(text)
		require.Empty(t, strings.Trim(escaped, "abcdefghijklmnopqrstuvwxyz0123456789-"))
		if utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0 {
			require.Equal(t, text, userName(escaped, "", true), "as a name")
		}
		if text != "" {
			require.Equal(t, text, userName(escaped, text, false))
			sum := sha256.Sum256([]byte(text))
			require.Equal(t, text, userName("x---"+hex.EncodeToString(sum[:4]), text, false))
		}
	})
}
