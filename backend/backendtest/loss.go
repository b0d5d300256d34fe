package backendtest

import "github.com/goleader/leader/backend"

func lossCases() []testCase {
	return []testCase{
		{
			name: "Loss_IsTold",
			rule: abilityLossNotifier,
			says: "the channel of a lease that another client ended is closed soon, without a call",
			run:  lossIsTold,
		},
		{
			name: "Loss_IsNoFalseAlarm",
			rule: abilityLossNotifier,
			says: "the channel of a lease that is held and renewed stays open",
			run:  lossIsNoFalseAlarm,
		},
	}
}

// lossOf returns the channel of a lease, and ends the case if it has none.
func (t *caseT) lossOf(g grant) <-chan struct{} {
	t.Helper()
	n, ok := g.Lease.(backend.LossNotifier)
	if !ok {
		t.lack(g.driver.Name() + " does not offer the ability LossNotifier")
	}
	c := n.Lost()
	if c == nil {
		t.Fatal("Lost returns nil")
	}
	return c
}

func lossIsTold(t *caseT) {
	a, b := t.pair()
	ends := []func(g grant){func(g grant) { t.abandoned(b, g.req) }}
	if br, ok := backend.As[backend.Breaker](b); ok {
		ends = append(ends, func(g grant) { t.broken(br, g) })
	}
	for _, end := range ends {
		g := t.win(a, t.request("job", t.long()))
		lost := t.lossOf(g)
		end(g)
		t.promptly("Lost is closed after another client ended the lease", func() {
			select {
			case <-lost:
			case <-t.Context().Done():
			}
		})
	}
}

func lossIsNoFalseAlarm(t *caseT) {
	a, b := t.pair()
	g := t.win(a, t.request("job", t.long()))
	lost := t.lossOf(g)
	t.abandoned(b, t.request("job", t.long()))
	for range 5 {
		t.refused(b, t.request("job", t.long()))
		t.renewed(g, t.long())
		t.pause(t.tick())
		select {
		case <-lost:
			t.Fatal("Lost is closed, and the lease is held")
		default:
		}
	}
}
