package statefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type content struct {
	Version int `json:"version"`
	N       int `json:"n"`
}

func TestFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	f, c, err := Open[content](folder, "a/../b", 1)
	require.NoError(t, err)
	require.Zero(t, c, "there is none")
	require.NoError(t, f.Save(content{1, 7}))
	_, _, err = Open[content](folder, "a/../b", 1)
	require.ErrorContains(t, err, `/state/a_.._b.lock" is in use by another process: resource temporarily unavailable`)
	require.NoError(t, f.Close())
	require.False(t, f.Keeps())
	require.NoError(t, f.Save(content{1, 8}), "nothing is kept any more")

	f, c, err = Open[content](folder, "a/../b", 1)
	require.NoError(t, err)
	require.Equal(t, content{1, 7}, c)
	require.NoError(t, f.Close())
}

func TestDamaged(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 1, "n`:        "unexpected end of JSON input",
		`{"version": 2, "n": 7}`:   "version 2 of the format is not 1",
		`{"version": 1, "n": "x"}`: "json: cannot unmarshal string into Go struct field content.n of type int",
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "a.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f, c, err := Open[content](folder, "a", 1)
		var damaged *DamagedError
		require.ErrorAs(t, err, &damaged)
		require.EqualError(t, damaged.Cause, want)
		require.Equal(t, DamagedError{Path: path, Aside: path + ".damaged", Cause: damaged.Cause}, *damaged)
		require.Zero(t, c)
		aside, err := os.ReadFile(damaged.Aside)
		require.NoError(t, err)
		require.Equal(t, text, string(aside))
		require.NoError(t, f.Save(content{1, 9}), "it is open")
		require.NoError(t, f.Close())
	}
	// What can't be read for another reason is left alone, and nothing is kept in its place.
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "a.json"), 0o700))
	f, _, err := Open[content](folder, "a", 1)
	require.ErrorContains(t, err, "is a directory")
	require.False(t, f.Keeps())
}
