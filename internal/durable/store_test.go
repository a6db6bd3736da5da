package durable

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func testFormat() Format { return Format{Version: 3, Buckets: []string{"meta", "things"}} }

func TestOpenStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "store.db")
	db, warnings, err := OpenStore(path, testFormat())
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		require.Equal(t, uint64(3), GetUint(tx.Bucket([]byte("meta")), "version"))
		require.Zero(t, GetUint(tx.Bucket([]byte("meta")), "other"))
		return PutUint(tx.Bucket([]byte("things")), "n", 7)
	}))
	_, _, err = OpenStore(path, testFormat())
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, db.Close())

	db, warnings, err = OpenStore(path, testFormat())
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		require.Equal(t, uint64(7), GetUint(tx.Bucket([]byte("things")), "n"))
		return nil
	}))
	require.NoError(t, db.Close())

	_, _, err = OpenStore(path, Format{Version: 2, Buckets: []string{"meta"}})
	require.EqualError(t, err, "the state was written by a later version: format 3, known is 2")
}

// What can't be read is kept aside, and there is a new store in its place.
func TestOpenStoreThatIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	garbage := bytes.Repeat([]byte("garbage "), 8192)
	require.NoError(t, os.WriteFile(path, garbage, 0o600))
	db, warnings, err := OpenStore(path, testFormat())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.Len(t, warnings, 1)
	require.ErrorContains(t, warnings[0], "was set aside as "+path+".damaged-")
	aside, err := filepath.Glob(path + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, aside, 1)
	kept, err := os.ReadFile(aside[0])
	require.NoError(t, err)
	require.Equal(t, garbage, kept)

	_, _, err = OpenStore(filepath.Join(path, "below", "a", "file"), testFormat())
	require.ErrorContains(t, err, "not a directory")
}

func TestLogs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"log.10", "log.2", "log.x", "log.03", "log.2.damaged", "old-log.damaged-2", "store.db"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	gens, err := Logs(dir)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 10}, gens)

	for range 2 { // It may be there from a start before.
		warning, err := SetLogAside(dir, 10)
		require.NoError(t, err)
		require.EqualError(t, warning, "log "+filepath.Join(dir, "log.10")+" is damaged: what it has behind the damage is lost; a copy is "+
			filepath.Join(dir, "old-log.damaged-10"))
	}
	kept, err := os.ReadFile(filepath.Join(dir, "old-log.damaged-10"))
	require.NoError(t, err)
	require.Equal(t, "log.10", string(kept))
}

// What was sealed under a key is unsealed under that key only, and reads back; any change of a byte is found.
func FuzzRecord(f *testing.F) {
	f.Add("key", int64(-5), uint64(1<<63), "text", uint16(3))
	f.Fuzz(func(t *testing.T, key string, a int64, b uint64, text string, flip uint16) {
		record := AppendString(binary.AppendUvarint(binary.AppendVarint(Open([]byte("before")), a), b), text)
		record = Seal(record, len("before"), key)[len("before"):]
		d, err := Unseal(record, key)
		require.NoError(t, err)
		require.Equal(t, a, d.Varint())
		require.Equal(t, b, d.Uvarint())
		require.Equal(t, text, d.String())
		require.NoError(t, d.Err)
		require.Empty(t, d.Rest)
		_ = d.Varint()
		require.ErrorIs(t, d.Err, ErrRecord)

		_, err = Unseal(record, key+"x")
		require.ErrorIs(t, err, ErrRecord)
		record[int(flip)%len(record)] ^= 1
		_, err = Unseal(record, key)
		require.ErrorIs(t, err, ErrRecord)
	})
}
