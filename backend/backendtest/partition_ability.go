package backendtest

import (
	"context"

	"github.com/goleader/leader/backend"
)

// partitionEndsAbilities makes those calls that the driver offers.
func partitionEndsAbilities(t *caseT) {
	a, _ := t.pair()
	calls := t.abilityCalls(a)
	if len(calls) == 0 {
		t.lack(a.Name() + " offers none of the abilities")
	}
	heal := t.partition()
	defer heal()
	t.endsCalls(calls, heal)
}

// abilityCalls returns a call of each method of d's abilities.
func (t *caseT) abilityCalls(a backend.Driver) map[string]func(ctx context.Context) error {
	calls := make(map[string]func(ctx context.Context) error)
	if s, ok := backend.As[backend.SlotAcquirer](a); ok {
		calls["TryAcquireSlot"] = func(ctx context.Context) error {
			_, _, err := s.TryAcquireSlot(ctx, t.request("group", t.ttl()), 3)
			return err
		}
	}
	if r, ok := backend.As[backend.Records](a); ok {
		calls["PutRecord"] = func(ctx context.Context) error {
			_, err := r.PutRecord(ctx, backend.Record{Key: record1, TTL: t.ttl()})
			return err
		}
		calls["GetRecords"] = func(ctx context.Context) error {
			_, _, err := r.GetRecords(ctx, recordSet)
			return err
		}
		calls["DeleteRecord"] = func(ctx context.Context) error {
			return r.DeleteRecord(ctx, backend.Record{Key: recordSet + "missing"})
		}
	}
	if l, ok := backend.As[backend.Lister](a); ok {
		calls["List"] = func(ctx context.Context) (last error) {
			for _, err := range l.List(ctx, "", true) {
				last = err
			}
			return last
		}
	}
	if br, ok := backend.As[backend.Breaker](a); ok {
		calls["Break"] = func(ctx context.Context) error { return br.Break(ctx, "other", 1) }
	}
	if ad, ok := backend.As[backend.Advisor](a); ok {
		calls["Advise"] = func(ctx context.Context) error {
			_, err := ad.Advise(ctx)
			return err
		}
	}
	return calls
}
