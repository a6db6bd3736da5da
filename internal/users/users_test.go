package users

import (
	"cmp"
	"testing"

	"github.com/influxdata/telegraf/config"
	"github.com/stretchr/testify/require"
)

func TestHeaviest(t *testing.T) {
	weights := map[string]int64{"alice": 4, "bob": 7, "carol": 7, "": 1}
	secret := config.NewSecret(nil)
	n, err := New("name", &secret)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"bob": "bob", "carol": "carol", "alice": Others, "": Others}, Heaviest(&n, weights, cmp.Compare[int64], 2))
	require.Equal(t, "_none", Heaviest(&n, weights, cmp.Compare[int64], 4)[""])
	n, err = New("none", &secret)
	require.NoError(t, err)
	require.Empty(t, Heaviest(&n, weights, cmp.Compare[int64], 2))
}

// A pseudonym is HMAC-SHA256 of the name: printf alice | openssl dgst -sha256 -hmac KEY.
func TestPseudonyms(t *testing.T) {
	name := func(key, user string) string {
		secret := config.NewSecret([]byte(key))
		n, err := New("pseudonym", &secret)
		require.NoError(t, err)
		name, shown := n.Name(user)
		require.True(t, shown)
		return name
	}
	require.Equal(t, "ufdbf8b1cacd3", name("0123456789abcdef", "alice"))
	require.Equal(t, "u6f32117ae2bc", name("0123456789abcdef", "bob"))
	require.Equal(t, "u63c37aec67ef", name("fedcba9876543210", "alice"))
	require.Equal(t, "_none", name("0123456789abcdef", ""))
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ how, key, want string }{
		{"uid", "", `option users: "uid" is none of ["name" "pseudonym" "none"]`},
		{"pseudonym", "", `option pseudonym_key: must be set with users = "pseudonym"`},
		{"pseudonym", "0123456789abcde", "option pseudonym_key: must have at least 16 characters"},
	} {
		secret := config.NewSecret([]byte(tt.key))
		_, err := New(tt.how, &secret)
		require.EqualError(t, err, tt.want)
	}
}
