package zkleader

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// link is a connection of the client that knows when it last heard of the server, and that tells the client at its
// end that all watches have fired.
//
// The client would set them again on the next connection, from the last zxid that it reads while answers there may
// already move it: a data race, by which a watch could miss what it is for. Without watches it does nothing of the
// kind, and whoever waits looks again.
type link struct {
	net.Conn

	greet   time.Duration   // how long the server's first answer may take
	granted *atomic.Int64   // gets the session timeout that the server grants, in ms
	watched func() []string // the paths that are watched

	heard atomic.Int64 // when something was read last, in ns since began
	began time.Time

	// What follows belongs to the goroutine that reads.
	greeted bool
	frame   frame
	left    []byte // of the packets that are added at the end
	end     error  // what comes after them
}

// Read notes that the server lives.
func (l *link) Read(p []byte) (int, error) {
	if l.end != nil {
		n := copy(p, l.left)
		l.left = l.left[n:]
		if n == 0 {
			return 0, l.end
		}
		return n, nil
	}
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.began)))
		l.frame.add(p[:n])
	}
	if l.frame.packets == 1 && l.frame.between() {
		l.granted.Store(int64(binary.BigEndian.Uint32(l.frame.first[4:])))
	}
	if err == nil || n > 0 || l.frame.packets == 0 || !l.frame.between() {
		return n, err
	}
	l.end, l.left = err, farewell(l.watched())
	return l.Read(p)
}

// SetReadDeadline shortens the time for the first answer, for which the client would wait for several session timeouts,
// though another server may answer.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted && !t.IsZero() {
		l.greeted = true
		if limit := time.Now().Add(l.greet); limit.Before(t) {
			t = limit
		}
	}
	return l.Conn.SetReadDeadline(t)
}

// silentSince reports whether nothing was read since an instant.
func (l *link) silentSince(at time.Time) bool {
	return l.heard.Load() <= int64(at.Sub(l.began))
}

// frame follows the packets of a stream, each of which begins with its length.
type frame struct {
	packets int
	length  [4]byte
	have    int     // bytes of the length
	body    int     // bytes of the body that are to come
	first   [8]byte // the beginning of the first body: version, session timeout
}

// between reports whether the stream is where a packet ends and another one begins.
func (f *frame) between() bool { return f.have == 0 && f.body == 0 }

func (f *frame) add(p []byte) {
	for len(p) > 0 {
		if f.body == 0 {
			n := copy(f.length[f.have:], p)
			f.have += n
			p = p[n:]
			if f.have < len(f.length) {
				return
			}
			f.have, f.body = 0, int(binary.BigEndian.Uint32(f.length[:]))
			f.packets++
			continue
		}
		n := min(f.body, len(p))
		if at := int(binary.BigEndian.Uint32(f.length[:])) - f.body; f.packets == 1 && at < len(f.first) {
			copy(f.first[at:], p[:n])
		}
		f.body -= n
		p = p[n:]
	}
}

// farewell are events as a server sends them, one for each path: that the node was deleted, which ends every watch.
func farewell(paths []string) []byte {
	const (
		event   = 0xffff_ffff // -1, instead of the number of a request
		deleted = 2
		synced  = 3
	)
	var packets []byte
	for _, path := range paths {
		body := binary.BigEndian.AppendUint32(nil, event)
		body = append(body, make([]byte, 12)...) // zxid, error
		body = binary.BigEndian.AppendUint32(body, deleted)
		body = binary.BigEndian.AppendUint32(body, synced)
		body = binary.BigEndian.AppendUint32(body, uint32(len(path))) //nolint:gosec // A path is short.
		body = append(body, path...)
		packets = binary.BigEndian.AppendUint32(packets, uint32(len(body))) //nolint:gosec // So is this.
		packets = append(packets, body...)
	}
	return packets
}
