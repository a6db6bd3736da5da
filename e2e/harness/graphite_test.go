package harness

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGraphite(t *testing.T) {
	g := StartGraphite(t)
	require.Empty(t, g.Paths())

	now := time.Now().Truncate(time.Second)
	at := func(ago int) time.Time { return now.Add(-time.Duration(ago) * time.Second) }
	connection, err := net.Dial("tcp", g.Address)
	require.NoError(t, err)
	for _, line := range []string{
		fmt.Sprintf("hpc.slurm.nodes.idle 3 %d\n", at(9).Unix()),
		fmt.Sprintf("hpc.slurm.nodes.idle 4.25 %d\n", at(7).Unix()),
		fmt.Sprintf("hpc.slurm.nodes.down 1e12 %d\n", at(7).Unix()),
		fmt.Sprintf("hpc.slurm.up 0 %d\n", at(3000).Unix()),
		fmt.Sprintf("hpc.slurm.up 1 %d\n", at(7).Unix()),
	} {
		_, err := connection.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, connection.Close())

	Eventually(t, time.Minute, func() error {
		if len(g.Query("hpc.slurm.up")["hpc.slurm.up"]) < 2 {
			return errors.New("the last point is not stored")
		}
		return nil
	})
	require.Equal(t, []string{"hpc.slurm.nodes.down", "hpc.slurm.nodes.idle", "hpc.slurm.up"}, g.Paths())
	require.Equal(t, map[string][]GraphitePoint{
		"hpc.slurm.nodes.idle": {{at(9), 3}, {at(7), 4.25}},
		"hpc.slurm.nodes.down": {{at(7), 1e12}},
	}, g.Query("hpc.slurm.nodes.*"))
	require.Equal(t, map[string][]GraphitePoint{"hpc.slurm.up": {{at(3000), 0}, {at(7), 1}}}, g.Query("hpc.slurm.up"))
	require.Equal(t, map[string][]GraphitePoint{"both": {{at(9), 3}, {at(7), 1e12 + 4.25}}}, g.Query(`alias(sumSeries(hpc.slurm.nodes.*),"both")`))
	require.EqualError(t, g.get("/render?target=nonsense(x)&format=json", nil),
		`graphite-web: 400 Bad Request: Invalid parameters (Received request for unknown function: nonsense); targets: "nonsense(x)"`)
}
