package harness

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// An address is a test's own until it ends, listened to or not.
func TestFreeAddress(t *testing.T) {
	_, port, err := net.SplitHostPort(FreeAddress(t))
	require.NoError(t, err)
	lock := "@telegraf-hpc-port-" + port
	_, err = net.Listen("unix", lock)
	require.ErrorContains(t, err, "address already in use")

	var another string
	t.Run("another", func(t *testing.T) {
		seen := map[string]bool{port: true}
		for range 300 {
			address := FreeAddress(t)
			_, another, err = net.SplitHostPort(address)
			require.NoError(t, err)
			require.False(t, seen[another], another)
			seen[another] = true
			listener, err := net.Listen("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, listener.Close()) })
		}
	})
	listener, err := net.Listen("unix", "@telegraf-hpc-port-"+another)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}
