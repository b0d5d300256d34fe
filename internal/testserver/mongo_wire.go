package testserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// pingMongo looks whether the server at addr answers a command of the MongoDB protocol.
func pingMongo(ctx context.Context, addr string) error {
	ping := bsonDocument("\x10ping\x00\x01\x00\x00\x00" + "\x02$db\x00" + bsonString("admin"))
	answer, err := askMongo(ctx, addr, ping)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, "\x01ok\x00\x00\x00\x00\x00\x00\x00\xf0\x3f") { // 1 as a double
		return errors.New("the server does not answer a ping with ok")
	}
	return nil
}

// askMongo sends a command, a document that names its database, and returns the document that answers it.
func askMongo(ctx context.Context, addr, command string) (string, error) {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, mongoMessage(command)); err != nil {
		return "", err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n < mongoHeader || n > maxMongoAnswer {
		return "", errors.New("the server does not speak the MongoDB protocol")
	}
	answer := make([]byte, n-uint32(len(length)))
	_, err = io.ReadFull(conn, answer)
	return string(answer[mongoHeader-len(length):]), err
}

const (
	mongoHeader    = 21      // the bytes of a message before its document
	maxMongoAnswer = 1 << 20 // bytes, more is no answer to what is asked here
)

// mongoMessage is an OP_MSG: length, id, id of the request, operation, flags, kind 0, and the document.
func mongoMessage(document string) string {
	const idAndOperation = "\x01\x00\x00\x00" + "\x00\x00\x00\x00" + "\xdd\x07\x00\x00" + "\x00\x00\x00\x00" + "\x00"
	return littleEndian(mongoHeader+len(document)) + idAndOperation + document
}

func bsonDocument(elements string) string { return littleEndian(4+len(elements)+1) + elements + "\x00" }

func bsonString(s string) string { return littleEndian(len(s)+1) + s + "\x00" }

func littleEndian(n int) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) //nolint:gosec // A length of a few bytes.
}
