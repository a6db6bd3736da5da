// Package filelock locks files among processes, as flock(2) does.
package filelock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock locks a file, which it makes where there is none, until unlock is called or the process ends. how is unix.LOCK_EX or
// unix.LOCK_SH. Where another process has it for longer than wait, the error is unix.EWOULDBLOCK.
func Lock(path string, how int, wait time.Duration) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			// A child that was forked and has not come to its exec yet has the file, too, and would keep the lock.
			return func() error { return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close()) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(err, f.Close())
		}
	}
}
