package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// all is a consumer that keeps everything.
func all(b *bytes.Buffer) func(io.Reader) error {
	return func(r io.Reader) error {
		_, err := b.ReadFrom(r)
		return err
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience}
	for _, size := range []string{"0", "1", "65536", "3000000"} {
		var got bytes.Buffer
		result, err := r.Stream(t.Context(), all(&got), "pattern", size)
		require.NoError(t, err)
		want, err := r.Run(t.Context(), "pattern", size)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want.Stdout, got.Bytes()), size)
		require.Nil(t, result.Stdout)
		require.Positive(t, result.Elapsed)
	}
}

// The output is there while the tool still runs.
func TestStreamWhileItRuns(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience}
	ctx, cancel := context.WithCancel(t.Context())
	file := t.TempDir() + "/ready"
	_, err := r.Stream(ctx, func(stdout io.Reader) error {
		first, err := bufio.NewReader(stdout).ReadByte()
		if err == nil && first == 'x' {
			cancel() // The tool would write for ever.
		}
		_, err = io.Copy(io.Discard, stdout)
		return err
	}, "stream", file)
	require.ErrorIs(t, err, ErrCancelled)
}

func TestStreamFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	dir := folder(t)
	for _, test := range []struct {
		name    string
		runner  *Runner
		consume func(io.Reader) error
		tool    string
		args    []string
		want    string
	}{
		{"the consumer's", &Runner{}, func(io.Reader) error { return broken }, "pattern", []string{"3000000"}, "pattern: reading its output: broken"},
		{"the tool's comes first", &Runner{}, func(io.Reader) error { return broken }, "fails", nil,
			`fails: exit status 3: \x1b[31msqueue: "error"\a\tcaf\xe9 café\u202e`},
		{"too long", &Runner{MaxOutput: 1000}, all(new(bytes.Buffer)), "flood", nil, "flood: more than 1000 bytes of output"},
		{"too long by one", &Runner{MaxOutput: 999}, all(new(bytes.Buffer)), "pattern", []string{"1000"}, "pattern: more than 999 bytes of output"},
		{"time", &Runner{Timeout: 5 * time.Second}, all(new(bytes.Buffer)), "hang", []string{t.TempDir() + "/ready"},
			"hang: still running after 5s"},
		{"no tool", &Runner{}, all(new(bytes.Buffer)), "missing", nil, "missing: not found in " + dir},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.runner.Folder = dir
			if test.runner.Timeout == 0 {
				test.runner.Timeout = patience
			}
			ended := false
			_, err := test.runner.Stream(t.Context(), func(r io.Reader) error {
				err := test.consume(r)
				ended = true
				return err
			}, test.tool, test.args...)
			require.EqualError(t, err, test.want)
			require.True(t, ended, "the consumer has returned")
		})
	}
}

// A consumer never takes the output of a tool that failed for a whole one.
func TestStreamTellsTheConsumer(t *testing.T) {
	t.Parallel()
	r := &Runner{Folder: folder(t), Timeout: patience}
	var met error
	_, err := r.Stream(t.Context(), func(stdout io.Reader) error {
		_, met = io.ReadAll(stdout)
		return nil
	}, "fails")
	require.ErrorIs(t, err, ErrExit)
	require.ErrorIs(t, met, ErrExit)
}

// Output of just the limit is not too long.
func TestStreamLimit(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	r := &Runner{Folder: folder(t), Timeout: patience, MaxOutput: 1000}
	_, err := r.Stream(t.Context(), all(&got), "pattern", "1000")
	require.NoError(t, err)
	require.Equal(t, 1000, got.Len())
}
