package af_https

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/docqueue"
)

// The files of documents that the endpoint refused, in the folder of the queue.
const (
	deadFile   = "dead.jsonl"
	deadBefore = "dead.jsonl.1" // when the other is too large
	// replayFiles are dead letters that are to be sent again.
	replayFiles = "replay-*.jsonl"
	// replayedPrefix is that of the state that says how many lines of such a file are in the queue.
	replayedPrefix = "replayed/"
)

// deadLetters keeps documents that the endpoint refuses, for a person to look at.
type deadLetters struct {
	dir     string
	largest int64 // bytes of the file
}

// deadLetter is a line of the file.
type deadLetter struct {
	Time     time.Time       `json:"time"`
	Kind     string          `json:"kind"`
	Queued   time.Time       `json:"queued"`
	Status   int             `json:"status"`
	Reason   string          `json:"reason"`
	Document json.RawMessage `json:"document"`
}

// locked calls f while no other process writes or moves dead letters.
func (d *deadLetters) locked(f func() error) error {
	lock, err := os.OpenFile(filepath.Join(d.dir, "dead.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	if err == nil {
		err = f()
	}
	return errors.Join(err, lock.Close())
}

// add writes a document down. When it returns nil, it is on disk.
func (d *deadLetters) add(e *docqueue.Entry, a *answer, now time.Time) error {
	line, err := json.Marshal(deadLetter{now.UTC(), e.Kind, e.Time.UTC(), a.status, a.reason, e.Body})
	if err != nil {
		return err
	}
	return d.locked(func() error {
		path := filepath.Join(d.dir, deadFile)
		if info, err := os.Stat(path); err == nil && info.Size() >= d.largest {
			if err := os.Rename(path, filepath.Join(d.dir, deadBefore)); err != nil {
				return err
			}
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(append(line, '\n'))
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// release makes all dead letters ready to be sent again, and gives how many lines they are.
func (d *deadLetters) release(now time.Time) (lines int, err error) {
	err = d.locked(func() error {
		for i, name := range []string{deadBefore, deadFile} {
			text, err := os.ReadFile(filepath.Join(d.dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			to := fmt.Sprintf("replay-%020d.jsonl", now.UnixNano()+int64(i))
			if err := os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, to)); err != nil {
				return err
			}
			lines += bytes.Count(text, []byte("\n"))
		}
		return nil
	})
	return lines, err
}

// takeBack puts what was released into the queue, once. It gives how many documents it took, and a *badLettersError for
// lines that it can't read.
func (d *deadLetters) takeBack(q *docqueue.Queue) (taken int, err error) {
	names, err := filepath.Glob(filepath.Join(d.dir, replayFiles))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	slices.Sort(names) // By the time in their names.
	before, err := q.State(replayedPrefix)
	if err != nil {
		return 0, err
	}
	var worst error
	for _, name := range names {
		key := replayedPrefix + filepath.Base(name)
		done, _ := strconv.Atoi(string(before[key])) // Without a number it is 0.
		n, err := takeFile(q, name, key, done)
		taken += n
		if bad, ok := errors.AsType[*badLettersError](err); err != nil && !ok {
			return taken, err
		} else if ok {
			worst = bad
		}
		if err := errors.Join(os.Remove(name), q.Append(nil, map[string][]byte{key: nil})); err != nil {
			return taken, err
		}
	}
	return taken, worst
}

// badLettersError tells of lines that are no dead letters, and where they are now.
type badLettersError struct {
	lines int
	aside string
}

func (e *badLettersError) Error() string {
	return fmt.Sprintf("%d lines are no dead letters: set aside in %s", e.lines, e.aside)
}

// takeFile takes the lines of a file behind those that are done.
func takeFile(q *docqueue.Queue, name, key string, done int) (taken int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var docs []docqueue.Document
	var bad []byte
	n := 0
	flush := func() error {
		if len(docs) == 0 {
			return nil
		}
		if err := q.Append(docs, map[string][]byte{key: strconv.AppendInt(nil, int64(n), 10)}); err != nil {
			return err
		}
		taken += len(docs)
		docs = docs[:0]
		return nil
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		if n++; n <= done {
			continue
		}
		var letter deadLetter
		if err := json.Unmarshal(lines.Bytes(), &letter); err != nil || letter.Kind == "" || len(letter.Document) < 2 || letter.Document[0] != '{' {
			bad = append(append(bad, lines.Bytes()...), '\n')
			continue
		}
		docs = append(docs, docqueue.Document{Kind: letter.Kind, Body: letter.Document})
		if len(docs) == 1000 {
			if err := flush(); err != nil {
				return taken, err
			}
		}
	}
	err = errors.Join(flush(), lines.Err())
	if err == nil && len(bad) > 0 {
		aside := name + ".bad"
		if err = os.WriteFile(aside, bad, 0o600); err == nil { //nolint:gosec // It is beside the file that it is from.
			return taken, &badLettersError{bytes.Count(bad, []byte("\n")), aside}
		}
	}
	return taken, err
}
