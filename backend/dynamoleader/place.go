package dynamoleader

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	leasePart  = "lease"
	recordPart = "record"

	// longest is the most bytes of a part as it is. DynamoDB allows 1,024 in a sort key.
	longest = 900
)

// place is the primary key of an item: the leases of a name, its slots and its records share the partition. So one query
// finds all slots of a group, or all records of a set.
type place struct {
	name string // the key up to the first # or !
	part string // the rest, after what kind of item it is; of a longer one the beginning and a hash
}

// leasePlace is where the lease of a key is.
func leasePlace(key string) place { return placeOf(leasePart, key) }

// recordPlace is where the record of a key is.
func recordPlace(key string) place { return placeOf(recordPart, key) }

func placeOf(kind, key string) place {
	name, rest := split(key)
	part := kind + rest
	if len(part) > longest {
		hash := sha256.Sum256([]byte(part))
		// Longer than any part that is as it was, so that the two never meet.
		part = beginning(part) + "~" + hex.EncodeToString(hash[:])
	}
	return place{name, part}
}

// split cuts a key where its name ends. The engine escapes both signs in names, and there is no empty name.
func split(key string) (name, rest string) {
	if key == "" {
		return "", ""
	}
	i := strings.IndexAny(key[1:], "#!")
	if i < 0 {
		return key, ""
	}
	return key[:i+1], key[i+1:]
}

// beginning is as much of a part as it shows whatever its length.
func beginning(part string) string {
	if len(part) <= longest {
		return part
	}
	end := longest
	for !utf8.RuneStart(part[end]) {
		end--
	}
	return part[:end]
}

// key is the primary key as a request has it.
func (p place) key() values {
	return values{attrName: text(p.name), attrPart: text(p.part)}
}

// String shows the place in errors.
func (p place) String() string { return p.name + " " + p.part }

// values are attributes, or parameters of a statement.
type values = map[string]types.AttributeValue
