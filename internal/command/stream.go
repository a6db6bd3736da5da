package command

import (
	"context"
	"fmt"
	"io"
)

// Stream runs a tool as Run does, and has its standard output read while the tool runs: consume gets the output as it
// comes, up to its end. Result.Stdout is nil. The tool is not killed when consume returns early: the rest is read, and
// thrown away. Consume has returned when Stream does.
//
// What consume made of the output counts only if Stream returns no error: the output of a tool that fails in the end may
// be anything. The tool's failure, an *Error, comes before that of consume, which is wrapped with the tool's name.
func (r *Runner) Stream(ctx context.Context, consume func(stdout io.Reader) error, name string, args ...string) (Result, error) {
	reader, writer := io.Pipe()
	consumed := make(chan error, 1)
	go func() {
		err := consume(reader)
		_ = reader.Close() // What is still written fails, which is no matter to the sink; it never fails itself.
		consumed <- err
	}()
	result, err := r.run(ctx, &handover{limit: r.maxOutput(), consumer: writer}, name, args)
	_ = writer.CloseWithError(cause(err)) // Never fails.
	failure := <-consumed
	if err == nil && failure != nil {
		err = fmt.Errorf("%s: reading its output: %w", name, failure)
	}
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

// cause gives the error that the reader meets behind the last byte: io.EOF behind a whole output only.
func cause(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// streamSize is how much is handed over at once. It is the size of a pipe.
const streamSize = 64 << 10

// handover hands standard output on as it comes. While nobody takes it, the tool waits.
type handover struct {
	limit    int // The most bytes.
	size     int
	consumer *io.PipeWriter
	b        [streamSize]byte
}

func (s *handover) space() ([]byte, error) {
	if s.size > s.limit {
		return nil, &Error{Reason: ErrTooLong, Err: fmt.Errorf("more than %d bytes of output", s.limit)}
	}
	return s.b[:], nil
}

func (s *handover) took(n int) {
	s.size += n
	if s.size <= s.limit {
		_, _ = s.consumer.Write(s.b[:n]) // Fails where consume has returned.
	}
}
