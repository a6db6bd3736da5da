package execd

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/toml"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/execd/testplugin"
)

var testInput = plugin{kind: kindInput, name: "test_input"}

func TestLoadConfig(t *testing.T) {
	t.Setenv("EXECD_NAME", "from_environment")
	t.Setenv("EXECD_NUMBER", "7")
	t.Setenv("EXECD_SECRET", "hush")
	path := configFile(t, "\ufeff"+`# ${UNSET} and @{store:key} in a comment do not count
[[inputs.test_input]]
  alias = "a#${EXECD_NAME}" # nor ${HERE}
  metrics = ${EXECD_NUMBER}
  interval = "10s"
  name_override = "${EXECD_UNSET:-fallback}"
  secret = "${EXECD_SECRET}"
  events = "$$1 ${1} $EXECD_UNSET"
  namepass = ["x*"]
  [inputs.test_input.tags]
    room = '''a # ''' # ${HERE}
[[inputs.test_input]]
`)
	cfg, err := loadConfig(path, testInput)
	require.NoError(t, err)
	require.Len(t, cfg.Inputs, 2)
	first := cfg.Inputs[0]
	require.Equal(t, "inputs.test_input::a#from_environment", first.LogName())
	require.Equal(t, 10*time.Second, first.Config.Interval)
	require.Equal(t, "fallback", first.Config.NameOverride)
	require.Equal(t, map[string]string{"room": "a # "}, first.Config.Tags)
	input := first.Input.(*testplugin.Input)
	require.Equal(t, 7, input.Metrics)
	require.Equal(t, "$1 ${1} $EXECD_UNSET", input.Events)
	secret, err := input.Secret.Get()
	require.NoError(t, err)
	require.Equal(t, "hush", secret.TemporaryString())
	secret.Destroy()
	require.Empty(t, cfg.Tags, "a host tag would beat the parent's")
}

func TestLoadConfigWithoutFile(t *testing.T) {
	cfg, err := loadConfig("", testInput)
	require.NoError(t, err)
	require.Len(t, cfg.Inputs, 1)
	require.Equal(t, 1, cfg.Inputs[0].Input.(*testplugin.Input).Metrics, "the default")
}

func TestLoadConfigErrors(t *testing.T) {
	t.Setenv("EXECD_EMPTY", "")
	for _, test := range []struct {
		name string
		text string
		err  string // After the file's name.
	}{
		{"unknown key", "[[inputs.test_input]]\nmetrics = 1\nrooot = 5\n", `:3: inputs.test_input: unknown option "rooot"`},
		{"unknown keys", "[[inputs.test_input]]\nb = 1\na = 5\n", `:3: inputs.test_input: unknown options ["a" "b"]`},
		{"unknown key of the second table", "[[inputs.test_input]]\n[[inputs.test_input]]\nb = 1\n", `:3: inputs.test_input: unknown option "b"`},
		{"unknown table", "[[inputs.test_input]]\n[inputs.test_input.sub]\nb = 1\n", `:2: inputs.test_input: unknown option "sub"`},
		{"unknown plugin", "[[inputs.test_input]]\n\n[[inputs.cpu]]\n", ":3: inputs.cpu is not in this program, only inputs.test_input is"},
		{"second kind", "[[inputs.test_input]]\n[[outputs.file]]\n", ":2: outputs.file is not in this program, only inputs.test_input is"},
		{"several of a second kind", "[[inputs.test_input]]\n[[outputs.http]]\n[[outputs.file]]\n", ":2: outputs is not in this program, only inputs.test_input is"},
		{"registered, but of a second kind", "[[outputs.test_output]]\n", ":1: outputs.test_output is not in this program, only inputs.test_input is"},
		{"aggregator", "[[aggregators.minmax]]\n", ":1: aggregators.minmax is not in this program, only inputs.test_input is"},
		{"key outside of tables", "metrics = 1\n[[inputs.test_input]]\n", ":1: metrics is not in this program, only inputs.test_input is"},
		{"no kind", "[[test_input]]\n", ":1: test_input is not in this program, only inputs.test_input is"},
		{"agent", "[[inputs.test_input]]\n[agent]\n  interval = \"10s\"\n", ":2: [agent] has no effect here: it belongs in the configuration of the Telegraf that starts inputs.test_input"},
		{"global tags", "[global_tags]\n  dc = \"x\"\n", ":1: [global_tags] has no effect here: it belongs in the configuration of the Telegraf that starts inputs.test_input"},
		{"no table", "# nothing\n", ": there is no table [[inputs.test_input]]"},
		{"no table of the kind", "[inputs]\n", ": there is no table [[inputs.test_input]]"},
		{"unset variable", "[[inputs.test_input]]\n  # a comment\n  secret = \"${EXECD_UNSET}\"\n", ":3: inputs.test_input.secret: environment variable EXECD_UNSET is not set"},
		{"unset variable without quotes", "[[inputs.test_input]]\n  metrics = ${EXECD_UNSET}\n", ":2: inputs.test_input.metrics: environment variable EXECD_UNSET is not set"},
		{"unset variable in a list", "[[inputs.test_input]]\n  warn = [\n  'a',\n  '${EXECD_UNSET}']\n", ":4: inputs.test_input.warn: environment variable EXECD_UNSET is not set"},
		{"required variable", "[[inputs.test_input]]\n  secret = \"${EXECD_EMPTY:?say it}\"\n", ":2: inputs.test_input.secret: environment variable EXECD_EMPTY is not set"},
		{"secret store", "[[inputs.test_input]]\n  secret = \"@{vault:token}\"\n", ":2: inputs.test_input.secret: the secret store reference @{vault:token} cannot be resolved outside of Telegraf: use an environment variable"},
		{"syntax", "[[inputs.test_input]]\n  metrics = ]\n", ":2: invalid TOML: invalid TOML syntax"},
		{"type", "[[inputs.test_input]]\n  metrics = \"x\"\n", ": error parsing test_input, line 2: (testplugin.Input.Metrics) cannot unmarshal TOML string into int"},
		{"interval that is no string", "[[inputs.test_input]]\n  interval = 10\n", ":2: inputs.test_input.interval: 10 is not a string"},
		{"interval that is no duration", "[[inputs.test_input]]\n  interval = \"10\"\n", `:2: inputs.test_input.interval: "10" is not a duration such as "30s"`},
		{"negative interval", "[[inputs.test_input]]\n  interval = \"-10s\"\n", `:2: inputs.test_input.interval: "-10s" is not a duration such as "30s"`},
		{"log level", "[[inputs.test_input]]\n  log_level = \"loud\"\n", `:2: inputs.test_input.log_level: "loud" is none of error, warn, info, debug, trace`},
		{"name that is no string", "[[inputs.test_input]]\n  name_override = 1\n", ":2: inputs.test_input.name_override: 1 is not a string"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := configFile(t, test.text)
			_, err := loadConfig(path, testInput)
			require.EqualError(t, err, path+test.err)
		})
	}
}

func TestProcessorTablesAreOrdered(t *testing.T) {
	path := configFile(t, `
[[processors.test_processor]]
  alias = "last"
  order = 2
[[processors.test_processor]]
  alias = "first"
  order = 1
`)
	cfg, err := loadConfig(path, plugin{kind: kindProcessor, name: "test_processor"})
	require.NoError(t, err)
	require.Len(t, cfg.Processors, 2)
	require.Equal(t, "processors.test_processor::first", cfg.Processors[0].LogName())
	require.Equal(t, "processors.test_processor::last", cfg.Processors[1].LogName())
}

func TestExpand(t *testing.T) {
	set := expander{func(name string) (string, bool) {
		value, ok := map[string]string{"A": "1", "EMPTY": "", "_b2": "${A}"}[name]
		return value, ok
	}}
	for text, want := range map[string]string{
		"":                       "",
		"no reference":           "no reference",
		"${A}":                   "1",
		"x${A}${A}y":             "x11y",
		"$A-$EMPTY-":             "1--",
		"$":                      "$",
		"a$":                     "a$",
		"$$A $${A}":              "$A ${A}",
		"$1 ${1} ${} ${":         "$1 ${1} ${} ${",
		"$UNSET":                 "$UNSET",
		"${EMPTY}":               "",
		"${EMPTY:-d}":            "d",
		"${EMPTY-d}":             "",
		"${UNSET-d}":             "d",
		"${UNSET:-d}":            "d",
		"${UNSET:-}":             "",
		"${UNSET:+d}${EMPTY:+d}": "",
		"${A:+d}${EMPTY+e}":      "de",
		"${UNSET:-${A}}":         "1",
		"${A:-${UNSET}}":         "1",
		"${_b2}":                 "${A}",
		"${UNSET:-a:b-c}":        "a:b-c",
		"${A\n}":                 "${A\n}",
	} {
		got, err := set.expand(text, 0)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, offset := range map[string]int{"${UNSET}": 0, "ab${A}${UNSET}": 6, "${EMPTY:?no}": 0, "${UNSET?no}": 0} {
		_, err := set.expand(text, 0)
		var unset *unsetError
		require.ErrorAs(t, err, &unset, text)
		require.Equal(t, offset, unset.offset, text)
	}
	_, err := set.expand("${UNSET:-${UNSET2}}", 0)
	require.EqualError(t, err, "environment variable UNSET2 is not set")
}

// TestExpandAsTelegraf loads each text with Telegraf's package too: what it makes of it is what counts.
func TestExpandAsTelegraf(t *testing.T) {
	t.Setenv("EXECD_A", "1")
	t.Setenv("EXECD_EMPTY", "")
	for _, text := range []string{
		"${EXECD_A}", "x${EXECD_A}${EXECD_A}y", "$EXECD_A.", "$$EXECD_A", "$1 ${1}", "$EXECD_UNSET", "${EXECD_EMPTY}",
		"${EXECD_EMPTY:-d}", "${EXECD_EMPTY-d}", "${EXECD_UNSET-d}", "${EXECD_UNSET:-d}", "${EXECD_UNSET:-}",
		"${EXECD_A:+d}", "${EXECD_UNSET:+d}", "${EXECD_UNSET:-${EXECD_A}}", "${EXECD_A:-${EXECD_UNSET}}",
		"a $ b", "${EXECD_UNSET:-a:b-c}", "50$", "$a$b",
	} {
		want, err := expander{os.LookupEnv}.expand(text, 0)
		require.NoError(t, err, text)
		cfg, err := loadConfig(configFile(t, "[[inputs.test_input]]\n  events = '"+text+"'\n"), testInput)
		require.NoError(t, err, text)
		require.Equal(t, want, cfg.Inputs[0].Input.(*testplugin.Input).Events, text)
	}
}

func TestStripComments(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"a = 1 # b\nc":              "a = 1 \nc",
		"# all":                     "",
		`a = "#" # b`:               `a = "#" `,
		`a = '#' # b`:               `a = '#' `,
		`a = "\"#" # b`:             `a = "\"#" `,
		`a = '\' # b`:               `a = '\' `,
		"a = \"\"\"\n#\n\"\"\" # b": "a = \"\"\"\n#\n\"\"\" ",
		"a = '''\n#\n''' # b":       "a = '''\n#\n''' ",
		"a = \"open # b\nc # d":     "a = \"open # b\nc ",
		"a = '''open # b":           "a = '''open # b",
		`a = "" # b`:                `a = "" `,
	} {
		require.Equal(t, want, string(stripComments([]byte(text))), text)
	}
}

// FuzzStripComments: a text that is TOML means the same without its comments, line by line.
func FuzzStripComments(f *testing.F) {
	f.Add("a = 1 # b\n[c] # d\ne = \"#\"\nf = '''\n#\n''' # g\nh = [1, # i\n 2]\n")
	f.Add("a = \"\\\"#\" # x\n")
	f.Fuzz(func(t *testing.T, text string) {
		bare := stripComments([]byte(text))
		require.Equal(t, strings.Count(text, "\n"), strings.Count(string(bare), "\n"), "line numbers stay")
		var with, without map[string]any
		if toml.Unmarshal([]byte(text), &with) != nil {
			return
		}
		require.NoError(t, toml.Unmarshal(bare, &without))
		require.Equal(t, with, without)
	})
}

func TestUntilNext(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		now              time.Time
		interval, offset time.Duration
		want             time.Duration
	}{
		{at, 10 * time.Second, 0, 5 * time.Second},
		{at, 10 * time.Second, 2 * time.Second, 7 * time.Second},
		{at, 5 * time.Second, 0, 5 * time.Second},
		{at.Add(-time.Millisecond), 5 * time.Second, 0, 5*time.Second + time.Millisecond}, // A timer that fired early.
		{at.Add(time.Millisecond), 5 * time.Second, 0, 5*time.Second - time.Millisecond},
		{at, time.Hour, 0, 55*time.Minute + 55*time.Second},
	} {
		require.Equal(t, test.want, untilNext(test.now, test.interval, test.offset), test)
	}
}

func TestComplaints(t *testing.T) {
	var c complaints
	now := time.Now()
	for range complaintsPerMinute {
		hidden, ok := c.about(now)
		require.True(t, ok)
		require.Zero(t, hidden)
	}
	for range 3 {
		_, ok := c.about(now.Add(59 * time.Second))
		require.False(t, ok)
	}
	hidden, ok := c.about(now.Add(time.Minute))
	require.True(t, ok)
	require.Equal(t, 3, hidden)
	require.Equal(t, " (and 3 like it since)", also(hidden))
	require.Empty(t, also(0))
}

func TestLogs(t *testing.T) {
	var stderr, stdout strings.Builder
	l := &logs{err: &stderr, source: "inputs.x", level: telegraf.Info}
	l.setLevel("inputs.y", telegraf.Trace)
	l.setLevel("inputs.y", telegraf.Error)
	l.setLevel("inputs.z", telegraf.Error)
	l.setLevel("inputs.x", telegraf.None)
	l.print(telegraf.Error, "inputs.x::a", "one\r\ntwo\n\n")
	l.print(telegraf.Warn, "", "own")
	l.print(telegraf.Debug, "", "hidden")
	l.print(telegraf.Trace, "inputs.y", "shown")
	l.print(telegraf.Warn, "inputs.z", "hidden")
	l.print(telegraf.Error, "inputs.z", strings.Repeat("x", longestLogLine+7))
	require.Equal(t, "E! [inputs.x::a] one\nE! [inputs.x::a] two\nW! [inputs.x] own\nT! [inputs.y] shown\nE! [inputs.z] "+
		strings.Repeat("x", longestLogLine)+" ... (7 bytes more)\n", stderr.String())
	require.EqualValues(t, 2, l.errors.Load())

	stderr.Reset()
	l.info = &stdout
	l.print(telegraf.Info, "outputs.x", "one\ntwo")
	l.print(telegraf.Warn, "outputs.x", "three")
	require.Equal(t, "[outputs.x] one\n[outputs.x] two\n", stdout.String())
	require.Equal(t, "W! [outputs.x] three\n", stderr.String())
}

func TestFindKey(t *testing.T) {
	table, err := toml.Parse([]byte("a = 1\n[b]\n  c = 2\n[[d]]\n  e = 3\n"))
	require.NoError(t, err)
	for key, want := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 4} {
		line, ok := findKey(table, key)
		require.True(t, ok, key)
		require.Equal(t, want, line, key)
	}
	_, ok := findKey(table, "x")
	require.False(t, ok)
}
