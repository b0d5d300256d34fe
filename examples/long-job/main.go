// Long-job runs jobs that take longer than their lease: one whose lease is extended while it works, one that is not
// allowed to hang for ever, and one whose node loses the network. A second node wants to lead all the while.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/backend/redisleader"
)

const (
	name = "long-job"
	// lease is short, so that one can watch it end.
	lease = 2 * time.Second
)

var address = flag.String("redis", "127.0.0.1:6379", "host and port of the Redis")

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	network, err := netfault.Listen(ctx, *address)
	if err != nil {
		return err
	}
	defer network.Close()
	var renewals atomic.Int64
	worker, closeWorker, err := node(network.Addr(), "worker", leader.WithHooks(leader.Hooks{
		Renewed: func(context.Context, leader.LeaseInfo, time.Duration) { renewals.Add(1) },
	}))
	if err != nil {
		return err
	}
	defer closeWorker()
	standby, closeStandby, err := node(*address, "standby")
	if err != nil {
		return err
	}
	defer closeStandby()
	s := show{worker: worker, standby: standby, network: network, renewals: &renewals}
	for _, act := range []func(context.Context) error{s.extended, s.limited, s.cut} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// node is an elector with a client of its own.
func node(address, id string, options ...leader.Option) (e leader.Elector, closeAll func(), err error) {
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	b := redisleader.New(client, nil)
	closeAll = func() {
		_ = b.Close()
		_ = client.Close()
	}
	e, err = leader.New(b, append(options, leader.WithNodeID(id), leader.WithLeaseTime(lease))...)
	if err != nil {
		closeAll()
	}
	return e, closeAll, err
}

type show struct {
	worker, standby leader.Elector
	network         *netfault.Proxy
	renewals        *atomic.Int64
}

// extended is a job of three leases. Its lease is renewed while it works, so the standby is kept out.
func (s show) extended(ctx context.Context) error {
	result, err := s.worker.RunIfLeader(ctx, name, func(ctx context.Context) error {
		work(ctx, 3*lease)
		refused, err := s.standby.RunIfLeader(ctx, name, nothing)
		if err != nil {
			return err
		}
		say("standby", "%s", refused)
		return nil
	})
	if err != nil {
		return err
	}
	say("worker", "extended: worked for %d leases, renewed %d times, lost: %v",
		result.Lease.Held/lease, s.renewals.Load(), result.Lost != nil)
	return nil
}

// limited is a job that hangs. It is told to end when it has held the lease for long enough.
func (s show) limited(ctx context.Context) error {
	result, err := s.worker.RunIfLeader(ctx, name, func(ctx context.Context) error {
		work(ctx, time.Hour)
		return context.Cause(ctx)
	}, leader.WithMaxHold(2*lease))
	if err != nil {
		return err
	}
	say("worker", "limited: told to end after %d leases: %v",
		result.Lease.Held/lease, errors.Is(result.Lost, leader.ErrMaxHold))
	return nil
}

// cut is a job whose node loses the network. It is told before the standby can lead.
func (s show) cut(ctx context.Context) error {
	trusted := make(chan time.Time, 1)
	worked := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		result, err := s.worker.RunIfLeader(ctx, name, func(ctx context.Context) error {
			held, _ := leader.LeaseFrom(ctx)
			close(started)
			work(ctx, time.Hour)
			trusted <- held.TrustedUntil()
			return context.Cause(ctx)
		})
		if err == nil && !errors.Is(result.Lost, leader.ErrLeaseLost) {
			err = fmt.Errorf("the job ended as %s", result)
		}
		worked <- err
	}()
	select {
	case <-started:
	case err := <-worked:
		return errors.Join(errors.New("the job did not start"), err)
	}
	s.network.Freeze()
	defer s.network.Mend()
	var led time.Time
	result, err := s.standby.RunIfLeader(ctx, name, func(context.Context) error {
		led = time.Now()
		return nil
	}, leader.WithWaitTime(20*lease))
	if err != nil || !result.OK() {
		return errors.Join(fmt.Errorf("the standby was not elected: %s", result), err)
	}
	say("worker", "cut: stopped trusting its lease %v before the standby led", led.Sub(<-trusted).Round(time.Millisecond))
	say("standby", "leads, fence %d", result.Lease.Fence)
	return <-worked
}

// work works until it is done or told to end.
func work(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func nothing(context.Context) error { return nil }

// say prints the time, who speaks, and what happens.
func say(who, format string, args ...any) {
	fmt.Printf("%s  %-7s %s\n", time.Now().Format("15:04:05.000"), who, fmt.Sprintf(format, args...))
}
