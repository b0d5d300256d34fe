package command

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completionTime is how long a shell may wait for names.
const completionTime = 2 * time.Second

// completeName offers the names that are led, for the first argument.
func (t *tool) completeName(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || t.settings(c) != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), completionTime)
	defer cancel()
	s, end, err := t.open(ctx)
	if err != nil {
		return nil, directive
	}
	defer end()
	list, err := t.list(ctx, s, false)
	if err != nil {
		return nil, directive
	}
	names := make([]cobra.Completion, 0, len(list))
	for i := range list {
		names = append(names, list[i].Name)
	}
	return slices.Compact(names), directive
}
