package redisleader_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
)

// slotted is a granted slot and what asked for it.
type slotted struct {
	backend.Lease
	slot int
	req  backend.Request
}

func winSlot(t testing.TB, b backend.SlotAcquirer, req backend.Request, n int) slotted {
	t.Helper()
	lease, slot, err := b.TryAcquireSlot(t.Context(), req, n)
	if err != nil {
		t.Fatalf("TryAcquireSlot(%q, %d): %v", req.Key, n, err)
	}
	return slotted{lease, slot, req}
}

// calls is how often the server has executed a command.
func calls(t testing.TB, client *redis.Client, command string) int64 {
	t.Helper()
	for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			return number(t, count)
		}
	}
	return 0
}

func TestBackend_TryAcquireSlot_FindsItsTokenWhateverIsKnownOfTheGroup(t *testing.T) {
	const n = 5
	for name, forget := range map[string]func(b *redisleader.Backend, client *redis.Client){
		"all": func(*redisleader.Backend, *redis.Client) {},
		"nothing": func(_ *redisleader.Backend, client *redis.Client) {
			if client.Del(t.Context(), "leader:{job}:tokens").Val() != 1 {
				t.Error("there were no tokens")
			}
		},
		"nothing since a smaller group": func(b *redisleader.Backend, client *redis.Client) {
			client.Del(t.Context(), "leader:{job}:tokens")
			release(t, win(t, b, request(backend.SlotKey("job", 0), long)), 0)
			winSlot(t, b, request("job", long), 1)
		},
		"all and a larger group": func(b *redisleader.Backend, _ *redis.Client) {
			for range 5 {
				winSlot(t, b, request("job", long), n+5)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			var held []slotted
			for range n {
				held = append(held, winSlot(t, b, request("job", long), n))
			}
			var kept []slotted
			for _, s := range held {
				if s.slot < 2 {
					release(t, s, 0)
				} else {
					kept = append(kept, s)
				}
			}
			forget(b, client)
			for _, s := range kept {
				if again := winSlot(t, b, s.req, n); again.slot != s.slot || again.Fence() != s.Fence() {
					t.Errorf("slot %d with fence %d, then %d with %d", s.slot, s.Fence(), again.slot, again.Fence())
				}
				release(t, s, 0)
				_, _, err := b.TryAcquireSlot(t.Context(), s.req, n)
				lost(t, "a spent token", err)
			}
		})
	}
}

func TestBackend_TryAcquireSlot_FindsATokenOfThePlainVerbs(t *testing.T) {
	b, _ := start(t)
	const n = 10
	release(t, winSlot(t, b, request("job", long), n), 0)
	req := request(backend.SlotKey("job", 7), long)
	lease := win(t, b, req)
	req.Key = "job"
	if s := winSlot(t, b, req, n); s.slot != 7 || s.Fence() != lease.Fence() {
		t.Errorf("slot %d with fence %d, want 7 with %d", s.slot, s.Fence(), lease.Fence())
	}
	release(t, winSlot(t, b, request("job", long), n), 0) // which collects the tokens anew
	late := request("job", long)
	abandoned := late
	abandoned.Key = backend.SlotKey("job", 3)
	if err := b.Abandon(t.Context(), abandoned); err != nil {
		t.Fatal(err)
	}
	for range 2 * n {
		_, _, err := b.TryAcquireSlot(t.Context(), late, n)
		lost(t, "an attempt that was abandoned on one slot", err)
	}
}

func TestBackend_TryAcquireSlot_ReadsOneSlotOfAnEmptyGroup(t *testing.T) {
	b, client := start(t)
	const n = 100
	release(t, winSlot(t, b, request("job", long), n), 0)
	before := calls(t, client, "hmget")
	for range 10 {
		winSlot(t, b, request("job", long), n)
	}
	// The last attempt meets at most nine taken slots, the first one none.
	if reads := calls(t, client, "hmget") - before; reads > 55 {
		t.Errorf("ten attempts read %d slots", reads)
	}
}

func TestBackend_TryAcquireSlot_LosesWithoutAWrite(t *testing.T) {
	b, client := start(t)
	const n = 3
	for range n {
		winSlot(t, b, request("job", long), n)
	}
	for _, tokens := range []bool{true, false} {
		if !tokens {
			client.Del(t.Context(), "leader:{job}:tokens")
		}
		changed := info(t, client, "rdb_changes_since_last_save")
		if _, _, err := b.TryAcquireSlot(t.Context(), request("job", long), n); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("TryAcquireSlot: %v, want ErrHeld", err)
		}
		if now := info(t, client, "rdb_changes_since_last_save"); now != changed {
			t.Errorf("a losing attempt changed the data: %s, then %s", changed, now)
		}
	}
}

func TestBackend_TryAcquireSlot_ReportsForeignTokensAndLeavesThem(t *testing.T) {
	for name, make := range map[string]func(c *redis.Client, key string){
		"string":     func(c *redis.Client, key string) { c.Set(t.Context(), key, "x", 0) },
		"hash":       func(c *redis.Client, key string) { c.HSet(t.Context(), key, "field", "x") },
		"next major": func(c *redis.Client, key string) { c.HSet(t.Context(), key, "format", "2") },
	} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			make(client, "leader:{job}:tokens")
			before := client.Dump(t.Context(), "leader:{job}:tokens").Val()
			for range 3 {
				_, _, err := b.TryAcquireSlot(t.Context(), request("job", long), 3)
				kind(t, "TryAcquireSlot", err, backend.Misconfigured)
			}
			if key := only(t, client); client.Dump(t.Context(), key).Val() != before {
				t.Errorf("the value of %q was changed", key)
			}
		})
	}
}

func TestBackend_TryAcquireSlot_RefusesAGroupWithoutSlots(t *testing.T) {
	b, _ := start(t)
	for _, n := range []int{0, -1} {
		_, _, err := b.TryAcquireSlot(t.Context(), request("job", long), n)
		kind(t, "TryAcquireSlot with "+strconv.Itoa(n), err, backend.Misconfigured)
	}
}

func TestBackend_TryAcquireSlot_ForgetsAGroupWithItsSlots(t *testing.T) {
	b, client := start(t)
	release(t, winSlot(t, b, request("job", time.Minute), 2), 0)
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > time.Minute+retention {
			t.Errorf("%q stays for %v", key, left)
		}
	}
}

func TestBackend_TryAcquireSlot_WorksOnceScriptsAreForgotten(t *testing.T) {
	b, client := start(t)
	for range 3 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		winSlot(t, b, request("job", long), 3)
	}
}

func TestBackend_MinReplicas_TakesBackASlotThatTooFewHave(t *testing.T) {
	b, startReplica := replicated(t)
	req := request("job", long)
	for range 2 {
		_, _, err := b.TryAcquireSlot(t.Context(), req, 2)
		short(t, "TryAcquireSlot without a replica", err)
		for slot := range 2 {
			if h := inspect(t, b, backend.SlotKey("job", slot)); !h.Free() {
				t.Errorf("holder %+v", h)
			}
		}
	}
	_, err := b.PutRecord(t.Context(), backend.Record{Key: "job!run/1"})
	short(t, "PutRecord without a replica", err)
	startReplica()
	eventually(t, "the same attempt succeeds with a replica", func() bool {
		_, _, err := b.TryAcquireSlot(t.Context(), req, 2)
		return err == nil
	})
}

func TestBackend_Cluster_HasSlotsAndRecordsOfNamesThatHaveBraces(t *testing.T) {
	b, server := startCluster(t)
	raw := connect(t, server)
	for _, name := range []string{"{}", "}{", "a{b}c", "plain", `\`} {
		const n = 3
		for range n {
			winSlot(t, b, request(name, long), n)
		}
		if _, _, err := b.TryAcquireSlot(t.Context(), request(name, long), n); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("%q: %v, want ErrHeld", name, err)
		}
		free := inspect(t, b, backend.SlotKey(name, 1))
		if err := b.Break(t.Context(), backend.SlotKey(name, 1), free.Fence); err != nil {
			t.Errorf("%q: Break: %v", name, err)
		}
		if s := winSlot(t, b, request(name, long), n); s.slot != 1 {
			t.Errorf("%q: slot %d, want 1", name, s.slot)
		}
		r := putRecord(t, b, backend.Record{Key: name + "!candidate/}x{", Value: []byte("v")})
		if list := records(t, b, name+"!candidate/"); len(list) != 1 || list[0].Key != r.Key {
			t.Errorf("%q: records %+v", name, list)
		}
	}
	if n := raw.DBSize(t.Context()).Val(); n != 5*(3+1+1) {
		t.Errorf("%d keys", n)
	}
}
