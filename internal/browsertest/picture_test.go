package browsertest_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/status"
)

// pictureEnv is the environment variable with the file that becomes the picture of the documentation.
const pictureEnv = "LEADER_STATUS_PICTURE"

// maxPicture is the largest picture of the documentation, in bytes.
const maxPicture = 200 << 10

func TestPage_ShowsAnOrdinaryDay(t *testing.T) {
	b := open(t, ordinaryDay(t), look{width: 1440, height: 790})
	b.until("all names", names(8))
	b.until("the candidates", `document.querySelectorAll(".candidates li").length === 3`)
	b.until("the slots", `document.querySelectorAll(".slot").length === 3`)
	b.until("events", `document.querySelectorAll("#event-list li").length === 8`)
	b.until("it is live", live)
	if eval[bool](b, `document.querySelector("#event-list").innerText.includes("skipped")`) {
		t.Error("skipped runs are shown without being asked for")
	}
	b.until("the bars have moved", `Number(document.querySelector(".fill").style.transform.match(/[0-9.]+/)[0]) < 0.97`)
	time.Sleep(600 * time.Millisecond) // for the transitions to have ended
	picture := b.shot("light")
	if len(picture) > maxPicture {
		t.Errorf("the picture has %d bytes, at most %d are wanted", len(picture), maxPicture)
	}
	if path := os.Getenv(pictureEnv); path != "" {
		if err := os.WriteFile(path, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.emulate(look{width: 1440, height: 790, dark: true})
	b.shot("dark")
	b.emulate(look{width: 820, height: 1180})
	b.fitsWidth()
	b.shot("tablet")
	small := look{width: 390, height: 1700, phone: true}
	b.emulate(small)
	b.fitsWidth()
	b.shot("phone-light")
	small.dark = true
	b.emulate(small)
	b.shot("phone-dark")
	b.click("#skipped")
	b.until("skipped runs", `document.querySelector("#event-list").innerText.includes("skipped")`)
	b.clean()
}

// ordinaryDay serves a page of a store with a few names, as they might be in the evening of an ordinary day.
func ordinaryDay(t *testing.T) string {
	t.Helper()
	memory := history.NewMemory(0)
	if err := memory.Write(t.Context(), ordinaryEvents(time.Now())); err != nil {
		t.Fatal(err)
	}
	page, err := status.New(newScene(), &status.Options{
		History:   status.InMemory(memory),
		Authorize: func(*http.Request) (string, error) { return "ada", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	page.AddNames("yearly-closing")
	page.AddGroup(3, "image-resize")
	page.AddElection(ordinaryElection{}, "rebalancer")
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	t.Cleanup(page.Close)
	return server.URL + status.DefaultPath + "/"
}

// scene is a store in which a few leases are renewed for ever.
type scene struct {
	begin   time.Time
	seen    atomic.Bool     // somebody has looked
	entries []backend.Entry // Since counts from begin, Remaining is the lease time
}

func newScene() *scene {
	begin := time.Now()
	entry := func(key, owner string, fence uint64, held, lease time.Duration, metadata ...string) backend.Entry {
		h := backend.Holder{Owner: owner, Fence: fence, Since: begin.Add(-held), Remaining: lease}
		for i := 0; i < len(metadata); i += 2 {
			if h.Metadata == nil {
				h.Metadata = make(map[string]string)
			}
			h.Metadata[metadata[i]] = metadata[i+1]
		}
		return backend.Entry{Key: key, Holder: h}
	}
	kept := entry("exchange-rates", "web-1", 20417, 38*time.Second, 5*time.Minute)
	kept.Kept = true
	return &scene{begin: begin, entries: []backend.Entry{
		entry("cache-warmer", "web-2", 311, 26*time.Hour+11*time.Minute, 45*time.Second),
		kept,
		entry("image-resize#0", "worker-a", 1802, 3*time.Hour+12*time.Minute, time.Minute),
		entry("image-resize#2", "worker-c", 1817, 14*time.Minute, time.Minute),
		entry("nightly-report", "batch-1", 902, 4*time.Minute+40*time.Second, 20*time.Second),
		entry("outbox-relay", "web-1", 57, 2*time.Minute+8*time.Second, 30*time.Second, "version", "2.14.0", "zone", "eu-west-1a"),
		entry("rebalancer", "shard-1", 418, 5*time.Hour+47*time.Minute, time.Minute),
	}}
}

func (s *scene) Name() string { return "redis" }

func (s *scene) TryAcquire(context.Context, backend.Request) (backend.Lease, error) {
	return nil, backend.ErrHeld
}

func (s *scene) Abandon(context.Context, backend.Request) error { return nil }

func (s *scene) Inspect(context.Context, string) (backend.Holder, error) {
	return backend.Holder{}, nil
}

func (s *scene) Break(context.Context, string, uint64) error { return backend.ErrConflict }

// List shows each lease as one that is renewed every third of its time, each at another moment. At the first look all
// are new, so that the page knows their lease times.
func (s *scene) List(context.Context, string, bool) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		first := !s.seen.Swap(true)
		for i, e := range s.entries {
			since := time.Since(s.begin) + time.Duration(i+1)*1700*time.Millisecond
			if first {
				since = 0
			} else if e.Kept {
				since += 38 * time.Second
			}
			if e.Kept {
				e.Remaining -= since
			} else {
				e.Remaining -= since % (e.Remaining / 3)
			}
			if !yield(e, nil) {
				return
			}
		}
		yield(backend.Entry{Key: "session-sweeper", Holder: backend.Holder{Owner: "web-2", Fence: 88}}, nil) // expired
	}
}

type ordinaryElection struct{}

func (ordinaryElection) Election(context.Context, string) (leader.Election, error) {
	return leader.Election{
		Winner: "shard-1",
		Candidates: []leader.Candidate{
			{Node: "shard-1", Successes: 412, Failures: 3},
			{Node: "shard-3", Successes: 97, Failures: 9},
			{Node: "shard-2"},
		},
		Scores: map[string]float64{"shard-1": 91.4, "shard-3": 78.25, "shard-2": 40},
		Eliminated: map[string]string{
			"shard-3": `score 78.25 below 91.4 of "shard-1"`, "shard-2": `score 40 below 91.4 of "shard-1"`,
		},
	}, nil
}

// ordinaryEvents are runs that ended, or began, some time before now.
func ordinaryEvents(now time.Time) []history.Record {
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	run := func(name, node string, fence uint64, status history.Status, ago, held time.Duration) history.Record {
		r := history.Record{
			ID: name + node + ago.String(), Name: name, Node: node, Key: name, Fence: fence, Status: status,
			Started: at(ago + held), Acquired: at(ago + held), Held: held,
		}
		if status != history.Running {
			r.Finished = at(ago)
		}
		return r
	}
	lost := run("outbox-relay", "web-3", 56, history.Lost, 128*time.Second, 19*time.Hour)
	lost.Lost = "lease lost: not renewed in time: no answer in time"
	failed := run("session-sweeper", "web-2", 88, history.Failed, 50*time.Minute, 12*time.Second)
	failed.Error = "delete sessions: deadlock found when trying to get lock"
	forced := run("image-resize", "worker-b", 1816, history.Lost, 14*time.Minute+3*time.Second, 0)
	forced.Key, forced.Slot = "image-resize#2", 2
	forced.Metadata = map[string]string{"forced release by": "ada"}
	slot := run("image-resize", "worker-c", 1817, history.Running, 14*time.Minute, 0)
	slot.Key, slot.Slot = "image-resize#2", 2
	skipped := run("exchange-rates", "web-2", 0, history.Skipped, 40*time.Second, 0)
	skipped.Reason, skipped.Holder = "Contended", "web-1"
	// A sink keeps the records in the order in which they come.
	return []history.Record{
		run("rebalancer", "shard-1", 418, history.Running, 5*time.Hour+47*time.Minute, 0),
		failed, forced, slot,
		run("nightly-report", "batch-1", 902, history.Running, 4*time.Minute+40*time.Second, 0),
		lost,
		run("outbox-relay", "web-1", 57, history.Running, 127*time.Second, 0),
		skipped,
		run("exchange-rates", "web-1", 20417, history.Succeeded, 36*time.Second, 1840*time.Millisecond),
	}
}

// fitsWidth fails the test if the page has to be scrolled sideways.
func (b *browser) fitsWidth() {
	b.t.Helper()
	const over = `document.documentElement.scrollWidth - document.documentElement.clientWidth`
	if wide := eval[int](b, over); wide > 0 {
		b.t.Errorf("the page is %d pixels wider than the screen", wide)
	}
}
