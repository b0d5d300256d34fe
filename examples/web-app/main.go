// Web-app is one replica of a service that serves HTTP, totals its visits on a schedule that one replica keeps, shows who
// leads on a page, and hands over at once when it is asked to go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/schedule"
	"github.com/goleader/leader/status"
)

// period is how often the visits are totalled.
const period = 2 * time.Second

var (
	file    = flag.String("file", "web-app.db", "SQLite file that the replicas share")
	node    = flag.String("node", "web", "name of this replica")
	address = flag.String("listen", "127.0.0.1:8080", "host and port to serve at; port 0 means any free one")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	visits, err := openVisits(ctx, *file)
	if err != nil {
		return err
	}
	defer visits.close()
	store, err := sqliteleader.Open(*file, nil)
	if err != nil {
		return err
	}
	defer store.Close()

	past := history.NewMemory(1000)
	recorder := history.NewRecorder(past, nil)
	defer func() { _ = recorder.Close(context.WithoutCancel(ctx)) }()
	page, err := status.New(store, &status.Options{History: status.InMemory(past)})
	if err != nil {
		return err
	}
	defer page.Close()
	elector, err := leader.New(store, leader.WithNodeID(*node),
		leader.WithHooks(leader.JoinHooks(recorder.Hooks(), page.Hooks())))
	if err != nil {
		return err
	}
	total, err := schedule.New(elector, "total-visits", schedule.Every(period), visits.total)
	if err != nil {
		return err
	}
	page.AddNames("total-visits")

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", visits)
	mux.Handle("/management/", page)
	mux.Handle("GET /healthz", page.Health())
	return serve(ctx, mux, total)
}

// serve serves, and keeps the schedule beside it, until ctx ends. Then it waits for the requests and for the run under way,
// whose lease is released when it has returned.
func serve(ctx context.Context, handler http.Handler, job *schedule.Job) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also if serving fails
	running.Go(func() {
		if err := job.Run(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	running.Go(func() {
		<-ctx.Done()
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(patience) != nil {
			_ = server.Close() // a browser that watches the page does not go by itself
		}
	})
	fmt.Printf("%s serves at http://%s\n", *node, listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
