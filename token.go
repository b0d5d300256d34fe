package leader

import (
	"crypto/rand"
	"encoding/base32"
)

var tokenEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// newToken makes the secret that proves ownership: 128 random bits, as 26 characters. The system is asked for each one:
// a generator kept in memory would make the same tokens in two copies of a process, as restored snapshots are, and two
// owners of one token would hold one lease.
func newToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	var text [26]byte
	tokenEncoding.Encode(text[:], random[:])
	return string(text[:])
}
