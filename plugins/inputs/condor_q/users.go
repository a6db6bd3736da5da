package condor_q

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/influxdata/telegraf/config"
)

// otherUsers are those past max_users.
const otherUsers = "_other"

// naming tells under which name a user is shown.
type naming struct {
	how string // name, pseudonym or none
	key []byte
}

func (n *naming) init(how string, secret config.Secret) error {
	n.how = how
	switch how {
	case "name", "none":
		return nil
	case "pseudonym":
	default:
		return fmt.Errorf("option users: %q is none of %q", how, []string{"name", "pseudonym", "none"})
	}
	if secret.Empty() {
		return errors.New(`option pseudonym_key: must be set with users = "pseudonym"`)
	}
	key, err := secret.Get()
	if err != nil {
		return fmt.Errorf("option pseudonym_key: %w", err)
	}
	defer key.Destroy()
	if n.key = slices.Clone(key.Bytes()); len(n.key) < 16 {
		return errors.New("option pseudonym_key: must have at least 16 characters")
	}
	return nil
}

// name gives the name that a user is shown under; "" where users are not shown.
func (n *naming) name(user string) string {
	switch {
	case n.how == "none":
		return ""
	case n.how == "pseudonym" && user != "":
		mac := hmac.New(sha256.New, n.key)
		mac.Write([]byte(user))
		return "u" + hex.EncodeToString(mac.Sum(nil))[:12]
	}
	return known(user)
}

// weight is what decides which users are shown by name where there are too many.
type weight struct{ first, second float64 }

// busiest gives the names under which users are shown: those with the most weight have their own.
func (n *naming) busiest(weights map[string]weight, most int) map[string]string {
	users := slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b].first, weights[a].first), cmp.Compare(weights[b].second, weights[a].second), cmp.Compare(a, b))
	})
	names := make(map[string]string, len(users))
	for i, user := range users {
		switch {
		case n.how == "none":
			names[user] = ""
		case i < most:
			names[user] = n.name(user)
		default:
			names[user] = otherUsers
		}
	}
	return names
}

// known gives a value for a tag where HTCondor gives none: an empty tag would be no tag.
func known(value string) string {
	if value == "" {
		return "_none"
	}
	return value
}
