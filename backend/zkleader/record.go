package zkleader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

const format = 1

// record is the data of the node of a key.
type record struct {
	Format   int               `json:"format"`
	Token    string            `json:"token,omitempty"`   // of the holder
	Session  int64             `json:"session,omitempty"` // to which the node of its term belongs
	Owner    string            `json:"owner,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	TTL      int64             `json:"ttl,omitempty"`   // in ms, from the last write on
	Fence    uint64            `json:"fence,omitempty"` // 0 if the write that acquired is the last one, whose zxid it is
	Since    int64             `json:"since,omitempty"` // in ms, likewise
	Node     int64             `json:"node,omitempty"`  // the zxid that created the node of the term, likewise
	Keep     int64             `json:"keep,omitempty"`  // in ms, from the last write on: kept by nobody
	Spent    string            `json:"spent,omitempty"` // the token that was released or abandoned last

	// rest has the fields that a later version of the format may have.
	rest map[string]json.RawMessage
}

// known are the fields of a record.
var known = []string{
	"format", "token", "session", "owner", "metadata", "ttl", "fence", "since", "node", "keep", "spent",
}

// decode reads the data of the node at path. A node without data, which somebody may have made, is a free key.
func decode(path string, data []byte) (record, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return record{Format: format}, nil
	}
	var head struct {
		Format int `json:"format"`
	}
	if isForeign(data) {
		return record{}, unreadable(path, errForeign)
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return record{}, unreadable(path, err)
	}
	if head.Format != format {
		return record{}, unreadable(path, fmt.Errorf("the record has the format %d instead of %d", head.Format, format))
	}
	var r record
	if err := errors.Join(json.Unmarshal(data, &r), json.Unmarshal(data, &r.rest)); err != nil {
		return record{}, unreadable(path, err)
	}
	if r.TTL < 0 || r.Keep < 0 || r.Token != "" && r.TTL == 0 {
		return record{}, unreadable(path, errors.New("the record has a time that cannot be"))
	}
	for _, field := range known {
		delete(r.rest, field)
	}
	return r, nil
}

// isForeign reports whether data is none of ours, rather than a record of ours that is damaged or newer.
func isForeign(data []byte) bool {
	return !bytes.Contains(data, []byte(`"format"`))
}

// encode writes a record.
func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		return nil // It has only strings and numbers.
	}
	if len(r.rest) == 0 {
		return data
	}
	all := maps.Clone(r.rest)
	if json.Unmarshal(data, &all) != nil {
		return data
	}
	if merged, err := json.Marshal(all); err == nil {
		return merged
	}
	return data
}

// freed is the record after a term whose token is spent.
func (r record) freed(token string) record { return record{Format: format, Spent: token, rest: r.rest} }

// longest is a time after which nobody will ask, and with which can be calculated.
const longest = 200 * 365 * 24 * time.Hour

// millis rounds up.
func millis(d time.Duration) int64 {
	return int64((min(d, longest) + time.Millisecond - 1) / time.Millisecond)
}
