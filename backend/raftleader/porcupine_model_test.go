package raftleader

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// action is what a client asks for.
type action string

const (
	acquiring  action = "acquire"
	renewing   action = "renew"
	releasing  action = "release"
	abandoning action = "abandon"
	breaking   action = "break"
	inspecting action = "inspect"
	putting    action = "put"
	getting    action = "get"
	deleting   action = "delete"
)

// question is the input of an operation of a history.
type question struct {
	action  action
	key     string
	token   string // also the owner, so that a holder tells whose lease it is
	fence   uint64
	ttl     int64 // of an acquisition or renewal
	keep    int64 // of a release
	version string
	value   string // different for each put
	call    int64  // when it was asked, in ns
}

// result is how a question was answered.
type result string

const (
	done     result = "ok"
	held     result = "held"
	lost     result = "lost"
	conflict result = "conflict"
	unknown  result = "unknown" // it may have been executed, may be yet, or never
)

// reply is the output of an operation.
type reply struct {
	result  result
	free    bool // of what was inspected
	owner   string
	kept    bool
	fence   uint64
	found   bool // of a record
	version string
	value   string
	back    int64 // when it came, in ns; never if unknown
}

// term is what the model knows of a lease. A fence or version that nobody was told is learned when it is first seen.
type term struct {
	holder, spent, owner string
	kept                 bool
	lapsed               bool // expired, and not released since
	fence                uint64
	least                uint64 // what the fence has to exceed while it is not known
	until                int64  // the end, or before
}

func (s term) free() bool { return s.lapsed || s.holder == "" && !s.kept }

// known reports whether s has fence f, which a client has been told before: a fence that nobody was told is not f.
func (s term) known(f uint64) bool { return f != 0 && s.fence == f }

// learn returns s as one that has fence f, as an answer says, if it may.
func (s term) learn(f uint64) (term, bool) {
	switch {
	case s.fence == f && f != 0:
		return s, true
	case s.fence == 0 && f > s.least:
		s.fence = f
		return s, true
	}
	return s, false
}

// leases is the model of the leases of a key. Without expiry a lease lasts until it is released; with it, it may end at
// any time from the call of its last refresh plus its TTL on, and not before: at what has no answer yet, at any time.
func leases(expire bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: partition,
		Init:      func() []any { return []any{term{}} },
		Step: func(state, input, output any) []any {
			s, q, r := state.(term), input.(question), output.(reply)
			var next []any
			add := func(s term) {
				if n, ok := s.step(q, r); ok {
					next = append(next, n)
				}
			}
			add(s)
			if expire && !s.free() && r.back >= s.until {
				s.lapsed, s.kept = true, false
				add(s)
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}

// step returns what becomes of s by an operation, and whether that is possible.
func (s term) step(q question, r reply) (term, bool) {
	switch q.action {
	case acquiring:
		return s.acquire(q, r)
	case renewing:
		return s.renew(q, r)
	case releasing:
		return s.release(q), true
	case abandoning:
		return s.abandon(q), true
	case breaking:
		return s.breaks(q, r)
	default:
		return s.inspect(r)
	}
}

func (s term) acquire(q question, r reply) (term, bool) {
	switch {
	case s.spent == q.token:
		return s, r.result == lost || r.result == unknown
	case s.free():
		if r.result != unknown && (r.result != done || r.fence <= max(s.fence, s.least)) {
			return s, false
		}
		least := max(s.fence, s.least)
		return term{
			holder: q.token, owner: q.token, spent: s.spent, fence: r.fence, least: least, until: q.call + q.ttl,
		}, true
	case s.holder == q.token:
		s.until = max(s.until, q.call+q.ttl)
		if r.result == unknown {
			return s, true
		}
		s, ok := s.learn(r.fence)
		return s, ok && r.result == done
	case r.result == unknown:
		return s, true
	}
	s, ok := s.seen(r)
	return s, ok && r.result == held
}

// seen reports whether s is as a holder tells.
func (s term) seen(r reply) (term, bool) {
	n, ok := s.learn(r.fence)
	return n, ok && s.owner == r.owner && s.kept == r.kept
}

func (s term) renew(q question, r reply) (term, bool) {
	if s.free() || s.holder != q.token || !s.known(q.fence) {
		return s, r.result == lost
	}
	s.until = max(s.until, q.call+q.ttl)
	return s, r.result == done
}

func (s term) release(q question) term {
	switch {
	case !s.known(q.fence) || s.holder != q.token && s.spent != q.token || s.holder == "" && !s.kept:
		return s
	case s.free() || q.keep == 0:
		s.kept, s.lapsed = false, false
	default:
		s.kept, s.until = true, q.call+q.keep
	}
	s.holder, s.spent = "", q.token
	return s
}

func (s term) abandon(q question) term {
	if !s.free() && s.holder != q.token {
		return s
	}
	s.holder, s.spent, s.kept, s.lapsed = "", q.token, false, false
	return s
}

func (s term) breaks(q question, r reply) (term, bool) {
	if s.free() || !s.known(q.fence) {
		return s, r.result != done
	}
	s.holder, s.spent, s.kept = "", cmp.Or(s.holder, s.spent), false
	return s, r.result != conflict
}

func (s term) inspect(r reply) (term, bool) {
	if s.free() || r.free {
		return s, s.free() == r.free
	}
	return s.seen(r)
}

// stored is what the model knows of a record.
type stored struct {
	found          bool
	version, value string // the version is "" while it is not known
}

// at reports whether s has version v, which a client has been told before, "" being that there is no record.
func (s stored) at(v string) bool { return s.found == (v != "") && s.version == v }

// get returns what becomes of s by an answer that shows it, and whether that is possible.
func (s stored) get(r reply) (bool, stored) {
	if !r.found || !s.found {
		return r.found == s.found, s
	}
	possible := s.value == r.value && (s.version == "" || s.version == r.version)
	s.version = r.version
	return possible, s
}

// records is the model of a record without a TTL.
func records() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() any { return stored{} },
		Step: func(state, input, output any) (bool, any) {
			s, q, r := state.(stored), input.(question), output.(reply)
			switch {
			case q.action == getting:
				return s.get(r)
			case q.action == deleting && !s.found:
				return r.result == done || r.result == unknown, s
			case !s.at(q.version):
				return r.result == conflict || r.result == unknown, s
			case q.action == deleting:
				return r.result != conflict, stored{}
			}
			return r.result != conflict && (r.result == unknown || r.version != s.version),
				stored{found: true, version: r.version, value: q.value}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// partition cuts a history by key: keys have nothing to do with each other.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	var keys []string
	for _, o := range history {
		key := o.Input.(question).key
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], o)
	}
	slices.Sort(keys)
	parts := make([][]porcupine.Operation, len(keys))
	for i, key := range keys {
		parts[i] = byKey[key]
	}
	return parts
}

// never is when an answer comes that does not come.
const never = math.MaxInt64
