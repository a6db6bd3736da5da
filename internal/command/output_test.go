package command

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The output in the pipe is complete when the tool has ended, however late we come to read it.
func TestReadGivesWhatIsInThePipe(t *testing.T) {
	t.Parallel()
	for range 200 {
		p, err := newPipe()
		require.NoError(t, err)
		want := pattern(60_000)
		_, err = p.w.Write(want)
		require.NoError(t, err)
		s := &text{limit: 100_000}
		go p.read(s)
		p.finish() // The other end is still open.
		require.NoError(t, p.err)
		require.Equal(t, string(want), string(s.bytes()))
		discard(p.w)
	}
}

func TestReadLimitsWhatIsInThePipe(t *testing.T) {
	t.Parallel()
	p, err := newPipe()
	require.NoError(t, err)
	_, err = p.w.Write(pattern(1000))
	require.NoError(t, err)
	s := &text{limit: 999}
	defer s.free()
	require.NoError(t, p.r.SetReadDeadline(time.Now()))
	p.read(s)
	require.ErrorIs(t, p.err, ErrTooLong)
	discard(p.r, p.w)
}

// Whoever still holds the other end may go on for ever: what it writes from then on is not read.
func TestReadEndsThoughThePipeIsFilledAgain(t *testing.T) {
	t.Parallel()
	p, err := newPipe()
	require.NoError(t, err)
	s := &filling{pipe: p}
	require.NoError(t, p.r.SetReadDeadline(time.Now()))
	p.read(s)
	require.NoError(t, p.err)
	require.Equal(t, 5, s.size)
	discard(p.r, p.w)
}

// filling is a sink that writes five bytes to its pipe each time it is asked for room.
type filling struct {
	pipe *pipe
	size int
}

func (f *filling) space() ([]byte, error) {
	if f.size > 5 {
		return nil, errors.New("read what came later")
	}
	_, err := f.pipe.w.WriteString("again")
	return make([]byte, 100), err
}

func (f *filling) took(n int) { f.size += n }

func TestText(t *testing.T) {
	t.Parallel()
	want := string(pattern(3*chunkSize + 17))
	for _, step := range []int{4097, 65536, chunkSize - 1, math.MaxInt} {
		s := &text{limit: math.MaxInt}
		for rest := want; rest != ""; {
			b, err := s.space()
			require.NoError(t, err)
			n := copy(b[:min(len(b), step)], rest)
			s.took(n)
			rest = rest[n:]
		}
		require.Equal(t, want, string(s.bytes()), "in steps of %d", step)
	}
}
