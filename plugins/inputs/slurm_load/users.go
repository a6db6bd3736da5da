package slurm_load

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

// name gives the name that a user is shown under, if users are shown.
func (n *naming) name(user string) (string, bool) {
	switch {
	case n.how == "none":
		return "", false
	case n.how == "pseudonym" && user != "":
		mac := hmac.New(sha256.New, n.key)
		mac.Write([]byte(user))
		return "u" + hex.EncodeToString(mac.Sum(nil))[:12], true
	}
	return known(user), true
}

// busiest gives the names under which users are shown, if any are: those with the most CPUs have their own.
func (n *naming) busiest(cpus map[string]int64, most int) map[string]string {
	if n.how == "none" {
		return nil
	}
	users := slices.SortedFunc(maps.Keys(cpus), func(a, b string) int {
		return cmp.Or(cmp.Compare(cpus[b], cpus[a]), cmp.Compare(a, b))
	})
	names := make(map[string]string, len(users))
	for i, user := range users {
		names[user] = otherUsers
		if i < most {
			names[user], _ = n.name(user)
		}
	}
	return names
}
