package machine_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

func everything() machine.Command {
	return machine.Command{
		Kind: machine.PutRecord, At: 1, Key: "key", Token: "token", Owner: "owner", TTL: 2, Fence: 3, Slots: 4,
		Metadata: map[string]string{"b": "", "": "a"}, Wall: -5, Version: "version", Value: []byte{0, 0xff},
	}
}

func TestCommand_Encode_RoundTrips(t *testing.T) {
	for _, want := range []machine.Command{everything(), {Kind: machine.Tick}, acquire(1, "k", "t")} {
		got, err := machine.DecodeCommand(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// TestCommand_Encode_KeepsItsFormat: logs on disk are of this form.
func TestCommand_Encode_KeepsItsFormat(t *testing.T) {
	c := everything()
	const want = "01" + "0209" + "0401" + "07036b6579" + "0905746f6b656e" + "0b056f776e6572" + "0c02" + "0e03" + "1004" +
		"130503000501" + "61" + "130503016205" + "00" + "14fbffffffffffffffff01" + "170776657273696f6e" + "190200ff"
	if got := hex.EncodeToString(c.Encode()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeCommand_RefusesWhatItCannotFollow(t *testing.T) {
	whole := (&machine.Command{Kind: machine.Acquire, Key: "key"}).Encode()
	for name, entry := range map[string][]byte{
		"empty":         {},
		"another major": append([]byte{2}, whole[1:]...),
		"a later kind":  {1, 2, 99},
		"no kind":       {1},
		"cut":           whole[:len(whole)-1],
		"a long number": append([]byte{1}, bytes.Repeat([]byte{0xff}, 11)...),
		"a long text":   {1, 2, 2, 7, 100, 'a'},
	} {
		if c, err := machine.DecodeCommand(entry); err == nil {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

func TestDecodeCommand_SkipsFieldsOfALaterRelease(t *testing.T) {
	c := everything()
	entry := append(c.Encode(), 100<<1&0x7f|0x80, 1, 7, 0x80|0x49, 1, 1, 'x')
	if got, err := machine.DecodeCommand(entry); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func state(t testing.TB) []byte {
	t.Helper()
	c := found(t)
	c.want(machine.OK, acquire(1, "a", "1"))
	cmd := acquire(2, "b", "2")
	cmd.Metadata = map[string]string{"k": "v", "": ""}
	c.want(machine.OK, cmd)
	c.want(machine.OK, abandon(2, "b", "2"))
	c.want(machine.OK, machine.Command{Kind: machine.PutRecord, Key: "a!x/1", Value: []byte{0}, TTL: ttl})
	return encoded(t, c.Machine)
}

func TestDecode_RefusesEveryCut(t *testing.T) {
	whole := state(t)
	if _, err := machine.Decode(iotest.OneByteReader(bytes.NewReader(whole))); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := machine.Decode(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
}

func TestDecode_RefusesAnotherMajorFormat(t *testing.T) {
	whole := state(t)
	whole[0]++
	if _, err := machine.Decode(bytes.NewReader(whole)); err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("got %v", err)
	}
}

func TestDecode_SkipsPartsOfALaterRelease(t *testing.T) {
	whole := state(t)
	later := slices.Concat(whole[:len(whole)-1], []byte{3, 99, 2, 2, 0})
	s, err := machine.Decode(bytes.NewReader(later))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil || !bytes.Equal(b.Bytes(), whole) {
		t.Errorf("got %x, %v", b.Bytes(), err)
	}
}

func TestDecode_AllocatesNoMoreThanThereIsToRead(t *testing.T) {
	// The length of a part is said to be a GiB less one.
	damaged := []byte{1, 0xff, 0xff, 0xff, 0xff, 3, 1}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := machine.Decode(bytes.NewReader(damaged))
	runtime.ReadMemStats(&after)
	if err == nil || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%v, %d bytes were allocated", err, after.TotalAlloc-before.TotalAlloc)
	}
}

func TestState_Encode_ReturnsTheErrorOfTheWriter(t *testing.T) {
	c := found(t)
	if err := c.Snapshot().Encode(brokenWriter{}); err == nil {
		t.Error("no error")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestState_IsACopy(t *testing.T) {
	c := found(t)
	c.want(machine.OK, acquire(1, "a", "1"))
	s := c.Snapshot()
	before := fmt.Sprint(s)
	c.want(machine.OK, abandon(2, "a", "1"))
	c.want(machine.OK, acquire(2, "b", "1"))
	if after := fmt.Sprint(s); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(state(f))
	f.Add([]byte{1, 0})
	f.Add([]byte{1, 3, 2, 2, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := machine.Decode(bytes.NewReader(b))
		if err != nil {
			return
		}
		c := &cluster{Machine: machine.New(), t: t}
		c.Restore(s)
		c.index = c.Applied()
		c.apply(acquire(c.Now(), "a", "1"))
		c.apply(tick(c.Now() + hour))
		once := encoded(t, c.Machine)
		s, err = machine.Decode(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("what was encoded is refused: %v", err)
		}
		c.Restore(s)
		if !bytes.Equal(encoded(t, c.Machine), once) {
			t.Fatal("a state differs after it was restored")
		}
	})
}

func FuzzDecodeCommand(f *testing.F) {
	c := everything()
	f.Add(c.Encode())
	f.Add([]byte{1, 2, 2, 25, 0}) // an empty value
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := machine.DecodeCommand(b)
		if err != nil {
			return
		}
		again, err := machine.DecodeCommand(c.Encode())
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("got %+v, %v, want %+v", again, err, c)
		}
		m := machine.New()
		c.Slots = min(c.Slots, 100)
		m.Foresee(c)
		m.Apply(1, c)
		m.Apply(2, c)
	})
}
