package top

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// isTerminal tells whether a file is one (isatty(3)).
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// terminal is one whose keys come at once, and whose screen is ours until it is closed.
type terminal struct {
	in, out *os.File
	before  *unix.Termios
	keys    chan []key
	resized chan os.Signal
}

// What xterm and everything like it obey: another screen, no cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

func openTerminal(in, out *os.File) (*terminal, error) {
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, os.NewSyscallError("tcgetattr", err)
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	raw.Cc[unix.VSUSP] = 0 // Suspended, we would leave the screen as it is.
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, os.NewSyscallError("tcsetattr", err)
	}
	t := &terminal{in: in, out: out, before: before, keys: make(chan []key), resized: make(chan os.Signal, 1)}
	signal.Notify(t.resized, unix.SIGWINCH)
	go t.read()
	_, err = io.WriteString(out, enterScreen)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// close gives the terminal back as it was.
func (t *terminal) close() error {
	signal.Stop(t.resized)
	_, err := io.WriteString(t.out, leaveScreen)
	return errors.Join(err, os.NewSyscallError("tcsetattr", unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, t.before)))
}

// read hands on keys until the terminal is gone. It waits for one in read(2), which nothing ends but the process.
func (t *terminal) read() {
	defer close(t.keys)
	b := make([]byte, 256)
	for {
		n, err := t.in.Read(b)
		if n > 0 {
			t.keys <- parseKeys(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// size gives the columns and rows, those of old where the terminal does not tell.
func (t *terminal) size() (width, height int) {
	s, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || s.Col == 0 || s.Row == 0 {
		return 80, 24
	}
	return int(s.Col), int(s.Row)
}

// headingLine is the line that is shown in reverse.
const headingLine = 3

// draw writes a screen in one write, so that it does not flicker.
func (t *terminal) draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i == headingLine && len(lines) > headingLine+1 {
			line = "\x1b[7m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(t.out, b.String())
	return err
}
