package consulleader

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// stored is what the value of a key says of a record: "1", the TTL in µs, the end in µs or 0, and the value, with a
// space between.
type stored struct {
	ttl   time.Duration
	end   time.Time // zero if a session ends the record, or nothing does
	value []byte
}

func (p *put) encode() []byte {
	end := int64(0)
	if !p.end.IsZero() {
		end = p.end.UnixMicro()
	}
	return append(fmt.Appendf(nil, "%d %d %d ", format, p.TTL.Microseconds(), end), p.Value...)
}

func decodeValue(pair *api.KVPair) (stored, error) {
	unreadable := func(what string) (stored, error) {
		return stored{}, backend.WithKind(fmt.Errorf("%q %s", pair.Key, what), backend.Misconfigured)
	}
	const numbers = 3
	fields := bytes.SplitN(pair.Value, []byte(" "), numbers+1)
	if len(fields) != numbers+1 {
		return unreadable("holds no record that can be read")
	}
	var n [numbers]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil || n[i] < 0 {
			return unreadable("holds no record that can be read")
		}
	}
	if n[0] != format {
		return unreadable(fmt.Sprintf("holds a record of format %d, want %d", n[0], format))
	}
	s := stored{ttl: time.Duration(n[1]) * time.Microsecond, value: fields[numbers]}
	if n[2] > 0 {
		s.end = time.UnixMicro(n[2])
	}
	return s, nil
}

// expired reports whether a record that no session ends has ended.
func (s stored) expired() bool { return !s.end.IsZero() && !time.Now().Before(s.end) }

// left is what is left of the TTL, as far as known: when a session was renewed is not.
func (s stored) left() time.Duration {
	if s.end.IsZero() {
		return s.ttl
	}
	return time.Until(s.end)
}

// A version is the index of the last change, and behind "@" the end of a record that no session ends, in µs.
const endMark = "@"

func (s stored) version(pair *api.KVPair) string { return formatVersion(pair.ModifyIndex, s.end) }

func (p *put) version(pair *api.KVPair) string { return formatVersion(pair.ModifyIndex, p.end) }

func formatVersion(index uint64, end time.Time) string {
	version := strconv.FormatUint(index, 10)
	if !end.IsZero() {
		version += endMark + strconv.FormatInt(end.UnixMicro(), 10)
	}
	return version
}

// parseVersion returns the index of a version, 0 if it is none that can be stored any more.
func parseVersion(version string) uint64 {
	digits, ends, timed := strings.Cut(version, endMark)
	index, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || strconv.FormatUint(index, 10) != digits {
		return 0
	}
	if timed {
		end, err := strconv.ParseInt(ends, 10, 64)
		if err != nil || !time.Now().Before(time.UnixMicro(end)) {
			return 0
		}
	}
	return index
}

// maxRecords is how many records a backend remembers before it looks which of them have ended.
const maxRecords = 256

// recordSessions are the sessions that hold the records which this backend stored.
type recordSessions struct {
	mu    sync.Mutex
	byKey map[string]*session
}

func newRecordSessions() *recordSessions { return &recordSessions{byKey: map[string]*session{}} }

func (r *recordSessions) of(key string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

// replace notes which session holds a record, nil for none, and ends that which did.
func (r *recordSessions) replace(ctx context.Context, b *Backend, key string, s *session) {
	r.mu.Lock()
	old := r.byKey[key]
	if s == nil {
		delete(r.byKey, key)
	} else {
		r.byKey[key] = s
	}
	if len(r.byKey) > maxRecords {
		maps.DeleteFunc(r.byKey, func(_ string, s *session) bool { return s.past() })
	}
	r.mu.Unlock()
	if old != nil && old != s {
		b.retireAside(ctx, old, "")
	}
}
