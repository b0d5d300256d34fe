package k8sleader

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// term is one holding of a Lease.
type term struct {
	name     string // of the object
	token    string
	fence    uint64
	identity string // holderIdentity
}

// holds reports whether the term has the Lease.
func (t term) holds(s *state) bool {
	return s.tenure == held && s.token == t.token && s.fence == t.fence
}

// operation is one of a JSON Patch. The patch as a whole fails, and changes nothing, if one of its tests does.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// operations is a JSON Patch.
type operations []operation

func (o operations) test(path string, value any) operations {
	return append(o, operation{"test", path, value})
}

// set needs no value before.
func (o operations) set(path string, value any) operations {
	return append(o, operation{"add", path, value})
}

// remove needs a value before.
func (o operations) remove(path string) operations {
	return append(o, operation{Op: "remove", Path: path})
}

func (o operations) encode() ([]byte, error) { return json.Marshal(o) }

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func noted(annotation string) string {
	return "/metadata/annotations/" + pointerEscaper.Replace(annotation)
}

const (
	identityPath = "/spec/holderIdentity"
	renewedPath  = "/spec/renewTime"
	secondsPath  = "/spec/leaseDurationSeconds"
)

// testTerm is true while the term has the Lease. Whoever takes it writes another identity or another token.
func testTerm(t term) operations {
	return operations{}.
		test(noted(formatKey), format).
		test(noted(tokenKey), t.token).
		test(noted(fenceKey), strconv.FormatUint(t.fence, 10)).
		test(identityPath, t.identity)
}

// last is how long something lasts from now. Client-go, which compares times in whole seconds, counts from the first
// stamp that it saw in a second, so the later ones show one second more.
func (o operations) last(d time.Duration, old string) operations {
	stamp := newStamp(old)
	shown := seconds(d)
	if wholeSecond(stamp) == wholeSecond(old) {
		shown++
	}
	return o.
		set(noted(renewedKey), stamp).
		set(renewedPath, stamp).
		set(noted(ttlKey), d.String()).
		set(secondsPath, shown)
}

func wholeSecond(stamp string) string {
	second, _, _ := strings.Cut(stamp, ".")
	return second
}

// renewal moves the end to ttl from now, unless another renewal has come between.
func renewal(t term, old string, ttl time.Duration) operations {
	return testTerm(t).test(renewedPath, old).last(ttl, old)
}

// ending frees the Lease, or keeps it for a time if its renewTime is still the old one.
func ending(t term, old string, keep time.Duration) operations {
	o := testTerm(t).remove(noted(tokenKey)).set(noted(spentKey), t.token)
	if keep <= 0 {
		return o.remove(identityPath)
	}
	return o.test(renewedPath, old).set(noted(keptKey), "true").last(keep, old)
}

// keeping changes for how long a Lease is kept that the term has released.
func keeping(t term, old string, keep time.Duration) operations {
	o := operations{}.
		test(noted(formatKey), format).
		test(noted(keptKey), "true").
		test(noted(spentKey), t.token).
		test(identityPath, t.identity).
		test(renewedPath, old)
	if keep <= 0 {
		return o.remove(identityPath)
	}
	return o.last(keep, old)
}

// newStamp is a renewTime that differs from the last one. It is this process's time, which nobody compares.
func newStamp(last string) string {
	now := metav1.NowMicro()
	if text := timeText(&now); text != last {
		return text
	}
	later := metav1.NewMicroTime(now.Add(time.Microsecond))
	return timeText(&later)
}
