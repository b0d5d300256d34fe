package testserver

import (
	"context"
	"io"
)

// What a client of PostgreSQL says first: its length, and a code or the version of the protocol.
const (
	// postgresSSLRequest is answered by S or N, also by a server that lets this client in no further.
	postgresSSLRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
	// postgresStartup is answered by the message R, which asks for the password, once the server is up.
	postgresStartup = "\x00\x00\x00\x15\x00\x03\x00\x00user\x00" + postgresUser + "\x00\x00"
)

// askPostgres returns the first byte of the answer.
func askPostgres(ctx context.Context, addr, message string) (byte, error) {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, message); err != nil {
		return 0, err
	}
	var answer [1]byte
	_, err = io.ReadFull(conn, answer[:])
	return answer[0], err
}
