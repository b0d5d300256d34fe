package redisleader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

// answer is an error that a server sent.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestBackend_Classify_TellsWhetherAnotherTryCanHelp(t *testing.T) {
	single := New(redis.NewClient(&redis.Options{}), nil)
	cluster := New(redis.NewClusterClient(&redis.ClusterOptions{}), nil)
	for _, test := range []struct {
		b    *Backend
		err  error
		want backend.Kind
	}{
		{single, answer("LOADING Redis is loading the dataset in memory"), backend.Unavailable},
		{single, answer("READONLY You can't write against a read only replica. script: 1f, on @user_script:3."), backend.Unavailable},
		{single, answer("MASTERDOWN Link with MASTER is down"), backend.Unavailable},
		{single, answer("OOM command not allowed when used memory > 'maxmemory'."), backend.Unavailable},
		{single, answer("ERR max number of clients reached"), backend.Unavailable},
		{single, answer("MOVED 3999 127.0.0.1:6381"), backend.Misconfigured},
		{cluster, answer("MOVED 3999 127.0.0.1:6381"), backend.Unavailable},
		{single, answer("NOAUTH Authentication required."), backend.Denied},
		{single, answer("ERR invalid password"), backend.Denied},
		{single, answer("NOPERM this user has no permissions"), backend.Denied},
		{single, answer("WRONGTYPE Operation against a key holding the wrong kind of value"), backend.Misconfigured},
		{single, answer("ERR Error running script (call to f_1f): @user_script:5: WRONGTYPE Operation"), backend.Misconfigured},
		{single, answer("ERR Error running script (call to f_1f): @user_script:9: -OOM command not allowed"), backend.Unavailable},
		{single, answer("ERR unknown command 'evalsha'"), backend.Misconfigured},
		{single, answer("ERR something else"), backend.Unknown},
		{single, &net.OpError{Op: "dial", Err: errors.New("refused")}, backend.Unavailable},
		{single, fmt.Errorf("read: %w", io.EOF), backend.Unavailable},
		{single, redis.ErrPoolTimeout, backend.Unavailable},
		{single, redis.ErrClosed, backend.Misconfigured},
		{single, errors.New("another"), backend.Unknown},
	} {
		err := test.b.classify(t.Context(), test.err)
		if got := backend.KindOf(err); got != test.want || !errors.Is(err, test.err) || err.Error() != test.err.Error() {
			t.Errorf("%v: %v (%v), want %v", test.err, err, got, test.want)
		}
	}
}

func TestBackend_Classify_SaysThatTheContextEnded(t *testing.T) {
	b := New(nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent := fmt.Errorf("read: %w", io.EOF)
	if err := b.classify(ctx, silent); !errors.Is(err, context.Canceled) || !errors.Is(err, silent) {
		t.Errorf("%v, want both causes", err)
	}
	denied := answer("NOAUTH Authentication required.")
	if err := b.classify(ctx, denied); errors.Is(err, context.Canceled) || backend.KindOf(err) != backend.Denied {
		t.Errorf("%v, want the server's answer", err)
	}
}
