package af_https

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// numbered gives lines of which each makes a document.
func numbered(from, to int) []string {
	lines := make([]string, 0, to-from)
	for n := from; n < to; n++ {
		lines = append(lines, fmt.Sprintf(`condor_job,schedd=login1 af_state="running",id="%d.0",runtime_seconds=1i,user="bob" %d`, n, n+1))
	}
	return lines
}

// feed is an af_https that the test is the Telegraf of.
type feed struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  harness.Buffer
}

func (s *site) feed() *feed {
	s.t.Helper()
	f := &feed{t: s.t, cmd: exec.Command(filepath.Join(s.bin, "af_https"), "--config", s.path("af_https.conf"))}
	f.cmd.Stdout, f.cmd.Stderr = &f.said, &f.said
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	f.stdin, err = f.cmd.StdinPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, f.cmd.Start())
	s.t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // Mostly it has ended.
		if s.t.Failed() && f.said.String() != "" {
			s.t.Logf("af_https said:\n%s", f.said.String())
		}
	})
	return f
}

// send writes lines. While the plugin takes none it waits.
func (f *feed) send(lines ...string) {
	f.t.Helper()
	_, err := io.WriteString(f.stdin, strings.Join(lines, "\n")+"\n")
	require.NoError(f.t, err)
}

// end closes standard input, as Telegraf does when it stops.
func (f *feed) end() {
	f.t.Helper()
	require.NoError(f.t, f.stdin.Close())
	require.NoError(f.t, f.cmd.Wait(), f.said.String())
}

// The plugin is killed 200 times at random under load. All documents that were committed come, in order; none more than
// once more for each kill, and with their ids each is known once.
func TestKilled(t *testing.T) {
	const kills = 200
	s := newSite(t)
	s.configure(s.endpoint.address)
	for life := range kills {
		f := s.feed()
		go func() {
			for n := 0; n < 400; n += 20 { // As much as is delivered in a life, about.
				lines := make([]string, 20)
				for i := range lines {
					lines[i] = fmt.Sprintf(`condor_job,schedd=login1 af_state="running",id="%d.%d",runtime_seconds=1i,user="bob" %d`, life, n+i, n+i+1)
				}
				if _, err := io.WriteString(f.stdin, strings.Join(lines, "\n")+"\n"); err != nil {
					return // It was killed.
				}
				time.Sleep(3 * time.Millisecond)
			}
		}()
		time.Sleep(time.Duration(80+rand.IntN(160)) * time.Millisecond)
		require.NoError(t, f.cmd.Process.Kill())
		require.Error(t, f.cmd.Wait())
	}
	s.run("--drain")
	accepted, queued := s.accepted()
	require.Zero(t, queued)
	s.checkLives(kills, accepted)
}

// checkLives checks that of each life the first documents came, without a gap and in order, that all are there which the
// queue took, and how many came twice.
func (s *site) checkLives(kills, accepted int) {
	s.t.Helper()
	ids := make(map[string]string)
	life, next, repeats, lives := -1, 0, 0, 0
	last := ""
	for _, d := range s.endpoint.documents("condorjob") {
		number := fmt.Sprint(d.keys["Id"])
		if number == last {
			repeats++
			require.Equal(s.t, ids[d.id()], number)
			continue
		}
		require.Empty(s.t, ids[d.id()], "one id is of two documents")
		ids[d.id()], last = number, number
		if number != fmt.Sprintf("%d.%d", life, next) { // A later one; some lives are too short for any.
			before := life
			_, err := fmt.Sscanf(number, "%d.%d", &life, &next)
			require.NoError(s.t, err)
			require.Greater(s.t, life, before)
			require.Zero(s.t, next, number)
			lives++
		}
		next++
	}
	s.t.Logf("%d documents were taken in %d of %d lives, %d came twice", accepted, lives, kills, repeats)
	require.Greater(s.t, lives, kills/4, "there was something to lose")
	require.Len(s.t, ids, accepted)
	require.LessOrEqual(s.t, repeats, kills)
}

// Telegraf starts a plugin that was killed again. Whatever was taken comes; what Telegraf or the plugin sends twice has one
// id.
func TestKilledUnderTelegraf(t *testing.T) {
	const kills = 5
	s := newSite(t)
	s.configure(s.endpoint.address)
	tg := harness.StartTelegraf(t, s.folder, strings.Replace(s.telegraf(""), `interval = "1s"`, `interval = "100ms"`, 1))
	child := tg.Child("af_https.conf")
	for range kills {
		before := s.endpoint.count()
		harness.Eventually(t, harness.Patience, func() error {
			if n := s.endpoint.count() - before; n < 50 {
				return fmt.Errorf("%d documents since the last kill", n)
			}
			return nil
		})
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
		child = tg.NewChild("af_https.conf", child)
	}
	s.waitKinds(2)
	tg.Stop()
	s.run("--drain")
	accepted, queued := s.accepted()
	require.Zero(t, queued)
	docs := s.endpoint.documents("")
	require.GreaterOrEqual(t, len(docs), accepted)
	require.LessOrEqual(t, len(docs), accepted+kills)
	texts := make(map[string]string)
	for _, d := range docs {
		checkShape(t, &d)
		if text, again := texts[d.id()]; again {
			require.Equal(t, text, d.text)
		}
		texts[d.id()] = d.text
	}
}

// The disk of the queue is full: the plugin takes no more, and loses nothing; when the endpoint is back all of it goes out
// and it takes more.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.Mkdir(s.path("state"), 0o700))
	if err := syscall.Mount("tmpfs", s.path("state"), "tmpfs", 0, "size=6m"); err != nil {
		t.Fatalf("needed here: root, to mount a small file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(s.path("state"), syscall.MNT_DETACH)) })
	s.configure(s.endpoint.address, "batch_size = 100")
	s.endpoint.make(always(http.StatusServiceUnavailable))
	const total = 60_000
	f := s.feed()
	fed := make(chan error, 1)
	go func() {
		_, err := io.WriteString(f.stdin, strings.Join(numbered(0, total), "\n")+"\n")
		fed <- err
	}()
	harness.Eventually(t, harness.Patience, func() error {
		if !strings.Contains(f.said.String(), "no space left on device") {
			return errors.New("the disk is not full yet")
		}
		return nil
	})
	select {
	case err := <-fed:
		require.Fail(t, "it took more than there is room for", err)
	case <-time.After(time.Second):
	}
	s.endpoint.make(nil)
	require.NoError(t, <-fed)
	f.end()
	s.run("--drain")
	docs := s.endpoint.documents("")
	require.Len(t, docs, total)
	for n, d := range docs {
		require.Equal(t, fmt.Sprintf("%d.0", n), d.keys["Id"])
	}
}
