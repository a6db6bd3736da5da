// Telegraf-build prints the path of a stock Telegraf, which it builds first where that has not been done yet.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"telegraf-hpc/e2e/stock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := stock.Telegraf(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "telegraf-build:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
