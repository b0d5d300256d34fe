//go:build unix

package raftleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/backendtest/netfault"
)

// fleet is a cluster of nodes in processes of their own.
type fleet struct {
	*links

	dir   string
	nodes [crewSize]atomic.Pointer[process] // nil while a node is away
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	listeners, addrs := listen(t, crewSize)
	for _, l := range listeners {
		_ = l.Close() // the processes listen there
	}
	return &fleet{dir: t.TempDir(), links: link(t, addrs)}
}

// start starts a node, from its folder if there is one.
func (f *fleet) start(t testing.TB, i int) {
	t.Helper()
	o := orders{
		Addr: f.addrs[i], Peers: f.addrs, Dir: filepath.Join(f.dir, strconv.Itoa(i)), Election: crewElection,
		Ways: map[string]string{},
	}
	for _, a := range f.addrs {
		if a != o.Addr {
			o.Ways[a] = f.way(i, a)
		}
	}
	f.nodes[i].Store(startNode(t, o))
}

func (f *fleet) startAll(t testing.TB) {
	t.Helper()
	for i := range f.nodes {
		f.start(t, i)
	}
	f.leader(t)
}

func (f *fleet) kill(i int) {
	if p := f.nodes[i].Swap(nil); p != nil {
		p.kill9()
	}
}

// killAll kills every node at about the same moment.
func (f *fleet) killAll() {
	var all sync.WaitGroup
	for i := range f.nodes {
		all.Go(func() { f.kill(i) })
	}
	all.Wait()
}

// leading returns the raft leader that is ready, -1 if none says so.
func (f *fleet) leading(ctx context.Context) int {
	for i := range f.nodes {
		if p := f.nodes[i].Load(); p != nil && p.leads(ctx) {
			return i
		}
	}
	return -1
}

func (f *fleet) leader(t testing.TB) (i int) {
	t.Helper()
	until(t, "a node leads", func() bool {
		i = f.leading(t.Context())
		return i >= 0
	})
	return i
}

func (f *fleet) some(r *rand.Rand) driver {
	if p := f.nodes[r.IntN(crewSize)].Load(); p != nil {
		return remote{p}
	}
	return nil
}

// suffer brings one fault after another, until ctx ends, and counts them.
func (f *fleet) suffer(ctx context.Context, t testing.TB, r *rand.Rand) map[string]int {
	faults := map[string]int{}
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond)
		victim, name := f.leading(ctx), "the leader "
		if victim < 0 || r.IntN(3) == 0 {
			victim, name = r.IntN(crewSize), "a node "
		}
		lasts := time.Duration(100+r.IntN(900)) * time.Millisecond
		switch p := f.nodes[victim].Load(); r.IntN(4) {
		case 0, 1:
			name += "killed"
			f.kill(victim)
			pause(ctx, lasts/4)
			f.start(t, victim)
		case 2:
			name += "stopped"
			p.stop()
			pause(ctx, lasts)
			p.cont()
		default:
			name += "cut off"
			f.around(victim, (*netfault.Proxy).Drop)
			pause(ctx, lasts)
			f.mend()
		}
		faults[name]++
	}
	return faults
}

// TestHistory_OfProcesses_IsLinearizable is [TestHistory_IsLinearizableUnderFaults] with nodes that are killed with
// kill -9, and stopped and continued.
func TestHistory_OfProcesses_IsLinearizable(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startAll(t)
	h := newRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), historyFor())
	defer cancel()
	seed := rand.Uint64()
	suffered := make(chan map[string]int, 1)
	go func() { suffered <- f.suffer(ctx, t, rand.New(rand.NewPCG(seed, 0))) }()
	h.askAll(ctx, askers, askedKeys, longTTL, f.some)
	t.Logf("seed %d, faults: %v", seed, <-suffered)
	f.leader(t)
	after, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	h.askAll(after, askers, askedKeys, longTTL, f.some)
	h.check(t, false)
	if h.count[acquiring][done] < 50 {
		t.Errorf("the history is too thin: %v", h.count)
	}
}

// ledger is what a cluster has acknowledged.
type ledger struct {
	mu      sync.Mutex
	leases  map[string]uint64 // the fence of a lease whose token is its key
	spent   map[string]bool   // released leases
	records map[string]string // the versions
}

// fill acquires, releases and stores with node i what has numbers of its own, until it fails.
func (l *ledger) fill(ctx context.Context, d driver, i int) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("%d-%d", i, n)
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		lease, err := d.TryAcquire(ctx, backend.Request{Key: key, Token: key, Owner: key, TTL: longTTL})
		if err == nil {
			l.mu.Lock()
			l.leases[key] = lease.Fence()
			l.mu.Unlock()
		}
		if err == nil && n%3 == 0 {
			l.mu.Lock()
			delete(l.leases, key) // while it is not known whether it is released
			l.mu.Unlock()
			if err = lease.Release(ctx, 0); err == nil {
				l.mu.Lock()
				l.spent[key] = true
				l.mu.Unlock()
			}
		}
		version := ""
		if err == nil {
			version, err = d.PutRecord(ctx, backend.Record{Key: key + "!x/1", Value: []byte(key)})
		}
		cancel()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.records[key+"!x/1"] = version
		l.mu.Unlock()
	}
}

// TestProcesses_RestartOfAll_LosesNothing kills every node, in the middle of their work, three times over, and restarts
// them from disk.
func TestProcesses_RestartOfAll_LosesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startAll(t)
	l := &ledger{leases: map[string]uint64{}, spent: map[string]bool{}, records: map[string]string{}}
	for round := range 3 {
		var filling sync.WaitGroup
		for i := range f.nodes {
			d := remote{f.nodes[i].Load()}
			filling.Go(func() { l.fill(t.Context(), d, 10*round+i) })
		}
		pause(t.Context(), time.Second)
		f.killAll()
		filling.Wait()
		f.startAll(t)
		l.check(t, remote{f.nodes[f.leader(t)].Load()})
	}
}

func (l *ledger) check(t *testing.T, d driver) {
	t.Helper()
	if len(l.leases) < 10 || len(l.spent) < 5 || len(l.records) < 10 {
		t.Fatalf("%d leases, %d released ones, %d records: too few", len(l.leases), len(l.spent), len(l.records))
	}
	var greatest uint64
	try := func(key, token string) (uint64, error) {
		ctx, cancel := context.WithTimeout(t.Context(), crewPatience)
		defer cancel()
		lease, err := d.TryAcquire(ctx, backend.Request{Key: key, Token: token, Owner: token, TTL: longTTL})
		if err != nil {
			return 0, err
		}
		return lease.Fence(), nil
	}
	for key, fence := range l.leases {
		greatest = max(greatest, fence)
		if _, err := try(key, "another"); replied(err).result != held || replied(err).fence != fence {
			t.Errorf("%s: %v, want that it is held under fence %d", key, err, fence)
		}
		if got, err := try(key, key); err != nil || got != fence {
			t.Errorf("%s: a repetition gets fence %d, %v, want %d", key, got, err, fence)
		}
	}
	for key := range l.spent {
		if _, err := try(key, key); replied(err).result != lost {
			t.Errorf("%s: %v for a spent token, want ErrLost", key, err)
		}
	}
	for key, version := range l.records {
		ctx, cancel := context.WithTimeout(t.Context(), crewPatience)
		r := get(ctx, d, key[:len(key)-1])
		cancel()
		if !r.found || r.version != version {
			t.Errorf("%s: %+v, want version %s", key, r, version)
		}
	}
	if next, err := try(fmt.Sprint("after ", greatest), "another"); err != nil || next <= greatest {
		t.Errorf("fence %d, %v after %d", next, err, greatest)
	}
	t.Logf("%d leases, %d released ones and %d records are as they were", len(l.leases), len(l.spent), len(l.records))
}

// TestProcesses_KillOfAnyOne_KeepsEveryLease kills one node after the other, the raft leader among them, and asks the
// others about leases that would have been over had they not been renewed.
func TestProcesses_KillOfAnyOne_KeepsEveryLease(t *testing.T) {
	t.Parallel()
	const names, lease = 20, 10 * time.Second
	f := newFleet(t)
	f.startAll(t)
	fences := make([]uint64, names)
	keys := make([]string, names)
	for i := range keys {
		keys[i] = fmt.Sprintf("job-%02d", i)
	}
	led := false
	for victim := range crewSize {
		led = led || victim == f.leader(t)
		f.kill(victim)
		helper := remote{f.nodes[(victim+1)%crewSize].Load()}
		until(t, "the others go on", func() bool {
			for i, key := range keys {
				ctx, cancel := context.WithTimeout(t.Context(), askTimeout)
				l, err := helper.TryAcquire(ctx, backend.Request{Key: key, Token: key, Owner: key, TTL: lease})
				cancel()
				switch {
				case err != nil && replied(err).result != unknown:
					t.Fatalf("%s: %v", key, err)
				case err != nil:
					return false
				case fences[i] != 0 && l.Fence() != fences[i]:
					t.Fatalf("%s: fence %d, want %d: the lease was lost", key, l.Fence(), fences[i])
				}
				fences[i] = l.Fence()
			}
			return true
		})
		f.start(t, victim)
	}
	t.Logf("the leader was among them: %v", led)
	f.kill(f.leader(t))
	helper := remote{f.nodes[f.leader(t)].Load()}
	for i, key := range keys {
		ctx, cancel := context.WithTimeout(t.Context(), crewPatience)
		h, err := helper.Inspect(ctx, key)
		cancel()
		if err != nil || h.Fence != fences[i] || h.Owner != key {
			t.Errorf("%s: %+v, %v, want fence %d", key, h, err, fences[i])
		}
	}
}

// TestProcesses_WithoutAQuorum_ElectNobody leaves one node of three.
func TestProcesses_WithoutAQuorum_ElectNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startAll(t)
	leader := f.leader(t)
	for i := range f.nodes {
		if i != leader {
			f.kill(i)
		}
	}
	d := remote{f.nodes[leader].Load()}
	for end := time.Now().Add(10 * crewElection); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), crewElection)
		_, err := d.TryAcquire(ctx, backend.Request{Key: "a", Token: "1", TTL: longTTL})
		cancel()
		if replied(err).result != unknown {
			t.Fatalf("%v, want that nobody is elected", err)
		}
	}
}
