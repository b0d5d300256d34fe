package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

const (
	consulTxn = "/v1/txn"
	consulKV  = "/v1/kv/"
)

// consulTerm is what the driver sends to acquire and to release a key, with another session.
type consulTerm struct {
	key     string
	value   []byte
	token   string // that is in the value
	session string
}

// acquire returns the index of the key.
func (s *consulTerm) acquire(ctx context.Context, client *api.Client, token string) (index uint64, err error) {
	value := bytes.Replace(s.value, []byte(s.token), []byte(token), 1)
	ok, answer, _, err := client.KV().Txn(api.KVTxnOps{
		{Verb: api.KVCheckNotExists, Key: s.key},
		{Verb: api.KVLock, Key: s.key, Value: value, Session: s.session},
	}, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return 0, err
	}
	if !ok || len(answer.Results) == 0 {
		return 0, errRefused
	}
	return answer.Results[len(answer.Results)-1].ModifyIndex, nil
}

func (s *consulTerm) release(ctx context.Context, client *api.Client, index uint64) error {
	pair := &api.KVPair{Key: s.key, ModifyIndex: index}
	done, _, err := client.KV().DeleteCAS(pair, (&api.WriteOptions{}).WithContext(ctx))
	if err == nil && !done {
		err = errRefused
	}
	return err
}

// awaitDelete asks for the key until it is gone. Each answer waits for a change after the index.
func (s *consulTerm) awaitDelete(ctx context.Context, client *api.Client, index uint64) error {
	options := &api.QueryOptions{WaitIndex: index, WaitTime: patience}
	for {
		pair, meta, err := client.KV().Get(s.key, options.WithContext(ctx))
		if err != nil || pair == nil {
			return err
		}
		options.WaitIndex = meta.LastIndex
	}
}

// record looks at what the driver sends for a term of key.
func (c *Consul) record(t testserver.TB, key string) consulTerm {
	t.Helper()
	rec := &httpRecorder{next: newTransport(t)}
	driver := c.driver(t, c.dial(t, rec))
	token := rand.Text()
	once := func(token string) {
		l, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: token, Owner: owner, TTL: lease})
		if err == nil {
			err = l.Release(t.Context(), 0)
		}
		if err != nil {
			t.Fatalf("record a term: %v", err)
		}
	}
	once(rand.Text()) // makes a session
	rec.forget()
	once(token)
	term, err := consulTermOf(rec.sent(), token)
	if err != nil {
		t.Fatalf("what the driver sends for a term: %v", err)
	}
	term.session = c.session(t)
	return term
}

// recordSkip looks at what the driver sends for an attempt at a key that is held, and returns its key in Consul.
func (c *Consul) recordSkip(t testserver.TB, key string) string {
	t.Helper()
	rec := &httpRecorder{next: newTransport(t)}
	driver := c.driver(t, c.dial(t, rec))
	_, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: rand.Text(), Owner: owner, TTL: lease})
	if !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("record an attempt at a held key: %v", err)
	}
	sent := rec.sent()
	if len(sent) == 1 && sent[0].method == http.MethodGet && sent[0].url.RawQuery == "" {
		if stored, ok := strings.CutPrefix(sent[0].url.Path, consulKV); ok {
			return stored
		}
	}
	t.Fatalf("the driver does not send one plain read for an attempt at a held key")
	return ""
}

// consulTermOf is what was sent, if it is what [consulTerm] sends.
func consulTermOf(sent []httpRequest, token string) (consulTerm, error) {
	if len(sent) != 2 {
		return consulTerm{}, fmt.Errorf("%d requests, not 2", len(sent))
	}
	acquire, release := sent[0], sent[1]
	if acquire.method != http.MethodPut || acquire.url.Path != consulTxn || acquire.url.RawQuery != "" {
		return consulTerm{}, errors.New("the acquisition is not a transaction")
	}
	var ops api.TxnOps
	if err := json.Unmarshal(acquire.body, &ops); err != nil {
		return consulTerm{}, err
	}
	if len(ops) != 2 || ops[0].KV == nil || ops[0].KV.Verb != api.KVCheckNotExists ||
		ops[1].KV == nil || ops[1].KV.Verb != api.KVLock {
		return consulTerm{}, errors.New("the acquisition is not a check and a lock")
	}
	s := consulTerm{key: ops[1].KV.Key, value: ops[1].KV.Value, token: token, session: ops[1].KV.Session}
	if bytes.Count(s.value, []byte(token)) != 1 || s.session == "" {
		return s, errors.New("the token is not in the value, or there is no session")
	}
	if release.method != http.MethodDelete || release.url.Path != consulKV+s.key || !release.url.Query().Has("cas") {
		return s, errors.New("the release is not a conditional deletion")
	}
	return s, nil
}
