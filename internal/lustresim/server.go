package lustresim

import (
	"slices"
	"time"
)

// Server is a file server: the targets mounted on it, and its clocks.
type Server struct {
	Name string
	// Skew is the error of the wall clock. It may change at any time.
	Skew time.Duration
	// BootedAt is when the clock of 2.15.0 was zero (ns since the Unix epoch).
	BootedAt int64
	Targets  []*Target
}

// NewServer makes a server without targets.
func NewServer(name string, bootedAt int64) *Server {
	return &Server{Name: name, BootedAt: bootedAt}
}

// Attach mounts a target that no server has. It starts empty.
func (s *Server) Attach(now int64, t *Target) {
	t.server = s
	t.empty(now)
	s.Targets = append(s.Targets, t)
}

// Failover moves a target to another server, where it starts empty.
func (s *Server) Failover(now int64, t *Target, to *Server) {
	s.Targets = slices.DeleteFunc(s.Targets, func(other *Target) bool { return other == t })
	t.note(now, WhyRemount)
	to.Attach(now, t)
}

// Reboot starts the server's boot clock and its targets again.
func (s *Server) Reboot(now int64) {
	s.BootedAt = now
	for _, t := range s.Targets {
		t.Remount(now)
	}
}
