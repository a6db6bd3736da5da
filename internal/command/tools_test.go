package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain makes the test binary a tool where it is called by the name of one.
func TestMain(m *testing.M) {
	if tool, ok := tools()[filepath.Base(os.Args[0])]; ok {
		tool(os.Args[1:])
		exit(0, "")
	}
	flag.Parse()
	// Most tests wait for a child most of the time. A fuzzer's workers do not.
	if flag.Lookup("test.fuzz").Value.String() == "" {
		check(flag.Set("test.parallel", "12"))
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come: long, for a loaded machine.
const patience = 60 * time.Second

// tools are the real children of these tests. Where one takes a file as its first argument, it writes its process id
// there, and then that of its child, when it has got as far as the test needs it to be.
func tools() map[string]func([]string) {
	return map[string]func([]string){
		"args":       func(args []string) { say(strings.Join(args, "\x00")) },
		"env":        func([]string) { must(os.Stdout.Write(must(os.ReadFile("/proc/self/environ")))) },
		"stdin":      func([]string) { must(io.Copy(os.Stdout, os.Stdin)) },
		"pattern":    func(args []string) { must(os.Stdout.Write(pattern(must(strconv.Atoi(args[0]))))) },
		"flood":      func([]string) { flood() },
		"flooderr":   floodStderr,
		"hang":       func(args []string) { ready(args[0]); hang() },
		"closes":     func(args []string) { check(os.Stdout.Close()); ready(args[0]); hang() },
		"stubborn":   stubborn,
		"mover":      mover,
		"fork":       func(args []string) { fork(args[0], &syscall.SysProcAttr{}, "hang", args[0]+".child") },
		"forkhang":   func(args []string) { fork(args[0], &syscall.SysProcAttr{}, "hang", args[0]+".child"); hang() },
		"escape":     func(args []string) { fork(args[0], &syscall.SysProcAttr{Setsid: true}, "hang", args[0]+".child") },
		"floodchild": func(args []string) { fork(args[0], &syscall.SysProcAttr{Setsid: true}, "stream", args[0]+".child") },
		"stream":     stream,
		"signalled":  func([]string) { check(syscall.Kill(os.Getpid(), syscall.SIGKILL)); hang() },
		"fails":      fails,
		"silent":     func([]string) { exit(1, "") },
		"burn":       burn,
		"parent":     parent,
		"tracer":     tracer,
		"traced":     traced,
		"peak":       peak,
	}
}

// folder makes a folder of all tools.
func folder(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for name := range tools() {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	return dir
}

func check(err error) {
	if err != nil {
		exit(99, err.Error())
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func say(text string) { must(os.Stdout.WriteString(text)) }

// exit ends a tool. The race detector lets os.Exit wait for a second.
func exit(status int, stderr string) {
	fmt.Fprint(os.Stderr, stderr)
	syscall.Exit(status)
}

// hang waits for the kill, and gives up where the tests were killed themselves.
func hang() { time.Sleep(5 * time.Minute) }

// ready says that the tool is where the test waits for it to be.
func ready(file string) {
	check(os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o600))
	check(os.Rename(file+".new", file))
}

// pattern gives bytes of every value, whose period is no power of two.
func pattern(n int) []byte {
	period := make([]byte, 997)
	for i := range period {
		period[i] = byte(i * 7)
	}
	return bytes.Repeat(period, n/len(period)+1)[:n]
}

func fails([]string) {
	say("half an answer")
	exit(3, "\r\n \t\n\x1b[31msqueue: \"error\"\x07\tcaf\xe9 caf\u00e9\u202e\nsecond line\n")
}

func flood() {
	b := pattern(1 << 20)
	for {
		must(os.Stdout.Write(b))
	}
}

func floodStderr([]string) {
	b := bytes.Repeat([]byte("warning: again\n"), 70_000)
	for range 10 {
		must(os.Stderr.Write(b))
	}
	say("answer")
}

// stream writes for ever, but slowly, for what it writes counts as long as the tool that started it runs.
func stream(args []string) {
	say("x")
	ready(args[0])
	for {
		// The pipe may be gone, which is not its business.
		if _, err := os.Stdout.WriteString("x"); err != nil {
			exit(0, "")
		}
	}
}

func stubborn(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	ready(args[0])
	hang()
}

// mover leaves its process group for that of the tests.
func mover(args []string) {
	group := must(syscall.Getpgid(os.Getppid()))
	check(syscall.Setpgid(0, group))
	ready(args[0])
	hang()
}

// self makes a command of another of the tools.
func self(tool string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = tool
	return cmd
}

// fork starts a child that keeps standard output open, and waits until it is ready.
func fork(file string, attr *syscall.SysProcAttr, tool string, args ...string) {
	say("mine")
	cmd := self(tool, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attr
	check(cmd.Start())
	for {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ready(file)
}

// burn uses 100 ms of CPU time and lets a child use as much.
func burn(args []string) {
	b := pattern(1 << 20)
	for ownCPU() < 100*time.Millisecond {
		sha256.Sum256(b)
	}
	if len(args) == 0 {
		check(self("burn", "alone").Run())
	}
}

func ownCPU() time.Duration {
	var usage unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// parent runs a tool that hangs, for a test that kills the parent.
func parent(args []string) {
	r := &Runner{Folder: args[0]}
	_, err := r.Run(context.Background(), "hang", args[1])
	check(err)
}

// tracer traces a process, so that its parent does not see it end before the tracer lets go, at the end of its own
// standard input: the nearest that a test comes to a process that cannot be killed.
func tracer(args []string) {
	runtime.LockOSThread()
	if err := unix.PtraceSeize(must(strconv.Atoi(args[0]))); err != nil {
		exit(7, err.Error())
	}
	say("seized\n")
	must(io.Copy(io.Discard, os.Stdin))
}

// traced is hang that lets every process trace it, where Linux's Yama would not.
func traced(args []string) {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // Fails where there is no Yama, and no need.
	ready(args[0])
	hang()
}

// peak prints by how many bytes this process's resident memory grew at most while it ran a tool that writes as many
// bytes as args say.
func peak(args []string) {
	r := &Runner{Folder: args[0], MaxOutput: 1 << 30}
	must(r.Run(context.Background(), "pattern", "1"))
	before := highWater()
	must(r.Run(context.Background(), "pattern", args[1]))
	say(strconv.Itoa(highWater() - before))
}

// highWater gives the most resident memory that this process had so far, in bytes.
func highWater() int {
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/status")))) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return must(strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))) << 10
		}
	}
	panic("no VmHWM")
}
