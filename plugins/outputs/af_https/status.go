package af_https

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"telegraf-hpc/internal/docqueue"
	"telegraf-hpc/internal/version"
)

// statusFile is in the folder of the queue.
const statusFile = "status.json"

// status is what the status file says. Counts of documents are since the plugin was started, but for those that wait and
// accepted.
type status struct {
	Time     time.Time `json:"time"`
	Started  time.Time `json:"started"`
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Endpoint string    `json:"endpoint"`
	kindStatus
	NetworkResets uint64                `json:"network_resets"` // counters of interfaces that fell
	Kinds         map[string]kindStatus `json:"kinds"`
}

// kindStatus is what is said of a kind, and of all of them.
type kindStatus struct {
	Queued        uint64  `json:"queued"`         // documents that wait
	QueuedBytes   uint64  `json:"queued_bytes"`   // of these, on disk
	OldestSeconds float64 `json:"oldest_seconds"` // the age of the first that waits; 0 while none does
	Accepted      uint64  `json:"accepted"`       // documents ever taken
	Sent          uint64  `json:"sent"`
	Retried       uint64  `json:"retried"` // requests that failed
	Dead          uint64  `json:"dead"`    // documents that were refused
	Dropped       uint64  `json:"dropped"` // for room
	Expired       uint64  `json:"expired"` // for age
	Damaged       uint64  `json:"damaged"` // that could not be read
	State         string  `json:"state,omitempty"`
	Trouble       string  `json:"trouble,omitempty"`
}

func (k *kindStatus) add(o *kindStatus) {
	k.Queued += o.Queued
	k.QueuedBytes += o.QueuedBytes
	k.OldestSeconds = max(k.OldestSeconds, o.OldestSeconds)
	k.Accepted += o.Accepted
	k.Sent += o.Sent
	k.Retried += o.Retried
	k.Dead += o.Dead
	k.Dropped += o.Dropped
	k.Expired += o.Expired
	k.Damaged += o.Damaged
	if k.State == "" || o.State == "stopped" || o.State == "failing" && k.State == "delivering" {
		k.State, k.Trouble = o.State, o.Trouble
	}
}

func ofQueue(s *docqueue.Stats, now time.Time) kindStatus {
	k := kindStatus{
		Queued: s.Queued, QueuedBytes: s.Bytes, Accepted: s.Accepted, Dropped: s.Dropped, Expired: s.Expired, Damaged: s.Damaged,
	}
	if !s.Oldest.IsZero() {
		k.OldestSeconds = max(now.Sub(s.Oldest).Seconds(), 0)
	}
	return k
}

// sum adds all kinds up.
func (s *status) sum() {
	s.kindStatus = kindStatus{}
	for _, name := range slices.Sorted(maps.Keys(s.Kinds)) {
		k := s.Kinds[name]
		s.add(&k)
	}
}

// status gives what there is to say now.
func (p *AFHTTPS) status() *status {
	now := p.now()
	s := &status{
		Time: now.UTC(), Started: p.started.UTC(), PID: os.Getpid(), Version: version.String(), Endpoint: p.sender.endpoint.host,
		Kinds: make(map[string]kindStatus),
	}
	stats := p.queue.Stats()
	p.sender.mu.Lock()
	for kind, counts := range p.sender.counts {
		queued := stats[kind]
		k := ofQueue(&queued, now)
		k.Sent, k.Retried, k.Dead, k.State = counts.Sent, counts.Retried, counts.Dead, "delivering"
		if t, ok := p.sender.troubles[kind]; ok {
			k.State, k.Trouble = "failing", t.reason
			if t.verdict == stopped {
				k.State = "stopped"
			}
		}
		s.Kinds[kind] = k
	}
	p.sender.mu.Unlock()
	p.mu.Lock()
	s.NetworkResets = p.network.resets
	p.mu.Unlock()
	s.sum()
	return s
}

// writeStatus replaces the status file.
func (p *AFHTTPS) writeStatus(s *status) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(p.StateDirectory, statusFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// say gives the line of statistics: what waits, and what was done since the one before.
func (s *status) say(before *status) string {
	since := func(now, then uint64) uint64 { return now - min(then, now) }
	var line strings.Builder
	fmt.Fprintf(&line, "In %s: %d documents taken, %d sent, %d requests failed, %d refused; %d wait (%d bytes)",
		s.Time.Sub(before.Time).Round(time.Second), since(s.Accepted, before.Accepted), since(s.Sent, before.Sent),
		since(s.Retried, before.Retried), since(s.Dead, before.Dead), s.Queued, s.QueuedBytes)
	if s.Queued > 0 {
		fmt.Fprintf(&line, ", the oldest for %s", time.Duration(s.OldestSeconds*float64(time.Second)).Round(time.Second))
	}
	for _, lost := range []struct {
		n    uint64
		what string
	}{
		{since(s.Dropped, before.Dropped), "dropped for room"}, {since(s.Expired, before.Expired), "dropped for age"},
		{since(s.Damaged, before.Damaged), "damaged"},
	} {
		if lost.n > 0 {
			fmt.Fprintf(&line, "; %d %s", lost.n, lost.what)
		}
	}
	if s.State != "" && s.State != "delivering" {
		line.WriteString("; " + s.State + ": " + s.Trouble)
	}
	return line.String()
}

// readStatus reads the status file.
func readStatus(dir string) (*status, error) {
	text, err := os.ReadFile(filepath.Join(dir, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &status{Kinds: make(map[string]kindStatus)}, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(status)
	return s, json.Unmarshal(text, s)
}

// tellStatus writes the status for a person, as of now where the plugin does not run.
func (p *AFHTTPS) tellStatus(w io.Writer) error {
	s, err := readStatus(p.StateDirectory)
	if err != nil {
		return err
	}
	stats, err := docqueue.Inspect(p.StateDirectory)
	switch {
	case errors.Is(err, docqueue.ErrLocked):
		fmt.Fprintf(w, "running: process %d, version %s, since %s\nas of: %s (%s ago)\n", s.PID, s.Version, s.Started.Format(time.RFC3339),
			s.Time.Format(time.RFC3339), p.now().Sub(s.Time).Round(time.Second))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no queue in %s", p.StateDirectory)
	case err != nil:
		return fmt.Errorf("reading the queue in %s: %w", p.StateDirectory, err)
	default:
		fmt.Fprintf(w, "not running\n")
		for name, queued := range stats {
			k := ofQueue(&queued, p.now())
			last := s.Kinds[name]
			k.Sent, k.Retried, k.Dead, k.State, k.Trouble = last.Sent, last.Retried, last.Dead, last.State, last.Trouble
			s.Kinds[name] = k
		}
		s.sum()
	}
	fmt.Fprintf(w, "endpoint: %s\n", p.endpoint.host)
	return s.table(w)
}

// table writes a line for each kind, and one for all.
func (s *status) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tqueued\tbytes\toldest\taccepted\tsent\tretried\tdead\tdropped\texpired\tdamaged\tstate")
	row := func(name string, k *kindStatus) {
		oldest := "-"
		if k.Queued > 0 {
			oldest = time.Duration(k.OldestSeconds * float64(time.Second)).Round(time.Second).String()
		}
		state := k.State
		if k.Trouble != "" {
			state += ": " + k.Trouble
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, k.Queued, k.QueuedBytes, oldest, k.Accepted, k.Sent,
			k.Retried, k.Dead, k.Dropped, k.Expired, k.Damaged, state)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Kinds)) {
		k := s.Kinds[name]
		row(name, &k)
	}
	row("all", &s.kindStatus)
	return t.Flush()
}
