package slurm

import (
	"context"
	"strings"
)

// AdminLevel asks slurmdbd what a user may: "None", "Operator" or "Administrator"; "" where it does not know the user.
func (c *Client) AdminLevel(ctx context.Context, user string) (string, error) {
	text, err := c.Run(ctx, "sacctmgr", "-n", "-P", "show", "user", "where", "name="+user, "format=AdminLevel")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
