package etcdleader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/etcdleader"
)

func TestBackend_ForeignKeys_ChangeNothing(t *testing.T) {
	b, client := start(t)
	place := b.Place("job")
	session, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := concurrency.NewMutex(session, place).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := []string{
		place + "/1a2b3c", // as the lock has them
		place + "0", place + "\x00", place + "#", place + "#x", place + "#01", place + "#-1", place + "#10", place + "#5x",
		b.Place("") + "x", b.Place("!job!candidate/x"), b.Place("!job!candidate/"),
	}
	for _, key := range foreign {
		if _, err := client.Put(t.Context(), key, "1"); err != nil {
			t.Fatal(err)
		}
	}

	lease := win(t, b, request("job", long))
	wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
	waiting(t, wait)
	renew(t, lease)
	var held []backend.Lease
	for range 3 {
		slot, _, err := b.TryAcquireSlot(t.Context(), request("job", long), 3)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, slot)
	}
	if _, _, err := b.TryAcquireSlot(t.Context(), request("job", long), 3); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a fourth of 3 slots: %v", err)
	}
	record := backend.Record{Key: "job!candidate/node", Value: []byte("v")}
	if record.Version, err = b.PutRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	list, _, err := b.GetRecords(t.Context(), "job!candidate/")
	if err != nil || len(list) != 1 || string(list[0].Value) != "v" {
		t.Errorf("records %+v, %v", list, err)
	}
	if got := listed(t, b, ""); !slices.Equal(got, []string{"job", "job#0", "job#1", "job#2"}) {
		t.Errorf("listed %q", got)
	}
	release(t, lease, 0)
	woken(t, "the release", wait)
	for _, slot := range held {
		release(t, slot, 0)
	}
	if err := b.DeleteRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if left := keys(t, client, b.Place("")); len(left) != len(foreign)+1 { // and the key of the mutex
		t.Errorf("keys %q are left", left)
	}
}

func TestBackend_RecordsWithoutALease_AreNobodys(t *testing.T) {
	b, client := start(t)
	req := request("job", long)
	lease := win(t, b, req)
	lost := lease.(backend.LossNotifier).Lost()
	record := keyAt(t, client, b.Place("job"))
	wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
	waiting(t, wait)
	stray := func(key string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, string(record.Value)); err != nil {
			t.Fatal(err)
		}
	}
	stray(string(record.Key)) // as a copy leaves it
	closed(t, "the lease without one below it", lost)
	woken(t, "its end", wait)
	if h := inspect(t, b, "job"); !h.Free() {
		t.Errorf("the holder is %+v", h)
	}
	if got := listed(t, b, ""); len(got) != 0 {
		t.Errorf("listed %q", got)
	}
	if next := win(t, b, request("job", long)); next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}

	const n = 3
	for slot := range n {
		stray(b.Place(backend.SlotKey("group", slot)) + "\tcopy")
	}
	for range n {
		takeSlot(t, b, request("group", long), n)
	}
	if _, _, err := b.TryAcquireSlot(t.Context(), request("group", long), n); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("one more of %d slots: %v", n, err)
	}
}

// What a stranger puts beside the key of a lease, at its own place, refuses the next and takes nothing from who leads.
func TestBackend_ForeignKeyAtThePlace_IsNoLoss(t *testing.T) {
	b, client := start(t)
	lease := win(t, b, request("job", long))
	lost := lease.(backend.LossNotifier).Lost()
	wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
	waiting(t, wait)
	eventually(t, "the lease watches its key", func() bool { return etcdleader.IsWatched(lease) })
	for _, name := range []string{"", "0", "~"} { // before and after ours
		if _, err := client.Put(t.Context(), b.Place("job")+"\t"+name, "none of ours"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.TryAcquire(t.Context(), request("job", long)); backend.KindOf(err) != backend.Misconfigured &&
			!errors.Is(err, backend.ErrHeld) {
			t.Errorf("an attempt beside %q: %v", name, err)
		}
		if h := inspect(t, b, "job"); h.Fence != lease.Fence() {
			t.Errorf("the holder beside %q is %+v", name, h)
		}
		if _, err := client.Delete(t.Context(), b.Place("job")+"\t"+name); err != nil {
			t.Fatal(err)
		}
	}
	waiting(t, wait)
	select {
	case <-lost:
		t.Error("the lease is lost")
	default:
	}
	renew(t, lease)
	release(t, lease, 0)
	woken(t, "the release", wait)
	if left := keys(t, client, b.Place("")); len(left) != 0 {
		t.Errorf("keys %q are left", left)
	}
}

func TestBackend_ForeignKeyAtThePlace_HidesNoLease(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: b.Place("")})
	if _, err := client.Put(t.Context(), b.Place("job")+"\t", "none of ours"); err != nil { // sorts before ours
		t.Fatal(err)
	}
	take := func() (backend.Request, backend.Lease) {
		t.Helper()
		if _, err := client.Delete(t.Context(), b.Place("job")+"\t"); err != nil {
			t.Fatal(err)
		}
		req := request("job", long)
		lease := win(t, b, req)
		if _, err := client.Put(t.Context(), b.Place("job")+"\t", "none of ours"); err != nil {
			t.Fatal(err)
		}
		return req, lease
	}
	req, lease := take()
	if again := win(t, other, req); again.Fence() != lease.Fence() {
		t.Errorf("the repeated attempt has fence %d, want %d", again.Fence(), lease.Fence())
	}
	if err := b.Abandon(t.Context(), req); err != nil {
		t.Error(err)
	}
	lost(t, lease)
	_, lease = take()
	if err := other.Break(t.Context(), "job", lease.Fence()); err != nil {
		t.Error(err)
	}
	lost(t, lease)
}

// A waiter that is told of a state that is over would come back at once, again and again.
func TestBackend_AwaitRelease_KnowsAKeyThatWasMovedInOneStep(t *testing.T) {
	b, client := start(t)
	win(t, b, request("job", long))
	wait := await(t.Context(), b, "job", holder(t, b, "job").Seen)
	waiting(t, wait)
	key := keyAt(t, client, b.Place("job"))
	moved := clientv3.OpPut(b.Place("job")+"\tmoved", string(key.Value), clientv3.WithLease(clientv3.LeaseID(key.Lease)))
	if _, err := client.Txn(t.Context()).Then(moved, clientv3.OpDelete(string(key.Key))).Commit(); err != nil {
		t.Fatal(err)
	}
	woken(t, "the move", wait)
	waiting(t, await(t.Context(), b, "job", holder(t, b, "job").Seen))
}

func listed(t testing.TB, b *etcdleader.Backend, prefix string) (list []string) {
	t.Helper()
	for e, err := range b.List(t.Context(), prefix, true) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Key)
	}
	slices.Sort(list)
	return list
}

func TestBackend_Prefix_SeparatesBackends(t *testing.T) {
	b, client := start(t)
	other := open(t, client, &etcdleader.Options{Prefix: prefix()})
	win(t, b, request("job", long))
	win(t, other, request("job", long))
	if got := listed(t, other, ""); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
}

func TestNew_UsesThePrefixThatIsDocumented(t *testing.T) {
	client := connect(t, ownServer(t))
	win(t, open(t, client, nil), request("nightly", long))
	want := fmt.Sprintf("nightly\t%x", leaseOf(t, client, "leader/nightly"))
	if got := keys(t, client, "leader/"); !slices.Equal(got, []string{want}) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

func TestBackend_Check_NamesWhatIsWrong(t *testing.T) {
	for what, b := range map[string]*etcdleader.Backend{
		"nil":     etcdleader.New(nil, nil),
		"long":    etcdleader.New(&clientv3.Client{}, &etcdleader.Options{Prefix: string(make([]byte, 257))}),
		"UTF-8":   etcdleader.New(&clientv3.Client{}, &etcdleader.Options{Prefix: "\xff"}),
		"control": etcdleader.New(&clientv3.Client{}, &etcdleader.Options{Prefix: "a\n"}),
	} {
		err := b.Check()
		if backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%s: %v of kind %v", what, err, backend.KindOf(err))
		}
		for call, got := range map[string]error{
			"TryAcquire":   second(b.TryAcquire(t.Context(), request("job", long))),
			"Inspect":      second(b.Inspect(t.Context(), "job")),
			"Abandon":      b.Abandon(t.Context(), request("job", long)),
			"AwaitRelease": b.AwaitRelease(t.Context(), "job", ""),
			"Break":        b.Break(t.Context(), "job", 1),
			"Advise":       second(b.Advise(t.Context())),
			"PutRecord":    second(b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"})),
		} {
			if !errors.Is(got, err) {
				t.Errorf("%s: %s: %v, want %v", what, call, got, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("%s: Close: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestBackend_EndedContext_IsTheErrorOfEveryCall(t *testing.T) {
	b, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range map[string]error{
		"TryAcquireSlot": func() error { _, _, err := b.TryAcquireSlot(ctx, request("g", long), 2); return err }(),
		"GetRecords":     func() error { _, _, err := b.GetRecords(ctx, "job!run/"); return err }(),
		"AwaitRelease":   b.AwaitRelease(ctx, "job", ""),
		"Advise":         second(b.Advise(ctx)),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
