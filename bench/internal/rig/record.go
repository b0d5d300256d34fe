package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

var errRefused = errors.New("refused")

// term is what the driver sends to acquire and to release a key.
type term struct{ acquire, release command }

// command is a script that is sent by its hash.
type command struct {
	sha   string
	keys  []string
	args  []any
	token string // the one that was recorded
}

// record looks at what the driver sends for a term of key.
func (r *Redis) record(t testserver.TB, key string) term {
	t.Helper()
	client := r.dial(t)
	var rec recorder
	client.AddHook(&rec)
	driver := r.driver(t, client)
	token := rand.Text() // 26 characters, as the engine's
	once := func(key string) {
		l, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: token, Owner: owner, TTL: lease})
		if err == nil {
			err = l.Release(t.Context(), 0)
		}
		if err != nil {
			t.Fatalf("record a term: %v", err)
		}
	}
	once("warm-up of " + key) // loads the scripts, which takes requests of its own
	rec.forget()
	once(key)
	sent, err := rec.commands(token)
	if err == nil && len(sent) != 2 {
		err = fmt.Errorf("%d requests, not 2", len(sent))
	}
	if err != nil {
		t.Fatalf("what the driver sends for a term: %v", err)
	}
	return term{acquire: sent[0], release: sent[1]}
}

// send sends the command with another token. It returns errRefused unless the reply is a positive number, as that of an
// acquisition and of a release is.
func (c command) send(ctx context.Context, client *redis.Client, token string) error {
	args := slices.Clone(c.args)
	for i, a := range args {
		if a == c.token {
			args[i] = token
		}
	}
	reply, err := client.EvalSha(ctx, c.sha, c.keys, args...).Result()
	if err != nil {
		return err
	}
	if n, ok := reply.(int64); !ok || n <= 0 {
		return errRefused
	}
	return nil
}

// recorder is a [redis.Hook] that keeps the arguments of all commands.
type recorder struct {
	mu   sync.Mutex
	list [][]any
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list)
}

func (r *recorder) keep(cmds ...redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmd := range cmds {
		r.list = append(r.list, slices.Clone(cmd.Args()))
	}
}

// commands returns what was sent, if it was nothing but scripts by their hashes.
func (r *recorder) commands(token string) ([]command, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []command
	for _, args := range r.list {
		c, err := commandOf(args)
		if err != nil {
			return nil, err
		}
		c.token = token
		list = append(list, c)
	}
	return list, nil
}

// DialHook implements [redis.Hook].
func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.keep(cmds...)
		return next(ctx, cmds)
	}
}

// ProcessHook implements [redis.Hook].
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.keep(cmd)
		return next(ctx, cmd)
	}
}

// commandOf takes apart EVALSHA sha numkeys key... arg...
func commandOf(args []any) (command, error) {
	bad := fmt.Errorf("%v is not the EVALSHA of a script", args)
	if len(args) < 3 || args[0] != "evalsha" {
		return command{}, bad
	}
	sha, isText := args[1].(string)
	n, isNumber := args[2].(int)
	if !isText || !isNumber || n < 0 || len(args) < 3+n {
		return command{}, bad
	}
	c := command{sha: sha, args: slices.Clone(args[3+n:])}
	for _, k := range args[3 : 3+n] {
		key, ok := k.(string)
		if !ok {
			return command{}, bad
		}
		c.keys = append(c.keys, key)
	}
	return c, nil
}
