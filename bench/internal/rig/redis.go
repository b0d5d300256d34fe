package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/redisleader"
	"github.com/goleader/leader/internal/testserver"
)

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// Redis is a server with everybody who works on it.
type Redis struct {
	server *testserver.Server
	client *redis.Client // of all that goes through go-redis, so that nobody has another pool
}

// NewRedis starts a Redis that writes no file, because the time of a disk would hide that of everything else; one that
// [testserver.RedisURLEnv] names is taken as it is.
func NewRedis(t testserver.TB) *Redis {
	t.Helper()
	var opts []testserver.RedisOption
	if os.Getenv(testserver.RedisURLEnv) == "" {
		opts = append(opts, testserver.RedisConfig("appendonly no"))
	}
	r := &Redis{server: testserver.Redis(t, opts...)}
	r.client = r.dial(t)
	return r
}

func (r *Redis) dial(t testserver.TB) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(r.server.URL())
	if err != nil {
		t.Fatalf("%v", err)
	}
	opts.ContextTimeoutEnabled = true // as redisleader's package comment recommends
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (r *Redis) driver(t testserver.TB, client *redis.Client) *redisleader.Backend {
	t.Helper()
	d := redisleader.New(client, nil)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (r *Redis) elector(t testserver.TB, client *redis.Client) *leader.Single {
	t.Helper()
	return newElector(t, r.driver(t, client))
}

// Run returns a RunIfLeader.
func (r *Redis) Run(t testserver.TB) Op { return run(r.elector(t, r.client), "run") }

// RunKeyRun returns a RunIfLeader with another run key each time.
func (r *Redis) RunKeyRun(t testserver.TB) Op { return runOnce(r.elector(t, r.client), "run-key") }

// Floor returns the two scripts that the driver sends for a RunIfLeader, by the raw client.
func (r *Redis) Floor(t testserver.TB) Op {
	s := r.record(t, "floor")
	return func(ctx context.Context) error {
		token := rand.Text()
		return errors.Join(s.acquire.send(ctx, r.client, token), s.release.send(ctx, r.client, token))
	}
}

// Setnx returns SET NX PX and a compare-and-delete, by the raw client. They give no fence.
func (r *Redis) Setnx() Op {
	remove := redis.NewScript(compareAndDelete)
	args := redis.SetArgs{Mode: "NX", TTL: lease}
	return func(ctx context.Context) error {
		token := rand.Text()
		if err := r.client.SetArgs(ctx, "setnx", token, args).Err(); err != nil {
			return err
		}
		n, err := remove.Run(ctx, r.client, []string{"setnx"}, token).Int()
		if err == nil && n != 1 {
			err = errors.New("the key was gone")
		}
		return err
	}
}

// Skip returns a RunIfLeader while another holds the name.
func (r *Redis) Skip(t testserver.TB) Op {
	hold(t, r.elector(t, r.client), "skip")
	return skip(r.elector(t, r.client), "skip", leader.Contended)
}

// SkipFloor returns the script that the driver sends for an acquisition, while another holds the key, by the raw
// client.
func (r *Redis) SkipFloor(t testserver.TB) Op {
	s := r.record(t, "skip floor")
	hold(t, r.elector(t, r.client), "skip floor")
	return func(ctx context.Context) error {
		err := s.acquire.send(ctx, r.client, rand.Text())
		if !errors.Is(err, errRefused) {
			return errors.Join(errors.New("was not refused"), err)
		}
		return nil
	}
}
