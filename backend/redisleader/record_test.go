package redisleader_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/backend/redisleader"
)

const retention = 7 * 24 * time.Hour

// only returns the one key of the server that begins with prefix.
func only(t testing.TB, client *redis.Client) string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v, want one", keys, err)
	}
	return keys[0]
}

func record(t testing.TB, client *redis.Client) map[string]string {
	t.Helper()
	fields, err := client.HGetAll(t.Context(), only(t, client)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// pttl checks that the record is kept for the retention beyond an end at most that far from now.
func checkRetention(t testing.TB, client *redis.Client, end time.Duration) {
	t.Helper()
	left, err := client.PTTL(t.Context(), only(t, client)).Result()
	if err != nil || left > end+retention || left < end+retention-patience {
		t.Errorf("the record stays for %v, %v, want %v", left, err, end+retention)
	}
}

func TestBackend_Record_IsOneReadableHashThatOutlivesItsLease(t *testing.T) {
	b, client := start(t)
	req := request("nightly", time.Minute)
	lease := win(t, b, req)
	fields := record(t, client)
	fence := strconv.FormatUint(lease.Fence(), 10)
	want := map[string]string{
		"format": "1", "fence": fence, "token": req.Token, "spent": "", "owner": "node-1", "metadata": "",
		"since": fields["since"], "until": fields["until"],
	}
	for name, value := range want {
		if fields[name] != value || len(fields) != len(want) {
			t.Errorf("record %v, want %v", fields, want)
			break
		}
	}
	if since, end := number(t, fields["since"]), number(t, fields["until"]); end-since != time.Minute.Microseconds() {
		t.Errorf("since %d, until %d", since, end)
	}
	checkRetention(t, client, time.Minute)

	if err := lease.Renew(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	checkRetention(t, client, time.Hour)
	release(t, lease, 0)
	fields = record(t, client)
	if fields["token"] != "" || fields["until"] != "0" || fields["spent"] != req.Token || fields["fence"] != fence {
		t.Errorf("record after the release %v", fields)
	}
	checkRetention(t, client, time.Hour)
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBackend_Record_KeepsFieldsThatItDoesNotKnow(t *testing.T) {
	b, client := start(t)
	release(t, win(t, b, request("a", time.Minute)), 0)
	key := only(t, client)
	if err := client.HSet(t.Context(), key, "format", "1.7", "colour", "red").Err(); err != nil {
		t.Fatal(err)
	}
	lease := win(t, b, request("a", time.Minute))
	if err := lease.Renew(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	release(t, lease, time.Minute)
	if fields := record(t, client); fields["format"] != "1.7" || fields["colour"] != "red" {
		t.Errorf("record %v", fields)
	}
}

func TestBackend_ForeignValue_IsReportedAndNotOverwritten(t *testing.T) {
	for name, make := range map[string]func(c redis.Pipeliner, key string){
		"string":        func(c redis.Pipeliner, key string) { c.Set(t.Context(), key, "x", 0) },
		"list":          func(c redis.Pipeliner, key string) { c.RPush(t.Context(), key, "x") },
		"hash":          func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "field", "x") },
		"next major":    func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "format", "2", "fence", "1") },
		"major ten":     func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "format", "10", "fence", "1") },
		"no fence":      func(c redis.Pipeliner, key string) { c.HDel(t.Context(), key, "fence") },
		"no token":      func(c redis.Pipeliner, key string) { c.HDel(t.Context(), key, "token") },
		"no spent":      func(c redis.Pipeliner, key string) { c.HDel(t.Context(), key, "spent") },
		"word":          func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "fence", "one") },
		"fence 0":       func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "fence", "0") },
		"not a number":  func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "until", "nan") },
		"infinite":      func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "until", "inf") },
		"negative":      func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "until", "-1") },
		"beyond double": func(c redis.Pipeliner, key string) { c.HSet(t.Context(), key, "fence", "9007199254740991") },
	} {
		t.Run(name, func(t *testing.T) {
			b, client := start(t)
			lease := win(t, b, request("a", time.Minute))
			key := only(t, client)
			_, err := client.TxPipelined(t.Context(), func(c redis.Pipeliner) error {
				if name == "string" || name == "list" || name == "hash" {
					c.Del(t.Context(), key)
				}
				make(c, key)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			before := client.Dump(t.Context(), key).Val()

			_, acquire := b.TryAcquire(t.Context(), request("a", time.Minute))
			_, look := b.Inspect(t.Context(), "a")
			for verb, err := range map[string]error{
				"TryAcquire": acquire,
				"Inspect":    look,
				"Renew":      lease.Renew(t.Context(), time.Minute),
				"Release":    lease.Release(t.Context(), time.Second),
				"Abandon":    b.Abandon(t.Context(), request("a", time.Minute)),
			} {
				if backend.KindOf(err) != backend.Misconfigured || errors.Is(err, backend.ErrLost) {
					t.Errorf("%s: %v (%v), want Misconfigured", verb, err, backend.KindOf(err))
				}
				if _, ok := errors.AsType[redis.Error](err); !ok {
					t.Errorf("%s: %v hides the server's error", verb, err)
				}
			}
			if after := client.Dump(t.Context(), key).Val(); after == "" || after != before {
				t.Errorf("the value was changed: %q, then %q", before, after)
			}
		})
	}
}

func TestBackend_Fence_StaysExactUpToTheLimitOfADouble(t *testing.T) {
	b, client := start(t)
	release(t, win(t, b, request("a", time.Minute)), 0)
	const high = 1<<53 - 3
	if err := client.HSet(t.Context(), only(t, client), "fence", strconv.Itoa(high)).Err(); err != nil {
		t.Fatal(err)
	}
	lease := win(t, b, request("a", time.Minute))
	if lease.Fence() != high+1 || record(t, client)["fence"] != strconv.Itoa(high+1) {
		t.Errorf("fence %d, record %v, want %d", lease.Fence(), record(t, client), high+1)
	}
	if h := inspect(t, b, "a"); h.Fence != high+1 {
		t.Errorf("Inspect: %d", h.Fence)
	}
}

func TestBackend_Fence_GrowsOverFlushAndRestart(t *testing.T) {
	b, client, server := startOwned(t)
	last := uint64(0)
	term := func(when string) {
		t.Helper()
		lease := win(t, b, request("a", time.Minute))
		if lease.Fence() <= last {
			t.Fatalf("after %s: fence %d, before %d", when, lease.Fence(), last)
		}
		last = lease.Fence()
		if err := lease.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := b.Abandon(t.Context(), request("other", time.Minute)); err != nil {
			t.Fatal(err)
		}
		inspect(t, b, "a")
		release(t, lease, 0)
	}
	for range 1000 { // far quicker than one in 100 µs at times
		term("a release")
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	term("SCRIPT FLUSH")
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	term("FLUSHALL")
	server.Restart(t)
	term("a restart")
	if err := errors.Join(client.FlushAll(t.Context()).Err(), client.ScriptFlush(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	term("all of them")
}

func TestBackend_RecordKey_KeepsANameOnOneNodeWhateverBracesItHas(t *testing.T) {
	_, client := start(t)
	prefixed := redisleader.New(client, &redisleader.Options{Prefix: "p:"})
	for key, want := range map[string]string{
		"nightly": "p:{nightly}", "ns/nightly#3": "p:{ns/nightly}#3", "a!run/x#}": "p:{a}!run/x#}", "{}": `p:{\(\)}`,
		"}{": `p:{\)\(}`, `a\`: `p:{a\\}`,
	} {
		release(t, win(t, prefixed, request(key, time.Minute)), 0)
		if got := only(t, client); got != want {
			t.Errorf("%q is stored as %q, want %q", key, got, want)
		}
		client.Del(t.Context(), want)
	}
}
