package history

import "context"

// Sink stores records. A [Recorder] makes one call at a time.
//
// Write stores all of records, or returns an error; which of them are stored then is open. It may be given a record
// again after an error, and gets most runs twice, as Running and as what became of them: a record takes the place of an
// earlier one with its ID. The end of a run may come without its start. ctx ends when the call has taken too long, and
// belongs to no run. The records must not be modified, the slice not be kept.
type Sink interface {
	Write(ctx context.Context, records []Record) error
}
