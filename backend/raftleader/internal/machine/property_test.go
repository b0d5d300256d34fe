package machine_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

const (
	histories = 25
	commands  = 1500
)

// script makes random commands about few keys and tokens, most of which have to do with what was granted before.
type script struct {
	*rand.Rand

	at      int64
	fence   []uint64
	version []string
}

func newScript(seed uint64) *script {
	return &script{Rand: rand.New(rand.NewPCG(seed, 1)), fence: []uint64{0}, version: []string{""}}
}

func (s *script) next() machine.Command {
	s.at += s.step()
	c := machine.Command{
		Kind:    machine.Kind(s.IntN(int(machine.DeleteRecord)-1)) + machine.Tick,
		At:      s.at - s.Int64N(2)*s.Int64N(second), // a former leader's
		Key:     s.pick("a", "b", "g#0", "g#1"),
		Token:   s.pick("1", "2", "3", "4"),
		TTL:     s.Int64N(20) * second,
		Fence:   recent(s, s.fence),
		Version: recent(s, s.version),
		Value:   []byte{byte(s.IntN(256))},
		Slots:   1 + s.IntN(3),
		Wall:    s.Int64(),
	}
	c.Owner = "owner of " + c.Token
	switch c.Kind {
	case machine.AcquireSlot:
		c.Key = "g"
	case machine.PutRecord, machine.DeleteRecord:
		c.Key = s.pick("a!x/1", "a!x/2", "b!x/1")
	case machine.Acquire:
		c.TTL++
	default:
	}
	return c
}

// step is how far the time moves: mostly little, sometimes over everything that is remembered.
func (s *script) step() int64 {
	switch n := s.IntN(100); {
	case n == 0:
		return s.Int64N(2 * hour)
	case n < 50:
		return 0
	}
	return s.Int64N(3 * second)
}

func (s *script) pick(from ...string) string { return from[s.IntN(len(from))] }

func recent[T any](s *script, from []T) T { return from[max(0, len(from)-1-s.IntN(4))] }

// learn lets later commands refer to an answer.
func (s *script) learn(r machine.Reply) {
	if r.Fence != 0 {
		s.fence = append(s.fence, r.Fence)
	}
	if r.Version != "" {
		s.version = append(s.version, r.Version)
	}
}

// history is a random log with the answers.
type history struct {
	log     []machine.Command
	replies []machine.Reply
}

func (h *history) run(seed uint64, check func(index uint64, c machine.Command, r machine.Reply), m *machine.Machine) {
	s := newScript(seed)
	for i := range commands {
		c := s.next()
		if i == 0 {
			c = machine.Command{Kind: machine.Found, Token: "cluster", Wall: epoch}
		}
		r := m.Apply(uint64(i+1), c)
		s.learn(r)
		h.log, h.replies = append(h.log, c), append(h.replies, r)
		check(uint64(i+1), c, r)
	}
}

func TestMachine_Property_AnswersAsTheModelDoes(t *testing.T) {
	codes := map[string]int{}
	for seed := range uint64(histories) {
		m, naive := machine.New(), newModel()
		(&history{}).run(seed, func(index uint64, c machine.Command, r machine.Reply) {
			want := naive.apply(index, c)
			codes[fmt.Sprint(c.Kind, r.Code)]++
			r.Holder = reduced(r.Holder)
			if r.Code != want.Code || r.Fence != want.Fence || r.Slot != want.Slot || r.Version != want.Version ||
				fmt.Sprint(r.Holder) != fmt.Sprint(want.Holder) {
				t.Fatalf("seed %d, %d: %+v: got %+v, want %+v", seed, index, c, r, want)
			}
			compare(t, m, naive)
		}, m)
	}
	for _, kind := range []machine.Kind{machine.Acquire, machine.AcquireSlot} {
		for _, code := range []machine.Code{machine.OK, machine.Held, machine.Lost} {
			if n := codes[fmt.Sprint(kind, code)]; n < histories {
				t.Errorf("kind %d was answered by %d only %d times", kind, code, n)
			}
		}
	}
}

// compare compares what readers see.
func compare(t *testing.T, m *machine.Machine, naive *model) {
	t.Helper()
	for _, all := range []bool{false, true} {
		list := map[string]machine.Holder{}
		for _, e := range m.List("", all, 0) {
			list[e.Key] = reduced(e.Holder)
		}
		if want := naive.list(all); !maps.EqualFunc(list, want, func(a, b machine.Holder) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Fatalf("list: got %+v, want %+v", list, want)
		}
	}
	set := map[string]machine.Record{}
	for _, r := range m.Records("a!x/", 0) {
		r.Value = nil
		set[r.Key] = r
	}
	if want := naive.set("a!x/"); fmt.Sprint(set) != fmt.Sprint(want) {
		t.Fatalf("records: got %+v, want %+v", set, want)
	}
	if want := len(naive.leases) + len(naive.records); m.Size() != want {
		t.Fatalf("%d leases and records, want %d", m.Size(), want)
	}
}

func TestMachine_Property_ForeseesWhatItThenAnswers(t *testing.T) {
	foreseen := 0
	for seed := range uint64(histories) {
		m := machine.New()
		s := newScript(seed)
		for i := range uint64(commands) {
			c := s.next()
			before := encoded(t, m)
			want, ok := m.Foresee(c)
			if !bytes.Equal(encoded(t, m), before) {
				t.Fatalf("seed %d, %d: looking ahead has changed something", seed, i)
			}
			got := m.Apply(i+1, c)
			s.learn(got)
			if !ok {
				continue
			}
			foreseen++
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %d: %+v: foresaw %+v, then %+v", seed, i, c, want, got)
			}
		}
	}
	if foreseen < histories*commands/10 {
		t.Errorf("only %d answers were foreseen", foreseen)
	}
}

// TestMachine_Property_KeepsTheRules checks the history by itself, without a model.
func TestMachine_Property_KeepsTheRules(t *testing.T) {
	for seed := range uint64(histories) {
		m := machine.New()
		rules := &rules{t: t, m: m, fences: map[string]uint64{}, spent: map[string]spent{}}
		(&history{}).run(seed, func(_ uint64, c machine.Command, r machine.Reply) { rules.check(c, r) }, m)
	}
}

// rules follows a history.
type rules struct {
	t      *testing.T
	m      *machine.Machine
	now    int64
	fences map[string]uint64
	spent  map[string]spent
}

// spent is a token that was abandoned.
type spent struct {
	token string
	until int64 // it is remembered until then at least
}

func (h *rules) check(c machine.Command, r machine.Reply) {
	h.t.Helper()
	was := h.now
	h.now = h.m.Now()
	if h.now < was {
		h.t.Fatalf("the time went back from %d to %d", was, h.now)
	}
	switch c.Kind {
	case machine.Acquire:
		if r.Code == machine.OK {
			h.granted(c, r)
		}
	case machine.Abandon:
		holder := h.m.Holder(c.Key, 0)
		if holder.Owner == c.Owner && !holder.Free() && !holder.Kept {
			h.t.Fatalf("%s has %s after it was abandoned", c.Token, c.Key)
		}
		if holder.Free() {
			h.spent[c.Key] = spent{c.Token, h.now + hour}
		}
	case machine.Release, machine.Break:
		delete(h.spent, c.Key) // another's token may be the last one spent
	default:
	}
}

func (h *rules) granted(c machine.Command, r machine.Reply) {
	h.t.Helper()
	if r.Fence < h.fences[c.Key] {
		h.t.Fatalf("fence %d after %d", r.Fence, h.fences[c.Key])
	}
	h.fences[c.Key] = r.Fence
	if s := h.spent[c.Key]; s.token == c.Token && h.now < s.until {
		h.t.Fatalf("the spent token %s has %s", c.Token, c.Key)
	}
}

func TestMachine_Property_IsDeterministic(t *testing.T) {
	for seed := range uint64(histories) {
		one, other := machine.New(), machine.New()
		var h history
		h.run(seed, func(uint64, machine.Command, machine.Reply) {}, one)
		for i, c := range h.log {
			entry, err := machine.DecodeCommand(c.Encode())
			if err != nil {
				t.Fatal(err)
			}
			other.Changed(entry.Key) // who looks on changes nothing
			other.Foresee(entry)
			if r := other.Apply(uint64(i+1), entry); fmt.Sprint(r) != fmt.Sprint(h.replies[i]) {
				t.Fatalf("seed %d, %d: %+v, elsewhere %+v", seed, i, r, h.replies[i])
			}
		}
		if !bytes.Equal(encoded(t, one), encoded(t, other)) {
			t.Fatalf("seed %d: two machines differ after one log", seed)
		}
	}
}

// TestMachine_Property_NoWallTimeDecides: raft leaders whose clocks are far apart do the same.
func TestMachine_Property_NoWallTimeDecides(t *testing.T) {
	for seed := range uint64(histories) {
		one, other := machine.New(), machine.New()
		var h history
		h.run(seed, func(uint64, machine.Command, machine.Reply) {}, one)
		for i, c := range h.log {
			if c.Kind != machine.Found {
				c.Wall -= hour
			}
			want, got := h.replies[i], other.Apply(uint64(i+1), c)
			want.Holder.Since, got.Holder.Since = 0, 0
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %d: %+v, by another clock %+v", seed, i, want, got)
			}
		}
		if one.Now() != other.Now() || one.Size() != other.Size() || one.Timed() != other.Timed() {
			t.Fatalf("seed %d: two machines differ by the clocks of their leaders", seed)
		}
	}
}

func TestMachine_Property_ASnapshotAndTheRestAreTheWholeLog(t *testing.T) {
	for seed := range uint64(histories) {
		whole := machine.New()
		var h history
		var cut int
		var snapshot []byte
		h.run(seed, func(index uint64, _ machine.Command, _ machine.Reply) {
			if index == 1+seed*17%commands {
				cut, snapshot = int(index), encoded(t, whole)
			}
		}, whole)
		state, err := machine.Decode(bytes.NewReader(snapshot))
		if err != nil {
			t.Fatal(err)
		}
		rest := machine.New()
		rest.Apply(1, acquire(0, "left over", "1"))
		rest.Restore(state)
		if !bytes.Equal(encoded(t, rest), snapshot) {
			t.Fatalf("seed %d: the state differs after it was restored", seed)
		}
		for i, c := range h.log[cut:] {
			rest.Apply(uint64(cut+i+1), c)
		}
		if !bytes.Equal(encoded(t, rest), encoded(t, whole)) || rest.Timed() != whole.Timed() || rest.Queued() != whole.Queued() {
			t.Fatalf("seed %d: differs after a snapshot at %d and the rest", seed, cut)
		}
	}
}

func encoded(t testing.TB, m *machine.Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Snapshot().Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
