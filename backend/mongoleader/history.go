package mongoleader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goleader/leader/history"
)

// DefaultHistory is the name of a history's collection where none is given.
const DefaultHistory = "leader_history"

// HistoryOptions configure a [History]. The zero value means the defaults.
type HistoryOptions struct {
	// Collection is the collection's name, [DefaultHistory] if empty. It follows the rules of Options.Collection.
	Collection string
}

// History is a [history.Sink] on a collection, with one document for each run. All methods may be called concurrently;
// several processes may share a collection. Use [NewHistory]: the zero value is not ready.
//
// Instants are in microseconds since 1970, 0 for one that has not come, and durations in microseconds. Field written says
// when the document was, by the clock of who wrote it; it is what newest and oldest mean here. Concerns and
// preferences are those of the database. The errors are the driver's, wrapped.
type History struct{ runs *mongo.Collection }

var _ history.Sink = (*History)(nil)

// NewHistory returns a sink on a collection of db, which stays the caller's. It does no I/O; the error says what is wrong
// with the arguments. opts may be nil.
func NewHistory(db *mongo.Database, opts *HistoryOptions) (*History, error) {
	if opts == nil {
		opts = &HistoryOptions{}
	}
	name := cmp.Or(opts.Collection, DefaultHistory)
	if err := check(db, name); err != nil {
		return nil, fmt.Errorf("mongoleader: history: %w", err)
	}
	own := options.Collection().SetRegistry(bson.NewRegistry()).SetBSONOptions(&options.BSONOptions{})
	return &History{db.Collection(name, own)}, nil
}

// run is the document of a [history.Record].
type run struct {
	ID        string `bson:"_id"`
	Name      string `bson:"name"`
	Node      string `bson:"node"`
	Key       string `bson:"key"`
	Slot      int    `bson:"slot"`
	Fence     int64  `bson:"fence"`
	Status    string `bson:"status"`
	Started   int64  `bson:"started"`
	Acquired  int64  `bson:"acquired"`
	Finished  int64  `bson:"finished"`
	Waited    int64  `bson:"waited"`
	Held      int64  `bson:"held"`
	Attempts  int    `bson:"attempts"`
	Unguarded bool   `bson:"unguarded"`
	Reason    string `bson:"reason"`
	Holder    string `bson:"holder"`
	Error     string `bson:"error"`
	ErrorType string `bson:"errorType"`
	Lost      string `bson:"lost"`
	Metadata  string `bson:"metadata"` // JSON
	Written   int64  `bson:"written"`
}

// Migrate creates the indexes that Recent and Prune use, and with them the collection, if they do not exist. Documents of
// an older version, which do not say when they were written, get the instant of the last that happened to the run.
func (h *History) Migrate(ctx context.Context) error {
	_, err := h.runs.Indexes().CreateMany(ctx, []mongo.IndexModel{
		{Keys: doc("written", -1, "_id", -1)},
		{Keys: doc("name", 1, "written", -1, "_id", -1)},
		{Keys: doc("status", 1, "written", -1, "_id", -1)},
	})
	if err != nil {
		return fmt.Errorf("mongoleader: history: create indexes: %w", classify(ctx, err))
	}
	if err := h.completeAll(ctx); err != nil {
		return fmt.Errorf("mongoleader: history: complete older documents: %w", classify(ctx, err))
	}
	return nil
}

// completeAll lets each document say when it was written, in chunks.
func (h *History) completeAll(ctx context.Context) error {
	incomplete := doc("written", nil)
	for {
		var old []run
		cursor, err := h.runs.Find(ctx, incomplete, options.Find().SetLimit(chunk))
		if err == nil {
			err = cursor.All(ctx, &old)
		}
		if err != nil || len(old) == 0 {
			return err
		}
		models := make([]mongo.WriteModel, len(old))
		for i := range old {
			r := &old[i]
			last := doc("$set", doc("written", max(r.Started, r.Acquired, r.Finished)))
			models[i] = mongo.NewUpdateOneModel().SetFilter(doc("_id", r.ID, "written", nil)).SetUpdate(last)
		}
		if _, err := h.runs.BulkWrite(ctx, models); err != nil {
			return err
		}
	}
}

// Write implements [history.Sink]: the records are written in one request.
func (h *History) Write(ctx context.Context, records []history.Record) error {
	if len(records) == 0 {
		return nil
	}
	models := make([]mongo.WriteModel, len(records))
	now := time.Now().UnixMicro()
	for i := range records {
		r, err := runOf(&records[i])
		if err != nil {
			return err
		}
		r.Written = now + int64(i) // apart, so that their order is kept
		models[i] = mongo.NewReplaceOneModel().SetFilter(doc("_id", r.ID)).SetReplacement(r).SetUpsert(true)
	}
	if _, err := h.runs.BulkWrite(ctx, models); err != nil {
		return fmt.Errorf("mongoleader: history: write: %w", classify(ctx, err))
	}
	return nil
}

// Recent returns the last records of a name, or of all if it is empty; at most limit of them, newest first: those whose
// start or end was written last. Instants and durations are in whole microseconds. ctx governs the query.
func (h *History) Recent(ctx context.Context, name string, limit int) ([]history.Record, error) {
	if name == "" {
		return h.find(ctx, bson.D{}, limit)
	}
	return h.find(ctx, doc("name", name), limit)
}

// RecentOf is [History.Recent] for the runs of all names that have a status.
func (h *History) RecentOf(ctx context.Context, status history.Status, limit int) ([]history.Record, error) {
	return h.find(ctx, doc("status", status.String()), limit)
}

func (h *History) find(ctx context.Context, filter bson.D, limit int) ([]history.Record, error) {
	if limit <= 0 {
		return nil, nil // MongoDB takes 0 for no limit
	}
	newestFirst := options.Find().SetSort(doc("written", -1, "_id", -1)).SetLimit(int64(limit))
	cursor, err := h.runs.Find(ctx, filter, newestFirst)
	if err != nil {
		return nil, fmt.Errorf("mongoleader: history: query: %w", classify(ctx, err))
	}
	var runs []run
	if err := cursor.All(ctx, &runs); err != nil {
		return nil, fmt.Errorf("mongoleader: history: query: %w", classify(ctx, err))
	}
	list := make([]history.Record, len(runs))
	var errs []error
	for i := range runs {
		list[i], err = runs[i].record()
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("mongoleader: history: query: %w", err)
	}
	return list, nil
}

func runOf(r *history.Record) (*run, error) {
	metadata, err := encodeMetadata(r.Metadata)
	if err != nil {
		return nil, fmt.Errorf("mongoleader: history: %w", err)
	}
	return &run{
		ID: r.ID, Name: r.Name, Node: r.Node, Key: r.Key, Slot: r.Slot,
		Fence: int64(r.Fence), Status: r.Status.String(), //nolint:gosec // goes back the same way
		Started: micros(r.Started), Acquired: micros(r.Acquired), Finished: micros(r.Finished),
		Waited: r.Waited.Microseconds(), Held: r.Held.Microseconds(), Attempts: r.Attempts, Unguarded: r.Unguarded,
		Reason: r.Reason, Holder: r.Holder, Error: r.Error, ErrorType: r.ErrorType, Lost: r.Lost, Metadata: metadata,
	}, nil
}

func (r *run) record() (history.Record, error) {
	var metadata map[string]string
	if r.Metadata != "" {
		if err := json.Unmarshal([]byte(r.Metadata), &metadata); err != nil {
			return history.Record{}, fmt.Errorf("metadata of %q: %w", r.ID, err)
		}
	}
	return history.Record{
		ID: r.ID, Name: r.Name, Node: r.Node, Key: r.Key, Slot: r.Slot,
		Fence: uint64(r.Fence), Status: statusOf(r.Status), //nolint:gosec // as it came
		Started: instant(r.Started), Acquired: instant(r.Acquired), Finished: instant(r.Finished),
		Waited: time.Duration(r.Waited) * time.Microsecond, Held: time.Duration(r.Held) * time.Microsecond,
		Attempts: r.Attempts, Unguarded: r.Unguarded, Reason: r.Reason, Holder: r.Holder,
		Error: r.Error, ErrorType: r.ErrorType, Lost: r.Lost, Metadata: metadata,
	}, nil
}

// statusOf is the status of that name, 0 if there is none.
func statusOf(name string) history.Status {
	for s := history.Running; s <= history.NotRun; s++ {
		if s.String() == name {
			return s
		}
	}
	return 0
}

// micros is t in µs since 1970, and 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is what micros made of a time.
func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
