package zkleader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/zkleader"
	"github.com/goleader/leader/internal/exampletest"
)

var zkServers = []string{"zk1:2181", "zk2:2181", "zk3:2181"}

// Two processes share a ZooKeeper, and one of them writes the nightly report.
func Example() {
	const lease = 15 * time.Second
	b := zkleader.New(zkServers, &zkleader.Options{SessionTimeout: lease})
	defer b.Close()
	ctx := context.Background()
	web1, err := leader.New(b, leader.WithNodeID("web-1"), leader.WithLeaseTime(lease))
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a service, that of another process.
	web2, err := leader.New(b, leader.WithNodeID("web-2"), leader.WithLeaseTime(lease))
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
	zkServers = []string{ownServer(t).Addr()}
	const want = "web-2: Skipped (Contended, held by web-1)\nweb-1: Elected <nil>\n"
	exampletest.Prints(t, want, Example)
}
