package status

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goleader/leader"
	"github.com/goleader/leader/history"
)

const (
	// perStatus is how many events of one status are shown, so that frequent runs do not crowd out a loss.
	perStatus = 20
	// maxSkipped is that for skipped runs, as a name that many nodes try is skipped far more often than it is led.
	maxSkipped = 15
	// recent is how many records are read of a history that cannot be read by status.
	recent = 300
)

const unreadable = "the history cannot be read"

// forcedBy is the key of a record's metadata that says who forced a release, which makes an event of its own kind.
const forcedBy = "forced release by"

// refreshEvents reads the history unless that was done a moment ago.
func (p *Page) refreshEvents(ctx context.Context) {
	if p.options.History == nil {
		return
	}
	p.mu.Lock()
	due := time.Since(p.board.read) >= min(rarely, 2*p.options.Interval)
	p.mu.Unlock()
	if due && !p.reading.busy() {
		_, _ = p.reading.call(ctx, p.readEvents) // a failure is shown
	}
}

func (p *Page) readEvents(ctx context.Context) (struct{}, error) {
	records, err := lastRecords(ctx, p.options.History)
	if p.tellEvents(eventsOf(records), err != nil) {
		p.logger().LogAttrs(ctx, slog.LevelWarn, unreadable, slog.Any("err", err))
	}
	return struct{}{}, err
}

// tellEvents takes in what was read of the history. It reports whether that has just become unreadable.
func (p *Page) tellEvents(fresh []event, failed bool) (begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unread := ""
	if failed {
		fresh, unread = p.board.events, unreadable
		begun = p.board.unread == ""
	}
	p.board.read = time.Now()
	if unread != p.board.unread || !reflect.DeepEqual(fresh, p.board.events) {
		p.board.events, p.board.unread = fresh, unread
		p.tell(true)
	}
	return begun
}

// lastRecords reads the last records of each status, if the history can do that.
func lastRecords(ctx context.Context, h History) (all []history.Record, err error) {
	byStatus, ok := h.(historyByStatus)
	if !ok {
		return h.Recent(ctx, "", recent)
	}
	ended := make(map[string]bool)
	for s := history.Running; s <= history.NotRun; s++ {
		list, err := byStatus.RecentOf(ctx, s, mostOf(s))
		if err != nil {
			return nil, err
		}
		for i := range list {
			ended[list[i].ID] = s != history.Running
		}
		all = append(all, list...)
	}
	// A run that has ended between two of the questions was found twice.
	return slices.DeleteFunc(all, func(r history.Record) bool { return r.Status == history.Running && ended[r.ID] }), nil
}

// mostOf is how many events of a status are shown.
func mostOf(s history.Status) int {
	if s == history.Skipped {
		return maxSkipped
	}
	return perStatus
}

// eventsOf are the last events of each status, newest first, of records that are in that order.
func eventsOf(records []history.Record) []event {
	list := make([]event, 0, len(records))
	var count [history.NotRun + 1]int
	for i := range records {
		r := &records[i]
		if int(r.Status) < len(count) {
			if count[r.Status]++; count[r.Status] > mostOf(r.Status) {
				continue
			}
		}
		list = append(list, eventOf(r))
	}
	slices.SortStableFunc(list, func(x, y event) int { return y.Time.Compare(x.Time.Time) })
	return list
}

func eventOf(r *history.Record) event {
	e := event{
		Time: instant{cmp.Or(r.Finished, r.Acquired, r.Started).UTC()}, Name: printable(r.Name), Status: r.Status.String(),
		Node: printable(r.Node), Fence: fence(r.Fence), Reason: printable(r.Reason), Holder: printable(r.Holder),
		Lost: redact(r.Lost), Error: redact(r.Error),
	}
	if by, ok := r.Metadata[forcedBy]; ok {
		e.By, e.Lost = redact(printable(by)), ""
		e.Status = forcedStatus(r)
	}
	if _, _, ok := strings.Cut(r.Key, "#"); ok {
		e.Slot = &r.Slot
	}
	if r.Held > 0 {
		e.Held = secondsOf(r.Held)
	}
	return e
}

// forcedStatus is the status of an event that is about a forced release.
func forcedStatus(r *history.Record) string {
	switch {
	case r.Status == history.Lost:
		return "ForcedRelease"
	case r.Status == history.Running:
		return "ForcedReleaseAsked"
	case strings.HasPrefix(r.Error, outcomeUnknown):
		return "ForcedReleaseUnknown"
	}
	return "ForcedReleaseFailed"
}

// candidatesOf lists the candidates as the strategy has ranked them. It is not nil.
func candidatesOf(e leader.Election) []candidate {
	list := make([]candidate, 0, len(e.Candidates)+len(e.Eliminated))
	known := make(map[string]bool, len(e.Candidates))
	for i := range e.Candidates {
		c := &e.Candidates[i]
		known[c.Node] = true
		shown := candidate{
			Node: printable(c.Node), Preferred: c.Node == e.Winner, Why: redact(e.Eliminated[c.Node]),
			Registered: instantOf(c.Registered), LastStart: instantOf(c.LastStart),
			Successes: c.Successes, Failures: c.Failures, Metadata: redactAll(c.Metadata),
		}
		if score, ok := e.Scores[c.Node]; ok {
			shown.Score = finite(score)
		}
		list = append(list, shown)
	}
	for _, node := range slices.Sorted(maps.Keys(e.Eliminated)) {
		if !known[node] { // it was kept from the strategy
			list = append(list, candidate{Node: printable(node), Why: redact(e.Eliminated[node])})
		}
	}
	return list
}

// printable is text with a question mark for each control character. What else could mislead the eye is the page's
// business, which shows it as its code point.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
