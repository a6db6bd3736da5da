// Command lustre_jobs is a Telegraf processor for processors.execd: what every job, user, account and file system does on
// Lustre, summed over all file servers and joined with Slurm.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/processors/lustre_jobs"
)

func main() { execd.Main() }
