package machine_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goleader/leader/backend/raftleader/internal/machine"
)

// model is the same rules written as plainly as possible: maps that are scanned, and nothing that is remembered twice.
type model struct {
	now, epoch int64
	leases     map[string]modelLease
	records    map[string]modelRecord
}

type modelLease struct {
	token, spent, owner string
	fence               uint64
	end                 int64
}

type modelRecord struct {
	version, value string
	end            int64 // -1 if it has none
}

func newModel() *model {
	return &model{leases: map[string]modelLease{}, records: map[string]modelRecord{}}
}

func (m *model) apply(index uint64, c machine.Command) machine.Reply {
	m.now = max(m.now, c.At)
	for key, l := range m.leases {
		if m.now >= l.end+hour {
			delete(m.leases, key)
		}
	}
	for key, r := range m.records {
		if r.end >= 0 && m.now >= r.end {
			delete(m.records, key)
		}
	}
	fence := uint64(m.epoch) + index
	switch c.Kind {
	case machine.Found:
		if m.epoch == 0 {
			m.epoch = c.Wall
		}
	case machine.Tick:
	case machine.Acquire:
		return m.acquire(c.Key, c, fence)
	case machine.AcquireSlot:
		return m.acquireSlot(c, fence)
	case machine.Renew:
		return m.renew(c)
	case machine.Release:
		m.release(c)
	case machine.Abandon:
		if l := m.leases[c.Key]; m.free(l) || l.token == c.Token {
			m.end(c.Key, c.Token, m.now)
		}
	case machine.Break:
		l := m.leases[c.Key]
		if m.free(l) || l.fence != c.Fence {
			return machine.Reply{Code: machine.Conflict}
		}
		spent := l.token
		if spent == "" {
			spent = l.spent
		}
		m.end(c.Key, spent, m.now)
	case machine.PutRecord, machine.DeleteRecord:
		return m.record(c, fence)
	}
	return machine.Reply{Code: machine.OK}
}

func (m *model) free(l modelLease) bool { return m.now >= l.end }

func (m *model) end(key, token string, until int64) {
	l := m.leases[key]
	if token == l.spent && l.token == "" && m.free(l) {
		return
	}
	l.token, l.spent, l.end = "", token, until
	m.leases[key] = l
}

func (m *model) acquire(key string, c machine.Command, fence uint64) machine.Reply {
	l, known := m.leases[key]
	switch {
	case known && l.spent == c.Token:
		return machine.Reply{Code: machine.Lost}
	case m.free(l):
		l.token, l.owner, l.fence, l.end = c.Token, c.Owner, fence, m.now+c.TTL
	case l.token != c.Token:
		return machine.Reply{Code: machine.Held, Holder: m.holder(l)}
	default:
		l.end = max(l.end, m.now+c.TTL)
	}
	m.leases[key] = l
	return machine.Reply{Code: machine.OK, Fence: l.fence}
}

func (m *model) acquireSlot(c machine.Command, fence uint64) machine.Reply {
	own, free := -1, -1
	var soonest *modelLease
	for slot := c.Slots - 1; slot >= 0; slot-- {
		l, known := m.leases[fmt.Sprintf("%s#%d", c.Key, slot)]
		switch {
		case known && l.spent == c.Token:
			return machine.Reply{Code: machine.Lost}
		case m.free(l):
			free = slot
		case l.token == c.Token:
			own = slot
		case soonest == nil || l.end <= soonest.end:
			soonest = &l
		}
	}
	if own >= 0 {
		free = own
	}
	if free < 0 {
		return machine.Reply{Code: machine.Held, Holder: m.holder(*soonest)}
	}
	r := m.acquire(fmt.Sprintf("%s#%d", c.Key, free), c, fence)
	r.Slot = free
	return r
}

func (m *model) renew(c machine.Command) machine.Reply {
	l := m.leases[c.Key]
	if m.free(l) || l.token != c.Token || l.fence != c.Fence {
		return machine.Reply{Code: machine.Lost}
	}
	l.end = max(l.end, m.now+c.TTL)
	m.leases[c.Key] = l
	return machine.Reply{Code: machine.OK, Fence: l.fence}
}

func (m *model) release(c machine.Command) {
	l := m.leases[c.Key]
	if l.fence != c.Fence || l.token != c.Token && l.spent != c.Token {
		return
	}
	until := m.now + c.TTL
	if m.free(l) {
		until = l.end
	}
	m.end(c.Key, c.Token, until)
}

func (m *model) record(c machine.Command, fence uint64) machine.Reply {
	r := m.records[c.Key]
	switch {
	case c.Kind == machine.DeleteRecord && r.version == "":
	case r.version != c.Version:
		return machine.Reply{Code: machine.Conflict}
	case c.Kind == machine.DeleteRecord:
		delete(m.records, c.Key)
	default:
		r = modelRecord{version: strconv.FormatUint(fence, 10), value: string(c.Value), end: -1}
		if c.TTL > 0 {
			r.end = m.now + c.TTL
		}
		m.records[c.Key] = r
		return machine.Reply{Code: machine.OK, Version: r.version}
	}
	return machine.Reply{Code: machine.OK}
}

// holder is what the machine tells of a lease that is held, less what the model does not follow.
func (m *model) holder(l modelLease) machine.Holder {
	return machine.Holder{Owner: l.owner, Fence: l.fence, Remaining: max(0, l.end-m.now), Kept: l.token == ""}
}

// reduced leaves of a holder what the model follows.
func reduced(h machine.Holder) machine.Holder {
	h.Since, h.Index, h.Metadata = 0, 0, nil
	return h
}

func (m *model) list(all bool) map[string]machine.Holder {
	list := map[string]machine.Holder{}
	for key, l := range m.leases {
		held := !m.free(l) && l.token != ""
		if held || all && (!m.free(l) || l.token != "") {
			list[key] = m.holder(l)
		}
	}
	return list
}

func (m *model) set(prefix string) map[string]machine.Record {
	set := map[string]machine.Record{}
	for key, r := range m.records {
		if strings.HasPrefix(key, prefix) {
			set[key] = machine.Record{Key: key, Version: r.version, TTL: max(0, r.end-m.now)}
		}
	}
	return set
}
