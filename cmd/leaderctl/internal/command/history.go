package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/internal/key"
)

// past is a run that was recorded.
type past struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Node      string            `json:"node,omitempty"`
	Slot      int               `json:"slot"`
	Fence     uint64            `json:"fence,omitempty"`
	Status    string            `json:"status"`
	Started   *time.Time        `json:"started,omitempty"`
	Acquired  *time.Time        `json:"acquired,omitempty"`
	Finished  *time.Time        `json:"finished,omitempty"`
	Waited    float64           `json:"waited_seconds"`
	Held      float64           `json:"held_seconds"`
	Attempts  int               `json:"attempts"`
	Reason    string            `json:"reason,omitempty"`
	Holder    string            `json:"holder,omitempty"`
	Error     string            `json:"error,omitempty"`
	Lost      string            `json:"lost,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// mostRead is how many records are read at most to find those of a namespace, which the history cannot be asked for.
const mostRead = 100_000

const historyHelp = `Print the last runs of a name, or of all, newest first.

The history is in the store itself if that is an SQL database or MongoDB, else in the one that --history names.

Runs of other namespaces are left out, and so is what is older than the last 100,000 runs of all namespaces. A run that
got no lease, because it was skipped or failed before, has no namespace on record: it is shown with each of them.`

func (t *tool) historyCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:               "history [NAME]",
		Short:             "Print the last runs of a name, or of all, newest first",
		Long:              historyHelp,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 {
				return usage(errors.New("--limit must be at least 1"))
			}
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			list, err := t.recent(ctx, s, append(args, "")[0], limit)
			if err != nil {
				return err
			}
			return t.showHistory(list)
		},
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most that `many`")
	return c
}

var errNoHistory = errors.New("this store has no place for a history: give --history the URL of a database")

func (t *tool) recent(ctx context.Context, s *store.Store, name string, limit int) ([]past, error) {
	if s.History == nil {
		return nil, exit(exitRefused, errNoHistory)
	}
	list := make([]past, 0)
	for size := limit; ; size = min(size*10, mostRead) {
		records, err := s.History.Recent(ctx, name, size)
		if err != nil {
			return nil, t.historyFailure(ctx, s, name, err)
		}
		list = t.ofNamespace(list[:0], records, limit)
		if len(list) == limit || len(records) < size || size >= mostRead {
			return list, nil
		}
	}
}

// ofNamespace appends up to limit runs of the namespace, and of those whose namespace is not on record.
func (t *tool) ofNamespace(list []past, records []history.Record, limit int) []past {
	for i := range records {
		k, ok := key.Parse(records[i].Key)
		if len(list) < limit && (!ok || k.Namespace == t.namespace) {
			list = append(list, pastOf(&records[i], k.Namespace))
		}
	}
	return list
}

// historyFailure is an error of the history as the engine words those of the driver.
func (t *tool) historyFailure(ctx context.Context, s *store.Store, name string, err error) error {
	if errors.Is(err, store.ErrNoTable) {
		err = fmt.Errorf("%w: leaderctl migrate makes it", err)
	}
	failure := t.failure(ctx, s, "history", name, err)
	if b, ok := errors.AsType[*leader.BackendError](failure); ok && s.HistoryIn != "" {
		b.Backend = s.HistoryIn
	}
	return failure
}

func pastOf(r *history.Record, namespace string) past {
	return past{
		ID: r.ID, Namespace: namespace, Name: r.Name, Node: r.Node, Slot: r.Slot, Fence: r.Fence, Status: r.Status.String(),
		Started: optional(r.Started), Acquired: optional(r.Acquired), Finished: optional(r.Finished),
		Waited: seconds(r.Waited), Held: seconds(r.Held), Attempts: r.Attempts,
		Reason: r.Reason, Holder: r.Holder, Error: r.Error, Lost: r.Lost, Metadata: r.Metadata,
	}
}

func (t *tool) showHistory(list []past) error {
	if t.json {
		return t.printJSON(list)
	}
	rows := [][]string{{"STARTED", "NAME", "STATUS", "NODE", "FENCE", "HELD", "WHY"}}
	for i := range list {
		v := &list[i]
		fence := ""
		if v.Fence != 0 {
			fence = strconv.FormatUint(v.Fence, 10)
		}
		started := ""
		if v.Started != nil {
			started = clock(*v.Started)
		}
		rows = append(rows, []string{
			started, v.Name, v.Status, v.Node, fence, span(time.Duration(v.Held * float64(time.Second))), t.text(why(v)),
		})
	}
	return t.table(rows)
}

// why says what is to be said of how a run ended.
func why(v *past) string {
	text := ""
	for _, part := range []string{v.Reason, v.Lost, v.Error} {
		if part != "" && text != "" {
			text += ": "
		}
		text += part
	}
	if v.Holder != "" {
		text += " (" + v.Holder + " led)"
	}
	return text
}

// recorder records runs in the history of a store. It returns no hooks if there is none.
func (t *tool) recorder(s *store.Store, node string) (hooks leader.Hooks, flush func(ctx context.Context)) {
	if s.History == nil {
		return leader.Hooks{}, func(context.Context) {}
	}
	r := history.NewRecorder(s.History, &history.Options{Node: node, Logger: t.logger(), Timeout: closeTime})
	return r.Hooks(), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = r.Close(ctx) // what is not written was warned of
	}
}
