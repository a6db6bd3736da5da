//go:build soak

package agent

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSoakAgent is TestAgent for SOAKTIME.
func TestSoakAgent(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("SOAKTIME"))
	require.NoError(t, err, "SOAKTIME")
	newSite(t).run(duration)
}
