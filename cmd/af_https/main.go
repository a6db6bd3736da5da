// Command af_https is a Telegraf output for outputs.execd: JSON documents to an HTTPS endpoint.
package main

import (
	"telegraf-hpc/internal/execd"
	_ "telegraf-hpc/plugins/outputs/af_https"
)

func main() { execd.Main() }
