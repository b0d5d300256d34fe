package redisleader

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// quiet is how long a connection may say nothing before it is asked for a sign of life, and then how long that may
// take. Without it a path that swallows packets would go unnoticed for ever.
const quiet = 10 * time.Second

// feed is one pub/sub connection.
type feed struct {
	client  redis.UniversalClient
	pubsub  *redis.PubSub
	sharded bool
	reading bool // guarded by the notifier's mutex
}

// newFeed does no I/O: the first subscription connects.
func newFeed(ctx context.Context, client redis.UniversalClient, sharded bool) *feed {
	f := &feed{client: client, sharded: sharded}
	if sharded {
		f.pubsub = client.SSubscribe(ctx)
	} else {
		f.pubsub = client.Subscribe(ctx)
	}
	return f
}

func (f *feed) subscribe(ctx context.Context, channel string) error {
	if f.sharded {
		return f.pubsub.SSubscribe(ctx, channel)
	}
	return f.pubsub.Subscribe(ctx, channel)
}

func (f *feed) unsubscribe(ctx context.Context, channel string) error {
	if f.sharded {
		return f.pubsub.SUnsubscribe(ctx, channel)
	}
	return f.pubsub.Unsubscribe(ctx, channel)
}

// receive hands over messages until the connection fails. The client could connect anew by itself, but in a cluster it
// subscribes to all channels with one command then, which the server refuses if they are of different slots.
func (f *feed) receive(ctx context.Context, handle func(message any)) error {
	asked := false
	for {
		message, err := f.pubsub.ReceiveTimeout(ctx, quiet)
		switch {
		case err == nil:
			asked = false
			handle(message)
		case asked || !isTimeout(err):
			return err
		default:
			if err := f.pubsub.Ping(ctx); err != nil {
				return err
			}
			asked = true
		}
	}
}

func isTimeout(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

// close ends receive. Its error says only that the connection was closed already.
func (f *feed) close() { _ = f.pubsub.Close() }
