package execd

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		kind   string
		args   []string
		status int
		stdout string // A regular expression for all of it.
		stderr string
	}{
		{name: "version", kind: kindInput, args: []string{"--version"}, stdout: `test_input \(telegraf-hpc\) \S+\n`},
		{name: "one dash", kind: kindInput, args: []string{"-version"}, stdout: `test_input \(telegraf-hpc\) \S+\n`},
		{
			name: "sample", kind: kindProcessor, args: []string{"--sample-config"},
			stdout: `# Sets a tag\.\n\[\[processors\.test_processor\]\]\n(.|\n)+\n`,
		},
		{name: "help", kind: kindInput, args: []string{"-h"}, stdout: `(.|\n)*-config FILE(.|\n)*`},
		{
			name: "unknown flag", kind: kindOutput, args: []string{"--sample"}, status: 1,
			stderr: `E! \[outputs\.test_output\] flag provided but not defined: -sample\n`,
		},
		{
			name: "argument", kind: kindInput, args: []string{"plugin.conf"}, status: 1,
			stderr: `E! \[inputs\.test_input\] unexpected argument "plugin\.conf"\n`,
		},
		{
			name: "once is for inputs", kind: kindOutput, args: []string{"--once"}, status: 1,
			stderr: `E! \[outputs\.test_output\] -once gathers, and outputs\.test_output is not an input\n`,
		},
		{
			name: "no plugin", kind: "none", status: 1,
			stderr: `E! \[execd\.test\] 0 plugins are built in, not one: \[\]\n`,
		},
		{name: "check", kind: kindOutput, args: []string{"--check"}, stdout: `OK: outputs\.test_output, 1 table\(s\)\n`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := run(t, test.kind, "", "", test.args...)
			require.Equal(t, test.status, status)
			require.Regexp(t, "^"+test.stdout+"$", stdout)
			require.Regexp(t, "^"+test.stderr+"$", stderr)
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	for _, kind := range []struct{ kind, name string }{
		{kindInput, "inputs.test_input"}, {kindProcessor, "processors.test_processor"}, {kindOutput, "outputs.test_output"},
	} {
		t.Run(kind.kind, func(t *testing.T) {
			t.Parallel()
			conf := "[[" + kind.name + "]]\nevents = \"" + events + kind.kind + "\"\n[[" + kind.name + "]]\nalias = \"b\"\n"
			status, stdout, stderr := run(t, kind.kind, conf, "\n", "--check")
			require.Equal(t, 0, status)
			require.Equal(t, "OK: "+kind.name+", 2 table(s)\n", stdout)
			require.Empty(t, stderr)
			// Once: Telegraf's second instance of a processor must stay untouched. And nothing is started.
			require.Equal(t, "init\n", fileText(events+kind.kind))

			status, stdout, stderr = run(t, kind.kind, conf+"fail_in = \"init\"\n", "\n", "--check")
			require.Equal(t, 1, status)
			require.Empty(t, stdout)
			require.Regexp(t, `^E! \[`+regexp.QuoteMeta(kind.name)+`\] \S*/plugin\.conf: initialising `+regexp.QuoteMeta(kind.name)+`::b: told to fail in init\n$`, stderr)
		})
	}
}

func TestConfigErrorsEndTheProgram(t *testing.T) {
	t.Parallel()
	conf := configFile(t, "[[inputs.test_input]]\n  metrics = 1\n  metric = 2\n")
	status, stdout, stderr := run(t, kindInput, "", "\n", "--config", conf)
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Equal(t, "E! [inputs.test_input] "+conf+":3: inputs.test_input: unknown option \"metric\"\n", stderr)

	status, _, stderr = run(t, kindInput, "", "\n", "--config", "/nowhere/x.conf")
	require.Equal(t, 1, status)
	require.Equal(t, "E! [inputs.test_input] reading the configuration: open /nowhere/x.conf: no such file or directory\n", stderr)
}

// The reference is seen only once the environment is in place, and Telegraf's package keeps it for good.
func TestSecretStoreFromEnvironment(t *testing.T) {
	t.Parallel()
	cmd := command(t, kindInput, "[[inputs.test_input]]\n  secret = \"${EXECD_REFERENCE}\"\n", "--check")
	cmd.Env = append(cmd.Env, "EXECD_REFERENCE=@{vault:token}")
	out, err := cmd.CombinedOutput()
	require.EqualError(t, err, "exit status 1")
	require.Regexp(t, `^E! \[inputs\.test_input\] /.*/plugin\.conf: unknown secret-store for "@\{vault:token\}"\n$`, string(out))
}
