package condor_q

import (
	"fmt"
	"strings"
	"unicode"
)

// customAttribute is an attribute that a site wants as a field of each job.
type customAttribute struct {
	name  string
	field string
	kind  string // string, integer, float or boolean
}

// parseCustom reads an item of option attributes: NAME or NAME:KIND. A field has one type, whatever a job's ad holds.
func parseCustom(item string) (customAttribute, error) {
	name, kind, ok := strings.Cut(item, ":")
	if !ok {
		kind = "string"
	}
	switch kind {
	case "string", "integer", "float", "boolean":
	default:
		return customAttribute{}, fmt.Errorf("%q is none of %q", kind, []string{"string", "integer", "float", "boolean"})
	}
	for i, r := range name {
		if r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r))) {
			return customAttribute{}, fmt.Errorf("%q is no name of an attribute", name)
		}
	}
	if name == "" {
		return customAttribute{}, fmt.Errorf("%q is no name of an attribute", name)
	}
	return customAttribute{name: name, field: snake(name), kind: kind}, nil
}

// snake writes a name such as ProjectName or GPUsUsage as project_name or gpus_usage.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		upper := unicode.IsUpper(r)
		if upper && i > 0 {
			before, after := rune(name[i-1]), 'A'
			if i+1 < len(name) {
				after = rune(name[i+1])
			}
			// Not within an abbreviation, not even at its plural.
			plural := after == 's' && (i+2 == len(name) || unicode.IsUpper(rune(name[i+2])))
			if before != '_' && (!unicode.IsUpper(before) || unicode.IsLower(after) && !plural) {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func placesOf(a *attributes, custom []customAttribute) []int {
	places := make([]int, len(custom))
	for i, c := range custom {
		places[i] = a.place(c.name)
	}
	return places
}

// customValues gives the values of the attributes that are of their kind; nil for the others.
func customValues(a *ad, custom []customAttribute, places []int) []any {
	values := make([]any, len(custom))
	for i, c := range custom {
		var value any
		ok := false
		switch c.kind {
		case "integer":
			value, ok = a.integer(places[i])
		case "float":
			value, ok = a.float(places[i])
		case "boolean":
			value, ok = a.boolean(places[i])
		default:
			value, ok = a.text(places[i]), a.is(places[i], text)
		}
		if ok {
			values[i] = value
		}
	}
	return values
}

// userOf gives a job's owner. A schedd that has no Owner has a User such as alice@pool.example.org.
func userOf(a *ad, owner, user int) string {
	if name := a.text(owner); name != "" {
		return name
	}
	name, _, _ := strings.Cut(a.text(user), "@")
	return name
}

// groupOf gives a job's accounting group, without the user that AccountingGroup has behind it.
func groupOf(a *ad, group, account int) string {
	if name := a.text(group); name != "" {
		return name
	}
	return a.text(account)
}
