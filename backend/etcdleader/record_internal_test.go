package etcdleader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goleader/leader/backend"
)

func TestDecode_ReadsWhatNewerReleasesOfTheSameMajorWrite(t *testing.T) {
	kv := &mvccpb.KeyValue{
		Value:          []byte(`{"hue":{"a":[1]},"format":1,"token":"T","owner":"o","since":5,"minor":3}`),
		CreateRevision: 7, ModRevision: 9, Lease: 1,
	}
	h, err := holderOf(kv)
	if err != nil || h.Owner != "o" || h.Fence != 7 || !h.Since.Equal(time.UnixMicro(5)) || h.Kept || h.Seen != "7" {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestDecode_RefusesWhatIsNoneOfOurs(t *testing.T) {
	for _, value := range []string{
		"", "1", "null", "[]", `{"format":2,"token":"T"}`, `{"token":"T"}`, `{"format":1}`, `{"format":"1","token":"T"}`,
		`{"format":1,"token":"T","kept":true}`, `{"format":1,"token":"T"`, "\xff",
	} {
		if r, err := decode(&mvccpb.KeyValue{Value: []byte(value)}); backend.KindOf(err) != backend.Misconfigured {
			t.Errorf("%q: %+v, %v", value, r, err)
		}
	}
}

func FuzzDecode_NeverPanicsAndKeepsWhatItRead(f *testing.F) {
	f.Add([]byte(`{"format":1,"token":"T","owner":"o","since":5}`), int64(3), int64(4))
	f.Add([]byte(`1 1000 value`), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, value []byte, create, mod int64) {
		kv := &mvccpb.KeyValue{Value: value, CreateRevision: create, ModRevision: mod, Lease: 1}
		if r, err := decode(kv); err == nil {
			text, err := r.encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := decode(&mvccpb.KeyValue{Value: []byte(text)})
			if err != nil || again.Token != r.Token || again.Kept != r.Kept || again.Since != r.Since {
				t.Errorf("%q became %+v and then %+v, %v", value, r, again, err)
			}
			if create > 0 && mod >= create {
				st := parseSeen(seen(kv, r.Kept))
				if st.hasPassed(newSight(mod, kv)) {
					t.Errorf("%q: the state %q has passed while it is so", value, seen(kv, r.Kept))
				}
				if !st.hasPassed(newSight(mod+1, nil)) {
					t.Errorf("%q: the state %q has not passed, and the key is free", value, seen(kv, r.Kept))
				}
			}
		}
		if r, ok := decodeRecord(kv); ok {
			again, ok := decodeRecord(&mvccpb.KeyValue{Value: []byte(encodeRecord(r))})
			if !ok || string(again.Value) != string(r.Value) || again.TTL != r.TTL {
				t.Errorf("%q became %+v and then %+v, %t", value, r, again, ok)
			}
		}
	})
}

func TestSeen_ComparesWhatAWatchIsBehindOf(t *testing.T) {
	held := &mvccpb.KeyValue{Value: []byte(`{"format":1,"token":"T"}`), CreateRevision: 5, ModRevision: 5, Lease: 1}
	kept := &mvccpb.KeyValue{Value: []byte(`{"format":1,"kept":true}`), CreateRevision: 5, ModRevision: 8, Lease: 1}
	next := &mvccpb.KeyValue{Value: []byte(`{"format":1,"token":"U"}`), CreateRevision: 9, ModRevision: 9, Lease: 1}
	stray := &mvccpb.KeyValue{Value: []byte(`{"format":1,"token":"T"}`), CreateRevision: 5, ModRevision: 7}
	for _, row := range []struct {
		seen string
		s    sight
		want bool
	}{
		{"5", newSight(4, nil), false}, // what the attempt saw is still to come
		{"5", newSight(5, held), false},
		{"5", newSight(8, kept), true},
		{"5", newSight(9, next), true},
		{"5", newSight(6, nil), true},
		{"5", newSight(7, stray), true},
		{"5 kept 8", newSight(5, held), false},
		{"5 kept 8", newSight(8, kept), false},
		{"5 kept 7", newSight(8, kept), true},
		{"5 kept 8", newSight(9, next), true},
		{"5 kept 8", newSight(9, nil), true},
		{"", newSight(5, held), true},
		{"x", newSight(5, held), true},
		{"5 kept x", newSight(5, held), true},
	} {
		if got := parseSeen(row.seen).hasPassed(row.s); got != row.want {
			t.Errorf("%q has passed in %+v: %t, want %t", row.seen, row.s, got, row.want)
		}
	}
}

func TestClassify_TellsTheKinds(t *testing.T) {
	for _, row := range []struct {
		err  error
		want backend.Kind
	}{
		{rpctypes.ErrPermissionDenied, backend.Denied},
		{rpctypes.ErrGRPCPermissionDenied, backend.Denied},
		{rpctypes.ErrAuthFailed, backend.Denied},
		{rpctypes.ErrInvalidAuthToken, backend.Denied},
		{rpctypes.ErrUserEmpty, backend.Denied},
		{rpctypes.ErrNoLeader, backend.Unavailable},
		{rpctypes.ErrTimeout, backend.Unavailable},
		{rpctypes.ErrNoSpace, backend.Unavailable},
		{rpctypes.ErrTooManyRequests, backend.Unavailable},
		{status.Error(codes.Unavailable, "connection refused"), backend.Unavailable},
		{status.Error(codes.Unauthenticated, "no"), backend.Denied},
		{rpctypes.ErrLeaseTTLTooLarge, backend.Unknown},
		{rpctypes.ErrRequestTooLarge, backend.Misconfigured},
		{status.Error(codes.Unimplemented, "unknown method"), backend.Misconfigured},
		{errors.New("something else"), backend.Unknown},
	} {
		err := classify(t.Context(), row.err)
		if got := backend.KindOf(err); got != row.want {
			t.Errorf("%v is %v, want %v", row.err, got, row.want)
		}
		if err.Error() != rpctypes.Error(row.err).Error() {
			t.Errorf("%v became %v", row.err, err)
		}
	}
}

func TestClassify_WrapsTheDeadlineThatTheServerFoundPassed(t *testing.T) {
	err := classify(t.Context(), status.Error(codes.Unknown, context.DeadlineExceeded.Error()))
	if !errors.Is(err, context.DeadlineExceeded) || backend.KindOf(err) != backend.Unavailable {
		t.Errorf("got %v of kind %v", err, backend.KindOf(err))
	}
}

func TestAdvice_WarnsOfOldClustersAndAlarms(t *testing.T) {
	for _, row := range []struct {
		version string
		members int
		want    bool
	}{
		{"3.4.23", 3, true},
		{"3.4.23", 1, false},
		{"3.4.30", 3, true},
		{"3.4.31", 3, false},
		{"3.5.12", 3, true},
		{"3.5.13", 3, false},
		{"3.6.0", 3, false},
		{"3.7.3", 5, false},
		{"3.3.27", 3, true},
		{"3.8.0-alpha.0", 3, false},
		{"unheard of", 3, false},
	} {
		if list := advice(row.version, row.members, longHistory, nil); (len(list) > 0) != row.want {
			t.Errorf("%+v: %q", row, list)
		}
	}
	if list := advice("3.7.3", 1, longHistory+1, nil); len(list) != 1 || !strings.Contains(list[0], "1000001 revisions") {
		t.Errorf("a long history: %q", list)
	}
	if list := advice("3.7.3", 1, 0, []string{"NOSPACE"}); len(list) != 1 || !strings.Contains(list[0], "NOSPACE") {
		t.Errorf("an alarm: %q", list)
	}
}
