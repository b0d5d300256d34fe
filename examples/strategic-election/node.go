package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/sqliteleader"
)

const (
	name = "service"
	// candidateTTL is how long a node that died stays a candidate.
	candidateTTL = 3 * time.Second
	// A leader hands over when another node has scored better by more than that, for that long.
	better     = 10
	betterHeld = time.Second
)

// newElector returns an elector that prefers the node with the most memory. What a score is made of is up to you: any
// function of what candidates say of themselves, and of what is known of their runs. Package scorer has some.
func newElector(store *sqliteleader.Backend, id string) (*leader.Strategic, error) {
	memory := leader.ScorerFunc(func(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
		gib, err := strconv.Atoi(c.Metadata["memory"])
		if err != nil {
			return 0
		}
		return float64(gib)
	})
	return leader.NewStrategic(store, leader.Scored(memory), leader.WithNodeID(id),
		leader.WithCandidateTTL(candidateTTL), leader.WithHandBack(better, betterHeld))
}

// node is one process of a service.
type node struct {
	id      string
	memory  int // in GiB
	elector *leader.Strategic
	leading chan string // who leads now

	member *leader.Membership
	stop   func() // ends the campaign
}

// enroll makes the node a candidate: it tells the others what they need to score it, again and again.
func (n *node) enroll(ctx context.Context) (err error) {
	facts := map[string]string{"memory": strconv.Itoa(n.memory)}
	n.member, err = n.elector.Enroll(ctx, name, leader.Candidate{Metadata: facts})
	if err == nil {
		n.say("enrolls, with %d GiB", n.memory)
	}
	return err
}

// campaign leads whenever the node is the preferred one, until it leaves.
func (n *node) campaign(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var campaigning sync.WaitGroup
	campaigning.Go(func() {
		if err := n.elector.Campaign(ctx, name, n.lead); !errors.Is(err, context.Canceled) {
			n.say("gave up: %v", err)
		}
	})
	n.stop = func() {
		cancel()
		campaigning.Wait()
	}
}

// lead is the service. The end of its context says why it has to stop.
func (n *node) lead(ctx context.Context) error {
	held, ok := leader.LeaseFrom(ctx)
	if !ok {
		return nil
	}
	n.say("leads, fence %d", held.Info().Fence)
	select {
	case n.leading <- n.id:
		<-ctx.Done()
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), leader.ErrHandBack) {
		n.say("hands over to a better one")
	}
	return context.Cause(ctx)
}

// leave ends the candidacy first, so that the others know when the lease is released.
func (n *node) leave(ctx context.Context) error {
	err := n.member.Leave(ctx)
	n.stop()
	n.say("leaves")
	return err
}

func (n *node) say(format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), n.id, fmt.Sprintf(format, args...))
}
