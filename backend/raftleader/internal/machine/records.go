package machine

import (
	"strconv"
	"strings"
)

// item is a record.
type item struct {
	key     string
	version string
	data    []byte
	end     int64 // 0 if it has none
}

func (i *item) expired(at int64) bool { return i.end != 0 && at >= i.end }

// value is a record in a machine.
type value struct {
	item
	event event
}

// setOf cuts name!kind/id behind the slash.
func setOf(key string) string {
	mark := strings.IndexByte(key, '!') + 1
	return key[:mark+strings.IndexByte(key[mark:], '/')+1]
}

// value returns a record, nil if there is none. m.mu is held.
func (m *Machine) value(key string) *value { return m.sets[setOf(key)][key] }

// versionOf returns the version of a record, "" if there is none by the given time. m.mu is held.
func (m *Machine) versionOf(key string, at int64) string {
	v := m.value(key)
	if v == nil || v.expired(at) {
		return ""
	}
	return v.version
}

func (m *Machine) judgeRecord(c *Command, at int64) verdict {
	v := verdict{Reply: Reply{Code: OK}}
	stored := m.versionOf(c.Key, at)
	switch {
	case c.Kind == PutRecord && stored == c.Version:
		v.step = store
	case c.Kind == DeleteRecord && stored == "":
	case c.Kind == DeleteRecord && stored == c.Version:
		v.step = remove
	default:
		v.Code = Conflict
	}
	return v
}

// set stores a record and returns its version. m.mu is held.
func (m *Machine) set(c *Command) (version string) {
	v := m.value(c.Key)
	if v != nil {
		m.unset(v)
	}
	i := item{key: c.Key, version: strconv.FormatUint(m.epoch+m.applied, 10), data: c.Value}
	if c.TTL > 0 {
		i.end = plus(m.now, c.TTL)
	}
	m.add(i)
	return i.version
}

// add adds a record under a key that has none. m.mu is held.
func (m *Machine) add(i item) {
	v := &value{item: i}
	v.event.value = v
	set := setOf(i.key)
	if m.sets[set] == nil {
		m.sets[set] = map[string]*value{}
	}
	m.sets[set][i.key] = v
	if i.end != 0 {
		m.ends.put(&v.event, i.end)
	}
}

// unset forgets a record. m.mu is held.
func (m *Machine) unset(v *value) {
	v.event.leave()
	set := setOf(v.key)
	delete(m.sets[set], v.key)
	if len(m.sets[set]) == 0 {
		delete(m.sets, set)
	}
}
