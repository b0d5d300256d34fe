package machine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The parts of an encoded state. Each is behind its length; the last one is empty.
const (
	partHead = iota + 1
	partLease
	partRecord
)

// maxPart bounds a part, whose length may be damaged.
const maxPart = 1 << 30

// The tags of the fields of the parts.
const (
	headNow = iota + 1
	headApplied
	headEpoch
	headCluster
)

const (
	leaseKey = iota + 1
	leaseToken
	leaseSpent
	leaseOwner
	leaseFence
	leaseSince
	leaseEnd
	leaseIndex
	leaseMetadata
)

const (
	recordKey = iota + 1
	recordVersion
	recordData
	recordEnd
)

// Encode writes s. Equal states are written as equal bytes.
func (s State) Encode(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteByte(format) //nolint:errcheck // Flush returns it
	write := func(part fields) {
		out.Write(binary.AppendUvarint(out.AvailableBuffer(), uint64(len(part)))) //nolint:errcheck // Flush returns it
		out.Write(part)                                                           //nolint:errcheck // Flush returns it
	}
	write(s.head.encode())
	var part fields
	for i := range s.leases {
		part = s.leases[i].encode(part[:0])
		write(part)
	}
	for i := range s.records {
		part = s.records[i].encode(part[:0])
		write(part)
	}
	write(nil)
	return out.Flush()
}

func (h *head) encode() fields {
	f := fields{partHead}
	f.time(headNow, h.now)
	f.number(headApplied, h.applied)
	f.number(headEpoch, h.epoch)
	f.text(headCluster, h.cluster)
	return f
}

func (t *term) encode(f fields) fields {
	f = append(f, partLease)
	f.text(leaseKey, t.key)
	f.text(leaseToken, t.token)
	f.text(leaseSpent, t.spent)
	f.text(leaseOwner, t.owner)
	f.number(leaseFence, t.fence)
	f.time(leaseSince, t.since)
	f.time(leaseEnd, t.end)
	f.number(leaseIndex, t.index)
	f.pairs(leaseMetadata, t.metadata)
	return f
}

func (i *item) encode(f fields) fields {
	f = append(f, partRecord)
	f.text(recordKey, i.key)
	f.text(recordVersion, i.version)
	f.text(recordData, string(i.data))
	f.time(recordEnd, i.end)
	return f
}

// Decode reads a state that [State.Encode] has written, up to its end. One of another major format is an error.
func Decode(r io.Reader) (State, error) {
	in := bufio.NewReader(r)
	var s State
	version, err := in.ReadByte()
	switch {
	case err != nil:
		return s, fmt.Errorf("%w: %w", errBroken, err)
	case version != format:
		return s, fmt.Errorf("%w: %d", errFormat, version)
	}
	for {
		part, err := readPart(in)
		if err != nil {
			return State{}, fmt.Errorf("%w: %w", errBroken, err)
		}
		if part == "" {
			return s, nil
		}
		if err := addPart(&s, part); err != nil {
			return State{}, err
		}
	}
}

// readPart reads a part; what it allocates is bounded by what there is to read.
func readPart(in *bufio.Reader) (string, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return "", err
	}
	if n > maxPart {
		return "", errors.New("a part is too long")
	}
	var part bytes.Buffer
	if _, err := io.CopyN(&part, in, int64(n)); err != nil {
		return "", err
	}
	return part.String(), nil
}

// addPart takes in a part; unknown ones are those of a later release.
func addPart(s *State, part string) error {
	switch kind, body := part[0], part[1:]; kind {
	case partHead:
		return eachField(body, s.head.take)
	case partLease:
		var t term
		err := eachField(body, t.take)
		s.leases = append(s.leases, t)
		return err
	case partRecord:
		var i item
		err := eachField(body, i.take)
		s.records = append(s.records, i)
		return err
	}
	return nil
}

func (h *head) take(f field) error {
	switch f.tag {
	case headNow:
		h.now = f.time()
	case headApplied:
		h.applied = f.number
	case headEpoch:
		h.epoch = f.number
	case headCluster:
		h.cluster = f.text
	}
	return nil
}

func (t *term) take(f field) error {
	switch f.tag {
	case leaseKey:
		t.key = f.text
	case leaseToken:
		t.token = f.text
	case leaseSpent:
		t.spent = f.text
	case leaseOwner:
		t.owner = f.text
	case leaseFence:
		t.fence = f.number
	case leaseSince:
		t.since = f.time()
	case leaseEnd:
		t.end = f.time()
	case leaseIndex:
		t.index = f.number
	case leaseMetadata:
		return addPair(&t.metadata, f.text)
	}
	return nil
}

func (i *item) take(f field) error {
	switch f.tag {
	case recordKey:
		i.key = f.text
	case recordVersion:
		i.version = f.text
	case recordData:
		i.data = data(f.text)
	case recordEnd:
		i.end = f.time()
	}
	return nil
}
