package metricdoc

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const readme = "# A Plugin\n" +
	"\n```toml @sample.conf\n## Metrics\n# Not the section, but a comment.\n```\n" + `
- what is listed elsewhere is nobody's measurement

## Metrics

Prose for people. It may say "- tags:" in the middle.

- lustre_job, lustre_user: what a job
  did: all of it
  - tags:
    - fs, kind (ost or mdt)
    - job: the id; ` + "`_other`" + ` (a sum)
      is no job
    - uid
  - fields:
    - read_bytes, write_bytes,
      ops (integer)
    - NAME (integer, requests): for each other operation,
      such as open
    - NAME_rate, top_NAME_rate (float, per second)
    - busy_share (float, 0 to 1)

` + "```text\n- no measurement\n    - nor this\n```\n" + `
- lustre_self (not by default): the plugin
  - fields:
    - version (string)
    - those of lustre_job but NAME, read_bytes, top_NAME_rate
    - ok (boolean): whether (all) is well, or: not

### Series

More prose.

- late: comes below a smaller heading
  - tags:
    - those of lustre_user but uid
    - TAG
  - fields:
    - since (integer, seconds since 1970)

## Permissions

- none
`

func TestParse(t *testing.T) {
	tags := []Tag{
		{"fs", "ost or mdt"}, {"kind", "ost or mdt"}, {"job", "the id; `_other` (a sum) is no job"}, {"uid", ""},
	}
	fields := []Field{
		{"read_bytes", Integer, "", ""}, {"write_bytes", Integer, "", ""}, {"ops", Integer, "", ""},
		{"NAME", Integer, "requests", "for each other operation, such as open"}, {"NAME_rate", Float, "per second", ""},
		{"top_NAME_rate", Float, "per second", ""}, {"busy_share", Float, "0 to 1", ""},
	}
	doc, err := Parse([]byte(readme))
	require.NoError(t, err)
	require.Equal(t, []Measurement{
		{Name: "lustre_job", Text: "what a job did: all of it", Tags: tags, Fields: fields},
		{Name: "lustre_user", Text: "what a job did: all of it", Tags: tags, Fields: fields},
		{Name: "lustre_self", Text: "the plugin", Optional: true, Fields: []Field{
			{"version", String, "", ""}, fields[1], fields[2], fields[4], fields[6], {"ok", Boolean, "", "whether (all) is well, or: not"},
		}},
		{Name: "late", Text: "comes below a smaller heading", Tags: []Tag{tags[0], tags[1], tags[2], {"TAG", ""}}, Fields: []Field{
			{"since", Integer, "seconds since 1970", ""},
		}},
	}, doc.Measurements)
	withCR, err := Parse([]byte(strings.ReplaceAll(readme, "\n", "\r\n")))
	require.NoError(t, err)
	require.Equal(t, doc, withCR)
}

func TestString(t *testing.T) {
	doc := Doc{Measurements: []Measurement{
		{Name: "a", Text: "one", Optional: true, Tags: []Tag{{"t", ""}, {"u", "text"}}, Fields: []Field{{"f", Integer, "bytes", "text"}}},
		{Name: "b", Text: "two", Fields: []Field{{"NAME", Float, "", ""}}},
	}}
	require.Equal(t, `- a (not by default): one
  - tags:
    - t
    - u: text
  - fields:
    - f (integer, bytes): text
- b: two
  - fields:
    - NAME (float)
`, doc.String())
}

// good is a measurement that others may follow.
const good = "- good: text\n  - tags:\n    - t\n  - fields:\n    - f (integer)\n\n"

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `line 3: no measurement is listed below`,
		"Prose\n":                                `line 3: no measurement is listed below`,
		"## Metrics\n\n" + good:                  `line 5: a second section "## Metrics"`,
		"```\n" + good:                           `line 5: the code block has no end`,
		"- a\n  - fields:\n    - f (integer)\n":  "line 5: \"a\": want `measurement: text`",
		"- a:\n  - fields:\n    - f (integer)\n": "line 5: \"a:\": want `measurement: text`",
		"- a (with b): x\n  - fields:\n    - f (integer)\n":  `line 5: "a (with b)" is no name of a measurement`,
		"- A: x\n  - fields:\n    - f (integer)\n":           `line 5: "A" is no name of a measurement`,
		"- `a`: x\n  - fields:\n    - f (integer)\n":         "line 5: \"`a`\" is no name of a measurement",
		"- a,b: x\n  - fields:\n    - f (integer)\n":         `line 5: "a,b" is no name of a measurement`,
		"- a, a: x\n  - fields:\n    - f (integer)\n":        `line 5: measurement "a" is there twice`,
		good + "- good: x\n  - fields:\n    - f (integer)\n": `line 11: measurement "good" is there twice`,
		"- a: x\n":                            `line 5: "a" has no fields`,
		good + "- a: x\n  - tags:\n    - t\n": `line 11: "a" has no fields`,

		"* a: x\n":                         `line 5: "* a: x": an item begins with "- "`,
		"+ a: x\n":                         `line 5: "+ a: x": an item begins with "- "`,
		"-\n":                              `line 5: "-": an item begins with "- "`,
		"  - fields:\n    - f (integer)\n": `line 5: "- fields:" is indented as nothing that may stand here`,
		"- a: x\n\n  - fields:\n    - f (integer)\n":         `line 7: "- fields:" is indented as nothing that may stand here`,
		"- a: x\n   - fields:\n    - f (integer)\n":          `line 6: "- fields:" is indented as nothing that may stand here`,
		"- a: x\n  - fields:\n      - f (integer)\n":         `line 7: "- f (integer)" is indented as nothing that may stand here`,
		"- a: x\n  - fields:\n    f (integer)\n":             `line 7: "f (integer)" is indented as nothing that may stand here`,
		"- a: x\n  - fields:\n    - f (integer): x\n    y\n": `line 8: "y" is indented as nothing that may stand here`,
		"- a: x\n\t- fields:\n":                              `line 6: "\t- fields:" stands right below a list: an empty line must part them`,
		"\t- a: x\n":                                         `line 5: "\t- a: x" is indented as nothing that may stand here`,
		good + "  more\n":                                    `line 11: "more" is indented as nothing that may stand here`,
		strings.TrimSpace(good) + "\nMore.\n":                `line 10: "More." stands right below a list: an empty line must part them`,
		strings.TrimSpace(good) + "\n```\nx\n```\n":          "line 10: \"```\" stands right below a list: an empty line must part them",

		"- a: x\n    - f (integer)\n":         "line 6: \"f (integer)\" is not below `tags:` or `fields:`",
		"- a: x\n  - tags: fs\n  - fields:\n": "line 6: \"tags: fs\": want `tags:` or `fields:`",
		"- a: x\n  - Fields:\n":               "line 6: \"Fields:\": want `tags:` or `fields:`",
		"- a: x\n  - tags:\n  - fields:\n":    `line 6: nothing is listed below "tags:"`,
		"- a: x\n  - fields:\n":               `line 6: nothing is listed below "fields:"`,
		"- a: x\n  - fields:\n    - f (integer)\n  - fields:\n    - g (integer)\n": `line 8: "fields:" is there twice`,
		"- a: x\n  - fields:\n    - f (integer)\n  - tags:\n    - t\n":             `line 8: "tags:" must stand before "fields:"`,

		tag("T_U"):            `line 7: "T_U" is no name of a tag`,
		tag("a b"):            `line 7: "a b" is no name of a tag`,
		tag("a,b"):            `line 7: "a,b" is no name of a tag`,
		tag("a, a"):           `line 7: tag "a" is there twice`,
		tag("a ()"):           "line 7: \"a ()\": want `tag`, `tag (text)` or `tag: text`",
		tag("a (b"):           "line 7: \"a (b\": want `tag`, `tag (text)` or `tag: text`",
		tag("a(b)"):           "line 7: \"a(b)\": want `tag`, `tag (text)` or `tag: text`",
		tag("a (b) c"):        "line 7: \"a (b) c\": want `tag`, `tag (text)` or `tag: text`",
		tag("a (b) (c)"):      "line 7: \"a (b) (c)\": want `tag`, `tag (text)` or `tag: text`",
		tag("a (b): c"):       "line 7: \"a (b): c\": want `tag`, `tag (text)` or `tag: text`",
		tag("a:"):             "line 7: \"a:\": want `tag`, `tag (text)` or `tag: text`",
		tag("a : b"):          "line 7: \"a : b\": want `tag`, `tag (text)` or `tag: text`",
		tag("a:b"):            "line 7: \"a:b\": want `tag`, `tag (text)` or `tag: text`",
		tag("those of other"): `line 7: "other" is no measurement further up`,
		tag("those of a"):     `line 7: "a" is no measurement further up`,

		field("f"):                                 `line 7: "f": want ` + wantField,
		field("f: text"):                           `line 7: "f: text": want ` + wantField,
		field("f(integer)"):                        `line 7: "f(integer)": want ` + wantField,
		field("f (integer"):                        `line 7: "f (integer": want ` + wantField,
		field("f (integer, )"):                     `line 7: "f (integer, )": want ` + wantField,
		field("f (integer) text"):                  `line 7: "f (integer) text": want ` + wantField,
		field("f (integer):"):                      `line 7: "f (integer):": want ` + wantField,
		field("f (int)"):                           `line 7: "int" is none of the types ["integer" "float" "string" "boolean"]`,
		field("f ()"):                              `line 7: "" is none of the types ["integer" "float" "string" "boolean"]`,
		field("f (integers, x)"):                   `line 7: "integers" is none of the types ["integer" "float" "string" "boolean"]`,
		field("1f (integer)"):                      `line 7: "1f" is no name of a field`,
		field("_f (integer)"):                      `line 7: "_f" is no name of a field`,
		field("f-g (integer)"):                     `line 7: "f-g" is no name of a field`,
		field("Name (integer)"):                    `line 7: "Name" is no name of a field`,
		field("fNAME (integer)"):                   `line 7: "fNAME" is no name of a field`,
		field("A_B (integer)"):                     `line 7: "A_B" is no name of a field`,
		field("f, (integer)"):                      `line 7: "f," is no name of a field`,
		field("f, g, f (float)"):                   `line 7: field "f" is there twice`,
		field("f (float)") + "    - f (integer)\n": `line 8: field "f" is there twice`,
		field("those of a"):                        `line 7: "a" is no measurement further up`,

		good + "- a: x\n  - fields:\n    - f (integer)\n    - those of good\n": `line 14: field "f" is there twice`,
		good + "- a: x\n  - fields:\n    - those of good but g\n":              `line 13: measurement "good" has no "g"`,
		good + "- a: x\n  - fields:\n    - those of good but f\n":              `line 13: nothing is left of those of "good"`,
		good + "- a: x\n  - fields:\n    - those of good: text\n":              `line 13: "good: text" is no measurement further up`,
		good + "- a: x\n  - tags:\n    - those of good but f\n":                `line 13: measurement "good" has no "f"`,
	} {
		_, err := Parse([]byte("# A\n\n## Metrics\n\n" + text))
		require.EqualError(t, err, want, text)
	}
	_, err := Parse([]byte("# A\n\n### Metrics\n\n" + good + "## Metrics of others\n"))
	require.ErrorIs(t, err, ErrNoMetrics)
	require.EqualError(t, err, `no section "## Metrics"`)
}

const wantField = "`field (type)` or `field (type, unit)`, and perhaps `: text`"

func tag(item string) string   { return "- a: x\n  - tags:\n    - " + item + "\n" }
func field(item string) string { return "- a: x\n  - fields:\n    - " + item + "\n" }

func TestCheck(t *testing.T) {
	doc, err := Parse([]byte("## Metrics\n\n" + `- job: text
  - tags:
    - fs
    - by_WHAT
  - fields:
    - ops (integer)
    - NAME (integer)
    - NAME_rate (float)
    - top_NAME (string)
    - TEXT (string)
`))
	require.NoError(t, err)
	for _, test := range []struct {
		measurement string
		tags        []string
		fields      map[string]Type
		want        string
	}{
		{"job", nil, nil, ""},
		{"job", []string{"fs", "by_user"}, map[string]Type{
			"ops": Integer, "open": Integer, "open_rate": Float, "top_rate": Float, "top_x": String, "jobid": String, "_rate": Integer,
		}, ""},
		{"jobs", []string{"x"}, map[string]Type{"x": Integer}, `measurement "jobs" is not documented`},
		{"job", []string{"by_", "by_a.b", "xby_a", "TAG"}, nil, `measurement "job": tag "by_" is not documented
measurement "job": tag "by_a.b" is not documented
measurement "job": tag "xby_a" is not documented
measurement "job": tag "TAG" is not documented`},
		{"job", nil, map[string]Type{
			"ops": Float, "open_rate": Integer, "open": Float, "ok": Boolean, "a.b": Integer, "NAME": Integer, "": Integer, "x": "uint64",
		}, `measurement "job": field "" (integer) is not documented
measurement "job": field "NAME" (integer) is not documented
measurement "job": field "a.b" (integer) is not documented
measurement "job": field "ok" is of type boolean, documented as integer
measurement "job": field "open" is of type float, documented as integer
measurement "job": field "open_rate" is of type integer, documented as float
measurement "job": field "ops" is of type float, documented as integer
measurement "job": field "x" is of type uint64, documented as integer`},
	} {
		if err := doc.Check(test.measurement, test.tags, test.fields); test.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, test.want)
		}
	}
}

// What Parse accepts it reads again from what String writes, and points as documented pass the check.
func FuzzParse(f *testing.F) {
	f.Add([]byte(readme))
	f.Add([]byte("## Metrics\n" + good))
	f.Add([]byte("## Metrics\n- a, b (not by default): c: d\n  e\n  - tags:\n    - A, b_A (x: y)\n  - fields:\n    - A_b (float, x,  y): (z)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := Parse(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := Parse([]byte("## Metrics\n" + doc.String()))
		require.NoError(t, err, doc.String())
		require.Equal(t, doc, again)
		for _, m := range doc.Measurements {
			require.True(t, bytes.Contains(text, []byte(m.Name)))
			require.NotEmpty(t, m.Text)
			require.NotEmpty(t, m.Fields)
			for _, tag := range m.Tags {
				require.NoError(t, doc.Check(m.Name, []string{instance(tag.Name)}, nil))
			}
			for _, field := range m.Fields {
				name := instance(field.Name)
				if found := m.Field(name, field.Type); found.Name == field.Name {
					require.NoError(t, doc.Check(m.Name, nil, map[string]Type{name: field.Type}))
				}
			}
		}
	})
}

// instance gives a name that a documented one stands for.
func instance(documented string) string {
	before, after, ok := cutPlaceholder(documented)
	if !ok {
		return documented
	}
	return before + "0" + after
}
