package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
	"github.com/goleader/leader/internal/key"
)

// held is a lease as the store has it.
type held struct {
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Slot      *int              `json:"slot,omitempty"`
	Status    string            `json:"status"` // held, kept, free or expired
	Node      string            `json:"node,omitempty"`
	Fence     uint64            `json:"fence,omitempty"`
	Since     *time.Time        `json:"since,omitempty"`
	Remaining float64           `json:"remaining_seconds,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

func heldOf(k key.Key, h backend.Holder) held {
	v := held{
		Namespace: k.Namespace, Name: k.Name, Node: h.Owner, Fence: h.Fence, Since: optional(h.Since),
		Remaining: seconds(h.Remaining), Metadata: h.Metadata, Status: "held",
	}
	if k.Group {
		v.Slot = &k.Slot
	}
	switch {
	case h.Free():
		v.Status = "free"
	case h.Kept:
		v.Status = "kept"
	case h.Remaining == 0:
		v.Status = "expired"
	}
	return v
}

// row is v in a table.
func (v *held) row() []string {
	slot, fence, since := "", "", ""
	if v.Slot != nil {
		slot = strconv.Itoa(*v.Slot)
	}
	if v.Fence != 0 {
		fence = strconv.FormatUint(v.Fence, 10)
	}
	if v.Since != nil {
		since = clock(*v.Since)
	}
	left := span(time.Duration(v.Remaining * float64(time.Second)))
	return []string{v.Name, slot, v.Status, v.Node, fence, since, left}
}

func headOfHeld() []string {
	return []string{"NAME", "SLOT", "STATUS", "NODE", "FENCE", "SINCE", "REMAINING"}
}

func (t *tool) listCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List every name that somebody leads",
		Args:    cobra.NoArgs,
		Example: "  leaderctl list --store redis://localhost\n  leaderctl list --json | jq -r '.[].node'",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			list, err := t.list(ctx, s, all)
			if err != nil {
				return err
			}
			return t.show(list)
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also what is over, as far as the store remembers")
	return c
}

// list asks for all leases of the namespace, in order.
func (t *tool) list(ctx context.Context, s *store.Store, all bool) ([]held, error) {
	return t.listPrefix(ctx, s, key.Prefix(t.namespace), all)
}

func (t *tool) listPrefix(ctx context.Context, s *store.Store, prefix string, all bool) ([]held, error) {
	lister, ok := backend.As[backend.Lister](s.Driver)
	if !ok {
		return nil, fmt.Errorf("list: %w: %s", leader.ErrUnsupported, s.Driver.Name())
	}
	list := make([]held, 0)
	for entry, err := range lister.List(ctx, prefix, all) {
		if err != nil {
			return nil, t.failure(ctx, s, "list", "", err)
		}
		if k, ok := key.Parse(entry.Key); ok && k.Namespace == t.namespace {
			list = append(list, heldOf(k, entry.Holder))
		}
	}
	slices.SortFunc(list, func(a, b held) int { return cmp.Or(cmp.Compare(a.Name, b.Name), compareSlots(a.Slot, b.Slot)) })
	return list, nil
}

// compareSlots puts the lease that is none of a group first.
func compareSlots(a, b *int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

func (t *tool) show(list []held) error {
	if t.json {
		return t.printJSON(list)
	}
	rows := [][]string{headOfHeld()}
	for i := range list {
		rows = append(rows, list[i].row())
	}
	return t.table(rows)
}

// failure is an error of the driver as the engine words it.
func (t *tool) failure(ctx context.Context, s *store.Store, op, name string, err error) error {
	err = withCause(ctx, err)
	return &leader.BackendError{Op: op, Backend: s.Driver.Name(), Name: name, Kind: backend.KindOf(err), Err: err}
}

// withCause is an error of a store with what ended ctx, if that has ended.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	if backend.KindOf(err) == backend.Unknown {
		err = backend.WithKind(err, backend.Unavailable)
	}
	return err
}
