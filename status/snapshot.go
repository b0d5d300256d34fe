package status

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// snapshot is what is shown, as JSON. Of an update for a viewer only what has changed is there.
type snapshot struct {
	Locks    []lock   `json:"locks"`
	Full     bool     `json:"full,omitempty"`   // the first message of a stream, which has everything
	Gone     []rowID  `json:"gone,omitempty"`   // in updates: no longer shown
	Events   []event  `json:"events,omitempty"` // newest first
	Backend  string   `json:"backend"`
	Now      instant  `json:"now"`
	Asked    *instant `json:"asked"` // when the store answered last; null if it never did
	Age      *seconds `json:"age"`   // since then
	Stale    bool     `json:"stale"` // the store could not be asked since
	Problems []string `json:"problems,omitempty"`
	Omitted  int      `json:"omitted,omitempty"` // names beyond the limit
	Release  bool     `json:"release"`           // a release may be forced
	History  bool     `json:"history"`           // events are kept
}

// rowID is an id in JSON.
type rowID struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Group     bool   `json:"group,omitempty"`
}

// lock is a name and who has it. In a group it tells of none of the slots: it is Occupied while any is taken.
type lock struct {
	rowID
	lease
	Capacity   int         `json:"capacity,omitempty"` // slots of the group, if known
	Slots      []slot      `json:"slots,omitempty"`    // the taken ones
	Candidates []candidate `json:"candidates,omitempty"`
}

type slot struct {
	Slot int `json:"slot"`
	lease
}

// The values of lease.Status.
const (
	occupied = "Occupied"
	empty    = "Empty"
)

// lease is who has a name or slot.
type lease struct {
	Status       string            `json:"status"`
	LeaderID     *string           `json:"leaderId"`
	LeaseExpiry  *instant          `json:"leaseExpiry"`
	Fence        fence             `json:"fence"`
	Since        *instant          `json:"since"`
	Remaining    *seconds          `json:"remaining"` // at the snapshot's Now
	LeaseTime    *seconds          `json:"leaseTime"` // the longest Remaining that was seen under this fence
	Kept         bool              `json:"kept"`
	LastLeaderID string            `json:"lastLeaderId,omitempty"` // if nobody leads
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// candidate is one of those that a strategy chooses among.
type candidate struct {
	Node       string            `json:"node"`
	Preferred  bool              `json:"preferred"`
	Score      *float64          `json:"score"` // null where the strategy does not score, or the score is no finite number
	Why        string            `json:"why,omitempty"`
	Registered *instant          `json:"registered"`
	LastStart  *instant          `json:"lastStart"`
	Successes  int64             `json:"successes"`
	Failures   int64             `json:"failures"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// event is a run of the history.
type event struct {
	Time   instant  `json:"time"` // when it came to its status
	Name   string   `json:"name"`
	Status string   `json:"status"` // as history.Status has it, or see forcedStatus
	Node   string   `json:"node,omitempty"`
	Fence  fence    `json:"fence"`
	Slot   *int     `json:"slot,omitempty"`
	Held   *seconds `json:"held,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Holder string   `json:"holder,omitempty"`
	Lost   string   `json:"lost,omitempty"`
	Error  string   `json:"error,omitempty"`
	By     string   `json:"by,omitempty"` // who forced a release
}

// fence is a text in JSON, as it may be larger than what is exact in JavaScript, and null if there is none.
type fence uint64

func (f fence) MarshalJSON() ([]byte, error) {
	if f == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(f), 10)), nil
}

// instant is in UTC, to the millisecond, in JSON.
type instant struct{ time.Time }

func (i instant) MarshalJSON() ([]byte, error) {
	return json.Marshal(i.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// instantOf is nil for the zero time.
func instantOf(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	return &instant{t}
}

// seconds is a duration, in seconds and to the millisecond in JSON.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(s).Milliseconds())/1000, 'f', -1, 64), nil
}

func secondsOf(d time.Duration) *seconds {
	s := seconds(d)
	return &s
}

// finite is nil for what JSON cannot say.
func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// at sets what depends on the clock.
func (l lease) at(now time.Time) lease {
	if l.LeaseExpiry != nil {
		l.Remaining = secondsOf(max(0, l.LeaseExpiry.Sub(now)))
	}
	return l
}

func (l lock) at(now time.Time) lock {
	l.lease = l.lease.at(now)
	slots := l.Slots
	l.Slots = make([]slot, len(slots))
	for i, s := range slots {
		l.Slots[i] = slot{s.Slot, s.at(now)}
	}
	return l
}
