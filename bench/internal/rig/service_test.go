package rig

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/go-zookeeper/zk"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goleader/leader/bench/internal/contest"
)

func TestEtcd_EveryOpCanBeRepeated(t *testing.T) {
	e := NewEtcd(t)
	repeatAll(t, map[string]Op{
		"run": e.Run(t), "floor": e.Floor(t), "skip": e.Skip(t), "skip floor": e.SkipFloor(t),
		"mutex": e.Mutex(t), "election": e.Election(t), "session mutex": e.SessionMutex(),
	}, map[string]contest.Way{"hand-off": e.Handoff(t), "raw": e.RawHandoff(t), "mutex": e.MutexHandoff(t)})
}

func TestConsul_EveryOpCanBeRepeated(t *testing.T) {
	c := NewConsul(t)
	repeatAll(t, map[string]Op{
		"run": c.Run(t), "floor": c.Floor(t), "skip": c.Skip(t), "skip floor": c.SkipFloor(t), "lock": c.Lock(t),
	}, map[string]contest.Way{"hand-off": c.Handoff(t), "raw": c.RawHandoff(t), "lock": c.LockHandoff(t)})
}

func TestZooKeeper_EveryOpCanBeRepeated(t *testing.T) {
	z := NewZooKeeper(t)
	repeatAll(t, map[string]Op{
		"run": z.Run(t), "floor": z.Floor(t), "skip": z.Skip(t), "skip floor": z.SkipFloor(t), "lock": z.Lock(),
	}, map[string]contest.Way{"hand-off": z.Handoff(t), "raw": z.RawHandoff(t), "lock": z.LockHandoff(t)})
}

func TestKubernetes_EveryOpCanBeRepeated(t *testing.T) {
	k := NewKubernetes(t)
	repeatAll(t, map[string]Op{
		"run": k.Run(t), "floor": k.Floor(t), "skip": k.Skip(t), "skip floor": k.SkipFloor(t), "client-go": k.ClientGo(),
	}, map[string]contest.Way{"hand-off": k.Handoff(t), "raw": k.RawHandoff(t), "client-go": k.ClientGoHandoff(t)})
}

func repeatAll(t *testing.T, ops map[string]Op, ways map[string]contest.Way) {
	t.Helper()
	for name, op := range ops {
		t.Run(name, func(t *testing.T) { repeat(t, op) })
	}
	for name, way := range ways {
		t.Run("hand-off "+name, func(t *testing.T) {
			for range 2 {
				if took, err := way(t.Context()); err != nil || took <= 0 || took > patience {
					t.Fatalf("took %v, %v", took, err)
				}
			}
		})
	}
}

// What the raw clients write has to be what the driver would read.
func TestEtcd_Record_SendsWhatTheDriverSends(t *testing.T) {
	e := NewEtcd(t)
	term := e.record(t, "recorded")
	if err := term.acquire(t.Context(), e.client, "first"); err != nil {
		t.Fatal(err)
	}
	h, err := e.driver(t, e.client).Inspect(t.Context(), "recorded")
	if err != nil || h.Owner != owner || h.Fence == 0 {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
	if err := term.acquire(t.Context(), e.client, "second"); !errors.Is(err, errRefused) {
		t.Errorf("the second token got %v, want a refusal", err)
	}
	if err := term.release(t.Context(), e.client); err != nil {
		t.Error(err)
	}
}

func TestConsul_Record_SendsWhatTheDriverSends(t *testing.T) {
	c := NewConsul(t)
	term := c.record(t, "recorded")
	index, err := term.acquire(t.Context(), c.client, "first")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.driver(t, c.client).Inspect(t.Context(), "recorded")
	if err != nil || h.Owner != owner || h.Fence != index {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
	if _, err := term.acquire(t.Context(), c.client, "second"); !errors.Is(err, errRefused) {
		t.Errorf("the second token got %v, want a refusal", err)
	}
	if err := term.release(t.Context(), c.client, index); err != nil {
		t.Error(err)
	}
}

func TestZooKeeper_Record_WritesWhatTheDriverWrites(t *testing.T) {
	z := NewZooKeeper(t)
	term := z.record(t, "recorded")
	held, err := term.acquire(z.conn, term.version, "first")
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := z.conn.Get(term.path)
	if err != nil || !bytes.Contains(data, []byte(`"first"`)) {
		t.Errorf("the node holds %q, %v", data, err)
	}
	if _, err := term.acquire(z.conn, term.version, "second"); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("the second token got %v, want a refusal", err)
	}
	if err := term.release(z.conn, term.version+1, held); err != nil {
		t.Error(err)
	}
	if h, err := z.driver(t).Inspect(t.Context(), "recorded"); err != nil || !h.Free() {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
}

func TestKubernetes_Record_SendsWhatTheDriverSends(t *testing.T) {
	k := NewKubernetes(t)
	term, leases := k.record(t, "recorded"), k.client.Leases(namespace)
	held, err := term.acquire(t.Context(), leases, term.object, "first")
	if err != nil {
		t.Fatal(err)
	}
	h, err := k.driver(t, k.client).Inspect(t.Context(), "recorded")
	if err != nil || h.Owner != owner || h.Remaining < lease/2 || h.Remaining > lease {
		t.Errorf("the driver sees %+v, %v", h, err)
	}
	if _, err := term.acquire(t.Context(), leases, term.object, "second"); err == nil {
		t.Error("the second token was not refused")
	}
	if object, err := term.release(t.Context(), leases, held); err != nil || !isFree(object) {
		t.Errorf("the release left %+v, %v", object, err)
	}
}

func TestEtcdRecorder_RefusesOtherRequests(t *testing.T) {
	const place, key = "place/", "place/1f"
	end := []byte("place0")
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte("token"), Lease: 0x1f},
	}}
	look := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
		RequestRange: &pb.RangeRequest{Key: []byte(place), RangeEnd: end},
	}}
	free := &pb.Compare{Target: pb.Compare_CREATE, Key: []byte(place), RangeEnd: end}
	acquire := &pb.TxnRequest{
		Compare: []*pb.Compare{free}, Success: []*pb.RequestOp{put}, Failure: []*pb.RequestOp{look},
	}
	unconditional := &pb.TxnRequest{Success: acquire.Success, Failure: acquire.Failure}
	oneKey := &pb.TxnRequest{
		Compare: []*pb.Compare{{Target: pb.Compare_CREATE, Key: []byte(key)}},
		Success: acquire.Success, Failure: acquire.Failure,
	}
	remove := &pb.DeleteRangeRequest{Key: []byte(key)}
	if _, err := (&etcdRecorder{list: []any{acquire, remove}}).term("token"); err != nil {
		t.Fatal(err)
	}
	for name, sent := range map[string][]any{
		"nothing": nil, "an acquisition alone": {acquire}, "a read": {acquire, &pb.RangeRequest{}},
		"another order": {remove, acquire}, "no condition": {unconditional, remove}, "one key's condition": {oneKey, remove},
		"another key":  {acquire, &pb.DeleteRangeRequest{Key: []byte(place)}},
		"several keys": {acquire, &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: end}},
	} {
		r := &etcdRecorder{list: sent}
		if _, err := r.term("token"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestConsulTermOf_RefusesOtherRequests(t *testing.T) {
	txn := httpRequest{method: http.MethodPut, url: &url.URL{Path: consulTxn}, body: []byte(`[
		{"KV": {"Verb": "check-not-exists", "Key": "k"}},
		{"KV": {"Verb": "lock", "Key": "k", "Value": "dG9rZW4=", "Session": "s"}}]`)}
	removal := httpRequest{method: http.MethodDelete, url: &url.URL{Path: consulKV + "k", RawQuery: "cas=7"}}
	s, err := consulTermOf([]httpRequest{txn, removal}, "token")
	if err != nil || s.key != "k" || string(s.value) != "token" {
		t.Errorf("got %+v, %v", s, err)
	}
	blind, empty := removal, txn
	blind.url, empty.body = &url.URL{Path: consulKV + "k"}, []byte(`[]`)
	for name, sent := range map[string][]httpRequest{
		"nothing": nil, "another order": {removal, txn}, "a blind deletion": {txn, blind}, "no lock": {empty, removal},
	} {
		if _, err := consulTermOf(sent, "token"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := consulTermOf([]httpRequest{txn, removal}, "other"); err == nil {
		t.Error("a value without the token was taken")
	}
}

func TestKubernetesTermOf_RefusesOtherRequests(t *testing.T) {
	update := httpRequest{method: http.MethodPut, body: []byte(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": {"annotations": {"a": "token", "b": "7"}}}`)}
	patch := httpRequest{method: http.MethodPatch, body: []byte(`[{"value": "token"}, {"value": "7"}]`)}
	if _, err := kubernetesTermOf([]httpRequest{update, patch}, "token", "7"); err != nil {
		t.Error(err)
	}
	for name, sent := range map[string][]httpRequest{
		"nothing": nil, "another order": {patch, update}, "no token": {update, {method: http.MethodPatch, body: []byte(`[]`)}},
	} {
		if _, err := kubernetesTermOf(sent, "token", "7"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestZooKeeperTerm_RefusesMoreThanOneTransaction(t *testing.T) {
	seen := func(version, cversion int32, data string, children ...string) sight {
		stat := &zk.Stat{Version: version, Cversion: cversion, Mzxid: int64(version), Pzxid: int64(version)}
		return sight{[]byte(data), stat, children}
	}
	s := &zookeeperTerm{token: "token"}
	err := s.take(seen(1, 1, ""), seen(2, 2, "token", "term-1234"), seen(3, 3, "spent token"))
	if err != nil || s.child != "term-" || s.digits != 4 || s.version != 3 {
		t.Errorf("got %+v, %v", s, err)
	}
	for name, steps := range map[string][2]sight{
		"two writes":     {seen(3, 2, "token", "term-1234"), seen(4, 3, "token")},
		"two nodes":      {seen(2, 3, "token", "term-1234"), seen(3, 4, "token")},
		"a node left":    {seen(2, 2, "token", "term-1234"), seen(3, 3, "token", "term-1234")},
		"no node":        {seen(2, 2, "token"), seen(3, 3, "token")},
		"another's data": {seen(2, 2, "other", "term-1234"), seen(3, 3, "token")},
	} {
		if err := s.take(seen(1, 1, ""), steps[0], steps[1]); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
