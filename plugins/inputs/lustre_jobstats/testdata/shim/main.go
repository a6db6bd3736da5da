// Command shim runs lustre_jobstats with Telegraf's own shim. It is what benchmarks compare with.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/influxdata/telegraf/plugins/common/shim" //nolint:depguard // What is compared with.

	_ "telegraf-hpc/plugins/inputs/lustre_jobstats"
)

func main() {
	config := flag.String("config", "", "configuration `file`")
	flag.Parse()
	s := shim.New()
	err := s.LoadConfig(config)
	if err == nil {
		err = s.Run(shim.PollIntervalDisabled)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
