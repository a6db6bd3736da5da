// Command test_processor is the test plugin of its kind as a program, for tests under a real Telegraf.
package main

import (
	"telegraf-hpc/internal/execd"
	"telegraf-hpc/internal/execd/testplugin"
)

func main() {
	testplugin.RegisterProcessor()
	execd.Main()
}
