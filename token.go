package leader

import (
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"sync/atomic"
)

const tokenLength = 26

var (
	tokenEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)
	localTokens   atomic.Uint64
)

// newToken makes the secret that proves ownership: 128 random bits, as 26 characters. The system is asked for each one:
// a generator kept in memory would make the same tokens in two copies of a process, as restored snapshots are, and two
// owners of one token would hold one lease.
func newToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	var text [tokenLength]byte
	tokenEncoding.Encode(text[:], random[:])
	return string(text[:])
}

// newLocalToken makes a token that is unique in this process, which is all that a store in its memory needs: a copy of
// the process has a copy of the store.
func newLocalToken() string {
	text := [tokenLength]byte([]byte("LOCAL000000000000000000000"))
	var digits [20]byte
	n := strconv.AppendUint(digits[:0], localTokens.Add(1), 10)
	copy(text[tokenLength-len(n):], n)
	return string(text[:])
}
