package backendtest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

func (d *faultyDriver) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if err := d.inLimits(req.TTL); err != nil && d.sin != "accepts any TTL in a group" {
		return nil, 0, err
	}
	if err := d.enter(ctx); err != nil && d.sin != "ignores the context in a group" {
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	slots, err := d.slots(req.Key, d.sinOnCount(req.Key, n))
	if err != nil {
		return nil, 0, err
	}
	slot, err := d.attemptSlot(slots, req)
	if err != nil {
		return nil, 0, err
	}
	r := slots[slot]
	slot %= n
	req.Key = d.slotKey(req.Key, slot)
	lease := d.lease(r, req)
	if d.sin == "gives the same number to every slot" {
		slot = 0
	}
	return lease, slot, nil
}

// sinOnCount is the number of slots that the group is taken to have. d.mu is held.
func (d *faultyDriver) sinOnCount(key string, n int) int {
	if d.first[key] == 0 {
		d.first[key] = n
	}
	switch d.sin {
	case "exceeds the number of slots":
		return n + 1
	case "sticks to the first number of slots":
		return d.first[key]
	}
	return n + d.extra[key]
}

// slotKey is the store's own name of a slot.
func (s *faultyStore) slotKey(key string, slot int) string {
	switch s.sin {
	case "groups of one prefix share slots":
		key, _, _ = strings.Cut(key, "%")
	case "hides slots from other calls":
		return s.mapped("\x00" + backend.SlotKey(key, slot))
	}
	return s.mapped(backend.SlotKey(key, slot))
}

// slots returns the records of slots 0 to n-1. d.mu is held.
func (d *faultyDriver) slots(key string, n int) ([]*faultyRecord, error) {
	list := make([]*faultyRecord, n)
	for i := range list {
		r, err := d.create(d.slotKey(key, i))
		if err != nil && d.sin == "overwrites a garbled slot" {
			delete(d.records, d.slotKey(key, i))
			r, err = d.create(d.slotKey(key, i))
		}
		if err != nil {
			return nil, err
		}
		list[i] = r
	}
	return list, nil
}

// attemptSlot returns the slot that the request has got. d.mu is held.
func (d *faultyDriver) attemptSlot(slots []*faultyRecord, req backend.Request) (int, error) {
	for i, r := range slots {
		first := i == 0 || d.sin != "looks for a spent token in the first slot alone"
		if r.spent == req.Token && first {
			return 0, backend.ErrLost
		}
	}
	for i, r := range slots {
		if !d.free(r) && !r.kept && r.token == req.Token && d.sin != "a repeated token takes a second slot" {
			if d.sin == "a repeat that meets a change takes a free slot" && d.meetsChange(slots) {
				break
			}
			d.repeatSlot(r, req)
			return i, nil
		}
	}
	if d.sin == "an attempt at a slot that meets a change is content" && d.meetsChange(slots) {
		return 0, d.loseSlot(slots)
	}
	for i, r := range slots {
		if !d.free(r) && !d.mayStealSlot(r) || d.sin == "counts the leases of all slots" && d.full(req.Key, len(slots)) {
			continue
		}
		if d.sin == "looks before it takes a slot" || d.sin == "gives repeats at once a slot each" {
			d.mu.Unlock()
			time.Sleep(time.Millisecond)
			d.mu.Lock()
			if d.sin != "looks before it takes a slot" && !d.free(r) {
				continue
			}
		}
		d.takeSlot(r, slots, backend.SlotKey(req.Key, i), req)
		return i, nil
	}
	return 0, d.loseSlot(slots)
}

// meetsChange reports whether another slot was taken beside a request. d.mu is held, but for a while.
func (d *faultyDriver) meetsChange(slots []*faultyRecord) bool {
	newest := func() (fence uint64) {
		for _, r := range slots {
			fence = max(fence, r.fence)
		}
		return fence
	}
	before := newest()
	d.mu.Unlock()
	time.Sleep(time.Millisecond)
	d.mu.Lock()
	return newest() != before
}

func (d *faultyDriver) repeatSlot(r *faultyRecord, req backend.Request) {
	if d.sin != "repeat does not refresh a slot" {
		d.repeat(r, req)
	}
}

// mayStealSlot commits the sins of taking a slot that is held. d.mu is held.
func (d *faultyDriver) mayStealSlot(r *faultyRecord) bool {
	d.refused++
	return d.sin == "gives a taken slot away now and then" && d.refused%150 == 0 ||
		d.sin == "gives a kept slot away" && r.kept
}

// full reports whether n slots are held, of whatever number. d.mu is held.
func (d *faultyDriver) full(group string, n int) bool {
	held := 0
	for key, r := range d.records {
		if strings.HasPrefix(key, group+"#") && !d.free(r) {
			held++
		}
	}
	return held >= n
}

// takeSlot gives a slot to the request. d.mu is held.
func (d *faultyDriver) takeSlot(r *faultyRecord, slots []*faultyRecord, key string, req backend.Request) {
	req.Key = key
	d.grant(r, req)
	for _, other := range slots {
		switch {
		case other == r || d.free(other):
		case d.sin == "shares one fence among the slots":
			other.fence = r.fence
		case d.sin == "a short lease ends its neighbours" && other.until.After(r.until):
			other.until = r.until
		case d.sin == "a long lease prolongs its neighbours":
			other.until = later(other.until, r.until)
		}
		r.until = later(r.until, r.since)
	}
	if d.sin == "a long lease prolongs its neighbours" {
		for _, other := range slots {
			if !d.free(other) {
				r.until = later(r.until, other.until)
			}
		}
	}
}

func (d *faultyDriver) loseSlot(slots []*faultyRecord) error {
	first := slots[0]
	for _, r := range slots[1:] {
		if d.sin != "names any holder of a full group" && r.until.Before(first.until) {
			first = r
		}
	}
	return &backend.HeldError{Holder: d.holder(first)}
}

// sinOnSlot commits the sins of a release that makes room. d.mu is held.
func (d *faultyDriver) sinOnSlot(l *faultyLease, r *faultyRecord) {
	group, _, ok := strings.Cut(l.key, "#")
	switch {
	case !ok || r == nil:
	case d.sin == "a repeated release of a slot raises capacity" && r.spent == l.token,
		d.sin == "the release of an expired slot raises capacity" && r.token == l.token && d.free(r),
		d.sin == "the release of a stale slot raises capacity" && r.token != l.token && r.spent != l.token:
		d.extra[group]++
	}
}

// neighbours are the other slots of a slot's group. d.mu is held.
func (d *faultyDriver) neighbours(r *faultyRecord) []*faultyRecord {
	var group string
	for key, other := range d.records {
		if other == r {
			group, _, _ = strings.Cut(key, "#")
		}
	}
	var list []*faultyRecord
	for key, other := range d.records {
		if g, slot, ok := strings.Cut(key, "#"); ok && g == group && other != r {
			if _, err := strconv.Atoi(slot); err == nil {
				list = append(list, other)
			}
		}
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
