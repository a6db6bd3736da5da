package execd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	conf := configFile(t, "[[inputs.test_commander]]\n  voice = \"high\"\n[[inputs.test_commander]]\n")
	const failed = "E! [inputs.test_commander] "
	for _, test := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{name: "alone", args: []string{"--say"}, stdout: "say \"\" in a low voice, initialised: true\n"},
		{name: "argument", args: []string{"-say", "cheese"}, stdout: "say \"cheese\" in a low voice, initialised: true\n"},
		{name: "equals sign", args: []string{"--say=cheese"}, stdout: "say \"cheese\" in a low voice, initialised: true\n"},
		{
			name: "configured before", args: []string{"--config", conf, "--say", "cheese"},
			stdout: "say \"cheese\" in a high voice, initialised: true\n",
		},
		{
			name: "configured behind", args: []string{"--say", "cheese", "--config", conf},
			stdout: "say \"cheese\" in a high voice, initialised: true\n",
		},
		{name: "fails", args: []string{"--sing"}, status: 1, stderr: failed + "it can't sing\n"},
		{
			name: "two words", args: []string{"--say", "cheese", "please"}, status: 1,
			stderr: failed + "unexpected argument \"please\"\n",
		},
		{
			name: "two commands", args: []string{"--say", "--sing"}, status: 1,
			stderr: failed + "invalid boolean flag sing: there is -say already\n",
		},
		{name: "wrong file", args: []string{"--say", "--config", "/nowhere/x.conf"}, status: 1,
			stderr: failed + "reading the configuration: open /nowhere/x.conf: no such file or directory\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := run(t, commanderKind, "", "", test.args...)
			require.Equal(t, test.stderr, stderr)
			require.Equal(t, test.stdout, stdout)
			require.Equal(t, test.status, status)
		})
	}
}

func TestCommandsAreInTheHelp(t *testing.T) {
	t.Parallel()
	status, stdout, _ := run(t, commanderKind, "", "", "--help")
	require.Zero(t, status)
	require.Contains(t, stdout, "  -say WORD\n    \tsay WORD, and exit\n  -sing\n    \tfail, and exit\n")
	_, stdout, _ = run(t, kindInput, "", "", "--help")
	require.NotContains(t, stdout, "-say")
}
