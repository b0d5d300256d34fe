package backendtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// oracleEnv has the address of the store in a process whose goroutines contend.
const oracleEnv = "LEADER_ORACLE_CHILD"

// stirring is the line that lets a process have its leases go.
const stirring = "stir"

// child is one of the processes. A line of its standard input with a number of slots lets new electors contend with that
// number, while the earlier ones keep what they have for as long as they had meant to. The new ones keep what they get
// until a line says that they are to contend. It goes on until its input ends and every lease is over.
func (c OracleConfig) child(t *testing.T, address string) {
	t.Helper()
	d := c.Dial(t, address)
	j := newJournal(t, os.NewFile(reportFile, "report"))
	var contending sync.WaitGroup
	replaced, stir := func() {}, func() {}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == stirring {
			stir()
			continue
		}
		slots, err := strconv.Atoi(in.Text())
		if err != nil {
			t.Fatal(err)
		}
		replaced()
		stirred := make(chan struct{})
		stir = sync.OnceFunc(func() { close(stirred) })
		ctx, cancel := context.WithCancel(t.Context())
		replaced = cancel
		for i := range oracleElectors {
			e := newOracleElector(t, d, slots, i)
			w := &worker{elector: e, slots: slots, stirred: stirred, journal: j}
			for range oracleContenders {
				contending.Go(func() { w.contend(ctx) })
			}
		}
	}
	replaced()
	contending.Wait()
}

func newOracleElector(t testing.TB, d backend.Driver, slots, i int) *leader.Group {
	t.Helper()
	g, err := leader.NewGroup(d, slots, leader.WithNodeID(fmt.Sprintf("%d.%d", os.Getpid(), i)),
		leader.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// worker is what the goroutines of an elector do.
type worker struct {
	elector leader.GroupElector
	slots   int
	stirred <-chan struct{} // closed when leases are to be let go of
	journal *journal
}

// contend acquires and lets go of leases until ctx ends.
func (w *worker) contend(ctx context.Context) {
	for ctx.Err() == nil {
		lease := []time.Duration{400 * time.Millisecond, time.Second, 2500 * time.Millisecond}[rand.N(3)]
		opts := []leader.RunOption{leader.WithLeaseTime(lease), leader.WithWaitTime(rand.N(2 * time.Second))}
		lingers := rand.N(50) == 0
		if lingers {
			opts = append(opts, leader.WithoutAutoExtend())
		}
		l, err := w.elector.Acquire(ctx, oracleName, opts...)
		switch {
		case err == nil:
			w.journal.add(l, w.slots)
			w.use(ctx, l, lingers)
		case !errors.Is(err, leader.ErrNotElected):
			<-time.After(rand.N(50 * time.Millisecond)) // the store failed
		}
	}
}

// use has the lease until it is to be let go of, and then for a while, most of the time for a short one. It releases it
// once, or more often than that, or, if it lingers, when it has run out.
func (w *worker) use(ctx context.Context, l *leader.Lease, lingers bool) {
	select {
	case <-w.stirred:
	case <-l.Context().Done():
	case <-ctx.Done():
	}
	d := rand.N(20 * time.Millisecond)
	switch {
	case lingers:
		d = time.Minute
	case rand.N(30) == 0:
		d = rand.N(1500 * time.Millisecond) // so that it is renewed
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.Context().Done():
	}
	var releasing sync.WaitGroup
	defer releasing.Wait()
	for range 1 + rand.N(3) {
		releasing.Go(func() {
			_ = l.Release(ctx) // a lost one reports that
			_ = l.Release(ctx)
		})
	}
}
