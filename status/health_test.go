package status_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	fails    atomic.Bool
	hangs    bool // it does not answer, instead of failing at once
	readOnly bool // it neither gives nor ends leases while it fails
}

func (u *unrenewable) Limits() backend.Limits { return backend.Limits{MinTTL: time.Millisecond} }

func (u *unrenewable) TryAcquire(ctx context.Context, req backend.Request) (backend.Lease, error) {
	if u.readOnly && u.fails.Load() {
		return nil, errDown
	}
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

func (l *unrenewableLease) Release(ctx context.Context, keep time.Duration) error {
	if l.store.readOnly && l.store.fails.Load() {
		return errDown
	}
	return l.Lease.Release(ctx, keep)
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

// lapse lets a campaign of a lease time of 30 s lose its lease to a store that can be read and not be written. It goes on.
func lapse(t *testing.T) (d *unrenewable, h http.Handler, stop context.CancelFunc) {
	t.Helper()
	d = &unrenewable{Backend: local.New(), readOnly: true}
	p := newPage(t, d, nil)
	e := newElector(t, d, "a", leader.WithHooks(p.Hooks()), leader.WithLeaseTime(30*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Campaign(ctx, "job", func(ctx context.Context) error {
			<-ctx.Done()
			lost <- struct{}{}
			return nil
		})
	}()
	synctest.Wait()
	d.fails.Store(true)
	<-lost
	return d, p.Health(), func() { cancel(); <-ended }
}

// wantFailing checks that health is down because of the job, and of nothing else.
func wantFailing(t *testing.T, h http.Handler) {
	t.Helper()
	code, answer := check(t, h)
	if code != http.StatusServiceUnavailable || answer.Store != "UP" || len(answer.Failing) != 1 || answer.Failing[0].Name != "job" {
		t.Errorf("%d %+v, want down because of the job", code, answer)
	}
}

func wantUp(t *testing.T, h http.Handler) {
	t.Helper()
	if code, answer := check(t, h); code != http.StatusOK {
		t.Errorf("%d %+v, want up", code, answer)
	}
}

func TestPage_Health_IsDownAfterTheLossUntilALeaseIsAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, stop := lapse(t)
		defer stop()
		for range 100 {
			wantFailing(t, h)
			time.Sleep(3 * time.Second)
		}
		d.fails.Store(false)
		time.Sleep(time.Minute)
		wantUp(t, h)
	})
}

func TestPage_Health_IsUpOnceAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, stop := lapse(t)
		defer stop()
		time.Sleep(time.Minute)
		wantFailing(t, h)
		acquire(t, newElector(t, d.Backend, "b"), "job")
		time.Sleep(2 * time.Second)
		wantUp(t, h)
	})
}

func TestPage_Health_ForgetsALossForWhichNobodyTriesAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, stop := lapse(t)
		time.Sleep(time.Minute)
		stop()
		time.Sleep(29 * time.Second)
		wantFailing(t, h)
		time.Sleep(2 * time.Second)
		wantUp(t, h)
	})
}

func TestPage_Health_ForgetsALossWhenTheStoreSaysThatAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, local.New(), nil)
		hooks, lease := p.Hooks(), leader.LeaseInfo{Name: "job", Key: "job", Fence: 1, Lasts: time.Minute, Acquired: time.Now()}
		ctx := hooks.RunStarted(t.Context(), "job")
		hooks.Acquired(ctx, lease)
		hooks.RenewFailed(ctx, lease, errDown)
		time.Sleep(time.Minute)
		hooks.Lost(ctx, lease, fmt.Errorf("%w: %w", leader.ErrLeaseLost, leader.ErrExpired))
		for _, r := range []leader.RunResult{
			{Outcome: leader.Elected, Lost: leader.ErrLeaseLost}, {Outcome: leader.Skipped, Reason: leader.BackendFailed},
		} {
			hooks.RunFinished(ctx, "job", r, nil)
			wantFailing(t, p.Health())
			hooks.RunStarted(ctx, "job")
		}
		hooks.RunFinished(ctx, "job", leader.RunResult{Outcome: leader.Skipped, Reason: leader.Contended}, nil)
		wantUp(t, p.Health())
	})
}

func TestPage_Health_IsUpAfterALossThatSaysNothingOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, local.New(), nil)
		hooks := p.Hooks()
		for name, row := range map[string]struct {
			failed bool
			cause  error
		}{
			"no renewal was tried":     {false, leader.ErrExpired},
			"another has it":           {true, leader.ErrTakenOver},
			"it was held for too long": {true, leader.ErrMaxHold},
		} {
			l := leader.LeaseInfo{Name: name, Key: name, Fence: 1, Lasts: time.Minute, Acquired: time.Now()}
			hooks.Acquired(t.Context(), l)
			if row.failed {
				hooks.RenewFailed(t.Context(), l, errDown)
			}
			hooks.Lost(t.Context(), l, fmt.Errorf("%w: %w", leader.ErrLeaseLost, row.cause))
			wantUp(t, p.Health())
		}
	})
}

func TestPage_Health_RemembersABoundedNumberOfLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, local.New(), nil)
		hooks := p.Hooks()
		lose := func(from, to int) {
			for i := range to - from {
				name := fmt.Sprint("job-", from+i)
				l := leader.LeaseInfo{Name: name, Key: name, Fence: 1, Lasts: time.Minute, Acquired: time.Now()}
				hooks.Acquired(t.Context(), l)
				hooks.RenewFailed(t.Context(), l, errDown)
				hooks.Lost(t.Context(), l, leader.ErrExpired)
			}
		}
		lose(0, 3000)
		if _, answer := check(t, p.Health()); len(answer.Failing) != 1000 {
			t.Errorf("%d losses are remembered", len(answer.Failing))
		}
		time.Sleep(2 * time.Minute) // in which nobody asks for the health
		lose(5000, 5001)
		if _, answer := check(t, p.Health()); len(answer.Failing) != 1 || answer.Failing[0].Name != "job-5000" {
			t.Errorf("%d losses are remembered later", len(answer.Failing))
		}
	})
}
