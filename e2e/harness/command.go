package harness

import "testing"

// Command is a program that runs under the test.
type Command struct{ *process }

// StartCommand starts a program in a folder.
func StartCommand(t testing.TB, folder, program string, args ...string) *Command {
	t.Helper()
	return &Command{start(t, folder, program, args...)}
}
