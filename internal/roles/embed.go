package roles

import "embed"

// embedded are copies of the repository's sample.conf and of the plugins' own, kept in step by a test.
//
//go:generate go test -count=1 -run ^TestEmbedded$ . -update
//go:embed embedded/*.conf
var embedded embed.FS

// sample gives an embedded file: telegraf, or the name of a plugin.
func sample(name string) (string, error) {
	text, err := embedded.ReadFile("embedded/" + name + ".conf")
	return string(text), err
}
