// Prometheus-dashboard is one replica of a service with a job, metrics, a health check and a page that shows who leads.
// Start it in two terminals, and two replicas share the work over a SQLite file.
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
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

// lease is how long the others wait for a replica that died.
const lease = 5 * time.Second

var (
	file   = flag.String("file", filepath.Join(os.TempDir(), "leader-dashboard.db"), "SQLite file that the replicas share")
	listen = flag.String("listen", "127.0.0.1:8080", "address of the metrics and the page")
	node   = flag.String("node", "", "name of this replica; by default the library makes one")
	term   = flag.Duration("term", 30*time.Second, "how long a replica leads the service before it lets others try")
	fails  = flag.Int("fails", 20, "one report in so many fails; 0 means none")
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
	store, err := sqliteleader.Open(*file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	sight, err := observe(store)
	if err != nil {
		return err
	}
	defer sight.close()
	elector, err := leader.New(store, electorOptions(sight)...)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("metrics  http://%s/metrics\n", listener.Addr())
	fmt.Printf("page     http://%s%s/\n", listener.Addr(), pagePath)
	fmt.Printf("health   http://%s/healthz\n", listener.Addr())

	var working sync.WaitGroup
	defer working.Wait() // leases are released before the store is closed
	defer stop()         // also if the server has failed
	r := replica{elector}
	working.Go(func() { r.report(ctx) })
	working.Go(func() { r.serve(ctx) })
	working.Go(func() { sight.watch(ctx, elector) })
	return serveHTTP(ctx, listener, sight)
}

func electorOptions(s *sight) []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(lease), leader.WithHooks(s.hooks())}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, s *sight) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(s.page.Close) // which ends the streams of those who watch
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(bounded)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
