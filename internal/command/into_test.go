package command

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The output is the same whatever the buffer holds, and a buffer that is large enough is used again.
func TestRunInto(t *testing.T) {
	var r Runner
	want := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	for _, size := range []int{0, 1, 1000, len(want) - 1, len(want), len(want) + 1, 2 * len(want)} {
		buffer := bytes.Repeat([]byte("x"), size)
		result, err := r.RunInto(t.Context(), buffer, "sh", "-c", `i=0; while [ $i -lt 20 ]; do printf '%016000d' 0 | sed 's/0\{16\}/0123456789abcdef/g'; i=$((i+1)); done`)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, result.Stdout), "%d bytes with a buffer of %d", len(result.Stdout), size)
		if size > len(want) {
			require.Same(t, unsafe.SliceData(buffer), unsafe.SliceData(result.Stdout))
		}
	}
	result, err := r.RunInto(t.Context(), []byte("what was before"), "true")
	require.NoError(t, err)
	require.Empty(t, result.Stdout)
}

func TestRunIntoLimit(t *testing.T) {
	r := Runner{MaxOutput: 10}
	for _, buffer := range [][]byte{nil, make([]byte, 0, 10), make([]byte, 100)} {
		result, err := r.RunInto(t.Context(), buffer, "printf", "0123456789")
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(result.Stdout))
		_, err = r.RunInto(t.Context(), buffer, "printf", "0123456789a")
		require.EqualError(t, err, "printf: more than 10 bytes of output")
		require.ErrorIs(t, err, ErrTooLong)
	}
}
