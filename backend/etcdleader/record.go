package etcdleader

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goleader/leader/backend"
)

// format is the major version of what is stored.
const format = 1

// keptMark ends the Seen of a key that is kept, before the revision.
const keptMark = " kept "

// record is the value of a lease's key. The fence is the key's create revision.
type record struct {
	Format   int               `json:"format"`
	Token    string            `json:"token,omitempty"` // of the holder
	Spent    string            `json:"spent,omitempty"` // of the last holder, while kept
	Kept     bool              `json:"kept,omitempty"`
	Owner    string            `json:"owner"`
	Since    int64             `json:"since"` // in µs, by the holder's clock
	Metadata map[string]string `json:"metadata,omitempty"`
}

func newRecord(req backend.Request) record {
	return record{
		Format: format, Token: req.Token, Owner: req.Owner, Since: time.Now().UnixMicro(), Metadata: req.Metadata,
	}
}

// keep is what remains of a lease that was released and is kept.
func (r record) keep() record {
	r.Token, r.Spent, r.Kept = "", r.Token, true
	return r
}

func (r record) encode() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the record: %w", err)
	}
	return string(text), nil
}

// decode reads the value of a key. Fields that it does not know are passed over.
func decode(kv *mvccpb.KeyValue) (record, error) {
	var r record
	if err := json.Unmarshal(kv.Value, &r); err != nil {
		return record{}, foreign(string(kv.Key), err)
	}
	switch {
	case r.Format != format:
		return record{}, foreign(string(kv.Key), fmt.Errorf("format %d, want %d", r.Format, format))
	case r.Kept == (r.Token != ""):
		return record{}, foreign(string(kv.Key), errors.New("neither held nor kept"))
	}
	return r, nil
}

// isStray reports whether a record is under no lease, as a copy of the store or an edit leaves it. It is nobody's, and
// nothing would ever end it.
func isStray(kv *mvccpb.KeyValue) bool { return kv.Lease == 0 }

// isLive reports whether a key has the record of a lease, or of one that is kept.
func isLive(kv *mvccpb.KeyValue) bool {
	_, err := decode(kv)
	return err == nil && !isStray(kv)
}

// leading is which of the keys at a place counts: the one that is live, of which there is one at most, or else the first;
// nil if there is none.
func leading(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if i := slices.IndexFunc(kvs, isLive); i >= 0 {
		return kvs[i]
	}
	if len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// holder is who has a key. What remains is not known without another request.
func (r record) holder(kv *mvccpb.KeyValue) backend.Holder {
	return backend.Holder{
		Owner: r.Owner, Fence: fenceOf(kv), Since: time.UnixMicro(r.Since), Kept: r.Kept, Metadata: r.Metadata,
		Seen: seen(kv, r.Kept),
	}
}

// holderOf reads the holder from a key's value; nil means that the key is free.
func holderOf(kv *mvccpb.KeyValue) (backend.Holder, error) {
	if kv == nil {
		return backend.Holder{}, nil
	}
	r, err := decode(kv)
	if err != nil || isStray(kv) {
		return backend.Holder{}, err
	}
	return r.holder(kv), nil
}

func fenceOf(kv *mvccpb.KeyValue) uint64 { return uint64(max(kv.CreateRevision, 0)) }

// seen names the state of a record that waiters compare. A renewal and a repeated attempt leave it as it is.
func seen(kv *mvccpb.KeyValue, kept bool) string {
	s := strconv.FormatInt(kv.CreateRevision, 10)
	if kept {
		s += keptMark + strconv.FormatInt(kv.ModRevision, 10)
	}
	return s
}
