package redisleader

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
)

var (
	//go:embed lua/store.lua
	luaStore string
	//go:embed lua/read.lua
	luaRead string
	//go:embed lua/record.lua
	luaRecord string
	//go:embed lua/holder.lua
	luaHolder string
	//go:embed lua/grant.lua
	luaGrant string
	//go:embed lua/extend.lua
	luaExtend string
	//go:embed lua/acquire.lua
	luaAcquire string
	//go:embed lua/acquire_slot.lua
	luaAcquireSlot string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/abandon.lua
	luaAbandon string
	//go:embed lua/break.lua
	luaBreak string
	//go:embed lua/withdraw.lua
	luaWithdraw string
	//go:embed lua/inspect.lua
	luaInspect string
	//go:embed lua/set.lua
	luaSet string
	//go:embed lua/put.lua
	luaPut string
	//go:embed lua/get.lua
	luaGet string
	//go:embed lua/delete.lua
	luaDelete string
)

var (
	luaLease = luaStore + luaRead + luaRecord
	luaTake  = luaHolder + luaGrant + luaExtend

	acquireScript     = redis.NewScript(luaLease + luaTake + luaAcquire)
	acquireSlotScript = redis.NewScript(luaStore + luaRead + luaTake + luaAcquireSlot)
	renewScript       = redis.NewScript(luaLease + luaExtend + luaRenew)
	releaseScript     = redis.NewScript(luaLease + luaRelease)
	abandonScript     = redis.NewScript(luaLease + luaAbandon)
	breakScript       = redis.NewScript(luaLease + luaBreak)
	withdrawScript    = redis.NewScript(luaLease + luaWithdraw)
	inspectScript     = redis.NewScript(luaLease + luaHolder + luaInspect)

	putScript    = redis.NewScript(luaStore + luaSet + luaPut)
	getScript    = redis.NewScript(luaStore + luaSet + luaGet)
	deleteScript = redis.NewScript(luaStore + luaSet + luaDelete)
)

// run sends script for the given keys. The client may send it again after a lost connection; each script may
// run twice.
func (b *Backend) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	reply, err := script.Run(ctx, b.client, keys, args...).Result()
	if err != nil {
		return nil, b.classify(ctx, err)
	}
	return reply, nil
}

// runReplicated is run, and then waits for Options.MinReplicas. short is the error that says that the reply stands, but
// on too few replicas.
func (b *Backend) runReplicated(
	ctx context.Context, script *redis.Script, keys []string, args ...any,
) (reply any, short, err error) {
	if b.options.MinReplicas == 0 {
		reply, err = b.run(ctx, script, keys, args...)
		return reply, nil, err
	}
	if err := b.ready(ctx); err != nil {
		return nil, nil, err
	}
	reply, confirmed, err := b.pipeline(ctx, script.EvalSha, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, confirmed, err = b.pipeline(ctx, script.Eval, keys, args)
	}
	switch {
	case err != nil:
		return nil, nil, b.classify(ctx, err)
	case confirmed < int64(b.options.MinReplicas):
		return reply, b.shortage(confirmed), nil
	}
	return reply, nil, nil
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

// pipeline sends a script and a WAIT over one connection, because WAIT counts the replicas that have the writes of its
// own connection.
func (b *Backend) pipeline(ctx context.Context, eval eval, keys []string, args []any) (any, int64, error) {
	timeout := b.options.ReplicaTimeout
	if end, ok := ctx.Deadline(); ok {
		// 0 would mean to wait for ever.
		timeout = max(time.Millisecond, min(timeout, time.Until(end)))
	}
	pipe := b.client.Pipeline()
	script := eval(ctx, pipe, keys, args...)
	wait := pipe.Do(ctx, "wait", b.options.MinReplicas, timeout.Milliseconds())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, err
	}
	confirmed, err := wait.Int64()
	return script.Val(), confirmed, err
}

func (b *Backend) shortage(confirmed int64) error {
	err := fmt.Errorf("%d of the %d replicas asked for by MinReplicas confirmed the write within %v",
		confirmed, b.options.MinReplicas, b.options.ReplicaTimeout)
	return backend.WithKind(err, backend.Unavailable)
}

// micros converts a TTL, or a time to keep, to whole µs, rounded up.
func micros(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

func checkTTL(ttl time.Duration) error {
	var err error
	switch {
	case ttl < minTTL:
		err = fmt.Errorf("ttl %v is under the minimum of %v", ttl, minTTL)
	case ttl > maxTTL:
		err = fmt.Errorf("ttl %v is over the maximum of %v", ttl, maxTTL)
	}
	return backend.WithKind(err, backend.Misconfigured)
}

func checkKeep(keep time.Duration) error {
	if keep <= maxTTL {
		return nil
	}
	return backend.WithKind(fmt.Errorf("keep %v is over the maximum of %v", keep, maxTTL), backend.Misconfigured)
}

func unexpected(reply any) error {
	return backend.WithKind(fmt.Errorf("unexpected reply of a script: %v", reply), backend.Misconfigured)
}
