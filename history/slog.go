package history

import (
	"context"
	"log/slog"
)

// Slog is a [Sink] that logs one line for each record: Running and Skipped at level Debug, Succeeded and Canceled at
// Info, the others at Warn. All methods may be called concurrently. Use [NewSlog]: the zero value is not ready.
type Slog struct{ logger *slog.Logger }

var _ Sink = (*Slog)(nil)

// NewSlog returns a sink on a logger, [slog.Default] if it is nil. A handler that blocks delays other records, no run.
func NewSlog(l *slog.Logger) *Slog {
	if l == nil {
		l = slog.Default()
	}
	return &Slog{l}
}

// Write implements [Sink]. It never fails, as loggers do not say whether they did.
func (s *Slog) Write(ctx context.Context, records []Record) error {
	for _, r := range records {
		s.logger.LogAttrs(ctx, level(r.Status), "run", r.attrs()...)
	}
	return nil
}

func level(s Status) slog.Level {
	switch s {
	case Running, Skipped:
		return slog.LevelDebug
	case Succeeded, Canceled:
		return slog.LevelInfo
	case Failed, Lost, NotRun:
	}
	return slog.LevelWarn
}
