package backendtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

func (d *faultyDriver) List(ctx context.Context, prefix string, all bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		if err := d.enter(ctx); err != nil {
			if d.sin != "list ends without an error" {
				yield(backend.Entry{}, err)
			}
			return
		}
		d.mu.Lock()
		entries, harmed := d.entries(prefix, all)
		if d.sin == "list holds the store meanwhile" {
			defer d.mu.Unlock()
		} else {
			d.mu.Unlock()
		}
		for _, e := range entries {
			if !yield(e, nil) && d.sin != "list does not notice that it was left" {
				return
			}
		}
		if harmed && d.sin == "list fails because of a foreign record" {
			yield(backend.Entry{}, backend.WithKind(errHarmed, backend.Misconfigured))
		}
	}
}

// entries is what List yields, and whether anything could not be read. d.mu is held.
func (d *faultyDriver) entries(prefix string, all bool) (list []backend.Entry, harmed bool) {
	for key, r := range d.records {
		if !d.begins(key, prefix) {
			continue
		}
		if r.damage != 0 {
			harmed = true
			if d.sin != "list shows what is "+r.damage.String() {
				continue
			}
		} else if !d.shown(r, all) {
			continue
		}
		list = append(list, d.entry(key, r))
	}
	if d.sin == "lists records" {
		for key := range d.values {
			list = append(list, backend.Entry{Key: key, Holder: backend.Holder{Owner: "record", Fence: 1}})
		}
	}
	if d.sin == "list yields the first page alone" {
		list = list[:min(len(list), 100)]
	}
	if d.sin == "list stops at what it cannot read" && harmed {
		list = list[:len(list)/2]
	}
	slices.SortFunc(list, func(a, b backend.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, harmed
}

func (d *faultyDriver) begins(key, prefix string) bool {
	if d.sin == "takes a prefix for a pattern" {
		return like(key, prefix)
	}
	return strings.HasPrefix(key, prefix)
}

// shown reports whether List yields the record.
func (d *faultyDriver) shown(r *faultyRecord, all bool) bool {
	switch {
	case !d.free(r) && !r.kept:
		return true
	case !d.free(r):
		return all && d.sin != "list never shows what is kept" || d.sin == "list shows what is kept"
	case r.token == "":
		return d.sin == "list shows what is free" && r.fence != 0
	}
	return all && d.sin != "list never shows what has expired" || d.sin == "list shows what has expired"
}

func (d *faultyDriver) entry(key string, r *faultyRecord) backend.Entry {
	h := d.holder(r)
	if d.sin != "list shows time left of an expired lease" {
		h.Remaining = max(h.Remaining, 0)
	}
	switch d.sin {
	case "list forgets the fence":
		h.Fence = 0
	case "lists the store's own keys":
		key = "leader:{" + key + "}"
	case "list drops the slot":
		key, _, _ = strings.Cut(key, "#")
	}
	return backend.Entry{Key: key, Holder: h}
}

func (d *faultyDriver) Break(ctx context.Context, key string, fence uint64) error {
	if err := d.enter(ctx); err != nil && d.sin != "ignores the context of a break" {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key = d.mapped(key)
	r, err := d.record(key)
	switch {
	case err != nil:
		return err
	case d.free(r) && d.sin == "break of a free key is nil":
		return nil
	case d.free(r), r.kept && d.sin == "breaks nothing that is kept":
		return backend.ErrConflict
	case r.fence != fence && !d.mayBreak(r, fence):
		return backend.ErrConflict
	}
	d.breakLease(key, r)
	return nil
}

// mayBreak commits the sins of breaking under another fence.
func (d *faultyDriver) mayBreak(r *faultyRecord, fence uint64) bool {
	return d.sin == "breaks without a fence" || d.sin == "breaks under an earlier fence" && fence != 0 && fence < r.fence
}

// breakLease ends a lease or what is kept of it. d.mu is held.
func (d *faultyDriver) breakLease(key string, r *faultyRecord) {
	token := r.token
	if r.kept {
		token = r.spent
	}
	r.broken = true
	switch d.sin {
	case "break does nothing":
	case "break forgets to spend the token":
		d.end(key, r, "", time.Now())
	case "break wakes nobody":
		d.end("", r, token, time.Now())
	case "break of a slot frees the whole group":
		for _, other := range append(d.neighbours(r), r) {
			d.end(key, other, other.token, time.Now())
		}
	default:
		d.end(key, r, token, time.Now())
	}
}

func (d *faultyDriver) Advise(ctx context.Context) ([]string, error) {
	if err := d.enter(ctx); err != nil {
		if d.sin == "advice hides why it ended" {
			return nil, errors.New("no answer")
		}
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.sin {
	case "advice fails":
		return nil, errors.New("the settings cannot be read")
	case "advice shows a token":
		for _, r := range d.records {
			return []string{fmt.Sprintf("the newest record is %+v", *r)}, nil
		}
	}
	return []string{"the store is in memory: a restart of the process forgets every lease"}, nil
}
