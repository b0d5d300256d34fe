package testserver

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// myConn speaks as much of the MySQL protocol as these tests need.
type myConn struct{ conn net.Conn }

// dialMariaDB connects as the server's user; ctx's deadline holds for everything done with the connection.
func dialMariaDB(ctx context.Context, addr, password string) (*myConn, error) {
	conn, err := dialWire(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &myConn{conn}
	if err := c.login(password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *myConn) login(password string) error {
	greeting, err := c.receive()
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(greeting[1:], []byte{0})        // the version
	salt := append(bytes.Clone(rest[4:12]), rest[31:43]...) // in two pieces
	// 4.1 protocol, long password, secure connection, database, named plugin; a packet's largest size, utf8mb4.
	answer := "\x09\x82\x08\x00" + "\x00\x00\x00\x01" + "\x2d" + strings.Repeat("\x00", 23) +
		mariaDBUser + "\x00" + "\x14" + nativePassword(password, salt) + mariaDBDatabase + "\x00" +
		"mysql_native_password\x00"
	if err := c.send(1, answer); err != nil {
		return err
	}
	_, err = c.receive()
	return err
}

// nativePassword is SHA1(password) XOR SHA1(salt + SHA1(SHA1(password))).
func nativePassword(password string, salt []byte) string {
	once := sha1.Sum([]byte(password))
	twice := sha1.Sum(once[:])
	mask := sha1.Sum(append(salt, twice[:]...))
	for i, b := range mask {
		once[i] ^= b
	}
	return string(once[:])
}

func (c *myConn) send(sequence byte, body string) error {
	n := len(body)
	_, err := c.conn.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}, body...))
	return err
}

func (c *myConn) receive() ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	if len(body) == 0 || body[0] == 0xff {
		return nil, fmt.Errorf("mariadb: %q", body)
	}
	return body, nil
}

// do runs a statement and returns the one column of its rows, short strings, separated by commas.
func (c *myConn) do(statement string) (string, error) {
	if err := c.send(0, "\x03"+statement); err != nil {
		return "", err
	}
	first, err := c.receive()
	if err != nil || first[0] == 0 { // no rows
		return "", err
	}
	var rows []string
	for ends := 0; ends < 2; { // one after the columns, one after the rows
		packet, err := c.receive()
		if err != nil {
			return "", err
		}
		switch {
		case packet[0] == 0xfe:
			ends++
		case ends == 1:
			rows = append(rows, string(packet[1:])) // its length goes before
		}
	}
	return strings.Join(rows, ","), nil
}
