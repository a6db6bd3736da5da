package who_users

import (
	"context"
	"errors"
	"fmt"
	"time"

	"telegraf-hpc/internal/command"
)

// runFunc runs a command.
type runFunc func(ctx context.Context, name string, args ...string) (command.Result, error)

// tool asks a command such as who(1).
type tool struct {
	line []string
	run  runFunc
	host terminals
}

func (c *tool) list(ctx context.Context, now time.Time) (answer, error) {
	result, err := c.run(ctx, c.line[0], c.line[1:]...)
	if errors.Is(err, command.ErrNotFound) {
		return answer{}, absentError{fmt.Errorf("option command: %w", err)}
	}
	if err != nil {
		return answer{}, fmt.Errorf("option command: %w", err)
	}
	rows, refused := parseWho(result.Stdout, now)
	if err := readable(rows, refused); err != nil {
		return answer{}, fmt.Errorf("option command: %w", err)
	}
	sessions := sessionsOf(rows, func(line string) time.Duration { return c.host.idle(line, now) })
	return answer{sessions: sessions, refused: int64(refused)}, nil
}

func (*tool) close() {}
