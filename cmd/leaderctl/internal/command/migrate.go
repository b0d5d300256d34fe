package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

type migration struct {
	Leases  bool `json:"leases"`  // something was needed, and is there
	History bool `json:"history"` // likewise
}

func (t *tool) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables that the store and the history need; repeatable",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := t.within(c.Context())
			defer cancel()
			s, end, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer end()
			m, err := t.migrate(ctx, s)
			if err != nil {
				return err
			}
			if t.json {
				return t.printJSON(m)
			}
			return t.showMigration(m)
		},
	}
}

func (t *tool) migrate(ctx context.Context, s *store.Store) (m migration, err error) {
	if s.Migrate != nil {
		if err := s.Migrate(ctx); err != nil {
			return m, t.failure(ctx, s, "migrate", "", err)
		}
		m.Leases = true
	}
	if s.History != nil {
		if err := s.History.Migrate(ctx); err != nil {
			return m, t.historyFailure(ctx, s, "", err)
		}
		m.History = true
	}
	return m, nil
}

func (t *tool) showMigration(m migration) error {
	for _, part := range []struct {
		name  string
		there bool
	}{{"leases", m.Leases}, {"history", m.History}} {
		text := "nothing is needed"
		if part.there {
			text = "is there"
		}
		if _, err := fmt.Fprintf(t.out, "%-8s %s\n", part.name, text); err != nil {
			return err
		}
	}
	return nil
}
