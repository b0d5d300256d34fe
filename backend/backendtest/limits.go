package backendtest

import (
	"errors"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

func limitsCases() []testCase {
	return []testCase{
		{
			name: "Limits_RefuseATTLOutside",
			rule: ruleTime,
			says: "a TTL outside the limits is an error that names the limit, of kind Misconfigured, and takes nothing",
			run:  refuseATTLOutside,
		},
		{
			name: "Limits_RefuseARenewalOutside",
			rule: ruleTime,
			says: "a renewal with a TTL outside the limits is an error that names the limit, and leaves the lease alone",
			run:  refuseARenewalOutside,
		},
	}
}

// outside returns TTLs that the driver must refuse, each with the limit that its error must name.
func (t *caseT) outside() map[time.Duration]string {
	named := func(limit time.Duration) string {
		if limit == 0 {
			return ""
		}
		return limit.String()
	}
	low := t.limits.MinTTL
	ttls := map[time.Duration]string{0: named(low), -time.Second: named(low)}
	if low > 1 {
		ttls[low-1] = named(low)
	}
	if high := t.limits.MaxTTL; high > 0 {
		ttls[high+1] = named(high)
	}
	return ttls
}

func refuseATTLOutside(t *caseT) {
	a, b := t.pair()
	for ttl, limit := range t.outside() {
		_, err := t.try(a, t.request("job", ttl))
		t.names(err, ttl, limit)
		t.free(b, "job")
	}
}

func refuseARenewalOutside(t *caseT) {
	a, b := t.pair()
	t.needsFreeTTL()
	g := t.win(a, t.request("job", t.long()))
	for ttl, limit := range t.outside() {
		before := t.inspect(b, "job")
		t.names(g.Renew(t.Context(), ttl), ttl, limit)
		t.unharmed(b, g, before)
	}
}

// names checks the error for a TTL that lies beyond a limit.
func (t *caseT) names(err error, ttl time.Duration, limit string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("a TTL of %v is accepted", ttl)
	case errors.Is(err, backend.ErrHeld), errors.Is(err, backend.ErrLost):
		t.Fatalf("a TTL of %v: %v, want an error of its own", ttl, err)
	case backend.KindOf(err) != backend.Misconfigured:
		t.Errorf("a TTL of %v: %v, of kind %v, want Misconfigured", ttl, err, backend.KindOf(err))
	}
	if !strings.Contains(err.Error(), limit) {
		t.Errorf("a TTL of %v: %v, which does not name the limit %s", ttl, err, limit)
	}
}
