package option

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequire(t *testing.T) {
	require.NoError(t, Require("timeout", true, "must be more than 0s"))
	require.EqualError(t, Require("timeout", false, "must be more than 0s"), "option timeout: must be more than 0s")
}

func TestChoice(t *testing.T) {
	require.NoError(t, Choice("method", "b", "a", "b"))
	require.EqualError(t, Choice("method", "c", "a", "b"), `option method: "c" is none of ["a" "b"]`)
}

func TestChoices(t *testing.T) {
	known := []string{"queue", "job"}
	require.NoError(t, Choices("collect", []string{"job", "queue"}, known))
	for want, values := range map[string][]string{
		"option collect: empty":                          nil,
		`option collect: "x" is none of ["queue" "job"]`: {"job", "x"},
		`option collect: "job" is there twice`:           {"job", "queue", "job"},
		`option collect: "" is none of ["queue" "job"]`:  {""},
	} {
		require.EqualError(t, Choices("collect", values, known), want)
	}
}
