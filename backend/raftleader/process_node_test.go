//go:build unix

package raftleader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/goleader/leader/backend"
)

// nodeEnv has, in a process that is a node, what it has to know.
const nodeEnv = "LEADER_RAFT_NODE"

// orders are what a process that is a node has to know.
type orders struct {
	Addr     string
	Peers    []string
	Dir      string
	Ways     map[string]string // where the others are, if not at their own addresses
	Election time.Duration
	YieldTo  string // who is made the raft leader, once, should this node become it
	Lead     bool   // the node is to be the raft leader before it is used
}

// open starts the node of o.
func (o *orders) open(ctx context.Context) (*Backend, error) {
	return Open(ctx, Config{
		Addr: o.Addr, Peers: o.Peers, Dir: o.Dir, ElectionTimeout: o.Election,
		hooks: hooks{
			dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if way, ok := o.Ways[address]; ok {
					address = way
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
			snapshot: snapshotPolicy{every: time.Second, threshold: 500, trailing: 100},
		},
	})
}

// TestNode is a node in a process of its own, which does what it is told on its standard input until that ends.
func TestNode(t *testing.T) {
	text, ok := os.LookupEnv(nodeEnv)
	if !ok {
		t.Skip("skipped: other tests run it in a process of its own")
	}
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	b, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var yielding sync.WaitGroup
	yielding.Go(func() { b.yieldTo(o.YieldTo) })
	server := rpc.NewServer()
	if err := server.RegisterName("node", &Node{b: b, leases: map[string]backend.Lease{}}); err != nil {
		t.Fatal(err)
	}
	server.ServeConn(pipes{os.Stdin, os.NewFile(3, "answers")})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	yielding.Wait()
}

// yieldTo sees to it that the node at an address is the raft leader once, unless the address is empty.
func (b *Backend) yieldTo(address string) {
	for address != "" && !b.closed.Load() {
		if at, _ := b.raft.LeaderWithID(); string(at) == address {
			return
		}
		if b.office.Load() != nil {
			_ = b.transferTo(address) // the next look tells
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// transferTo makes the node at an address the raft leader, if this one is.
func (b *Backend) transferTo(address string) error {
	for _, s := range b.servers() {
		if string(s.Address) == address && s.Suffrage == raft.Voter {
			return b.raft.LeadershipTransferToServer(s.ID, s.Address).Error()
		}
	}
	return errors.New("not a member")
}

// pipes are a connection of two ends of pipes.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// Node is what a process that is a node offers.
type Node struct {
	b      *Backend
	mu     sync.Mutex
	leases map[string]backend.Lease // by token
}

// Order is something for a node to do.
type Order struct {
	Do     action
	Key    string
	Token  string
	Fence  uint64
	TTL    time.Duration // or what is kept
	Within time.Duration
	Record backend.Record
}

// Outcome is what came of an order.
type Outcome struct {
	Result  result
	Err     string // if the result is unknown
	Fence   uint64
	Holder  backend.Holder
	Version string
	Records []backend.Record
	Leads   bool
}

const (
	leading      action = "leading"
	transferring action = "transferring"
)

// Execute executes an order.
func (n *Node) Execute(o *Order, out *Outcome) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.Within)
	defer cancel()
	err := n.execute(ctx, o, out)
	if h, ok := errors.AsType[*backend.HeldError](err); ok {
		out.Holder = h.Holder
	}
	out.Result = replied(err).result
	if out.Result == unknown {
		out.Err = err.Error()
	}
	return nil
}

func (n *Node) execute(ctx context.Context, o *Order, out *Outcome) (err error) {
	switch o.Do {
	case acquiring:
		var l backend.Lease
		l, err = n.b.TryAcquire(ctx, backend.Request{Key: o.Key, Token: o.Token, Owner: o.Token, TTL: o.TTL})
		if err == nil {
			out.Fence = l.Fence()
			n.mu.Lock()
			n.leases[o.Token] = l
			n.mu.Unlock()
		}
	case renewing:
		l := n.lease(o.Token)
		if l == nil || l.Fence() != o.Fence {
			return errors.New("not in this process")
		}
		return l.Renew(ctx, o.TTL)
	case releasing:
		l := n.lease(o.Token)
		if l == nil || l.Fence() != o.Fence {
			return errors.New("not in this process")
		}
		return l.Release(ctx, o.TTL)
	case abandoning:
		return n.b.Abandon(ctx, backend.Request{Key: o.Key, Token: o.Token, Owner: o.Token, TTL: minTTL})
	case breaking:
		return n.b.Break(ctx, o.Key, o.Fence)
	case inspecting:
		out.Holder, err = n.b.Inspect(ctx, o.Key)
	case putting:
		out.Version, err = n.b.PutRecord(ctx, o.Record)
	case getting:
		out.Records, _, err = n.b.GetRecords(ctx, o.Key)
	case deleting:
		return n.b.DeleteRecord(ctx, o.Record)
	case leading:
		out.Leads = n.b.office.Load() != nil
	case transferring:
		return n.b.raft.LeadershipTransfer().Error()
	}
	return err
}

func (n *Node) lease(token string) backend.Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leases[token]
}

// process is a node in a process of its own.
type process struct {
	*os.Process

	client *rpc.Client
	ended  chan struct{}
}

// startNode starts a node in a process of its own, which ends with the test.
func startNode(t testing.TB, o orders) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-test.run=^TestNode$", "-test.timeout=5m")
	cmd.Env = append(withoutOverlap(), nodeEnv+"="+string(text))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{out}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Start()
	_ = out.Close() // the child's copy counts
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Process: cmd.Process, client: rpc.NewClient(pipes{in, stdin}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			t.Logf("a node's process ended with %v:\n%s", err, output.String())
		}
	}()
	t.Cleanup(p.kill9)
	return p
}

// withoutOverlap is the environment of a process that is no part of [backendtest.Overlap].
func withoutOverlap() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "LEADER_OVERLAP_CHILD=") {
			env = append(env, e)
		}
	}
	return env
}

// kill9 ends the process without warning.
func (p *process) kill9() {
	_ = p.Kill() // it may have ended
	<-p.ended
	_ = p.client.Close() // likewise
}

func (p *process) stop() { _ = p.Signal(syscall.SIGSTOP) }
func (p *process) cont() { _ = p.Signal(syscall.SIGCONT) }

// order gives an order; its outcome is unknown if ctx ends before it is known.
func (p *process) order(ctx context.Context, o Order) (Outcome, error) {
	o.Within = askTimeout
	if deadline, ok := ctx.Deadline(); ok {
		o.Within = time.Until(deadline)
	}
	out := new(Outcome)
	call := p.client.Go("node.Execute", &o, out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	switch out.Result {
	case done:
		return *out, nil
	case held:
		return *out, &backend.HeldError{Holder: out.Holder}
	case lost:
		return *out, backend.ErrLost
	case conflict:
		return *out, backend.ErrConflict
	default:
		return *out, errors.Join(call.Error, errors.New(out.Err))
	}
}

// leads reports whether the node is the raft leader.
func (p *process) leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := p.order(ctx, Order{Do: leading})
	return err == nil && out.Leads
}

// remote is a node in another process, as a driver.
type remote struct{ *process }

var _ driver = remote{}

// Name implements [backend.Driver].
func (remote) Name() string { return "raft" }

// TryAcquire implements [backend.Driver].
func (r remote) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	out, err := r.order(ctx, Order{Do: acquiring, Key: req.Key, Token: req.Token, TTL: req.TTL})
	if err != nil {
		return nil, err
	}
	return remoteLease{r, req.Key, req.Token, out.Fence}, nil
}

// Abandon implements [backend.Driver].
func (r remote) Abandon(ctx context.Context, req backend.Request) error {
	_, err := r.order(ctx, Order{Do: abandoning, Key: req.Key, Token: req.Token})
	return err
}

// Inspect implements [backend.Driver].
func (r remote) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	out, err := r.order(ctx, Order{Do: inspecting, Key: key})
	return out.Holder, err
}

// Break implements [backend.Breaker].
func (r remote) Break(ctx context.Context, key string, fence uint64) error {
	_, err := r.order(ctx, Order{Do: breaking, Key: key, Fence: fence})
	return err
}

// PutRecord implements [backend.Records].
func (r remote) PutRecord(ctx context.Context, record backend.Record) (string, error) {
	out, err := r.order(ctx, Order{Do: putting, Record: record})
	return out.Version, err
}

// GetRecords implements [backend.Records].
func (r remote) GetRecords(ctx context.Context, prefix string) ([]backend.Record, time.Time, error) {
	out, err := r.order(ctx, Order{Do: getting, Key: prefix})
	return out.Records, time.Time{}, err
}

// DeleteRecord implements [backend.Records].
func (r remote) DeleteRecord(ctx context.Context, record backend.Record) error {
	_, err := r.order(ctx, Order{Do: deleting, Record: record})
	return err
}

type remoteLease struct {
	remote     remote
	key, token string
	fence      uint64
}

func (l remoteLease) Fence() uint64 { return l.fence }

func (l remoteLease) Renew(ctx context.Context, ttl time.Duration) error {
	_, err := l.remote.order(ctx, Order{Do: renewing, Key: l.key, Token: l.token, Fence: l.fence, TTL: ttl})
	return err
}

func (l remoteLease) Release(ctx context.Context, keep time.Duration) error {
	_, err := l.remote.order(ctx, Order{Do: releasing, Key: l.key, Token: l.token, Fence: l.fence, TTL: keep})
	return err
}
