package redisleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

// The first words of a server's errors, by what they mean for another try.
var (
	unavailableCodes = []string{
		"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "TRYAGAIN", "OOM", "BUSY", "MISCONF",
		"UNKILLABLE", "MOVED", "ASK", "ERR max number of clients reached",
	}
	deniedCodes = []string{
		"NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password", "ERR AUTH ", "ERR Client sent AUTH",
		"ERR The user executing the script", "ERR ACL failure",
	}
	foreignCodes       = []string{"WRONGTYPE", "LEADERFORMAT"}
	misconfiguredCodes = []string{
		"WRONGTYPE", "LEADERFORMAT", "CROSSSLOT", "NOPROTO", "ERR unknown command", "ERR Unknown Redis command",
		"ERR This instance has cluster support disabled",
	}
)

// classify attaches a kind to an error of the client, and the context's error if that is why the call ended.
func (b *Backend) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if !b.sharded && redis.HasErrorPrefix(err, "MOVED") {
		kind = backend.Misconfigured // A client of one server talks to a node of a cluster.
	}
	if end := ctx.Err(); end != nil && kind != backend.Denied && kind != backend.Misconfigured && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return backend.WithKind(err, kind)
}

func kindOf(err error) backend.Kind {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return kindOfAnswer(answer.Error())
	}
	if errors.Is(err, redis.ErrClosed) {
		return backend.Misconfigured
	}
	_, network := errors.AsType[net.Error](err)
	switch {
	case network,
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return backend.Unavailable
	}
	return backend.Unknown
}

func kindOfAnswer(text string) backend.Kind {
	switch {
	case hasCode(text, deniedCodes):
		return backend.Denied
	case hasCode(text, misconfiguredCodes):
		return backend.Misconfigured
	case hasCode(text, unavailableCodes):
		return backend.Unavailable
	}
	return backend.Unknown
}

// isForeign reports whether the server said that a key holds no record that can be read.
func isForeign(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && hasCode(answer.Error(), foreignCodes)
}

// hasCode reports whether text begins with one of codes, or quotes it: servers before version 7 put the error of a
// command inside a script behind words of their own.
func hasCode(text string, codes []string) bool {
	for _, code := range codes {
		if strings.HasPrefix(text, code) || strings.Contains(text, ": -"+code) || strings.Contains(text, ": "+code) {
			return true
		}
	}
	return false
}
