// Command jupyter_users is a Telegraf input for inputs.execd: who uses Jupyter now.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/jupyter_users"
)

func main() { execd.Main() }
