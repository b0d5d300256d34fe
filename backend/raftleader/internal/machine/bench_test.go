package machine_test

import (
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

func TestMachine_Apply_OfAKnownKeyAllocatesNothing(t *testing.T) {
	c := found(t)
	c.want(machine.OK, acquire(0, "a", "1"))
	cmd := machine.Command{Kind: machine.Acquire, Key: "a", Token: "1", TTL: ttl}
	tokens := [2]string{"1", "2"}
	var turn int
	n := testing.AllocsPerRun(100, func() {
		turn++
		cmd.At += 2 * ttl
		cmd.Kind, cmd.Token = machine.Acquire, tokens[turn%2]
		r := c.apply(cmd)
		cmd.Fence = r.Fence
		for _, kind := range []machine.Kind{machine.Renew, machine.Release} {
			cmd.Kind = kind
			if got := c.apply(cmd); r.Code != machine.OK || got.Code != machine.OK {
				t.Fatalf("%+v, then %+v", r, got)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCommand_EncodeAndDecode_AllocateLittle(t *testing.T) {
	cmd := acquire(1, "key", "12345678901234567890123456")
	if n := testing.AllocsPerRun(100, func() { cmd.Encode() }); n > 1 {
		t.Errorf("Encode: %v allocations, want 1", n)
	}
	entry := cmd.Encode()
	n := testing.AllocsPerRun(100, func() {
		if _, err := machine.DecodeCommand(entry); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 {
		t.Errorf("DecodeCommand: %v allocations, want at most 3", n)
	}
}

func BenchmarkMachine_Term(b *testing.B) {
	c := found(b)
	for i := range 10_000 {
		c.want(machine.OK, acquire(int64(i), fmt.Sprint("key ", i), "1"))
	}
	b.ReportAllocs()
	at := ttl / 2
	for b.Loop() {
		at++
		entry := acquire(at, "key", strconv.FormatInt(at, 10))
		cmd, err := machine.DecodeCommand(entry.Encode())
		if err != nil {
			b.Fatal(err)
		}
		r := c.apply(cmd)
		c.want(machine.OK, release(at, "key", cmd.Token, r.Fence, 0))
	}
}

func BenchmarkMachine_Snapshot(b *testing.B) {
	c := found(b)
	for i := range 10_000 {
		c.want(machine.OK, acquire(int64(i), fmt.Sprint("key ", i), "1"))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Snapshot().Encode(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
