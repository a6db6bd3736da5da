package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports that tests have are below those that the kernel gives to clients and to whoever asks for any (ip(7),
// ip_local_port_range): else one of these could take a port before the server listens that it was chosen for.
const firstPort, lastPort = 10000, 29999

// FreeAddress gives a loopback address that nobody listens on, and that no other test gets until this one has ended.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 10 * (lastPort - firstPort) {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // It is no secret.
		// An abstract socket is of a network namespace, as the port is, and ends with the process (unix(7)).
		lock, err := net.Listen("unix", fmt.Sprintf("@telegraf-hpc-port-%d", port))
		if err != nil {
			continue // Another test has it.
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_ = lock.Close() // It is somebody else's.
			continue
		}
		_ = listener.Close()                   // Nothing came by it.
		t.Cleanup(func() { _ = lock.Close() }) // After that of the server, which is added later.
		return address
	}
	t.Fatalf("every port from %d to %d is in use", firstPort, lastPort)
	return ""
}
