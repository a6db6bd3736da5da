// Command condor_q is a Telegraf input for inputs.execd: HTCondor's queues, slots and finished jobs.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/condor_q"
)

func main() { execd.Main() }
