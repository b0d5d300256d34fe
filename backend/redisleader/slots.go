package redisleader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goleader/leader/backend"
)

// tokensSuffix makes the key of the tokens of a group, see lua/acquire_slot.lua, out of what would be the key of its
// record. No key of a record ends like this.
const tokensSuffix = ":tokens"

// TryAcquireSlot makes one attempt at all n slots in one round trip. It begins at a random one. A losing attempt reads
// all of them, which takes the server about 1.5 µs each, and writes nothing.
func (b *Backend) TryAcquireSlot(ctx context.Context, req backend.Request, n int) (backend.Lease, int, error) {
	if n < 1 {
		return nil, 0, backend.WithKind(fmt.Errorf("a group of %d slots", n), backend.Misconfigured)
	}
	if err := checkTTL(req.TTL); err != nil {
		return nil, 0, err
	}
	metadata, err := encodeMetadata(req.Metadata)
	if err != nil {
		return nil, 0, err
	}
	keys := b.groupKeys(req.Key, n)
	reply, short, err := b.runReplicated(ctx, acquireSlotScript, keys,
		req.Token, micros(req.TTL), req.Owner, metadata, rand.IntN(n))
	if err != nil {
		return nil, 0, err
	}
	slot, fence, err := decodeSlot(reply, n)
	if err != nil {
		return nil, 0, err
	}
	key := keys[1+slot]
	if short != nil {
		b.withdraw(ctx, key, req.Token)
		return nil, 0, short
	}
	return &lease{backend: b, key: key, token: req.Token, fence: fence}, slot, nil
}

// groupKeys returns the key of the tokens of a group and those of the records of its slots.
func (b *Backend) groupKeys(group string, n int) []string {
	record := b.recordKey(group)
	keys := make([]string, 1, 1+n)
	keys[0] = record + tokensSuffix
	for i := range n {
		keys = append(keys, backend.SlotKey(record, i))
	}
	return keys
}

// leaseKeys returns the key of the record of key, and if that is a slot also the key of the tokens of its group.
func (b *Backend) leaseKeys(key string) []string {
	record := b.recordKey(key)
	if mark := strings.LastIndexByte(record, '#'); mark >= 0 {
		return []string{record, record[:mark] + tokensSuffix}
	}
	return []string{record}
}

// decodeSlot reads the reply of lua/acquire_slot.lua.
func decodeSlot(reply any, n int) (slot int, fence uint64, err error) {
	if reply == int64(0) {
		return 0, 0, backend.ErrLost
	}
	list, ok := reply.([]any)
	if !ok {
		return 0, 0, unexpected(reply)
	}
	if len(list) != 2 {
		holder, err := decodeHolder(list)
		if err != nil {
			return 0, 0, err
		}
		return 0, 0, &backend.HeldError{Holder: holder}
	}
	i, ok := list[0].(int64)
	f, isFence := list[1].(int64)
	if !ok || !isFence || i < 0 || i >= int64(n) || f <= 0 {
		return 0, 0, unexpected(reply)
	}
	return int(i), uint64(f), nil
}
