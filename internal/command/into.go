package command

import (
	"context"
	"fmt"
	"slices"
)

// RunInto is Run with the memory for the output: what was in the buffer is overwritten, and Stdout is the buffer, or a
// larger one where it was too small. Who asks again and again for much, and needs the answer before no longer, spares the
// collector's work by handing it in.
func (r *Runner) RunInto(ctx context.Context, buffer []byte, name string, args ...string) (Result, error) {
	out := slice{b: buffer[:0], limit: r.maxOutput()}
	result, err := r.run(ctx, &out, name, args)
	if err != nil {
		return Result{}, err
	}
	result.Stdout = out.b
	return result, nil
}

// slice is standard output in memory that may be used again.
type slice struct {
	b     []byte
	limit int // The most bytes.
}

// minSpace is the least room to read into: as much as a pipe holds by default (pipe(7)).
const minSpace = 64 << 10

func (s *slice) space() ([]byte, error) {
	if len(s.b) > s.limit {
		return nil, &Error{Reason: ErrTooLong, Err: fmt.Errorf("more than %d bytes of output", s.limit)}
	}
	if len(s.b) == cap(s.b) {
		s.b = slices.Grow(s.b, max(minSpace, len(s.b)/4))
	}
	free := s.b[len(s.b):cap(s.b)]
	// One byte more than the limit tells that it was passed.
	if left := s.limit - len(s.b); left < len(free) {
		free = free[:left+1]
	}
	return free, nil
}

func (s *slice) took(n int) { s.b = s.b[:len(s.b)+n] }
