package mongoleader

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/goleader/leader/backend"
)

// keptMark ends the Seen of a key that is kept.
const keptMark = " kept"

// document is what is stored of a key, and the server's clock when it was read.
type document struct {
	key, token, spent, owner, metadata string

	fence, lease        int64
	since, renewed, now int64 // ms since 1970
}

// decode reads a document of the collection of leases. The error is of kind Misconfigured.
func decode(raw bson.Raw) (*document, error) {
	d := new(document)
	elements, err := raw.Elements()
	if err != nil {
		return nil, unreadable(raw, err.Error())
	}
	var version int64
	needed := []string{fieldFence, fieldToken, fieldSpent, fieldRenewed, fieldLease}
	missing := len(needed)
	for _, e := range elements {
		ok := true
		if slices.Contains(needed, e.Key()) {
			missing--
		}
		switch v := e.Value(); e.Key() {
		case fieldKey:
			d.key, ok = v.StringValueOK()
		case fieldFormat:
			version, ok = v.AsInt64OK()
		case fieldFence:
			d.fence, ok = v.Int64OK()
		case fieldToken:
			d.token, ok = v.StringValueOK()
		case fieldSpent:
			d.spent, ok = v.StringValueOK()
		case fieldOwner:
			d.owner, ok = v.StringValueOK()
		case fieldMetadata:
			d.metadata, ok = v.StringValueOK()
		case fieldLease:
			d.lease, ok = v.AsInt64OK()
		case fieldSince:
			d.since, ok = v.DateTimeOK()
		case fieldRenewed:
			d.renewed, ok = v.DateTimeOK()
		case fieldNow:
			d.now, ok = v.DateTimeOK()
		}
		if !ok {
			return nil, unreadable(raw, "field "+e.Key()+" is of another type")
		}
	}
	switch {
	case version == 0:
		return nil, unreadable(raw, "it has no format")
	case version != int64(format):
		return nil, unreadable(raw, fmt.Sprintf("it has format %d, this release knows %d", version, format))
	case d.fence <= 0 || d.lease < 0 || missing != 0:
		return nil, unreadable(raw, "a field is missing or out of range")
	}
	return d, nil
}

// unreadable is the error for a document that cannot be read. It shows nothing but the key.
func unreadable(raw bson.Raw, why string) error {
	return backend.WithKind(fmt.Errorf("document %v: %s", raw.Lookup(fieldKey), why), backend.Misconfigured)
}

// left is for how many ms the key stays taken.
func (d *document) left() int64 {
	if d.lease == 0 {
		return 0
	}
	return max(0, d.renewed+d.lease-d.now)
}

// holder is who has the key; of a lease that has expired, who had it.
func (d *document) holder() backend.Holder {
	h := backend.Holder{
		Owner:     d.owner,
		Fence:     uint64(d.fence), //nolint:gosec // decode lets none below 1 pass
		Remaining: time.Duration(d.left()) * time.Millisecond,
		Kept:      d.token == "",
		Metadata:  decodeMetadata(d.metadata),
	}
	if d.since != 0 {
		h.Since = time.UnixMilli(d.since)
	}
	h.Seen = strconv.FormatInt(d.fence, 10)
	if h.Kept {
		h.Seen += keptMark
	}
	return h
}

// encodeMetadata returns a JSON object, or "" if there is nothing in it: what is allowed in the name of a field depends
// on the server's version.
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
