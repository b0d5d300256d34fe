package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
	"github.com/goleader/leader/internal/key"
)

// inspection is what the store knows of a name.
type inspection struct {
	held
	Slots    []held          `json:"slots,omitempty"`
	Releases []forcedRelease `json:"forced_releases,omitempty"`
}

func (t *tool) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect NAME",
		Short:             "Show who leads under a name, in which slots, and who was made to stop",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			v, err := t.inspect(ctx, s, args[0])
			if err != nil {
				return err
			}
			if t.json {
				return t.printJSON(v)
			}
			return t.showInspection(&v)
		},
	}
}

func (t *tool) inspect(ctx context.Context, s *store.Store, name string) (inspection, error) {
	k := key.Key{Namespace: t.namespace, Name: name}
	// The elector checks the name, and bounds the request.
	e, err := t.elector(s)
	if err != nil {
		return inspection{}, err
	}
	state, err := e.State(ctx, name)
	if err != nil {
		return inspection{}, err
	}
	v := inspection{held: heldByState(k, state)}
	if _, ok := backend.As[backend.Lister](s.Driver); ok {
		all, err := t.listPrefix(ctx, s, k.String()+"#", false)
		if err != nil {
			return inspection{}, err
		}
		v.Slots = slices.DeleteFunc(all, func(h held) bool { return h.Slot == nil })
	}
	v.Releases, err = t.forcedReleases(ctx, s, name)
	return v, err
}

// heldByState is a lease as an elector tells it.
func heldByState(k key.Key, s leader.State) held {
	return heldOf(k, backend.Holder{
		Owner: s.Node, Fence: s.Fence, Since: s.Since, Remaining: s.Remaining, Kept: s.Kept, Metadata: s.Metadata,
	})
}

func (t *tool) showInspection(v *inspection) error {
	rows := [][]string{headOfHeld(), v.row()}
	for i := range v.Slots {
		rows = append(rows, v.Slots[i].row())
	}
	if err := t.table(rows); err != nil {
		return err
	}
	for _, k := range sortedKeys(v.Metadata) {
		fmt.Fprintf(t.out, "  %s: %s\n", printable(k), printable(t.text(v.Metadata[k])))
	}
	if len(v.Releases) == 0 {
		return nil
	}
	rows = [][]string{{"FORCED RELEASE", "BY", "OF NODE", "FENCE", "REASON"}}
	for _, r := range v.Releases {
		rows = append(rows, []string{clock(r.At), r.By, r.Holder, strconv.FormatUint(r.Fence, 10), t.text(r.Reason)})
	}
	fmt.Fprintln(t.out)
	return t.table(rows)
}
