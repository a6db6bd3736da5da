package doctor

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ClockState is what the kernel says of its clock (adjtimex(2)).
type ClockState struct {
	// Synced is whether something keeps the clock in step.
	Synced bool
	// MaxError is the most that the clock is off, as the kernel estimates.
	MaxError time.Duration
}

// worstClock is how far clocks may be off for rates and shares of several servers to be of one time.
const worstClock = time.Second

func kernelClock() (ClockState, error) {
	var t unix.Timex // Without modes it only reads.
	if _, err := unix.Adjtimex(&t); err != nil {
		return ClockState{}, fmt.Errorf("adjtimex: %w", err)
	}
	return ClockState{Synced: t.Status&unix.STA_UNSYNC == 0, MaxError: time.Duration(t.Maxerror) * time.Microsecond}, nil
}

func (e *examination) clock() {
	service := "chrony" // Debian's name of it.
	if e.exists("/usr/bin/dnf") || e.exists("/usr/bin/zypper") {
		service = "chronyd"
	}
	remedy := e.install("chrony") + " && systemctl enable --now " + service
	if e.openRC() {
		remedy = fmt.Sprintf("%s && rc-update add %[2]s && rc-service --ifstopped %[2]s start", e.install("chrony"), service)
	}
	state, err := e.Clock()
	switch {
	case errors.Is(err, unix.EPERM):
		e.say(Warning, "clock", "the kernel does not tell whether the clock is in step: this is a container; look at its host", "")
	case err != nil:
		e.say(Warning, "clock", fmt.Sprintf("the kernel does not tell whether the clock is in step: %v", err), "")
	case !state.Synced && e.container():
		e.say(Warning, "clock", "nothing keeps the clock in step, which is that of this container's host: look there", "")
	case !state.Synced:
		e.say(Error, "clock", "nothing keeps the clock in step: metrics of several hosts will not be of one time", remedy)
	case state.MaxError > worstClock:
		e.say(Warning, "clock", fmt.Sprintf("the clock may be off by %s", state.MaxError.Round(time.Millisecond)), "chronyc tracking")
	default:
		e.ok("clock", fmt.Sprintf("in step, off by %s at most", state.MaxError.Round(time.Millisecond)))
	}
}

// container tells whether the host is a container: by systemd's own mark, Podman's or Docker's.
func (e *examination) container() bool {
	return e.exists("/run/systemd/container") || e.exists("/run/.containerenv") || e.exists("/.dockerenv")
}
