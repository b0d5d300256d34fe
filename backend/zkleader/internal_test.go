package zkleader

import (
	"context"
	"errors"
	"net"
	"strings"
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
	if ms, ok := c.now(); !ok || ms < 7000 || ms > 60_000 {
		t.Errorf("now = %d, %t, want 7000", ms, ok)
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

func TestFrame_FollowsPacketsInPieces(t *testing.T) {
	t.Parallel()
	stream := append([]byte{0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x27, 0x10, 7}, farewell([]string{"/a", "/bc"})...)
	for size := 1; size <= len(stream); size++ {
		var f frame
		for at := 0; at < len(stream); at += size {
			f.add(stream[at:min(at+size, len(stream))])
		}
		if f.packets != 3 || !f.between() || f.first != [8]byte{6: 0x27, 7: 0x10} {
			t.Errorf("in pieces of %d: %+v", size, f)
		}
		f.add(stream[:6])
		if f.between() {
			t.Errorf("in pieces of %d: within a packet it says that it is between two", size)
		}
	}
}
