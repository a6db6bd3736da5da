// Package slurm reads what Slurm's own commands print: rows of text in, typed rows out. It knows nothing of Telegraf.
//
// It speaks to Slurm 20.11 to 26.05. Text is asked for, not JSON: its shape stays the same between versions, it costs
// slurmctld the same, and squeue, scontrol and sacct themselves a tenth. Formats are those of the manual pages squeue(1),
// scontrol(1), sdiag(1), sacct(1), sshare(1), with what differs between versions noted beside the code.
//
// Throughout: times are seconds since 1970, 0 where Slurm does not say; amounts of memory are bytes; what Slurm does not
// say is Unknown where 0 would be an answer.
package slurm

import (
	"context"
	"strings"
)

// Unknown stands for an amount that Slurm does not say, where 0 would be an answer.
const Unknown int64 = -1

// Unlimited is a time limit that there is not.
const Unlimited int64 = -2

// Client asks Slurm by its commands.
type Client struct {
	// Run runs a command with the Environment of this package and gives its standard output. Its errors name the command.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Mark stands behind the fields of jobs that may hold any text, and so ends each row. What users write there may look
	// like the end of a row and another row, but cannot hold a mark that they do not know: so it should be random, and
	// another for each gather, since any user may see it in the process list. It holds no comma, bar or newline.
	Mark string
}

// Environment gives the environment in which Slurm's commands print what this package reads, made of another: without
// the variables that change what they print, in English, with times in UTC, and of this cluster alone where it is part of a
// federation. SLURM_CONF is kept.
func Environment(from []string) []string {
	var env []string
	for _, v := range from {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case strings.HasPrefix(name, "SQUEUE_"), strings.HasPrefix(name, "SINFO_"), strings.HasPrefix(name, "SCONTROL_"),
			strings.HasPrefix(name, "SACCT_"), strings.HasPrefix(name, "SSHARE_"), strings.HasPrefix(name, "LC_"):
		case name == "SLURM_CLUSTERS", name == "SLURM_TIME_FORMAT", name == "SLURM_BITSTR_LEN", name == "LANG", name == "TZ":
		default:
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0", "SCONTROL_LOCAL=1")
}

// GPUs is a number of GPUs of one type. The type is "" where Slurm names none.
type GPUs struct {
	Type  string
	Count int64
}
