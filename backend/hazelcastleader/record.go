package hazelcastleader

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// format is the major version of what is stored.
const format = 1

// keptMark ends the Seen of a key that is kept.
const keptMark = " kept"

// record is the value of a key.
type record struct {
	Format   int               `json:"format"`
	Fence    uint64            `json:"fence"`
	Token    string            `json:"token,omitempty"` // of the holder; none while the key is free or kept
	Spent    string            `json:"spent,omitempty"` // the token that was released or abandoned last
	Owner    string            `json:"owner,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Since    int64             `json:"since,omitempty"` // ms since 1970, when it was acquired
	Until    int64             `json:"until,omitempty"` // likewise, to when the key is held or kept; 0 if it is free
	Clock    int64             `json:"clock,omitempty"` // the number of the member by whose clock Until is
	Nonce    string            `json:"nonce"`           // of the write

	rest map[string]json.RawMessage // what a later release may have added
}

// known are the fields of a record.
var known = []string{
	"format", "fence", "token", "spent", "owner", "metadata", "since", "until", "clock", "nonce",
}

// entry is what the map has for a key. The zero entry is that of a key without one.
type entry struct {
	record

	raw string
}

// absent reports whether there is no record.
func (e *entry) absent() bool { return e.raw == "" }

// decode reads a value of the map of leases. The error is of kind Misconfigured.
func decode(key, raw string) (entry, error) {
	e := entry{raw: raw}
	d := json.NewDecoder(strings.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&e.record); err != nil || e.Format != format {
		if err := e.decodeOther(); err != nil {
			return e, unreadable(key, err)
		}
	}
	if e.Fence == 0 || e.Until < 0 || e.Nonce == "" || e.Token != "" && e.Until == 0 {
		return e, unreadable(key, errors.New("a field is missing or out of range"))
	}
	return e, nil
}

// decodeOther reads a value with fields that this release does not know, and keeps them.
func (e *entry) decodeOther() error {
	if err := checkFormat(e.raw); err != nil {
		return err
	}
	e.record = record{}
	if err := errors.Join(json.Unmarshal([]byte(e.raw), &e.record), json.Unmarshal([]byte(e.raw), &e.rest)); err != nil {
		return err
	}
	for _, field := range known {
		delete(e.rest, field)
	}
	return nil
}

// checkFormat is nil if a text is JSON of the format that this release knows.
func checkFormat(raw string) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(raw), &head); err != nil {
		return err
	}
	switch head.Format {
	case format:
		return nil
	case 0:
		return errors.New("it has no format")
	}
	return fmt.Errorf("it has format %d, this release knows %d", head.Format, format)
}

// unreadable is the error for a value that cannot be read, of which it shows nothing.
func unreadable(key string, why error) error {
	return backend.WithKind(fmt.Errorf("entry %q is unreadable: %w", key, why), backend.Misconfigured)
}

// encode writes a record with a nonce of its own, so that no two writes are alike.
func (r record) encode() (string, error) {
	r.Format, r.Nonce = format, rand.Text()
	text, err := json.Marshal(r)
	if err != nil || len(r.rest) == 0 {
		return string(text), err
	}
	all := maps.Clone(r.rest)
	if err := json.Unmarshal(text, &all); err != nil {
		return "", err
	}
	text, err = json.Marshal(all)
	return string(text), err
}

// granted is the record of a term that begins now.
func (r record) granted(req backend.Request, at instant) record {
	r.Fence = max(r.Fence+1, at.fence())
	r.Token, r.Owner, r.Metadata = req.Token, req.Owner, req.Metadata
	r.Since = at.ms()
	r.Until, r.Clock = endOf(at, req.TTL), at.node()
	return r
}

// renewed is the record with a later end. It never ends earlier than before, by whichever clock. One that is late enough
// by every clock stays as it is, so that readings of several clocks in turn do not move it further and further.
func (r record) renewed(at instant, ttl, skew time.Duration) record {
	before, end := r.Until, endOf(at, ttl)
	if r.Clock != at.node() {
		if before >= end+skew.Milliseconds() {
			return r
		}
		before += skew.Milliseconds()
	}
	r.Until, r.Clock = max(before, end), at.node()
	return r
}

// kept is the record of a key that nobody gets for a while after its lease.
func (r record) kept(at instant, keep time.Duration) record {
	r.Spent, r.Token = r.spender(), ""
	r.Until, r.Clock = endOf(at, keep), at.node()
	return r
}

// freed is the record of a free key. Its fence stays, for the next one.
func (r record) freed() record {
	return record{Fence: r.Fence, Spent: r.spender(), rest: r.rest}
}

// spender is the token whose term is, or was, the last one.
func (r record) spender() string {
	if r.Token != "" {
		return r.Token
	}
	return r.Spent
}

// endOf is the first ms that a time from now does not reach, whatever part of a ms has passed.
func endOf(at instant, d time.Duration) int64 {
	return at.ms() + int64((d+time.Millisecond-1)/time.Millisecond) + 1
}

// left is for how long the key stays taken; at is by the clock of any member.
func (r record) left(at instant, skew time.Duration) time.Duration {
	if r.Until == 0 {
		return 0
	}
	left := time.Duration(r.Until-at.ms()) * time.Millisecond
	if r.Clock != at.node() {
		left += skew
	}
	return max(0, left)
}

// seen is what a waiter compares.
func (r record) seen() string {
	switch {
	case r.Until == 0:
		return ""
	case r.Token == "":
		return strconv.FormatUint(r.Fence, 10) + keptMark
	}
	return strconv.FormatUint(r.Fence, 10)
}

// holder is who has the key, with what is left of it; of a lease that has expired, who had it.
func (r record) holder(left time.Duration) backend.Holder {
	h := backend.Holder{
		Owner: r.Owner, Fence: r.Fence, Remaining: left, Kept: r.Token == "", Seen: r.seen(), Metadata: r.Metadata,
	}
	if r.Since != 0 {
		h.Since = time.UnixMilli(r.Since)
	}
	return h
}
