package machine

// Kind is what a command does. Its numbers are part of the format of the log.
type Kind uint8

const (
	// Found gives the cluster its identity (Token) and its epoch (Wall). Only the first one counts.
	Found Kind = iota + 1
	// Tick only carries the time.
	Tick
	// Acquire takes Key for Token until At plus TTL, or refreshes it if Token holds it.
	Acquire
	// AcquireSlot does likewise with any of the keys Key#0 to Key#(Slots-1).
	AcquireSlot
	// Renew moves the end of the lease of Token and Fence to at least At plus TTL.
	Renew
	// Release ends the lease of Token and Fence; with a TTL the key stays taken for that long.
	Release
	// Abandon ends the lease of Token if it holds Key, and spends Token if nobody does.
	Abandon
	// Break ends the lease of whoever has Key under Fence.
	Break
	// PutRecord stores Value under Key, for TTL if there is one, if the stored version is Version.
	PutRecord
	// DeleteRecord deletes the record Key if the stored version is Version.
	DeleteRecord
)

// known reports whether this release knows what k does.
func (k Kind) known() bool { return k >= Found && k <= DeleteRecord }

// Command is one entry of the log. Fields that its kind does not name are ignored.
type Command struct {
	Kind     Kind
	At       int64  // when the raft leader proposed it, by the time of the log
	Key      string // of a lease, a group or a record
	Token    string // of the acquisition; for Found, the identity of the cluster
	Owner    string
	TTL      int64 // for Release, how long the key is kept taken
	Fence    uint64
	Slots    int
	Metadata map[string]string // not modified once the command was applied
	Wall     int64             // a wall time, for people to read; for Found, the epoch
	Version  string
	Value    []byte // not modified once the command was applied
}

// Code is how a command was answered.
type Code uint8

const (
	// OK says that it is done, also if nothing was left to do.
	OK Code = iota + 1
	// Held says that another token has the key, or every slot.
	Held
	// Lost says that the lease is over, or the token spent.
	Lost
	// Conflict says that a record has another version, or a lease another fence.
	Conflict
)

// Reply answers a command.
type Reply struct {
	Code    Code
	Fence   uint64 // of the lease that Acquire, AcquireSlot or Renew was about
	Slot    int    // that AcquireSlot got
	Version string // that PutRecord stored
	Holder  Holder // if the code is Held
}

// Holder is who has a key; the zero Holder means that nobody has.
type Holder struct {
	Owner     string
	Fence     uint64
	Since     int64             // the wall time of the acquisition that its command carried
	Remaining int64             // until the end
	Kept      bool              // released, but kept taken
	Index     uint64            // of the log entry of the last change of the holder
	Metadata  map[string]string // shared: not to be modified
}

// Free reports whether nobody has the key.
func (h Holder) Free() bool { return h.Fence == 0 }

// Entry is a key and its holder.
type Entry struct {
	Key string
	Holder
}

// Record is a stored value.
type Record struct {
	Key     string
	Version string
	Value   []byte // shared: not to be modified
	TTL     int64  // what is left; 0 if it has no end
}
