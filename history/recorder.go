package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/goleader/leader"
)

// The defaults of [Options].
const (
	DefaultCapacity = 1024
	DefaultBatch    = 64
	DefaultTimeout  = 10 * time.Second
)

// Options configure a [Recorder]. The zero value means the defaults; so do numbers below zero.
type Options struct {
	// Capacity is how many records may wait for the sink, [DefaultCapacity] if 0.
	Capacity int
	// Batch is how many records the sink is given at once, at most; [DefaultBatch] if 0.
	Batch int
	// Timeout bounds one call of the sink, [DefaultTimeout] if 0.
	Timeout time.Duration
	// Omit are the statuses that are not recorded. A run whose start was recorded is recorded to its end, however it
	// ends.
	Omit []Status
	// Node is the node of runs that did not get a lease: hooks do not know it otherwise.
	Node string
	// Metadata are put into every record: at most 16 keys of 64 bytes, with values of 256 bytes. More and longer ones are
	// cut.
	Metadata map[string]string
	// Logger gets a warning, once a minute at most, when records were refused or dropped, or when the sink does not
	// return. The default is [slog.Default].
	Logger *slog.Logger
}

// Recorder records the runs of electors that were given its [Recorder.Hooks]. All methods may be called concurrently.
// Use [NewRecorder]: the zero value is not ready.
type Recorder struct {
	sink     Sink
	capacity int
	batch    int
	timeout  time.Duration
	omit     [NotRun + 1]bool
	node     string
	metadata map[string]string
	log      warner

	mu     sync.Mutex
	queue  []*run // at most capacity
	worker *worker
	closed bool
	stats  Stats
}

// run is what a context carries for the hooks of one run. All but what is known at its start is guarded by the recorder.
type run struct {
	record   Record
	queued   bool // it waits for the sink, as it will be then
	recorded bool // as Running
}

// runKey finds the run that this recorder put into a context.
type runKey struct{ r *Recorder }

// NewRecorder returns a recorder on a sink. It starts nothing. opts may be nil.
func NewRecorder(sink Sink, opts *Options) *Recorder {
	if opts == nil {
		opts = &Options{}
	}
	r := &Recorder{
		sink:     sink,
		capacity: cmp.Or(max(opts.Capacity, 0), DefaultCapacity),
		batch:    cmp.Or(max(opts.Batch, 0), DefaultBatch),
		timeout:  cmp.Or(max(opts.Timeout, 0), DefaultTimeout),
		node:     clean(opts.Node, maxText),
		metadata: cleanMetadata(opts.Metadata),
		log:      warner{logger: opts.Logger},
	}
	for _, s := range opts.Omit {
		if int(s) < len(r.omit) {
			r.omit[s] = true
		}
	}
	return r
}

// Hooks returns the hooks that record, for [leader.WithHooks].
func (r *Recorder) Hooks() leader.Hooks {
	return leader.Hooks{RunStarted: r.started, Acquired: r.acquired, RunFinished: r.finished}
}

// Stats count records. A run has up to two: its start and its end.
type Stats struct {
	Waiting int    // for the sink
	Stored  uint64 // by the sink
	Refused uint64 // by the sink, which failed several times
	// Dropped are ends of runs that found no room, came after Close, or were waiting when it gave up. A start that finds
	// no room is not counted, as the record of the end has all of it.
	Dropped uint64
}

// Stats returns the counts so far.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Waiting = len(r.queue)
	return s
}

func (r *Recorder) started(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, runKey{r}, r.newRun(name))
}

func (r *Recorder) newRun(name string) *run {
	return &run{record: Record{
		ID: rand.Text(), Name: clean(name, maxText), Node: r.node, Started: time.Now().Round(0), Metadata: r.metadata,
	}}
}

// acquired records a start. ctx may also be that of a lease which was acquired by hand inside of a run.
func (r *Recorder) acquired(ctx context.Context, l leader.LeaseInfo) {
	run, ok := ctx.Value(runKey{r}).(*run)
	if !ok || r.omit[Running] {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.record.Status != 0 || run.record.Name != clean(l.Name, maxText) {
		return
	}
	run.record.Status = Running
	setLease(&run.record, l)
	run.recorded = r.enqueue(run) //nolint:contextcheck // the worker belongs to no run
}

// finished records an end. A hook of somebody else may have replaced the context of the run; its start is lost then.
func (r *Recorder) finished(ctx context.Context, name string, result leader.RunResult, err error) {
	run, ok := ctx.Value(runKey{r}).(*run)
	if !ok {
		run = r.newRun(name)
	}
	end := endOf(ctx, &result, err) // calls foreign code for error texts
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.omit[end.Status] && !run.recorded {
		return
	}
	complete(&run.record, &end)
	if !run.queued && !r.enqueue(run) { //nolint:contextcheck // the worker belongs to no run
		r.stats.Dropped++
	}
}

// enqueue lets a record wait for the sink, and sees to it that somebody hands it over. It reports false if there is no
// room; mu is held.
func (r *Recorder) enqueue(run *run) bool {
	if r.closed || len(r.queue) >= r.capacity {
		return false
	}
	run.queued = true
	r.queue = append(r.queue, run)
	if r.worker == nil {
		r.startWorker()
	}
	return true
}

func setLease(r *Record, l leader.LeaseInfo) {
	r.Node, r.Key = clean(l.Node, maxText), clean(l.Key, maxKey)
	r.Slot, r.Fence = l.Slot, l.Fence
	r.Acquired, r.Held = l.Acquired.Round(0), l.Held
}

// endOf is the record of a run's end, without what is known since its start.
func endOf(ctx context.Context, result *leader.RunResult, err error) Record {
	var r Record
	if result.Lease.Name != "" {
		setLease(&r, result.Lease)
	}
	r.Status = conclusion(ctx, result, err)
	r.Finished = time.Now().Round(0)
	r.Waited, r.Attempts, r.Unguarded = result.Waited, result.Attempts, result.Unguarded
	if result.Reason != 0 {
		r.Reason = clean(result.Reason.String(), maxText)
	}
	r.Holder = clean(result.Holder.Node, maxText)
	if err == nil {
		err = result.Err
	}
	r.Error, r.ErrorType = errorText(err), errorType(err)
	r.Lost = errorText(result.Lost)
	return r
}

// complete makes the record of a start that of the end.
func complete(r, end *Record) {
	start := *r
	*r = *end
	r.ID, r.Name, r.Started, r.Metadata = start.ID, start.Name, start.Started, start.Metadata
	if end.Key == "" {
		r.Node = start.Node
	}
}

// conclusion is the status of a run that has ended.
func conclusion(ctx context.Context, result *leader.RunResult, err error) Status {
	switch {
	case err != nil && endedBy(ctx, err):
		return Canceled
	case result.Outcome == leader.Skipped:
		return Skipped
	case err != nil || result.Outcome == 0:
		return NotRun
	case result.Lost != nil && !errors.Is(result.Lost, leader.ErrReleased):
		return Lost
	case result.Err == nil:
		return Succeeded
	case endedBy(ctx, result.Err):
		return Canceled
	}
	return Failed
}

// endedBy reports whether err only says that ctx is over.
func endedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
