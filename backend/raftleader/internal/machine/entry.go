package machine

import "fmt"

// The tags of the fields of a command in the log.
const (
	tagKind = iota + 1
	tagAt
	tagKey
	tagToken
	tagOwner
	tagTTL
	tagFence
	tagSlots
	tagMetadata
	tagWall
	tagVersion
	tagValue
)

// Encode returns c as an entry of the log.
func (c *Command) Encode() []byte {
	size := 64 + len(c.Key) + len(c.Token) + len(c.Owner) + len(c.Version) + len(c.Value)
	f := append(make(fields, 0, size), format)
	f.number(tagKind, uint64(c.Kind))
	f.time(tagAt, c.At)
	f.text(tagKey, c.Key)
	f.text(tagToken, c.Token)
	f.text(tagOwner, c.Owner)
	f.time(tagTTL, c.TTL)
	f.number(tagFence, c.Fence)
	f.time(tagSlots, int64(c.Slots))
	f.pairs(tagMetadata, c.Metadata)
	f.time(tagWall, c.Wall)
	f.text(tagVersion, c.Version)
	f.text(tagValue, string(c.Value))
	return f
}

// DecodeCommand returns the command of an entry of the log. One of another major format, or of a kind that a later
// release has added, is an error: this release cannot follow that log.
func DecodeCommand(entry []byte) (Command, error) {
	var c Command
	if len(entry) == 0 {
		return c, errBroken
	}
	if entry[0] != format {
		return c, fmt.Errorf("%w: %d", errFormat, entry[0])
	}
	if err := eachField(string(entry[1:]), c.take); err != nil {
		return Command{}, err
	}
	if !c.Kind.known() {
		return Command{}, fmt.Errorf("%w: a command of kind %d", errFormat, c.Kind)
	}
	return c, nil
}

// take takes in a field; unknown ones are those of a later release.
func (c *Command) take(f field) error {
	switch f.tag {
	case tagKind:
		c.Kind = Kind(min(f.number, 255))
	case tagAt:
		c.At = f.time()
	case tagKey:
		c.Key = f.text
	case tagToken:
		c.Token = f.text
	case tagOwner:
		c.Owner = f.text
	case tagTTL:
		c.TTL = f.time()
	case tagFence:
		c.Fence = f.number
	case tagSlots:
		c.Slots = int(f.time())
	case tagMetadata:
		return addPair(&c.Metadata, f.text)
	case tagWall:
		c.Wall = f.time()
	case tagVersion:
		c.Version = f.text
	case tagValue:
		c.Value = data(f.text)
	}
	return nil
}
