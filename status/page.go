package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/history"
)

// The defaults of [Options].
const (
	DefaultPath       = "/management/leaderElection"
	DefaultInterval   = 500 * time.Millisecond
	DefaultMaxNames   = 2000
	DefaultMaxViewers = 100
)

// Options configure a [Page]. The zero value means the defaults; so do numbers below zero.
type Options struct {
	// Path is where the JSON is, and with a slash behind it the page; [DefaultPath] if empty.
	Path string
	// Namespace is that of the electors, see leader.WithNamespace. Only its names are shown. If it is empty, those of all
	// namespaces are, as far as the store lists them.
	Namespace string
	// History is where the last events are read, and where forced releases are recorded: a *history.SQL, or what
	// [InMemory] makes of a history.Memory. Without it no events are shown. The record of a forced release is Lost, or
	// NotRun if it was not made or nobody knows, and names who asked in its metadata, under "forced release by".
	History History
	// Authorize allows a forced release, and says who asks for it. An error refuses it, and is logged. Nobody can force a
	// release if it is nil; else all viewers are offered it. It needs a History, and a store that can end somebody else's
	// lease.
	Authorize func(r *http.Request) (who string, err error)
	// Interval is the time between two polls while somebody watches, [DefaultInterval] if 0. They are rarer where an
	// answer takes longer than a third of it.
	Interval time.Duration
	// MaxNames is how many names are shown, [DefaultMaxNames] if 0. Those that nobody leads are left out first.
	MaxNames int
	// MaxViewers is how many browsers may watch at once, [DefaultMaxViewers] if 0. More are told to come back later. One
	// that was dropped counts until its handler has returned.
	MaxViewers int
	// Logger gets a warning when the store or the history cannot be asked, once until it can, and one for each attempt to
	// force a release. The default is [slog.Default].
	Logger *slog.Logger
}

// History is a [history.Sink] that can be read. Recent returns the last records of a name, of all names if it is empty, in
// the order of what happened last, newest first.
//
// It may have a method RecentOf(ctx, status, limit) too, which does so for the runs of all names that have a status, as
// those of package history and mongoleader have. Without it, frequent runs keep rare events from being seen.
type History interface {
	history.Sink
	Recent(ctx context.Context, name string, limit int) ([]history.Record, error)
}

// historyByStatus is a [History] that can be read by status.
type historyByStatus interface {
	RecentOf(ctx context.Context, status history.Status, limit int) ([]history.Record, error)
}

// InMemory is a history kept in memory as a [History].
func InMemory(m *history.Memory) History { return memory{m} }

type memory struct{ *history.Memory }

var _ historyByStatus = memory{}

func (m memory) Recent(_ context.Context, name string, limit int) ([]history.Record, error) {
	return m.Memory.Recent(name, limit), nil
}

func (m memory) RecentOf(_ context.Context, status history.Status, limit int) ([]history.Record, error) {
	return m.Memory.RecentOf(status, limit), nil
}

// Election explains whom a strategy prefers; a leader.StrategicElector does.
type Election interface {
	Election(ctx context.Context, name string) (leader.Election, error)
}

// Page shows who leads. It is an [http.Handler]. All methods may be called concurrently. Use [New]: the zero value is
// not ready.
type Page struct {
	driver  backend.Driver
	lister  backend.Lister  // nil if the store cannot list
	breaker backend.Breaker // nil unless releases may be forced
	options Options
	cross   *http.CrossOriginProtection

	looks     aside[struct{}] // at the store
	elections aside[struct{}]
	reading   aside[struct{}] // of the history
	renewals  renewals

	kick    chan struct{} // asks for a look before its time
	closed  chan struct{}
	closing sync.Once
	polling sync.WaitGroup // adds under mu, while not closed

	mu      sync.Mutex
	board   board
	shown   map[id]lock // as the viewers have it
	viewers map[*viewer]struct{}
	streams int  // under way, also those of viewers that were dropped
	polls   bool // somebody polls
}

// New returns a page of a store. It does no I/O and starts nothing. opts may be nil.
func New(d backend.Driver, opts *Options) (*Page, error) {
	if d == nil {
		return nil, errors.New("status: no driver: nil")
	}
	p := &Page{
		driver: d, renewals: newRenewals(),
		kick: make(chan struct{}, 1), closed: make(chan struct{}), viewers: make(map[*viewer]struct{}),
	}
	if opts != nil {
		p.options = *opts
	}
	o := &p.options
	o.Path = cmp.Or(o.Path, DefaultPath)
	o.Interval = cmp.Or(max(o.Interval, 0), DefaultInterval)
	o.MaxNames = cmp.Or(max(o.MaxNames, 0), DefaultMaxNames)
	o.MaxViewers = cmp.Or(max(o.MaxViewers, 0), DefaultMaxViewers)
	p.lister, _ = backend.As[backend.Lister](d)
	p.cross = http.NewCrossOriginProtection()
	p.board = newBoard(o.MaxNames)
	if len(o.Path) < 2 || !strings.HasPrefix(o.Path, "/") || strings.HasSuffix(o.Path, "/") {
		return nil, fmt.Errorf("status: path %q does not begin with a slash, or ends with one", o.Path)
	}
	if o.Authorize == nil {
		return p, nil
	}
	var ok bool
	if p.breaker, ok = backend.As[backend.Breaker](d); !ok {
		return nil, fmt.Errorf("status: forced release: %w: %s cannot end a lease", leader.ErrUnsupported, d.Name())
	}
	if o.History == nil {
		return nil, errors.New("status: Authorize needs a History, in which forced releases are recorded")
	}
	return p, nil
}

// AddNames makes names shown also while nobody has them.
func (p *Page) AddNames(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.board.names.pin(p.id(name, false))
	}
}

// AddGroup makes names shown as those of groups with that many slots, also while nobody has them. The store knows only
// the slots that are taken.
func (p *Page) AddGroup(slots int, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.board.names.pin(p.id(name, true)).capacity = max(0, min(slots, maxSlots))
	}
}

// AddElection makes names shown with their candidates, as e explains them. It is asked every two seconds for each of the
// names while somebody watches.
func (p *Page) AddElection(e Election, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.board.names.pin(p.id(name, false)).election = e
	}
}

// Close ends the streams of all viewers, and refuses new ones: give it to http.Server.RegisterOnShutdown, since a
// shutdown waits for them otherwise.
func (p *Page) Close() {
	p.closing.Do(func() {
		p.mu.Lock()
		close(p.closed)
		p.mu.Unlock()
	})
	p.polling.Wait()
}

func (p *Page) id(name string, group bool) id { return id{p.options.Namespace, name, group} }

func (p *Page) logger() *slog.Logger {
	if p.options.Logger != nil {
		return p.options.Logger
	}
	return slog.Default()
}
