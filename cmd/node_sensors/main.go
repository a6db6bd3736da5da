// Command node_sensors is a Telegraf input for inputs.execd: the sensors of a machine, and what Slurm's jobs use of it.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/node_sensors"
)

func main() { execd.Main() }
