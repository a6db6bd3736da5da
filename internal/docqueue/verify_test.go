package docqueue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// healthy gives a file with branches, overflow, inline buckets and free pages.
func healthy(t testing.TB) []byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "queue")
	q, err := Open(dir, Options{})
	require.NoError(t, err)
	for n := range 150 {
		require.NoError(t, q.Append([]Document{{"a", make([]byte, 1200)}}, map[string][]byte{"n": {byte(n)}}))
	}
	require.NoError(t, q.Append([]Document{{"b", make([]byte, 9000)}}, nil))
	entries, err := q.Read("a", 100, 0)
	require.NoError(t, err)
	require.NoError(t, q.Delivered(&entries[99]))
	require.NoError(t, q.Maintain())
	require.NoError(t, q.Close())
	content, err := os.ReadFile(filepath.Join(dir, "queue.db"))
	require.NoError(t, err)
	require.NoError(t, verifyFile(content, os.Getpagesize()))
	return content
}

func TestVerify(t *testing.T) {
	t.Parallel()
	size := os.Getpagesize()
	content := healthy(t)
	require.EqualError(t, verifyFile(content[:size], size), "it ends after 4096 bytes")
	require.ErrorContains(t, verifyFile(content[:6*size], size), "it ends before page ")
	content[size+pageHead+20] ^= 1
	require.EqualError(t, verifyFile(content, size), "the checksum of page 1 does not fit")
}

// Whatever changes in a file: it is found, or bbolt can read all of the file.
func FuzzVerify(f *testing.F) {
	good := healthy(f)
	f.Add(uint32(4096*3), byte(1), uint32(4096*4+17), byte(255))
	f.Add(uint32(4096*2+12), byte(1), uint32(4096*5+10), byte(7))
	f.Fuzz(func(t *testing.T, at uint32, with byte, other uint32, also byte) {
		content := append([]byte(nil), good...)
		content[int(at)%len(content)] ^= with
		// The heads of pages are where it hurts.
		content[int(other)%len(content)/4096*4096+int(other)%64] ^= also
		if verifyFile(content, os.Getpagesize()) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "queue.db")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		db, err := bbolt.Open(path, 0o600, boltOptions())
		require.NoError(t, err)
		require.NoError(t, db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return readAll(b) })
		}))
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("another"))
			return err
		}))
		require.NoError(t, db.Close())
	})
}

func readAll(b *bbolt.Bucket) error {
	return b.ForEach(func(k, v []byte) error {
		if v == nil && b.Bucket(k) != nil {
			return readAll(b.Bucket(k))
		}
		return nil
	})
}
