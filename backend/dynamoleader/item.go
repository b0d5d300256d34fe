package dynamoleader

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goleader/leader/backend"
)

// The attributes of an item.
const (
	attrName     = "name"     // partition key: what the engine calls it, up to # or !
	attrPart     = "part"     // sort key: lease, lease#3, record!kind/id
	attrKey      = "key"      // all that the engine calls it
	attrFormat   = "format"   // the major version of what is written here
	attrFence    = "fence"    // the largest that was granted
	attrToken    = "token"    // of the holder; missing while free or kept
	attrSpent    = "spent"    // the token that was released, broken or abandoned last
	attrOwner    = "owner"    // of the last holder
	attrMetadata = "metadata" // a JSON object
	attrLease    = "lease"    // ms that the lease, or what is kept of it, lasts from when the stamp was written; 0 = free
	attrStamp    = "stamp"    // random, another with each acquisition, renewal and keep
	attrSince    = "since"    // ms since 1970 of the acquisition, by the service's clock
	attrRenewed  = "renewed"  // ms since 1970, when the stamp was written or later
	attrExpires  = "expires"  // s since 1970, from when on DynamoDB may delete the item; judges nothing
	attrVersion  = "version"  // of a record, random
	attrValue    = "value"    // of a record
	attrEnds     = "ends"     // ms since 1970 of a record's end, by the service's clock; missing if it has none
	attrLasts    = "lasts"    // ms that a record was put for

	format = 1
)

// garbage is how long after its end an item that nobody uses is kept, so that the fence is remembered meanwhile.
const garbage = 7 * 24 * time.Hour

// state is what an item says of a lease. It is not changed after it was read.
type state struct {
	key      string
	fence    uint64
	token    string // while held
	spent    string
	owner    string
	metadata string
	ttl      time.Duration // 0 while free
	stamp    string        // unless free
	since    time.Time
	renewed  time.Time
}

// decode reads an item of a lease. The error is of kind Misconfigured.
func decode(item values, key string) (*state, error) {
	r := reader{item: item, place: leasePlace(key)}
	r.checkFormat()
	s := &state{
		key:      key,
		fence:    uint64(max(r.number(attrFence), 0)),
		token:    r.text(attrToken),
		spent:    r.text(attrSpent),
		owner:    r.text(attrOwner),
		metadata: r.text(attrMetadata),
		ttl:      time.Duration(r.number(attrLease)) * time.Millisecond,
		stamp:    r.text(attrStamp),
		since:    r.time(attrSince),
		renewed:  r.time(attrRenewed),
	}
	switch {
	case r.err != nil:
	case item[attrLease] == nil, s.fence == 0, s.ttl < 0, s.ttl > maxTTL+time.Millisecond, s.ttl > 0 && s.stamp == "":
		r.fail("an attribute is missing or out of range")
	case s.ttl == 0 && s.token != "":
		r.fail("it has a token and no lease")
	}
	return s, r.err
}

// free reports whether nobody has the key, by what is written.
func (s *state) free() bool { return s.ttl == 0 }

// kept reports whether the lease was released and its key is kept.
func (s *state) kept() bool { return s.ttl > 0 && s.token == "" }

// life identifies the last sign of life in the item. While it does not change, nobody has renewed.
func (s *state) life() string { return s.token + " " + s.stamp }

// seen names the state for those who compare. A renewal leaves it as it is.
func (s *state) seen() string {
	switch {
	case s.free():
		return ""
	case s.kept():
		return strconv.FormatUint(s.fence, 10) + " kept"
	}
	return strconv.FormatUint(s.fence, 10)
}

// holder is who has the key if the lease has not expired.
func (s *state) holder(remaining time.Duration) backend.Holder {
	return backend.Holder{
		Owner:     s.owner,
		Fence:     s.fence,
		Since:     s.since,
		Remaining: remaining,
		Kept:      s.kept(),
		Seen:      s.seen(),
		Metadata:  decodeMetadata(s.metadata),
	}
}

// term is who has the key, for writes on the condition that it is still so.
func (s *state) term() term { return term{key: s.key, token: s.token, fence: s.fence} }

// reader reads the attributes of an item, and keeps the first error.
type reader struct {
	item  values
	place place
	err   error
}

// fail notes an error that shows nothing but the place.
func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = backend.WithKind(fmt.Errorf("item %q: %w: %s", r.place, errUnreadable, why), backend.Misconfigured)
	}
}

var errUnreadable = errors.New("cannot be read")

// checkFormat refuses items of other applications and of later releases.
func (r *reader) checkFormat() {
	switch major := r.number(attrFormat); major {
	case format:
	case 0:
		r.fail("it has no format")
	default:
		r.fail(fmt.Sprintf("it has format %d, this release knows %d", major, format))
	}
}

// text reads a string, "" if it is missing or NULL.
func (r *reader) text(name string) string {
	switch v := r.item[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		r.fail("attribute " + name + " is of another type")
	}
	return ""
}

// number reads an integer, 0 if it is missing.
func (r *reader) number(name string) int64 {
	switch v := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			r.fail("attribute " + name + " is no integer")
		}
		return n
	default:
		r.fail("attribute " + name + " is of another type")
	}
	return 0
}

// time reads an instant in ms, zero if it is missing.
func (r *reader) time(name string) time.Time {
	ms := r.number(name)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// bytes reads a binary value, nil if it is missing or NULL.
func (r *reader) bytes(name string) []byte {
	switch v := r.item[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberB:
		return v.Value
	default:
		r.fail("attribute " + name + " is of another type")
	}
	return nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// maybe is a string that may be empty, which older endpoints refuse as such.
func maybe(s string) types.AttributeValue {
	if s == "" {
		return &types.AttributeValueMemberNULL{Value: true}
	}
	return text(s)
}

func number[T int64 | uint64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// millis rounds up.
func millis(d time.Duration) types.AttributeValue {
	return number(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func instant(t time.Time) types.AttributeValue { return number(t.UnixMilli()) }

// expiry is from when on an item whose lease or record ends at t is garbage. DynamoDB takes whole seconds; a number of ms
// would mean a year in which nothing is ever deleted.
func expiry(t time.Time) types.AttributeValue { return number(t.Add(garbage).Unix() + 1) }

// encodeMetadata returns a JSON object.
func encodeMetadata(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "{}", nil
	}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return "", fmt.Errorf("encode metadata: %w", err)
	}
	return string(encoded), nil
}

// decodeMetadata reads a JSON object. One that is damaged reads as none: that somebody holds the key matters more.
func decodeMetadata(encoded string) map[string]string {
	if !strings.HasPrefix(encoded, "{") || encoded == "{}" {
		return nil
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(encoded), &metadata); err != nil {
		return nil
	}
	return metadata
}
