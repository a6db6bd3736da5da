package slurm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a user's or an administrator's environment would change of the commands' output is gone.
func TestEnvironment(t *testing.T) {
	require.Equal(t, []string{"PATH=/bin", "SLURM_CONF=/etc/x.conf", "SLURM_JWT=t", "LC_ALL=C", "TZ=UTC",
		"SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0", "SCONTROL_LOCAL=1"}, Environment([]string{
		"PATH=/bin", "SQUEUE_FORMAT=%i", "SINFO_FORMAT=%n", "SCONTROL_ALL=1", "SACCT_FORMAT=x", "SSHARE_X=1", "LC_TIME=de",
		"LANG=de", "SLURM_CLUSTERS=all", "SLURM_TIME_FORMAT=relative", "SLURM_BITSTR_LEN=64", "TZ=Europe/Berlin",
		"SLURM_CONF=/etc/x.conf", "SLURM_JWT=t"}))
}
