package docqueue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// rig is a queue in a test's own folder, with a clock that the test moves.
type rig struct {
	t     *testing.T
	dir   string
	o     Options
	clock time.Time
	q     *Queue

	mu       sync.Mutex
	warnings []string
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "queue"), o: o, clock: time.Unix(1_700_000_000, 0)}
	r.o.Now = func() time.Time { return r.clock }
	r.o.Warn = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warnings = append(r.warnings, strings.ReplaceAll(err.Error(), r.dir+"/", ""))
	}
	r.open()
	t.Cleanup(func() { require.NoError(t, r.q.Close()) })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	q, err := Open(r.dir, r.o)
	require.NoError(r.t, err)
	r.q = q
}

func (r *rig) reopen() {
	r.t.Helper()
	require.NoError(r.t, r.q.Close())
	r.open()
}

func (r *rig) append(kind string, bodies ...string) {
	r.t.Helper()
	docs := make([]Document, len(bodies))
	for i, body := range bodies {
		docs[i] = Document{kind, []byte(body)}
	}
	require.NoError(r.t, r.q.Append(docs, nil))
}

// read gives the bodies that Read gives.
func (r *rig) read(kind string, most, bytes int) []string {
	r.t.Helper()
	entries, err := r.q.Read(kind, most, bytes)
	require.NoError(r.t, err)
	bodies := make([]string, len(entries))
	for i, e := range entries {
		require.Equal(r.t, kind, e.Kind)
		bodies[i] = string(e.Body)
	}
	return bodies
}

// deliver delivers the first documents of a kind.
func (r *rig) deliver(kind string, n int) {
	r.t.Helper()
	entries, err := r.q.Read(kind, n, 0)
	require.NoError(r.t, err)
	require.Len(r.t, entries, n)
	require.NoError(r.t, r.q.Delivered(&entries[n-1]))
}

func numbered(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

func TestOrderAndRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", "1", "2")
	r.append("b", "x")
	require.NoError(t, r.q.Append([]Document{{"a", []byte("3")}, {"b", []byte("y")}, {"a", []byte("4")}}, nil))
	for range 2 { // As it is, and after a restart.
		require.Equal(t, []string{"a", "b"}, r.q.Kinds())
		require.Equal(t, []string{"1", "2", "3", "4"}, r.read("a", 0, 0))
		require.Equal(t, []string{"x", "y"}, r.read("b", 0, 0))
		require.Equal(t, []string{"1", "2", "3"}, r.read("a", 3, 0))
		require.Equal(t, []string{"1"}, r.read("a", 0, 1), "one, however large it is")
		require.Empty(t, r.read("c", 0, 0))
		r.reopen()
	}
	r.deliver("a", 3)
	require.Equal(t, []string{"4"}, r.read("a", 0, 0))
	require.Equal(t, []string{"x", "y"}, r.read("b", 0, 0))
	r.reopen()
	require.Equal(t, []string{"4"}, r.read("a", 0, 0))
	r.append("a", "5")
	require.Equal(t, []string{"4", "5"}, r.read("a", 0, 0))
	require.NoError(t, r.q.Maintain())
	r.reopen()
	require.Equal(t, []string{"4", "5"}, r.read("a", 0, 0))
	r.deliver("a", 2)
	require.NoError(t, r.q.Maintain())
	r.reopen()
	require.Empty(t, r.read("a", 0, 0))
	r.append("a", "6")
	require.Equal(t, []string{"6"}, r.read("a", 0, 0))
	require.Empty(t, r.warnings)
}

func TestStats(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", "one")
	r.clock = r.clock.Add(time.Minute)
	r.append("a", "two", "three")
	size := func(bodies ...string) (n uint64) {
		for _, body := range bodies {
			n += uint64(recordSize("a", []byte(body)))
		}
		return n
	}
	require.Equal(t, map[string]Stats{"a": {
		Accepted: 3, Queued: 3, Bytes: size("one", "two", "three"), Oldest: time.Unix(1_700_000_000, 0),
	}}, r.q.Stats())
	r.deliver("a", 1)
	want := map[string]Stats{"a": {
		Accepted: 3, Queued: 2, Bytes: size("two", "three"), Oldest: time.Unix(1_700_000_060, 0),
	}}
	require.Equal(t, want, r.q.Stats())
	_, err := Inspect(r.dir)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, r.q.Close())
	stats, err := Inspect(r.dir)
	require.NoError(t, err)
	require.Equal(t, want, stats)
	_, err = Inspect(filepath.Join(r.dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStateIsCommittedWithTheDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	require.NoError(t, r.q.Append([]Document{{"a", []byte("1")}}, map[string][]byte{"net/x": []byte("7"), "net/y": []byte("8"), "other": []byte("9")}))
	r.reopen()
	state, err := r.q.State("net/")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"net/x": []byte("7"), "net/y": []byte("8")}, state)
	require.Error(t, r.q.Append([]Document{{"a", make([]byte, longestBody+1)}}, map[string][]byte{"net/x": []byte("0")}))
	require.NoError(t, r.q.Append(nil, map[string][]byte{"net/y": nil}))
	state, err = r.q.State("net/")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"net/x": []byte("7")}, state)
}

func TestWhatCantBeKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	require.EqualError(t, r.q.Append([]Document{{"", nil}}, nil), `the kind "" of a document must have 1 to 64 bytes`)
	require.EqualError(t, r.q.Append([]Document{{"a", make([]byte, 16<<20+1)}}, nil),
		`a document of kind "a" has 16777217 bytes: at most 16777216 can be kept`)
	long := strings.Repeat("k", 64)
	r.append(long, strings.Repeat("x", 16<<20), "small")
	r.reopen()
	require.Equal(t, []string{strings.Repeat("x", 16<<20), "small"}, r.read(long, 0, 0))
}

func TestLocked(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	_, err := Open(r.dir, Options{})
	require.ErrorIs(t, err, ErrLocked)
	require.EqualError(t, err, "opening the queue in "+r.dir+": the queue is in use by another process")
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", "1")
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "queue.db"), 0o644))
	r.reopen()
	files, err := os.ReadDir(r.dir)
	require.NoError(t, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
	}
	require.Len(t, files, 4)
}

func TestLaterVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	require.NoError(t, r.q.update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte("version"), seal("version", blockKey(2)))
	}))
	require.NoError(t, r.q.Close())
	_, err := Open(r.dir, r.o)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "the queue was written by a later version: format 2, known is 1")
	require.Empty(t, r.warnings, "it must not be taken for damaged")
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	one := int64(recordSize("a", []byte(`{"n":1}`)))
	r := newRig(t, Options{MaxBytes: 3 * one})
	r.append("a", numbered(0, 3)...)
	err := r.q.Append([]Document{{"a", []byte(`{"n":3}`)}}, map[string][]byte{"s": []byte("1")})
	require.ErrorIs(t, err, ErrFull)
	require.EqualError(t, err, fmt.Sprintf("the queue is full: its limit is %d bytes", 3*one))
	state, err := r.q.State("")
	require.NoError(t, err)
	require.Empty(t, state)
	r.deliver("a", 1)
	r.append("a", `{"n":3}`)
	require.Equal(t, numbered(1, 4), r.read("a", 0, 0))
	r.deliver("a", 3)
	r.append("a", numbered(4, 14)...) // Too large for the limit, but it would wait for ever.
	require.Equal(t, numbered(4, 14), r.read("a", 0, 0))
}

func TestDropOldest(t *testing.T) {
	t.Parallel()
	one := int64(recordSize("a", []byte(`{"n":1}`)))
	r := newRig(t, Options{MaxBytes: 4 * one, DropOldest: true})
	r.append("a", numbered(0, 2)...)
	r.clock = r.clock.Add(time.Second)
	r.append("b", numbered(0, 2)...)
	r.clock = r.clock.Add(time.Second)
	entries, err := r.q.Read("a", 1, 0)
	require.NoError(t, err)
	require.True(t, r.q.Waits(&entries[0]))
	r.append("b", numbered(2, 3)...)
	require.False(t, r.q.Waits(&entries[0]), "it was dropped")
	require.Equal(t, numbered(1, 2), r.read("a", 0, 0))
	r.append("b", numbered(3, 5)...)
	require.Empty(t, r.read("a", 0, 0))
	require.Equal(t, numbered(1, 5), r.read("b", 0, 0))
	stats := r.q.Stats()
	require.Equal(t, uint64(2), stats["a"].Dropped)
	require.Equal(t, uint64(1), stats["b"].Dropped)
	require.NoError(t, r.q.Delivered(&entries[0]), "a reply that comes late")
	require.Empty(t, r.read("a", 0, 0))
}

func TestExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxAge: time.Hour})
	r.append("a", numbered(0, 3000)...)
	r.clock = r.clock.Add(time.Hour)
	r.append("a", numbered(3000, 3001)...)
	require.NoError(t, r.q.Maintain())
	require.Equal(t, uint64(3001), r.q.Stats()["a"].Queued)
	r.clock = r.clock.Add(time.Second)
	require.NoError(t, r.q.Maintain())
	require.Equal(t, numbered(3000, 3001), r.read("a", 0, 0))
	require.Equal(t, uint64(3000), r.q.Stats()["a"].Expired)
}

// What was delivered leaves the file, so that it does not grow.
func TestFileStaysSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	body := strings.Repeat("x", 4000)
	for range 100 {
		r.append("a", body, body, body, body, body, body, body, body, body, body)
		r.deliver("a", 10)
	}
	info, err := os.Stat(filepath.Join(r.dir, "queue.db"))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(3<<20))
}

// A file that an outage has made large is small again after the next start.
func TestCompact(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	body := strings.Repeat("x", 14<<20)
	r.append("a", body, body, body, body, body)
	r.deliver("a", 5)
	require.NoError(t, r.q.Append([]Document{{"a", []byte("last")}}, map[string][]byte{"s": []byte("1")}))
	r.reopen()
	info, err := os.Stat(filepath.Join(r.dir, "queue.db"))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(8<<20))
	for range 2 {
		require.Equal(t, []string{"last"}, r.read("a", 0, 0))
		state, err := r.q.State("")
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"s": []byte("1")}, state)
		require.Equal(t, uint64(6), r.q.Stats()["a"].Accepted)
		r.reopen()
	}
	require.Empty(t, r.warnings)
}

func TestAdded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	added := r.q.Added("a")
	require.Empty(t, added)
	r.append("b", "1")
	require.Empty(t, added)
	r.append("a", "1")
	r.append("a", "2")
	require.Len(t, added, 1)
}

// Documents come in and go out at the same time; limits and upkeep run beside.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxAge: 24 * time.Hour})
	total := 20_000
	if testing.Short() {
		total = 2_000
	}
	kinds := []string{"a", "b", "c"}
	var writers, readers sync.WaitGroup
	for _, kind := range kinds {
		writers.Go(func() {
			for n := 0; n < total; n += 100 {
				docs := make([]Document, 100)
				for i := range docs {
					docs[i] = Document{kind, fmt.Append(nil, n+i)}
				}
				if err := r.q.Append(docs, nil); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			for n := 0; n < total; {
				entries, err := r.q.Read(kind, 70, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if len(entries) == 0 {
					<-r.q.Added(kind)
				}
				for i := range entries {
					if string(entries[i].Body) != strconv.Itoa(n) {
						t.Errorf("%s came, and %d was due", entries[i].Body, n)
						return
					}
					n++
					if err := r.q.Delivered(&entries[i]); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	var upkeep sync.WaitGroup
	upkeep.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				if err := r.q.Maintain(); err != nil {
					t.Error(err)
				}
				r.q.Stats()
			}
		}
	})
	writers.Wait()
	readers.Wait()
	close(done)
	upkeep.Wait()
	require.Zero(t, r.q.Size())
	require.Empty(t, r.warnings)
}

// The marks are lost: documents come again, and none is lost.
func TestDeliveredIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", numbered(0, 10)...)
	r.deliver("a", 5)
	require.NoError(t, r.q.Maintain())
	r.deliver("a", 3)
	require.NoError(t, r.q.Close())
	path := filepath.Join(r.dir, "delivered")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[10] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	r.open()
	require.Equal(t, numbered(5, 10), r.read("a", 0, 0))
	r.deliver("a", 1)
	r.reopen()
	require.Equal(t, numbered(6, 10), r.read("a", 0, 0))
}

// queue.db was removed: new documents must not be taken for delivered ones.
func TestDocumentsAreLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", numbered(0, 10)...)
	r.deliver("a", 5)
	require.NoError(t, r.q.Close())
	require.NoError(t, os.Remove(filepath.Join(r.dir, "queue.db")))
	r.open()
	r.append("a", "new")
	require.Equal(t, []string{"new"}, r.read("a", 0, 0))
}

func TestManyKinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for n := range 100 {
		r.append(fmt.Sprint("kind ", n), "1", "2")
		r.deliver(fmt.Sprint("kind ", n), 1)
	}
	r.reopen()
	for n := range 100 {
		require.Equal(t, []string{"2"}, r.read(fmt.Sprint("kind ", n), 0, 0))
	}
}

// flip changes one bit of a file.
func flip(t *testing.T, path string, at int64, bit uint8) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 1 << bit
	_, err = f.WriteAt(b, at)
	require.NoError(t, errors.Join(err, f.Close()))
}

func TestDamagedDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", numbered(0, 5)...)
	r.append("a", "the damaged one")
	r.append("a", numbered(5, 8)...)
	require.NoError(t, r.q.Close())
	path := filepath.Join(r.dir, "queue.db")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := 0; ; at++ { // bbolt leaves copies in pages that are free.
		next := strings.Index(string(content[at:]), "damaged")
		if next < 0 {
			break
		}
		at += next
		flip(t, path, int64(at), 0)
	}
	r.open()
	require.Equal(t, numbered(0, 5), r.read("a", 0, 0))
	r.deliver("a", 5)
	require.Equal(t, numbered(5, 8), r.read("a", 0, 0))
	require.Equal(t, []string{
		`1 documents of kind "a" can't be read, from number 6 on: set aside as queue.db.damaged-1700000000000000000; 3 documents were found in it`,
		`1 documents of kind "a" can't be read, from number 6 on: they are lost`,
	}, r.warnings)
	require.Equal(t, uint64(1), r.q.Stats()["a"].Damaged)
	aside, err := os.ReadFile(path + ".damaged-1700000000000000000")
	require.NoError(t, err)
	require.Contains(t, string(aside), "the eamaged one")
	r.append("a", "9")
	r.reopen()
	require.Equal(t, append(numbered(5, 8), "9"), r.read("a", 0, 0))
}

// One bit changes, anywhere in the file: at most one document is lost, and no other comes twice, late or changed.
func TestDamageAnywhere(t *testing.T) {
	t.Parallel()
	trials := 200
	if testing.Short() {
		trials = 15
	}
	model := newRig(t, Options{})
	want := numbered(0, 1500)
	for from := 0; from < 600; from += 3 { // Small blocks and large ones, and pages that are free.
		model.append("a", want[from:from+3]...)
	}
	model.append("a", want[600:]...)
	model.append("b", want[:100]...)
	model.deliver("a", 50)
	require.NoError(t, model.q.Maintain())
	require.NoError(t, model.q.Close())
	files := make(map[string][]byte)
	for _, name := range []string{"queue.db", "delivered"} {
		content, err := os.ReadFile(filepath.Join(model.dir, name))
		require.NoError(t, err)
		files[name] = content
	}
	random := rand.New(rand.NewPCG(1, 2))
	for trial := range trials {
		r := &rig{t: t, dir: t.TempDir(), clock: model.clock, o: Options{Now: func() time.Time { return model.clock }}}
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), content, 0o600))
		}
		at := random.Int64N(int64(len(files["queue.db"])))
		if trial%3 == 0 { // The heads of pages, where it hurts.
			at = at/4096*4096 + random.Int64N(64)
		}
		flip(t, filepath.Join(r.dir, "queue.db"), at, uint8(random.IntN(8)))
		r.open()
		r.append("a", "new")
		a, b := r.drain("a"), r.drain("b")
		require.NoError(t, r.q.Close())
		lost := requirePart(t, append(want[50:len(want):len(want)], "new"), a, "byte %d", at) + requirePart(t, want[:100], b, "byte %d", at)
		require.LessOrEqual(t, lost, 1, "byte %d", at)
	}
}

// drain reads and delivers all of a kind.
func (r *rig) drain(kind string) (bodies []string) {
	r.t.Helper()
	for {
		entries, err := r.q.Read(kind, 100, 0)
		require.NoError(r.t, err)
		if len(entries) == 0 {
			return bodies
		}
		for _, e := range entries {
			bodies = append(bodies, string(e.Body))
		}
		require.NoError(r.t, r.q.Delivered(&entries[len(entries)-1]))
	}
}

// requirePart requires that got is want but for some that are missing, and gives how many.
func requirePart(t *testing.T, want, got []string, message string, args ...any) (missing int) {
	t.Helper()
	for _, body := range got {
		for len(want) > 0 && want[0] != body {
			want = want[1:]
			missing++
		}
		require.NotEmpty(t, want, append([]any{message + ": %s is none that is due"}, append(args, body)...)...)
		want = want[1:]
	}
	return missing + len(want)
}

// The file was cut short while the queue runs, as by somebody who empties it.
func TestCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.append("a", numbered(0, 5000)...)
	path := filepath.Join(r.dir, "queue.db")
	require.NoError(t, os.Truncate(path, 3*4096))
	got := r.drain("a")
	requirePart(t, numbered(0, 5000), got, "cut")
	require.NotEmpty(t, r.warnings)
	r.append("a", "new")
	require.Equal(t, []string{"new"}, r.drain("a"))
}

func TestIsFull(t *testing.T) {
	t.Parallel()
	require.True(t, isFull(fmt.Errorf("x: %w", &os.PathError{Err: syscall.ENOSPC})))
	require.True(t, isFull(syscall.EDQUOT))
	require.False(t, isFull(syscall.EIO))
}
