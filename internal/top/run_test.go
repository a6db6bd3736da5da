package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fake is a source with one job for each sample.
type fake struct {
	mu      sync.Mutex
	samples int
	err     error
}

func (f *fake) Name() string { return "a test" }

func (f *fake) Sample(_ context.Context, by Grouping) (Snapshot, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples++
	name := fmt.Sprintf("%s%d", by, f.samples)
	return Snapshot{At: time.Unix(0, 0).UTC(), Rows: []Row{{FS: "lustre", Name: name}, {FS: "lustre", Name: "other"}}}, f.samples > 1, f.err
}

// printed runs a screen whose output is a file, and gives what is there.
func printed(t *testing.T, s Screen) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	in, err := os.Open(os.DevNull)
	require.NoError(t, err)
	s.In, s.Out, s.By, s.Sort = in, out, ByJob, SortBytes
	failed := s.Run(t.Context())
	require.NoError(t, errors.Join(out.Close(), in.Close()))
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text), failed
}

// Without a terminal it is text, and the first table is the one with rates.
func TestOnce(t *testing.T) {
	t.Parallel()
	text, err := printed(t, Screen{Source: &fake{}, Every: 100 * time.Millisecond, Once: true, Rows: 1})
	require.NoError(t, err)
	golden(t, "once.txt", text)
	_, err = printed(t, Screen{Source: &fake{err: errors.New("gone")}, Every: time.Second, Once: true})
	require.EqualError(t, err, "gone")
	_, err = printed(t, Screen{Source: &fake{}, Every: time.Millisecond})
	require.EqualError(t, err, "an interval of 1ms is too short: 100ms at least")
}

// console is a terminal that the test has the other end of (pty(7)).
type console struct {
	t     *testing.T
	ptmx  *os.File
	tty   *os.File
	mu    sync.Mutex
	shown strings.Builder
}

func newConsole(t *testing.T) *console {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	c := &console{t: t, ptmx: ptmx, tty: tty}
	require.NoError(t, unix.IoctlSetWinsize(int(ptmx.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 100}))
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := ptmx.Read(b)
			c.mu.Lock()
			c.shown.Write(b[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// wait waits for a text on the screen, and forgets what came until then.
func (c *console) wait(text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := c.shown.String()
		i := strings.Index(all, text)
		if i < 0 {
			return false
		}
		c.shown.Reset()
		c.shown.WriteString(all[i+len(text):])
		return true
	}, 20*time.Second, 5*time.Millisecond, "%q", text)
}

func (c *console) press(keys string) {
	c.t.Helper()
	_, err := c.ptmx.WriteString(keys)
	require.NoError(c.t, err)
}

// A whole session: what is shown follows the keys, and the terminal is given back as it was.
func TestInteract(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before, err := unix.IoctlGetTermios(int(c.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	s := Screen{Source: &fake{}, Every: 100 * time.Millisecond, By: ByJob, Sort: SortBytes, In: c.tty, Out: c.tty}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	c.wait(enterScreen)
	c.wait("job2")
	c.press("n")
	c.wait("sorted by name")
	c.press("/oth")
	c.wait("filter: oth_")
	c.press("\r")
	c.wait("with oth")
	c.press("p")
	c.wait("PAUSED")
	c.press("\x1bp")
	c.wait("by job, sorted by name\x1b[K")
	c.press("u")
	c.wait("by user")
	c.wait("user")
	require.NoError(t, unix.IoctlSetWinsize(int(c.ptmx.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 30}))
	c.press("q")
	require.NoError(t, <-done)
	c.wait(leaveScreen)
	after, err := unix.IoctlGetTermios(int(c.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// However it ends, the terminal is given back.
func TestInterruptedInteract(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := Screen{Source: &fake{err: errors.New("down")}, Every: time.Minute, By: ByJob, Sort: SortBytes, In: c.tty, Out: c.tty}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c.wait("! down")
	cancel()
	require.NoError(t, <-done)
	c.wait(leaveScreen)
}
