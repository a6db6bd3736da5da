package node_sensors

import (
	"errors"
	"sync"
)

// errHung is what a call gives that has not come back in time.
var errHung = errors.New("hangs; asked again once it answers")

// calls are calls that may hang for good, such as of a file system whose server is dead. A thread is lost to each, so
// that none is started again before it has come back.
type calls struct {
	mu   sync.Mutex
	hung map[string]bool
}

func newCalls() *calls { return &calls{hung: make(map[string]bool)} }

// start begins a call, unless the last one by that name still runs, and gives where its error will be. What the call
// writes to may be read then, and not before.
func (c *calls) start(name string, call func() error) <-chan error {
	answer := make(chan error, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung[name] {
		answer <- errHung
		return answer
	}
	c.hung[name] = true
	go func() {
		err := call()
		c.mu.Lock()
		delete(c.hung, name)
		c.mu.Unlock()
		answer <- err
	}()
	return answer
}

// running gives how many calls have not come back.
func (c *calls) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.hung)
}
