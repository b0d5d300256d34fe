package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/history"
)

func ExampleRecorder() {
	memory := history.NewMemory(100)
	recorder := history.NewRecorder(memory, nil)
	elector, err := leader.New(local.New(), leader.WithHooks(recorder.Hooks()), leader.WithNodeID("node-a"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, action := range []leader.Action{
		func(context.Context) error { return nil },
		func(context.Context) error { return errors.New("disk full") },
	} {
		if _, err := elector.RunIfLeader(ctx, "backup", action); err != nil {
			fmt.Println(err)
		}
	}
	if err := recorder.Close(ctx); err != nil {
		fmt.Println(err)
	}
	for _, r := range memory.Recent("backup", 10) {
		fmt.Println(r.Name, r.Node, r.Status, r.Error)
	}
	// Output:
	// backup node-a Failed disk full
	// backup node-a Succeeded
}

// Each run is a line of the log once it has ended; at level Debug there is another one at its start.
func ExampleNewSlog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.LevelKey, slog.MessageKey, "leader.name", "status":
				return a
			}
			return slog.Attr{} // here, for an output that is the same each time
		},
	}))
	recorder := history.NewRecorder(history.NewSlog(logger), nil)
	elector, err := leader.New(local.New(), leader.WithHooks(recorder.Hooks()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if _, err := elector.RunIfLeader(ctx, "backup", func(context.Context) error { return nil }); err != nil {
		fmt.Println(err)
	}
	if err := recorder.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: level=INFO msg=run leader.name=backup status=Succeeded
}
