package consulleader

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
)

// format is the major version of what is stored.
const format = 1

// record is the value of the key of a lease.
type record struct {
	Format   int               `json:"format"`
	Token    string            `json:"token,omitempty"` // of the holder; empty while the key is kept
	Owner    string            `json:"owner"`
	Since    int64             `json:"since"` // of the acquisition, in µs, by the holder's clock
	TTL      int64             `json:"ttl"`   // in µs
	Kept     bool              `json:"kept,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func newRecord(req backend.Request) record {
	return record{
		Format: format, Token: req.Token, Owner: req.Owner, Since: time.Now().UnixMicro(), TTL: req.TTL.Microseconds(),
		Metadata: req.Metadata,
	}
}

func (r record) encode() ([]byte, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return nil, backend.WithKind(fmt.Errorf("encode the record: %w", err), backend.Misconfigured)
	}
	return value, nil
}

// decode reads the value of a key. What is not ours, or of another major version, is an error of kind Misconfigured.
func decode(pair *api.KVPair) (record, error) {
	var r record
	err := json.Unmarshal(pair.Value, &r)
	switch {
	case err != nil, r.Format < format, r.Token == "" && !r.Kept && r.Format == format:
		err = fmt.Errorf("%q holds no record that can be read", pair.Key)
	case r.Format > format:
		err = fmt.Errorf("%q holds a record of format %d, want %d", pair.Key, r.Format, format)
	default:
		return r, nil
	}
	return record{}, backend.WithKind(err, backend.Misconfigured)
}

// taken reports whether somebody has the key: a record of ours without a session, such as a restored backup, is no
// lease.
func taken(pair *api.KVPair) bool { return pair != nil && pair.Session != "" }

// holderOf reads who has the key.
func holderOf(pair *api.KVPair) (backend.Holder, error) {
	if pair == nil {
		return backend.Holder{}, nil
	}
	r, err := decode(pair)
	if err != nil || !taken(pair) {
		return backend.Holder{}, err
	}
	return r.holder(pair), nil
}

func (r record) holder(pair *api.KVPair) backend.Holder {
	return backend.Holder{
		Owner:    r.Owner,
		Fence:    pair.CreateIndex,
		Since:    time.UnixMicro(r.Since),
		Kept:     r.Kept,
		Seen:     strconv.FormatUint(pair.ModifyIndex, 10),
		Metadata: r.Metadata,
	}
}
