package rig

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/internal/testserver"
)

// zookeeperRoot is where the driver keeps its nodes.
const zookeeperRoot = "/leader/"

// zookeeperTerm is what the driver writes to acquire and to release a key. The client shows nobody what is sent, so it
// is taken from what the driver leaves behind.
type zookeeperTerm struct {
	path        string
	held, freed []byte // the data of the node
	token       string // that is in both
	child       string // the name of the node of a term, without its digits
	digits      int
	version     int32 // of the node, which grows by one with each write
}

// acquire writes a node of that version, and returns the path of the node of the term.
func (s *zookeeperTerm) acquire(conn *zk.Conn, version int32, token string) (held string, err error) {
	held = s.path + "/" + s.child + rand.Text()[:s.digits]
	_, err = conn.Multi(
		&zk.SetDataRequest{
			Path: s.path, Data: bytes.Replace(s.held, []byte(s.token), []byte(token), 1), Version: version,
		},
		&zk.CreateRequest{Path: held, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	return held, err
}

func (s *zookeeperTerm) release(conn *zk.Conn, version int32, held string) error {
	_, err := conn.Multi(
		&zk.SetDataRequest{Path: s.path, Data: s.freed, Version: version},
		&zk.DeleteRequest{Path: held, Version: -1})
	return err
}

// record looks at what the driver leaves behind after an acquisition and after a release of key.
func (z *ZooKeeper) record(t testserver.TB, key string) *zookeeperTerm {
	t.Helper()
	driver := z.driver(t)
	acquire := func(token string) backend.Lease {
		l, err := driver.TryAcquire(t.Context(), backend.Request{Key: key, Token: token, Owner: owner, TTL: lease})
		if err != nil {
			t.Fatalf("record a term: %v", err)
		}
		return l
	}
	release := func(l backend.Lease) {
		if err := l.Release(t.Context(), 0); err != nil {
			t.Fatalf("record a term: %v", err)
		}
	}
	release(acquire(rand.Text())) // makes the node
	s := &zookeeperTerm{path: zookeeperRoot + key, token: rand.Text()}
	before := s.look(t, z.conn)
	l := acquire(s.token)
	taken := s.look(t, z.conn)
	release(l)
	after := s.look(t, z.conn)
	if err := s.take(before, taken, after); err != nil {
		t.Fatalf("what the driver writes for a term: %v", err)
	}
	return s
}

// sight is what is seen of the node of a key.
type sight struct {
	data     []byte
	stat     *zk.Stat
	children []string
}

func (s *zookeeperTerm) look(t testserver.TB, conn *zk.Conn) sight {
	t.Helper()
	data, stat, err := conn.Get(s.path)
	if err != nil {
		t.Fatalf("look at %s: %v", s.path, err)
	}
	children, _, err := conn.Children(s.path)
	if err != nil {
		t.Fatalf("look below %s: %v", s.path, err)
	}
	return sight{data, stat, children}
}

// take completes the term, if each of the two steps was one transaction that wrote the node once and made or deleted
// one node below.
func (s *zookeeperTerm) take(before, taken, after sight) error {
	last := before
	for _, next := range []sight{taken, after} {
		if next.stat.Version != last.stat.Version+1 || next.stat.Cversion != last.stat.Cversion+1 ||
			next.stat.Mzxid != next.stat.Pzxid {
			return fmt.Errorf("it is not one transaction: %+v, then %+v", *last.stat, *next.stat)
		}
		last = next
	}
	if len(taken.children) != 1 || len(after.children) != 0 {
		return errors.New("there is not one node of a term")
	}
	name := []byte(taken.children[0])
	prefix := bytes.LastIndexByte(name, '-') + 1
	s.child, s.digits = string(name[:prefix]), len(name)-prefix
	s.held, s.freed, s.version = taken.data, after.data, after.stat.Version
	if bytes.Count(s.held, []byte(s.token)) != 1 || !bytes.Contains(s.freed, []byte(s.token)) {
		return errors.New("the token is not in the data")
	}
	return nil
}
