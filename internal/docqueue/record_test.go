package docqueue

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	b := appendRecord(nil, &record{seq: 1, time: 2, end: 44, kind: "CPU", body: []byte(`{}`)})
	require.Equal(t, "d0c57131"+"a6ff7904"+"0000001e"+"0000000000000001"+"0000000000000002"+"000000000000002c"+"03"+"435055"+"7b7d",
		hex.EncodeToString(b), "the format on disk")
	require.Len(t, b, recordSize("CPU", []byte(`{}`)))
	for n := range b {
		_, _, err := readRecord(b[:n])
		require.ErrorIs(t, err, errRecord)
		damaged := bytes.Clone(b)
		damaged[n] ^= 4
		_, _, err = readRecord(damaged)
		require.ErrorIs(t, err, errRecord, "byte %d", n)
	}
}

// What was written is read, wherever it stands; and whatever is read has been written so.
func FuzzRecord(f *testing.F) {
	f.Add(uint64(1), int64(1_700_000_000_000_000_000), uint64(99), "CPU", []byte(`{"load":1.0}`), []byte("before"), []byte("after"))
	f.Add(uint64(0), int64(-1), uint64(0), "", []byte{}, []byte(magic), []byte(magic))
	f.Fuzz(func(t *testing.T, seq uint64, time int64, end uint64, kind string, body, before, after []byte) {
		if len(kind) > longestKind {
			kind = kind[:longestKind]
		}
		want := record{seq, time, end, kind, body}
		b := appendRecord(bytes.Clone(before), &want)
		got, size, err := readRecord(append(b[len(before):], after...))
		require.NoError(t, err)
		require.Equal(t, len(b)-len(before), size)
		require.Equal(t, recordSize(kind, body), size)
		require.True(t, bytes.Equal(want.body, got.body))
		got.body = want.body
		require.Equal(t, want, got)

		if got, size, err := readRecord(after); err == nil {
			require.Equal(t, after[:size], appendRecord(nil, &got))
		}
		if next := nextRecord(after); next < len(after) {
			require.Equal(t, magic, string(after[next:next+len(magic)]))
		}
	})
}

// A file of marks that anybody may have written gives marks, or none, and takes new ones.
func FuzzCursors(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 3*slotSize))
	f.Add(bytes.Repeat([]byte{7}, slotSize+5))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "delivered")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		c, before, err := openCursors(path)
		require.NoError(t, err)
		require.NoError(t, c.set("kind", mark{7, 8}))
		require.NoError(t, c.set("other", mark{1, 2}))
		require.NoError(t, c.set("kind", mark{9, 10}))
		require.NoError(t, c.file.Close())
		c, after, err := openCursors(path)
		require.NoError(t, err)
		require.NoError(t, c.file.Close())
		if before["kind"].seq <= 9 {
			require.Equal(t, mark{9, 10}, after["kind"])
		}
		for kind, m := range before {
			if kind != "kind" && kind != "other" {
				require.Equal(t, m, after[kind])
			}
		}
	})
}
