// Command who_users is a Telegraf input for inputs.execd: who is logged in.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/inputs/who_users"
)

func main() { execd.Main() }
