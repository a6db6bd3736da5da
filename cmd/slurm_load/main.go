// Command slurm_load is a Telegraf input for inputs.execd: the load of a Slurm cluster.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/slurm_load"
)

func main() { execd.Main() }
