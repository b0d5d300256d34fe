package raftleader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/raftleader/internal/machine"
	"github.com/goleader/leader/backend/raftleader/internal/wire"
)

// Backend is one node of a cluster, and elects on it. Its methods may be called concurrently.
type Backend struct {
	config  Config
	stores  *stores
	machine *machine.Machine
	fsm     *fsm
	raft    *raft.Raft
	port    *wire.Port
	office  atomic.Pointer[office] // nil unless this node is the raft leader and ready
	reign   atomic.Pointer[reign]  // nil while no raft leader is known
	changes bell                   // rung when the leader, or the office, may have changed

	ctx     context.Context //nolint:containedctx // of what the node does on its own; it ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup // what ends with ctx
	asides  asides         // what goes on when nobody waits for it any more
	places  chan struct{}  // has a value for every command on its way through the log
	once    sync.Once
	shut    func() raft.Future // stops raft

	admitting sync.Mutex // held while the raft leader changes who is a member
	left      atomic.Bool
	trouble   atomic.Pointer[string] // why there is no raft leader, as far as the node knows
	closed    atomic.Bool
}

// handler is what the other nodes ask of this one.
type handler struct{ *Backend }

var _ wire.Handler = handler{}

var (
	_ backend.Driver       = (*Backend)(nil)
	_ backend.Limited      = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
	_ backend.Advisor      = (*Backend)(nil)
	_ backend.Waiter       = (*Backend)(nil)
	_ backend.Watcher      = (*Backend)(nil)
	_ backend.SlotAcquirer = (*Backend)(nil)
	_ backend.Records      = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
)

// Open starts a node, which the caller has to Close. It returns as soon as the node listens; the node then finds or founds
// its cluster on its own, and calls wait for that, or say what is missing. ctx lends its values and not its end.
//
// The error is of kind [backend.Misconfigured] if the configuration is wrong, if another node uses the folder, or if what
// is in it was written by a release with another format.
func Open(ctx context.Context, c Config) (*Backend, error) {
	listener, err := c.listen(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.complete(listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s, err := openStores(c, newLogger(c.Logger))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %q: %w", c.Dir, err), listener.Close())
	}
	b := &Backend{config: c, stores: s, machine: machine.New(), places: make(chan struct{}, queue)}
	b.asides.over = make(chan struct{})
	b.ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.port = &wire.Port{ID: s.id, Listener: listener, Dial: c.hooks.dial, TLS: c.TLS, Handler: handler{b}}
	b.port.Open(ctx)
	if err := b.start(); err != nil { //nolint:contextcheck // the node outlives ctx
		b.stop()
		b.port.Close()
		return nil, errors.Join(err, s.close())
	}
	return b, nil
}

func (c *Config) listen(ctx context.Context) (net.Listener, error) {
	if c.hooks.listener != nil {
		return c.hooks.listener, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return nil, backend.WithKind(err, backend.Misconfigured)
	}
	return listener, nil
}

// start starts raft and what goes with it.
func (b *Backend) start() error {
	b.fsm = &fsm{machine: b.machine, stores: b.stores, halt: b.stop}
	var err error
	if b.fsm.cluster, err = b.stores.get(keyCluster); err != nil {
		return err
	}
	log := newLogger(b.config.Logger)
	transport := wire.Transport{NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:  log,
		Stream:  b.port.Streams(b.config.Advertise),
		MaxPool: 3,
		Timeout: max(time.Second, 2*b.config.ElectionTimeout),
	})}
	b.raft, err = raft.NewRaft(b.raftConfig(), b.fsm, b.stores.log, b.stores.stable, b.stores.snapshots, transport)
	if err != nil {
		return errors.Join(err, b.fsm.check(), transport.Close())
	}
	if err := b.fsm.check(); err != nil { // the library took an older snapshot instead
		return errors.Join(err, b.raft.Shutdown().Error())
	}
	events := make(chan raft.Observation, 1)
	observer := raft.NewObserver(events, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState, raft.LeaderObservation:
			return true
		}
		return false
	})
	b.raft.RegisterObserver(observer)
	b.shut = sync.OnceValue(func() raft.Future {
		defer close(b.asides.over)
		return b.raft.Shutdown()
	})
	b.port.Ready()
	b.running.Go(func() { b.govern(events) })
	b.running.Go(b.enlist)
	return nil
}

func (b *Backend) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(b.stores.id)
	c.HeartbeatTimeout = b.config.ElectionTimeout
	c.ElectionTimeout = b.config.ElectionTimeout
	c.LeaderLeaseTimeout = b.config.ElectionTimeout * 9 / 10 // nothing is read by it; until then nobody else is elected
	c.Logger = newLogger(b.config.Logger)
	c.SnapshotInterval = b.config.hooks.snapshot.every
	c.SnapshotThreshold = b.config.hooks.snapshot.threshold
	c.TrailingLogs = b.config.hooks.snapshot.trailing
	c.ShutdownOnRemove = false
	c.BatchApplyCh = true
	c.MaxAppendEntries = queue + 4 // some for barriers
	c.NoLegacyTelemetry = true
	return c
}

// Name returns "raft".
func (b *Backend) Name() string { return "raft" }

// Limits says that leases last between 100 ms and 10 years, and look held for longer while there is no raft leader.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: minTTL, MaxTTL: maxTTL, Late: tickEvery + 3*b.config.ElectionTimeout}
}

// Check says why the node can no longer take part: because it was closed, or because it cannot read the log, which a
// later release has written. The error is of kind [backend.Misconfigured].
func (b *Backend) Check() error {
	if err := b.fsm.check(); err != nil {
		return err
	}
	if b.closed.Load() {
		return errClosed
	}
	return nil
}

// Close stops the node, which remains a member. If it is the raft leader, it hands its office over, where that takes no
// longer than an election. Leases are not released. Whoever waits gets an error. It may be called again.
func (b *Backend) Close() error { return b.close(true) }

// close is Close, or, unless it is gentle, as close to a kill as it gets within a process.
func (b *Backend) close(gentle bool) error {
	var err error
	b.once.Do(func() {
		b.closed.Store(true)
		if gentle {
			b.handOver(b.ctx)
		}
		b.stop()
		b.running.Wait()
		if gentle {
			// What the log has accepted is answered first, since the library forgets what it has not applied.
			b.asides.wait(b.config.ElectionTimeout + time.Second)
		}
		b.office.Store(nil)
		b.changes.ring()
		shut := b.shut()
		b.port.Cut()
		err = shut.Error()
		b.port.Close()
		err = errors.Join(err, b.stores.close())
	})
	return err
}

// handOver makes another node the raft leader, if this one is, and there is another. It waits for it as long as for an
// election.
func (b *Backend) handOver(ctx context.Context) {
	if b.raft.State() != raft.Leader || b.voters() < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.config.ElectionTimeout)
	defer cancel()
	_, _ = aside(ctx, &b.asides, func() (struct{}, error) { // the others elect one in any case
		return struct{}{}, b.raft.LeadershipTransfer().Error()
	})
}
