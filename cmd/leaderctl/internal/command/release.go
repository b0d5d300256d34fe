package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
	"github.com/goleader/leader/history"
	"github.com/goleader/leader/internal/key"
)

const (
	// releaseKind is the kind of the records that forced releases leave in the store.
	releaseKind = "forced-release"
	// releaseKept is how long they stay.
	releaseKept = 30 * 24 * time.Hour
)

// forcedRelease is what is remembered of one.
type forcedRelease struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Name   string    `json:"name"`
	Slot   *int      `json:"slot,omitempty"`
	Fence  uint64    `json:"fence"`
	Holder string    `json:"holder,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

type releaseFlags struct {
	fence      uint64
	slot       int
	by, reason string
}

const releaseHelp = `End the lease of a name, or what is kept of it, for whoever holds it.

The lease must be the one with the given fence, which inspect shows: so nobody is ended who came meanwhile. The holder is
told by its next renewal, and until then may go on for up to a third of its lease time, while another leads already. Who
asked, when and why is recorded in the store for 30 days, before anything is released, and in the history.`

func (t *tool) releaseCommand() *cobra.Command {
	var o releaseFlags
	c := &cobra.Command{
		Use:               "release NAME --fence N",
		Short:             "End somebody else's lease, by its fence, on the record",
		Long:              releaseHelp,
		Example:           "  leaderctl release nightly-report --fence 1764450000000001 --reason 'host is gone'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			if o.fence == 0 {
				return usage(errors.New("release needs --fence, the one that inspect shows"))
			}
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			r, err := t.release(ctx, s, args[0], &o)
			if err != nil {
				return err
			}
			if t.json {
				return t.printJSON(r)
			}
			holder := printable(r.Holder)
			_, err = fmt.Fprintf(t.out, "released %s, fence %d, held by %s\n", printable(r.Name), r.Fence, holder)
			return err
		},
	}
	c.Flags().Uint64Var(&o.fence, "fence", 0, "the `fence` of the lease")
	c.Flags().IntVar(&o.slot, "slot", -1, "the `number` of the slot, in a group")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&o.by, "by", "", "`who` asks, for the record; default is the user and host")
	return c
}

func (t *tool) release(ctx context.Context, s *store.Store, name string, o *releaseFlags) (*forcedRelease, error) {
	breaker, ok := backend.As[backend.Breaker](s.Driver)
	if !ok {
		return nil, fmt.Errorf("release %q: %w: %s", name, leader.ErrUnsupported, s.Driver.Name())
	}
	e, err := t.elector(s)
	if err != nil {
		return nil, err
	}
	if _, err := e.State(ctx, name); err != nil { // it checks the name
		return nil, err
	}
	k := key.Key{Namespace: t.namespace, Name: name, Slot: o.slot, Group: o.slot >= 0}
	holder, err := s.Driver.Inspect(ctx, k.String())
	if err != nil {
		return nil, t.failure(ctx, s, "inspect", name, err)
	}
	if holder.Fence != o.fence || holder.Free() {
		return nil, notCurrent(name, o.fence, holder)
	}
	r := &forcedRelease{
		At: time.Now().UTC().Round(time.Millisecond), By: cmp.Or(o.by, asker()), Name: name, Fence: o.fence,
		Holder: holder.Owner, Reason: o.reason,
	}
	if k.Group {
		r.Slot = &k.Slot
	}
	forget, err := t.remember(ctx, s, k, r)
	if err != nil {
		return nil, err
	}
	err = breaker.Break(ctx, k.String(), o.fence)
	if errors.Is(err, backend.ErrConflict) {
		forget()
		return nil, notCurrent(name, o.fence, backend.Holder{})
	}
	if err != nil {
		return nil, t.failure(ctx, s, "release", name, err)
	}
	t.addToHistory(ctx, s, k, r)
	return r, nil
}

func notCurrent(name string, fence uint64, h backend.Holder) error {
	now := "it changed meanwhile"
	switch {
	case h.Free():
		now = "nobody holds it"
	case h.Fence != 0:
		now = fmt.Sprintf("the fence is %d, of %s", h.Fence, h.Owner)
	}
	return exit(exitNotCurrent, fmt.Errorf("release %q: not held with fence %d: %s", name, fence, now))
}

// remember stores who asked, before anything is released. forget takes it back.
func (t *tool) remember(ctx context.Context, s *store.Store, k key.Key, r *forcedRelease) (forget func(), err error) {
	records, ok := backend.As[backend.Records](s.Driver)
	if !ok {
		return nil, fmt.Errorf("release %q: %w: %s cannot record who asked", r.Name, leader.ErrUnsupported, s.Driver.Name())
	}
	value, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	record := backend.Record{Key: k.Record(releaseKind, rand.Text()), Value: value, TTL: releaseKept}
	record.Version, err = records.PutRecord(ctx, record)
	if err != nil {
		return nil, t.failure(ctx, s, "record", r.Name, err)
	}
	return func() {
		// The time for the release may be over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = records.DeleteRecord(ctx, record) // else it ends by itself
	}, nil
}

// forcedReleases are those of a name that the store remembers, newest first.
func (t *tool) forcedReleases(ctx context.Context, s *store.Store, name string) ([]forcedRelease, error) {
	records, ok := backend.As[backend.Records](s.Driver)
	if !ok {
		return nil, nil
	}
	set := key.Key{Namespace: t.namespace, Name: name}.Record(releaseKind, "")
	list, _, err := records.GetRecords(ctx, set)
	if err != nil {
		return nil, t.failure(ctx, s, "record", name, err)
	}
	var releases []forcedRelease
	for i := range list {
		var r forcedRelease
		if err := json.Unmarshal(list[i].Value, &r); err == nil && r.Name == name {
			releases = append(releases, r)
		}
	}
	slices.SortFunc(releases, func(a, b forcedRelease) int { return b.At.Compare(a.At) })
	return releases, nil
}

// addToHistory is for those who read the history alone. That it fails was said, and the store remembers it as well.
func (t *tool) addToHistory(ctx context.Context, s *store.Store, k key.Key, r *forcedRelease) {
	if s.History == nil {
		return
	}
	text := "released by " + r.By
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	err := s.History.Write(ctx, []history.Record{{
		ID: rand.Text(), Name: r.Name, Node: r.Holder, Key: k.String(), Slot: max(k.Slot, 0), Fence: r.Fence,
		Status: history.Lost, Started: r.At, Finished: r.At, Lost: truncate(text, 500),
		Metadata: map[string]string{"forced release by": truncate(r.By, 256)}, // as the status page has it
	}})
	if err != nil {
		t.logger().WarnContext(ctx, "the history does not have the release", "leader.name", r.Name,
			"leader.fence", strconv.FormatUint(r.Fence, 10), "by", r.By, "err", err)
	}
}

func truncate(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "")
}

// asker is the user of this process and its host.
func asker() string {
	name := cmp.Or(os.Getenv("SUDO_USER"), "unknown")
	if u, err := user.Current(); err == nil && name == "unknown" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
