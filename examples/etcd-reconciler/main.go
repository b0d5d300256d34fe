// Etcd-reconciler is one of several replicas of a controller that makes instances of services as they are asked for in
// etcd. One of them leads and reconciles; all of them know which.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/etcdleader"
)

// lease is how long the others wait for a leader that died, at least: etcd ends a lease up to 3 s later.
const lease = 4 * time.Second

var (
	address = flag.String("etcd", "http://127.0.0.1:2379", "URL of the etcd that the replicas share")
	name    = flag.String("name", "etcd-reconciler", "what the replicas lead; their keys begin with NAME/")
	node    = flag.String("node", "", "name of this replica; by default the library makes one")
	lives   = flag.Duration("lives", 0, "how long to live; 0 means until interrupted")
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
	if *lives > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *lives)
		defer cancel()
	}
	client, err := connect(*address)
	if err != nil {
		return err
	}
	defer client.Close()
	b := etcdleader.New(client, nil)
	defer b.Close()
	elector, err := leader.New(b, electorOptions()...)
	if err != nil {
		return err
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { show(ctx, elector) })
	r := reconciler{client: client, leases: b, name: *name}
	err = elector.Campaign(ctx, *name, r.lead, leader.WithRequeue())
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

// connect takes a URL, with a user and a password where etcd asks for them.
func connect(address string) (*clientv3.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	return clientv3.New(clientv3.Config{
		Endpoints: []string{u.Scheme + "://" + u.Host}, Username: u.User.Username(), Password: password,
		DialKeepAliveTime: 5 * time.Second, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{etcdleader.QuickReconnect()}, // the lease is a short one
	})
}

func electorOptions() []leader.Option {
	options := []leader.Option{leader.WithLeaseTime(lease)}
	if *node != "" {
		options = append(options, leader.WithNodeID(*node))
	}
	return options
}

// show tells of every change of the leader. A service would redirect requests, or set a metric. It is no proof that the
// leader still leads: only the fence is one.
func show(ctx context.Context, elector leader.Elector) {
	for state, err := range elector.Watch(ctx, *name) {
		switch {
		case err != nil:
			if ctx.Err() == nil {
				say("cannot watch: %v", err)
			}
		case state.Stale:
			say("sees nothing, etcd cannot be asked")
		case state.Node == "":
			say("sees that nobody leads")
		default:
			say("sees %s lead, fence %d", state.Node, state.Fence)
		}
	}
}

func say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), *node, fmt.Sprintf(format, args...))
}
