// Strategic-election lets the best of three nodes lead a service. It leaves, and the second one leads; it comes back, and
// the second one hands the service back to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/goleader/leader/backend/sqliteleader"
)

const (
	// term is how long a leader leads before something happens.
	term = time.Second
	// patience is the longest that a change of leaders may take.
	patience = 20 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "leader-strategic-election-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqliteleader.Open(filepath.Join(dir, "election.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	leading := make(chan string)
	var nodes []*node
	for _, n := range []node{{id: "small", memory: 16}, {id: "medium", memory: 64}, {id: "large", memory: 256}} {
		if n.elector, err = newElector(store, n.id); err != nil {
			return err
		}
		n.leading = leading
		nodes = append(nodes, &n)
	}
	return show(ctx, nodes)
}

// show lets the best of the nodes, which is the last one, leave and come back.
func show(ctx context.Context, nodes []*node) error {
	for _, n := range nodes {
		if err := n.enroll(ctx); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		n.campaign(ctx)
	}
	defer leave(context.WithoutCancel(ctx), nodes) // also after Ctrl-C
	second, best := nodes[1], nodes[2]
	if err := best.awaitLead(ctx); err != nil {
		return err
	}
	if err := second.explain(ctx); err != nil {
		return err
	}
	if err := pause(ctx, term); err != nil {
		return err
	}
	if err := best.leave(ctx); err != nil {
		return err
	}
	if err := second.awaitLead(ctx); err != nil {
		return err
	}
	if err := pause(ctx, term); err != nil {
		return err
	}
	if err := best.enroll(ctx); err != nil {
		return err
	}
	best.campaign(ctx)
	if err := best.awaitLead(ctx); err != nil {
		return err
	}
	return second.explain(ctx)
}

// leave lets all nodes leave, the best one last, so that none of the others has to lead.
func leave(ctx context.Context, nodes []*node) {
	for _, n := range nodes {
		if err := n.leave(ctx); err != nil {
			n.say("did not give up its seat, which expires: %v", err)
		}
	}
}

// awaitLead waits until n leads.
func (n *node) awaitLead(ctx context.Context) error {
	select {
	case id := <-n.leading:
		if id != n.id {
			return fmt.Errorf("%s leads, want %s", id, n.id)
		}
		return nil
	case <-time.After(patience):
		return errors.New(n.id + " does not lead")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain prints whom the strategy prefers, and why no other one. Any node can tell.
func (n *node) explain(ctx context.Context) error {
	e, err := n.elector.Election(ctx, name)
	if err != nil {
		return err
	}
	n.say("knows that %s is preferred, with a score of %.0f", e.Winner, e.Scores[e.Winner])
	for _, id := range slices.Sorted(maps.Keys(e.Eliminated)) {
		n.say("knows why %s is not: %s", id, e.Eliminated[id])
	}
	return nil
}

// pause lets a leader lead for a while.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
