package etcdleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goleader/leader/backend"
)

// window is how many slots one transaction tries.
const window = 16

// slotTry is an attempt for any slot of a group.
type slotTry struct {
	*candidacy

	group string // what the places of its slots begin with, before their numbers
	n     int
	order []int // the slots to try
	slot  int   // the one that was taken
}

// TryAcquireSlot makes one attempt at all n slots. One transaction takes the first free one of up to 16, and reads them
// all if it finds none; where that shows a free one among the others, a second one takes that. The holder in a HeldError
// is the one that came first, because etcd does not tell whose lease ends first.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	c, err := b.candidate(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	defer b.attempts.leave(c.turn)
	s := &slotTry{candidacy: c, group: b.prefix + req.Key + "#", n: n, order: rand.Perm(n)}
	if t := b.attempts.termOf(c.turn); t != nil {
		slot, _ := s.number(t.place)
		lease, err := t.again(ctx)
		return lease, slot, err
	}
	// An earlier attempt may have a slot, or still get one, while this one finds another.
	if err := b.leases.settle(ctx, req.Token); err != nil {
		return nil, 0, classify(ctx, err)
	}
	t, err := c.insist(ctx, func() (*term, error) { return s.try(ctx) })
	if err != nil {
		return nil, 0, err
	}
	return t, s.slot, nil
}

func (s *slotTry) place(slot int) string { return s.group + strconv.Itoa(slot) + idMark }

// number is the slot that is at a place. ok is false for what is none of ours.
func (s *slotTry) number(place string) (slot int, ok bool) {
	slot, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(place, s.group), idMark))
	return slot, err == nil && slot >= 0 && s.place(slot) == place
}

func (s *slotTry) try(ctx context.Context) (*term, error) {
	order := s.order[:min(len(s.order), window)]
	answer, err := s.kv.Do(ctx, s.takeFirst(order))
	if err != nil {
		return nil, err
	}
	txn := (*pb.TxnResponse)(answer.Txn())
	s.leases.heard(txn.Header)
	for _, slot := range order {
		if txn.Succeeded {
			s.slot = slot
			revision := answer.Txn().Header.Revision
			return s.won(ctx, s.key(s.place(slot)), revision, revision)
		}
		if next := txn.Responses[0].GetResponseTxn(); next != nil {
			txn = next
		}
	}
	return s.none(ctx, txn.Responses[0].GetResponseRange().Kvs)
}

// takeFirst is a transaction that takes the first free slot, or reads all.
func (s *slotTry) takeFirst(order []int) clientv3.Op {
	op := clientv3.OpGet(s.group, clientv3.WithPrefix())
	for _, slot := range slices.Backward(order) {
		place := s.place(slot)
		op = clientv3.OpTxn([]clientv3.Cmp{isFree(place)}, []clientv3.Op{s.put(s.key(place))}, []clientv3.Op{op})
	}
	return op
}

// none looks at all slots after none of those that were tried was free.
func (s *slotTry) none(ctx context.Context, kvs []*mvccpb.KeyValue) (*term, error) {
	taken := make(map[int]bool)
	var first *backend.HeldError
	for _, kv := range kvs {
		slot, ok := s.number(placeOf(string(kv.Key)))
		if !ok || slot >= s.n {
			continue
		}
		r, err := decode(kv)
		switch {
		case err != nil: // It is not free.
		case r.Token == s.req.Token:
			s.slot = slot
			return s.adopt(ctx, kv, r)
		case isStray(kv):
			if err := s.clear(ctx, kv); err != nil {
				return nil, err
			}
			continue
		case first == nil, fenceOf(kv) < first.Holder.Fence:
			first = &backend.HeldError{Holder: r.holder(kv)}
		}
		taken[slot] = true
	}
	s.order = s.order[:0]
	for _, slot := range rand.Perm(s.n) {
		if !taken[slot] {
			s.order = append(s.order, slot)
		}
	}
	switch {
	case len(s.order) > 0:
		return nil, errRetry
	case first == nil:
		return nil, &backend.HeldError{}
	}
	return nil, first
}
