package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/goleader/leader"
)

// errStale says that a later leader has the schedule.
var errStale = errors.New("refused, a later leader has the schedule")

// schedule is what the leaders hand on: node cursor says which tick was the last one to get a job, and under which fence.
// The jobs are below node jobs, where workers find them and delete them when they are done.
type schedule struct {
	conn         *zk.Conn
	root         string
	cursor, jobs string
}

func newSchedule(conn *zk.Conn, name string) schedule {
	root := "/" + name
	return schedule{conn, root, root + "/cursor", root + "/jobs"}
}

// position is the state of the cursor, as it was read or written. A write with an older version is refused.
type position struct {
	tick    time.Time
	version int32
}

// take makes the schedule ours: it writes our fence to the cursor, unless a greater one is there. Whatever a former
// leader then writes has an old version. A new schedule begins after tick start.
func (s schedule) take(held *leader.Lease, start time.Time) (position, error) {
	for {
		data, stat, err := s.conn.Get(s.cursor)
		if errors.Is(err, zk.ErrNoNode) {
			err = s.create(start)
			if err == nil || errors.Is(err, zk.ErrNodeExists) {
				continue
			}
		}
		if err != nil {
			return position{}, err
		}
		tick, fence, err := decode(data)
		if err != nil {
			return position{}, err
		}
		if fence > held.Info().Fence {
			return position{}, fmt.Errorf("fence %d: %w", held.Info().Fence, errStale)
		}
		ours, err := s.conn.Set(s.cursor, encode(tick, held), stat.Version)
		if errors.Is(err, zk.ErrBadVersion) {
			continue // a former leader has just written, for the last time
		}
		if err != nil {
			return position{}, err
		}
		return position{tick, ours.Version}, nil
	}
}

// create makes the nodes of a new schedule, which nobody has yet.
func (s schedule) create(start time.Time) error {
	acl := zk.WorldACL(zk.PermAll)
	for _, path := range []string{s.root, s.jobs} {
		if _, err := s.conn.Create(path, nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err := s.conn.Create(s.cursor, encode(start, nil), 0, acl)
	return err
}

// add makes a job and moves the cursor to its tick, both or neither.
func (s schedule) add(held *leader.Lease, at position, tick time.Time) (position, error) {
	job := s.jobs + "/" + strconv.FormatInt(tick.UnixMilli(), 10)
	answers, err := s.conn.Multi(
		&zk.SetDataRequest{Path: s.cursor, Data: encode(tick, held), Version: at.version},
		&zk.CreateRequest{Path: job, Data: encode(tick, held), Acl: zk.WorldACL(zk.PermAll)})
	if errors.Is(err, zk.ErrBadVersion) {
		return position{}, fmt.Errorf("tick %d: %w", tick.UnixMilli(), errStale)
	}
	if err != nil {
		return position{}, err
	}
	return position{tick, answers[0].Stat.Version}, nil
}

// encode writes a tick, and the fence and the node of the leader that did it.
func encode(tick time.Time, held *leader.Lease) []byte {
	var info leader.LeaseInfo
	if held != nil {
		info = held.Info()
	}
	return fmt.Appendf(nil, "%d %d %s", tick.UnixMilli(), info.Fence, info.Node)
}

func decode(data []byte) (tick time.Time, fence uint64, err error) {
	var ms int64
	if _, err := fmt.Sscan(string(data), &ms, &fence); err != nil {
		return tick, fence, fmt.Errorf("%q: %w", data, err)
	}
	return time.UnixMilli(ms), fence, nil
}
