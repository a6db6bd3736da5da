package execd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessorPassesOnWhatItDoesNotTake(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindProcessor, `
[[processors.test_processor]]
  namepass = ["taken"]
  [processors.test_processor.tagdrop]
    not = ["me"]
`, strings.Join([]string{
		`# a comment`,
		`taken,b=1 f=1i,g=2.50 17`,
		`other,z=1,a=2  f=1i,g=2.50,h=T   17  `, // Neither tags nor numbers are as Telegraf would write them.
		``,
		`taken,not=me f=1i 17`,
		"other,t=no\\ timestamp f=\"a\nb \\\" # c\"",
		`taken f=true,s="x y" 18`,
		"other f=1i 19\r",
		``,
	}, "\n"))
	require.Equal(t, 0, status)
	require.Equal(t, strings.Join([]string{
		`taken,b=1,seen=yes f=1i,g=2.5 17`,
		`other,z=1,a=2  f=1i,g=2.50,h=T   17  `,
		`taken,not=me f=1i 17`,
		"other,t=no\\ timestamp f=\"a\nb \\\" # c\"",
		`taken,seen=yes f=true,s="x y" 18`,
		"other f=1i 19\r",
		``,
	}, "\n"), stdout)
	require.Empty(t, stderr)
}

func TestProcessorChain(t *testing.T) {
	t.Parallel()
	status, stdout, _ := run(t, kindProcessor, `
[[processors.test_processor]]
  alias = "last"
  order = 9
  key = "all"
  namedrop = ["c"]
[[processors.test_processor]]
  alias = "first"
  order = 1
  key = "one"
  namepass = ["a"]
  at_stop = true
  fieldexclude = ["gone"]
`, "a f=1i 1\nb f=1i 2\nc  f=1i  3\na gone=1i 4\na f=1i,gone=2i 5\n")
	require.Equal(t, 0, status)
	require.Equal(t, "a,all=yes,one=yes f=1i 1\nb,all=yes f=1i 2\nc  f=1i  3\na,all=yes,one=yes f=1i 5\nstopped,all=yes seen=2i 1\n", stdout)
}

func TestProcessorDropsGarbage(t *testing.T) {
	t.Parallel()
	c := start(t, kindProcessor, "[[processors.test_processor]]\n  namepass = [\"b\"]\n")
	c.send("a f=1i 1\ngarbage\nb f=2i 2\na f= 3\n\x00\xff f=1i\nb =1 3\na f=4i 4\n")
	c.waitStdout("a f=4i 4\n")
	// A string field is opened: the lines that follow could be its rest.
	c.send("a f=\"open 5\na f=6i 6\n")
	c.waitStdout("a f=6i 6\n")
	c.send("a f=\"open 7\nb f=8i 8\na f=\"closes it\" 9\n")
	c.waitStdout("a f=\"closes it\" 9\n")
	c.send("a f=10i 1")
	stdout, stderr := c.finish()
	require.Equal(t, "a f=1i 1\nb,seen=yes f=2i 2\n\x00\xff f=1i\na f=4i 4\na f=6i 6\nb,seen=yes f=8i 8\na f=\"closes it\" 9\n", stdout)
	for _, want := range []string{
		`E! [processors.test_processor] A line of standard input is dropped: metric parse error: expected tag at 1:8: "garbage"` + "\n",
		`A line of standard input is dropped: metric parse error: expected field at 1:5: "a f= 3"` + "\n",
		`A line of standard input is dropped: metric parse error: expected field at 1:3: "b =1 3"` + "\n",
		`A line of standard input is dropped: a string field is not closed in its line: "a f=\"open 5"`,
		`A line of standard input is dropped: a string field is not closed in its line: "a f=\"open 7"`,
		`A line of standard input is dropped: standard input ended inside of it: "a f=10i 1"`,
	} {
		require.Contains(t, stderr, want)
	}
	require.Equal(t, 6, strings.Count(stderr, "is dropped"))
}

func TestProcessorSeesThroughAStrayQuoteAtTheEnd(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindProcessor, "", "a f=\"open 1\nb f=2i 2\nc f=\"open too\nd f=4i 4\n")
	require.Equal(t, 0, status)
	require.Equal(t, "b,seen=yes f=2i 2\nd,seen=yes f=4i 4\n", stdout)
	require.Equal(t, `E! [processors.test_processor] A line of standard input is dropped: a string field is not closed in its line: "a f=\"open 1"
E! [processors.test_processor] A line of standard input is dropped: a string field is not closed in its line: "c f=\"open too"
`, stderr)
}

func TestProcessorTellsALotOfGarbageBriefly(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindProcessor, "", strings.Repeat("garbage\n", 1000)+"b f=1i 1\n")
	require.Equal(t, 0, status)
	require.Equal(t, "b,seen=yes f=1i 1\n", stdout)
	require.Equal(t, complaintsPerMinute, strings.Count(stderr, "\n"))
}

func TestProcessorLongLines(t *testing.T) {
	t.Parallel()
	long := "a f=\"" + strings.Repeat("x", longestLine-100) + "\" 1\n"
	over := "b f=\"" + strings.Repeat("x", longestLine) + "\" 1\n"
	status, stdout, stderr := run(t, kindProcessor, "[[processors.test_processor]]\n  namedrop = [\"a\"]\n", long+over+"c f=1i 1\n")
	require.Equal(t, 0, status)
	requireText(t, long+"c,seen=yes f=1i 1\n", stdout)
	require.Regexp(t, `^E! \[processors\.test_processor\] A line of standard input is dropped: it is longer than 16 MiB: "b f=\\"x+ \.\.\. \(824 bytes more\)"\n$`, stderr)
}

func TestProcessorKeepsOrder(t *testing.T) {
	t.Parallel()
	const lines = 50_000
	var in, want strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, "m%d,t=x f=%di %d\n", i%2, i, i)
		seen := ""
		if i%2 == 1 {
			seen = "seen=yes,"
		}
		fmt.Fprintf(&want, "m%d,%st=x f=%di %d\n", i%2, seen, i, i)
	}
	status, stdout, stderr := run(t, kindProcessor, "[[processors.test_processor]]\n  namepass = [\"m1\"]\n", in.String())
	require.Equal(t, 0, status)
	requireText(t, want.String(), stdout)
	require.Empty(t, stderr)
}

func TestProcessorErrors(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, kindProcessor, "[[processors.test_processor]]\n  fail_in = \"add\"\n  fail_first = 1\n", "a f=1i 1\nb f=1i 2\n")
	require.Equal(t, 0, status)
	require.Equal(t, "b,seen=yes f=1i 2\n", stdout)
	require.Equal(t, "E! [processors.test_processor] Metric \"a\": told to fail in add\n", stderr)

	status, _, stderr = run(t, kindProcessor, "[[processors.test_processor]]\n  fail_in = \"start\"\n", "a f=1i 1\n")
	require.Equal(t, 1, status)
	require.Equal(t, "E! [processors.test_processor] starting processors.test_processor: told to fail in start\n", stderr)

	status, stdout, stderr = run(t, kindProcessor, "[[processors.test_processor]]\n  panic_in = \"add\"\n  namepass = [\"b\"]\n", "a f=1i 1\nb f=1i 2\n")
	require.Equal(t, 2, status)
	require.Equal(t, "a f=1i 1\n", stdout)
	require.True(t, strings.HasPrefix(stderr, "E! [processors.test_processor] panic: told to panic in add\nE! [processors.test_processor] goroutine "))
}

func TestProcessorEnds(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	c := start(t, kindProcessor, "[[processors.test_processor]]\n  at_stop = true\n  events = \""+events+"\"\n")
	c.send("a f=1i 1\n")
	c.waitStdout("a,seen=yes")
	c.terminate()
	// The parent may still have something to send.
	c.send("a f=1i 2\n")
	require.Equal(t, 0, c.exit())
	require.Equal(t, "a,seen=yes f=1i 1\na,seen=yes f=1i 2\nstopped seen=2i 1\n", c.stdout.String())
	require.Empty(t, c.stderr.String())
	require.Equal(t, "init\nstart\nadd\nadd\nstop\n", fileText(events))
}

func TestProcessorEndsWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	for _, hang := range []string{"add", "stop"} {
		t.Run(hang, func(t *testing.T) {
			t.Parallel()
			c := start(t, kindProcessor, "[[processors.test_processor]]\n  hang_in = \""+hang+"\"\n  namepass = [\"b\"]\n")
			c.send("a f=1i 1\n")
			c.waitStdout("a f=1i 1")
			c.send("a f=1i 2\nb f=1i 3\n")
			began := time.Now()
			c.eof()
			require.Equal(t, 0, c.exit())
			require.Less(t, c.exited.Sub(began), 5*time.Second)
			require.Contains(t, c.stderr.String(), "Not done after 4s, giving up: lines of standard input may be lost")
			if hang == "add" {
				require.Equal(t, "a f=1i 1\na f=1i 2\n", c.stdout.String())
			}
		})
	}
}

func TestProcessorThatReadsLinesItself(t *testing.T) {
	t.Parallel()
	lines := strings.Join([]string{
		`raw it is`, // No line protocol: nobody else reads it.
		`other,z=1,a=2  f=1i,g=2.50  17  `,
		`taken f=1i 17`,
		`garbage`,
		`other s="raw
raw" 18`,
		`raw f=1i`,
		`last f=1 19`,
	}, "\n") + "\n"
	status, stdout, stderr := run(t, lineProcessorKind, "", lines)
	require.Equal(t, 0, status)
	require.Equal(t, "other,z=1,a=2  f=1i,g=2.50  17  \nother s=\"raw\nraw\" 18\nlast f=1 19\ntook raw=2i,taken=1i,added=0i 1\n", stdout)
	require.Equal(t, "E! [processors.test_processor] A line of standard input is dropped: metric parse error: expected tag at 1:8: \"garbage\"\n", stderr)

	// With filters of its own, and with others in its file, it is a processor like any other.
	for _, conf := range []string{"[[processors.test_processor]]\n  namedrop = [\"other\"]\n", "[[processors.test_processor]]\n  key = \"one\"\n  order = 1\n[[processors.test_processor]]\n  order = 2\n"} {
		status, stdout, _ = run(t, lineProcessorKind, conf, "raw f=1i 1\n")
		require.Equal(t, 0, status)
		require.Contains(t, stdout, "seen=yes f=1i 1\n")
		require.Contains(t, stdout, "took raw=0i,taken=0i,")
	}
}
