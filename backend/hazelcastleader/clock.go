package hazelcastleader

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/hazelcast/hazelcast-go-client"

	"github.com/goleader/leader/backend"
)

// A Flake id has, from the high bits to the low ones, ms since an epoch, a sequence within the ms, and the number of the
// member that made it.
const (
	flakeEpoch    = 1514764800000 // ms since 1970
	flakeNodeBits = 16
	flakeTimeBits = 22 // the sequence and the number
)

// sameBatch is the difference between ids that a member has made at once.
const sameBatch = 1 << flakeNodeBits

const (
	// probes is how often the clock is read when it is in doubt.
	probes = 3
	// local is a time in which a member cannot have been asked.
	local = 15 * time.Microsecond
	// stale is a time after which a member whose clock goes does not make the id that follows in the sequence.
	stale = 50 * time.Millisecond
	// plausible is by how much the members' time may differ from that here. What the members are configured to make ids of
	// shows in the year.
	plausible = 365 * 24 * time.Hour
)

// instant is a reading of a member's clock.
type instant struct {
	id int64 // a Flake id, never given again
}

// ms is the time in ms since 1970.
func (t instant) ms() int64 { return t.id>>flakeTimeBits + flakeEpoch }

// node is the number of the member whose clock it is.
func (t instant) node() int64 { return t.id & (1<<flakeNodeBits - 1) }

// fence is a number that grows with the clock, and from one reading of a member to the next.
func (t instant) fence() uint64 { return uint64(t.id >> flakeNodeBits) } //nolint:gosec // an id is positive

func (t instant) time() time.Time { return time.UnixMilli(t.ms()) }

// clock reads the clock of a member. All backends on a client share one. One reading at a time is under way: who asks
// meanwhile shares the next one. So none waits, without looking at its context, for a lock of the client's; none gets an
// id that was asked for before it asked; and the ids are not used up, of which a member can make 64 in a ms, after which
// its clock would run ahead.
type clock struct {
	mu   sync.Mutex
	busy bool
	sent *reading // nil if none is under way
	next *reading // has not been sent; nil if nobody waits for it

	last  instant   // used by the one that reads
	since time.Time // when it arrived
}

// reading is one request, and its answer once it is done.
type reading struct {
	done chan struct{}
	at   instant
	err  error
}

// clocks has the clock of each client that has one, by weak pointers, so that a client is not kept for it.
var clocks sync.Map

func clockOf(client *hazelcast.Client) *clock {
	key := weak.Make(client)
	found, known := clocks.LoadOrStore(key, new(clock))
	if !known {
		runtime.AddCleanup(client, func(key weak.Pointer[hazelcast.Client]) { clocks.Delete(key) }, key)
	}
	c, _ := found.(*clock)
	return c
}

// ask begins a reading that is sent from now on.
func (c *clock) ask(ctx context.Context, client *hazelcast.Client) *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.next
	if r == nil {
		r = &reading{done: make(chan struct{})}
		c.next = r
	}
	if !c.busy {
		c.busy = true
		// It may outlive the call, because others share it.
		go c.run(context.WithoutCancel(ctx), client)
	}
	return r
}

// now is ask and result, without another goroutine where no reading is under way.
func (c *clock) now(ctx context.Context, client *hazelcast.Client) (instant, error) {
	c.mu.Lock()
	if c.busy {
		c.mu.Unlock()
		return c.ask(ctx, client).result(ctx)
	}
	c.busy = true
	c.mu.Unlock()
	at, err := c.read(ctx, client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy = c.next != nil; c.busy {
		go c.run(context.WithoutCancel(ctx), client)
	}
	if end := ctx.Err(); end != nil {
		err = backend.WithKind(end, backend.Unavailable)
	}
	return at, err
}

// run sends the readings that are asked for, until there is none.
func (c *clock) run(ctx context.Context, client *hazelcast.Client) {
	for {
		c.mu.Lock()
		r := c.next
		c.sent, c.next, c.busy = r, nil, r != nil
		c.mu.Unlock()
		if r == nil {
			return
		}
		r.at, r.err = c.read(ctx, client)
		close(r.done)
	}
}

// wait returns when those readings are done that have been asked for.
func (c *clock) wait() {
	c.mu.Lock()
	pending := []*reading{c.sent, c.next}
	c.mu.Unlock()
	for _, r := range pending {
		if r != nil {
			<-r.done
		}
	}
}

// result waits for the answer.
func (r *reading) result(ctx context.Context) (instant, error) {
	select {
	case <-r.done:
		return r.at, r.err
	case <-ctx.Done():
		return instant{}, ctx.Err()
	}
}

// read asks a member for an id. The first time, and when the time seems to stand still, it asks more often, to see that
// the client does not keep ids in stock.
func (c *clock) read(ctx context.Context, client *hazelcast.Client) (instant, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	generator, err := client.GetFlakeIDGenerator(ctx, generatorName)
	if err != nil {
		return instant{}, noAnswer(err)
	}
	times := 1
	if c.last.id == 0 {
		times = probes
	}
	for ; times > 0; times-- {
		stands, err := c.advance(ctx, generator)
		if err != nil {
			return instant{}, err
		}
		if stands {
			times = probes
		}
	}
	return c.last, nil
}

// advance reads the clock once, and reports whether it seems to stand still: ids follow each other for a while if the
// client has them in stock, and also if the member's clock was set back, which does no harm.
func (c *clock) advance(ctx context.Context, generator *hazelcast.FlakeIDGenerator) (stands bool, err error) {
	began := time.Now()
	id, err := generator.NewID(ctx)
	if err != nil {
		return false, noAnswer(err)
	}
	now, at := time.Now(), instant{id}
	if id <= 0 || at.time().Sub(now).Abs() > plausible {
		return false, errNoTime
	}
	follows := id-c.last.id == sameBatch
	stands = began.Sub(c.since) > stale
	c.last, c.since = at, now
	if follows && now.Sub(began) < local {
		return false, errStock
	}
	return follows && stands, nil
}

var (
	errNoTime = backend.WithKind(errors.New("the members make Flake ids from which no time can be read: their epoch or "+
		"their numbers of bits were changed, or a clock is wrong by years"), backend.Misconfigured)
	errStock = backend.WithKind(errors.New("the client keeps Flake ids in stock, so that they do not tell the time: use "+
		"hazelcastleader.Configure on its configuration"), backend.Misconfigured)
)
