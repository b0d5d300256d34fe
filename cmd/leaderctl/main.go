// Command leaderctl runs commands where they lead, and shows and mends who leads. See README.md beside it.
package main

import (
	"context"
	"os"

	"github.com/goleader/leader/cmd/leaderctl/internal/child"
	"github.com/goleader/leader/cmd/leaderctl/internal/command"
)

func main() {
	if child.IsGuard() {
		os.Exit(child.Guard())
	}
	os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
