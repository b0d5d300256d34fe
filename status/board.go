package status

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/goleader/leader/backend"
)

// board is what is known of the store, as the viewers have it.
type board struct {
	limit    int
	names    names
	omitted  int
	asked    time.Time // when the store answered last
	problem  string    // why it cannot be asked; empty if it answers
	failed   time.Time // when it could not be asked last
	events   []event
	read     time.Time // when the events were read
	unread   string    // why they cannot be
	explains time.Time // when the elections were asked about
}

// names are what the rows are about.
type names map[id]*known

// known is what is known of a name.
type known struct {
	pinned     bool
	capacity   int // slots of the group, if known
	reach      int // slots that were seen
	election   Election
	candidates []candidate
	leases     map[int]lease // by slot, 0 outside groups
	seen       time.Time     // when somebody had it
}

// found is an answer of the store.
type found struct {
	id
	slot    int
	holder  backend.Holder
	expired bool
	sent    time.Time // when it was asked for, at the latest: what remains of a lease counts from then
}

// fewNames are as many as a hook has the time to look at.
const fewNames = 64

func newBoard(limit int) board { return board{limit: limit, names: make(names)} }

// pin returns a name that is to be shown whatever the store says.
func (n names) pin(i id) *known {
	k := n[i]
	if k == nil {
		k = &known{leases: make(map[int]lease)}
		n[i] = k
	}
	k.pinned = true
	return k
}

// taken reports whether somebody has the name, or it is kept.
func (k *known) taken() bool {
	for _, l := range k.leases {
		if l.Status == occupied {
			return true
		}
	}
	return false
}

// answered takes in what the store answered.
func (b *board) answered(list []found, now time.Time) {
	b.asked, b.problem, b.omitted = now, "", 0
	byID := make(map[id][]found, len(b.names))
	for _, f := range list {
		byID[f.id] = append(byID[f.id], f)
	}
	for i, k := range b.names {
		k.update(byID[i], now)
	}
	var added []id
	for i := range byID {
		if b.names[i] == nil {
			added = append(added, i)
		}
	}
	slices.SortFunc(added, func(x, y id) int {
		return cmp.Or(cmp.Compare(rank(byID[x]), rank(byID[y])), x.compare(y))
	})
	spare := b.spare(len(added))
	for n, i := range added {
		if len(b.names) >= b.limit {
			if len(spare) == 0 || rank(byID[i]) > 0 {
				b.omitted = len(added) - n
				break
			}
			delete(b.names, spare[0])
			spare = spare[1:]
		}
		k := &known{leases: make(map[int]lease), seen: now}
		k.update(byID[i], now)
		b.names[i] = k
	}
}

// rank is 0 for a name that is taken, else 1.
func rank(list []found) int {
	for _, f := range list {
		if !f.expired {
			return 0
		}
	}
	return 1
}

// spare are the names that may make room for others, those first that nobody has had for longest.
func (b *board) spare(added int) (list []id) {
	if len(b.names)+added <= b.limit {
		return nil
	}
	for i, k := range b.names {
		if !k.pinned && !k.taken() {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(x, y id) int {
		return cmp.Or(b.names[x].seen.Compare(b.names[y].seen), x.compare(y))
	})
	return list
}

// fresh reports whether what is known is too new to ask the store again.
func (b *board) fresh(now time.Time, interval time.Duration) bool {
	if b.problem != "" {
		return now.Sub(b.failed) < min(interval, probeEvery)
	}
	return now.Sub(b.asked) < interval
}

// tried makes a name known that an elector asked for, if there is room for it, or one that nobody has may be left out.
func (b *board) tried(i id, slot int) {
	k := b.names[i]
	if k == nil {
		if len(b.names) >= b.limit && !b.dropFree() {
			return
		}
		k = &known{leases: make(map[int]lease)}
		b.names[i] = k
	}
	if i.group {
		k.reach = max(k.reach, slot+1)
	}
}

// dropFree leaves out some name that nobody has. It looks at a few alone, as hooks wait for it.
func (b *board) dropFree() bool {
	looked := 0
	for i, k := range b.names {
		if !k.pinned && !k.taken() {
			delete(b.names, i)
			return true
		}
		if looked++; looked == fewNames {
			break
		}
	}
	return false
}

// update takes in what the store said of the name's slots, of which those that are not mentioned are free.
func (k *known) update(list []found, now time.Time) {
	fresh := make(map[int]lease, len(list))
	for _, f := range list {
		l := leaseOf(f, k.leases[f.slot])
		fresh[f.slot] = l
		k.reach = max(k.reach, f.slot+1)
		if l.Status == occupied {
			k.seen = now
		}
	}
	for slot, old := range k.leases {
		if _, ok := fresh[slot]; !ok {
			fresh[slot] = lease{Status: empty, LastLeaderID: old.last()}
		}
	}
	k.leases = fresh
}

// last is who leads, or has led.
func (l lease) last() string {
	if l.LeaderID != nil {
		return *l.LeaderID
	}
	return l.LastLeaderID
}

// leaseOf makes a lease of what the store said. old is what it said before.
func leaseOf(f found, old lease) lease {
	h := f.holder
	if f.expired || h.Free() {
		return lease{Status: empty, LastLeaderID: cmp.Or(printable(h.Owner), old.last())}
	}
	l := lease{
		Status: occupied, Fence: fence(h.Fence), Since: instantOf(h.Since.Truncate(time.Millisecond)), Kept: h.Kept,
	}
	known := old.Status == occupied && old.Fence == l.Fence && old.Kept == l.Kept && old.last() == printable(h.Owner)
	switch {
	case known: // the rest is constant for a lease, and costs time to make
		l.LeaderID, l.LastLeaderID, l.Metadata = old.LeaderID, old.LastLeaderID, old.Metadata
	case h.Kept:
		l.LastLeaderID = printable(h.Owner)
	default:
		owner := printable(h.Owner)
		l.LeaderID, l.Metadata = &owner, redactAll(h.Metadata)
	}
	if h.Remaining <= 0 {
		return l
	}
	l.LeaseTime = secondsOf(h.Remaining)
	l.LeaseExpiry = &instant{f.sent.Add(h.Remaining)}
	if !known || old.LeaseExpiry == nil {
		return l
	}
	// What is only the uncertainty of the answer's age is no change.
	span := time.Duration(*old.LeaseTime)
	if h.Remaining < span+span/50 {
		l.LeaseTime = old.LeaseTime
	}
	tolerance := min(max(250*time.Millisecond, span/40), 1500*time.Millisecond)
	if l.LeaseExpiry.Sub(old.LeaseExpiry.Time).Abs() <= tolerance {
		l.LeaseExpiry = old.LeaseExpiry
	}
	return l
}

// row is what is shown of a name.
func (k *known) row(i id) lock {
	l := lock{
		rowID:      rowID{Name: printable(i.name), Namespace: printable(i.namespace), Group: i.group},
		lease:      lease{Status: empty},
		Candidates: k.candidates,
	}
	if !i.group {
		if only, ok := k.leases[0]; ok {
			l.lease = only
		}
		return l
	}
	l.Capacity = k.capacity
	for n, s := range k.leases {
		if s.Status == occupied {
			l.Status = occupied
			l.Slots = append(l.Slots, slot{n, s})
		}
	}
	slices.SortFunc(l.Slots, func(x, y slot) int { return cmp.Compare(x.Slot, y.Slot) })
	return l
}

// rows are all names as they are shown, by name.
func (b *board) rows() map[id]lock {
	rows := make(map[id]lock, len(b.names))
	for i, k := range b.names {
		rows[i] = k.row(i)
	}
	return rows
}

// list is the rows in order, as of now.
func list(rows map[id]lock, now time.Time) []lock {
	ids := make([]id, 0, len(rows))
	for i := range rows {
		ids = append(ids, i)
	}
	slices.SortFunc(ids, id.compare)
	locks := make([]lock, len(ids))
	for n, i := range ids {
		locks[n] = rows[i].at(now)
	}
	return locks
}

// difference is what those who have old have to be told so that they have rows.
func difference(old, rows map[id]lock) (changed map[id]lock, gone []rowID) {
	changed = make(map[id]lock)
	for i, l := range rows {
		if before, ok := old[i]; !ok || !reflect.DeepEqual(before, l) {
			changed[i] = l
		}
	}
	for i, l := range old {
		if _, ok := rows[i]; !ok {
			gone = append(gone, l.rowID)
		}
	}
	return changed, gone
}

func (i id) compare(other id) int {
	return cmp.Or(
		cmp.Compare(i.name, other.name), cmp.Compare(i.namespace, other.namespace), cmp.Compare(i.key(), other.key()),
		compareBool(i.group, other.group),
	)
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}
