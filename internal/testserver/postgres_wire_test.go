package testserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// pgConn speaks as much of the PostgreSQL protocol as these tests need.
type pgConn struct{ conn net.Conn }

// dialPostgres connects as the server's user; ctx's deadline holds for everything done with the connection.
func dialPostgres(ctx context.Context, addr, password string) (*pgConn, error) {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &pgConn{conn}
	if err := c.login(password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *pgConn) login(password string) error {
	startup := "user\x00" + postgresUser + "\x00database\x00postgres\x00\x00"
	length := binary.BigEndian.AppendUint32(nil, uint32(8+len(startup)))
	if _, err := io.WriteString(c.conn, string(length)+"\x00\x03\x00\x00"+startup); err != nil {
		return err
	}
	const clientFirst = "n=,r=nonce"
	if _, err := c.receive(); err != nil { // the list of mechanisms
		return err
	}
	first := binary.BigEndian.AppendUint32([]byte("SCRAM-SHA-256\x00"), uint32(len("n,,"+clientFirst)))
	if err := c.send('p', string(first)+"n,,"+clientFirst); err != nil {
		return err
	}
	challenge, err := c.receive()
	if err != nil {
		return err
	}
	proof, err := scramProof(password, clientFirst, challenge[4:])
	if err != nil {
		return err
	}
	if err := c.send('p', proof); err != nil {
		return err
	}
	_, err = c.untilReady()
	return err
}

// scramProof answers a server's challenge as RFC 5802 says.
func scramProof(password, clientFirst, serverFirst string) (string, error) {
	fields := map[byte]string{}
	for field := range strings.SplitSeq(serverFirst, ",") {
		fields[field[0]] = field[2:]
	}
	salt, err := base64.StdEncoding.DecodeString(fields['s'])
	if err != nil {
		return "", err
	}
	rounds, err := strconv.Atoi(fields['i'])
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, text)
		return h.Sum(nil)
	}
	key := mac(salted, "Client Key")
	stored := sha256.Sum256(key)
	final := "c=biws,r=" + fields['r']
	for i, b := range mac(stored[:], clientFirst+","+serverFirst+","+final) {
		key[i] ^= b
	}
	return final + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (c *pgConn) send(kind byte, body string) error {
	message := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	_, err := c.conn.Write(append(message, body...))
	return err
}

// receive returns the body of the next message, its kind in front unless it is one of the authentication.
func (c *pgConn) receive() (string, error) {
	var header [5]byte
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return "", err
	}
	switch header[0] {
	case 'E':
		return "", fmt.Errorf("postgres: %q", body)
	case 'R':
		return string(body), nil
	}
	return string(header[:1]) + string(body), nil
}

// untilReady returns the values of the rows that come before the server is ready for the next statement.
func (c *pgConn) untilReady() ([]string, error) {
	var rows []string
	for {
		message, err := c.receive()
		switch {
		case err != nil:
			return rows, err
		case strings.HasPrefix(message, "Z"):
			return rows, nil
		case strings.HasPrefix(message, "D"):
			rows = append(rows, message[1+2+4:]) // one column: its count and its length go before
		}
	}
}

// do runs a statement and returns the one column of its rows, separated by commas.
func (c *pgConn) do(statement string) (string, error) {
	if err := c.send('Q', statement+"\x00"); err != nil {
		return "", err
	}
	rows, err := c.untilReady()
	return strings.Join(rows, ","), err
}

func TestPostgresStartup_HasItsLength(t *testing.T) {
	t.Parallel()
	if got := binary.BigEndian.Uint32([]byte(postgresStartup)); int(got) != len(postgresStartup) {
		t.Errorf("%d bytes say that they are %d", len(postgresStartup), got)
	}
	if !bytes.HasPrefix([]byte(postgresSSLRequest), []byte{0, 0, 0, byte(len(postgresSSLRequest))}) {
		t.Error("the other request does not")
	}
}
