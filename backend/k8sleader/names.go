package k8sleader

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
)

const (
	maxName   = 253 // bytes of the name of an object
	maxPrefix = 100 // bytes of a key that are shown in the name of its object
	hashMark  = ".h-"
	hashBytes = 20
)

var (
	// subdomain is what Kubernetes allows as the name of a Lease.
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// hashed is the end of the names that objectName makes out of other keys.
	hashed = regexp.MustCompile(`\.h-[0-9a-v]{32}$`)
	// unnameable is what cannot be in a label of a subdomain.
	unnameable = regexp.MustCompile(`[^a-z0-9]+`)

	hashEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)
)

// objectName maps a key of the engine to the name of its Lease: a key that is a DNS-1123 subdomain is its own name, any
// other gets one with a hash. No two keys have one name, short of two with one hash of 160 bits.
func objectName(key string) string {
	if len(key) <= maxName && subdomain.MatchString(key) && !hashed.MatchString(key) {
		return key
	}
	return shownName(key) + hashMark + hashOf(key)
}

// recordName is the name of the object of a record. A lease may have the same key.
func recordName(key string) string { return shownName(key) + hashMark + hashOf("record "+key) }

// shownName is what can be shown of a key in a name.
func shownName(key string) string {
	shown := unnameable.ReplaceAllString(strings.ToLower(key), "-")
	shown = strings.Trim(shown[:min(len(shown), maxPrefix)], "-")
	if shown == "" {
		shown = "key"
	}
	return shown
}

// hashOf is fit for names and for the values of labels.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(hashEncoding.EncodeToString(sum[:hashBytes]))
}

// The labels by which Lease objects are found.
const (
	domain = "goleader.github.io/"

	kindLabel  = domain + "kind"
	groupLabel = domain + "group"
	setLabel   = domain + "set"

	leaseKind  = "lease"
	recordKind = "record"
)

// leaseLabels are the labels of the lease of key.
func leaseLabels(key string) map[string]string {
	labels := map[string]string{kindLabel: leaseKind}
	if mark := strings.LastIndexByte(key, '#'); mark >= 0 {
		labels[groupLabel] = hashOf(key[:mark])
	}
	return labels
}
