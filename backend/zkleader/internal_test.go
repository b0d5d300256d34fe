package zkleader

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
)

func TestNodeName_IsReadableAndAllowed(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"nightly": "nightly", "team/nightly": "team%2Fnightly", "a#3": "a#3", "job!run": "job!run", "50%": "50%25",
		".": "%2E", "..": "%2E%2E", "...": "...", "日本": "日本", "🗝": "%F0%9F%97%9D", "a b": "a b",
		"a\u0085": "a%C2%85",
	} {
		if got := nodeName(key); got != want {
			t.Errorf("nodeName(%q) = %q, want %q", key, got, want)
		}
		if back, ok := keyOf(want); !ok || back != key {
			t.Errorf("keyOf(%q) = %q, %t", want, back, ok)
		}
	}
	for _, name := range []string{"", "a%", "a%2", "a%zz", "%2f", "%41", "a/b"} {
		if key, ok := keyOf(name); ok {
			t.Errorf("keyOf(%q) = %q, want that it is none of ours", name, key)
		}
	}
}

func FuzzNodeName(f *testing.F) {
	for _, seed := range []string{"nightly", "a/b", "%2F", "..", "🗝", "\ufffd", "\xff", "a%h0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" {
			t.Skip()
		}
		name := nodeName(key)
		if strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unwritable(r) }) || !utf8.ValidString(name) {
			t.Errorf("nodeName(%q) = %q, which is not allowed", key, name)
		}
		if back, ok := keyOf(name); !ok || back != key {
			t.Errorf("keyOf(%q) = %q, %t, want %q", name, back, ok, key)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "text", `{"format":1}`, `{"format":2}`, `{"format":1,"token":"a","ttl":-1}`, `{"format":1,"rest":[{}]}`,
		`{"format":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode("/leader/job", data)
		if err != nil {
			if backend.KindOf(err) != backend.Misconfigured {
				t.Errorf("%q: %v of kind %v", data, err, backend.KindOf(err))
			}
			return
		}
		again, err := decode("/leader/job", r.encode())
		if err != nil || again.Token != r.Token || again.Keep != r.Keep || len(again.rest) != len(r.rest) {
			t.Errorf("%q becomes %+v, %v", r.encode(), again, err)
		}
	})
}

// minutes returns an instant of the server's clock, which shows 1,000 minutes in these tests.
func minutes(ago float64) int64 { return 60_000*1000 - int64(ago*60_000) }

func TestSight_Left_IsJudgedByObservationAndTheServersClock(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	type row struct {
		name             string
		seen             time.Duration // ago
		written          int64         // by the server's clock
		alive, kept, now bool          // now: the server's clock is known
		want             time.Duration
	}
	for _, r := range []row{
		{"a renewed lease lasts for its TTL from the first sight", 0, minutes(0), true, false, true, minute},
		{"a lease is over when it was seen unchanged for its TTL", minute, minutes(0), true, false, true, 0},
		{"the server's clock cuts no lease short whose session lives", 0, minutes(2), true, false, true, minute},
		{"a step of that clock ahead does neither", 30 * time.Second, minutes(2.5), true, false, true, 30 * time.Second},
		{"a lease without session is over by that clock", 0, minutes(1.1), false, false, true, 0},
		{"but not before its time", 0, minutes(0.5), false, false, true, 30*time.Second + time.Millisecond},
		{"a lease without session is over by observation too", minute, minutes(0), false, false, true, 0},
		{"without the clock by observation alone", 0, minutes(1.1), false, false, false, minute},
		{"who comes late takes what is ancient", 0, minutes(3.1), true, false, true, 0},
		{"what is kept ends by the clock", 0, minutes(0.5), false, true, true, 30*time.Second + time.Millisecond},
		{"and not by observation", 2 * minute, minutes(0.5), false, true, true, 30*time.Second + time.Millisecond},
		{"unless the clock is not known", 2 * minute, minutes(0.5), false, true, false, 0},
	} {
		g := &sight{alive: r.alive, first: time.Now().Add(-r.seen)}
		g.stat.Mtime = r.written
		if r.kept {
			g.Keep = 60_000
		} else {
			g.Token, g.TTL = "token", 60_000
		}
		var c clock
		if r.now {
			c.note(minutes(0))
		}
		if got := g.left(&c); got > r.want || got < r.want-time.Second {
			t.Errorf("%s: %v left, want %v", r.name, got, r.want)
		}
	}
}

func TestClock_ForgetsAnOldReading(t *testing.T) {
	t.Parallel()
	var c clock
	if _, ok := c.now(); ok {
		t.Error("a clock that was never read tells the time")
	}
	c.note(5000)
	c.answered = c.answered.Add(-2 * time.Second)
	if ms, ok := c.now(); !ok || ms < 6998 || ms > 60_000 { // a thousandth less, as it may be slower than ours
		t.Errorf("now = %d, %t, want 6998", ms, ok)
	}
	c.answered = c.answered.Add(-clockAge)
	if _, ok := c.now(); ok {
		t.Error("an old reading still tells the time")
	}
}

func TestSights_DropWhatNobodyLooksAt(t *testing.T) {
	t.Parallel()
	ss := sights{keep: time.Hour}
	for i := range 5000 {
		ss.note(&sight{path: string(rune('a'+i%26)) + strings.Repeat("x", i/26)})
	}
	if n := len(ss.byPath); n != 5000 {
		t.Errorf("%d sights, want all, as they are recent", n)
	}
	ss.keep, ss.limit = -1, 0
	ss.note(&sight{path: "new"})
	if n := len(ss.byPath); n > 1 {
		t.Errorf("%d sights, want none of the old ones", n)
	}
}

func TestClassify_SaysWhatAnotherTryIsWorth(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		err  error
		want backend.Kind
	}{
		{zk.ErrNoAuth, backend.Denied},
		{zk.ErrAuthFailed, backend.Denied},
		{zk.ErrInvalidACL, backend.Misconfigured},
		{errClosed, backend.Misconfigured},
		{zk.ErrConnectionClosed, backend.Unavailable},
		{zk.ErrSessionExpired, backend.Unavailable},
		{zk.ErrSessionMoved, backend.Unavailable},
		{zk.ErrNoServer, backend.Unavailable},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, backend.Unavailable},
		{zk.ErrAPIError, backend.Unknown},
		{unreadable("/a", errForeign), backend.Misconfigured},
	} {
		err := classify(t.Context(), "/leader/job", row.err)
		if !errors.Is(err, row.err) || backend.KindOf(err) != row.want || !strings.Contains(err.Error(), "/leader/job") {
			t.Errorf("%v becomes %v of kind %v, want %v", row.err, err, backend.KindOf(err), row.want)
		}
		final := row.want == backend.Denied || row.want == backend.Misconfigured
		if err := classify(over, "/leader/job", row.err); errors.Is(err, context.Canceled) == final {
			t.Errorf("after its context ended %v becomes %v", row.err, err)
		}
	}
	if err := classify(over, "/leader/job", nil); err != nil {
		t.Errorf("success becomes %v", err)
	}
}

func TestNew_ReportsBadOptionsByCheck(t *testing.T) {
	t.Parallel()
	servers := []string{"localhost:2181"}
	for want, b := range map[string]*Backend{
		"no server":          New(nil, nil),
		"is not host":        New([]string{"localhost:2181/chroot"}, nil),
		"root \"/\"":         New(servers, &Options{Root: "/"}),
		"root \"leader\"":    New(servers, &Options{Root: "leader"}),
		"root \"/a/\"":       New(servers, &Options{Root: "/a/"}),
		"root \"/a/../b\"":   New(servers, &Options{Root: "/a/../b"}),
		"SessionTimeout 1ms": New(servers, &Options{SessionTimeout: time.Millisecond}),
		"SessionTimeout -1s": New(servers, &Options{SessionTimeout: -time.Second}),
		"no scheme":          New(servers, &Options{Auth: []Auth{{Credential: "secret"}}}),
	} {
		err := b.Check()
		if err == nil || !strings.Contains(err.Error(), want) || backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("Check: %v of kind %v, want %q", err, backend.KindOf(err), want)
		}
		if _, other := b.Inspect(t.Context(), "job"); other == nil || !strings.Contains(other.Error(), want) {
			t.Errorf("Inspect: %v, want %q", other, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	b := New(servers, &Options{Root: "/apps/one", SessionTimeout: 30 * time.Second})
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	l := b.Limits()
	if l.MaxTTL != 30*time.Second || !l.FixedTTL || !l.LookFirst || !l.Blocking || l.Punctual {
		t.Errorf("Limits = %+v", l)
	}
	if text := (Auth{"digest", "app:secret"}).String(); strings.Contains(text, "secret") {
		t.Errorf("an Auth prints as %q", text)
	}
}

func TestMillis_RoundsUpAndNeverOverflows(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2} {
		if got := millis(d); got != want {
			t.Errorf("millis(%v) = %d, want %d", d, got, want)
		}
	}
	var c clock
	c.note(minutes(0))
	for _, known := range []*clock{&c, {}} {
		g := &sight{record: record{Keep: millis(1<<63 - 1)}, first: time.Now()}
		g.stat.Mtime = minutes(0)
		if left := g.left(known); left < longest-time.Minute {
			t.Errorf("what is kept for the longest time has %v left", left)
		}
	}
}

func TestBackend_TryAcquireSlot_RefusesAGroupWithoutSlots(t *testing.T) {
	t.Parallel()
	b := New([]string{"localhost:2181"}, nil)
	req := backend.Request{Key: "job", Token: "token", TTL: time.Second}
	if _, _, err := b.TryAcquireSlot(t.Context(), req, 0); backend.KindOf(err) != backend.Misconfigured {
		t.Errorf("TryAcquireSlot: %v of kind %v, want Misconfigured", err, backend.KindOf(err))
	}
}

func TestAttempts_OfOneTokenWaitForEachOther(t *testing.T) {
	t.Parallel()
	var a attempts
	first, err := a.enter(t.Context(), "token")
	if err != nil {
		t.Fatal(err)
	}
	if done, err := a.enter(t.Context(), "another"); err != nil {
		t.Errorf("another token: %v", err)
	} else {
		done()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.enter(ctx, "token"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second attempt: %v, want that it waits", err)
	}
	first()
	if done, err := a.enter(t.Context(), "token"); err != nil {
		t.Errorf("after the first one: %v", err)
	} else {
		done()
	}
	if n := len(a.byToken); n != 0 {
		t.Errorf("%d tokens are remembered", n)
	}
}

// pipes are connections without a server.
type pipes struct{ dialed func(net.Conn) }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	conn, far := net.Pipe()
	p.dialed(far)
	return conn, nil
}

func TestHosts_CloseAConnectionThatComesAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h := &hosts{servers: []string{"a"}}
	var far net.Conn
	h.dial = pipes{func(c net.Conn) {
		far = c
		cancel()
		h.hangUp()
	}}.dial
	if conn, err := h.connect(ctx, "tcp", "a", time.Minute); !errors.Is(err, zk.ErrClosing) {
		t.Errorf("connect: %v, %v, want that it is over", conn, err)
	}
	if err := far.SetDeadline(time.Now()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection: %v, want that it is closed", err)
	}
}

func TestHosts_GiveServersMoreTimeIfAllAreSlow(t *testing.T) {
	t.Parallel()
	h := &hosts{servers: []string{"a", "b"}, greet: time.Second, dial: pipes{func(c net.Conn) { _ = c.Close() }}.dial}
	greet := func() time.Duration {
		t.Helper()
		if _, err := h.connect(t.Context(), "tcp", "a", time.Minute); err != nil {
			t.Fatal(err)
		}
		return h.last.greet
	}
	for i, want := range []time.Duration{1, 1, 2, 2, 3} {
		if got := greet(); got != want*time.Second {
			t.Errorf("attempt %d waits for %v, want %v", i, got, want*time.Second)
		}
		h.last.late()
	}
	h.Connected()
	for range 5 {
		if got := greet(); got != time.Second { // those that refuse are not slow
			t.Errorf("after a success it waits for %v", got)
		}
	}
}

// packet is one as a server sends it.
func packet(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// linked returns a link and what its server writes.
func linked(t *testing.T, paths ...string) (*link, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	l := newLink(near)
	l.granted, l.late, l.watched = new(atomic.Int64), func() {}, func() []string { return paths }
	return l, far
}

func TestLink_GivesWholePacketsAndEndsWatches(t *testing.T) {
	t.Parallel()
	greeting := packet(0, 0, 0, 0, 0, 0, 0x27, 0x10, 7)
	answer := packet(1, 2, 3)
	stream := slices.Concat(greeting, answer)
	for size := 1; size <= len(stream); size++ {
		for _, broken := range [][]byte{nil, answer[:2], answer[:6]} { // after a packet, or within one
			l, far := linked(t, "/a", "/bc")
			go func() {
				for chunk := range slices.Chunk(slices.Concat(stream, broken), size) {
					_, _ = far.Write(chunk)
				}
				_ = far.Close()
			}()
			got, err := io.ReadAll(l)
			want := slices.Concat(stream, l.farewell())
			if !slices.Equal(got, want) || !errors.Is(l.end, io.EOF) && !errors.Is(l.end, io.ErrUnexpectedEOF) {
				t.Errorf("in pieces of %d, then %v: % x, %v, want % x", size, broken, got, err, want)
			}
			if n := l.granted.Load(); n != 10_000 {
				t.Errorf("in pieces of %d: the timeout is %d", size, n)
			}
		}
	}
}

func TestLink_BeforeTheGreetingTellsNothing(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{"nothing": "", "a piece": "\x00\x00\x00\x09\x00", "another protocol": "HTTP/1.1"} {
		l, far := linked(t, "/a")
		go func() {
			_, _ = io.WriteString(far, sent)
			_ = far.Close()
		}()
		if got, _ := io.ReadAll(l); len(got) != 0 {
			t.Errorf("after %s the client reads % x", name, got)
		}
	}
}

func TestLink_TellsThatTheFirstAnswerIsLate(t *testing.T) {
	t.Parallel()
	l, _ := linked(t)
	late := 0
	l.greet, l.late = 10*time.Millisecond, func() { late++ }
	if err := l.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) || late != 1 {
		t.Errorf("Read of a silent server: %v, %d times late", err, late)
	}
	l, far := linked(t)
	l.greet, l.late = time.Hour, func() { late++ }
	_ = far.Close()
	if _, err := l.Read(make([]byte, 4)); err == nil || late != 1 {
		t.Errorf("Read of a server that refuses: %v, %d times late", err, late)
	}
}

func TestWatches_Drop_SparesAnotherWatchOnTheNode(t *testing.T) {
	t.Parallel()
	fired := func(w *watch) bool {
		select {
		case <-w.fired:
			return true
		default:
			return false
		}
	}
	old, newer := &watch{fired: make(chan struct{})}, &watch{fired: make(chan struct{})}
	ws := watches{byPath: map[string]*watch{"/a": newer}}
	ws.drop("/a", old)
	if fired(newer) || len(ws.paths()) != 1 {
		t.Error("a watch that is late to fail has fired its successor")
	}
	ws.drop("/a", newer)
	if !fired(newer) || len(ws.paths()) != 0 {
		t.Error("a watch that the server does not have is kept")
	}
}
