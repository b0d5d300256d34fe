package redisleader

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
)

// keptMark ends the Seen of a key that is kept.
const keptMark = " kept"

// decodeHolder reads the reply of lua/holder.lua.
func decodeHolder(reply []any) (backend.Holder, error) {
	if len(reply) != 6 {
		return backend.Holder{}, unexpected(reply)
	}
	var numbers [4]int64 // fence, since, µs left, 1 if kept
	for i := range numbers {
		n, ok := reply[i].(int64)
		if !ok || n < 0 {
			return backend.Holder{}, unexpected(reply)
		}
		numbers[i] = n
	}
	owner, ok := reply[4].(string)
	if !ok {
		return backend.Holder{}, unexpected(reply)
	}
	metadata, ok := reply[5].(string)
	if !ok {
		return backend.Holder{}, unexpected(reply)
	}
	h := backend.Holder{
		Owner:     owner,
		Fence:     uint64(max(numbers[0], 0)),
		Remaining: time.Duration(numbers[2]) * time.Microsecond,
		Kept:      numbers[3] == 1,
		Metadata:  decodeMetadata(metadata),
	}
	if numbers[1] > 0 {
		h.Since = time.UnixMicro(numbers[1])
	}
	h.Seen = seen(h.Fence, h.Kept)
	return h, nil
}

// seen names the state of a record that waiters compare. A renewal leaves it as it is.
func seen(fence uint64, kept bool) string {
	s := strconv.FormatUint(fence, 10)
	if kept {
		s += keptMark
	}
	return s
}

// heldFence is the fence in a Seen, and 0 if that is of a kept key or not ours.
func heldFence(seen string) uint64 {
	fence, err := strconv.ParseUint(seen, 10, 64)
	if err != nil {
		return 0
	}
	return fence
}

// encodeMetadata returns a JSON object, or "" if there is nothing in it.
func encodeMetadata(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "", nil
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return "", fmt.Errorf("encode metadata: %w", err)
	}
	return string(text), nil
}

// decodeMetadata reads a JSON object. One that is damaged reads as none: that somebody holds the key matters more.
func decodeMetadata(text string) map[string]string {
	if !strings.HasPrefix(text, "{") {
		return nil
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		return nil
	}
	return metadata
}
