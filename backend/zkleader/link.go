package zkleader

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// longestPacket bounds what a server may send at once, which is the names of very many nodes.
const longestPacket = 64 << 20

// link is a connection of the client that knows when it last heard of the server, and that tells the client at its
// end that all watches have fired.
//
// The client would set them again on the next connection, from the last zxid that it reads while answers there may
// already move it: a data race, by which a watch could miss what it is for. Without watches it does nothing of the
// kind, and whoever waits looks again. So that there is always room for this between two packets, the client gets
// whole ones.
type link struct {
	net.Conn

	greet   time.Duration   // how long the server's first answer may take
	late    func()          // called if it has taken longer
	granted *atomic.Int64   // gets the session timeout that the server grants, in ms
	watched func() []string // the paths that are watched

	heard atomic.Int64 // when something was read last, in ns since began
	began time.Time

	// What follows belongs to the goroutine that reads.
	from    *bufio.Reader
	limited bool   // the time for the first answer is
	greeted bool   // it has come
	packet  []byte // the newest, or those that are added at the end
	left    []byte // what the client has not read of it
	end     error  // what comes after it
}

func newLink(conn net.Conn) *link {
	l := &link{Conn: conn, began: time.Now()}
	l.from = bufio.NewReader(hearing{l})
	return l
}

// hearing notes that the server lives.
type hearing struct{ *link }

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.heard.Store(int64(time.Since(h.began)))
	}
	return n, err
}

// Read gives what there is of a packet that has come as a whole.
func (l *link) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		if l.end != nil {
			return 0, l.end
		}
		if l.end = l.receive(); l.end != nil {
			l.packet = l.farewell()
		}
		l.left = l.packet
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// receive reads a packet, which begins with its length. The first one has the session timeout.
func (l *link) receive() error {
	l.packet = append(l.packet[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(l.from, l.packet); err != nil {
		return l.failed(err)
	}
	n := binary.BigEndian.Uint32(l.packet)
	if n > longestPacket {
		return errNotZooKeeper
	}
	const head = 4
	if need := head + int(n); need > cap(l.packet) {
		l.packet = append(make([]byte, 0, need), l.packet...)
	}
	l.packet = l.packet[:head+int(n)]
	if _, err := io.ReadFull(l.from, l.packet[head:]); err != nil {
		return l.failed(err)
	}
	const timeoutAt = head + 4 // after the version
	if !l.greeted && len(l.packet) >= timeoutAt+4 {
		l.granted.Store(int64(binary.BigEndian.Uint32(l.packet[timeoutAt:])))
	}
	l.greeted = true
	return nil
}

// errNotZooKeeper says that a server speaks another protocol.
var errNotZooKeeper = errors.New("the server does not speak the protocol of ZooKeeper")

// failed notes a first answer that has not come in time.
func (l *link) failed(err error) error {
	if !l.greeted && errors.Is(err, os.ErrDeadlineExceeded) {
		l.late()
	}
	return err
}

// Write closes the connection when it fails, of which Read then tells. The client would take the failure for the answer
// to a request that it goes on waiting for, and answer it again at the end of the connection; one that repeats the
// credentials has room for one answer, so that the client would wait for ever.
func (l *link) Write(p []byte) (int, error) {
	if _, err := l.Conn.Write(p); err != nil {
		_ = l.Close() // That is all there is to do about it.
	}
	return len(p), nil
}

// SetReadDeadline shortens the time for the first answer, for which the client would wait for several session timeouts,
// though another server may answer.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.limited && !t.IsZero() {
		l.limited = true
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

// farewell are events as a server sends them, one for each path: that the node was deleted, which ends every watch.
// There are none before the server's first answer.
func (l *link) farewell() []byte {
	if !l.greeted {
		return nil
	}
	const (
		event   = 0xffff_ffff // -1, instead of the number of a request
		deleted = 2
		synced  = 3
	)
	var packets []byte
	for _, path := range l.watched() {
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
