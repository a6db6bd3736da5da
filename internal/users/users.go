// Package users tells under which name the plugins show a user: by name, by a pseudonym, or not at all.
package users

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"telegraf-hpc/internal/series"
)

// Others are those past the most that have a name of their own.
const Others = "_other"

// Names tells under which name a user is shown.
type Names struct {
	how string // name, pseudonym or none
	key []byte
}

// New takes the options users and pseudonym_key of a plugin; the second is a config.Secret of Telegraf.
func New[C interface {
	Bytes() []byte
	Destroy()
}](how string, secret interface {
	Empty() bool
	Get() (C, error)
}) (Names, error) {
	n := Names{how: how}
	switch how {
	case "name", "none":
		return n, nil
	case "pseudonym":
	default:
		return n, fmt.Errorf("option users: %q is none of %q", how, []string{"name", "pseudonym", "none"})
	}
	if secret.Empty() {
		return n, errors.New(`option pseudonym_key: must be set with users = "pseudonym"`)
	}
	key, err := secret.Get()
	if err != nil {
		return n, fmt.Errorf("option pseudonym_key: %w", err)
	}
	defer key.Destroy()
	if n.key = slices.Clone(key.Bytes()); len(n.key) < 16 {
		return n, errors.New("option pseudonym_key: must have at least 16 characters")
	}
	return n, nil
}

// Name gives the name that a user is shown under, if users are shown.
func (n *Names) Name(user string) (string, bool) {
	switch {
	case n.how == "none":
		return "", false
	case n.how == "pseudonym" && user != "":
		mac := hmac.New(sha256.New, n.key)
		mac.Write([]byte(user))
		return "u" + hex.EncodeToString(mac.Sum(nil))[:12], true
	}
	return series.Known(user), true
}

// Heaviest gives the names under which users are shown, if any are: those with the most weight have their own.
func Heaviest[W any](n *Names, weights map[string]W, compare func(a, b W) int, most int) map[string]string {
	if n.how == "none" {
		return nil
	}
	users := slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(compare(weights[b], weights[a]), cmp.Compare(a, b))
	})
	names := make(map[string]string, len(users))
	for i, user := range users {
		names[user] = Others
		if i < most {
			names[user], _ = n.Name(user)
		}
	}
	return names
}
