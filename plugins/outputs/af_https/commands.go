package af_https

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"telegraf-hpc/internal/docqueue"
)

// Commands gives what the program can do besides.
func (*AFHTTPS) Commands() map[string]string {
	return map[string]string{
		"status":      "tell what is in the queue and what became of the rest, and exit",
		"replay-dead": "put the documents that the endpoint refused into the queue again, and exit",
		"drain":       "deliver all that is in the queue, and exit, with status 1 if that can't be done",
	}
}

// Command does it.
func (p *AFHTTPS) Command(w io.Writer, name, argument string) error {
	if argument != "" {
		return fmt.Errorf("unexpected argument %q", argument)
	}
	if name == "status" {
		return p.tellStatus(w)
	}
	if err := p.checkOwner(os.Geteuid()); err != nil {
		return err
	}
	if name == "replay-dead" {
		return p.replayDead(w)
	}
	return p.drain(w)
}

// checkOwner refuses to make files of another user among those of the plugin: it could not open them any more.
func (p *AFHTTPS) checkOwner(user int) error {
	var folder syscall.Stat_t
	if err := syscall.Stat(p.StateDirectory, &folder); err != nil {
		return fmt.Errorf("option state_directory: %s: %w", p.StateDirectory, err)
	}
	if int(folder.Uid) != user {
		return fmt.Errorf("%s belongs to the user with the id %d: run this as that user", p.StateDirectory, folder.Uid)
	}
	return nil
}

func (p *AFHTTPS) replayDead(w io.Writer) error {
	lines, err := p.dead.release(p.now())
	if err != nil {
		return err
	}
	err = p.open()
	if errors.Is(err, docqueue.ErrLocked) {
		fmt.Fprintf(w, "%d dead letters are taken into the queue by the running process within seconds\n", lines)
		return nil
	}
	if err != nil {
		return err
	}
	taken, err := p.dead.takeBack(p.queue)
	fmt.Fprintf(w, "%d dead letters are in the queue again\n", taken)
	return errors.Join(err, p.queue.Close())
}

// drain delivers until the queue is empty, the delivery is stopped, or a signal comes.
func (p *AFHTTPS) drain(w io.Writer) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := p.open(); err != nil {
		return err
	}
	p.started = p.now()
	p.takeBack()
	p.startSending()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var s *status
	for signalled := false; ; {
		if s = p.status(); signalled || !s.hopes() {
			break
		}
		select {
		case <-ticker.C:
		case <-signals:
			signalled = true
		}
	}
	p.sender.end(p.cancel, patience)
	s = p.status()
	p.maintain(s)
	fmt.Fprintf(w, "%d documents sent, %d refused, %d left\n", s.Sent, s.Dead, s.Queued)
	err := p.queue.Close()
	if s.Queued > 0 {
		err = errors.Join(fmt.Errorf("%d documents are left: %s", s.Queued, s.Trouble), err)
	}
	return err
}

// hopes tells whether there is a kind that may yet be delivered.
func (s *status) hopes() bool {
	for _, k := range s.Kinds {
		if k.Queued > 0 && k.State != "stopped" {
			return true
		}
	}
	return false
}
