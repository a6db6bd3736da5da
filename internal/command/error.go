package command

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Reason is the kind of a failure. errors.Is finds it in the errors of Run.
type Reason string

// The kinds of failure.
const (
	ErrNotFound  Reason = "tool not found"
	ErrSystem    Reason = "tool not started or not read" // The operating system refused, such as a file that is not executable.
	ErrStuck     Reason = "earlier tool still there"     // It was killed, but has not ended: mostly on a hung file system.
	ErrTimeout   Reason = "timeout"
	ErrTooLong   Reason = "output too long"
	ErrCancelled Reason = "cancelled" // By the context, whose error is in the chain.
	ErrSignal    Reason = "killed by a signal"
	ErrExit      Reason = "exit status other than 0"
)

func (r Reason) Error() string { return string(r) }

// Error tells why a run failed, in one line of printable characters, as far as the tool's name is.
type Error struct {
	// Name is the tool, as Run was asked for it.
	Name string
	// Reason is the kind of failure.
	Reason Reason
	// Status is the exit status with ErrExit, and the signal's number with ErrSignal.
	Status int
	// Stderr is the first line of standard error that is not blank, trimmed; what cannot be printed is escaped as in Go,
	// and behind about 200 bytes it is cut.
	Stderr string
	// Err is what happened; never nil.
	Err error
}

func (e *Error) Error() string {
	text := e.Name + ": " + e.Err.Error()
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap gives the reason and what happened.
func (e *Error) Unwrap() []error { return []error{e.Reason, e.Err} }

// startError is the failure to start the program at path.
func startError(path string, err error) *Error {
	// What wraps the number repeats the path.
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	// The program itself was found.
	if number == syscall.ENOENT {
		return &Error{Reason: ErrSystem, Err: fmt.Errorf("starting %s: %w (of its interpreter)", path, err)}
	}
	return &Error{Reason: ErrSystem, Err: fmt.Errorf("starting %s: %w", path, err)}
}

// maxLine is the length in bytes at which a line of standard error is cut.
const maxLine = 200

// firstLine gives the first line that is not blank, printable and cut.
func firstLine(b []byte) string {
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return printable(line)
		}
	}
	return ""
}

func printable(line []byte) string {
	var text strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		piece := string(line[:size])
		if broken := r == utf8.RuneError && size == 1; broken || !unicode.IsPrint(r) {
			quoted := strconv.Quote(piece)
			piece = quoted[1 : len(quoted)-1]
		}
		if text.Len()+len(piece) > maxLine {
			text.WriteString("...")
			break
		}
		text.WriteString(piece)
		line = line[size:]
	}
	return text.String()
}
