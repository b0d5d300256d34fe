package status_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

type health struct {
	Status, Backend, Store, Problem string
	Failing                         []struct {
		Name, Fence string
		For         float64
	}
}

func check(t *testing.T, h http.Handler) (int, health) {
	t.Helper()
	w := get(t, h, "/healthz")
	var answer health
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("a secret is shown: %s", w.Body)
	}
	return w.Code, answer
}

func TestPage_Health_IsDownWhileTheStoreCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStore()
		h := newPage(t, d, nil).Health()
		if code, answer := check(t, h); code != http.StatusOK || answer.Status != "UP" || answer.Store != "UP" {
			t.Errorf("%d %+v, want up", code, answer)
		}
		d.down(errDown)
		time.Sleep(time.Second)
		code, answer := check(t, h)
		if code != http.StatusServiceUnavailable || answer.Status != "DOWN" || answer.Store != "DOWN" || answer.Problem == "" {
			t.Errorf("%d %+v, want down", code, answer)
		}
		d.up()
		time.Sleep(time.Second)
		if code, answer := check(t, h); code != http.StatusOK || answer.Status != "UP" {
			t.Errorf("%d %+v, want up again", code, answer)
		}
	})
}

func TestPage_Health_AsksTheStoreAtMostOnceASecond(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newStore()
			if down {
				d.down(errDown)
			}
			h := newPage(t, d, nil).Health()
			for range 100 {
				if code, _ := check(t, h); down == (code == http.StatusOK) {
					t.Fatalf("down %t: %d", down, code)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if n := d.inspects.Load(); n > 3 {
				t.Errorf("down %t: the store was asked %d times in two seconds", down, n)
			}
		})
	}
}

func TestPage_Health_DoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStore()
		d.hangs.Store(true)
		h := newPage(t, d, nil).Health()
		begin := time.Now()
		code, answer := check(t, h)
		if code != http.StatusServiceUnavailable || !strings.Contains(answer.Problem, "does not answer") {
			t.Errorf("%d %+v, want down", code, answer)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		d.hangs.Store(false)
		time.Sleep(5 * time.Second) // for the call that hangs to end
	})
}

// unrenewable is a store whose leases cannot be renewed while that is set.
type unrenewable struct {
	*local.Backend
	fails atomic.Bool
	hangs bool // it does not answer, instead of failing at once
}

func (u *unrenewable) Limits() backend.Limits { return backend.Limits{MinTTL: time.Millisecond} }

func (u *unrenewable) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	l, err := u.Backend.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return &unrenewableLease{l, u}, nil
}

type unrenewableLease struct {
	backend.Lease

	store *unrenewable
}

func (l *unrenewableLease) Renew(ctx context.Context, ttl time.Duration) error {
	if !l.store.fails.Load() {
		return l.Lease.Renew(ctx, ttl)
	}
	if l.store.hangs {
		<-ctx.Done()
	}
	return errDown
}

// failingFor returns how long a lease of time 60 s has been without renewal when health tells of it, and whether it did
// before the lease was lost. The store stops renewing after so many seconds.
func failingFor(t *testing.T, after time.Duration, hangs bool) (since time.Duration, told bool) {
	d := &unrenewable{Backend: local.New(), hangs: hangs}
	p := newPage(t, d, nil)
	e := newElector(t, d, "a", leader.WithHooks(p.Hooks()), leader.WithLeaseTime(time.Minute))
	l := acquire(t, e, "job")
	time.Sleep(after)
	d.fails.Store(true)
	begin := time.Now()
	for l.Err() == nil {
		time.Sleep(time.Second)
		code, answer := check(t, p.Health())
		if code == http.StatusOK {
			continue
		}
		if answer.Store != "UP" || len(answer.Failing) != 1 || answer.Failing[0].Name != "job" {
			t.Errorf("down because of %+v", answer)
		}
		return time.Since(begin), true
	}
	if code, answer := check(t, p.Health()); code != http.StatusOK {
		t.Errorf("after the loss %d %+v", code, answer)
	}
	return 0, false
}

func TestPage_Health_IsDownWhileALeaseFailsToRenew(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			// The last renewal was up to 22 s before, the next is a third of the lease after it, and it fails for another,
			// however long it is waited for.
			since, told := failingFor(t, time.Minute, hangs)
			if !told || since < 17*time.Second || since > 42*time.Second {
				t.Errorf("hangs %t: told %t after %v", hangs, told, since)
			}
			since, told = failingFor(t, 0, hangs)
			if !told || since < 40*time.Second || since > 42*time.Second {
				t.Errorf("hangs %t, never renewed: told %t after %v", hangs, told, since)
			}
		})
	}
}

func TestPage_Health_IsUpAgainAfterARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &unrenewable{Backend: local.New()}
		p := newPage(t, d, nil)
		e := newElector(t, d, "a", leader.WithHooks(p.Hooks()), leader.WithLeaseTime(time.Minute))
		acquire(t, e, "job")
		time.Sleep(time.Minute)
		d.fails.Store(true)
		for code := http.StatusOK; code == http.StatusOK; code, _ = check(t, p.Health()) {
			time.Sleep(time.Second)
		}
		d.fails.Store(false)
		time.Sleep(10 * time.Second)
		if code, answer := check(t, p.Health()); code != http.StatusOK {
			t.Errorf("%d %+v, want up again", code, answer)
		}
	})
}

func TestPage_Health_SparesAShortFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &unrenewable{Backend: local.New()}
		p := newPage(t, d, nil)
		e := newElector(t, d, "a", leader.WithHooks(p.Hooks()), leader.WithLeaseTime(time.Minute))
		acquire(t, e, "job")
		time.Sleep(time.Minute)
		d.fails.Store(true)
		for range 24 {
			time.Sleep(500 * time.Millisecond)
			if code, answer := check(t, p.Health()); code != http.StatusOK {
				t.Fatalf("%d %+v", code, answer)
			}
		}
		d.fails.Store(false)
		time.Sleep(time.Minute)
		if code, answer := check(t, p.Health()); code != http.StatusOK {
			t.Errorf("%d %+v", code, answer)
		}
	})
}
