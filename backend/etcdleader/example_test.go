package etcdleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/etcdleader"
	"github.com/goleader/leader/internal/exampletest"
)

var etcdAddr = "localhost:2379"

// Two processes share an etcd, and one of them writes the nightly report.
func Example() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{etcdAddr},
		DialTimeout:       5 * time.Second,
		DialKeepAliveTime: 5 * time.Second, // to leave an endpoint that is silent
		DialOptions:       []grpc.DialOption{etcdleader.QuickReconnect()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	b := etcdleader.New(client, nil)
	defer b.Close()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	web2, err := leader.New(b, leader.WithNodeID("web-2")) // in a service, that of another process
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := web1.RunIfLeader(ctx, "nightly-report", func(ctx context.Context) error {
		other, err := web2.RunIfLeader(ctx, "nightly-report", func(context.Context) error {
			fmt.Println("never printed: web-1 leads")
			return nil
		})
		fmt.Println("web-2:", other) // web-2: Skipped (Contended, held by web-1)
		return err
	})
	fmt.Println("web-1:", result.Outcome, errors.Join(err, result.Err)) // web-1: Elected <nil>
}

func TestExamples_PrintWhatTheySay(t *testing.T) {
	etcdAddr = ownServer(t).Addr()
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
