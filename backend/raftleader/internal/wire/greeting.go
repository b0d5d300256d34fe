package wire

import (
	"errors"
	"fmt"
	"io"
)

// Kind is what a stream is for. It is the stream's first byte.
type Kind byte

const (
	// Raft streams are those of the raft library.
	Raft Kind = 'R'
	// Calls are for one certain server, as are raft streams.
	Calls Kind = 'C'
	// Hellos are for whoever listens, and ask no more than who that is.
	Hellos Kind = 'H'
)

// version is that of the greeting and of the calls behind it. A node refuses another one.
const version = 1

// The answers to a greeting.
const (
	accepted byte = iota
	otherServer
	otherVersion
	otherKind
)

var (
	// ErrOtherServer says that an address has another server than the one that was asked for.
	ErrOtherServer = errors.New("another server has this address now")
	errVersion     = errors.New("the node is of a release with another protocol")
	errKind        = errors.New("the node does not know this kind of stream")
)

// maxID bounds the id of a server.
const maxID = 64

// greeting opens a stream: kind, version, and the length and bytes of the id of the server that is meant.
type greeting struct {
	kind    Kind
	version byte
	server  string
}

func (g greeting) write(w io.Writer) error {
	head := []byte{byte(g.kind), g.version, byte(len(g.server))} //nolint:gosec // below maxID
	_, err := w.Write(append(head, g.server...))
	return err
}

func readGreeting(r io.Reader) (greeting, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return greeting{}, err
	}
	g := greeting{kind: Kind(head[0]), version: head[1]}
	if head[2] > maxID {
		return g, fmt.Errorf("an id of %d bytes", head[2])
	}
	id := make([]byte, head[2])
	_, err := io.ReadFull(r, id)
	g.server = string(id)
	return g, err
}

// judge says whether the server with the given id accepts the stream.
func (g greeting) judge(id string) byte {
	switch {
	case g.version != version:
		return otherVersion
	case g.kind != Raft && g.kind != Calls && g.kind != Hellos:
		return otherKind
	case g.kind != Hellos && g.server != id:
		return otherServer
	}
	return accepted
}

// readVerdict reads the answer to a greeting.
func readVerdict(r io.Reader) error {
	var answer [1]byte
	if _, err := io.ReadFull(r, answer[:]); err != nil {
		return err
	}
	switch answer[0] {
	case accepted:
		return nil
	case otherServer:
		return ErrOtherServer
	case otherVersion:
		return errVersion
	}
	return errKind
}
