package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/internal/key"
)

// change is a line of watch. Its status is unknown until the store has answered.
type change struct {
	At time.Time `json:"at"`
	held
	Stale bool `json:"stale,omitempty"` // the store cannot be asked
}

func (t *tool) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "watch NAME",
		Short:             "Print who leads under a name, and every change, until it is interrupted",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			e, err := t.elector(s)
			if err != nil {
				return err
			}
			known := false // the store has answered
			for state, err := range e.Watch(ctx, args[0]) {
				if err != nil {
					return err
				}
				known = known || !state.Stale
				if err := t.showChange(args[0], state, known); err != nil {
					return errors.Join(errors.New("watch: nobody reads"), err)
				}
			}
			return nil // who watches ends it by a signal
		},
	}
}

func (t *tool) showChange(name string, state leader.State, known bool) error {
	k := key.Key{Namespace: t.namespace, Name: name}
	v := change{At: time.Now().UTC(), held: heldByState(k, state), Stale: state.Stale}
	if !known {
		v.Status = "unknown"
	}
	if t.json {
		return t.printLine(v)
	}
	text := v.Status
	switch {
	case !known:
		text = "store unavailable, nothing known yet"
	case v.Stale:
		text = "store unavailable, last known: " + v.Status
	case v.Status == "kept":
		text = "kept taken by a minimum lease"
	}
	if v.Node != "" {
		text += " by " + v.Node
	}
	if v.Fence != 0 {
		text += fmt.Sprintf(", fence %d", v.Fence)
	}
	at := v.At.Local().Format("2006-01-02 15:04:05.000")
	_, err := fmt.Fprintf(t.out, "%s  %s  %s\n", at, printable(name), printable(strings.TrimSpace(text)))
	return err
}
