package sqliteleader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/sqliteleader"
)

const (
	shared  = 2 // slots
	sharers = 3 // goroutines in each process
	raises  = 100
)

// share runs terms in a group and prints for each its slot, its fence, and what it counted in a file of the slot.
func share(ctx context.Context, b *sqliteleader.Backend) error {
	errs := make([]error, sharers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for range terms {
				errs[i] = errors.Join(errs[i], shareOnce(ctx, b))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func shareOnce(ctx context.Context, b *sqliteleader.Backend) error {
	l, slot, err := winSlot(ctx, b)
	if err != nil {
		return err
	}
	n, err := count(os.Getenv(fileVar) + ".count" + strconv.Itoa(slot))
	if err != nil {
		return err
	}
	fmt.Println(slot, l.Fence(), n)
	err = l.Release(ctx, 0)
	for backend.KindOf(err) == backend.Unavailable && ctx.Err() == nil {
		err = l.Release(ctx, 0)
	}
	return err
}

// winSlot tries for a slot of "g" until it has one.
func winSlot(ctx context.Context, b *sqliteleader.Backend) (l backend.Lease, slot int, err error) {
	for {
		req := request("g", time.Minute)
		req.Token = fmt.Sprintf("%d-%s", os.Getpid(), req.Token)
		l, slot, err = b.TryAcquireSlot(ctx, req, shared)
		busy := errors.Is(err, backend.ErrHeld) || backend.KindOf(err) == backend.Unavailable
		if !busy || ctx.Err() != nil {
			return l, slot, err
		}
		time.Sleep(time.Millisecond)
	}
}

// raise adds to a record by compare-and-set.
func raise(ctx context.Context, b *sqliteleader.Backend) error {
	for done := 0; done < raises; {
		list, _, err := b.GetRecords(ctx, "a!n/")
		if err != nil {
			return err
		}
		r := backend.Record{Key: "a!n/1"}
		if len(list) > 0 {
			r = list[0]
		}
		n, _ := strconv.Atoi(string(r.Value))
		r.Value = strconv.AppendInt(nil, int64(n+1), 10)
		_, err = b.PutRecord(ctx, r)
		switch {
		case err == nil:
			done++
		case errors.Is(err, backend.ErrConflict), backend.KindOf(err) == backend.Unavailable && ctx.Err() == nil:
		default:
			return err
		}
	}
	return nil
}

func TestBackend_Processes_ShareAGroup(t *testing.T) {
	type term struct{ n, fence int }
	bySlot := make(map[int][]term)
	lines := together(t, "share", newPath(t))
	for _, line := range lines {
		var slot int
		var one term
		if _, err := fmt.Sscan(line, &slot, &one.fence, &one.n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		bySlot[slot] = append(bySlot[slot], one)
	}
	if len(lines) != processes*sharers*terms || len(bySlot) != shared {
		t.Errorf("%d terms in %d slots", len(lines), len(bySlot))
	}
	for slot, list := range bySlot {
		slices.SortFunc(list, func(a, b term) int { return a.fence - b.fence })
		for i, one := range list {
			if one.n != i+1 {
				t.Fatalf("slot %d: term %d counted %d: %v", slot, i+1, one.n, list)
			}
		}
	}
}

func TestBackend_Processes_LoseNoUpdateOfARecord(t *testing.T) {
	path := newPath(t)
	together(t, "raise", path)
	got := stored(t, open(t, path), "a!n/")
	if len(got) != 1 || string(got[0].Value) != strconv.Itoa(processes*raises) {
		t.Errorf("stored: %+v, want %d", got, processes*raises)
	}
}
