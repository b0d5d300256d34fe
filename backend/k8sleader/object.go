package k8sleader

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goleader/leader/backend"
)

// The annotations of a Lease. What the spec can say is in the spec.
const (
	formatKey   = domain + "format"   // the major version of what is written here
	keyKey      = domain + "key"      // what the engine calls it
	fenceKey    = domain + "fence"    // the largest that was granted
	tokenKey    = domain + "token"    // of the holder; missing while free or kept
	spentKey    = domain + "spent"    // the token that was released, broken or abandoned last
	ownerKey    = domain + "owner"    // of the holder; holderIdentity is the same unless it is empty
	ttlKey      = domain + "ttl"      // of the lease, or of what is kept of it; leaseDurationSeconds rounded up
	renewedKey  = domain + "renewed"  // the renewTime that was written together with all this
	keptKey     = domain + "kept"     // "true" if the lease was released and its key is kept
	metadataKey = domain + "metadata" // a JSON object

	format = "1"

	// nobody is the holderIdentity of an owner without a name; an empty one would mean that the Lease is free.
	nobody = "unnamed"
	// foreignTTL is for a foreign holder that publishes no duration.
	foreignTTL = time.Minute
)

// tenure says who has a Lease.
type tenure int

const (
	free    tenure = iota
	held           // by a token
	kept           // by nobody, after a release
	foreign        // by somebody who does not write our annotations
)

// state is what a Lease object says. It is not changed after it was read.
type state struct {
	object *coordinationv1.Lease // without managedFields
	rv     uint64                // its resourceVersion

	tenure   tenure
	fence    uint64 // the largest that was granted, 0 before the first
	token    string // while held
	spent    string
	owner    string // unless free
	since    time.Time
	ttl      time.Duration // unless free
	stamp    string        // changes with each sign of life of who has it
	metadata map[string]string

	written time.Time // by the server's clock, when renewTime was; zero if unknown
}

// read decodes a Lease, which is the caller's no more. A record that cannot be read is Misconfigured.
func read(object *coordinationv1.Lease) (*state, error) {
	s := &state{object: object, written: lastWrite(object.ManagedFields)}
	object.ManagedFields = nil
	var err error
	if s.rv, err = strconv.ParseUint(object.ResourceVersion, 10, 64); err != nil {
		return nil, unreadable(object, "resourceVersion", object.ResourceVersion)
	}
	notes := object.Annotations
	if notes[formatKey] != "" {
		if err := checkFormat(object); err != nil {
			return nil, err
		}
		if s.fence, err = strconv.ParseUint(notes[fenceKey], 10, 63); err != nil {
			return nil, unreadable(object, fenceKey, notes[fenceKey])
		}
		s.spent = notes[spentKey]
	}
	return s, s.readHolder()
}

// readHolder reads who has the Lease. Our annotations survive the writes of others, so they only count together with
// the identity and the time that were written with them.
func (s *state) readHolder() error {
	spec, notes := &s.object.Spec, s.object.Annotations
	identity := value(spec.HolderIdentity)
	if identity == "" {
		return nil
	}
	s.owner, s.since = identity, timeOf(spec.AcquireTime)
	ours := notes[formatKey] != "" && identity == identityOf(notes[ownerKey]) &&
		timeText(spec.RenewTime) == notes[renewedKey]
	switch {
	case ours && notes[tokenKey] != "":
		s.tenure, s.token = held, notes[tokenKey]
	case ours && notes[keptKey] != "":
		s.tenure = kept
	default:
		s.tenure, s.ttl = foreign, foreignTTL
		if seconds := value(spec.LeaseDurationSeconds); seconds > 0 {
			s.ttl = time.Duration(seconds) * time.Second
		}
		s.stamp = fmt.Sprintf("%s %s %d %d", identity, timeText(spec.RenewTime), value(spec.LeaseTransitions), s.ttl)
		return nil
	}
	s.owner, s.stamp = notes[ownerKey], notes[renewedKey]
	var err error
	if s.ttl, err = time.ParseDuration(notes[ttlKey]); err != nil || s.ttl <= 0 || s.ttl > maxTTL {
		return unreadable(s.object, ttlKey, notes[ttlKey])
	}
	if s.fence == 0 {
		return unreadable(s.object, fenceKey, notes[fenceKey])
	}
	s.metadata = decodeMetadata(notes[metadataKey])
	return nil
}

var errUnreadable = errors.New("cannot be read")

// unreadable is the error for a record that this release cannot read.
func unreadable(object *coordinationv1.Lease, name, value string) error {
	return backend.WithKind(fmt.Errorf("lease %s/%s: %s is %q, which %w",
		object.Namespace, object.Name, name, value, errUnreadable), backend.Misconfigured)
}

// life identifies the record and the last sign of life in it. While it does not change, nobody has renewed.
func (s *state) life() string {
	return string(s.object.UID) + " " + strconv.Itoa(int(s.tenure)) + " " + s.token + " " + s.stamp
}

// seen names the state for a Waiter. A renewal leaves it as it is.
func (s *state) seen() string {
	switch s.tenure {
	case held:
		return fmt.Sprintf("%s %d", s.object.UID, s.fence)
	case kept:
		return fmt.Sprintf("%s %d kept", s.object.UID, s.fence)
	case foreign:
		return fmt.Sprintf("%s of %s since %s", s.object.UID, s.owner, timeText(s.object.Spec.AcquireTime))
	case free:
	}
	return ""
}

// holder is who has the Lease if it has not expired. The fence of a foreign one is made up.
func (s *state) holder(remaining time.Duration) backend.Holder {
	h := backend.Holder{
		Owner:     s.owner,
		Fence:     s.fence,
		Since:     s.since,
		Remaining: remaining,
		Kept:      s.tenure == kept,
		Seen:      s.seen(),
		Metadata:  s.metadata,
	}
	if s.tenure == foreign {
		h.Fence = max(s.fence, uint64(max(value(s.object.Spec.LeaseTransitions), 0))) + 1
	}
	return h
}

// term is who holds the Lease, for writes on the condition that it still does.
func (s *state) term() term {
	return term{name: s.object.Name, token: s.token, fence: s.fence, identity: identityOf(s.owner)}
}

// lastWrite is when the server last took a renewTime, by its own clock. It is zero if the server does not tell.
func lastWrite(fields []metav1.ManagedFieldsEntry) time.Time {
	var last time.Time
	for _, entry := range fields {
		if entry.Time == nil || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:renewTime"`) {
			continue
		}
		if entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

func identityOf(owner string) string {
	if owner == "" {
		return nobody
	}
	return owner
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func timeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// timeText is how JSON has a time.
func timeText(t *metav1.MicroTime) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(metav1.RFC3339Micro)
}

// seconds rounds up, and is at least one, as Kubernetes wants it.
func seconds(d time.Duration) int32 {
	return int32(max((d+time.Second-1)/time.Second, 1)) //nolint:gosec // maxTTL is far below the limit.
}

// encodeMetadata returns a JSON object, or "" if there is nothing in it.
func encodeMetadata(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "", nil
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return "", fmt.Errorf("encode metadata: %w", err)
	}
	return string(text), nil
}

// decodeMetadata reads a JSON object. One that is damaged reads as none: that somebody holds the key matters more.
func decodeMetadata(text string) map[string]string {
	if !strings.HasPrefix(text, "{") {
		return nil
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		return nil
	}
	return metadata
}
