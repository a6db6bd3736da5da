package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const magic = "a log for tests 1\n"

// writeLog makes a log of some batches, each of one record.
func writeLog(t testing.TB, path string, values ...[]byte) {
	t.Helper()
	l, err := CreateLog(path, magic)
	require.NoError(t, err)
	for _, v := range values {
		w := Batch{Log: l}
		w.Start()
		w.Record(4, "k", v)
		require.NoError(t, w.Finish())
	}
	require.NoError(t, l.Sync(time.Unix(1, 0), 0, nil))
	require.NoError(t, l.Close())
}

func replayAll(t testing.TB, path string) (batches [][]byte, damaged bool) {
	t.Helper()
	damaged, err := ReplayLog(path, magic, func(b []byte) error {
		batches = append(batches, bytes.Clone(b))
		return nil
	})
	require.NoError(t, err)
	return batches, damaged
}

func TestReplayLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.1")
	large := bytes.Repeat([]byte("x"), MaxFrame)
	writeLog(t, path, []byte("one"), large, []byte("three"))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	batches, damaged := replayAll(t, path)
	require.False(t, damaged)
	require.Equal(t, 3, len(batches)) //nolint:testifylint // Len prints a megabyte.
	require.Equal(t, "\x04\x01k\x03one", string(batches[0]))
	require.True(t, bytes.HasSuffix(batches[1], large))
	// Wherever it is cut, what is whole is there, and a cut is no damage.
	for _, cut := range []int{0, 5, len(magic), len(magic) + 3, len(magic) + frameHead + 2, len(whole) - 1, len(whole) - 20, len(whole) / 2} {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		batches, damaged := replayAll(t, path)
		require.False(t, damaged, "cut at %d", cut)
		require.Less(t, len(batches), 3, "cut at %d", cut)
	}
	require.NoError(t, os.WriteFile(path, append([]byte("another file entirely, of no use"), whole...), 0o600))
	_, damaged = replayAll(t, path)
	require.True(t, damaged)
}

// Whatever stands behind whole batches, they are read, and nothing else is made up: a batch has a checksum.
func FuzzReplayLog(f *testing.F) {
	f.Add([]byte("one"), []byte{})
	f.Add([]byte("one"), []byte{200, 0, 0, 0, 1, 2, 3, 4, 5})
	f.Add([]byte(""), []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, value, tail []byte) {
		path := filepath.Join(t.TempDir(), "log.1")
		writeLog(t, path, value, value)
		want, damaged := replayAll(t, path)
		require.False(t, damaged)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(whole, tail...), 0o600))
		got, _ := replayAll(t, path)
		if len(got) < 2 {
			t.Fatalf("%d batches", len(got))
		}
		require.True(t, bytes.Equal(want[0], got[0]) && bytes.Equal(want[1], got[1]))
	})
}
