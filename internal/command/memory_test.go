//go:build !race

package command

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole resident memory of the process is looked at, in which the race detector's own would be.
func TestPeakMemoryIsTheText(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	dir := folder(t)
	got, err := (&Runner{Folder: dir, Timeout: patience}).Run(t.Context(), "peak", dir, strconv.Itoa(size))
	require.NoError(t, err)
	grown, err := strconv.Atoi(string(got.Stdout))
	require.NoError(t, err)
	require.InDelta(t, size, grown, size/8)
	t.Logf("%.3f times the text", float64(grown)/size)
}
