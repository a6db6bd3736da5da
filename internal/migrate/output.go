package migrate

import (
	"encoding/json"
	"fmt"
	"strings"

	"telegraf-hpc/internal/roles"
)

// change is a text of sample.conf, and another in its place.
type change struct{ old, now string }

// sampleTable gives a table of sample.conf with some of its values changed.
func (m *migration) sampleTable(name string, changes ...change) (string, error) {
	text, err := roles.Table(m.request, name)
	if err != nil {
		return "", err
	}
	for _, c := range changes {
		if strings.Count(text, c.old) != 1 {
			return "", fmt.Errorf("sample.conf's table %s has no %s", name, c.old)
		}
		text = strings.Replace(text, c.old, c.now, 1)
	}
	return text, nil
}

// secret puts a secret into the environment of Telegraf's service.
func (m *migration) secret(from, name, value string) error {
	if strings.ContainsAny(value, "' \t\r\n\x00") {
		return fmt.Errorf("%s: a quote, a blank or a line's end in it can't be part of an environment file", from)
	}
	m.variables = append(m.variables, fmt.Sprintf("%s='%s'\n", name, value))
	return nil
}

// quote gives a text as a string of TOML, which JSON's are, too.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // It fails for no string.
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
