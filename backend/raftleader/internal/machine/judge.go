package machine

import "cmp"

// step is what a command changes.
type step uint8

const (
	rest   step = iota // nothing
	pass               // only the time
	found              // the identity of the cluster
	grant              // a term begins
	extend             // the end of a term moves
	end                // a term ends, or a token is spent
	store              // a record is written
	remove             // a record is deleted
)

// verdict is how a command is answered by a certain time, and what it then changes.
type verdict struct {
	Reply

	step  step
	key   string // of the lease
	lease *lease // nil if there is none yet
	spend string // the token that is spent at the end of a term
	until int64  // the new end
}

// judge decides about c by the given time and changes nothing. m.mu is held.
func (m *Machine) judge(c *Command, at int64) verdict {
	ok := verdict{Reply: Reply{Code: OK}, key: c.Key}
	switch c.Kind {
	case Found:
		if m.epoch == 0 {
			ok.step = found
		}
		return ok
	case Acquire:
		return judgeAcquire(c, c.Key, m.leases[c.Key], at)
	case AcquireSlot:
		return m.judgeSlots(c, at)
	case PutRecord, DeleteRecord:
		return m.judgeRecord(c, at)
	case Renew, Release, Abandon, Break:
		ok.lease = m.leases[c.Key]
		return judgeTerm(c, ok, at)
	case Tick:
	}
	ok.step = pass
	return ok
}

// judgeTerm is about a term that has begun.
func judgeTerm(c *Command, ok verdict, at int64) verdict {
	switch c.Kind {
	case Renew:
		return judgeRenew(c, ok, at)
	case Release:
		return judgeRelease(c, ok, at)
	case Abandon:
		return judgeAbandon(c, ok, at)
	default:
		return judgeBreak(c, ok, at)
	}
}

func judgeAcquire(c *Command, key string, l *lease, at int64) verdict {
	switch {
	case l == nil:
		return verdict{Reply: Reply{Code: OK}, step: grant, key: key}
	case l.spent == c.Token:
		return verdict{Reply: Reply{Code: Lost}}
	case l.free(at):
		return verdict{Reply: Reply{Code: OK}, step: grant, key: key, lease: l}
	case l.token == c.Token:
		return extended(l, plus(at, c.TTL))
	}
	return verdict{Reply: Reply{Code: Held, Holder: l.holder(at)}}
}

// extended moves an end, but never to an earlier time.
func extended(l *lease, until int64) verdict {
	v := verdict{Reply: Reply{Code: OK, Fence: l.fence}, key: l.key, lease: l}
	if until > l.end {
		v.step, v.until = extend, until
	}
	return v
}

// judgeSlots chooses the slot that the token holds, or else the first free one. m.mu is held.
func (m *Machine) judgeSlots(c *Command, at int64) verdict {
	chosen, own, spent := -1, false, false
	var on, soonest *lease
	m.slots(c.Key, c.Slots, func(slot int, l *lease) bool {
		switch {
		case l != nil && l.spent == c.Token:
			spent = true
			return false
		case l == nil || l.free(at):
			if chosen < 0 {
				chosen, on = slot, l
			}
		case l.token == c.Token:
			if !own {
				chosen, on, own = slot, l, true
			}
		case soonest == nil || l.end < soonest.end:
			soonest = l
		}
		return true
	})
	switch {
	case spent:
		return verdict{Reply: Reply{Code: Lost}}
	case own:
		v := extended(on, plus(at, c.TTL))
		v.Slot = chosen
		return v
	case chosen >= 0:
		v := verdict{Reply: Reply{Code: OK, Slot: chosen}, step: grant, lease: on}
		if on == nil {
			v.key = slotKey(c.Key, chosen)
		}
		return v
	case soonest == nil:
		return verdict{Reply: Reply{Code: Held}} // a group without slots
	}
	return verdict{Reply: Reply{Code: Held, Holder: soonest.holder(at)}}
}

func judgeRenew(c *Command, ok verdict, at int64) verdict {
	l := ok.lease
	if l == nil || l.free(at) || l.token != c.Token || l.fence != c.Fence {
		return verdict{Reply: Reply{Code: Lost}}
	}
	return extended(l, plus(at, c.TTL))
}

func judgeRelease(c *Command, ok verdict, at int64) verdict {
	l := ok.lease
	switch {
	case l == nil || l.fence != c.Fence || l.token != c.Token && l.spent != c.Token:
		return ok // the term is long over
	case l.free(at) && l.token == "":
		return ok
	}
	ok.step, ok.spend, ok.until = end, c.Token, at
	switch {
	case l.free(at):
		ok.until = l.end // nothing is kept of what had ended, but its token is spent
	case c.TTL > 0:
		ok.until = plus(at, c.TTL)
	}
	return ok
}

func judgeAbandon(c *Command, ok verdict, at int64) verdict {
	l := ok.lease
	switch {
	case l == nil:
	case !l.free(at) && l.token != c.Token:
		return ok // another's
	case l.free(at) && l.token == "" && l.spent == c.Token:
		return ok
	}
	ok.step, ok.spend, ok.until = end, c.Token, at
	return ok
}

func judgeBreak(c *Command, ok verdict, at int64) verdict {
	l := ok.lease
	if l == nil || l.free(at) || l.fence != c.Fence {
		return verdict{Reply: Reply{Code: Conflict}}
	}
	ok.step, ok.spend, ok.until = end, cmp.Or(l.token, l.spent), at
	return ok
}

// perform does what v says. m.mu is held.
func (m *Machine) perform(c *Command, v *verdict) {
	switch v.step {
	case found:
		m.epoch, m.cluster = uint64(max(1, c.Wall)), c.Token
	case grant:
		m.grant(c, v)
	case extend:
		v.lease.end = v.until
		m.schedule(v.lease)
	case end:
		m.end(v)
	case store:
		v.Version = m.set(c)
	case remove:
		m.unset(m.value(c.Key))
	case rest, pass:
	}
}
