package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/local"
)

const ttl = time.Minute

func request(key, token string) backend.Request {
	return backend.Request{Key: key, Token: token, Owner: "owner of " + token, TTL: ttl, Metadata: map[string]string{"k": token}}
}

func acquire(t *testing.T, b *local.Backend, key, token string) backend.Lease {
	t.Helper()
	l, err := b.TryAcquire(t.Context(), request(key, token))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBackend_TryAcquire_ExcludesOthersUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		l := acquire(t, b, "a", "1")
		time.Sleep(ttl - 1)
		_, err := b.TryAcquire(t.Context(), request("a", "2"))
		held, ok := errors.AsType[*backend.HeldError](err)
		if !ok || held.Holder.Fence != l.Fence() || held.Holder.Owner != "owner of 1" || held.Holder.Remaining != 1 {
			t.Errorf("got %v, %+v", err, held)
		}
		time.Sleep(time.Nanosecond)
		if next := acquire(t, b, "a", "2"); next.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
	})
}

func TestBackend_TryAcquire_ARepetitionMovesTheEndAndKeepsTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		first := acquire(t, b, "a", "1")
		time.Sleep(ttl / 2)
		second := acquire(t, b, "a", "1")
		if second.Fence() != first.Fence() {
			t.Errorf("fence %d became %d", first.Fence(), second.Fence())
		}
		if h, err := b.Inspect(t.Context(), "a"); err != nil || h.Remaining != ttl {
			t.Errorf("got %+v, %v, want the whole ttl", h, err)
		}
	})
}

func TestBackend_TryAcquire_RefusesASpentToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		if err := acquire(t, b, "a", "1").Release(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := b.Abandon(t.Context(), request("b", "1")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if _, err := b.TryAcquire(t.Context(), request(key, "1")); !errors.Is(err, backend.ErrLost) {
				t.Errorf("%s: got %v, want ErrLost", key, err)
			}
		}
	})
}

func TestBackend_TryAcquire_RefusesATTLUnderItsMinimum(t *testing.T) {
	b := local.New()
	req := request("a", "1")
	req.TTL = b.Limits().MinTTL - 1
	if _, err := b.TryAcquire(t.Context(), req); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("got %v, want Misconfigured", err)
	}
}

func TestLease_Renew_NeverShortensAndEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		l := acquire(t, b, "a", "1")
		if err := l.Renew(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl - 1)
		if err := l.Renew(t.Context(), time.Hour); err != nil {
			t.Fatalf("shortened: %v", err)
		}
		time.Sleep(time.Hour)
		if err := l.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if h, err := b.Inspect(t.Context(), "a"); err != nil || !h.Free() {
			t.Errorf("got %+v, %v, want free", h, err)
		}
	})
}

func TestLease_Release_LeavesASuccessorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		first := acquire(t, b, "a", "1")
		time.Sleep(ttl)
		second := acquire(t, b, "a", "2")
		if err := first.Release(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if err := b.Abandon(t.Context(), request("a", "1")); err != nil {
			t.Error(err)
		}
		if err := second.Renew(t.Context(), ttl); err != nil {
			t.Errorf("the successor was disturbed: %v", err)
		}
	})
}

func TestLease_Release_KeepsTheKeyTakenAndRepeatsWithoutLengthening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		l := acquire(t, b, "a", "1")
		for _, keep := range []time.Duration{20 * time.Second, 15 * time.Second} {
			if err := l.Release(t.Context(), keep); err != nil {
				t.Fatal(err)
			}
			if h, err := b.Inspect(t.Context(), "a"); err != nil || !h.Kept || h.Remaining != keep || h.Fence != l.Fence() {
				t.Errorf("got %+v, %v, want kept for %v", h, err, keep)
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(10 * time.Second)
		acquire(t, b, "a", "2")
	})
}

func TestBackend_AwaitRelease_ReturnsAtAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		l := acquire(t, b, "a", "1")
		h, _ := b.Inspect(t.Context(), "a")
		began := time.Now()
		time.AfterFunc(time.Second, func() { _ = l.Release(context.WithoutCancel(t.Context()), 0) })
		if err := b.AwaitRelease(t.Context(), "a", h.Seen); err != nil || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want nil after 1s", err, time.Since(began))
		}
		if err := b.AwaitRelease(t.Context(), "a", h.Seen); err != nil || time.Since(began) != time.Second {
			t.Errorf("got %v after %v: what was seen is no more", err, time.Since(began))
		}
	})
}

func TestBackend_AwaitRelease_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		acquire(t, b, "a", "1")
		h, _ := b.Inspect(t.Context(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.AwaitRelease(ctx, "a", h.Seen); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBackend_Watch_YieldsEveryHolderAndItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New()
		time.AfterFunc(time.Second, func() { acquire(t, b, "a", "1") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var seen []string
		var last error
		for h, err := range b.Watch(ctx, "a") {
			if last = err; err == nil {
				seen = append(seen, fmt.Sprintf("%q", h.Owner))
			}
		}
		if got := fmt.Sprint(seen); got != `["" "owner of 1" ""]` || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("seen %s and then %v", got, last)
		}
	})
}

func TestBackend_Methods_RefuseAContextThatIsDone(t *testing.T) {
	b := local.New()
	l := acquire(t, b, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, acquired := b.TryAcquire(ctx, request("b", "1"))
	_, inspected := b.Inspect(ctx, "a")
	for _, err := range []error{acquired, inspected, b.Abandon(ctx, request("a", "1")), l.Renew(ctx, ttl), l.Release(ctx, 0)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	}
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Errorf("a refused call changed something: %v", err)
	}
}

func TestBackend_CopiesTheMetadata(t *testing.T) {
	b := local.New()
	req := request("a", "1")
	if _, err := b.TryAcquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	req.Metadata["k"] = "changed later"
	h, _ := b.Inspect(t.Context(), "a")
	h.Metadata["k"] = "changed by a reader"
	if h, _ := b.Inspect(t.Context(), "a"); h.Metadata["k"] != "1" {
		t.Errorf("metadata %v", h.Metadata)
	}
}
