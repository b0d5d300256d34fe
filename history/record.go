package history

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Status says how far a run is, or how it ended.
type Status uint8

// The statuses of a run.
const (
	Running   Status = iota + 1 // it has its lease, and its action has not returned
	Succeeded                   // the action returned nil
	Failed                      // the action returned an error, or did not return: leader.ErrNoReturn
	Lost                        // the lease was over before the action returned, whatever it returned
	Canceled                    // the caller's context ended it, or its wait for the lease
	Skipped                     // the action did not run, for the record's Reason
	NotRun                      // the action did not run, because of the record's Error
)

var statuses = [...]string{
	Running: "Running", Succeeded: "Succeeded", Failed: "Failed", Lost: "Lost", Canceled: "Canceled", Skipped: "Skipped",
	NotRun: "NotRun",
}

// String returns the status's name.
func (s Status) String() string {
	if int(s) < len(statuses) && s > 0 {
		return statuses[s]
	}
	return "None"
}

// statusOf is the status of that name, 0 if there is none.
func statusOf(name string) Status {
	for s, text := range statuses {
		if text == name && s > 0 {
			return Status(s)
		}
	}
	return 0
}

// The longest texts of a record, in bytes.
const (
	maxText  = 255   // names, node ids, types
	maxKey   = 1_600 // as package backend has it
	maxError = 512

	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 256
)

// Record is what is known of a run. Instants are of the local clock, the zero time one that has not come.
//
// Texts are UTF-8. In place of control characters, of the separators U+2028 and U+2029, and of what is not UTF-8 they have
// a question mark. Error and Lost have at most 512 bytes, Key 1,600, the others 255; what is longer is cut.
type Record struct {
	ID        string // of the run, unique everywhere
	Name      string // of the leadership
	Node      string // that ran, or tried to
	Key       string // of the lease, in the store; empty without a lease
	Slot      int    // 0 outside groups
	Fence     uint64 // 0 without a lease
	Status    Status
	Started   time.Time     // of the call or term
	Acquired  time.Time     // of the lease
	Finished  time.Time     // zero while Running
	Waited    time.Duration // from the call until the lease was acquired or given up
	Held      time.Duration // how long the lease was held
	Attempts  int           // requests for the lease
	Unguarded bool          // the action ran without a lease, see leader.FailOpenRun
	Reason    string        // why it was skipped, as leader.SkipReason has it
	Holder    string        // the node that led when it was skipped, as far as known
	Error     string        // what the action returned, or why it was not run
	ErrorType string        // the Go type of the error, or of what it wraps if that only wraps
	Lost      string        // why the lease was over before the action returned
	// Metadata are those of the recorder's options. All of its records share one map, which must not be modified.
	Metadata map[string]string
}

// String is a short text for people.
func (r Record) String() string {
	parts := []string{fmt.Sprintf("%q on %q", r.Name, r.Node), r.Status.String(), r.Reason, r.Lost, r.Error}
	if r.Fence != 0 {
		parts[1] += fmt.Sprintf(" (fence %d)", r.Fence)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// LogValue groups what is set of the record.
func (r Record) LogValue() slog.Value { return slog.GroupValue(r.attrs()...) }

// attrs are what is set of the record; keys that package leader logs as well are named as it names them.
func (r Record) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("leader.name", r.Name),
		slog.String("status", r.Status.String()),
		slog.String("run", r.ID),
		slog.Time("started", r.Started))
	attrs = appendText(attrs, "leader.node", r.Node)
	if r.Fence != 0 {
		attrs = append(attrs, slog.Uint64("leader.fence", r.Fence), slog.Int("slot", r.Slot), slog.Duration("held", r.Held))
	}
	if !r.Finished.IsZero() {
		attrs = append(attrs, slog.Duration("waited", r.Waited), slog.Int("attempts", r.Attempts))
	}
	if r.Unguarded {
		attrs = append(attrs, slog.Bool("unguarded", true))
	}
	attrs = appendText(attrs, "reason", r.Reason)
	attrs = appendText(attrs, "holder", r.Holder)
	attrs = appendText(attrs, "lost", r.Lost)
	return appendText(attrs, "err", r.Error)
}

func appendText(attrs []slog.Attr, key, text string) []slog.Attr {
	if text == "" {
		return attrs
	}
	return append(attrs, slog.String(key, text))
}
