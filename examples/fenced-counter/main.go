// Fenced-counter shows a zombie: a node that goes on working after its lease is over. Its write is refused, because the
// store that it writes to knows the fence of a newer lease.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

const name = "counter"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "leader-fenced-counter-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Leases have a file of their own, so that writes of the application never hold up a renewal.
	leases, err := sqliteleader.Open(filepath.Join(dir, "leases.db"), nil)
	if err != nil {
		return err
	}
	defer leases.Close()
	count, err := newCounter(ctx, filepath.Join(dir, "counter.db"))
	if err != nil {
		return err
	}
	defer count.close()
	return show(ctx, leases, count)
}

// show lets the second node take over from the first one, which does not notice.
func show(ctx context.Context, leases *sqliteleader.Backend, count *counter) error {
	first, err := newNode("first", leases, count)
	if err != nil {
		return err
	}
	second, err := newNode("second", leases, count)
	if err != nil {
		return err
	}
	// A frozen process renews nothing. This one is not frozen, so it must not renew.
	result, err := first.elector.RunIfLeader(ctx, name, func(leading context.Context) error {
		if err := first.write(leading); err != nil {
			return err
		}
		first.say("freezes, for longer than its lease of 1 s")
		if err := second.lead(ctx); err != nil {
			return err
		}
		first.say("goes on as if nothing had happened")
		// A context that is over would stop the write on its way. The zombie does not look at it.
		err := first.write(context.WithoutCancel(leading))
		if err == nil {
			return errors.New("the zombie's write was accepted")
		}
		if !errors.Is(err, errStale) {
			return err
		}
		first.say("looks at its context: %v", context.Cause(leading))
		return nil
	}, leader.WithoutAutoExtend(), leader.WithLeaseTime(time.Second))
	if err := errors.Join(err, result.Err); err != nil {
		return err
	}
	value, err := count.read(ctx)
	fmt.Printf("counter: %d\n", value)
	return err
}

// node is one process of a service.
type node struct {
	id      string
	elector leader.Elector
	count   *counter
}

func newNode(id string, leases *sqliteleader.Backend, count *counter) (node, error) {
	elector, err := leader.New(leases, leader.WithNodeID(id))
	return node{id, elector, count}, err
}

// lead waits for the lease and writes under it.
func (n node) lead(ctx context.Context) error {
	result, err := n.elector.RunIfLeader(ctx, name, n.write, leader.WithWaitTime(time.Minute))
	if err != nil {
		return err
	}
	if !result.OK() {
		return fmt.Errorf("%s did not lead: %v", n.id, result)
	}
	return nil
}

// write adds one to the counter under the lease of ctx, also one that is over: that is what the counter finds out.
func (n node) write(ctx context.Context) error {
	lease, _ := leader.LeaseFrom(ctx)
	fence := lease.Info().Fence
	value, err := n.count.add(ctx, fence)
	if err != nil {
		n.say("writes: %v", err)
		return err
	}
	n.say("writes with fence %d: the counter is %d", fence, value)
	return nil
}

func (n node) say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), n.id, fmt.Sprintf(format, args...))
}
