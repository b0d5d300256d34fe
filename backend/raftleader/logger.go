package raftleader

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger hands what the raft library logs to a [slog.Logger].
type logger struct {
	hclog.Logger // what is not about logging

	to *slog.Logger
}

// newLogger returns a logger that is silent if to is nil.
func newLogger(to *slog.Logger) hclog.Logger {
	if to == nil {
		return hclog.NewNullLogger()
	}
	return logger{hclog.NewNullLogger(), to}
}

func (l logger) level(level hclog.Level) slog.Level {
	switch level {
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	case hclog.Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Log implements [hclog.Logger].
func (l logger) Log(level hclog.Level, text string, args ...any) {
	for i, arg := range args {
		if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	//nolint:forbidigo // the library's texts and keys are its own, and it knows no context
	l.to.Log(context.Background(), l.level(level), text, args...)
}

// Trace implements [hclog.Logger].
func (l logger) Trace(text string, args ...any) { l.Log(hclog.Trace, text, args...) }

// Debug implements [hclog.Logger].
func (l logger) Debug(text string, args ...any) { l.Log(hclog.Debug, text, args...) }

// Info implements [hclog.Logger].
func (l logger) Info(text string, args ...any) { l.Log(hclog.Info, text, args...) }

// Warn implements [hclog.Logger].
func (l logger) Warn(text string, args ...any) { l.Log(hclog.Warn, text, args...) }

// Error implements [hclog.Logger].
func (l logger) Error(text string, args ...any) { l.Log(hclog.Error, text, args...) }

// With implements [hclog.Logger].
func (l logger) With(args ...any) hclog.Logger { return logger{l.Logger, l.to.With(args...)} }

// Named implements [hclog.Logger]; names are left out.
func (l logger) Named(string) hclog.Logger { return l }

// ResetNamed implements [hclog.Logger]; names are left out.
func (l logger) ResetNamed(string) hclog.Logger { return l }

// StandardLogger implements [hclog.Logger].
func (l logger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelInfo)
}

// StandardWriter implements [hclog.Logger].
func (l logger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
