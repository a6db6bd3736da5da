// Command lustre_jobstats is a Telegraf input for inputs.execd: the exact I/O of every job on this Lustre server.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/lustre_jobstats"
)

func main() { execd.Main() }
