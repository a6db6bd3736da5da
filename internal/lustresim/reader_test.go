package lustresim

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filled is a target with n entries "0", "1", ... whose text needs many reads.
func filled(t *testing.T, e Era, n int) *Target {
	t.Helper()
	target := newOST(e)
	for i := range n {
		touch(t, target, t0, strconv.Itoa(i))
	}
	return target
}

// rest reads a file to its end.
func rest(r *Reader) string {
	var text strings.Builder
	for {
		chunk := r.Read()
		if len(chunk) == 0 {
			return text.String()
		}
		text.Write(chunk)
	}
}

func lives(r *Reader) []uint64 {
	list := make([]uint64, 0, len(r.Shown()))
	for _, s := range r.Shown() {
		list = append(list, s.Life)
	}
	return list
}

func upTo(n int, without ...uint64) []uint64 {
	var list []uint64
	for life := uint64(1); life <= uint64(n); life++ {
		if len(without) == 0 || life != without[0] {
			list = append(list, life)
			continue
		}
		without = without[1:]
	}
	return list
}

func TestReaderPollAndTextAgree(t *testing.T) {
	for _, e := range Eras() {
		for _, n := range []int{0, 1, 2, 50} {
			target := filled(t, e, n)
			want := string(target.Text())
			r := target.Open()
			require.Equal(t, want, rest(r), "%s, %d entries", e.Name, n)
			require.Empty(t, r.Read())
			polled, shown := target.Poll(t0, []byte("old"))
			require.Equal(t, want, string(polled))
			require.Equal(t, r.Shown(), append([]Shown(nil), shown...))
			require.Len(t, shown, n)
			r.Close(t0)
		}
	}
}

func TestReadsAreWholeRecordsOfAPage(t *testing.T) {
	for _, e := range Eras() {
		r := filled(t, e, 50).Open()
		chunks := 0
		for {
			chunk := r.Read()
			if len(chunk) == 0 {
				break
			}
			chunks++
			require.Less(t, len(chunk), 4096)
			require.True(t, strings.HasPrefix(string(chunk), "job_stats:\n") || strings.HasPrefix(string(chunk), "- job_id: "))
			require.True(t, strings.HasSuffix(string(chunk), " }\n"))
		}
		require.Greater(t, chunks, 5, e.Name)
	}
}

func TestAnEntryLargerThanAPageDoublesTheBuffer(t *testing.T) {
	era := eraOf(t, "2.14")
	for range 2 {
		era.ost = append(era.ost[:len(era.ost):len(era.ost)], era.ost...)
	}
	r := filled(t, era, 5).Open()
	require.Equal(t, "job_stats:\n", string(r.Read()), "nothing else fits beside it")
	first := r.Read()
	require.Greater(t, len(first), 4096)
	require.Less(t, len(first), 8192)
	rest(r)
	require.Equal(t, upTo(5), lives(r))
}

func TestABufferFullToItsLastByteIsTooSmall(t *testing.T) {
	target := filled(t, eraOf(t, "2.12"), 2)
	one := headLine + string(target.appendEntry(nil, target.list[0]))
	r := target.Open()
	r.size = len(one)
	require.Equal(t, headLine, string(r.Read()))
	r = target.Open()
	r.size = len(one) + 1
	require.Equal(t, one, string(r.Read()))
}

func TestRemovalBetweenReadsSkipsAnother(t *testing.T) {
	for _, e := range Eras() {
		t.Run(e.Name, func(t *testing.T) {
			target := filled(t, e, 50)
			r := target.Open()
			r.Read()
			next := r.Shown()[len(r.Shown())-1].Life + 1
			require.True(t, target.Drop(t0, "0"))
			rest(r)
			if e.walk == walkIndex {
				require.Equal(t, upTo(50, next), lives(r), "the one after the last shown is skipped")
			} else {
				require.Equal(t, upTo(50), lives(r))
			}
		})
	}
}

func TestRemovalAheadSkipsNone(t *testing.T) {
	for _, e := range Eras() {
		target := filled(t, e, 50)
		r := target.Open()
		r.Read()
		require.True(t, target.Drop(t0, "40"))
		rest(r)
		require.Equal(t, upTo(50, 41), lives(r), e.Name)
	}
}

func TestANewEntryIsReadAtTheEnd(t *testing.T) {
	for _, e := range Eras() {
		target := filled(t, e, 50)
		r := target.Open()
		rest(r)
		touch(t, target, t0, "new")
		rest(r)
		require.Equal(t, upTo(51), lives(r), e.Name)
	}
}

// From 2.16 on a reader holds the entry it is to show next. If that leaves the
// hash meanwhile it is still shown, and so is a new one of the same id.
func TestASavedEntryAndItsTwin(t *testing.T) {
	target := filled(t, eraOf(t, "2.16"), 50)
	r := target.Open()
	r.Read()
	held := r.Shown()[len(r.Shown())-1].Life + 1
	target.Clear(t0)
	require.Equal(t, 1, target.Len(), "the one that the reader holds")
	touch(t, target, t0, strconv.Itoa(int(held)-1)) // ids count from 0
	text := rest(r)
	require.Equal(t, append(upTo(int(held)), 51), lives(r))
	require.Equal(t, 2, strings.Count(text, "- job_id:          "+strconv.Itoa(int(held)-1)+"\n"))
	require.Equal(t, 1, target.Len(), "let go at the end")
	require.Equal(t, []string{strconv.Itoa(int(held)-1) + "#51"}, ids(target))

	r = filled(t, eraOf(t, "2.16"), 50).Open()
	r.Read()
	r.t.Clear(t0)
	r.Close(t0)
	require.Zero(t, r.t.Len(), "let go by close")
}

func TestHeadLineOf217(t *testing.T) {
	e := eraOf(t, "2.17")

	t.Run("idle", func(t *testing.T) {
		target := newOST(e)
		text, _ := target.Poll(t0, nil)
		require.Empty(t, text)
		require.Empty(t, target.Open().Read())
		require.Empty(t, target.Text())
	})
	t.Run("in mid-file", func(t *testing.T) {
		target := filled(t, e, 50)
		r := target.Open()
		require.True(t, strings.HasPrefix(string(r.Read()), "job_stats:\n"))
		target.Open()
		require.True(t, strings.HasPrefix(string(r.Read()), "job_stats:\n- job_id:"))
		require.True(t, strings.HasPrefix(string(r.Read()), "- job_id:"))
	})
	t.Run("spent on a record that does not fit", func(t *testing.T) {
		target := filled(t, e, 3)
		one := len(target.appendEntry(nil, target.list[0]))
		r := target.Open()
		r.size = one + len(headLine)
		require.True(t, strings.HasPrefix(string(r.Read()), "- job_id:"), "the buffer was doubled, and the flag gone")
	})
	t.Run("missing and doubled", func(t *testing.T) {
		target := filled(t, e, 50)
		a, b := target.Open(), target.Open()
		textA, textB := ReadTogether(a, b)
		require.True(t, strings.HasPrefix(string(textA), "job_stats:\n"))
		require.True(t, strings.HasPrefix(string(textB), "- job_id:"))
		require.NotContains(t, string(textB)+rest(b), "job_stats:")

		a, b = target.Open(), target.Open()
		text := string(a.Read())
		require.True(t, strings.HasPrefix(string(b.Read()), "job_stats:\n"), "a first read sets the flag again")
		target.Clear(t0)
		touch(t, target, t0, "z")
		text += rest(a)
		require.Equal(t, 2, strings.Count(text, "job_stats:\n"), "the write of clear opened the file too")
	})
	t.Run("never before", func(t *testing.T) {
		for _, e := range Eras() {
			if e.lazyHeader {
				continue
			}
			a, b := filled(t, e, 50).Open(), filled(t, e, 50).Open()
			ReadTogether(a, b)
			require.NotContains(t, rest(a)+rest(b), "job_stats:")
		}
	})
}

func TestCloseCleansUpOnce(t *testing.T) {
	target := filled(t, eraOf(t, "2.12"), 3)
	r := target.Open()
	rest(r)
	require.Equal(t, 3, target.Len())
	r.Close(t0 + 2*int64(interval))
	require.Zero(t, target.Len())
	touch(t, target, t0, "old")
	r.Close(t0 + 9*int64(interval))
	require.Equal(t, 1, target.Len(), "it is closed already")
	require.Empty(t, r.Read())
}

func TestAReaderEndsAtARemount(t *testing.T) {
	for _, e := range Eras() {
		target := filled(t, e, 50)
		a, b := target.Open(), target.Open()
		a.Read()
		target.Remount(t0)
		touch(t, target, t0, "x")
		require.Empty(t, a.Read())
		textA, textB := ReadTogether(a, b)
		require.Empty(t, textA)
		require.Empty(t, textB)
		a.Close(t0 + 9*int64(interval))
		require.Equal(t, 1, target.Len(), e.Name)
	}
}

func TestOnlyWhatWasShownIsRead(t *testing.T) {
	target := filled(t, eraOf(t, "2.16"), 50)
	target.Text()
	r := target.Open()
	r.Read()
	shown := len(r.Shown())
	r.Close(t0)
	target.Clear(t0)
	unread := 0
	for _, j := range target.Truth() {
		unread += int(j.UnreadLives)
	}
	require.Equal(t, 50-shown, unread)
}
