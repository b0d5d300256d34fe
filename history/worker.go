package history

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	tries     = 3
	minPause  = 100 * time.Millisecond // after the first failure; ten times as long after the next
	warnEvery = time.Minute
)

// worker hands records to the sink until none are waiting.
type worker struct {
	cancel context.CancelFunc // ends what it does at the sink
	done   chan struct{}      // closed when it has ended
}

// startWorker is called with mu held.
func (r *Recorder) startWorker() {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // what is written belongs to no run
	r.worker = &worker{cancel: cancel, done: make(chan struct{})}
	go r.work(ctx, r.worker)
}

func (r *Recorder) work(ctx context.Context, w *worker) {
	defer w.cancel()
	for batch := r.next(w); batch != nil; batch = r.next(w) {
		r.hand(ctx, batch)
	}
}

// next takes the records that waited longest. Without any it returns nil, and w is done.
func (r *Recorder) next(w *worker) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), r.batch)
	if n == 0 {
		r.queue, r.worker = nil, nil
		close(w.done)
		return nil
	}
	batch := make([]Record, n)
	for i, run := range r.queue[:n] {
		run.queued = false
		batch[i] = run.record
	}
	clear(r.queue[:n])
	r.queue = r.queue[n:]
	return batch
}

// hand gives a batch to the sink, again if it fails.
func (r *Recorder) hand(ctx context.Context, batch []Record) {
	var err error
	pause := minPause
	for try := 1; ; try++ {
		if err = r.write(ctx, batch); err == nil || try == tries || !sleep(ctx, pause) {
			break
		}
		pause *= 10
	}
	r.mu.Lock()
	if err == nil {
		r.stats.Stored += uint64(len(batch))
	} else {
		r.stats.Refused += uint64(len(batch))
	}
	stats := r.stats
	r.mu.Unlock()
	switch {
	case err != nil:
		r.log.warn(ctx, "history is not stored", slog.Uint64("refused", stats.Refused), slog.Any("err", err))
	case stats.Dropped > 0:
		r.log.warnOfMore(ctx, stats.Dropped)
	}
}

// write calls the sink once. Its panic must not end the process, which the runs are in.
func (r *Recorder) write(ctx context.Context, batch []Record) (err error) {
	watch := time.AfterFunc(2*r.timeout, func() { r.log.warn(ctx, "the history's sink does not return") })
	defer watch.Stop()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("history: the sink panicked: %v", p)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.sink.Write(bounded, batch)
}

// sleep reports false if ctx ended before d had passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close waits until all records are stored, or refused, and takes no more. When ctx ends before that, it cancels the
// call of the sink, drops what is waiting, and returns an error that wraps ctx's cause and says how many records that
// were. Closing again is fine.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	w := r.worker
	r.mu.Unlock()
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	return r.giveUp(ctx, w)
}

func (r *Recorder) giveUp(ctx context.Context, w *worker) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worker != w {
		return nil
	}
	w.cancel()
	left := len(r.queue)
	for _, run := range r.queue {
		run.queued = false
		if run.record.Status != Running {
			r.stats.Dropped++
		}
	}
	r.queue = nil
	return fmt.Errorf("history: close: %w: %d waiting records dropped", context.Cause(ctx), left)
}

// warner warns now and then.
type warner struct {
	logger *slog.Logger // nil: the default

	mu       sync.Mutex
	last     time.Time
	reported uint64 // dropped records
}

// warn is silent for a while after a warning.
func (w *warner) warn(ctx context.Context, text string, attrs ...slog.Attr) {
	w.mu.Lock()
	now := time.Now()
	silent := !w.last.IsZero() && now.Sub(w.last) < warnEvery
	if !silent {
		w.last = now
	}
	w.mu.Unlock()
	if silent {
		return
	}
	logger := w.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelWarn, text, attrs...)
}

// warnOfMore warns if more was dropped than it warned of before.
func (w *warner) warnOfMore(ctx context.Context, dropped uint64) {
	w.mu.Lock()
	more := dropped > w.reported
	w.reported = dropped
	w.mu.Unlock()
	if more {
		w.warn(ctx, "history is incomplete, as its sink is too slow", slog.Uint64("dropped", dropped))
	}
}
