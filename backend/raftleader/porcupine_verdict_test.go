package raftleader

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// script has one client ask one question after another, from 0 on, one in each unit of time.
type script []porcupine.Operation

func (s *script) then(q question, r reply) {
	at := 10 * int64(len(*s))
	q.key, q.call, r.back = "k", at, at+1
	if r.result == unknown {
		r.back = never
	}
	*s = append(*s, porcupine.Operation{Input: q, Call: q.call, Output: r, Return: r.back})
}

func take(token string, ttl int64) question {
	return question{action: acquiring, token: token, ttl: ttl}
}

// TestModel_TellsWhatMustNotBe: the checks of the histories find each sin out, and nothing in what is no sin.
func TestModel_TellsWhatMustNotBe(t *testing.T) {
	ok := func(fence uint64) reply { return reply{result: done, fence: fence} }
	is := func(owner string, fence uint64) reply { return reply{result: done, owner: owner, fence: fence} }
	heldBy := func(owner string, fence uint64) reply { return reply{result: held, owner: owner, fence: fence} }
	look := question{action: inspecting}
	free := reply{result: done, free: true}
	type step struct {
		q question
		r reply
	}
	for name, row := range map[string]struct {
		steps  []step
		expire bool
		want   bool
	}{
		"two holders": {[]step{{take("1", 99), ok(1)}, {take("2", 99), ok(2)}}, true, false},
		"a hand-over": {[]step{
			{take("1", 99), ok(1)}, {question{action: releasing, token: "1", fence: 1}, reply{result: done}}, {take("2", 99), ok(2)},
		}, false, true},
		"a fence that does not grow": {[]step{
			{take("1", 99), ok(2)}, {question{action: releasing, token: "1", fence: 2}, reply{result: done}}, {take("2", 99), ok(2)},
		}, false, false},
		"a repetition with another fence": {[]step{{take("1", 99), ok(1)}, {take("1", 99), ok(2)}}, true, false},
		"a spent token": {[]step{
			{question{action: abandoning, token: "1"}, reply{result: done}}, {take("1", 99), ok(2)},
		}, false, false},
		"a lease that is lost":    {[]step{{take("1", 99), ok(1)}, {look, free}}, false, false},
		"an early expiry":         {[]step{{take("1", 12), ok(1)}, {look, free}}, true, false},
		"an expiry":               {[]step{{take("1", 11), ok(1)}, {look, free}}, true, true},
		"a lease that comes back": {[]step{{take("1", 11), ok(1)}, {look, free}, {look, is("1", 1)}}, true, false},
		"a renewal after the end": {[]step{
			{take("1", 11), ok(1)}, {look, free}, {question{action: renewing, token: "1", fence: 1, ttl: 99}, reply{result: done}},
		}, true, false},
		"a renewal that is forgotten": {[]step{
			{take("1", 15), ok(1)}, {question{action: renewing, token: "1", fence: 1, ttl: 99}, reply{result: done}}, {look, free},
		}, true, false},
		"a keep that is forgotten": {[]step{
			{take("1", 99), ok(1)}, {question{action: releasing, token: "1", fence: 1, keep: 99}, reply{result: done}}, {look, free},
		}, true, false},
		"an attempt without an answer that won":  {[]step{{take("1", 99), reply{result: unknown}}, {look, is("1", 7)}}, false, true},
		"one that did not":                       {[]step{{take("1", 99), reply{result: unknown}}, {take("2", 99), ok(3)}}, false, true},
		"one that won twice":                     {[]step{{take("1", 99), reply{result: unknown}}, {look, is("1", 7)}, {look, is("1", 8)}}, false, false},
		"another holder than there is":           {[]step{{take("1", 99), ok(1)}, {take("2", 99), heldBy("3", 1)}}, false, false},
		"a break of another's fence":             {[]step{{take("1", 99), ok(1)}, {question{action: breaking, fence: 2}, reply{result: done}}}, false, false},
		"an abandoned attempt that is still won": {[]step{{take("1", 99), ok(1)}, {question{action: abandoning, token: "1"}, reply{result: done}}, {look, is("1", 1)}}, false, false},
	} {
		var s script
		for _, step := range row.steps {
			s.then(step.q, step.r)
		}
		if got := porcupine.CheckOperations(leases(row.expire), s); got != row.want {
			t.Errorf("%s: linearizable %v, want %v", name, got, row.want)
		}
	}
}

func TestModel_TellsWhatMustNotBeOfRecords(t *testing.T) {
	put := func(version, value, is string) (question, reply) {
		return question{action: putting, version: version, value: value}, reply{result: done, version: is}
	}
	look := question{action: getting}
	for name, row := range map[string]struct {
		more func(s *script)
		want bool
	}{
		"what was put":        {func(s *script) { s.then(look, reply{result: done, found: true, version: "1", value: "a"}) }, true},
		"a lost record":       {func(s *script) { s.then(look, reply{result: done}) }, false},
		"another value":       {func(s *script) { s.then(look, reply{result: done, found: true, version: "1", value: "b"}) }, false},
		"a put over another":  {func(s *script) { s.then(put("", "b", "2")) }, false},
		"a put of the next":   {func(s *script) { s.then(put("1", "b", "2")) }, true},
		"the same version":    {func(s *script) { s.then(put("1", "b", "1")) }, false},
		"a delete of another": {func(s *script) { s.then(question{action: deleting, version: "2"}, reply{result: done}) }, false},
		"a refused put of the next": {func(s *script) {
			s.then(question{action: putting, version: "1", value: "b"}, reply{result: conflict})
		}, false},
		"a put without an answer": {func(s *script) {
			s.then(question{action: putting, version: "1", value: "b"}, reply{result: unknown})
			s.then(look, reply{result: done, found: true, version: "1", value: "a"})
			s.then(look, reply{result: done, found: true, version: "5", value: "b"})
			s.then(question{action: deleting, version: "1"}, reply{result: conflict})
		}, true},
	} {
		var s script
		s.then(put("", "a", "1"))
		row.more(&s)
		if got := porcupine.CheckOperations(records(), s); got != row.want {
			t.Errorf("%s: linearizable %v, want %v", name, got, row.want)
		}
	}
}
