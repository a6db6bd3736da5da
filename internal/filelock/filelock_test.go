package filelock

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path, unix.LOCK_SH, 0)
	require.NoError(t, err)
	second, err := Lock(path, unix.LOCK_SH, 0)
	require.NoError(t, err)
	_, err = Lock(path, unix.LOCK_EX, 30*time.Millisecond)
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	require.EqualError(t, err, "resource temporarily unavailable")
	require.NoError(t, first())
	time.AfterFunc(50*time.Millisecond, func() { _ = second() })
	third, err := Lock(path, unix.LOCK_EX, 20*time.Second)
	require.NoError(t, err)
	require.NoError(t, third())
	_, err = Lock(filepath.Join(path, "x"), unix.LOCK_EX, 0)
	require.ErrorIs(t, err, unix.ENOTDIR)
}

// A child has all files between fork and exec: the lock is gone all the same.
func TestUnlockWhileAChildHasTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path, unix.LOCK_EX, 0)
	require.NoError(t, err)
	child := -1
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, f := range files {
		if target, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && target == path {
			var number int
			_, err := fmt.Sscan(f.Name(), &number)
			require.NoError(t, err)
			child, err = unix.Dup(number)
			require.NoError(t, err)
		}
	}
	require.NotEqual(t, -1, child)
	require.NoError(t, unlock())
	unlock, err = Lock(path, unix.LOCK_EX, 0)
	require.NoError(t, err)
	require.NoError(t, unlock())
	require.NoError(t, unix.Close(child))
}
